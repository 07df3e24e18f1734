//! Words the kernel says to the model. What people read is worded in `api`.

use crate::{
    grant::Granted,
    ids::SessionId,
    outcome::{Answer, Scope},
    rule::{Decision, Verdict},
};

pub(crate) const INTERRUPTED: &str = "interrupted";
pub(crate) const PUT_DOWN: &str = "put down, to be gone on with later";
pub(crate) const SUPERSEDED: &str = "a more urgent message arrived";
pub(crate) const STEPS_USED_UP: &str = "The step limit is used up; no more tools can be called.";
pub(crate) const MISFIRES: &str = "Several calls in a row could not be understood. Stop, read the tool's parameters again, and either send one valid call or answer in words.";

/// The setting that says how long an answer of a model may be.
pub fn output_setting(model: &str) -> String {
    let (provider, model) = model.split_once('/').unwrap_or(("PROVIDER", model));
    format!("`provider.{provider}.models.{model}.output`")
}

/// Of an answer that is there, and not whole.
pub fn cut_answer(model: &str) -> String {
    format!("the answer was cut off at the model's limit of output tokens, so its end is missing; {} sets the limit", output_setting(model))
}

/// A model that writes too much again and again, and is not helped by being told.
pub(crate) fn cut_again(calls: u32, model: &str) -> String {
    let setting = output_setting(model);
    format!(
        "the answer was cut off at the model's limit of output tokens in the middle of a call; {calls} calls in a row could not be run. \
         {setting} sets the limit"
    )
}

/// Said to the model when a turn that was ended from outside goes on.
pub(crate) const RESUMED: &str =
    "The turn was interrupted before it was finished, and is now resumed. Go on from where it stopped; check what is already done.";

/// Said for the user after an agent that the user ran directly has come back.
pub(crate) const FOLLOW_UP: &str = "Summarize the task tool output above and continue with your task.";

/// Files named in a note.
const PATHS_NAMED_MAX: usize = 20;

/// What the user did with the work of a task; so many more files changed than there are paths.
pub(crate) fn brought_home(task: &SessionId, paths: &[String], more: u64, onto: &str, discarded: bool) -> String {
    if discarded {
        return format!("The user has thrown away the worktree of task {task} and everything in it.");
    }
    let mut named: Vec<&str> = paths.iter().take(PATHS_NAMED_MAX).map(String::as_str).collect();
    let all = more.saturating_add(paths.len() as u64);
    let rest = format!("and {} more ({all} files in all)", all - named.len() as u64);
    if (named.len() as u64) < all {
        named.push(&rest);
    }
    match onto {
        "" => format!(
            "The user has brought the work of task {task} into this folder. Changed: {}. Read these files again before you change them.",
            named.join(", ")
        ),
        branch => format!(
            "The user has merged the work of task {task} into the branch {branch}, not into this folder. Changed there: {}.",
            named.join(", ")
        ),
    }
}

/// Said to the model after the user put files back.
pub(crate) fn undone(paths: &[String]) -> String {
    format!(
        "The user undid your changes to these files; they are as they were before: {}. Read them again before you change them, and do not make the same changes again unless the user asks.",
        paths.join(", ")
    )
}

/// Said to the model when its answer did not have the shape that was asked for.
pub(crate) fn misshapen(wrong: &str) -> String {
    format!(
        "Your answer does not fit the JSON schema that was asked for: {wrong}. Answer once more, with nothing but a JSON value that fits it."
    )
}

/// The provider finds the conversation too long, and it could not be made shorter.
pub(crate) fn unshortened(words: &str, why: &str) -> String {
    format!("{words} (the conversation could not be summed up: {why})")
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

/// Said when a person answers an ask that had been closed.
pub(crate) fn late(answer: &Answer, decision: &Decision) -> String {
    let what = decision.touch.as_ref().map_or("an earlier call".to_owned(), |touch| format!("{}({})", touch.key, touch.pattern));
    let say = |say: &str| if say.is_empty() { ".".to_owned() } else { format!(", and says: {say}") };
    match answer {
        Answer::Words { say } => format!("The user has now answered your earlier question, which was closed before: {say}"),
        Answer::No { say: words } => format!("The user has now refused what you had asked for before, {what}{}", say(words)),
        Answer::Yes { scope: Scope::Once } => format!(
            "The user has now allowed what you had asked for before, {what}, but that call is over. If it is still needed, make the call again; you will be asked for once more."
        ),
        Answer::Yes { .. } => format!(
            "The user has now allowed what you had asked for before, {what}. That call is over; if it is still needed, make it again."
        ),
    }
}

/// Said of a shell whose process is gone.
pub(crate) fn lost_shell(title: &str) -> String {
    format!("[shell lost] {title}\n\nposse was ended while this ran in the background, and it ended with it. How far it got is unknown.")
}

/// Said to a call that waited with another one for a task, when the process was lost as it ended.
pub(crate) fn ended_elsewhere(task: &SessionId) -> String {
    format!("The task has ended. Its result went to another call that waited for it.\ntask_id: {task}")
}

pub(crate) fn launched(task: &SessionId) -> String {
    format!("The task runs in the background. Its result will come as a notice.\ntask_id: {task}")
}
