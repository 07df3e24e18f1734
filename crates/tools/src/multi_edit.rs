//! `multi_edit`: several replacements in one file, all of them or none, each on what the one before has left.
//!
//! A replacement is that of edit (`edit/replacement.rs`), and so is everything around the file.

use std::sync::Arc;

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, FILE_PATH, Parameter},
    blocking::blocking,
    edit::{Changed, Replacement, edit},
    judged::Judged,
    paths::{Place, trouble},
    private::Private,
    text::title,
};

const EDITS: Parameter = Parameter::new("edits", &["changes", "replacements"]);

/// More edits of one file are a rewrite of it.
const EDITS_MAX: usize = 200;

pub(crate) struct MultiEdit {
    spec: ToolSpec,
    judged: Judged,
}

impl MultiEdit {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "multi_edit".into(),
            description: "Make several replacements in one file: all of them, or none if one of them fails. Each is like a call of edit and is made on \
                the result of the one before, so a later `oldString` must match what the earlier ones leave. Read the file first: if it changed \
                since then, nothing is written."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "filePath": {"type": "string", "description": "The file to change: absolute, or relative to the working directory."},
                    "edits": {
                        "type": "array",
                        "description": "The replacements, in the order in which they are made.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "oldString": {"type": "string", "description": "The passage to replace, with its exact blanks and line breaks."},
                                "newString": {"type": "string", "description": "What stands there afterwards. Must differ from oldString."},
                                "replaceAll": {"type": "boolean", "description": "Replace every place instead of requiring exactly one. Default false."}
                            },
                            "required": ["oldString", "newString"]
                        }
                    }
                },
                "required": ["filePath", "edits"]
            }),
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for MultiEdit {
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
            let wanted = wanted(&call.input, workspace).and_then(|(place, replacements)| {
                self.judged.check(&call.input, &place.edit_touches(), &place)?;
                Ok((place, replacements))
            });
            let (private, memory) = (Private::of(workspace), Arc::clone(&context.memory));
            blocking("multi_edit", context, move |stopped| {
                let (place, replacements) = wanted?;
                edit(&place, &private, &memory, stopped, |before| made(&place, &replacements, before))
            })
            .await
        })
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<(Place, Vec<Replacement>), String> {
    let arguments = Arguments::new("multi_edit", input)?;
    let place = Place::of(workspace, arguments.filled_text(FILE_PATH)?)?;
    place.writable()?;
    let expected = "a list of objects with oldString and newString";
    let value = arguments.find(EDITS).ok_or_else(|| arguments.missing(EDITS, expected))?;
    // Some models send the list as a string of JSON.
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    let Some(edits) = parsed.as_ref().unwrap_or(value).as_array() else { return Err(arguments.wrong(EDITS, expected, value)) };
    match edits.len() {
        0 => return Err("multi_edit: `edits` is empty, so there is nothing to change.".into()),
        1..=EDITS_MAX => {}
        many => return Err(format!("multi_edit: at most {EDITS_MAX} edits in one call; got {many}. Make several calls, or use write.")),
    }
    let replacements = edits.iter().enumerate().map(|(nth, edit)| {
        Replacement::of("multi_edit", edit).map_err(|words| format!("{words} (edit {} of {}; nothing was written)", nth + 1, edits.len()))
    });
    Ok((place, replacements.collect::<Result<_, _>>()?))
}

fn made(place: &Place, replacements: &[Replacement], before: Option<&str>) -> Result<Vec<Changed>, String> {
    let mut changes: Vec<Changed> = Vec::new();
    for (nth, replacement) in replacements.iter().enumerate() {
        let changed = match changes.last().map(|last| last.after.as_str()).or(before) {
            Some(text) => replacement.made(&place.name, text),
            None if replacement.old.is_empty() => Ok(Changed::created(&replacement.new)),
            None => Err(trouble(place, &std::io::ErrorKind::NotFound.into())),
        };
        changes.push(changed.map_err(|words| {
            let numbers = words.contains("(lines ") || words.contains("closest place");
            let with = if nth == 0 || !numbers { "" } else { " (Line numbers count with the edits before it.)" };
            format!("Edit {} of {} could not be made, so nothing was written. {words}{with}", nth + 1, replacements.len())
        })?);
    }
    Ok(changes)
}
