//! Commands inside a command: what wrappers, shells and builtins run from their words or their input.

use super::{
    command::assigned_in,
    files::after,
    git,
    judging::{Judge, Reach, Reason},
    listing::Taken,
    places, programs, readers,
    repository::Does,
    scripts, shapes, variables,
    walk::{Around, Redirection, Scope},
    word::{Piece, Word},
    wrappers::{self, Kind, is_assignment, is_shell},
};

/// Longer paths are not followed by `cd`.
const FOLDER_BYTES_MAX: usize = 1024;

/// Programs that run a command after one of these words; for what is denied only.
const CARRIERS: &[(&[&str], &[&str])] = &[
    (&["docker", "podman", "nerdctl", "kubectl", "oc", "lxc", "incus", "docker-compose"], &["exec", "run", "--"]),
    (&["npm", "pnpm", "yarn", "bun"], &["exec", "x", "dlx", "--"]),
    (
        &[
            "poetry",
            "uv",
            "pipenv",
            "conda",
            "mamba",
            "hatch",
            "rye",
            "pdm",
            "rustup",
            "direnv",
            "mise",
            "asdf",
            "bundle",
            "rbenv",
            "pyenv",
            "nix",
            "toolbox",
            "distrobox",
        ],
        &["run", "exec", "--", "-c", "--command", "develop", "shell", "enter", "x"],
    ),
    (&["nix-shell", "guix"], &["--run", "--command", "--"]),
    (&["flatpak-spawn", "npx", "bunx", "uvx", "pipx"], &["--host", "--", "-y", "--yes", "-c", "run"]),
    (
        &["tmux", "screen", "zellij"],
        &[
            "new",
            "new-session",
            "neww",
            "new-window",
            "split-window",
            "splitw",
            "respawn-pane",
            "run-shell",
            "run",
            "-c",
            "-dm",
            "-dmS",
            "send-keys",
            "if-shell",
            "popup",
        ],
    ),
    (&["gdb", "lldb", "perf", "ip", "vagrant", "gcloud"], &["--args", "--", "record", "stat", "exec", "-ex", "-c", "--command"]),
    (
        &["expect", "socat", "nc", "ncat", "xterm", "gnome-terminal", "konsole", "alacritty", "kitty", "foot"],
        &["-c", "-e", "--", "--exec", "--sh-exec"],
    ),
];

