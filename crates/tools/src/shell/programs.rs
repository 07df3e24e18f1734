//! Options that make an otherwise harmless program execute, load or write something else. Data.
//!
//! Long options count when abbreviated, as GNU programs and git accept them. `git` is in `git`, languages in `scripts`.

use std::path::Path;

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
    program(&["cargo"], &["config", "root"], "CZ", "pFjCZ"),
    program(&["make", "gmake", "bmake"], &["eval", "include-dir"], "EI", "CfIjloWE"),
    program(&["ninja", "meson", "cmake", "ctest"], &["toolchain"], "PE", "CfjSBDGP"),
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
            "registry",
            "call",
            "global",
            "viewer",
            "editor",
            "browser",
            "cafile",
            "https-proxy",
            "proxy",
            "use-yarnrc",
            "preload",
        ],
        "gc",
        "wC",
    ),
    with_words(&["go"], &["-exec", "-toolexec", "-vettool", "-overlay", "-modfile", "-pkgdir", "-gccgoflags", "-C"]),
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
    with_words(&["openssl"], &["-engine", "-provider", "-provider-path", "-config", "-out", "-writerand", "-pre", "-post"]),
    program(&["ctags", "etags", "universal-ctags"], &["options", "_echo", "langdef"], "fo", "fILo"),
    program(&["file"], &["compile", "magic-file"], "Cm", "Fmfe"),
    program(&["date"], &["set", "file"], "sf", "dfrsI"),
    // Debuggers, version control, databases and network tools with a shell inside.
    with_words(&["gdb"], &["-ex", "-iex", "-x", "-ix", "-eval-command", "-init-eval-command", "-command", "-init-command"]),
    program(&["lldb"], &["one-line", "one-line-before-file", "source", "source-before-file", "source-quietly"], "oOsSQ", "oOsSfcpnawlr"),
    program(&["hg"], &["config", "cwd", "config-file"], "", "R"),
    program(&["svn", "svnadmin"], &["config-option", "config-dir", "editor-cmd", "diff-cmd", "diff3-cmd"], "", ""),
    with_words(&["sqlite3"], &["-cmd", "-init"]),
    program(&["nc", "ncat", "netcat"], &["exec", "sh-exec", "lua-exec"], "ec", "eciopqswxXIOPTVgG"),
    program(&["ssh-keygen"], &[], "D", "bCFfGIJKLmMnNOPQRrsStTVwWYzZ"),
    program(&["ssh-add"], &[], "s", "CEeHhStT"),
    program(&["gradle", "gradlew"], &["init-script"], "I", "bcDgIpPx"),
    with_words(&["ld"], &["-plugin"]),
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
    program(&["patch"], &["output", "reject-file", "get"], "org", "BDFgioprVYzd"),
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
            "index-url",
            "extra-index-url",
            "find-links",
            "log",
            "global-option",
            "config-settings",
            "build-option",
            "install-option",
            "config-file",
        ],
        "tiC",
        "rctieCf",
    ),
    program(&["env"], &["split-string", "block-signal"], "S", "uCS"),
];

/// Harmless options that begin like a dangerous one.
const WHOLE: &[&str] = &["pre", "partial", "backup", "data", "checkpoint", "file", "list", "exclude"];

/// The option among the words that does more than the program's name promises.
pub(super) fn hazard(name: &str, arguments: &[Word]) -> Option<String> {
    let inside = arguments.iter().map(Word::text).find(|text| is_hazard_inside(name, text));
    if let Some(text) = inside.or_else(|| loaded(name, arguments)) {
        return Some(format!("`{text}` makes {name} execute, load or write something else"));
    }
    let mut entries = PROGRAMS.iter().filter(|program| program.names.contains(&name)).peekable();
    entries.peek()?;
    let mut texts: Vec<String> = arguments.iter().map(Word::text).collect();
    if is_find(name) {
        texts = without_compared(arguments);
    }
    if matches!(name, "tar" | "gtar" | "bsdtar")
        && let Some(words) = tar_hazard(&texts)
    {
        return Some(words);
    }
    entries.find_map(|program| {
        let mut ended = false;
        texts.iter().find_map(|text| {
            // GNU programs take options after operands, but not after `--`; words of find and go have no such end.
            ended |= text == "--";
            let found = program.words.iter().any(|word| is_word(text, word))
                || (!ended && program.option(text))
                || (name == "go" && is_go_setting(&texts, text));
            found.then(|| format!("`{text}` makes {name} execute, load or write something else"))
        })
    })
}

