//! One simple command: what the rules say about it, the reasons to ask all the same, and the commands inside it.
//!
//! An allow needs the words as they are written. Denies and asks also see every other spelling of the same command.

use posse_session::{Rule, Touch, Verdict};

use super::{
    files::{after, may_be_protected},
    git,
    judging::{Judge, Reach, Reason, Said, could_match, has_wildcard, is_catch_all, lowered, outside_touch},
    places::{self, Place},
    programs, scripts, shapes, urls, variables,
    walk::{Around, Redirection, Scope, quoted_text},
    word::{Effects, Piece, SUBSCRIPT, Word, runs_as_subscript},
    wrappers::{basename, is_assignment},
};

/// Characters of a program's name that no shell gives a meaning to. `a[0 ]=1 rm` is an assignment for bash.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && (name == "[" || !name.contains('['))
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"$`'\"\\*?(){}<>|;&#!^".contains(&byte))
}

/// A word of many variables with long values; no more of them are put in.
const VALUES_BYTES_MAX: usize = 16 * 1024;

/// Words that may name what is run: `docker compose up`.
const NAMING_WORDS: usize = 3;

/// A simple command in the forms that rules see.
struct Spelled<'a> {
    texts: Vec<String>,
    /// The words, joined by blanks.
    text: String,
    /// With assignments before and redirections after.
    whole: String,
    words: &'a [Word],
    around: &'a Around,
}

