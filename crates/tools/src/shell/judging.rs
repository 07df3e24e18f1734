//! The rules' side: which rule speaks for a text, and the strictest verdict so far.
//!
//! Last match wins for the command as it is written. Other spellings of the same command (basename, folded case, git
//! without its global options, with its redirections) can only make it stricter, and only by a rule that names
//! something: a bare `*` says nothing about spellings.

use posse_session::{AskedFor, Rule, Rules, Touch, Verdict, wildcard};

use super::{
    COMMANDS_MAX, DEPTH_MAX, Files, ShellVerdict, Surroundings, WORK_MAX, parse,
    repository::{Does, RepositoryUse},
    scan,
    walk::Scope,
    wrappers::basename,
};

/// Files one line may name; a list of more is a find in disguise.
const FILES_MAX: usize = 2_000;

/// Things one line may touch or ask for. More than a person reads, and no list that rules are asked about may be cut.
const TOUCHES_MAX: usize = 500;

/// Letters compared one by one with a pattern; more may match.
const MATCHED_MAX: usize = 2_000;

pub(super) struct Judge<'a> {
    pub(super) rules: Vec<&'a Rule>,
    /// With those of other keys.
    all_rules: &'a Rules,
    /// The first words of what is denied.
    denied_names: Vec<&'a str>,
    pub(super) surroundings: &'a Surroundings,
    /// What is being judged; a script inside it while only its denies count.
    source: String,
    strictest: Option<Finding>,
    /// Constructs that run nothing by themselves; judged only if nothing else is in the line.
    neutral: Vec<String>,
    commands: usize,
    work: usize,
    /// The whole source was searched for what is denied.
    searched: bool,
    stopped: bool,
    asked_for_all: bool,
    /// Inside a script that a reason to ask covers already: nothing but a deny is kept.
    only_denies: bool,
    /// And the folders outside: what runs it is allowed, so nothing else would tell of them.
    keeps_places: bool,
    touches: Vec<Touch>,
    asking: Vec<AskedFor>,
    files: Files,
    repository: Vec<RepositoryUse>,
    /// Some of it was not understood, or not looked at.
    unclear: bool,
}

#[derive(Debug, Clone)]
struct Finding {
    verdict: Verdict,
    why: String,
    rule: Option<String>,
    origin: String,
}

/// What the rules say about one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Nothing,
    Rule(usize, &'a Rule),
}

/// A reason to ask although a rule allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) reach: Reach,
    pub(super) words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// In the words themselves: an exact pattern has consented to them.
    Wildcard,
    /// Beside the words (environment, redirection): only a bare `*` covers it.
    Beside,
    /// Nobody can know what runs, or it would raise the agent's own rights.
    Always,
}