impl Judge<'_> {
    pub(super) fn inner(&mut self, program: &str, words: &[Word], scope: &mut Scope, around: &Around, reasons: &mut Vec<Reason>) {
        let arguments = &words[1..];
        match program {
            "eval" => {
                self.opaque(words, "eval reads its words once more");
                let first = usize::from(arguments.first().is_some_and(|word| word.text() == "--"));
                self.shell_words(&arguments[first..], scope);
            }
            "trap" => self.trap(arguments, scope),
            "source" | "." => {
                self.sourced(arguments, scope, around);
                scope.source();
            }
            "alias" => {
                for (_, value) in arguments.iter().filter_map(assigned_in) {
                    self.opaque(words, "an alias changes what a name means");
                    self.script(&value.text(), scope);
                }
            }
            "fc" if !arguments.iter().any(|word| word.text().starts_with("-l")) => self.opaque(words, "runs the history again"),
            "hash" if has_short(arguments, 'p') => self.opaque(words, "changes what a name means"),
            "enable" if has_short(arguments, 'f') => self.opaque(words, "loads a library"),
            "bind" | "complete" | "compgen" | "mapfile" | "readarray" => {
                self.callbacks(words, scope, reasons);
                if matches!(program, "mapfile" | "readarray") {
                    let name =
                        arguments.last().map(Word::text).filter(|text| !text.starts_with('-')).unwrap_or_else(|| "MAPFILE".to_owned());
                    let before = scope.shapes_so_far(&name);
                    scope.set(&name, None);
                    if around.listed {
                        scope.read_name(&name, before);
                    }
                }
            }
            "shopt" | "set" => {
                if arguments.iter().any(|word| {
                    matches!(word.text().as_str(), "expand_aliases" | "extglob" | "history" | "histexpand" | "sourcepath" | "posix")
                }) {
                    reasons.push(Reason::new(Reach::Wildcard, "changes how the shell reads what follows"));
                }
            }
            "export" | "declare" | "typeset" | "local" | "readonly" | "read" | "printf" | "unset" | "getopts" => {
                let name = if program == "read" && around.listed { one_name(arguments) } else { None };
                let before = name.as_ref().map(|name| scope.shapes_so_far(name));
                self.sets_variables(program, words, scope, reasons);
                if let (Some(name), Some(before)) = (name, before) {
                    scope.read_name(&name, before);
                }
            }
            "cd" | "pushd" | "popd" => self.moves(program, arguments, scope, reasons),
            "command" | "builtin" => {
                self.inside_program(program, arguments, &scope.without_functions(), around, reasons);
                // It runs in this shell, so it moves this shell.
                let skipped = |text: &str| matches!(text, "command" | "builtin" | "--" | "-p");
                let first = arguments.iter().position(|word| !skipped(&word.text())).unwrap_or(arguments.len());
                if let Some((name, rest)) = arguments[first..].split_first()
                    && matches!(name.text().as_str(), "cd" | "pushd" | "popd")
                {
                    self.moves(&name.text(), rest, scope, reasons);
                }
            }
            _ => self.inside_program(program, arguments, &scope.without_functions(), around, reasons),
        }
    }

    /// What a program of its own starts: it knows no functions of this shell.
    fn inside_program(&mut self, program: &str, arguments: &[Word], scope: &Scope, around: &Around, reasons: &mut Vec<Reason>) {
        match program {
            _ if is_shell(program) => self.shell(arguments, scope, around),
            "at" | "batch" => self.standard_input(around, scope),
            "env" => self.env(arguments, scope, around, reasons),
            "find" | "gfind" | "bfs" => self.find_actions(arguments, scope),
            "fd" | "fdfind" => self.fd_actions(arguments, scope),
            "git" => self.git_commands(arguments, scope),
            "su" | "runuser" | "script" | "scriptreplay" => self.option_script(program, arguments, scope, around),
            "vim" | "vi" | "nvim" | "ex" | "view" | "ed" => {
                for text in arguments.iter().map(Word::text) {
                    if let Some(command) = text.trim_start_matches(['+', ':', ' ']).strip_prefix('!') {
                        self.denied_in(command, scope);
                    }
                }
            }
            "capsh" => {
                if let Some(at) = arguments.iter().position(|word| matches!(word.text().as_str(), "--" | "==")) {
                    let given = arguments[..at].iter().find_map(|word| word.text().strip_prefix("--shell=").map(str::to_owned));
                    let mut inner = vec![Word::plain(given.as_deref().unwrap_or("bash"))];
                    inner.extend_from_slice(&arguments[at + 1..]);
                    self.nested(&inner, scope, around);
                }
            }
            "start-stop-daemon" => {
                let texts = arguments.iter().map(Word::text);
                let bare = |text: String| {
                    text.strip_prefix("--").and_then(|long| long.split_once('=')).map(|(_, value)| value.to_owned()).unwrap_or(text)
                };
                self.search_words(&texts.map(bare).collect::<Vec<_>>());
                self.wrapped(program, arguments, scope, around);
            }
            "flock" => self.flock(arguments, scope, around),
            "crontab" => {
                for redirection in &around.redirections {
                    if let Redirection::Here { text, .. } = redirection {
                        self.search_words(&text.text().split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>());
                    }
                }
            }
            "ssh" | "scp" | "sftp" => {
                for text in arguments.iter().map(Word::text) {
                    if let Some((_, command)) = text.split_once("Command=").or_else(|| text.split_once("Command ")) {
                        self.denied_in(command, scope);
                    }
                }
                self.wrapped(program, arguments, scope, around);
            }
            _ if wrappers::is_interpreter(program) => {
                if around.substituted {
                    self.opaque(arguments, "a script that is not known before it runs");
                }
                for code in arguments.iter().map(Word::text) {
                    for command in scripts::called(&code) {
                        self.carried(&command, scope);
                    }
                }
            }
            "parallel" => self.parallel(arguments, scope, around),
            "coreutils" => {
                let applet = arguments.first().map(Word::text).and_then(|text| text.strip_prefix("--coreutils-prog=").map(str::to_owned));
                if let Some(applet) = applet {
                    let mut inner = arguments.to_vec();
                    inner[0] = Word::plain(&applet);
                    self.nested(&inner, scope, around);
                }
            }
            "make" | "gmake" => {
                if around.substituted {
                    self.opaque(arguments, "a makefile that is not known before it runs");
                }
                for value in arguments.iter().map(Word::text).filter_map(|text| text.strip_prefix("SHELL=").map(str::to_owned)) {
                    self.denied_in(&value, scope);
                }
            }
            _ => self.wrapped(program, arguments, scope, around),
        }
    }

    fn opaque(&mut self, words: &[Word], reason: &str) {
        if !self.asks_for_all() {
            self.unknown(&joined(words), reason);
        }
    }

    /// A command made of these words, run by the one around it.
    fn nested(&mut self, words: &[Word], scope: &Scope, around: &Around) {
        if words.is_empty() {
            return;
        }
        let mut inner = scope.deeper();
        (inner.more_arguments, inner.listed) = (scope.more_arguments, scope.listed.clone());
        inner.functions.clear();
        if self.too_deep(&inner) {
            return;
        }
        // The inner command has the outer one's input; where output goes was judged already.
        let redirections = around
            .redirections
            .iter()
            .filter(|redirection| matches!(redirection, Redirection::Here { .. } | Redirection::Process))
            .cloned()
            .collect();
        let piped = around.piped || around.redirections.iter().any(|redirection| matches!(redirection, Redirection::Read(_)));
        self.simple(words.to_vec(), &mut inner, Around { redirections, piped, listed: around.listed, ..Around::default() });
    }

    /// Words before an inner command that may become several: one of those may be the command.
    fn split_before(&mut self, before: &[Word], arguments: &[Word], scope: &Scope) {
        let values = |word: &Word| match word.pieces.as_slice() {
            [Piece::Variable { name, default: None, .. }] => scope.values(name, self.surroundings),
            _ => Vec::new(),
        };
        let one = |value: &String| !value.is_empty() && !value.contains(|letter: char| letter.is_whitespace() || "*?[-".contains(letter));
        let separated = !scope.values("IFS", self.surroundings).is_empty();
        let splits = |word: &Word| {
            let known = values(word);
            word.splits() && (separated || known.is_empty() || !known.iter().all(one))
        };
        if !before.iter().any(splits) {
            return;
        }
        let mut words = Vec::new();
        for word in arguments {
            let known = values(word);
            let texts = if known.is_empty() { vec![word.text()] } else { known };
            words.extend(texts.iter().flat_map(|text| text.split_ascii_whitespace()).map(str::to_owned));
        }
        self.opaque(arguments, "a word before the command may be several words");
        self.search_words(&words);
    }

    /// Words that a shell reads as one script.
    fn shell_words(&mut self, words: &[Word], scope: &Scope) {
        if words.is_empty() {
            return;
        }
        if words.iter().any(Word::is_dynamic) || scope.more_arguments {
            self.opaque(words, "a script that is not known before it runs");
        }
        self.script(&joined(words), scope);
    }

    fn wrapped(&mut self, program: &str, arguments: &[Word], scope: &Scope, around: &Around) {
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        if let Some((_, triggers)) = CARRIERS.iter().find(|(names, _)| names.contains(&program)) {
            let after_trigger = texts.iter().position(|text| triggers.contains(&text.as_str())).map(|at| at + 1);
            let first = after_trigger.or_else(|| matches!(program, "npx" | "bunx" | "uvx").then_some(0));
            if let Some(first) = first {
                // What is quoted may be read by a shell, or by a little language that has one.
                let words: Vec<String> = texts[first..].iter().flat_map(|text| text.split_ascii_whitespace()).map(str::to_owned).collect();
                self.search_words(&words);
                self.passed_to_git(program, &arguments[first..], scope);
            }
            return;
        }
        let Some(wrapper) = wrappers::wrapper(program) else { return self.may_run(program, arguments) };
        let starts = wrapper.starts(arguments);
        if let Some(other) = starts.others.iter().min() {
            self.search_words(&texts[*other..]);
        }
        if wrapper.kind != Kind::Soft {
            self.split_before(&arguments[..starts.first], arguments, scope);
        }
        let inner = &arguments[starts.first..];
        if inner.is_empty() && scope.more_arguments {
            self.opaque(arguments, "a command that is not known before it runs");
        }
        if starts.lookup || inner.is_empty() {
            let fed = around.piped
                || around.redirections.iter().any(|redirection| !matches!(redirection, Redirection::Write(_) | Redirection::Descriptor));
            if fed && matches!(program, "ssh" | "autossh" | "rsh" | "dbclient") {
                self.standard_input(around, scope);
            }
            return;
        }
        match wrapper.kind {
            Kind::Shell => self.shell_words(inner, &scope.fed_by(&around.redirections)),
            Kind::Soft => {
                self.search_words(&texts[starts.first..]);
                self.passed_to_git(program, inner, scope);
            }
            Kind::Command if matches!(program, "jobs") && !has_short(&arguments[..starts.first], 'x') => {}
            Kind::Command if matches!(program, "xargs" | "gxargs") => {
                let mut fed = scope.deeper().repeated();
                let name = replaced(&texts[..starts.first]);
                fed.more_arguments = name.is_none();
                let from_file = texts[..starts.first].iter().any(|text| text.starts_with("-a") || text.starts_with("--arg-file"));
                if around.listed && !from_file {
                    fed.listed = Some(name.clone().unwrap_or_default());
                }
                let filled = |word: &Word| match &name {
                    Some(name) if word.text().contains(name.as_str()) && fed.listed.is_some() => with_names(word, name),
                    Some(name) if word.text().contains(name.as_str()) => Word::filled(&word.text()),
                    _ => word.clone(),
                };
                let inner: Vec<Word> = inner.iter().map(filled).collect();
                self.nested(&inner, &fed, &Around { piped: true, ..Around::default() });
            }
            Kind::Command => self.nested(inner, scope, around),
        }
    }

    /// A program nobody knows may run its words: then what they would be must not be denied.
    fn may_run(&mut self, program: &str, arguments: &[Word]) {
        if programs::is_known(program) || readers::is_known(program) || self.asks_for_all() {
            return;
        }
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        if let Some((denied, rule)) = self.denied_within(&texts) {
            let words = format!("{program} may run `{denied}`, which {rule} denies");
            self.unknown(&format!("{program} {}", joined(arguments)), &words);
        }
    }

    fn shell(&mut self, arguments: &[Word], scope: &Scope, around: &Around) {
        let mut at = 0;
        let mut script = false;
        let mut input = false;
        while at < arguments.len() {
            let text = arguments[at].text();
            match text.as_str() {
                "--version" | "--help" => return,
                "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" => at += 2,
                "--" | "-" => {
                    at += 1;
                    break;
                }
                _ if text.starts_with("--") => at += 1,
                _ if 1 < text.len() && text.starts_with(['-', '+']) && !arguments[at].is_dynamic() => {
                    script |= text.starts_with('-') && text.contains('c');
                    input |= text.contains('s');
                    // `-oc opt` takes a word for each letter that wants one.
                    at += 1 + text.chars().filter(|letter| matches!(letter, 'o' | 'O')).count();
                }
                _ => break,
            }
        }
        let rest = arguments.get(at..).unwrap_or_default();
        match rest.first() {
            Some(source) if script => {
                if source.is_dynamic() {
                    self.opaque(rest, "a script that is not known before it runs");
                    // It may be nothing at all, and then the next word is the script.
                    self.search_words(&rest.iter().map(Word::text).collect::<Vec<_>>());
                }
                if source.text().contains("{}") {
                    self.opaque(rest, "a script with names put into it");
                }
                let mut given = scope.clone();
                given.give(rest.get(2..).unwrap_or_default(), self.surroundings);
                self.script(&source.text(), &given);
            }
            None if script => self.opaque(arguments, "a script that is not known before it runs"),
            Some(file) if !input => {
                let text = file.text();
                if file.is_dynamic() || around.substituted {
                    self.opaque(rest, "a script that is not known before it runs");
                } else if is_standard_input(&text) {
                    self.standard_input(around, scope);
                }
            }
            _ if scope.more_arguments && !input => self.opaque(arguments, "a script that is not known before it runs"),
            _ => self.standard_input(around, scope),
        }
    }

    /// A script read from the input: known only if it stands in the line.
    fn standard_input(&mut self, around: &Around, scope: &Scope) {
        let last =
            around.redirections.iter().rev().find(|redirection| !matches!(redirection, Redirection::Write(_) | Redirection::Descriptor));
        // Also a text that a later redirection takes the place of: it is there to be run.
        for redirection in &around.redirections {
            if let Redirection::Here { text, .. } = redirection {
                if text.is_dynamic() {
                    self.opaque(std::slice::from_ref(text), "a script that is not known before it runs");
                }
                self.script(&text.text(), scope);
            }
        }
        for text in &scope.input {
            self.denied_in(&text.text(), scope);
        }
        if !matches!(last, Some(Redirection::Here { descriptor: 0, .. })) {
            let source = self.source().to_owned();
            self.unknown(&source, "a shell that reads commands nobody can see");
        }
    }

    fn trap(&mut self, arguments: &[Word], scope: &Scope) {
        let rest = match arguments.first().map(Word::text).as_deref() {
            Some("-p" | "-l" | "-lp" | "-pl" | "-") => return,
            Some("--") => &arguments[1..],
            _ => arguments,
        };
        if let Some(action) = rest.first() {
            self.shell_words(std::slice::from_ref(action), scope);
        }
    }

    fn sourced(&mut self, arguments: &[Word], scope: &Scope, around: &Around) {
        let file = arguments.iter().find(|word| word.text() != "--");
        match file {
            Some(file) if is_standard_input(&file.text()) => self.standard_input(around, scope),
            Some(file) if file.is_dynamic() || file.has_glob() || around.substituted => {
                self.opaque(arguments, "a script that is not known before it runs")
            }
            _ => {}
        }
    }

    /// `mapfile -C cmd`, `complete -C cmd`, `bind -x '"k": cmd'`.
    fn callbacks(&mut self, words: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        let mut arguments = words[1..].iter();
        let letter = if words[0].text() == "bind" { 'x' } else { 'C' };
        while let Some(word) = arguments.next() {
            let text = word.text();
            if let Some(at) = text.find(letter).filter(|_| text.starts_with('-')) {
                let joined = after(word, text[..=at].chars().count());
                let value = if joined.text().is_empty() { arguments.next().cloned().unwrap_or_default() } else { joined };
                self.opaque(words, "runs a command later");
                let script = value.text();
                let script = if letter == 'x' {
                    script.split_once(':').map_or(script.clone(), |(_, script)| script.trim_matches([' ', '"']).to_owned())
                } else {
                    script
                };
                self.script(&script, scope);
            } else if !text.starts_with('-') && variables::executes(&text) {
                reasons.push(Reason::new(Reach::Wildcard, format!("sets {text}")));
            }
        }
    }

    fn sets_variables(&mut self, program: &str, words: &[Word], scope: &mut Scope, reasons: &mut Vec<Reason>) {
        let arguments = &words[1..];
        if program == "printf" && !arguments.first().is_some_and(|word| word.text().starts_with("-v")) {
            return;
        }
        if matches!(program, "declare" | "typeset" | "local") && has_short(arguments, 'n') {
            reasons.push(Reason::new(Reach::Wildcard, "a name that stands for another variable"));
        }
        let mut names = arguments.to_vec();
        if program == "printf" {
            let first = &arguments[0];
            let joined = after(first, 2);
            let rest = if joined.text().is_empty() { 2 } else { 1 };
            let name = if rest == 2 { arguments.get(1).cloned().unwrap_or_default() } else { joined };
            self.printed_into(&name.text(), arguments.get(rest..).unwrap_or_default(), scope);
            names = vec![name];
        }
        if program == "unset" {
            scope.functions.clear();
        }
        for word in &names {
            if let Some((name, value)) = assigned_in(word) {
                self.variable_set(&name, Some(&value), Reach::Wildcard, scope, reasons);
                scope.assign(&name, &value, self.surroundings);
                continue;
            }
            let text = word.text();
            let name = text.split(['[', '=']).next().unwrap_or_default();
            if program == "printf" && places::filled(word, scope, self.surroundings).is_empty() && word.is_dynamic() {
                // A name with a subscript would be evaluated.
                self.opaque(words, "sets a variable that is not known before it runs");
            }
            if word.is_dynamic()
                && (program == "printf" || word.pieces.iter().find(|piece| !is_nothing(piece)).is_some_and(|piece| !is_text(piece)))
            {
                reasons.push(Reason::new(Reach::Wildcard, "sets a variable that is not known before it runs"));
                self.repository(scope.cwds.clone(), Does::Leave);
            } else if !text.starts_with('-') && variables::executes(name) && !matches!(program, "export" | "unset") {
                reasons.push(Reason::new(Reach::Wildcard, format!("sets {name}")));
                self.git_variable(name, None, scope);
            } else if !text.starts_with('-') && program != "printf" {
                scope.set(name, None);
            }
        }
    }

    /// `printf -v name %s text`: the text is the value. Any other format makes one that is not known.
    fn printed_into(&mut self, name: &str, words: &[Word], scope: &mut Scope) {
        let value = match words {
            [format, value] if matches!(format.text().as_str(), "%s" | "%s\\n") => value.literal(),
            [format] => format.literal().filter(|format| !format.contains(['%', '\\'])),
            _ => None,
        };
        scope.set(name, value);
    }

    fn moves(&mut self, program: &str, arguments: &[Word], scope: &mut Scope, reasons: &mut Vec<Reason>) {
        let is_option = |text: &str| {
            text.strip_prefix('-')
                .is_some_and(|letters| letters == "-" || (!letters.is_empty() && letters.chars().all(|letter| "LPe@n".contains(letter))))
        };
        let target = arguments.iter().find(|word| !is_option(&word.text()));
        let mut moved = Vec::new();
        let lost = match target {
            None if program == "cd" => {
                reasons.push(Reason::new(Reach::Wildcard, "goes home, outside the project"));
                self.path_reason(&Word::plain("~"), false, scope, reasons);
                true
            }
            None => true,
            Some(word) => {
                let text = word.text();
                if text == "-" || text.starts_with('+') {
                    reasons.push(Reason::new(Reach::Wildcard, "goes where nobody knows"));
                }
                self.leaves_by(word, scope);
                if text != "-" && !text.starts_with('+') && shapes::places(word, scope, self.surroundings).contains(&places::Place::Unknown)
                {
                    reasons.push(Reason::new(Reach::Wildcard, "goes where nobody knows"));
                    scope.astray = true;
                }
                let places = places::places(word, scope, self.surroundings);
                let mut lost = text == "-" || word.has_glob();
                for place in places {
                    match place {
                        places::Place::Inside(path) => moved.push(self.surroundings.root.join(path)),
                        places::Place::Outside(path) => moved.push(path),
                        _ => lost = true,
                    }
                }
                lost
            }
        };
        // Nobody goes that deep, and every step is a longer path to look at.
        if lost || moved.iter().any(|folder| FOLDER_BYTES_MAX < folder.as_os_str().len()) {
            moved.clear();
        }
        scope.moved = Some(moved);
    }

    fn env(&mut self, arguments: &[Word], scope: &Scope, around: &Around, reasons: &mut Vec<Reason>) {
        let mut at = 0;
        let mut moved = scope.clone();
        while at < arguments.len() {
            let word = &arguments[at];
            let text = word.text();
            if let Some((folder, words)) = folder_of_env(&arguments[at..]) {
                moved.cwds = self.folders_by(&folder, scope, reasons);
                at += words;
                continue;
            }
            if let Some(joined) = split_string(&text) {
                let mut script =
                    if joined.is_empty() { arguments.get(at + 1).map(Word::text).unwrap_or_default() } else { joined.to_owned() };
                for rest in arguments.get(at + if joined.is_empty() { 2 } else { 1 }..).unwrap_or_default() {
                    script = format!("{script} {}", rest.text());
                }
                self.opaque(arguments, "env reads its words once more");
                self.script(&script, &moved);
                return;
            }
            match text.as_str() {
                "-u" | "--unset" | "-a" | "--argv0" => at += 2,
                "--" => {
                    at += 1;
                    break;
                }
                _ if text.starts_with('-') => at += 1,
                _ => break,
            }
        }
        while at < arguments.len() {
            let text = arguments[at].text();
            if let Some((name, value)) = assigned_in(&arguments[at]) {
                self.variable_set(&name, Some(&value), Reach::Wildcard, &moved, reasons);
            } else if !text.contains('=') || !is_assignment(&text) && !text.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                break;
            }
            at += 1;
        }
        self.split_before(arguments.get(..at).unwrap_or(arguments), arguments, scope);
        let inner = arguments.get(at..).unwrap_or_default();
        if inner.is_empty() && scope.more_arguments {
            self.opaque(arguments, "a command that is not known before it runs");
        }
        self.nested(inner, &moved, around);
    }

    fn find_actions(&mut self, arguments: &[Word], scope: &Scope) {
        let action = arguments.iter().position(|word| word.text().starts_with("-exec")).unwrap_or(arguments.len());
        self.split_before(&arguments[..action], arguments, scope);
        let mut at = 0;
        while at < arguments.len() {
            let text = arguments[at].text();
            at += 1;
            if !matches!(text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
                continue;
            }
            let start = at;
            while at < arguments.len() && !matches!(arguments[at].text().as_str(), ";" | "+") {
                at += 1;
            }
            let inner = &arguments[start..at];
            if inner.first().is_some_and(|word| word.text().contains("{}")) {
                self.opaque(inner, "runs the files it finds");
            }
            self.nested(inner, scope, &Around { piped: true, ..Around::default() });
        }
    }

    fn fd_actions(&mut self, arguments: &[Word], scope: &Scope) {
        // The letter may end a cluster, and the program may be joined to it: `-Hxls`.
        let letter = |text: &str| {
            let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
            let at = cluster.find(|letter| "xXEtdjcSoge".contains(letter))?;
            cluster[at..].starts_with(['x', 'X']).then_some(at + 2)
        };
        let ends = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.ends_with(['x', 'X']);
        let starts = |word: &Word| {
            let text = word.text();
            matches!(text.as_str(), "--exec" | "--exec-batch") || ends(&text) || letter(&text).is_some()
        };
        if let Some(start) = arguments.iter().position(starts) {
            let end = arguments[start..].iter().position(|word| word.text() == ";").map_or(arguments.len(), |found| start + found);
            let joined = letter(&arguments[start].text()).map(|at| after(&arguments[start], at)).filter(|word| !word.text().is_empty());
            let inner: Vec<Word> = joined.into_iter().chain(arguments[start + 1..end].iter().cloned()).collect();
            let mut fed = scope.deeper().repeated();
            fed.more_arguments = true;
            let follows = |word: &Word| word.is_dynamic() || matches!(word.text().as_str(), "-L" | "--follow");
            fed.listed = (!arguments[..start].iter().any(follows)).then(String::new);
            self.nested(&inner, &fed, &Around { piped: true, ..Around::default() });
        }
        for word in arguments {
            let text = word.text();
            if let Some(script) = text.strip_prefix("--exec=").or_else(|| text.strip_prefix("--exec-batch=")) {
                self.shell_words(&[Word::plain(script)], scope);
            }
        }
    }

    /// Commands in git's words; the options themselves are reasons to ask already, so only denies count.
    fn git_commands(&mut self, arguments: &[Word], scope: &Scope) {
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        let subcommand = git::subcommand(&texts).unwrap_or_default().to_owned();
        for (at, text) in texts.iter().enumerate() {
            let next = texts.get(at + 1).cloned().unwrap_or_default();
            let rest = || texts[at + 1..].join(" ");
            let setting = if text == "-c" { next.as_str() } else { text.strip_prefix("-c").unwrap_or_default() };
            let script = match (subcommand.as_str(), text.as_str()) {
                ("bisect", "run") => Some(rest()),
                ("submodule", "foreach") => Some(without_options(&texts[at + 1..])),
                ("rebase", _) if text.starts_with("-x") && text != "-x" => Some(text[2..].to_owned()),
                ("rebase", _) if !text.starts_with("--") && text.starts_with('-') && text.ends_with('x') => Some(next.clone()),
                ("clone" | "fetch" | "pull" | "ls-remote", "-u" | "--upload-pack") => Some(next.clone()),
                ("clone", _) if text.starts_with("-u") => Some(text[2..].to_owned()),
                ("rebase", "-x" | "--exec") => Some(next.clone()),
                ("config", _) if text.starts_with('!') => Some(text[1..].to_owned()),
                ("filter-branch", _) if text.ends_with("-filter") => Some(next.clone()),
                ("difftool", "-x" | "--extcmd") => Some(next.clone()),
                ("grep", _) if text.starts_with("-O") => Some(text[2..].to_owned()),
                _ if setting.contains('=') => setting.split_once('=').map(|(_, value)| value.trim_start_matches('!').to_owned()),
                _ => ["--exec=", "--upload-pack=", "--receive-pack=", "--extcmd=", "--open-files-in-pager=", "ext::"]
                    .iter()
                    .find_map(|option| text.strip_prefix(option))
                    .map(str::to_owned),
            };
            if let Some(script) = script.filter(|script| !script.is_empty()) {
                self.carried(&script, scope);
            }
        }
    }

    /// `su -c`, `script -c`: one option holds a script, else the words are a command.
    fn option_script(&mut self, program: &str, arguments: &[Word], scope: &Scope, around: &Around) {
        let mut found = false;
        for (at, word) in arguments.iter().enumerate() {
            let text = word.text();
            let long = text.strip_prefix("--command=").or_else(|| text.strip_prefix("--session-command="));
            if let Some(script) = long {
                found = true;
                self.shell_words(&[Word::plain(script)], scope);
            } else if text == "--command"
                || text == "--session-command"
                || (text.starts_with('-') && !text.starts_with("--") && text.ends_with('c'))
            {
                found = true;
                if let Some(script) = arguments.get(at + 1) {
                    self.shell_words(std::slice::from_ref(script), scope);
                }
            } else if let Some(script) = text.strip_prefix("-c").filter(|_| !text.starts_with("--")) {
                found = true;
                self.shell_words(&[Word::plain(script)], scope);
            }
        }
        if !found && program == "runuser" {
            self.wrapped(program, arguments, scope, around);
        } else if !found && program == "su" {
            self.standard_input(around, scope);
        }
        if let Some(at) = arguments.iter().position(|word| word.text() == "--") {
            self.nested(&arguments[at + 1..], scope, around);
        }
    }

    fn flock(&mut self, arguments: &[Word], scope: &Scope, around: &Around) {
        let mut at = 0;
        while let Some(text) = arguments.get(at).map(Word::text).filter(|text| text.starts_with('-')) {
            at += if matches!(text.as_str(), "-w" | "-E" | "--timeout" | "--conflict-exit-code") { 2 } else { 1 };
        }
        self.split_before(arguments.get(..=at).unwrap_or(arguments), arguments, scope);
        let rest = arguments.get(at + 1..).unwrap_or_default();
        match rest.first().map(Word::text).as_deref() {
            Some("-c" | "--command") => self.shell_words(&rest[1..], scope),
            Some(_) => self.nested(rest, scope, around),
            None => {}
        }
    }

    /// `parallel cmd ::: words`: the template and every word are read by a shell.
    fn parallel(&mut self, arguments: &[Word], scope: &Scope, around: &Around) {
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        let end = texts.iter().position(|text| text.starts_with(":::")).unwrap_or(texts.len());
        let start = texts[..end].iter().position(|text| !text.starts_with('-')).unwrap_or(end);
        self.search_words(&texts[start..end]);
        let mut fed = scope.deeper().repeated();
        fed.more_arguments = false;
        let given =
            arguments.get(end + 1..).filter(|_| texts.get(end).is_some_and(|text| text.starts_with(":::") && !text.starts_with("::::")));
        if given.is_none() && !around.listed {
            let template: Vec<Word> =
                texts[start..end].iter().flat_map(|text| text.split_whitespace()).map(|text| Word::filled_if(text, "{")).collect();
            if let Some((program, words)) = template.split_first() {
                let mut unknown = scope.clone();
                unknown.more_arguments = true;
                self.reaches(wrappers::basename(&program.text()), words, &unknown);
            }
        }
        given.into_iter().flatten().filter(|word| word.is_dynamic()).for_each(|word| self.reaches_by(word, scope));
        if start < end {
            self.shell_words(&arguments[start..end], &fed);
        } else {
            for word in arguments.iter().skip(end + 1).filter(|word| !word.text().starts_with(":::")) {
                self.shell_words(std::slice::from_ref(word), scope);
            }
            if end == texts.len() {
                self.standard_input(around, scope);
            }
        }
    }
}

