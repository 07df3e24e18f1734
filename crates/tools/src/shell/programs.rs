//! Options that make an otherwise harmless program execute, load or write something else. Data.
//!
//! Long options count when abbreviated, as GNU programs and git accept them. `git` is in `git`, languages in `scripts`.

use super::word::Word;

struct Program {
    names: &'static [&'static str],
    long: &'static [&'static str],
    /// Dangerous short options.
    short: &'static str,
    /// Short options that take a value, so that a value is not read as a cluster.
    values: &'static str,
    /// Whole words or `word=` beginnings: `-delete`, `+!`.
    words: &'static [&'static str],
}

const fn program(names: &'static [&'static str], long: &'static [&'static str], short: &'static str, values: &'static str) -> Program {
    Program { names, long, short, values, words: &[] }
}

const fn with_words(names: &'static [&'static str], words: &'static [&'static str]) -> Program {
    Program { names, long: &[], short: "", values: "", words }
}

const PROGRAMS: &[Program] = &[
    with_words(&["find", "gfind", "bfs"], &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"]),
    program(&["fd", "fdfind"], &["base-directory", "search-path", "ignore-file"], "", "EtdjcSogexX"),
    program(&["rg"], &["pre", "hostname-bin", "search-zip", "ignore-file"], "z", "efgtTABCmMjrEd"),
    program(&["ag", "ack"], &["pager", "ackrc", "output"], "", "ABCGgm"),
    program(&["grep", "egrep", "fgrep", "zgrep", "rgrep"], &[], "", "efmABCdD"),
    program(&["sort", "gsort"], &["compress-program", "output", "files0-from", "temporary-directory"], "oT", "ktSo"),
    program(&["shuf"], &["output", "random-source"], "o", "ein"),
    program(&["split"], &["filter"], "", "abClnt"),
    program(&["uniq", "tree", "xxd"], &["output"], "o", ""),
    program(
        &["man", "apropos", "whatis"],
        &["pager", "html", "browser", "config-file", "manpath", "preprocessor", "gxditview", "local-file", "ditroff", "troff-device"],
        "PHCMXZlTt",
        "PHCMLSsermREp",
    ),
    program(&["info", "pinfo"], &["output", "restore", "dribble", "init-file"], "o", ""),
    Program {
        names: &["less", "more", "most", "zless"],
        long: &["log-file", "LOG-FILE", "lesskey-file", "lesskey-src", "lesskey-content", "tag-file"],
        short: "oOkT",
        values: "pPtTkoOxyzj",
        words: &["+"],
    },
    program(&["bat", "batcat", "delta", "diff-so-fancy"], &["pager", "config-file", "diff", "acquire-build"], "", "lHrm"),
    program(
        &["tar", "gtar", "bsdtar"],
        &[
            "to-command",
            "use-compress-program",
            "checkpoint-action",
            "rsh-command",
            "rmt-command",
            "info-script",
            "new-volume-script",
            "absolute-names",
            "index-file",
            "files-from",
            "volno-file",
            "listed-incremental",
        ],
        "IFPGTL",
        "fCbXgHKNVTIFL",
    ),
    program(&["cpio"], &["rsh-command", "absolute-filenames", "no-absolute-filenames"], "", "FHCDEIOMR"),
    program(&["zip"], &["unzip-command", "test"], "T", "bntiPx"),
    program(&["7z", "7za", "unrar"], &[], "", ""),
    program(
        &["rsync"],
        &[
            "rsh",
            "rsync-path",
            "daemon",
            "log-file",
            "config",
            "write-batch",
            "only-write-batch",
            "read-batch",
            "early-input",
            "files-from",
            "temp-dir",
            "backup-dir",
            "partial-dir",
        ],
        "eMT",
        "efTBM",
    ),
    program(&["scp", "sftp"], &[], "SoFD", "ciFloPSDJX"),
    program(&["ssh", "autossh", "mosh"], &["ssh"], "oFEILRDSWwJ", "bcDEeFIiJLlmOopQRSWw"),
    program(
        &["curl"],
        &[
            "output",
            "remote-name",
            "remote-name-all",
            "upload-file",
            "config",
            "proxy",
            "preproxy",
            "resolve",
            "connect-to",
            "url",
            "next",
            "cookie-jar",
            "dump-header",
            "trace",
            "trace-ascii",
            "stderr",
            "libcurl",
            "engine",
            "unix-socket",
            "abstract-unix-socket",
            "netrc-file",
            "output-dir",
            "etag-save",
            "hsts",
            "alt-svc",
            "form",
            "data-binary",
            "quote",
            "doh-url",
            "interface",
            "socks4",
            "socks5",
            "socks5-hostname",
            "proxy1.0",
            "ssl-sessions",
            "url-query",
            "location-trusted",
            "haproxy-clientip",
            "cert",
            "key",
            "cacert",
            "capath",
        ],
        "oOTKxcDFQ:EJ",
        "AbCdDeEFhHkKmoPQrTtuUwxXyYz",
    ),
    program(
        &["wget", "wget2"],
        &[
            "output-document",
            "directory-prefix",
            "output-file",
            "append-output",
            "execute",
            "use-askpass",
            "input-file",
            "config",
            "post-file",
            "body-file",
            "rejected-log",
            "save-cookies",
            "warc-file",
            "hsts-file",
            "unlink",
        ],
        "OPoaei",
        "tTwQPOoaeilDIXARUB",
    ),
    program(&["cargo"], &["config", "manifest-path", "lockfile-path", "artifact-dir", "out-dir", "root"], "CZ", "pFjCZZ"),
    program(&["make", "gmake", "bmake"], &["eval", "include-dir"], "EI", "CfIjloWE"),
    program(&["ninja", "meson", "cmake", "ctest"], &["build", "toolchain", "cache-script"], "PE", "CfjSBDGP"),
    program(
        &["npm", "pnpm", "yarn", "bun", "npx", "bunx", "cnpm"],
        &[
            "script-shell",
            "shell",
            "node-options",
            "userconfig",
            "globalconfig",
            "init-module",
            "git",
            "prefix",
            "cwd",
            "registry",
            "call",
            "package",
            "global",
            "viewer",
            "editor",
            "browser",
            "cafile",
            "https-proxy",
            "proxy",
            "require",
            "use-yarnrc",
            "preload",
        ],
        "gcr",
        "wC",
    ),
    with_words(
        &["go"],
        &[
            "-exec",
            "-toolexec",
            "-vettool",
            "-overlay",
            "-modfile",
            "-pkgdir",
            "-ldflags",
            "-gcflags",
            "-asmflags",
            "-gccgoflags",
            "-w",
            "-C",
        ],
    ),
    program(&["gcc", "g++", "cc", "c++", "clang", "clang++"], &["specs", "plugin", "sysroot"], "B", "IDLloxe"),
    with_words(&["gcc", "g++", "cc", "clang"], &["-wrapper", "-fplugin", "-specs", "-Xclang", "-load"]),
    Program {
        names: &["vim", "vi", "nvim", "view", "ex", "gvim", "rvim", "nano", "emacs", "emacsclient", "ed", "joe", "micro", "hx", "kak"],
        long: &["cmd", "eval", "load", "execute", "funcall", "speller", "operatingdir", "script", "startuptime", "luamod-dev"],
        short: "cSsuUwWel",
        values: "cSsuUwWT",
        words: &["+"],
    },
    program(&["tcpdump", "dumpcap", "tshark"], &["postrotate-command"], "zwW", "zwCGicrsTVyE"),
    program(&["nmap"], &["script", "datadir", "servicedb", "interactive", "resume"], "o", "opiSDegT"),
    program(
        &["psql", "mysql", "mariadb", "sqlite3"],
        &[
            "file",
            "output",
            "log-file",
            "pager",
            "init-command",
            "cmd",
            "init",
            "plugin-dir",
            "tee",
            "defaults-file",
            "defaults-extra-file",
        ],
        "foL",
        "cdefhLopPRTUvqDuS",
    ),
    program(
        &["pandoc", "pdflatex", "latex", "xelatex", "lualatex", "tex", "latexmk"],
        &["filter", "lua-filter", "pdf-engine", "shell-escape", "output", "extract-media", "template", "defaults"],
        "FLo",
        "ftoFLMHAB",
    ),
    with_words(&["pdflatex", "latex", "xelatex", "lualatex", "tex"], &["-shell-escape", "-enable-write18", "-output-directory"]),
    program(&["fzf", "sk"], &["preview", "bind", "listen", "execute"], "", "qnxf"),
    program(&["zsh", "bash", "sh", "dash", "ksh"], &["rcfile", "init-file"], "", "cOo"),
    program(&["openssl"], &["engine", "provider", "config"], "", ""),
    with_words(&["openssl"], &["-engine", "-provider", "-provider-path", "-config", "-out", "-writerand"]),
    program(&["ctags", "etags", "universal-ctags"], &["options", "_echo", "langdef"], "fo", "fILo"),
    program(&["file"], &["compile", "magic-file"], "Cm", "Fmfe"),
    program(&["date"], &["set", "file"], "sf", "dfrsI"),
    program(&["ld", "ar", "nm", "objdump", "strip", "objcopy"], &["plugin", "dynamic-linker", "plugin-opt"], "", "LlIoTe"),
    program(
        &["journalctl", "systemctl", "loginctl", "hostnamectl"],
        &["root", "image", "machine", "host", "flush", "vacuum-size", "vacuum-time", "rotate", "cursor-file"],
        "MH",
        "unopMHDt",
    ),
    program(&["gh", "glab"], &["web", "editor", "browser", "input", "output", "clone"], "weO", "RtbBHhlamF"),
    program(&["tee"], &[], "", ""),
    program(&["wc", "du"], &["files0-from", "exclude-from"], "X", "dBtX"),
    program(&["diff", "sdiff", "diff3"], &["output", "diff-program", "to-file", "from-file", "exclude-from"], "o", "FILUCWxXSDow"),
    program(&["patch"], &["output", "reject-file", "get", "directory", "prefix"], "ordg", "BDFgioprVYzd"),
    program(&["dot", "neato", "ffmpeg", "convert", "magick"], &["script"], "", ""),
    program(
        &["ansible", "ansible-playbook", "terraform", "helm", "kubectl"],
        &["kubeconfig", "post-renderer", "kustomize", "module-path", "plugin-dir", "chdir", "inventory"],
        "",
        "",
    ),
    program(
        &["docker", "podman"],
        &["privileged", "host", "config", "volume", "mount", "pid", "device", "cap-add", "context", "entrypoint"],
        "Hv",
        "HlcvpewunfthmDs",
    ),
    program(
        &["pytest", "py.test"],
        &["basetemp", "rootdir", "confcutdir", "junitxml", "junit-xml", "log-file", "override-ini"],
        "cp",
        "ckmnoprWpx",
    ),
    program(&["cp", "mv", "install", "ln"], &["strip-program"], "", "tSgmo"),
    program(
        &["dpkg", "apt", "apt-get", "dnf", "yum", "apk", "pacman", "brew", "rpm"],
        &[
            "option",
            "root",
            "admindir",
            "instdir",
            "pre-invoke",
            "post-invoke",
            "installroot",
            "setopt",
            "config",
            "define",
            "pipe",
            "hookdir",
            "eval",
        ],
        "oc",
        "otcqD",
    ),
    program(
        &["pip", "pip3", "uv", "poetry", "pipenv"],
        &[
            "target",
            "prefix",
            "root",
            "user",
            "src",
            "python",
            "index-url",
            "extra-index-url",
            "find-links",
            "log",
            "editable",
            "global-option",
            "config-settings",
            "build-option",
            "install-option",
            "directory",
            "project",
            "config-file",
        ],
        "tieC",
        "rctieCf",
    ),
    program(&["jq", "yq", "gojq"], &["from-file", "rawfile", "slurpfile", "in-place", "library-path", "output"], "fLi", "fL"),
    program(&["env"], &["split-string", "block-signal"], "S", "uCS"),
];

/// The option among the words that does more than the program's name promises.
pub(super) fn hazard(name: &str, arguments: &[Word]) -> Option<String> {
    let mut entries = PROGRAMS.iter().filter(|program| program.names.contains(&name)).peekable();
    entries.peek()?;
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let bundle = matches!(name, "tar" | "gtar" | "bsdtar")
        .then(|| texts.first().filter(|text| !text.starts_with('-')).map(|text| format!("-{text}")))
        .flatten();
    entries.find_map(|program| {
        let mut ended = false;
        bundle.iter().chain(&texts).find_map(|text| {
            // GNU programs take options after operands, but not after `--`; words of find and go have no such end.
            ended |= text == "--";
            let found = program.words.iter().any(|word| is_word(text, word)) || (!ended && program.option(text));
            found.then(|| format!("`{text}` makes {name} execute, load or write something else"))
        })
    })
}

fn is_word(text: &str, word: &str) -> bool {
    let single = text.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(text);
    (word == "+" && text.starts_with('+')) || single == word || single.strip_prefix(word).is_some_and(|rest| rest.starts_with('='))
}

impl Program {
    fn option(&self, text: &str) -> bool {
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return !name.is_empty() && self.long.iter().any(|option| *option == name || (option.starts_with(name) && 2 <= name.len()));
        }
        let Some(cluster) = text.strip_prefix('-').filter(|cluster| !cluster.is_empty()) else { return false };
        for letter in cluster.chars() {
            if self.short.contains(letter) {
                return true;
            }
            if self.values.contains(letter) {
                return false;
            }
        }
        false
    }
}

