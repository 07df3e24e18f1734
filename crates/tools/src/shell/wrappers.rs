//! Programs that run the program named by their words. Data, and how to find the start of the inner command.
//!
//! Programs with a grammar of their own (`env`, `find`, shells, ...) are in `inner`.

use super::word::Word;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The rest is a command with its arguments.
    Command,
    /// The rest, joined by blanks, is read by a shell.
    Shell,
    /// As `Command`, but only what is denied counts: the outer name is what the user made a rule for.
    Soft,
}

pub(super) struct Wrapper {
    names: &'static [&'static str],
    pub(super) kind: Kind,
    /// Short options that take a value, and those that do not.
    values: &'static str,
    flags: &'static str,
    /// Long options whose value is the next word.
    long_values: &'static [&'static str],
    /// Words between the options and the command: a duration, a host, a lock file.
    skip: usize,
}

const fn command(
    names: &'static [&'static str],
    values: &'static str,
    flags: &'static str,
    long_values: &'static [&'static str],
    skip: usize,
) -> Wrapper {
    Wrapper { names, kind: Kind::Command, values, flags, long_values, skip }
}

const fn shell(
    names: &'static [&'static str],
    values: &'static str,
    flags: &'static str,
    long_values: &'static [&'static str],
    skip: usize,
) -> Wrapper {
    Wrapper { names, kind: Kind::Shell, values, flags, long_values, skip }
}

const fn soft(names: &'static [&'static str], skip: usize) -> Wrapper {
    Wrapper { names, kind: Kind::Soft, values: "", flags: "", long_values: &[], skip }
}

