//! One simple command: what the rules say about it, the reasons to ask all the same, and the commands inside it.
//!
//! An allow needs the words as they are written. Denies and asks also see every other spelling of the same command.

use posse_session::{Rule, Verdict};

use super::{
    git,
    judging::{Judge, Reach, Reason, Said, could_match, has_wildcard, is_catch_all, lowered},
    places::{self, Place},
    programs, scripts, urls, variables,
    walk::{Around, Redirection, Scope, quoted_text},
    word::{Effects, Piece, Word},
    wrappers::{basename, is_assignment},
};

/// Characters of a program's name that no shell gives a meaning to. `a[0 ]=1 rm` is an assignment for bash.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && (name == "[" || !name.contains('['))
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"$`'\"\\*?(){}<>|;&#".contains(&byte))
}

impl Judge<'_> {
    pub(super) fn simple(&mut self, mut words: Vec<Word>, scope: &mut Scope, around: Around) {
        if !self.count() {
            return;
        }
        // `time -- cmd`: the keyword takes the dashes.
        if around.timed && words.first().and_then(Word::literal).is_some_and(|word| word == "--") {
            words.remove(0);
        }
        let (mut reasons, redirected) = self.redirection_reasons(&around.redirections, scope);
        self.assignment_reasons(&around, scope, &mut reasons);
        let prefix =
            around.assignments.iter().map(|assigned| format!("{}={}", assigned.name, assigned.value.text())).collect::<Vec<_>>().join(" ");
        let Some(name) = words.first() else {
            for assigned in &around.assignments {
                scope.set(&assigned.name, assigned.value.literal());
            }
            self.neutral([prefix, redirected].join(" ").trim().to_owned(), &reasons);
            return;
        };
        let texts: Vec<String> = words.iter().map(Word::text).collect();
        let text = texts.join(" ");
        self.touch("bash", text.clone());
        let name = match name.literal() {
            Some(name) if is_plain_name(&name) => name,
            Some(_) => {
                self.find(Verdict::Ask, &text, "the program's name has unusual characters".to_owned(), None);
                self.search_words(&texts);
                String::new()
            }
            None => {
                self.find(Verdict::Ask, &text, "the program's name is not known before it runs".to_owned(), None);
                self.search_words(&texts);
                return;
            }
        };
        let program = basename(&name).to_lowercase();
        let arguments = &words[1..];
        if scope.functions.contains(&name) {
            // Its body was judged where it is defined; its words may still be commands.
            self.search_words(&texts[1..]);
            return;
        }
        self.word_reasons(&program, arguments, scope, &mut reasons);
        self.inner(&program, &words, scope, &around, &mut reasons);
        self.by_spellings(&texts, &prefix, &redirected, &around, arguments, scope, &reasons);
    }

    /// The verdict on the command itself.
    #[expect(clippy::too_many_arguments, reason = "the parts of one command, each used once")]
    fn by_spellings(
        &mut self,
        texts: &[String],
        prefix: &str,
        redirected: &str,
        around: &Around,
        arguments: &[Word],
        scope: &Scope,
        reasons: &[Reason],
    ) {
        let text = texts.join(" ");
        let whole = [prefix, &text, redirected].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
        let said = match self.said(&text) {
            Said::Rule(index, rule) if rule.action == Verdict::Allow && !covers(&rule.pattern, texts) => self.said_without(&text, index),
            said => said,
        };
        let mut above = None;
        match said {
            Said::Nothing => self.find(Verdict::Ask, &text, String::new(), None),
            Said::Rule(index, rule) => {
                above = Some(index);
                let mut reasons = reasons.to_vec();
                if rule.action == Verdict::Allow
                    && let Some(words) = urls::hazard(&rule.pattern, arguments)
                {
                    reasons.push(Reason::new(Reach::Wildcard, words));
                }
                // The very line, with everything around it, may have been consented to.
                let consented = self
                    .rules
                    .iter()
                    .any(|rule| rule.action == Verdict::Allow && !has_wildcard(&rule.pattern) && rule.pattern == whole && whole != text);
                if consented {
                    reasons.retain(|reason| reason.reach == Reach::Always);
                }
                let (verdict, reason) = lowered(rule, &text, &reasons);
                self.find(verdict, &whole, reason, Some(rule));
            }
        }
        for spelling in self.spellings(texts, &whole, around, arguments, scope) {
            if let Some(rule) = self.stricter(&spelling, above, Verdict::Ask) {
                self.find(rule.action, &spelling, String::new(), Some(rule));
            }
        }
        self.possible_denies(texts, arguments, scope, above);
    }

    /// The same command in other words.
    fn spellings(&self, texts: &[String], whole: &str, around: &Around, arguments: &[Word], scope: &Scope) -> Vec<String> {
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
                forms.push(whole.to_owned());
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
            self.find(Verdict::Ask, &texts.join(" "), words, None);
        }
    }

    fn assignment_reasons(&mut self, around: &Around, scope: &Scope, reasons: &mut Vec<Reason>) {
        for assigned in &around.assignments {
            self.variable_set(&assigned.name, Some(&assigned.value), Reach::Beside, scope, reasons);
        }
    }

    /// A variable gets a value: the reason if that makes programs run something else, and what it holds is judged.
    pub(super) fn variable_set(&mut self, name: &str, value: Option<&Word>, reach: Reach, scope: &Scope, reasons: &mut Vec<Reason>) {
        if !variables::executes(name) {
            return;
        }
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

    /// Only what is denied in this script counts; the rest is covered by a reason.
    pub(super) fn denied_in(&mut self, script: &str, scope: &Scope) {
        let rules = posse_session::Rules(self.rules.iter().map(|rule| (*rule).clone()).collect());
        let mut inner = Judge::new(script, &rules, self.surroundings);
        let mut depth = scope.deeper();
        depth.depth += 4;
        if self.too_deep(&depth) {
            return;
        }
        inner.script(script, &depth);
        let verdict = inner.finish();
        if verdict.verdict == Verdict::Deny {
            self.find(Verdict::Deny, script, verdict.why, None);
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
            text.push(format!("{} {}", if write { ">" } else { "<" }, word.text()));
            for place in places::places(word, scope, self.surroundings) {
                match place {
                    Place::Inside(path) => {
                        self.touch(if write { "edit" } else { "read" }, path.clone());
                        if write && places::is_protected(&path) {
                            reasons.push(Reason::new(Reach::Always, format!("writes {path}, a protected file")));
                        } else if write && word.has_glob() {
                            reasons.push(Reason::new(Reach::Beside, format!("writes {path}, whatever that matches")));
                        }
                    }
                    Place::Outside(path) => {
                        self.outside(&path);
                        let does = if write { "writes" } else { "reads" };
                        reasons.push(Reason::new(Reach::Beside, format!("{does} {}, outside the project", path.display())));
                    }
                    Place::Nowhere => {}
                    Place::Unknown => reasons.push(Reason::new(Reach::Beside, format!("{} is not known before it runs", word.text()))),
                }
            }
        }
        (reasons, text.join(" "))
    }

    fn outside(&mut self, path: &std::path::Path) {
        let folder = path.parent().unwrap_or(path).display().to_string();
        self.touch("external_directory", format!("{}/*", folder.trim_end_matches('/')));
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
            && let Some(words) = make(arguments)
        {
            ask(words);
        }
        if matches!(program, "find" | "gfind" | "bfs" | "tar" | "rsync" | "man")
            && (scope.more_arguments || arguments.iter().any(Word::splits))
        {
            ask(format!("words of {program} are not known before it runs"));
        }
        if arguments.iter().any(Word::may_be_option) {
            ask("an option is not known before it runs".to_owned());
        }
        self.evaluated(program, arguments, scope);
        self.path_reasons(program, arguments, scope, reasons);
        for path in written(program, arguments) {
            let protected = places::places(&path, scope, self.surroundings)
                .into_iter()
                .any(|place| matches!(place, Place::Inside(path) if places::is_protected(&path)));
            if protected {
                reasons.push(Reason::new(Reach::Always, format!("writes {}, a protected file", path.text())));
            }
        }
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

    fn path_reasons(&mut self, program: &str, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        let uploads = matches!(program, "curl" | "wget");
        if programs::takes_no_paths(program) && !uploads {
            return;
        }
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        let mut leading = programs::leading_texts(program, &texts);
        let (mut skip, mut ended) = (false, false);
        for (word, text) in arguments.iter().zip(&texts) {
            if std::mem::take(&mut skip) {
                continue;
            }
            let mut candidates: Vec<Word> = Vec::new();
            if !ended && text == "--" {
                ended = true;
            } else if !ended && text.starts_with("--") {
                if let Some((long, _)) = text.split_once('=')
                    && !programs::is_text_option(&long[2..])
                {
                    candidates.push(after(word, long.chars().count() + 1));
                }
            } else if !ended && text.starts_with('-') && 1 < text.len() {
                let letter = text.chars().nth(1).unwrap_or('-');
                let find_text = program == "find"
                    && matches!(
                        text.as_str(),
                        "-name"
                            | "-iname"
                            | "-path"
                            | "-ipath"
                            | "-wholename"
                            | "-iwholename"
                            | "-regex"
                            | "-iregex"
                            | "-lname"
                            | "-printf"
                    );
                if programs::takes_text(program, letter) || find_text {
                    skip = text.chars().count() == 2 || find_text;
                } else {
                    candidates.push(after(word, 2));
                    candidates.extend(text.find('=').map(|at| after(word, text[..at].chars().count() + 1)));
                }
            } else if 0 < leading {
                leading -= 1;
            } else {
                candidates.push(word.clone());
                candidates.extend(text.find('=').map(|at| after(word, text[..at].chars().count() + 1)));
                candidates.extend(text.starts_with('@').then(|| after(word, 1)));
            }
            for candidate in candidates {
                self.path_reason(&candidate, uploads, scope, reasons);
            }
        }
    }

    fn path_reason(&mut self, word: &Word, uploads: bool, scope: &Scope, reasons: &mut Vec<Reason>) {
        let text = word.text();
        let address = text.contains("://") && !text.starts_with("file:");
        if address || (uploads && !text.starts_with(['/', '~', '@']) && !text.starts_with("file:")) {
            return;
        }
        for place in places::places(word, scope, self.surroundings) {
            if let Place::Outside(path) = place {
                self.outside(&path);
                reasons.push(Reason::new(Reach::Wildcard, format!("{} is outside the project", path.display())));
            }
        }
    }
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

/// A word with the values its variables were given in this line.
fn with_values(word: &Word, scope: &Scope, surroundings: &super::Surroundings) -> String {
    word.pieces
        .iter()
        .map(|piece| match piece {
            Piece::Variable { name, source, .. } if source != "~" && name != "HOME" && name != "PWD" => {
                scope.values(name, surroundings).first().cloned().unwrap_or_else(|| source.clone())
            }
            Piece::Text { text, .. } => text.clone(),
            Piece::Variable { source, .. } | Piece::Elsewhere { source } | Piece::Unknown { source, .. } => source.clone(),
        })
        .collect()
}

/// The word without its first letters.
pub(super) fn after(word: &Word, letters: usize) -> Word {
    let mut left = letters;
    let mut pieces = Vec::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text { text, quoted } if 0 < left => {
                let count = text.chars().count();
                if left < count {
                    pieces.push(Piece::Text { text: text.chars().skip(left).collect(), quoted: *quoted });
                }
                left = left.saturating_sub(count);
            }
            other => {
                left = 0;
                pieces.push(other.clone());
            }
        }
    }
    Word { pieces }
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

/// `make SHELL=./x`: variables that name programs, and values make would expand.
fn make(arguments: &[Word]) -> Option<String> {
    arguments.iter().map(Word::text).find_map(|text| {
        let (name, value) = text.split_once('=').filter(|_| !text.starts_with('-'))?;
        let name = name.trim_end_matches([':', '?', '+', '!']);
        let known = variables::executes(name)
            || name.starts_with('.')
            || name.ends_with("FLAGS")
            || matches!(name, "YACC" | "LEX" | "INSTALL" | "RM" | "ARFLAGS");
        (known || value.contains('$') || name.contains('$') || text.contains("!="))
            .then(|| format!("`{text}` makes make execute something else"))
    })
}

/// Operands a program writes.
fn written(program: &str, arguments: &[Word]) -> Vec<Word> {
    let operands = || arguments.iter().filter(|word| !word.text().starts_with('-')).cloned().collect::<Vec<_>>();
    match program {
        "tee" | "touch" | "truncate" | "mkdir" | "sponge" | "chmod" | "chown" | "mv" | "rsync" => operands(),
        "sed" | "gsed" | "perl" | "ruby" => {
            let in_place = arguments.iter().any(|word| {
                let text = word.text();
                text.starts_with("--in-place") || (text.starts_with('-') && !text.starts_with("--") && text.contains('i'))
            });
            if in_place { operands() } else { Vec::new() }
        }
        "cp" | "ln" | "install" | "scp" => {
            let all = operands();
            let Some(target) = all.last().cloned() else { return Vec::new() };
            // Into a folder it keeps its name.
            let kept = all.iter().take(all.len() - 1).map(|source| Word::plain(&format!("{}/{}", target.text(), basename(&source.text()))));
            let mut paths: Vec<Word> = kept.collect();
            paths.extend(
                arguments
                    .iter()
                    .filter(|word| word.text().starts_with("-t") || word.text().starts_with("--target"))
                    .map(|word| after(word, if word.text().starts_with("--") { 19 } else { 2 })),
            );
            paths.push(target);
            paths
        }
        "dd" => arguments.iter().filter(|word| word.text().starts_with("of=")).map(|word| after(word, 3)).collect(),
        "uniq" => operands().into_iter().skip(1).collect(),
        _ => Vec::new(),
    }
}

/// `NAME=value` in the words of a builtin that sets variables.
pub(super) fn assigned_in(word: &Word) -> Option<(String, Word)> {
    let text = word.text();
    let (name, _) = text.split_once('=')?;
    let bare = name.trim_end_matches('+').split('[').next().unwrap_or_default().to_owned();
    is_assignment(&format!("{bare}=")).then(|| (bare, after(word, name.chars().count() + 1)))
}