impl Judge<'_> {
    pub(super) fn simple(&mut self, mut words: Vec<Word>, scope: &mut Scope, around: Around) {
        if !self.count() {
            return;
        }
        // `time -- cmd`, `! time ! cmd`: what the keyword takes, and no program is called `!`.
        let taken = |word: String| word == "!" || (around.timed && word == "--");
        let first = words.iter().position(|word| !word.literal().is_some_and(taken)).unwrap_or(0);
        words.drain(..first);
        let (mut reasons, redirected) = self.redirection_reasons(&around.redirections, scope);
        self.assignment_reasons(&around, words.first(), scope, &mut reasons);
        let prefix =
            around.assignments.iter().map(|assigned| format!("{}={}", assigned.name, assigned.value.text())).collect::<Vec<_>>().join(" ");
        let Some(name) = words.first() else {
            for assigned in around.assignments.iter().filter(|assigned| !assigned.is_array) {
                scope.assign(&assigned.name, &assigned.value, self.surroundings);
            }
            if !redirected.is_empty() {
                self.denied_redirection(&redirected);
            }
            self.neutral([prefix, redirected].join(" ").trim().to_owned(), &reasons);
            return;
        };
        let texts: Vec<String> = words.iter().map(Word::text).collect();
        let text = texts.join(" ");
        if !self.spend(text.len() / 4 + 12 * texts.len()) {
            return;
        }
        self.touch("bash", text.clone());
        let name = match name.literal() {
            Some(name) if is_plain_name(&name) => name,
            Some(_) => {
                self.unknown(&text, "the program's name has unusual characters");
                self.search_words(&texts);
                String::new()
            }
            None => {
                self.unknown(&text, "the program's name is not known before it runs");
                self.search_words(&texts);
                return;
            }
        };
        let program = basename(&name).to_lowercase();
        let arguments = &words[1..];
        if matches!(program.as_str(), "read" | "mapfile" | "readarray")
            && scope.fed_by(&around.redirections).input.iter().any(|text| runs_as_subscript(&text.text()))
        {
            self.distrust(SUBSCRIPT);
        }
        let whole = [&prefix, &text, &redirected].into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ");
        let spelled = Spelled { texts, text, whole, words: &words, around: &around };
        if scope.functions.contains(&name) && !self.is_named(&spelled.text) {
            // Its body was judged where it is defined; its words may still be commands.
            self.search_words(&spelled.texts[1..]);
            // A shell in its body reads what the call is given.
            for text in scope.fed_by(&around.redirections).input.iter().filter(|_| self.asks_for_all()).cloned().collect::<Vec<_>>() {
                self.denied_in(&text.text(), scope);
            }
            self.passed(arguments, scope, &mut reasons);
            if !reasons.is_empty() {
                self.neutral(spelled.whole, &reasons);
            }
            return;
        }
        self.program_reasons(&words[0], &name, scope, &mut reasons);
        self.word_reasons(&program, arguments, scope, &mut reasons);
        // A program of the project is its code, like a script that a language runs.
        if program != "git" && !(name.contains('/') && places::places(&words[0], scope, self.surroundings).iter().all(is_inside)) {
            self.handed_files(&program, arguments, scope);
        }
        self.inner(&program, &words, scope, &around, &mut reasons);
        self.by_spellings(&spelled, scope, &reasons);
    }

    /// Reasons in the program's own path.
    fn program_reasons(&mut self, word: &Word, name: &str, scope: &Scope, reasons: &mut Vec<Reason>) {
        if !name.contains('/') {
            return;
        }
        if name.split('/').any(|part| part == "..") {
            reasons.push(Reason::new(Reach::Wildcard, "the program's path climbs"));
        }
        for place in places::places(word, scope, self.surroundings) {
            match place {
                Place::Outside(path) if !programs::is_installed(&path) => self.outside(&path),
                _ => {}
            }
        }
    }

    /// The verdict on the command itself.
    fn by_spellings(&mut self, spelled: &Spelled, scope: &Scope, reasons: &[Reason]) {
        let Spelled { texts, text, whole, .. } = spelled;
        let said = match self.said(text) {
            Said::Rule(index, rule) if rule.action == Verdict::Allow && !covers(&rule.pattern, texts) => self.said_without(text, index),
            said => said,
        };
        let mut above = None;
        let mut reasons = reasons.to_vec();
        let verdict = match said {
            Said::Nothing => {
                self.find(Verdict::Ask, text, String::new(), None);
                Verdict::Ask
            }
            Said::Rule(index, rule) => {
                above = Some(index);
                if rule.action == Verdict::Allow
                    && let Some(words) = urls::hazard(&rule.pattern, &spelled.words[1..])
                {
                    reasons.push(Reason::new(Reach::Wildcard, words));
                }
                // The very line, with everything around it, may have been consented to.
                let consented = self
                    .rules
                    .iter()
                    .any(|rule| rule.action == Verdict::Allow && !has_wildcard(&rule.pattern) && rule.pattern == *whole && whole != text);
                if consented {
                    reasons.retain(|reason| reason.reach == Reach::Always);
                }
                let (verdict, reason) = lowered(rule, text, &reasons);
                self.find(verdict, whole, reason, Some(rule));
                verdict
            }
        };
        let mut asks = verdict == Verdict::Ask;
        // A pattern must not stand for what it would be lowered for, nor take a blank in a name for two words.
        let mut exact =
            !reasons.is_empty() || texts.iter().take(NAMING_WORDS).any(|text| text.is_empty() || text.contains(char::is_whitespace));
        for spelling in self.spellings(spelled, scope) {
            if let Some(rule) = self.stricter(&spelling, above, Verdict::Ask) {
                self.find(rule.action, &spelling, String::new(), Some(rule));
                (asks, exact) = (true, true);
            }
        }
        if asks && exact {
            let pattern = self.exact_pattern(spelled, scope);
            self.ask("bash", pattern, true);
        } else if asks {
            self.ask("bash", text.clone(), false);
        }
        self.possible_denies(texts, &spelled.words[1..], scope, above);
    }

    /// What was asked for, so that nothing else reads the same: with its quotes and what stands around it, or the whole
    /// line where it depends on what came before.
    fn exact_pattern(&self, spelled: &Spelled, scope: &Scope) -> String {
        let Around { assignments, redirections, .. } = spelled.around;
        let targets = redirections.iter().filter_map(|redirection| match redirection {
            Redirection::Read(word) | Redirection::Write(word) => Some(word),
            _ => None,
        });
        let mut all = spelled.words.iter().chain(assignments.iter().map(|assigned| &assigned.value)).chain(targets);
        let depends = all.any(Word::is_dynamic) || scope.more_arguments || scope.cwds.as_slice() != [self.surroundings.cwd.clone()];
        if depends {
            return self.source().to_owned();
        }
        let mut parts: Vec<String> = Vec::new();
        parts.extend(assignments.iter().map(|assigned| format!("{}={}", assigned.name, assigned.value.quoted())));
        parts.extend(spelled.words.iter().map(Word::quoted));
        for redirection in redirections {
            match redirection {
                Redirection::Read(word) => parts.push(format!("< {}", word.quoted())),
                Redirection::Write(word) => parts.push(format!("> {}", word.quoted())),
                _ => {}
            }
        }
        parts.join(" ")
    }

    /// The same command in other words.
    fn spellings(&self, spelled: &Spelled, scope: &Scope) -> Vec<String> {
        let Spelled { texts, whole, around, words, .. } = spelled;
        let arguments = &words[1..];
        let bare = basename(&texts[0]).to_owned();
        let renamed = std::iter::once(bare.clone()).chain(texts[1..].iter().cloned()).collect::<Vec<_>>();
        let mut forms = vec![texts.join(" "), renamed.join(" ")];
        if bare.eq_ignore_ascii_case("git")
            && let Some(rest) = git::stripped(&texts[1..])
        {
            forms.push(format!("git {}", rest.join(" ")));
        }
        // Variables that were set in this line.
        let known: Vec<String> = arguments.iter().map(|word| with_values(word, scope, self.surroundings)).collect();
        if known != texts[1..] {
            forms.push(format!("{bare} {}", known.join(" ")));
        }
        let sources: Vec<String> = around
            .redirections
            .iter()
            .filter_map(|redirection| match redirection {
                Redirection::Read(word) => Some(word.text()),
                _ => None,
            })
            .collect();
        if !sources.is_empty() {
            forms.push(format!("{} {}", renamed.join(" "), sources.join(" ")));
        }
        if let Some(start) = whole.find(&forms[0]) {
            let rest = &whole[start + forms[0].len()..];
            if !rest.is_empty() {
                let with_redirections = forms.iter().map(|form| format!("{form}{rest}")).collect::<Vec<_>>();
                forms.extend(with_redirections);
            }
            if 0 < start {
                forms.push(whole.clone());
            }
        }
        forms.dedup();
        forms
    }

    /// Words that are not known may turn out to be what a rule denies.
    fn possible_denies(&mut self, texts: &[String], arguments: &[Word], scope: &Scope, above: Option<usize>) {
        if !scope.more_arguments && !arguments.iter().any(|word| word.is_dynamic() || word.has_glob()) {
            return;
        }
        let mut pattern: Vec<Option<char>> = basename(&texts[0]).chars().map(Some).collect();
        for word in arguments {
            pattern.push(Some(' '));
            if word.is_dynamic() || word.has_glob() {
                pattern.push(None);
            } else {
                pattern.extend(word.text().chars().map(Some));
            }
        }
        if scope.more_arguments {
            pattern.extend([Some(' '), None]);
        }
        let may = |(index, rule): &(usize, &&Rule)| {
            rule.action != Verdict::Allow
                && above.is_none_or(|above| above < *index)
                && !rule.pattern.starts_with(['*', '?'])
                && could_match(&pattern, &rule.pattern)
        };
        if let Some((_, rule)) = self.rules.iter().enumerate().find(may) {
            let words = format!("may turn out to be what {} names", rule.pattern);
            self.unknown(&texts.join(" "), &words);
        }
    }

    fn assignment_reasons(&mut self, around: &Around, name: Option<&Word>, scope: &Scope, reasons: &mut Vec<Reason>) {
        // `IFS= read -r line` splits that one line otherwise, and nothing else.
        let reads = name.and_then(Word::literal).is_some_and(|name| matches!(name.as_str(), "read" | "mapfile" | "readarray"));
        for assigned in around.assignments.iter().filter(|assigned| !(reads && assigned.name == "IFS")) {
            self.variable_set(&assigned.name, Some(&assigned.value), Reach::Beside, scope, reasons);
        }
    }

    /// A variable gets a value: the reason if that makes programs run something else, and what it holds is judged.
    pub(super) fn variable_set(&mut self, name: &str, value: Option<&Word>, reach: Reach, scope: &Scope, reasons: &mut Vec<Reason>) {
        if !variables::executes(name) {
            return;
        }
        self.git_variable(name, value, scope);
        reasons.push(Reason::new(reach, format!("{name} changes what programs run or read")));
        let Some(text) = value.map(Word::text).filter(|text| !text.is_empty()) else { return };
        if variables::holds_command(name) {
            self.denied_in(&text, scope);
        } else if variables::holds_prompt(name) {
            let mut effects = Effects::default();
            effects.text(&text);
            for script in effects.scripts {
                self.denied_in(&script, scope);
            }
        }
    }

    /// Reasons in the redirections, and their text for rules.
    pub(super) fn redirection_reasons(&mut self, redirections: &[Redirection], scope: &Scope) -> (Vec<Reason>, String) {
        let mut reasons = Vec::new();
        let mut text = Vec::new();
        for redirection in redirections {
            let (word, write) = match redirection {
                Redirection::Read(word) => (word, false),
                Redirection::Write(word) => (word, true),
                _ => continue,
            };
            if !self.spend(20) {
                break;
            }
            text.push(format!("{} {}", if write { ">" } else { "<" }, word.text()));
            let places =
                if write { shapes::places(word, scope, self.surroundings) } else { places::places(word, scope, self.surroundings) };
            for place in places {
                match place {
                    Place::Inside(path) => {
                        self.touch(if write { "edit" } else { "read" }, path.clone());
                        self.file(path.clone(), write);
                        if write && may_be_protected(word, &path) {
                            self.protected(&path);
                        } else if write && word.has_glob() {
                            reasons.push(Reason::new(Reach::Beside, format!("writes {path}, whatever that matches")));
                        }
                    }
                    Place::Outside(path) => {
                        self.outside(&path);
                        self.file(path.display().to_string(), write);
                        if write && may_be_protected(word, &path.to_string_lossy()) {
                            self.protected(&path.to_string_lossy());
                        }
                        if !self.is_allowed_outside(&path) {
                            let does = if write { "writes" } else { "reads" };
                            reasons.push(Reason::new(Reach::Beside, format!("{does} {}, outside the project", path.display())));
                        }
                    }
                    Place::Nowhere => {}
                    Place::Unknown => {
                        reasons.push(Reason::new(Reach::Beside, format!("{} is not known before it runs", word.text())));
                        if write {
                            self.written_somewhere(word);
                        }
                    }
                }
            }
        }
        (reasons, text.join(" "))
    }

    /// A file is written, and where it stands only the run can tell. A yes for longer is about this very line.
    pub(super) fn written_somewhere(&mut self, word: &Word) {
        let text = word.text();
        let shown: String =
            word.pieces.iter().map(|piece| if let Piece::Text { text, .. } = piece { text.as_str() } else { "?" }).collect();
        if may_be_protected(word, &shown) {
            self.protected(&text);
        }
        let pattern = self.known_only_when_it_runs(&text);
        self.touch("external_directory", pattern);
    }

    /// What a rule about folders outside sees in place of one.
    pub(super) fn known_only_when_it_runs(&self, text: &str) -> String {
        format!("`{text}` in `{}`: where it leads is known only when it runs", self.source())
    }

    pub(super) fn outside(&mut self, path: &std::path::Path) {
        let Touch { key, pattern } = outside_touch(path);
        self.touch(&key, pattern);
    }

    /// Reasons in the words: options, little languages, paths, files that are written.
    fn word_reasons(&mut self, program: &str, arguments: &[Word], scope: &mut Scope, reasons: &mut Vec<Reason>) {
        let mut ask = |words: String| reasons.push(Reason::new(Reach::Wildcard, words));
        if let Some(words) = programs::hazard(program, arguments) {
            ask(words);
        }
        if program == "git"
            && let Some(words) = git::hazard(arguments)
        {
            ask(words);
        }
        if matches!(program, "sed" | "gsed")
            && let Some(words) = sed(arguments)
        {
            ask(words.to_owned());
        }
        if matches!(program, "awk" | "gawk" | "mawk" | "nawk" | "original-awk" | "busybox")
            && let Some(words) = awk(arguments)
        {
            ask(words.to_owned());
        }
        if matches!(program, "make" | "gmake" | "bmake")
            && let Some(words) = make(arguments, scope, self.surroundings)
        {
            ask(words);
        }
        if matches!(program, "find" | "gfind" | "bfs" | "tar" | "rsync" | "man")
            && (scope.more_arguments || arguments.iter().any(Word::splits))
        {
            ask(format!("words of {program} are not known before it runs"));
        }
        let scripted = matches!(program, "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk");
        if scripted && scope.more_arguments && arguments.iter().all(|word| word.text().starts_with('-')) {
            ask(format!("the script of {program} is not known before it runs"));
        }
        if arguments.iter().any(Word::may_be_option) {
            ask("an option is not known before it runs".to_owned());
        }
        let several = |word: &Word| places::filled(word, scope, self.surroundings).is_empty() && is_several(word);
        if programs::has_hazards(program) && arguments.iter().any(several) {
            ask(format!("words of {program} are not known before it runs"));
        }
        let filled = self.with_known_values(arguments, scope);
        if let Some(filled) = &filled {
            let git = if program == "git" { git::hazard(filled) } else { None };
            for words in programs::hazard(program, filled).into_iter().chain(git) {
                ask(words);
            }
            if program == "git" {
                self.filled_git(arguments, scope, reasons);
            } else {
                self.places_named(program, filled, scope, reasons);
            }
        }
        self.evaluated(program, arguments, scope);
        if program == "git" {
            self.places_named(program, &resolved(arguments, scope, self.surroundings), scope, reasons);
        } else {
            self.places_named(program, arguments, scope, reasons);
            self.written_files(program, arguments, scope);
        }
        // Every subcommand is a program of its own too.
        if let Some(subcommand) = program.strip_prefix("git-") {
            let words: Vec<Word> = std::iter::once(Word::plain(subcommand)).chain(arguments.iter().cloned()).collect();
            self.places_named("git", &words, scope, reasons);
        }
    }

    /// Paths in the words. Git's count from the folder it is told to go to, and it may do something to its repository.
    pub(super) fn places_named(&mut self, program: &str, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        if program != "git" {
            self.chained_folders(program, arguments, scope, reasons);
            return self.path_reasons(program, arguments, scope, reasons);
        }
        let moved = self.git_folder(arguments, scope, reasons);
        let (scope, arguments) = moved.as_ref().map_or((scope, arguments), |(scope, rest)| (scope, rest.as_slice()));
        self.path_reasons(program, arguments, scope, reasons);
        self.written_files(program, arguments, scope);
        self.handed_files(program, arguments, scope);
        self.written_settings(arguments, scope);
        self.repository_uses(arguments, scope);
    }

    /// Git's words with all their values. A global option has one of them at a time, and right behind stands the subcommand.
    fn filled_git(&mut self, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        let (globals, rest) = arguments.split_at(git::globals_end(&texts));
        if let Some(rest) = self.with_known_values(rest, scope) {
            let words = [resolved(globals, scope, self.surroundings), rest].concat();
            self.places_named("git", &words, scope, reasons);
        }
    }

    /// The words with the values this line gave their variables, every one that is possible; nothing if it gave none.
    pub(super) fn with_known_values(&mut self, arguments: &[Word], scope: &Scope) -> Option<Vec<Word>> {
        let mut words = Vec::new();
        let mut any = false;
        for word in arguments {
            let texts = if word.is_dynamic() { places::filled(word, scope, self.surroundings) } else { Vec::new() };
            if texts.is_empty() {
                words.push(word.clone());
                continue;
            }
            any = true;
            for text in texts {
                if word.splits() {
                    words.extend(text.split_ascii_whitespace().map(Word::plain));
                } else {
                    words.push(Word::plain(&text));
                }
            }
        }
        (any && self.spend(20 * words.len())).then_some(words)
    }

    /// Builtins that evaluate a subscript or an expression they get as plain text.
    fn evaluated(&mut self, program: &str, arguments: &[Word], scope: &Scope) {
        let has = |option: &str| arguments.iter().any(|word| word.text().starts_with(option));
        let names = match program {
            "let" | "declare" | "typeset" | "local" | "export" | "readonly" | "read" | "unset" | "mapfile" | "readarray" | "getopts" => {
                true
            }
            "printf" => has("-v"),
            "test" | "[" => has("-v") || has("-R"),
            "wait" => has("-p"),
            _ => false,
        };
        if !names {
            return;
        }
        let everything = program == "let" || (program != "test" && program != "[" && has("-i"));
        for text in arguments.iter().filter_map(quoted_text).filter(|text| everything || text.contains('[')) {
            let mut effects = Effects::default();
            effects.evaluated(&text);
            self.effects(effects, &text, scope);
        }
    }
}

