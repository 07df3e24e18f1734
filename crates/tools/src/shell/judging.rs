//! The rules' side: which rule speaks for a text, and the strictest verdict so far.
//!
//! Last match wins for the command as it is written. Other spellings of the same command (basename, folded case, git
//! without its global options, with its redirections) can only make it stricter, and only by a rule that names
//! something: a bare `*` says nothing about spellings.

use posse_session::{Rule, Rules, Touch, Verdict, wildcard};

use super::{COMMANDS_MAX, DEPTH_MAX, ShellVerdict, Surroundings, parse, scan, walk::Scope};

/// Touches beyond this say nothing new to a person.
const TOUCHES_MAX: usize = 200;

pub(super) struct Judge<'a> {
    pub(super) rules: Vec<&'a Rule>,
    pub(super) surroundings: &'a Surroundings,
    source: &'a str,
    strictest: Option<Finding>,
    /// Constructs that run nothing by themselves; judged only if nothing else is in the line.
    neutral: Vec<String>,
    commands: usize,
    given_up: bool,
    touches: Vec<Touch>,
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
    pub(super) fn new(source: &'a str, rules: &'a Rules, surroundings: &'a Surroundings) -> Self {
        Self {
            rules: rules.0.iter().filter(|rule| wildcard("bash", &rule.key)).collect(),
            surroundings,
            source,
            strictest: None,
            neutral: Vec::new(),
            commands: 0,
            given_up: false,
            touches: Vec::new(),
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
        if self.too_deep(&inner) {
            return;
        }
        if let Err(reason) = self.parsed(text, &mut inner) {
            self.unreadable(text, reason);
            // Where it was cut out may be wrong as well.
            self.distrust(reason);
        }
    }

    fn parsed(&mut self, text: &str, scope: &mut Scope) -> Result<(), parse::Refusal> {
        let program = parse::program(text)?;
        self.program(&program, text, scope);
        Ok(())
    }

    /// Not understood: asks, and is searched for commands that are denied.
    fn unreadable(&mut self, text: &str, reason: &str) {
        self.find(Verdict::Ask, text, format!("cannot be read: {reason}"), None);
        self.search(text, scan::Where::Commands);
    }

    /// Bash may read it otherwise: asks, and any word may be a command.
    pub(super) fn distrust(&mut self, reason: &str) {
        self.find(Verdict::Ask, self.source, format!("may be read in two ways: {reason}"), None);
        if !self.given_up {
            self.given_up = true;
            self.search(self.source, scan::Where::Anywhere);
        }
    }

    /// A limit was reached: fails closed.
    pub(super) fn give_up(&mut self, reason: String) {
        self.distrust(&reason);
    }

    pub(super) fn too_deep(&mut self, scope: &Scope) -> bool {
        if DEPTH_MAX < scope.depth {
            self.give_up(format!("more than {DEPTH_MAX} levels"));
            return true;
        }
        false
    }

    /// Counts one simple command; false once there are too many.
    pub(super) fn count(&mut self) -> bool {
        self.commands += 1;
        if self.commands == COMMANDS_MAX + 1 {
            self.give_up(format!("more than {COMMANDS_MAX} commands"));
        }
        self.commands <= COMMANDS_MAX
    }

    fn search(&mut self, text: &str, place: scan::Where) {
        if let Some((rule, command)) = scan::strictest(text, &self.rules, place) {
            let rule = rule.clone();
            self.find(rule.action, &command, String::new(), Some(&rule));
        }
    }

    /// For a command whose name is not known: what its words would be if the name is a wrapper.
    pub(super) fn search_words(&mut self, words: &[String]) {
        for start in 0..words.len().min(64) {
            let text = words[start..].join(" ");
            if let Some(rule) = self.stricter(&text, None, Verdict::Deny) {
                let rule = rule.clone();
                self.find(rule.action, &text, String::new(), Some(&rule));
            }
        }
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
        if self.strictest.as_ref().is_some_and(|strictest| verdict <= strictest.verdict) {
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

    /// Something that needs no rule beside real commands: an assignment, `[[ ... ]]`, a bare redirection.
    pub(super) fn neutral(&mut self, text: String, reasons: &[Reason]) {
        if reasons.is_empty() {
            self.neutral.push(text);
            return;
        }
        self.by_rules(&text, reasons);
    }

    /// The verdict on a text by its own rules alone.
    fn by_rules(&mut self, text: &str, reasons: &[Reason]) {
        match self.said(text) {
            Said::Nothing => self.find(Verdict::Ask, text, String::new(), None),
            Said::Rule(_, rule) => {
                let verdict = lowered(rule, text, reasons);
                self.find(verdict.0, text, verdict.1, Some(rule));
            }
        }
    }

    pub(super) fn touch(&mut self, key: &str, pattern: impl Into<String>) {
        let touch = Touch::new(key, pattern);
        if self.touches.len() < TOUCHES_MAX && !self.touches.contains(&touch) {
            self.touches.push(touch);
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
        ShellVerdict { verdict, why, rule, origin, touches: self.touches }
    }
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
        let mut next = vec![false; pattern.len() + 1];
        match letter {
            None => {
                let first = reach.iter().position(|reached| *reached);
                if let Some(first) = first {
                    next[first..].fill(true);
                }
            }
            Some(letter) => {
                for at in 0..pattern.len() {
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