/// Programs whose words are never paths: they print or compare them.
pub(super) fn takes_no_paths(name: &str) -> bool {
    matches!(
        name,
        "echo"
            | "printf"
            | "true"
            | "false"
            | ":"
            | "expr"
            | "seq"
            | "basename"
            | "dirname"
            | "tr"
            | "export"
            | "declare"
            | "typeset"
            | "local"
            | "readonly"
            | "unset"
            | "set"
            | "shift"
            | "return"
            | "exit"
            | "let"
            | "kill"
            | "sleep"
            | "date"
            | "which"
            | "type"
            | "hash"
            | "alias"
            | "eval"
            | "trap"
            | "command"
            | "builtin"
            | "wait"
            | "jobs"
            | "curl"
            | "wget"
            | "ssh"
            | "yes"
    )
}

/// Options that take a separator or a text: their value is no path, joined or not.
const TEXT_OPTIONS: &[(&str, &str)] = &[
    ("cut", "d"),
    ("awk", "Fv"),
    ("gawk", "Fv"),
    ("mawk", "Fv"),
    ("sort", "t"),
    ("paste", "d"),
    ("column", "so"),
    ("xargs", "dIiE"),
    ("join", "t"),
    ("read", "dp"),
    ("mapfile", "d"),
    ("readarray", "d"),
    ("grep", "e"),
    ("egrep", "e"),
    ("fgrep", "e"),
    ("rg", "egr"),
    ("git", "mGS"),
    ("sed", "es"),
    ("test", ""),
    ("printf", "v"),
    ("gh", "tbF"),
    ("jq", ""),
];

