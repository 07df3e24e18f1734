//! `edit`: replaces a passage of a file by another.
//!
//! Where the passage stands is found by `edit/matching.rs`; here are the guards around it (unique, not changed since it
//! was read, not a no-op) and the words about what was done.

mod matching;

use std::{sync::Arc, time::Duration};

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};
use similar::TextDiff;

use self::matching::{How, closest, find, line_of};
use crate::{
    arguments::{Arguments, FILE_PATH, Parameter},
    blocking::blocking,
    files::{self, Memory},
    judged::Judged,
    paths::{Place, trouble},
    private::Private,
    text::{small, title, visible},
};

const OLD_STRING: Parameter = Parameter::new("oldString", &["oldStr", "oldText", "old", "search"]);
const NEW_STRING: Parameter = Parameter::new("newString", &["newStr", "newText", "new", "replace", "replacement"]);
const REPLACE_ALL: Parameter = Parameter::new("replaceAll", &["all"]);

/// No edit makes a file larger than this: a short passage in a large file, replaced everywhere by a long one.
const RESULT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Texts that are compared for a diff; of larger ones there is none.
const DIFF_TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
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

pub(crate) struct Edit {
    spec: ToolSpec,
    judged: Judged,
}

struct Wanted {
    place: Place,
    old: String,
    new: String,
    all: bool,
}

/// A change that was made in memory.
struct Changed {
    after: String,
    how: How,
    places: usize,
    /// The first line that changed, and how many lines stand there now.
    line: usize,
    lines: usize,
}

impl Edit {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
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
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = wanted(input, workspace)?;
        let touches = wanted.place.write_touches("edit");
        self.judged.note(input, &touches);
        Ok(Look { touches, repeatable: false, title: title(&wanted.place.name) })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let wanted = wanted(&call.input, workspace).and_then(|wanted| {
                self.judged.check(&call.input, &wanted.place.write_touches("edit"), &wanted.place)?;
                Ok(wanted)
            });
            let (private, memory) = (Private::of(workspace), Arc::clone(&context.memory));
            blocking("edit", context, move |stopped| edit(&wanted?, &private, &memory, stopped)).await
        })
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<Wanted, String> {
    let arguments = Arguments::new("edit", input)?;
    let wanted = Wanted {
        place: Place::of(workspace, arguments.filled_text(FILE_PATH)?)?,
        old: arguments.text(OLD_STRING)?.to_owned(),
        new: arguments.text(NEW_STRING)?.to_owned(),
        all: arguments.flag(REPLACE_ALL)?,
    };
    if wanted.old == wanted.new {
        return Err("edit: oldString and newString are the same, so there is nothing to change.".into());
    }
    Ok(wanted)
}

fn edit(wanted: &Wanted, private: &Private, memory: &Memory, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let place = &wanted.place;
    let _only = files::one_writer();
    let before = files::load_text(place, private)?;
    let changed = match &before {
        None if wanted.old.is_empty() => Changed { after: wanted.new.clone(), how: How::Exactly, places: 0, line: 1, lines: 0 },
        None => return Err(trouble(place, &std::io::ErrorKind::NotFound.into())),
        Some(before) => {
            if wanted.old.is_empty() {
                return Err(format!("{} exists, so oldString must not be empty. To replace the whole file use write.", place.name));
            }
            if files::is_stale(memory, &place.real, before) {
                return Err(files::stale_words(place));
            }
            change(wanted, before)?
        }
    };
    if stopped() {
        return Ok(Outcome::cancelled("Stopped before anything was written."));
    }
    files::write_whole(&place.real, changed.after.as_bytes(), private).map_err(|error| trouble(place, &error))?;
    files::remember(memory, &place.real, Some(changed.after.as_bytes()));
    Ok(done(place, before.as_deref(), &changed))
}

fn change(wanted: &Wanted, before: &str) -> Result<Changed, String> {
    let Some(found) = find(before, &wanted.old, &wanted.new) else { return Err(not_found(wanted, before)) };
    if 1 < found.count && !wanted.all {
        let lines: Vec<String> = found.starts().take(PLACES_MAX).map(|start| line_of(before, start).to_string()).collect();
        let more = if PLACES_MAX < found.count { ", …" } else { "" };
        return Err(format!(
            "oldString stands at {} places in {} (lines {}{more}), so it is unclear which one is meant. Add lines around it until it is unique, or set replaceAll.",
            found.count,
            wanted.place.name,
            lines.join(", ")
        ));
    }
    let (after, lines) = found.replaced(RESULT_BYTES_MAX).map_err(|bytes| {
        format!(
            "With this change {} would have {bytes} bytes or more; at most {RESULT_BYTES_MAX} are written, so nothing was.",
            wanted.place.name
        )
    })?;
    if after == before {
        return Err(format!("The change leaves {} as it is, so nothing was written.", wanted.place.name));
    }
    let line = found.starts().next().map_or(1, |start| line_of(before, start));
    Ok(Changed { after, how: found.how, places: found.count, line, lines })
}

fn not_found(wanted: &Wanted, before: &str) -> String {
    let mut words = format!("oldString was not found in {}.", wanted.place.name);
    let numbered = |line: &str| {
        line.trim_start().split_once('|').is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if wanted.old.lines().all(numbered) {
        words.push_str(" It begins with line numbers; leave out `number|`, which is not in the file.");
    } else if NOTICED_LETTERS_MIN <= wanted.new.trim().len() && before.contains(&wanted.new) {
        words.push_str(" newString is already there; the change may have been made before.");
    }
    match closest(before, &wanted.old) {
        Some(place) => {
            words.push_str(&format!(" The closest place is:\n{place}\nUse the text exactly as it stands there, or read the file again."))
        }
        None => words.push_str(" Nothing in it looks similar; read the file again."),
    }
    words
}

fn done(place: &Place, before: Option<&str>, changed: &Changed) -> Outcome {
    let Changed { after, how, places, line, lines } = changed;
    let output = if before.is_none() {
        format!("Created {} ({} lines).", place.name, after.lines().count())
    } else {
        let forgiven = match how {
            How::Exactly => "",
            How::WithoutTrailingBlanks => " (oldString matched except for blanks at the ends of lines)",
            How::WithoutIndentation => " (oldString matched except for indentation; newString was moved to the indentation of the file)",
        };
        let at = if *places == 1 { format!("at line {line}") } else { format!("at {places} places, the first at line {line}") };
        format!("Edited {} {at}{forgiven}.\n{}", place.name, snippet(after, *line, *lines))
    };
    Outcome::Done {
        output: output.into(),
        title: title(&place.name),
        metadata: small(described(place, before.unwrap_or_default(), after, *places), "diff"),
        attachments: vec![files::patch(place, before, after)],
    }
}

fn described(place: &Place, before: &str, after: &str, places: usize) -> Value {
    if DIFF_TEXT_BYTES_MAX < before.len() + after.len() {
        return json!({"path": place.name, "replaced": places});
    }
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(before, after);
    let unified = diff.unified_diff().context_radius(3).header(&place.name, &place.name).to_string();
    let count = |tag: similar::ChangeTag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    json!({
        "path": place.name,
        "diff": unified,
        "additions": count(similar::ChangeTag::Insert),
        "deletions": count(similar::ChangeTag::Delete),
        "replaced": places,
    })
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
