//! Words the kernel says to the model. What people read is worded in `api`.

use crate::{
    grant::Granted,
    ids::SessionId,
    outcome::Scope,
    rule::{Decision, Verdict},
};

pub(crate) const INTERRUPTED: &str = "interrupted";
pub(crate) const SUPERSEDED: &str = "a more urgent message arrived";
pub(crate) const STEPS_USED_UP: &str = "The step limit is used up; no more tools can be called.";
pub(crate) const MISFIRES: &str = "Several calls in a row could not be understood. Stop, read the tool's parameters again, and either send one valid call or answer in words.";

/// Said to the model when a turn that was ended from outside goes on.
pub(crate) const RESUMED: &str =
    "The turn was interrupted before it was finished, and is now resumed. Go on from where it stopped; check what is already done.";

/// Said for the user after an agent that the user ran directly has come back.
pub(crate) const FOLLOW_UP: &str = "Summarize the task tool output above and continue with your task.";

/// Said to the model after the user put files back.
pub(crate) fn undone(paths: &[String]) -> String {
    format!(
        "The user undid your changes to these files; they are as they were before: {}. Read them again before you change them, and do not make the same changes again unless the user asks.",
        paths.join(", ")
    )
}

/// Said with the closing step.
pub(crate) const CLOSING: &str = "The step limit is reached: this is your last message and no tool can be called. Sum up what you did, what you found and what is left to do.";

pub(crate) fn denied(decision: &Decision) -> String {
    let rule = decision.rule.as_deref().unwrap_or("no rule allows it");
    let origin = if decision.origin.is_empty() { String::new() } else { format!(" ({})", decision.origin) };
    let why = if decision.why.is_empty() { String::new() } else { format!(" {}.", decision.why) };
    format!("Denied by the rule {rule}{origin}.{why} It will be denied again: do it another way, or tell the user what you would need.")
}

/// The shell of an agent that only looks has nobody to ask.
pub(crate) fn looks_only(decision: Decision) -> Decision {
    let asks = decision.rule.as_deref().unwrap_or("no rule allows it");
    let why = if decision.why.is_empty() { String::new() } else { format!("; {}", decision.why) };
    Decision {
        verdict: Verdict::Deny,
        why: format!("this agent only looks, and what its shell would have to ask about is denied (asked by {asks}{why})"),
        offers: Vec::new(),
        ..decision
    }
}

/// The user asked for just this call.
pub(crate) fn consented(decision: Decision) -> Decision {
    Decision { verdict: Verdict::Allow, rule: None, origin: "you asked for it".into(), offers: Vec::new(), ..decision }
}

/// Where the leave comes from that a command or a mention gives.
pub(crate) const FOR_THIS_TURN: &str = "allowed for this turn by what you typed";

/// Where a verdict comes from that no rule gave.
pub(crate) fn granted(granted: &Granted) -> String {
    let scope = match granted.scope {
        Scope::Once => "once",
        Scope::Session => "for the session",
        Scope::Tree => "for the tree",
        Scope::Project => "for the project",
    };
    format!("the answer to {} ({scope})", granted.ask)
}

pub(crate) fn nobody(decision: &Decision) -> String {
    let what = decision.touch.as_ref().map_or(String::new(), |touch| format!(" for {}({})", touch.key, touch.pattern));
    if decision.touch.as_ref().is_some_and(|touch| touch.key == "doom_loop") {
        return "You made the same call several times in a row and it was not run again. Its result will not change: use what you have, or try something else.".into();
    }
    let why = if decision.why.is_empty() { String::new() } else { format!(" ({})", decision.why) };
    format!("This needs a person's permission{what}{why}, and nobody can be asked here. Do it another way, or tell the user what to allow.")
}

pub(crate) fn refused(say: &str) -> String {
    if say.is_empty() { "The user refused this call.".into() } else { format!("The user refused this call and says: {say}") }
}

pub(crate) fn launched(task: &SessionId) -> String {
    format!("The task runs in the background. Its result will come as a notice.\ntask_id: {task}")
}