impl Reason {
    pub(super) fn new(reach: Reach, words: impl Into<String>) -> Self {
        Self { reach, words: words.into() }
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(source: &str, rules: &'a Rules, surroundings: &'a Surroundings) -> Self {
        let all_rules = rules;
        let rules: Vec<&Rule> = rules.0.iter().filter(|rule| wildcard("bash", &rule.key)).collect();
        let denied = rules.iter().filter(|rule| rule.action == Verdict::Deny && !is_catch_all(&rule.pattern));
        let denied_names = denied.map(|rule| rule.pattern.split(' ').next().unwrap_or_default()).collect();
        Self {
            rules,
            all_rules,
            denied_names,
            surroundings,
            source: source.to_owned(),
            strictest: None,
            neutral: Vec::new(),
            commands: 0,
            work: 0,
            searched: false,
            stopped: false,
            asked_for_all: false,
            only_denies: false,
            keeps_places: false,
            touches: Vec::new(),
            asking: Vec::new(),
            files: Files::default(),
            repository: Vec::new(),
            unclear: false,
        }
    }

    /// The whole line.
    pub(super) fn line(&mut self, text: &str) {
        let mut scope = Scope::new(self.surroundings);
        if let Err(reason) = self.parsed(text, &mut scope) {
            self.unreadable(text, reason);
        }
    }

    /// Text that would be run by a shell of its own: nothing it changes stays.
    pub(super) fn script(&mut self, text: &str, scope: &Scope) {
        let mut inner = scope.deeper();
        if self.is_over() || self.too_deep(&inner) {
            return;
        }
        if let Err(reason) = self.parsed(text, &mut inner) {
            self.unreadable(text, reason);
            // Where it was cut out may be wrong as well.
            self.distrust(reason);
        }
    }

    fn parsed(&mut self, text: &str, scope: &mut Scope) -> Result<(), parse::Refusal> {
        if !self.spend(parse::effort(text)) {
            return Ok(());
        }
        let program = parse::program(text)?;
        self.program(&program, text, scope);
        Ok(())
    }

    /// Only what is denied in this script counts; the rest is covered by a reason.
    pub(super) fn denied_in(&mut self, script: &str, scope: &Scope) {
        let mut inner = scope.deeper();
        inner.depth += 4;
        inner.input.clear();
        if !self.spend(20) || self.too_deep(&inner) {
            return;
        }
        let source = std::mem::replace(&mut self.source, script.to_owned());
        let only_denies = std::mem::replace(&mut self.only_denies, true);
        self.script(script, &inner);
        self.only_denies = only_denies;
        self.source = source;
        if self.stopped && !self.only_denies {
            self.distrust("more than can be looked at");
        }
    }

    /// The same for a script that surely runs: the folders outside it leads to count too.
    pub(super) fn carried(&mut self, script: &str, scope: &Scope) {
        let keeps_places = std::mem::replace(&mut self.keeps_places, true);
        self.denied_in(script, &scope.repeated());
        self.keeps_places = keeps_places;
    }

    /// Not understood: asks, and is searched for commands that are denied.
    fn unreadable(&mut self, text: &str, reason: &str) {
        self.unclear = true;
        self.unknown(text, &format!("cannot be read: {reason}"));
        self.search(text, scan::Where::Commands);
    }

    /// Bash may read it otherwise: asks, and any word may be a command.
    pub(super) fn distrust(&mut self, reason: &str) {
        self.unclear = true;
        if self.searched && self.asks_for_all() {
            return;
        }
        let source = self.source.clone();
        self.unknown(&source, &format!("may be read in two ways: {reason}"));
        if !self.searched {
            self.searched = !self.only_denies;
            self.search(&source, scan::Where::Anywhere);
        }
    }

    /// A limit was reached: fails closed, and looks no further.
    pub(super) fn give_up(&mut self, reason: &str) {
        if !self.stopped {
            self.stopped = true;
            self.distrust(reason);
        }
    }

    pub(super) fn too_deep(&mut self, scope: &Scope) -> bool {
        if DEPTH_MAX < scope.depth {
            self.distrust("nested too deep");
            return true;
        }
        false
    }

    /// Counts one simple command; false once there are too many.
    pub(super) fn count(&mut self) -> bool {
        self.commands += 1;
        if COMMANDS_MAX < self.commands {
            self.give_up("more commands than can be looked at");
        }
        !self.is_over()
    }

    /// Counts work; false once there was too much of it.
    pub(super) fn spend(&mut self, work: usize) -> bool {
        self.work = self.work.saturating_add(work);
        if WORK_MAX < self.work {
            self.give_up("more than can be looked at");
        }
        !self.is_over()
    }

    /// Whether nothing can change the verdict any more, or a limit has been reached.
    pub(super) fn is_over(&self) -> bool {
        let denied = self.strictest.as_ref().is_some_and(|strictest| strictest.verdict == Verdict::Deny);
        denied || self.stopped
    }

    fn search(&mut self, text: &str, place: scan::Where) {
        if let Some((rule, command)) = scan::strictest(text, &self.rules, place) {
            self.find(rule.action, &command, String::new(), Some(rule));
        }
    }

    /// For words among which a command may begin anywhere: what is denied at each of them.
    pub(super) fn search_words(&mut self, words: &[String]) {
        for (start, word) in words.iter().enumerate() {
            let bare = basename(word);
            if !self.could_be_denied(word, start == 0) && !self.could_be_denied(bare, start == 0) {
                continue;
            }
            let rest = words[start + 1..].join(" ");
            if !self.spend(1 + rest.len() / 2 + words.len() / 2) {
                return;
            }
            for name in [word.as_str(), bare] {
                let text = if rest.is_empty() { name.to_owned() } else { format!("{name} {rest}") };
                if let Some(rule) = self.stricter(&text, None, Verdict::Deny) {
                    self.find(rule.action, &text, String::new(), Some(rule));
                }
            }
        }
    }

    /// The first command that words from some place on would be and a rule with a name denies, and that rule.
    pub(super) fn denied_within(&mut self, words: &[String]) -> Option<(String, String)> {
        for (start, word) in words.iter().enumerate() {
            if !self.could_be_denied(word, false) && !self.could_be_denied(basename(word), false) {
                continue;
            }
            let rest: Vec<&str> = std::iter::once(basename(word)).chain(words[start + 1..].iter().map(String::as_str)).collect();
            let text = rest.join(" ");
            if !self.spend(1 + text.len() / 2) {
                return None;
            }
            if let Some(rule) = self.stricter(&text, None, Verdict::Deny) {
                return Some((text, format!("{}({})", rule.key, rule.pattern)));
            }
        }
        None
    }

    /// Whether some deny begins like a command of this name. One that begins with a star sees all of a text at once.
    fn could_be_denied(&self, name: &str, whole: bool) -> bool {
        // A quoted word may hold a whole command.
        let name = name.split_ascii_whitespace().next().unwrap_or_default();
        self.denied_names.iter().any(|denied| match denied.find(['*', '?']) {
            Some(0) => whole,
            Some(at) => name.get(..at).is_some_and(|start| start.eq_ignore_ascii_case(&denied[..at])),
            None => name.eq_ignore_ascii_case(denied) || (!name.is_ascii() && name.to_lowercase() == denied.to_lowercase()),
        })
    }

    /// The line, for what only makes sense as a whole.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether a rule speaks of this very command: a function may be called like it, but need not be there when it runs.
    pub(super) fn is_named(&self, text: &str) -> bool {
        matches!(self.said(text), Said::Rule(_, rule) if !is_catch_all(&rule.pattern))
    }

    pub(super) fn said(&self, text: &str) -> Said<'a> {
        let found = self.rules.iter().enumerate().rev().find(|(_, rule)| could_start(text, &rule.pattern) && wildcard(text, &rule.pattern));
        found.map_or(Said::Nothing, |(index, rule)| Said::Rule(index, rule))
    }

