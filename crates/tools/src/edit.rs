//! `edit`: replaces a passage of a file by another.
//!
//! Where the passage stands is found by `edit/matching.rs`; here are the guards around it (unique, not changed since it
//! was read, not a no-op) and the words about what was done.

mod matching;

use std::time::Duration;

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};
use similar::TextDiff;

use self::matching::{How, Spot, closest, find, line_of};
use crate::{
    arguments::{Arguments, FILE_PATH, Parameter},
    files,
    paths::{Place, trouble},
    text::{cap, visible},
};

const OLD_STRING: Parameter = Parameter::new("oldString", &["oldStr", "oldText", "old", "search"]);
const NEW_STRING: Parameter = Parameter::new("newString", &["newStr", "newText", "new", "replace", "replacement"]);
const REPLACE_ALL: Parameter = Parameter::new("replaceAll", &["all"]);

/// The diff is part of an event, which must stay small.
const DIFF_BYTES_MAX: usize = 4 * 1024;
/// A large file with many changes gets a coarser diff.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);
/// Places named when a passage is not unique.
const PLACES_MAX: usize = 10;
/// A shorter newString stands in a file by chance.
const NOTICED_LETTERS_MIN: usize = 12;
/// Lines shown after a change: enough to see where it landed.
const SNIPPET_LINES_MAX: usize = 12;
const SNIPPET_LINES_AROUND: usize = 2;
const SNIPPET_LINE_CHARS_MAX: usize = 200;

pub(crate) struct Edit(ToolSpec);

struct Wanted<'a> {
    place: Place,
    old: &'a str,
    new: &'a str,
    all: bool,
}

impl Edit {
    pub(crate) fn new() -> Self {
        Self(ToolSpec {
            name: "edit".into(),
            description:
                "Replace a passage of a file. Give `oldString` exactly as it stands in the file, without the line numbers that read shows, \
                and with enough lines around it to be found only once; or set `replaceAll` to change every place. \
                An empty `oldString` creates a file that does not exist. To replace a whole file use write. Read the file first: \
                if it changed since then, nothing is written."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "filePath": {"type": "string", "description": "The file to change: absolute, or relative to the working directory."},
                    "oldString": {"type": "string", "description": "The passage to replace, with its exact blanks and line breaks."},
                    "newString": {"type": "string", "description": "What stands there afterwards. Must differ from oldString; empty removes the passage."},
                    "replaceAll": {"type": "boolean", "description": "Replace every place instead of requiring exactly one. Default false."}
                },
                "required": ["filePath", "oldString", "newString"]
            }),
        })
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = wanted(input, workspace)?;
        Ok(Look { touches: wanted.place.write_touches("edit"), repeatable: false, title: wanted.place.name })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let edited = wanted(&call.input, &*context.workspace).and_then(|wanted| edit(&wanted, context));
            edited.unwrap_or_else(Outcome::failed)
        })
    }
}

fn wanted<'a>(input: &'a Value, workspace: &dyn Workspace) -> Result<Wanted<'a>, String> {
    let arguments = Arguments::new("edit", input)?;
    let wanted = Wanted {
        place: Place::of(workspace, arguments.filled_text(FILE_PATH)?),
        old: arguments.text(OLD_STRING)?,
        new: arguments.text(NEW_STRING)?,
        all: arguments.flag(REPLACE_ALL)?,
    };
    if wanted.old == wanted.new {
        return Err("edit: oldString and newString are the same, so there is nothing to change.".into());
    }
    Ok(wanted)
}

fn edit(wanted: &Wanted<'_>, context: &ToolContext) -> Result<Outcome, String> {
    let place = &wanted.place;
    let _only = files::one_writer();
    let before = files::load_text(place)?;
    let (after, how, spots) = match &before {
        None if wanted.old.is_empty() => (wanted.new.to_owned(), How::Exactly, Vec::new()),
        None => return Err(trouble(place, &std::io::ErrorKind::NotFound.into())),
        Some(before) => {
            if wanted.old.is_empty() {
                return Err(format!("{} exists, so oldString must not be empty. To replace the whole file use write.", place.name));
            }
            if files::is_stale(context, &place.real, before) {
                return Err(files::stale_words(place));
            }
            changed(wanted, before)?
        }
    };
    files::write_whole(&place.real, after.as_bytes()).map_err(|error| trouble(place, &error))?;
    files::remember(context, &place.real, Some(after.as_bytes()));
    Ok(done(place, before.as_deref(), &after, how, &spots))
}

