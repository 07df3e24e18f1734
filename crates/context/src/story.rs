//! What a record adds to the story of a session: the lines of a task's output file, for people and models alike.
//!
//! Pure, and of one record at a time, so that a story can be written as it happens and told again from any place in the
//! log. What an agent says stands as it said it; everything else is a line with a mark in front. Nobody's words can be
//! taken for such a line: in a reply, a line that begins like one of ours is moved in by a space. Texts are inline when
//! they come here. Where the lines are kept is the store's business.
//!
//! | mark | of |
//! |---|---|
//! | `> ` | what was said to the session, and by whom |
//! | `* ` | what it does: calls, agents, another model |
//! | `  = ` | what came of it |
//! | `  ! ` | what failed, was denied or cancelled |
//! | `? ` | permission: asked for, given, refused |
//! | `! ` | what went wrong with the session itself |
//! | `-- ` | the end of a round |

use posse_session::{Answer, By, Decision, Entry, Event, Finish, Hold, How, Left, Outcome, Part, Record, Scope, Source, Spawn, Text, To};

use crate::results::{self, words};

/// Every mark, for the lines of a reply that begin like one.
const MARKS: &[&str] = &["> ", "* ", "  = ", "  ! ", "? ", "! ", "-- "];

/// A line of ours. A prompt in one line is told almost whole; a flood is not.
const LINE_CHARS_MAX: usize = 4_000;

/// What a call that went well is told by, and a failure that is tried again: enough to see what it was, the whole is in
/// the log.
const RESULT_CHARS_MAX: usize = 200;

/// Lines of what was said to the session. Whoever reads the story has often written them.
const SAID_LINES_MAX: usize = 20;

/// Lines of why something failed.
const FAILED_LINES_MAX: usize = 10;