    /// What an earlier rule says when this one only matches by a blank inside a word.
    pub(super) fn said_without(&self, text: &str, index: usize) -> Said<'a> {
        let earlier =
            self.rules[..index].iter().enumerate().rev().find(|(_, rule)| rule.action != Verdict::Allow && wildcard(text, &rule.pattern));
        earlier.map_or(Said::Nothing, |(index, rule)| Said::Rule(index, rule))
    }

    /// The rule that makes another spelling of a command stricter than its own text was, if any.
    pub(super) fn stricter(&self, spelling: &str, above: Option<usize>, at_least: Verdict) -> Option<&'a Rule> {
        let folded = fold_name(spelling);
        let matches = |rule: &Rule| {
            (could_start(spelling, &rule.pattern) && wildcard(spelling, &rule.pattern))
                || (!rule.pattern.starts_with(['*', '?']) && wildcard(&folded, &fold_name(&rule.pattern)))
        };
        let (index, rule) =
            self.rules.iter().enumerate().rev().find(|(_, rule)| could_start_folded(spelling, &rule.pattern) && matches(rule))?;
        (at_least <= rule.action && !is_catch_all(&rule.pattern) && above.is_none_or(|above| above < index)).then_some(*rule)
    }

    /// Records a verdict on one command; the strictest is kept, the first of equals.
    pub(super) fn find(&mut self, verdict: Verdict, command: &str, reason: String, rule: Option<&Rule>) {
        let covered = self.only_denies && verdict < Verdict::Deny;
        if covered || self.strictest.as_ref().is_some_and(|strictest| verdict <= strictest.verdict) {
            return;
        }
        let command: String = command.chars().take(200).collect();
        let label = rule.map(|rule| format!("{}({})", rule.key, rule.pattern));
        let why = match (&label, reason.as_str()) {
            (Some(label), "") => format!("`{command}`: rule {label}"),
            (_, "") => format!("`{command}`: no rule matches"),
            (_, reason) => format!("`{command}`: {reason}"),
        };
        let origin = rule.map(|rule| rule.origin.clone()).unwrap_or_default();
        self.strictest = Some(Finding { verdict, why, rule: label, origin });
    }

    /// Nobody can know what runs: asks for the whole line, word for word.
    pub(super) fn unknown(&mut self, command: &str, reason: &str) {
        // What is denied as it is written is not asked about because more may be in it.
        if !command.is_empty()
            && !self.is_over()
            && let Said::Rule(_, rule) = self.said(command)
            && rule.action == Verdict::Deny
        {
            self.find(Verdict::Deny, command, String::new(), Some(rule));
            return;
        }
        self.work = self.work.saturating_add(command.len() / 16);
        if self.asks_for_all() {
            return;
        }
        self.find(Verdict::Ask, command, reason.to_owned(), None);
        self.asked_for_all = true;
        let source = self.source.clone();
        self.ask("bash", source, true);
    }

    /// Whether there is nothing more to ask for.
    pub(super) fn asks_for_all(&self) -> bool {
        self.asked_for_all || self.only_denies
    }

    /// Writing this file asks, whatever the rules say.
    pub(super) fn protected(&mut self, path: &str) {
        self.find(Verdict::Ask, path, "a protected file".to_owned(), None);
        self.touch("protected", path);
        self.ask("protected", path, true);
    }

    /// Something that needs no rule beside real commands: an assignment, `[[ ... ]]`, a bare redirection.
    pub(super) fn neutral(&mut self, text: String, reasons: &[Reason]) {
        if self.only_denies {
            return;
        }
        if reasons.is_empty() {
            self.neutral.push(text);
            return;
        }
        self.by_rules(&text, reasons);
    }

    /// The verdict on a text by its own rules alone.
    fn by_rules(&mut self, text: &str, reasons: &[Reason]) {
        let (verdict, reason, rule) = match self.said(text) {
            Said::Nothing => (Verdict::Ask, String::new(), None),
            Said::Rule(_, rule) => {
                let (verdict, reason) = lowered(rule, text, reasons);
                (verdict, reason, Some(rule))
            }
        };
        self.find(verdict, text, reason, rule);
        if verdict == Verdict::Ask {
            self.ask("bash", text, !reasons.is_empty());
        }
    }

    pub(super) fn touch(&mut self, key: &str, pattern: impl Into<String>) {
        let touch = Touch::new(key, pattern);
        let covered = self.only_denies && !(self.keeps_places && key == "external_directory");
        if covered || self.touches.contains(&touch) {
            return;
        }
        if self.touches.len() == TOUCHES_MAX {
            self.give_up("touches more than can be judged");
        } else {
            self.touches.push(touch);
        }
    }

    /// A file that words of a command name, and whether it is changed.
    pub(super) fn file(&mut self, path: impl Into<String>, write: bool) {
        self.name(path.into(), |files| if write { &mut files.written } else { &mut files.named });
    }

    /// A file given to a program that may change it.
    pub(super) fn handed(&mut self, path: String) {
        self.name(path, |files| &mut files.handed);
    }

    fn name(&mut self, path: String, list: impl FnOnce(&mut Files) -> &mut Vec<String>) {
        let names = list(&mut self.files);
        if names.contains(&path) {
            return;
        }
        if names.len() < FILES_MAX {
            names.push(path);
        } else {
            self.give_up("names more files than can be judged");
        }
    }

    /// Something git is told to do to its repository, in one of these folders.
    pub(super) fn repository(&mut self, folders: Vec<std::path::PathBuf>, does: Does) {
        let used = RepositoryUse { folders, does };
        if (self.only_denies && !self.keeps_places) || self.repository.contains(&used) {
            return;
        }
        if self.repository.len() == TOUCHES_MAX {
            self.give_up("does more to a repository than can be judged");
        } else {
            self.repository.push(used);
        }
    }

    /// What git was told to do in the words before.
    pub(super) fn repository_so_far(&self) -> impl Iterator<Item = &RepositoryUse> {
        self.repository.iter()
    }

    /// Whether a rule about folders outside the project allows this one; then it is no reason to ask.
    pub(super) fn is_allowed_outside(&self, path: &std::path::Path) -> bool {
        self.is_allowed(&outside_touch(path))
    }

    pub(super) fn is_allowed(&self, touch: &Touch) -> bool {
        self.all_rules.judge(touch).verdict == Verdict::Allow
    }

    /// One thing a person would have to allow; `exact` when only these very words may be allowed.
    pub(super) fn ask(&mut self, key: &str, pattern: impl Into<String>, exact: bool) {
        if self.only_denies || self.asking.len() == TOUCHES_MAX {
            return;
        }
        let touch = Touch::new(key, pattern);
        match self.asking.iter_mut().find(|known| known.touch == touch) {
            Some(known) => known.exact |= exact,
            None => self.asking.push(AskedFor::new(touch, exact)),
        }
        if self.asking.len() == TOUCHES_MAX {
            // No part of a list that was cut may stand for the whole.
            self.asking = vec![AskedFor::new(Touch::new("bash", self.source.clone()), true)];
            self.give_up("asks for more than a person can read");
        }
    }

    pub(super) fn finish(mut self) -> ShellVerdict {
        if self.strictest.is_none() {
            for text in std::mem::take(&mut self.neutral) {
                self.by_rules(&text, &[]);
            }
        }
        let Finding { verdict, why, rule, origin } = self.strictest.unwrap_or_else(|| Finding {
            verdict: Verdict::Ask,
            why: "nothing to check in this line".to_owned(),
            rule: None,
            origin: String::new(),
        });
        let mut asking = self.asking;
        match verdict {
            // What is not clear may hold anything that needs a person, so no mode answers it.
            Verdict::Ask if self.unclear => asking.push(AskedFor::new(Touch::new("unreadable", self.source), true)),
            Verdict::Ask if asking.is_empty() => asking.push(AskedFor::new(Touch::new("bash", self.source), true)),
            Verdict::Ask => {}
            Verdict::Allow | Verdict::Deny => asking.clear(),
        }
        ShellVerdict { verdict, why, rule, origin, touches: self.touches, asking, files: self.files, repository: self.repository }
    }
}