fn is_inside(place: &Place) -> bool {
    matches!(place, Place::Inside(_))
}

/// Whether the fixed start of an allowing pattern stands for whole words: `git status*` does not mean the program `git status`.
fn covers(pattern: &str, texts: &[String]) -> bool {
    if is_catch_all(pattern) {
        return true;
    }
    let fixed = pattern.split(['*', '?']).next().unwrap_or_default();
    let words = fixed.split(' ').filter(|word| !word.is_empty()).count();
    let exact = !has_wildcard(pattern);
    exact && !texts[0].contains([' ', '\t', '\n']) || !texts.iter().take(words).any(|text| text.contains([' ', '\t', '\n']))
}

/// The words, those that this line gave one value by that value.
fn resolved(arguments: &[Word], scope: &Scope, surroundings: &super::Surroundings) -> Vec<Word> {
    let value = |word: &Word| {
        let texts = if word.is_dynamic() { places::filled(word, scope, surroundings) } else { Vec::new() };
        let [text] = texts.as_slice() else { return None };
        let one = !word.splits() || !(text.is_empty() || text.contains(|letter: char| letter.is_whitespace() || "*?[".contains(letter)));
        one.then(|| Word::plain(text))
    };
    arguments.iter().map(|word| value(word).unwrap_or_else(|| word.clone())).collect()
}