const WRAPPERS: &[Wrapper] = &[
    command(&["timeout", "gtimeout"], "ks", "v", &["kill-after", "signal"], 1),
    command(&["nice"], "n", "", &["adjustment"], 0),
    command(&["ionice"], "cnpPu", "t", &["class", "classdata", "pid"], 0),
    command(
        &[
            "nohup",
            "setsid",
            "chronic",
            "ifne",
            "unbuffer",
            "eatmydata",
            "torify",
            "torsocks",
            "dbus-launch",
            "catchsegv",
            "daemonize",
            "softlimit",
            "linux32",
            "linux64",
            "hardlink",
        ],
        "",
        "cfwpvnq",
        &[],
        0,
    ),
    command(&["stdbuf"], "ioe", "", &["input", "output", "error"], 0),
    command(
        &["xargs", "gxargs"],
        "adEILnPsJRS",
        "0rtpxoeil",
        &["arg-file", "delimiter", "eof", "max-lines", "max-args", "max-procs", "max-chars", "process-slot-var"],
        0,
    ),
    command(
        &["sudo", "gosudo"],
        "ugphCcTtrRDU",
        "AbBEeHikKlNnPSsVv",
        &["user", "group", "prompt", "host", "close-from", "command-timeout", "role", "type", "chroot", "chdir", "other-user"],
        0,
    ),
    command(&["doas"], "uCa", "nsL", &[], 0),
    command(&["pkexec", "kdesu", "gksu", "gksudo"], "u", "", &["user"], 0),
    command(&["gosu", "su-exec", "setuidgid", "envuidgid", "s6-setuidgid", "s6-envuidgid", "envdir", "s6-envdir"], "", "", &[], 1),
    command(&["chpst"], "uUbenoprcfmdlt/", "vP012", &[], 0),
    command(&["logsave"], "", "asv", &[], 1),
    command(&["setlock"], "", "nNxX", &[], 1),
    command(&["lockf"], "t", "knswp", &[], 1),
    command(&["choom"], "np", "", &["adjust", "pid"], 0),
    command(&["aa-exec"], "pn", "dvi", &["profile", "namespace"], 0),
    command(&["systemd-cat"], "tp", "", &["identifier", "priority", "stderr-priority", "level-prefix", "namespace"], 0),
    command(
        &["run0"],
        "ugDp",
        "i",
        &["unit", "property", "description", "slice", "user", "group", "nice", "chdir", "setenv", "background"],
        0,
    ),
    command(&["dtach"], "nAcNperR", "Ez", &[], 0),
    command(&["abduco"], "ncAaef", "frlqv", &[], 0),
    command(&["nq"], "", "cqtw", &[], 0),
    command(&["timelimit"], "TtSs", "pq", &[], 0),
    command(&["nocache", "steam-run", "with-contenv"], "", "n", &[], 0),
    command(&["gdbserver"], "", "", &["wrapper"], 1),
    command(&["runcon"], "turl", "c", &["type", "user", "role", "range"], 0),
    command(&["runuser"], "ugG", "lmpP", &["user", "group", "supp-group"], 0),
    command(&["command"], "", "pvV", &[], 0),
    command(&["builtin"], "", "", &[], 0),
    command(&["exec"], "a", "cl", &[], 0),
    command(&["time", "gtime"], "fo", "apvlhV", &["format", "output"], 0),
    command(&["chroot"], "", "", &["groups", "userspec"], 1),
    command(&["unshare"], "SGRw", "mnpuiUCTfrc", &["root", "wd", "setuid", "setgid"], 0),
    command(&["nsenter"], "tSGrw", "mnpuiUCTaFeZ", &["target", "setuid", "setgid"], 0),
    command(&["taskset"], "", "acp", &[], 1),
    command(&["chrt"], "TPD", "abdfiomrRv", &[], 1),
    command(
        &["numactl", "cgexec", "schedtool", "cpulimit", "trickle"],
        "CcNmpigludL",
        "aslHS",
        &["cpunodebind", "membind", "physcpubind", "interleave", "preferred", "limit"],
        0,
    ),
    command(&["prlimit"], "po", "", &["pid", "output"], 0),
    command(
        &["setpriv", "firejail", "proot", "systemd-inhibit", "caffeinate"],
        "ltrubwi",
        "ces",
        &["reuid", "regid", "groups", "bounding-set"],
        0,
    ),
    command(&["fakeroot", "fakechroot"], "lsibd", "uvh", &["lib", "faked"], 0),
    command(
        &["systemd-run"],
        "pEutMH",
        "dqPSrG",
        &["unit", "property", "description", "slice", "uid", "gid", "setenv", "on-calendar", "working-directory"],
        0,
    ),
    command(
        &["strace", "ltrace"],
        "oepPsaEuSXIObA",
        "fFcCdihkqrtTvxyYzZnSLNb",
        &["output", "trace", "attach", "env", "string-limit", "user"],
        0,
    ),
    command(&["valgrind", "perf-stat", "heaptrack", "rr", "hyperfine", "samply"], "", "qv", &[], 0),
    command(&["xvfb-run"], "efnpsw", "al", &["auth-file", "error-file", "server-num", "server-args", "wait"], 0),
    command(
        &["dbus-run-session", "proxychains", "proxychains4", "rlwrap", "winpty", "wine", "arch", "ccache", "distcc", "sccache", "bear"],
        "f",
        "q",
        &["config-file"],
        0,
    ),
    command(&["faketime"], "", "fm", &[], 1),
    command(&["busybox", "toybox"], "", "", &[], 0),
    command(&["start-stop-daemon"], "xncuagpdPNIk", "SKTbmoqtv", &["exec", "pidfile", "user", "chuid", "chdir"], 0),
    command(&["jobs"], "", "xlnprs", &[], 0),
    command(&["unbuffer", "entr", "when-changed", "watchexec", "reflex", "nodemon"], "wesrdfi", "cdprnaz", &["watch", "exts", "signal"], 0),
    command(&["noglob", "nocorrect"], "", "", &[], 0),
    shell(&["sg"], "", "c", &[], 1),
    command(&["sshpass"], "pfdP", "evVh", &[], 0),
    command(&["ssh-agent"], "atEPO", "csDdk", &[], 0),
    command(
        &["setarch", "i386", "i486", "i586", "i686", "x86_64", "aarch64", "arm64", "ppc", "ppc64", "s390", "s390x", "uname26"],
        "",
        "RBFILSTXZ3v",
        &[],
        0,
    ),
    command(&["dumb-init", "tini", "tini-static", "catatonit"], "per", "csvwghl", &["rewrite"], 0),
    soft(&["bwrap"], 0),
    shell(&["autossh"], "bcDEeFIiJLlmMOopQRSWwBP", "46AaCfGgKkNnqsTtVvXxYy", &[], 1),
    shell(&["ssh", "mosh", "rsh", "dbclient"], "bcDEeFIiJLlmOopQRSWwBP", "46AaCfGgKkMNnqsTtVvXxYy", &[], 1),
    shell(&["watch", "gwatch"], "nq", "bcdeghptvwx", &["interval", "equexit"], 0),
    soft(&["npx", "bunx", "pnpx", "uvx", "pipx"], 0),
    // Words before the command are settings, hosts or containers.
    soft(&["systemd-nspawn", "minijail0", "nsjail", "sem", "cross-env", "cross-env-shell", "pdsh", "clush", "pssh", "parallel-ssh"], 0),
    soft(&["dotenv", "dotenvx", "retry", "pee", "mispipe", "ts", "tsp", "daemon", "byobu", "ttyrec", "asciinema", "please"], 0),
    soft(
        &[
            "machinectl",
            "tox",
            "volta",
            "fnm",
            "nvm",
            "op",
            "aws-vault",
            "chamber",
            "doppler",
            "foreman",
            "honcho",
            "pueue",
            "distrobox-enter",
        ],
        0,
    ),
    soft(
        &[
            "docker",
            "podman",
            "nerdctl",
            "kubectl",
            "oc",
            "lxc",
            "incus",
            "flatpak-spawn",
            "toolbox",
            "distrobox",
            "nix",
            "nix-shell",
            "mise",
            "asdf",
            "direnv",
            "rustup",
            "poetry",
            "uv",
            "pipenv",
            "bundle",
            "conda",
            "mamba",
            "hatch",
            "rye",
            "pdm",
            "rbenv",
            "pyenv",
            "nodenv",
            "npm",
            "pnpm",
            "yarn",
            "ip",
            "vagrant",
            "gdb",
            "lldb",
            "tmux",
            "screen",
            "coreutils",
        ],
        1,
    ),
];

