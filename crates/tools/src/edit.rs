//! `edit`: replaces a passage of a file by another.
//!
//! Where the passage stands is found by `edit/matching.rs`; `edit/replacement.rs` makes the change in memory and words it.
//! Here are the guards around the file (not changed since it was read, written whole or not at all).

mod indentation;
mod matching;
mod replacement;

use std::{sync::Arc, time::Duration};

use posse_session::{BoxFuture, Look, Outcome, Part, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};
use similar::TextDiff;

pub(crate) use self::{
    indentation::Shift,
    matching::{closest, is_crlf},
    replacement::{Changed, Replacement},
};
use crate::{
    arguments::{Arguments, FILE_PATH},
    blocking::blocking,
    change::{self, Before},
    files::{self, Memory},
    judged::Judged,
    paths::{Place, trouble},
    private::Private,
    text::{count, small, title},
};

/// Texts that are compared for a diff; of larger ones there is none.
const DIFF_TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// A large file with many changes gets a coarser diff.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);

pub(crate) struct Edit {
    spec: ToolSpec,
    judged: Judged,
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
        let (place, _) = wanted(input, workspace)?;
        let touches = place.edit_touches();
        self.judged.note_file(input, &touches, &place);
        Ok(Look { touches, repeatable: false, title: title(&place.name), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let wanted = wanted(&call.input, workspace).and_then(|(place, replacement)| {
                self.judged.check(&call.input, &place.edit_touches(), &place)?;
                Ok((place, replacement))
            });
            let (private, memory) = (Private::of(workspace), Arc::clone(&context.memory));
            blocking("edit", context, move |stopped| {
                let (place, replacement) = wanted?;
                edit(&place, &private, &memory, stopped, |before| match before {
                    None if replacement.old.is_empty() => Ok(vec![Changed::created(&replacement.new)]),
                    None => Err(trouble(&place, &std::io::ErrorKind::NotFound.into())),
                    Some(before) => Ok(vec![replacement.made(&place.name, before)?]),
                })
            })
            .await
        })
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<(Place, Replacement), String> {
    let place = Place::of(workspace, Arguments::new("edit", input)?.filled_text(FILE_PATH)?)?;
    place.writable()?;
    Ok((place, Replacement::of("edit", input)?))
}

/// Changes a file: reads it, makes the changes in memory, writes what the last one came to. `change` is given the text
/// if there is a file, and gives at least one change or words for the model.
pub(crate) fn edit(
    place: &Place,
    private: &Private,
    memory: &Memory,
    stopped: &dyn Fn() -> bool,
    change: impl FnOnce(Option<&str>) -> Result<Vec<Changed>, String>,
) -> Result<Outcome, String> {
    let _only = files::one_writer();
    let before = files::load_text(place, private)?;
    if let Some(before) = &before
        && files::is_stale(memory, place, before)
    {
        return Err(files::stale_words(place));
    }
    let changes = change(before.as_deref())?;
    let Some(last) = changes.last().filter(|last| before.as_ref() != Some(&last.after)) else {
        return Err(format!("The change leaves {} as it is, so nothing was written.", place.name));
    };
    if stopped() {
        return Ok(Outcome::cancelled("Stopped before anything was written."));
    }
    files::write_whole(&place.real, last.after.as_bytes(), private).map_err(|error| trouble(place, &error))?;
    files::remember(memory, place, Some(last.after.as_bytes()));
    Ok(done(place, before.as_deref(), &changes, &last.after))
}

fn done(place: &Place, before: Option<&str>, changes: &[Changed], after: &str) -> Outcome {
    let output = match (before, changes) {
        (None, _) => format!("Created {} ({}).", place.name, count(after.lines().count() as u64, "line")),
        (_, [only]) => format!("Edited {} {}.\n{}", place.name, only.place(), only.shown()),
        (_, several) => {
            let each = several.iter().enumerate().map(|(nth, change)| format!("Edit {} {}.\n{}", nth + 1, change.place(), change.shown()));
            format!("Made {} edits in {}.\n{}", several.len(), place.name, each.collect::<Vec<_>>().join("\n"))
        }
    };
    let places = changes.iter().map(|change| change.places).sum();
    let patch = change::patch(&place.name, Before::of(before), Some(after.as_bytes()), None);
    Outcome::Done {
        output: output.into(),
        title: title(&place.name),
        metadata: small(described(&place.name, before.unwrap_or_default(), after, places, &patch), "diff"),
        attachments: vec![patch],
    }
}

fn described(name: &str, before: &str, after: &str, places: usize, patch: &Part) -> Value {
    let mut described = json!({"path": name, "replaced": places});
    if let (Some(diff), Part::Patch { added, removed, .. }) = (unified(name, before, after), patch) {
        described["diff"] = diff.into();
        (described["additions"], described["deletions"]) = ((*added).into(), (*removed).into());
    }
    described
}

/// What changed, for people; nothing of texts that are too large to be compared.
pub(crate) fn unified(name: &str, before: &str, after: &str) -> Option<String> {
    if DIFF_TEXT_BYTES_MAX < before.len() + after.len() {
        return None;
    }
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(before, after);
    Some(diff.unified_diff().context_radius(3).header(name, name).to_string())
}