/// `"$@"`, `"${name[@]}"`: as many words as there are.
fn is_several(word: &Word) -> bool {
    word.pieces.iter().any(|piece| match piece {
        Piece::Variable { source, .. } | Piece::Unknown { source, .. } => {
            matches!(source.as_str(), "$@" | "$*" | "${@}" | "${*}") || source.ends_with("[@]}") || source.ends_with("[*]}")
        }
        _ => false,
    })
}

/// A word with the values its variables were given in this line.
fn with_values(word: &Word, scope: &Scope, surroundings: &super::Surroundings) -> String {
    let mut text = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Variable { name, source, default, .. }
                if source != "~" && name != "HOME" && name != "PWD" && text.len() < VALUES_BYTES_MAX =>
            {
                text.push_str(scope.values(name, surroundings).first().or(default.as_ref()).unwrap_or(source));
            }
            Piece::Text { text: literal, .. } => text.push_str(literal),
            Piece::Variable { source, .. } | Piece::Elsewhere { source } | Piece::Unknown { source, .. } => text.push_str(source),
        }
    }
    text
}

fn sed(arguments: &[Word]) -> Option<&'static str> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    if texts.iter().any(|text| text == "--sandbox") {
        return None;
    }
    let mut given: Vec<usize> = Vec::new();
    let mut scripts: Vec<(Word, String)> = Vec::new();
    let mut at = 0;
    while at < texts.len() {
        let text = &texts[at];
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if !name.is_empty() && "file".starts_with(name) {
                return Some("a sed script from a file");
            }
            if !name.is_empty() && "expression".starts_with(name) {
                match value {
                    Some(value) => scripts.push((arguments[at].clone(), value.to_owned())),
                    None => {
                        at += 1;
                        scripts.extend(arguments.get(at).map(|word| (word.clone(), word.text())));
                    }
                }
            }
        } else if let Some(cluster) = text.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            for (index, letter) in cluster.char_indices() {
                let rest = &cluster[index + letter.len_utf8()..];
                match letter {
                    'f' => return Some("a sed script from a file"),
                    'e' if rest.is_empty() => {
                        at += 1;
                        scripts.extend(arguments.get(at).map(|word| (word.clone(), word.text())));
                    }
                    'e' => scripts.push((arguments[at].clone(), rest.to_owned())),
                    _ => {}
                }
                if matches!(letter, 'e' | 'i' | 'l' | 'I') {
                    break;
                }
            }
        } else {
            given.push(at);
        }
        at += 1;
    }
    if scripts.is_empty()
        && let Some(first) = given.first()
    {
        scripts.push((arguments[*first].clone(), texts[*first].clone()));
    }
    if scripts.iter().any(|(word, _)| word.is_dynamic()) {
        return Some("a sed script that is not known before it runs");
    }
    // Fragments are joined by newlines before sed reads them.
    scripts::sed(&scripts.iter().map(|(_, script)| script.as_str()).collect::<Vec<_>>().join("\n"))
}