pub(super) fn takes_text(name: &str, letter: char) -> bool {
    TEXT_OPTIONS.iter().any(|(program, letters)| *program == name && letters.contains(letter))
}

/// Long options whose value is text, for any program.
pub(super) fn is_text_option(long: &str) -> bool {
    matches!(
        long,
        "grep"
            | "format"
            | "pretty"
            | "message"
            | "author"
            | "date"
            | "since"
            | "until"
            | "after"
            | "before"
            | "regexp"
            | "glob"
            | "iglob"
            | "include"
            | "exclude"
            | "name"
            | "title"
            | "body"
            | "delimiter"
            | "field-separator"
            | "separator"
            | "color"
            | "expression"
            | "replace"
            | "exclude-dir"
            | "include-dir"
            | "ignore"
            | "jq"
            | "filter"
            | "label"
    )
}

/// Operands that are patterns or programs, before the files begin.
pub(super) fn leading_texts(name: &str, texts: &[String]) -> usize {
    let given = |short: &[&str], long: &[&str]| {
        texts.iter().any(|text| {
            short.iter().any(|option| text.starts_with(option) && !text.starts_with("--"))
                || long.iter().any(|option| text.starts_with(option))
        })
    };
    match name {
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "zgrep" | "rgrep" => {
            usize::from(!given(&["-e", "-f"], &["--regexp", "--file", "--files"]))
        }
        "sed" | "gsed" => usize::from(!given(&["-e", "-f", "-ne", "-nf"], &["--expression", "--file"])),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => usize::from(!given(&["-f"], &["--file"])),
        "jq" | "yq" | "gojq" | "fd" | "fdfind" | "chmod" | "chown" | "chgrp" | "timeout" | "nice" => 1,
        _ => 0,
    }
}