pub(crate) fn outside_touch(path: &std::path::Path) -> Touch {
    // A folder right below `/` stands for itself: a yes to `/etc` is no yes to the whole disk.
    let parent = path.parent().filter(|parent| parent.parent().is_some()).unwrap_or(path);
    let folder = parent.display().to_string();
    Touch::new("external_directory", format!("{}/*", folder.trim_end_matches('/')))
}

/// The same for what is surely a folder.
pub(super) fn outside_folder_touch(path: &std::path::Path) -> Touch {
    Touch::new("external_directory", format!("{}/*", path.display().to_string().trim_end_matches('/')))
}

/// The rule's verdict after the reasons against it, and the reason that counted.
pub(super) fn lowered(rule: &Rule, exact_text: &str, reasons: &[Reason]) -> (Verdict, String) {
    if rule.action != Verdict::Allow {
        return (rule.action, String::new());
    }
    let covered = if is_catch_all(&rule.pattern) {
        Some(Reach::Beside)
    } else if !has_wildcard(&rule.pattern) && rule.pattern == exact_text {
        Some(Reach::Wildcard)
    } else {
        None
    };
    let counts = reasons.iter().find(|reason| covered.is_none_or(|covered| covered < reason.reach));
    counts.map_or((Verdict::Allow, String::new()), |reason| (Verdict::Ask, reason.words.clone()))
}