fn awk(arguments: &[Word]) -> Option<&'static str> {
    let mut at = 0;
    while at < arguments.len() {
        let text = arguments[at].text();
        if text == "--" {
            at += 1;
            break;
        }
        let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else { break };
        let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
        let long = option.starts_with('-') && !name.is_empty();
        if long
            && ["file", "include", "load", "exec", "source", "debug", "dump-variables", "profile", "pretty-print"]
                .iter()
                .any(|known| known.starts_with(name))
        {
            return Some("awk's program comes from elsewhere");
        }
        match option.chars().next() {
            Some('f' | 'i' | 'l' | 'E' | 'e' | 'D' | 'd' | 'p' | 'o' | 'W') if !long => return Some("awk's program comes from elsewhere"),
            Some('v' | 'F') if option.len() == 1 => at += 2,
            _ => at += 1,
        }
    }
    let program = arguments.get(at)?;
    if program.is_dynamic() {
        return Some("an awk program that is not known before it runs");
    }
    scripts::awk(&program.text())
}

/// `make SHELL=./x`: variables that name programs, and values make would expand; a makefile that nobody can see.
fn make(arguments: &[Word], scope: &Scope, surroundings: &super::Surroundings) -> Option<String> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let unseen = |text: &str| matches!(text, "-" | "/dev/stdin" | "/dev/fd/0");
    let piped = texts.windows(2).any(|pair| pair[0].starts_with('-') && pair[0].ends_with('f') && unseen(&pair[1]))
        || texts.iter().any(|text| text.strip_prefix("-f").or_else(|| text.split_once("file=").map(|(_, file)| file)).is_some_and(unseen));
    if piped {
        return Some("a makefile that nobody can see".to_owned());
    }
    arguments.iter().find_map(|word| {
        let text = word.text();
        let (name, value) = text.split_once('=').filter(|_| !text.starts_with('-'))?;
        let name = name.trim_end_matches([':', '?', '+', '!']);
        let known = variables::executes(name)
            || name.starts_with('.')
            || name.ends_with("FLAGS")
            || matches!(name, "YACC" | "LEX" | "INSTALL" | "RM" | "ARFLAGS");
        // What the shell puts in is known, and make finds nothing to expand in it.
        let plain = places::assigned(word, scope, surroundings).is_some_and(|texts| !texts.iter().any(|text| text.contains('$')));
        (known || (value.contains('$') && !plain) || name.contains('$') || text.contains("!="))
            .then(|| format!("`{text}` makes make execute something else"))
    })
}

/// `NAME=value` in the words of a builtin that sets variables.
pub(super) fn assigned_in(word: &Word) -> Option<(String, Word)> {
    let text = word.text();
    let (name, _) = text.split_once('=')?;
    let bare = name.trim_end_matches('+').split('[').next().unwrap_or_default().to_owned();
    is_assignment(&format!("{bare}=")).then(|| (bare, after(word, name.chars().count() + 1)))
}
