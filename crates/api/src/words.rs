//! Words for people, written once: how things ended, what is wrong and what to do about it.

use std::time::Duration;

use posse_session::{Answer, By, Decision, Hold, How, Scope, SessionId, Status, Summary, Touch, Usage, Verdict};

use crate::{Denial, Refused};

pub fn status(status: Status) -> &'static str {
    status.word()
}

/// How a task ended.
pub fn ended(how: How) -> &'static str {
    match how {
        How::Completed => "completed",
        How::Failed => "failed",
        How::Stopped => "stopped",
        How::Limit => "ended at a limit",
    }
}

/// Who stopped something, after "stopped".
pub fn stopped_by(by: By) -> &'static str {
    match by {
        By::User => " by you",
        By::Model => " by another agent",
        By::Policy | By::Kernel => "",
    }
}

/// What was spent: `$0.0032`, and where nobody knows all prices `$0.0032 + unknown`.
pub fn cost(usage: &Usage) -> String {
    match (usage.unpriced, usage.cost_usd) {
        (0, usd) => money(usd),
        (_, 0.0) => "unknown cost".to_owned(),
        (_, usd) => format!("{} + unknown", money(usd)),
    }
}

/// `$0.0032`, with as many digits as say something.
fn money(usd: f64) -> String {
    if usd == 0.0 || 0.01 <= usd { format!("${usd:.2}") } else { format!("${usd:.4}") }
}

/// `12.3k`.
pub fn tokens(count: u64) -> String {
    match count {
        0..=999 => count.to_string(),
        1_000..=999_999 => format!("{:.1}k", count as f64 / 1_000.0),
        _ => format!("{:.1}M", count as f64 / 1_000_000.0),
    }
}

/// `3 s`, `4 min`, `2 h`, `5 d`.
pub fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..=59 => format!("{seconds} s"),
        seconds @ 60..=3_599 => format!("{} min", seconds / 60),
        seconds @ 3_600..=86_399 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `1 call`, `5 calls`.
pub fn count(count: u64, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

/// `0.06 s`, `12.3 s`, `4 min`: as exact as it matters.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => format!("{short:.2} s"),
        some if some < 60.0 => format!("{some:.1} s"),
        long => age(Duration::from_secs_f64(long.min(u32::MAX.into()))),
    }
}

/// The closing line of a run that several agents worked on.
pub fn closing_team(root: &Summary, usage: Usage, took: Duration, sessions: usize) -> String {
    let how = match root.status {
        Status::Completed => "done",
        // The run is over, what it started is not.
        Status::Queued | Status::Running | Status::Waiting => "left open",
        other => status(other),
    };
    format!(
        "{how} in {} · {sessions} sessions · {} · look closer: posse sessions tree {}",
        seconds(took.as_secs_f64()),
        cost(&usage),
        root.session
    )
}

/// One closing line for stderr.
pub fn closing(root: &Summary, usage: Usage, took: Duration, sessions: usize) -> String {
    let tree = if 1 < sessions { format!(" · {sessions} sessions") } else { String::new() };
    format!(
        "{} in {:.1} s{tree} · {} · {} · {} tokens · {} · look closer: posse sessions show {}",
        status(root.status),
        took.as_secs_f64(),
        count(root.steps, "step"),
        count(root.calls, "call"),
        tokens(usage.tokens()),
        cost(&usage),
        root.session
    )
}

pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

/// `bash(git push)`; nothing for a call that touches nothing.
pub fn touch(touch: Option<&Touch>) -> String {
    touch.map_or(String::new(), |touch| format!("{}({})", touch.key, touch.pattern))
}

/// How the kernel names the origin of what a person allowed.
const BY_ANSWER: &str = "the answer to ";