/// Words that are a little language with a way to the shell, or name what is loaded or linked.
fn is_hazard_inside(name: &str, text: &str) -> bool {
    match name {
        "sqlite3" => {
            [".shell", ".system", ".load", ".once", ".output", ".log"].iter().any(|command| text.trim_start().starts_with(command))
        }
        "psql" => text.contains("\\!") || text.contains("\\copy") || text.contains("\\o") || text.contains("\\g |"),
        "socat" => ["exec:", "system:", "shell:"].iter().any(|kind| text.to_ascii_lowercase().contains(kind)),
        "java" => ["-javaagent:", "-agentpath:", "-agentlib:"].iter().any(|agent| text.starts_with(agent)),
        "rustc" => text.contains("linker=") || text.contains("link-arg"),
        // `s/x/y/e` runs what it makes of a name.
        "tar" | "gtar" => {
            let flags = text
                .strip_prefix("--transform=")
                .or_else(|| text.strip_prefix("--xform="))
                .and_then(|script| script.rsplit_once(['/', ',', '|', '#']));
            flags.is_some_and(|(_, flags)| flags.contains('e'))
        }
        _ => false,
    }
}

/// A file of the project that is loaded before the program the words name; packages by name are what everybody uses.
fn loaded(name: &str, arguments: &[Word]) -> Option<String> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let options: &[&str] = match name {
        "node" | "nodejs" => &["-r", "--require", "--import", "--loader", "--experimental-loader"],
        "tar" | "gtar" => &["--transform", "--xform"],
        "crontab" if !texts.iter().any(|text| text == "-l") => return Some(texts.first().cloned().unwrap_or_default()),
        _ => return None,
    };
    let value = |at: usize| {
        let joined = options.iter().find_map(|option| texts[at].strip_prefix(option).and_then(|rest| rest.strip_prefix('=')));
        joined.or_else(|| options.contains(&texts[at].as_str()).then(|| texts.get(at + 1).map_or("", String::as_str)))
    };
    let dangerous = |value: &str| match name {
        "tar" | "gtar" => is_hazard_inside(name, &format!("--transform={value}")),
        _ => value.starts_with(['.', '/', '~', '$']),
    };
    (0..texts.len()).find(|at| value(*at).is_some_and(dangerous)).map(|at| texts[at].clone())
}

/// Whether some option of this program does more than its name promises.
pub(super) fn has_hazards(name: &str) -> bool {
    name == "git"
        || PROGRAMS.iter().any(|program| {
            program.names.contains(&name) && !(program.long.is_empty() && program.short.is_empty() && program.words.is_empty())
        })
}

/// Whether something is known of its options or words, so that none of them is a command by surprise.
pub(super) fn is_known(name: &str) -> bool {
    takes_no_paths(name) || name == "git" || name.starts_with("git-") || PROGRAMS.iter().any(|program| program.names.contains(&name))
}

pub(super) fn is_find(name: &str) -> bool {
    matches!(name, "find" | "gfind" | "bfs")
}

/// Words of find without the texts it compares names with. A test after another word that begins with a dash may be
/// that one's value, so its own value stays.
fn without_compared(arguments: &[Word]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut skip = false;
    for (at, word) in arguments.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        let text = word.text();
        let before = at.checked_sub(1).map(|before| &arguments[before]);
        let known = before.is_none_or(|before| before.literal().is_some_and(|before| !before.starts_with('-')));
        skip = known && is_find_text(&text);
        texts.push(text);
    }
    texts
}

/// The old bundle of letters without a dash, each with its own word, and archives on another host.
fn tar_hazard(texts: &[String]) -> Option<String> {
    let dangerous = |text: &&String| !text.starts_with('-') && text.contains(|letter| "IFPGTL".contains(letter));
    let remote = |text: &&String| {
        let name = text.split_once('=').map_or(text.as_str(), |(_, value)| value);
        name.split('/').next().is_some_and(|start| start.contains(':'))
    };
    let bundle = texts.first().filter(dangerous).map(|text| format!("`{text}` makes tar execute, load or write something else"));
    bundle.or_else(|| texts.iter().find(remote).map(|text| format!("`{text}` is an archive on another host")))
}

/// `go env -w`, and another linker by `-ldflags`.
fn is_go_setting(texts: &[String], text: &str) -> bool {
    (text == "-w" && texts.first().is_some_and(|first| first == "env"))
        || (texts.iter().any(|text| text.contains("ldflags")) && text.contains("extld"))
}

fn is_word(text: &str, word: &str) -> bool {
    let single = text.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(text);
    (word == "+" && text.starts_with('+')) || single == word || single.strip_prefix(word).is_some_and(|rest| rest.starts_with('='))
}