/// Text that ends in one newline, or nothing if the record is of no interest to a reader.
pub fn story(record: &Record) -> Option<String> {
    let told = match &record.event {
        Event::Queued { entry } => said(entry)?,
        Event::Expanded { agent: Some(agent), .. } => row(&format!("* {agent} answers this turn")),
        Event::Replied { parts, finish, .. } => replied(parts, *finish)?,
        Event::Called { tool, title, .. } => row(&format!("* {tool} {title}")),
        Event::CallFinished { outcome, .. } => finished(outcome),
        Event::Asked { ask, decision, .. } => row_about(&format!("? waits for {}", wanted(decision)), ask.as_str()),
        Event::Answered { ask, answer, by, .. } => row_about(&format!("? {}", answered(answer, *by)), ask.as_str()),
        Event::Revoked { ask, .. } => row(&format!("? the answer to {ask} no longer counts")),
        Event::StepFailed { failure, error, retry_at: None, partial, .. } => failed(failure.is_some(), error, partial)?,
        Event::StepFailed { error, retry_at: Some(retry_at), .. } => {
            row(&format!("! {}; tried again{}", gist(error), after(retry_at.since(record.at))))
        }
        Event::Interrupted { by, hold } => row(&format!("! {}", interrupted(*by, *hold))),
        Event::Resumed { by } => row(&format!("* resumed by {}", person(*by))),
        Event::TookOver { .. } => row("! the process before this one died; going on from the log"),
        Event::LimitReached { words, .. } => rows("! limit reached: ", "! ", words, FAILED_LINES_MAX),
        Event::TaskStarted { spawn, .. } | Event::TaskResumed { spawn, .. } if spawn.internal => return None,
        Event::TaskStarted { task, spawn, wait, .. } => {
            let place = if *wait { "" } else { ", in the background" };
            row_about(&format!("* agent {}: {}", named(spawn), spawn.description), &format!("{task}{place}"))
        }
        Event::TaskResumed { task, spawn, .. } => {
            row_about(&format!("* agent {} goes on: {}", named(spawn), spawn.description), task.as_str())
        }
        Event::TaskAwaited { task, .. } => row(&format!("* waits for task {task}")),
        Event::Detached { task } => row(&format!("* task {task} goes on in the background")),
        Event::TaskStopped { task, by, .. } => row(&format!("* task {task} is told to stop by {}", person(*by))),
        Event::TaskEnded { to: To::Internal, .. } => return None,
        Event::TaskEnded { task, how, result, .. } => match how {
            How::Completed | How::Limit => row(&format!("  = task {task} {}", ended(*how))),
            How::Failed | How::Stopped => {
                rows(&format!("  ! task {task} {}: ", ended(*how)), "  ! ", &results::task(*how, result).text, FAILED_LINES_MAX)
            }
        },
        Event::Kept { call, title } => row_about(&format!("* goes on in the background: {title}"), call.as_str()),
        Event::KeptEnded { call, words: said, .. } if said.is_blank() => row(&format!("  = over in the background ({call})")),
        Event::KeptEnded { call, words: said, .. } => row(&format!("  = over in the background ({call}): {}", gist(&words(said)))),
        Event::ModelChanged { model: Some(model), why } => row(&format!("* the model {model} answers from here on: {why}")),
        Event::ModelChanged { model: None, why } => row(&format!("* its own model answers again: {why}")),
        Event::Undone { paths, .. } => row(&format!("! the user undid the changes to {}", paths.join(", "))),
        Event::Compacted { .. } => row("* the conversation up to here was summed up"),
        Event::Pruned { to } => row(&format!("* what calls printed up to record {to} is no longer shown to the model")),
        Event::CompactionFailed { smaller: true, .. } => row("! what was to be summed up is too long itself: less of it is tried"),
        Event::CompactionFailed { why, .. } => row(&format!("! the conversation was not summed up: {}", gist(why))),
        Event::Titled { title } => row(&format!("* is called `{title}` from here on")),
        Event::WorktreeLeft { task, left } => row(&format!("* task {task} {}", was_left(left))),
        Event::BroughtHome { task, discarded: true, .. } => row(&format!("* the user threw the work of task {task} away")),
        Event::BroughtHome { task, paths, more, onto, .. } => {
            let rest = if *more == 0 {
                String::new()
            } else {
                format!(" and {more} more, {} files in all", more.saturating_add(paths.len() as u64))
            };
            let place = if onto.is_empty() { "home".to_owned() } else { format!("to the branch {onto}") };
            row(&format!("* the user brought the work of task {task} {place}: {}{rest}", paths.join(", ")))
        }
        Event::Released { task, removed: false, words } => row(&format!("! the worktree of task {task} stays: {}", gist(words))),
        Event::Misshapen { words, again: true } => row(&format!("! the answer does not fit the schema: {}; asked once more", gist(words))),
        Event::Misshapen { words, again: false } => row(&format!("! the answer does not fit the schema: {}", gist(words))),
        Event::Reverted { to } => row(&format!("! the conversation went back: what came after record {to} no longer counts")),
        Event::Ended { how, error, .. } if error.trim().is_empty() => row(&format!("-- {}", ended(*how))),
        Event::Ended { how, error, .. } => row(&format!("-- {}: {error}", ended(*how))),
        // Told by the facts around them, or of no interest to a reader.
        Event::Created { .. }
        | Event::Configured { .. }
        | Event::Expanding { .. }
        | Event::Expanded { .. }
        | Event::StepStarted { .. }
        | Event::Looked { .. }
        | Event::CallStarted { .. }
        | Event::Unqueued { .. }
        | Event::Forked { .. }
        | Event::Released { .. }
        | Event::Advised { .. }
        | Event::Unknown(_) => return None,
    };
    Some(told)
}