/// Why a verdict is what it is: the rule and where it is written, or our own reason.
pub fn reason(decision: &Decision) -> String {
    let from = if decision.origin.is_empty() { String::new() } else { format!(" from {}", decision.origin) };
    match (&decision.rule, decision.touch.as_ref().map(|touch| touch.key.as_str())) {
        // What a person allowed is no rule of a file: its origin says it all.
        (Some(grant), _) if decision.origin.starts_with(BY_ANSWER) => format!("{grant} by {}", decision.origin),
        (Some(rule), _) if !decision.why.is_empty() => format!("{} (rule {rule}{from})", decision.why),
        (None, _) if !decision.why.is_empty() => decision.why.clone(),
        (Some(rule), _) => format!("rule {rule}{from}"),
        (None, Some("protected")) => {
            "a protected file: whoever writes it could raise its own rights, so only a person may allow it".to_owned()
        }
        (None, Some("question")) => "a question to a person".to_owned(),
        (None, Some(_)) => "no rule matches it".to_owned(),
        (None, None) => "it touches nothing".to_owned(),
    }
}

/// What became of a call that was not to be: by whom it was refused, and what it was about.
pub fn denial(denial: &Denial) -> String {
    let what = if denial.what.is_empty() { &denial.tool } else { &denial.what };
    match (denial.refused, &denial.rule) {
        (Refused::AtOnce, Some(rule)) => format!("denied by {rule}: {what}"),
        (Refused::AtOnce, None) => format!("denied: {what}"),
        (Refused::ByNobody, Some(rule)) => format!("refused, because nobody could answer: {what} (rule {rule})"),
        (Refused::ByNobody, None) => format!("refused, because nobody could answer: {what}"),
        (Refused::ByPerson, _) => format!("refused by you: {what}"),
    }
}

/// Calls that are named in one line.
const NAMED_MAX: usize = 3;

/// What to do about what nobody could allow. `whole`: no other line says what that was.
pub fn unanswered(denied: &[Denial], whole: bool) -> String {
    let mut calls: Vec<&str> = Vec::new();
    for denial in denied.iter().filter(|denial| denial.refused == Refused::ByNobody) {
        let what = if denial.what.is_empty() { &denial.tool } else { &denial.what };
        if !calls.contains(&what.as_str()) {
            calls.push(what);
        }
    }
    let more = calls.len().saturating_sub(NAMED_MAX);
    let named = calls.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = if 0 < more { format!(" and {more} more") } else { String::new() };
    let what = if whole { format!("denied, because nobody could answer: {named}{more}; ") } else { String::new() };
    // Two kinds only a person allows; and a quote would end the rule in a shell.
    let can_be_ruled = |call: &&&str| !call.starts_with("protected(") && !call.starts_with("question(") && !call.contains(['\'', '\n']);
    let rule = calls.iter().find(can_be_ruled).map_or(String::new(), |call| format!("--allow '{call}' allows it, "));
    format!("{what}{rule}--on-ask wait waits for `posse asks answer`, --on-ask deny-ok takes it as it is")
}

/// How far an answer reaches, in the word that `posse asks answer` takes for it.
pub fn answer(answer: &Answer) -> &'static str {
    match answer {
        Answer::Yes { scope } => scope_word(*scope),
        Answer::No { .. } => "no",
        Answer::Words { .. } => "words",
    }
}

pub fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Once => "once",
        Scope::Session => "session",
        Scope::Tree => "tree",
        Scope::Project => "project",
    }
}

pub fn answered_by(by: By, answer: &Answer) -> &'static str {
    match (by, answer) {
        (By::User, _) => "a person",
        (By::Policy, Answer::No { .. }) => "policy: nobody could be asked",
        (By::Policy, _) => "policy: the permission mode says yes",
        (By::Kernel, _) => "an answer to another ask that covers this one",
        (By::Model, _) => "the model",
    }
}

/// Why a session with something to do does not go on, and what wakes it.
pub fn hold(hold: Hold) -> &'static str {
    match hold {
        Hold::Esc => "its turn was interrupted; a new prompt or `posse sessions resume` goes on",
        Hold::StoppedByModel => "another agent stopped it; a message or `posse sessions resume` goes on",
        Hold::StoppedByUser => {
            "you stopped it, and only you can let it go on: `posse tasks send` for a task, a new prompt or `posse sessions resume` for a session of your own"
        }
        Hold::ModelError => "the model failed for good; a new prompt or `posse sessions resume` tries again",
        Hold::TakeOvers => "three processes died while running it; a new prompt or `posse sessions resume` tries again",
        Hold::Limit => "a limit ended its turn; `posse sessions resume` with a higher one goes on",
    }
}

