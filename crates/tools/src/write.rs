//! `write`: a whole file, new or replaced, in one step. How a file is put in place safely is in `files.rs`.

use std::sync::Arc;

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, FILE_PATH, Parameter},
    blocking::blocking,
    change::{self, Before},
    files::{self, Memory},
    judged::Judged,
    paths::{Place, trouble},
    private::Private,
    text::{count, small, title},
};

const CONTENT: Parameter = Parameter::new("content", &["contents", "text", "fileText"]);

pub(crate) struct Write {
    spec: ToolSpec,
    judged: Judged,
}

impl Write {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
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
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let (place, _) = wanted(input, workspace)?;
        let touches = place.write_touches("edit");
        self.judged.note_file(input, &touches, &place);
        Ok(Look { touches, repeatable: false, title: title(&place.name), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let wanted = wanted(&call.input, workspace).and_then(|(place, content)| {
                self.judged.check(&call.input, &place.write_touches("edit"), &place)?;
                Ok((place, content.to_owned()))
            });
            let (private, memory) = (Private::of(workspace), Arc::clone(&context.memory));
            blocking("write", context, move |stopped| {
                let (place, content) = wanted?;
                write(&place, &content, &private, &memory, stopped)
            })
            .await
        })
    }
}

fn wanted<'a>(input: &'a Value, workspace: &dyn Workspace) -> Result<(Place, &'a str), String> {
    let arguments = Arguments::new("write", input)?;
    let place = Place::of(workspace, arguments.filled_text(FILE_PATH)?)?;
    place.writable()?;
    Ok((place, arguments.text(CONTENT)?))
}

fn write(place: &Place, content: &str, private: &Private, memory: &Memory, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    if place.find().is_ok_and(|found| found.metadata.is_dir()) {
        return Err(format!("{} is a directory; name a file in it.", place.name));
    }
    let _only = files::one_writer();
    // What is too large to be read can still be replaced, only without a record of what was there.
    let (existed, loaded) = match files::load(place, private) {
        Ok(loaded) => (loaded.is_some(), loaded),
        Err(_) if place.find().is_ok_and(|found| found.metadata.is_file()) => (true, None),
        Err(words) => return Err(words),
    };
    let before = loaded.map(|loaded| loaded.bytes);
    if let Some(Ok(before)) = before.as_deref().map(str::from_utf8)
        && files::is_stale(memory, place, before)
    {
        return Err(files::stale_words(place));
    }
    if stopped() {
        return Ok(Outcome::cancelled("Stopped before anything was written."));
    }
    let lines = content.lines().count();
    let same = before.as_deref() == Some(content.as_bytes());
    if !same {
        files::write_whole(&place.real, content.as_bytes(), private).map_err(|error| trouble(place, &error))?;
    }
    files::remember(memory, place, Some(content.as_bytes()));
    let (verb, was) = match &before {
        _ if same => ("Unchanged (it already had this text):", None),
        Some(before) => ("Overwrote", Some(Before::Content(before))),
        None if existed => ("Overwrote", Some(Before::Unread)),
        None => ("Created", Some(Before::Absent)),
    };
    Ok(Outcome::Done {
        output: format!("{verb} {} ({}, {}).", place.name, count(lines as u64, "line"), count(content.len() as u64, "byte")).into(),
        title: title(&place.name),
        metadata: small(json!({"path": place.name, "created": !existed, "lines": lines}), "path"),
        attachments: was.map(|was| change::patch(&place.name, was, Some(content.as_bytes()), None)).into_iter().collect(),
    })
}