fn count(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

fn was_left(left: &Left) -> String {
    let Left { path, branch, clean, commits, files, unknown } = left;
    match (clean, unknown.is_empty()) {
        (true, _) => "has left its worktree as it was".to_owned(),
        (false, true) => format!("has left {}, {} on {branch} in {path}", count(*files, "changed file"), count(*commits, "commit")),
        (false, false) => format!("has left its worktree {path}: {unknown}"),
    }
}

fn said(entry: &Entry) -> Option<String> {
    let speaker = match &entry.source {
        Source::User => "user".to_owned(),
        Source::Prompt { session } => format!("task from {session}"),
        Source::Task { task } => format!("task {task}"),
        Source::Agent { session, name } if name.is_empty() => format!("agent {session}"),
        Source::Agent { session, name } => format!("agent {name} ({session})"),
        Source::Timer => "timer".to_owned(),
        Source::Hook { name } => format!("hook {name}"),
        Source::Plugin { name } => format!("plugin {name}"),
        Source::Shell { call } => format!("shell of {call}"),
        Source::Answer { ask } => format!("late answer to {ask}"),
    };
    let part = |part: &Part| match part {
        Part::Text { text, synthetic: false } if !text.is_blank() => Some(words(text)),
        Part::File { name, mime, .. } => Some(format!("(attached file: {name}, {mime})")),
        Part::Subtask { agent, description, .. } => Some(format!("(the user runs the agent {agent} directly: {description})")),
        _ => None,
    };
    let texts: Vec<String> = entry.parts.iter().filter_map(part).collect();
    (!texts.is_empty()).then(|| rows(&format!("> {speaker}: "), "> ", &texts.join("\n"), SAID_LINES_MAX))
}

/// The text of a reply, whole. Thinking is left out, and so are calls, which have facts of their own.
fn replied(parts: &[Part], finish: Finish) -> Option<String> {
    let part = |part: &Part| match part {
        Part::Text { text, .. } if !text.is_blank() => Some(words(text)),
        Part::File { name, mime, .. } => Some(format!("(file: {name}, {mime})")),
        _ => None,
    };
    let texts: Vec<String> = parts.iter().filter_map(part).collect();
    let mut told = if texts.is_empty() { String::new() } else { whole(&texts.join("\n")) };
    match finish {
        Finish::Length => told.push_str(&row("! the reply was cut at the output limit of the model")),
        Finish::Refusal => told.push_str(&row("! the model refused to answer")),
        Finish::Stop | Finish::Calls | Finish::Other => {}
    }
    (!told.is_empty()).then_some(told)
}

fn finished(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { output, .. } if output.is_blank() => row("  = (no output)"),
        Outcome::Done { output, .. } => row(&format!("  = {}", gist(&words(output)))),
        Outcome::Failed { .. } | Outcome::Denied { .. } | Outcome::Cancelled { .. } | Outcome::Lost { .. } => {
            rows(&format!("  ! {}: ", outcome.word()), "  ! ", &results::outcome(outcome).text, FAILED_LINES_MAX)
        }
    }
}

/// The turn is over. What had been said stays said. Where no model failed, the next fact says who ended the turn.
fn failed(by_model: bool, error: &str, partial: &Text) -> Option<String> {
    let mut told = String::new();
    if !partial.is_blank() {
        told.push_str(&whole(&format!("{}\n(cut off here)", words(partial).trim_end())));
    }
    if by_model {
        told.push_str(&rows("! ", "! ", error, FAILED_LINES_MAX));
    }
    (!told.is_empty()).then_some(told)
}

fn wanted(decision: &Decision) -> String {
    let why = if decision.why.is_empty() { String::new() } else { format!(", {}", decision.why) };
    match &decision.touch {
        Some(touch) if touch.key == "question" => format!("an answer: {}", touch.pattern),
        Some(touch) => format!("permission: {}({}){why}", touch.key, touch.pattern),
        None => format!("permission{why}"),
    }
}

fn answered(answer: &Answer, by: By) -> String {
    match (answer, by) {
        (Answer::Yes { .. }, By::Policy) => "allowed by the permission mode".to_owned(),
        (Answer::Yes { .. }, By::Kernel) => "allowed by the answer to another ask".to_owned(),
        (Answer::Yes { scope }, By::User | By::Model) => {
            let reach = match scope {
                Scope::Once => "once",
                Scope::Session => "for the session",
                Scope::Tree => "for the tree",
                Scope::Project => "for the project",
            };
            format!("allowed {reach} by {}", person(by))
        }
        (Answer::No { .. }, By::Policy) => "refused: nobody could be asked".to_owned(),
        (Answer::No { say }, _) if say.is_empty() => format!("refused by {}", person(by)),
        (Answer::No { say }, _) => format!("refused by {}: {say}", person(by)),
        (Answer::Words { say }, _) => format!("answered by {}: {say}", person(by)),
    }
}

