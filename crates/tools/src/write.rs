//! `write`: a whole file, new or replaced, in one step.

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, FILE_PATH, Parameter},
    files,
    paths::{Place, trouble},
};

const CONTENT: Parameter = Parameter::new("content", &["contents", "text", "fileText"]);

pub(crate) struct Write(ToolSpec);

impl Write {
    pub(crate) fn new() -> Self {
        Self(ToolSpec {
            name: "write".into(),
            description: "Write a whole file: a new one (missing folders are made), or a replacement for all of an existing one. \
                To change part of a file use edit, which sends less and cannot lose the rest. Read an existing file before you replace it; \
                if it changed since then, nothing is written."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "filePath": {"type": "string", "description": "The file to write: absolute, or relative to the working directory."},
                    "content": {"type": "string", "description": "The complete new text of the file, exactly as it shall be stored."}
                },
                "required": ["filePath", "content"]
            }),
        })
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let (place, _) = wanted(input, workspace)?;
        Ok(Look { touches: place.write_touches("edit"), repeatable: false, title: place.name })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let written = wanted(&call.input, &*context.workspace).and_then(|(place, content)| write(&place, content, context));
            written.unwrap_or_else(Outcome::failed)
        })
    }
}

fn wanted<'a>(input: &'a Value, workspace: &dyn Workspace) -> Result<(Place, &'a str), String> {
    let arguments = Arguments::new("write", input)?;
    let place = Place::of(workspace, arguments.filled_text(FILE_PATH)?);
    Ok((place, arguments.text(CONTENT)?))
}

fn write(place: &Place, content: &str, context: &ToolContext) -> Result<Outcome, String> {
    if place.real.is_dir() {
        return Err(format!("{} is a directory; name a file in it.", place.name));
    }
    let _only = files::one_writer();
    // What cannot be loaded as text (binary, huge) can still be replaced, only without a hash of what was there.
    let (existed, before) = match files::load_text(place) {
        Ok(before) => (before.is_some(), before),
        Err(_) if place.real.is_file() => (true, None),
        Err(words) => return Err(words),
    };
    if let Some(before) = &before
        && files::is_stale(context, &place.real, before)
    {
        return Err(files::stale_words(place));
    }
    files::write_whole(&place.real, content.as_bytes()).map_err(|error| trouble(place, &error))?;
    files::remember(context, &place.real, Some(content.as_bytes()));
    let lines = content.lines().count();
    let verb = match (&before, existed) {
        (_, false) => "Created",
        (Some(before), _) if before == content => "Unchanged (it already had this text):",
        _ => "Overwrote",
    };
    Ok(Outcome::Done {
        output: format!("{verb} {} ({lines} lines, {} bytes).", place.name, content.len()).into(),
        title: place.name.clone(),
        metadata: Some(json!({"path": place.name, "created": !existed, "lines": lines})),
        attachments: vec![files::patch(place, before.as_deref(), content)],
    })
}