/// What to do when the log cannot be written or read, and no session has to go on.
pub fn storage(why: &str) -> String {
    storage_trouble(why, "give the command again")
}

/// The same in the middle of a session.
pub fn storage_in(session: &SessionId, why: &str) -> String {
    storage_trouble(why, &format!("`posse sessions resume {session}` goes on where it stopped"))
}

fn storage_trouble(why: &str, then: &str) -> String {
    if why.contains("is damaged") {
        // It says itself what to do, and nobody knows yet what is lost.
        return format!("{why}; what is lost is told then");
    }
    if why.contains("full") || why.contains("No space") || why.contains("quota") {
        return format!("{why}; free some space, then {then}");
    }
    let advice = if why.contains("ermission") || why.contains("ead-only") || why.contains("readonly") {
        "make the folder writable, or set POSSE_HOME to one that is"
    } else {
        "`posse doctor` checks the data folder; nothing that was acknowledged is lost"
    };
    format!("{why}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_with_the_log_names_the_session_if_there_is_one_and_promises_nothing_of_a_damaged_file() {
        let session = SessionId::new("ses_1");
        let full = "the disk that holds x is full";
        assert_eq!(storage(full), format!("{full}; free some space, then give the command again"));
        assert_eq!(
            storage_in(&session, full),
            format!("{full}; free some space, then `posse sessions resume ses_1` goes on where it stopped")
        );
        let damaged = "posse.db is damaged (row missing): start posse again, and what can be read is saved into a new file";
        for words in [storage(damaged), storage_in(&session, damaged)] {
            assert_eq!(words, format!("{damaged}; what is lost is told then"));
        }
        assert!(storage("posse.db: locked too long").contains("nothing that was acknowledged is lost"));
    }

    #[test]
    fn what_nobody_could_allow_is_named_with_what_to_do() {
        let denial = |what: &str, refused| Denial {
            call: String::new(),
            session: String::new(),
            agent: String::new(),
            tool: "bash".into(),
            what: what.into(),
            rule: None,
            refused,
        };
        let by_nobody = |what: &str| denial(what, Refused::ByNobody);
        let then = "--on-ask wait waits for `posse asks answer`, --on-ask deny-ok takes it as it is";
        let denied = [denial("edit(x)", Refused::AtOnce), by_nobody("protected(x)"), by_nobody("bash(it's)"), by_nobody("bash(a)")];
        assert_eq!(
            unanswered(&denied, true),
            format!("denied, because nobody could answer: protected(x), bash(it's), bash(a); --allow 'bash(a)' allows it, {then}")
        );
        assert_eq!(unanswered(&denied[..2], false), then);
        let many: Vec<Denial> = ["a", "b", "a", "c", "d", "e"].map(by_nobody).into();
        let words = format!("denied, because nobody could answer: a, b, c and 2 more; --allow 'a' allows it, {then}");
        assert_eq!(unanswered(&many, true), words);
    }

    #[test]
    fn a_reason_names_the_rule_and_its_file_or_says_why_there_is_none() {
        let about = |key: &str| Decision::of(Verdict::Ask, Some(Touch::new(key, "x")));
        let ruled = Decision { rule: Some("bash(x *)".into()), origin: "posse.json:3".into(), ..about("bash") };
        let shell = Decision { why: "`x`: an odd option".into(), ..ruled.clone() };
        let unruled = Decision { rule: None, origin: String::new(), ..shell.clone() };
        let granted = Decision { origin: "the answer to ask_1 (for the tree)".into(), ..shell.clone() };
        for (decision, expected) in [
            (ruled, "rule bash(x *) from posse.json:3"),
            (shell, "`x`: an odd option (rule bash(x *) from posse.json:3)"),
            (unruled, "`x`: an odd option"),
            (granted, "bash(x *) by the answer to ask_1 (for the tree)"),
            (about("edit"), "no rule matches it"),
            (about("question"), "a question to a person"),
            (Decision::allow(), "it touches nothing"),
        ] {
            assert_eq!(reason(&decision), expected);
        }
        assert!(reason(&about("protected")).starts_with("a protected file"));
    }
}