fn changed(wanted: &Wanted<'_>, before: &str) -> Result<(String, How, Vec<Spot>), String> {
    let Some((how, spots)) = find(before, wanted.old, wanted.new) else { return Err(not_found(wanted, before)) };
    if 1 < spots.len() && !wanted.all {
        let lines: Vec<String> = spots.iter().take(PLACES_MAX).map(|spot| line_of(before, spot.range.start).to_string()).collect();
        let more = if PLACES_MAX < spots.len() { ", …" } else { "" };
        return Err(format!(
            "oldString stands at {} places in {} (lines {}{more}), so it is unclear which one is meant. Add lines around it until it is unique, or set replaceAll.",
            spots.len(),
            wanted.place.name,
            lines.join(", ")
        ));
    }
    let mut after = String::with_capacity(before.len());
    let mut copied = 0;
    for spot in &spots {
        after.push_str(&before[copied..spot.range.start]);
        after.push_str(&spot.replacement);
        copied = spot.range.end;
    }
    after.push_str(&before[copied..]);
    if after == before {
        return Err(format!("The change leaves {} as it is, so nothing was written.", wanted.place.name));
    }
    Ok((after, how, spots))
}

fn not_found(wanted: &Wanted<'_>, before: &str) -> String {
    let mut words = format!("oldString was not found in {}.", wanted.place.name);
    let numbered = |line: &str| {
        line.trim_start().split_once('|').is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if wanted.old.lines().all(numbered) {
        words.push_str(" It begins with line numbers; leave out `number|`, which is not in the file.");
    } else if NOTICED_LETTERS_MIN <= wanted.new.trim().len() && before.contains(wanted.new) {
        words.push_str(" newString is already there; the change may have been made before.");
    }
    match closest(before, wanted.old) {
        Some(place) => {
            words.push_str(&format!(" The closest place is:\n{place}\nUse the text exactly as it stands there, or read the file again."))
        }
        None => words.push_str(" Nothing in it looks similar; read the file again."),
    }
    words
}

fn done(place: &Place, before: Option<&str>, after: &str, how: How, spots: &[Spot]) -> Outcome {
    let output = match (before, spots.first()) {
        (Some(before), Some(first)) => {
            let line = line_of(before, first.range.start);
            let forgiven = match how {
                How::Exactly => "",
                How::WithoutTrailingBlanks => " (oldString matched except for blanks at the ends of lines)",
                How::WithoutIndentation => {
                    " (oldString matched except for indentation; newString was moved to the indentation of the file)"
                }
            };
            let places =
                if spots.len() == 1 { format!("at line {line}") } else { format!("at {} places, the first at line {line}", spots.len()) };
            format!("Edited {} {places}{forgiven}.\n{}", place.name, snippet(after, line, first.replacement.lines().count()))
        }
        _ => format!("Created {} ({} lines).", place.name, after.lines().count()),
    };
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(before.unwrap_or_default(), after);
    let unified = diff.unified_diff().context_radius(3).header(&place.name, &place.name).to_string();
    let count = |tag: similar::ChangeTag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    let metadata = json!({
        "path": place.name,
        "diff": cap(&unified, DIFF_BYTES_MAX, |omitted| format!("... {omitted} bytes of the diff omitted")).text,
        "additions": count(similar::ChangeTag::Insert),
        "deletions": count(similar::ChangeTag::Delete),
        "replaced": spots.len(),
    });
    Outcome::Done {
        output: output.into(),
        title: place.name.clone(),
        metadata: Some(metadata),
        attachments: vec![files::patch(place, before, after)],
    }
}

fn snippet(text: &str, line: usize, lines: usize) -> String {
    let from = line.saturating_sub(1 + SNIPPET_LINES_AROUND);
    let wanted = (lines + 2 * SNIPPET_LINES_AROUND).min(SNIPPET_LINES_MAX);
    let shown = text.lines().enumerate().skip(from).take(wanted);
    shown
        .map(|(at, line)| {
            let cut: String = line.chars().take(SNIPPET_LINE_CHARS_MAX).collect();
            format!("{}|{}", at + 1, visible(&cut))
        })
        .collect::<Vec<_>>()
        .join("\n")
}