/// The folder in which env runs its command, if these words begin with it, and how many of them say so.
fn folder_of_env(words: &[Word]) -> Option<(Word, usize)> {
    let (first, rest) = words.split_first()?;
    let text = first.text();
    let joined = match text.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or_default();
            let is_it = 2 <= name.len() && "chdir".starts_with(name);
            is_it.then(|| long.contains('=').then(|| after(first, name.len() + 3)))?
        }
        None => {
            let cluster = text.strip_prefix('-')?;
            let at = cluster.find(|letter| !matches!(letter, 'v' | 'i' | '0')).filter(|at| cluster[*at..].starts_with('C'))?;
            Some(after(first, at + 2)).filter(|value| !value.text().is_empty())
        }
    };
    match joined {
        Some(folder) => Some((folder, 1)),
        None => rest.first().map(|folder| (folder.clone(), 2)),
    }
}

/// `-S`, alone or in a cluster, and `--split-string` as far as it is written out: what is joined to it.
fn split_string(text: &str) -> Option<&str> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        return (!name.is_empty() && "split-string".starts_with(name)).then_some(value);
    }
    let cluster = text.strip_prefix('-')?;
    let at = cluster.find(|letter| !matches!(letter, 'v' | 'i' | '0'))?;
    cluster[at..].strip_prefix('S')
}