pub(super) fn is_catch_all(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.bytes().all(|byte| byte == b'*' || byte == b' ')
}

pub(super) fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// A cheap look at the first letter, so that most rules cost nothing.
fn could_start(text: &str, pattern: &str) -> bool {
    match (text.as_bytes().first(), pattern.as_bytes().first()) {
        (_, None | Some(b'*' | b'?' | b'\\' | b'/')) | (None, _) => true,
        (Some(first), Some(wanted)) => first == wanted || *first == b'\\',
    }
}

fn could_start_folded(text: &str, pattern: &str) -> bool {
    match (text.as_bytes().first(), pattern.as_bytes().first()) {
        (Some(first), Some(wanted)) if first.is_ascii() => could_start(text, pattern) || first.eq_ignore_ascii_case(wanted),
        _ => true,
    }
}

/// The first word in lower case: file systems that ignore case run `RM`.
fn fold_name(text: &str) -> String {
    let (name, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    format!("{}{rest}", name.to_lowercase())
}

/// Whether some value of the unknown words makes the text match; `None` stands for an unknown stretch.
pub(super) fn could_match(text: &[Option<char>], pattern: &str) -> bool {
    let pattern: Vec<char> = pattern.strip_suffix(" *").map_or_else(|| pattern.to_owned(), |bare| format!("{bare}*")).chars().collect();
    let known = text.iter().map_while(|letter| *letter);
    let fixed = pattern.iter().take_while(|letter| !matches!(letter, '*' | '?'));
    if known.zip(fixed).any(|(letter, wanted)| letter != *wanted) {
        return false;
    }
    if MATCHED_MAX < text.len() {
        return true;
    }
    // reach[j]: some prefix of the text can be matched by the first j letters of the pattern.
    let step = |reach: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            if reach[at] && pattern[at] == '*' {
                reach[at + 1] = true;
            }
        }
    };
    let mut reach = vec![false; pattern.len() + 1];
    reach[0] = true;
    step(&mut reach);
    for letter in text {
        let Some(first) = reach.iter().position(|reached| *reached) else { return false };
        let mut next = vec![false; pattern.len() + 1];
        match letter {
            None => next[first..].fill(true),
            Some(letter) => {
                for at in first..pattern.len() {
                    if !reach[at] {
                        continue;
                    }
                    match pattern[at] {
                        '*' => next[at] = true,
                        '?' => next[at + 1] = true,
                        wanted if wanted == *letter => next[at + 1] = true,
                        _ => {}
                    }
                }
            }
        }
        step(&mut next);
        reach = next;
    }
    reach[pattern.len()]
}