impl Program {
    fn option(&self, text: &str) -> bool {
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            let shortens = |option: &&str| option.starts_with(name) && 2 <= name.len() && !WHOLE.contains(&name);
            return !name.is_empty() && self.long.iter().any(|option| *option == name || shortens(option));
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

/// Where the system keeps its programs: running one reads nothing of anybody's.
pub(crate) fn is_installed(path: &Path) -> bool {
    ["/bin", "/sbin", "/usr", "/opt", "/nix/store", "/snap/bin"].iter().any(|folder| path.starts_with(folder))
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
    ("gh", "tb"),
    ("jq", ""),
];

/// Where the letter of a cluster stands whose value is text; nothing when another one takes the rest.
pub(super) fn text_letter(name: &str, cluster: &str) -> Option<usize> {
    let takes_text = |letter: char| TEXT_OPTIONS.iter().any(|(program, letters)| *program == name && letters.contains(letter));
    let others = match name {
        "git" => "CFcOnLUXbotujM",
        "sed" | "gsed" => "fil",
        "xargs" => "anPLs",
        "awk" | "gawk" | "mawk" => "fEil",
        "gh" => "FRHOB",
        _ => "",
    };
    let takes_rest = |letter: char| {
        !letter.is_ascii_alphabetic()
            || others.contains(letter)
            || PROGRAMS.iter().any(|program| program.names.contains(&name) && program.values.contains(letter))
    };
    cluster
        .char_indices()
        .skip(1)
        .find(|(_, letter)| takes_text(*letter) || takes_rest(*letter))
        .filter(|(_, letter)| takes_text(*letter))
        .map(|(at, _)| at)
}

/// Long options of these programs that always take a text, as the next word if not joined.
pub(super) fn takes_long_text(name: &str, long: &str) -> bool {
    let options: &[&str] = match name {
        "git" => &["message", "grep", "author", "since", "until", "after", "before", "trailer"],
        "grep" | "egrep" | "fgrep" => &["regexp", "include", "exclude", "exclude-dir"],
        "rg" => &["regexp", "glob", "iglob", "replace", "type", "type-not"],
        "gh" | "glab" => &["title", "body", "label", "jq", "template", "search", "notes", "message", "description"],
        "jq" | "gojq" => &["indent"],
        "awk" | "gawk" | "mawk" => &["field-separator", "assign"],
        "sort" => &["field-separator", "key"],
        "cut" => &["delimiter"],
        "sed" | "gsed" => &["expression"],
        _ => &[],
    };
    options.contains(&long)
}

/// Tests of find that compare with a text.
pub(super) fn is_find_text(text: &str) -> bool {
    matches!(
        text,
        "-name"
            | "-iname"
            | "-path"
            | "-ipath"
            | "-wholename"
            | "-iwholename"
            | "-regex"
            | "-iregex"
            | "-lname"
            | "-ilname"
            | "-printf"
            | "-regextype"
    )
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

/// Options that say which files to leave out: nothing happens to what they name.
pub(super) fn leaves_out(option: &str) -> bool {
    matches!(
        option,
        "--exclude" | "--exclude-dir" | "--exclude-path" | "--ignore-dir" | "--ignore-pattern" | "--ignore-glob" | "--skip-dir"
    )
}

/// Operands that are patterns or programs, before the files begin.
pub(super) fn leading_texts(name: &str, texts: &[String]) -> usize {
    // A script or a pattern by option, alone or at the end of a cluster; other letters with values hide what follows.
    let given = |wanted: &str, values: &str, long: &[&str]| {
        texts.iter().any(|text| match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(name), _) => long.iter().any(|option| name.starts_with(option)),
            (None, Some(cluster)) => cluster
                .chars()
                .find(|letter| wanted.contains(*letter) || values.contains(*letter))
                .is_some_and(|letter| wanted.contains(letter)),
            _ => false,
        })
    };
    match name {
        "grep" | "egrep" | "fgrep" | "zgrep" | "rgrep" => usize::from(!given("ef", "mABCdD", &["regexp", "file"])),
        "rg" | "ag" | "ack" => usize::from(!given("ef", "gtTABCmMjrEd", &["regexp", "file", "files"])),
        "sed" | "gsed" => usize::from(!given("ef", "il", &["expression", "file"])),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => usize::from(!given("fe", "Fv", &["file", "source"])),
        "git" if texts.first().is_some_and(|text| text == "grep") => 1 + usize::from(!given("ef", "ABCmO", &[])),
        // The program from a file, or a folder before it: every word is looked at.
        "jq" | "gojq" => usize::from(!given("fL", "", &["from-file", "library-path"])),
        "yq" | "fd" | "fdfind" | "chmod" | "chown" | "chgrp" | "timeout" | "nice" => 1,
        _ => 0,
    }
}