fn interrupted(by: By, hold: Hold) -> String {
    match hold {
        Hold::Esc => format!("interrupted by {}", person(by)),
        Hold::StoppedByModel | Hold::StoppedByUser => format!("stopped by {}", person(by)),
        Hold::ModelError => "stands still: the model failed for good".to_owned(),
        Hold::TakeOvers => "stands still: several processes died while running it".to_owned(),
        Hold::Limit => "stands still: a limit ended the turn".to_owned(),
    }
}

fn person(by: By) -> &'static str {
    match by {
        By::User => "the user",
        By::Model => "an agent",
        By::Policy => "policy",
        By::Kernel => "posse",
    }
}

fn ended(how: How) -> &'static str {
    match how {
        How::Completed => "completed",
        How::Failed => "failed",
        How::Stopped => "stopped",
        How::Limit => "completed at a limit",
    }
}

/// The agent, and what this one of it is called.
fn named(spawn: &Spawn) -> String {
    spawn.name.as_ref().map_or_else(|| spawn.agent.clone(), |name| format!("{} \"{name}\"", spawn.agent))
}

/// Nothing for a pause that nobody notices.
fn after(wait: std::time::Duration) -> String {
    if wait.as_millis() < 100 { String::new() } else { format!(" in {:.1} s", wait.as_secs_f64()) }
}

/// The first line that says something, and how many follow it.
fn gist(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = clip(lines.next().unwrap_or_default(), RESULT_CHARS_MAX);
    match lines.count() {
        0 => first,
        1 => format!("{first} (1 more line)"),
        more => format!("{first} ({more} more lines)"),
    }
}

/// One line of ours: words of others in it begin no line of their own.
fn row(text: &str) -> String {
    let flat = clean(text).replace('\n', " ");
    format!("{}\n", clip(flat.trim_end(), LINE_CHARS_MAX))
}

/// The same with the id it is about at its end, which no length of the words before it cuts off.
fn row_about(text: &str, id: &str) -> String {
    format!("{} ({})\n", row(text).trim_end(), row(id).trim_end())
}

/// Several lines of ours: `first` stands before the first of them, `mark` before the others.
fn rows(first: &str, mark: &str, text: &str, lines_max: usize) -> String {
    let text = clean(text);
    let lines: Vec<&str> = text.trim().lines().collect();
    let mut told = String::new();
    for (at, line) in lines.iter().take(lines_max).enumerate() {
        told.push_str(&row(&format!("{}{line}", if at == 0 { first } else { mark })));
    }
    match lines.len().saturating_sub(lines_max) {
        // Nobody said why.
        0 if lines.is_empty() => told.push_str(&row(first.trim_end().trim_end_matches(':'))),
        0 => {}
        1 => told.push_str(&row(&format!("{mark}… 1 more line"))),
        more => told.push_str(&row(&format!("{mark}… {more} more lines"))),
    }
    told
}

/// An agent's own words. A line that begins like one of ours is moved in by a space, which changes no Markdown.
fn whole(text: &str) -> String {
    let text = clean(text);
    let mut told = String::with_capacity(text.len() + 1);
    for line in text.trim_matches('\n').trim_end().lines() {
        if MARKS.iter().any(|mark| line.starts_with(mark) || line == mark.trim_end()) {
            told.push(' ');
        }
        told.push_str(line);
        told.push('\n');
    }
    told
}

fn clip(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Characters that steer a terminal, hide or reorder text, or begin a line where none is, are shown and not obeyed.
fn clean(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if letter.is_control() => '\u{fffd}',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        letter => letter,
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}