/// The name that xargs puts its input in place of, anywhere in the words.
fn replaced(options: &[String]) -> Option<String> {
    let mut found = None;
    for (at, text) in options.iter().enumerate() {
        let default = || Some("{}".to_owned());
        if let Some(long) = text.strip_prefix("--rep") {
            found = long.split_once('=').map(|(_, name)| name.to_owned()).or_else(default);
        } else if let Some(at_letter) = text.find(['I', 'i', 'J']).filter(|_| text.starts_with('-') && !text.starts_with("--")) {
            let joined = &text[at_letter + 1..];
            found = match (joined, text.as_bytes()[at_letter]) {
                ("", b'i') => default(),
                ("", _) => options.get(at + 1).cloned(),
                (joined, _) => Some(joined.to_owned()),
            };
        }
    }
    found.filter(|name| !name.is_empty())
}

/// The word with what xargs puts into it as a piece of its own.
fn with_names(word: &Word, name: &str) -> Word {
    let text = word.text();
    let mut pieces = Vec::new();
    for (at, part) in text.split(name).enumerate() {
        pieces.extend((0 < at).then(|| Piece::Unknown { quoted: true, source: name.to_owned() }));
        pieces.extend((!part.is_empty()).then(|| Piece::Text { text: part.to_owned(), quoted: true }));
    }
    Word { pieces }
}

