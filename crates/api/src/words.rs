//! Words for people, written once: how things ended, what is wrong and what to do about it.

use std::time::Duration;

use posse_session::{Status, Summary, Usage};

pub fn status(status: Status) -> &'static str {
    match status {
        Status::Queued => "queued",
        Status::Running => "running",
        Status::Waiting => "waiting",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Stopped => "stopped",
        Status::Limit => "limit",
    }
}

/// `$0.0032`, with as many digits as say something.
pub fn money(usd: f64) -> String {
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

/// One closing line for stderr.
pub fn closing(root: &Summary, usage: Usage, took: Duration, sessions: usize) -> String {
    let tree = if 1 < sessions { format!(" · {sessions} sessions") } else { String::new() };
    format!(
        "{} in {:.1} s{tree} · {} steps · {} calls · {} tokens · {} · look closer: posse sessions show {}",
        status(root.status),
        took.as_secs_f64(),
        root.steps,
        root.calls,
        tokens(usage.tokens()),
        money(usage.cost_usd),
        root.session
    )
}

/// What to do when the log cannot be written or read.
pub fn storage(why: &str) -> String {
    let advice = if why.contains("full") || why.contains("No space") {
        "free some space, then `posse sessions resume ID` goes on where it stopped"
    } else if why.contains("ermission") || why.contains("ead-only") || why.contains("readonly") {
        "make the folder writable, or set POSSE_HOME to one that is"
    } else {
        "`posse doctor` checks the data folder; nothing that was acknowledged is lost"
    };
    format!("{why}; {advice}")
}
