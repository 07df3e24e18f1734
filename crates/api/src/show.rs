//! A session as a person reads it: who said what, and what came of each call. Knows facts, nothing of terminals.

use posse_session::{Event, How, Outcome, Part, Record, Source, Summary, Text, To};

use crate::words;

/// Lines of a tool's output that a transcript shows.
const OUTPUT_LINES: usize = 6;

/// The words of a message, without reminders, reasoning and calls.
pub fn said(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text: Text::Inline(text), synthetic: false } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n\n")
}

/// A session and a short account of it that somebody wrote.
pub fn summed_up(summary: &Summary, account: &str) -> String {
    format!("{}  {}  {}\n\n{}", summary.session, words::status(summary.status), summary.title, account.trim())
}

/// Who said what, one block per message or call.
pub fn transcript(facts: &[Record]) -> Vec<String> {
    let mut blocks = Vec::new();
    for record in facts {
        match &record.event {
            Event::Queued { entry } => blocks.push(format!("{}: {}", speaker(&entry.source), said(&entry.parts))),
            Event::Replied { parts, .. } => {
                blocks.extend(Some(said(parts)).filter(|text| !text.is_empty()).map(|text| format!("agent: {text}")))
            }
            Event::Called { tool, title, input, .. } => {
                let what = if title.is_empty() { short(input) } else { title.clone() };
                blocks.push(format!("  ▸ {tool} {what}"));
            }
            Event::Asked { ask, decision, .. } => {
                blocks.push(format!("    ? {ask}: {}", words::reason(decision)));
            }
            Event::Answered { answer, by, .. } => {
                blocks.push(format!("    = {}, by {}", words::answer(answer), words::answered_by(*by, answer)));
            }
            Event::CallFinished { outcome, .. } => blocks.push(indented(outcome)),
            Event::TaskStarted { task, spawn, round, .. } => {
                let again = if 1 < *round { format!(" (round {round})") } else { String::new() };
                blocks.push(format!("    → {} works on it in {task}{again}", spawn.agent));
            }
            Event::TaskEnded { how, result, to: To::Call { .. }, .. } => blocks.push(indented(&told(*how, result))),
            Event::TaskEnded { task, how, .. } => blocks.push(format!("  ← {task} {}", words::ended(*how))),
            Event::TaskResumed { task, spawn, .. } => blocks.push(format!("  → {task} works again: {}", spawn.description)),
            Event::Kept { title, .. } => blocks.push(format!("  → in the background: {title}")),
            Event::KeptEnded { words: said, .. } if !said.is_blank() => {
                blocks.push(format!("  ← {}", said.inline().unwrap_or_default().lines().next().unwrap_or_default()));
            }
            Event::ModelChanged { model, why } => {
                let model = model.as_deref().unwrap_or("its own model");
                blocks.push(format!("  ! {model} answers from here on: {why}"));
            }
            Event::Detached { task } => blocks.push(format!("  ! {task} goes on in the background")),
            Event::StepFailed { error, retry_at, partial, .. } => {
                // What was said before a step that is tried again is said anew.
                let kept = said(&[Part::text(partial.clone())]);
                if retry_at.is_none() && !kept.is_empty() {
                    blocks.push(format!("agent: {kept}\n  (cut off here)"));
                }
                let again = if retry_at.is_some() { " (tried again)" } else { "" };
                blocks.push(format!("  ! {error}{again}"));
            }
            Event::Interrupted { .. } => once(&mut blocks, "  ! interrupted".into()),
            Event::LimitReached { words, .. } => once(&mut blocks, format!("  ! {words}")),
            Event::Compacted { summary, .. } => blocks.push(format!(
                "  * from here on the model knows what was before by this summary:\n{}",
                summary.inline().unwrap_or_default()
            )),
            Event::Pruned { .. } => blocks.push("  * what calls printed long ago is no longer shown to the model".into()),
            Event::CompactionFailed { smaller: true, .. } => {}
            Event::CompactionFailed { why, .. } => blocks.push(format!("  ! the conversation was not summed up: {why}")),
            Event::Titled { title } => blocks.push(format!("  * called {title} from here on")),
            Event::Misshapen { words, .. } => blocks.push(format!("  ! the answer does not fit the schema: {words}")),
            Event::TookOver { .. } => blocks.push("  ! the process died here; another took over".into()),
            _ => {}
        }
    }
    blocks
}

/// A step that ended by it has said why already.
fn once(blocks: &mut Vec<String>, block: String) {
    if blocks.last() != Some(&block) {
        blocks.push(block);
    }
}

fn speaker(source: &Source) -> &str {
    match source {
        Source::User => "you",
        Source::Prompt { .. } => "caller",
        Source::Task { .. } => "task",
        Source::Agent { name, .. } | Source::Hook { name } | Source::Plugin { name } => name,
        Source::Timer => "timer",
        Source::Shell { .. } => "shell",
        Source::Answer { .. } => "answer",
    }
}

/// The end of a task as the outcome of the call that waited for it.
fn told(how: How, result: &Text) -> Outcome {
    match how {
        How::Completed | How::Limit => Outcome::done(result.clone()),
        How::Failed => Outcome::failed(result.clone()),
        How::Stopped => Outcome::cancelled(result.clone()),
    }
}

fn indented(outcome: &Outcome) -> String {
    let text = match outcome {
        Outcome::Done { output: text, .. }
        | Outcome::Failed { error: text }
        | Outcome::Denied { why: text }
        | Outcome::Cancelled { partial: text }
        | Outcome::Lost { partial: text } => text.inline().unwrap_or("(a long text)"),
    };
    let mut lines: Vec<String> = text.lines().take(OUTPUT_LINES).map(|line| format!("    {line}")).collect();
    if OUTPUT_LINES < text.lines().count() {
        let more = text.lines().count() - OUTPUT_LINES;
        lines.push(format!("    … {more} more {}", if more == 1 { "line" } else { "lines" }));
    }
    if outcome.is_error() {
        lines.insert(0, format!("    ({})", outcome.word()));
    }
    lines.join("\n")
}

fn short(input: &Text) -> String {
    input.inline().unwrap_or_default().chars().take(100).collect()
}