pub(super) fn wrapper(name: &str) -> Option<&'static Wrapper> {
    let bare = multi_call(name);
    WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&bare))
}

/// Whether a word after this one may be a command.
pub(super) fn is_wrapper(name: &str) -> bool {
    wrapper(name).is_some_and(|wrapper| wrapper.kind != Kind::Soft)
        || is_shell(name)
        || matches!(name, "env" | "find" | "fd" | "fdfind" | "eval" | "parallel" | "su" | "script" | "flock")
}

/// `busybox.static`, `busybox-1.36`, the loader started by hand.
fn multi_call(name: &str) -> &str {
    if name.starts_with("busybox") {
        "busybox"
    } else if name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld.so") || name.starts_with("ld64.so") {
        "builtin"
    } else {
        name
    }
}

pub(super) fn is_shell(name: &str) -> bool {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-');
    matches!(
        name,
        "bash"
            | "sh"
            | "dash"
            | "zsh"
            | "ksh"
            | "mksh"
            | "pdksh"
            | "lksh"
            | "oksh"
            | "ash"
            | "hush"
            | "rbash"
            | "rzsh"
            | "rksh"
            | "fish"
            | "csh"
            | "tcsh"
            | "yash"
            | "posh"
            | "elvish"
            | "nu"
            | "pwsh"
            | "powershell"
            | "osh"
            | "oil"
            | "xonsh"
            | "brush"
    )
}

/// Programs of other languages, whose code may stand in their words.
pub(super) fn is_interpreter(name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    matches!(
        bare,
        "python"
            | "pypy"
            | "node"
            | "nodejs"
            | "deno"
            | "bun"
            | "perl"
            | "ruby"
            | "php"
            | "lua"
            | "luajit"
            | "tclsh"
            | "Rscript"
            | "rscript"
            | "julia"
            | "awk"
            | "gawk"
            | "mawk"
            | "nawk"
    )
}

pub(super) fn basename(name: &str) -> &str {
    name.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(name)
}

/// Where the inner command may start, in words after the outer name; more than one when an option is not known.
pub(super) struct Starts {
    pub(super) first: usize,
    /// Further places, for what is denied only.
    pub(super) others: Vec<usize>,
    /// The inner command is only looked up, not run.
    pub(super) lookup: bool,
}

impl Wrapper {
    pub(super) fn starts(&self, arguments: &[Word]) -> Starts {
        let mut starts = Starts { first: arguments.len(), others: Vec::new(), lookup: false };
        let (mut at, mut skip) = (0, self.skip);
        while at < arguments.len() {
            let text = arguments[at].text();
            if text == "--" {
                at += 1;
                if skip == 0 {
                    break;
                }
                continue;
            }
            if let Some(long) = text.strip_prefix("--") {
                let known = self.long_values.contains(&long);
                if !known && !long.contains('=') {
                    starts.others.push(at + 2);
                }
                at += if known { 2 } else { 1 };
                continue;
            }
            if 1 < text.len() && text.starts_with('-') && !arguments[at].is_dynamic() {
                starts.lookup |= self.names[0] == "command" && text.contains(['v', 'V']);
                at += self.short(&text[1..], at, &mut starts);
                continue;
            }
            // `sudo VAR=x cmd`, `env`-like words in front.
            if self.skip == 0 && is_assignment(&text) && matches!(self.names[0], "sudo" | "doas" | "systemd-run") {
                at += 1;
                continue;
            }
            if skip == 0 {
                break;
            }
            skip -= 1;
            at += 1;
        }
        starts.first = at.min(arguments.len());
        if self.names[0] == "runcon" {
            // The first word is a whole context if no option gives a part of one.
            starts.others.push(starts.first);
            starts.first = if at == 0 { 1.min(arguments.len()) } else { starts.first };
        }
        if self.kind == Kind::Soft {
            starts.others.extend(starts.first + 1..arguments.len());
        }
        starts.others.retain(|start| *start < arguments.len() && *start != starts.first);
        starts
    }

    /// How many words a cluster of short options takes.
    fn short(&self, cluster: &str, at: usize, starts: &mut Starts) -> usize {
        for (index, letter) in cluster.char_indices() {
            // Of xargs these take a value only if it is joined.
            if self.names[0] == "xargs" && matches!(letter, 'i' | 'l' | 'e') {
                return 1;
            }
            if self.values.contains(letter) {
                let joined = index + letter.len_utf8() < cluster.len();
                if !joined && self.flags.contains(letter) {
                    starts.others.push(at + 1);
                }
                return if joined { 1 } else { 2 };
            }
            if !self.flags.contains(letter) && !letter.is_ascii_digit() {
                starts.others.push(at + 2);
                return 1;
            }
        }
        1
    }
}

pub(super) fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|letter: char| letter.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