/// The only variable that `read` sets, if it gets a whole line.
fn one_name(arguments: &[Word]) -> Option<String> {
    let taken = Taken::of(arguments, "d", "", &[]);
    let whole = taken.letters.chars().all(|letter| matches!(letter, 'r' | 'd')) && taken.longs.is_empty();
    match taken.operands.as_slice() {
        [name] if whole => name.literal(),
        _ => None,
    }
}

/// `git submodule foreach --recursive -q cmd`: the command.
fn without_options(texts: &[String]) -> String {
    texts.iter().skip_while(|text| text.starts_with('-')).cloned().collect::<Vec<_>>().join(" ")
}

fn joined(words: &[Word]) -> String {
    words.iter().map(Word::text).collect::<Vec<_>>().join(" ")
}

fn has_short(arguments: &[Word], letter: char) -> bool {
    arguments.iter().map(Word::text).any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains(letter))
}

fn is_text(piece: &Piece) -> bool {
    matches!(piece, Piece::Text { .. })
}

/// What is left of a quote: it says nothing about the word's start.
fn is_nothing(piece: &Piece) -> bool {
    matches!(piece, Piece::Text { text, .. } if text.is_empty())
}

fn is_standard_input(text: &str) -> bool {
    matches!(text, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" | "-")
}
