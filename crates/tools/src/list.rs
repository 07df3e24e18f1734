//! `list`: the tree of a folder, wide before deep, so that a large subfolder does not crowd out the rest.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::overrides::{Override, OverrideBuilder};
use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, PATH, Parameter},
    paths::Place,
    text::visible,
    walk,
};

const IGNORE: Parameter = Parameter::new("ignore", &["exclude"]);

/// A tree one can still take in.
const ENTRIES_MAX: usize = 200;
/// Of one folder; more are counted, up to the second bound.
const ENTRIES_OF_FOLDER_MAX: usize = 60;
const ENTRIES_COUNTED_MAX: usize = 10_000;

pub(crate) struct List(ToolSpec);

impl List {
    pub(crate) fn new() -> Self {
        Self(ToolSpec {
            name: "list".into(),
            description: "Show the tree of a folder, about 200 entries, without what .gitignore excludes. Folders marked … were not opened. \
                Use it to get to know a project; to find files by name use glob, to search in them use grep; do not use bash with ls or tree."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder. Default: the working directory."},
                    "ignore": {"type": "array", "items": {"type": "string"}, "description": "Patterns of names to leave out, for example `*.snap`."}
                }
            }),
        })
    }
}

impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let (place, _) = wanted(input, workspace)?;
        Ok(Look { touches: place.read_touches("list"), repeatable: true, title: place.name })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let (place, left_out) = match wanted(&call.input, &*context.workspace) {
                Ok(wanted) => wanted,
                Err(words) => return Outcome::failed(words),
            };
            let stop = Arc::clone(&context.stop);
            let shown = tokio::task::spawn_blocking(move || show(&place, &left_out, &|| stop.is_stopped())).await;
            shown.unwrap_or_else(|error| Err(format!("list: {error}"))).unwrap_or_else(Outcome::failed)
        })
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<(Place, Override), String> {
    let arguments = Arguments::new("list", input)?;
    let place = Place::of(workspace, arguments.maybe_text(PATH)?.filter(|path| !path.trim().is_empty()).unwrap_or("."));
    let patterns: Vec<&str> = match arguments.find(IGNORE) {
        None => Vec::new(),
        Some(Value::String(pattern)) => vec![pattern],
        Some(Value::Array(patterns)) => patterns.iter().filter_map(Value::as_str).collect(),
        Some(other) => return Err(arguments.wrong(IGNORE, "a list of strings", other)),
    };
    let mut left_out = OverrideBuilder::new(&place.real);
    for pattern in patterns {
        let pattern = pattern.trim_start_matches('!');
        left_out.add(&format!("!{pattern}")).map_err(|error| format!("list: parameter `ignore`: {error}"))?;
    }
    let left_out = left_out.build().map_err(|error| format!("list: parameter `ignore`: {error}"))?;
    Ok((place, left_out))
}

/// A folder's place in the tree.
struct Folder {
    path: PathBuf,
    /// Its lines, and for a subfolder its own place in the list of folders.
    lines: Vec<(String, Option<usize>)>,
    /// `None`: not opened, because the tree was full.
    entries: Option<usize>,
}

fn show(place: &Place, left_out: &Override, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let metadata = place.real.metadata().map_err(|error| crate::paths::trouble(place, &error))?;
    if !metadata.is_dir() {
        return Err(format!("{} is not a folder; use read for a file.", place.name));
    }
    let mut folders = vec![Folder { path: place.real.clone(), lines: Vec::new(), entries: None }];
    let mut waiting = VecDeque::from([0]);
    let mut shown = 0;
    while let Some(at) = waiting.pop_front() {
        if ENTRIES_MAX <= shown || stopped() {
            break;
        }
        let mut entries = entries_of(&folders[at].path, left_out);
        folders[at].entries = Some(entries.len());
        entries.truncate(ENTRIES_OF_FOLDER_MAX.min(ENTRIES_MAX - shown));
        for (name, is_folder) in entries {
            shown += 1;
            let below = is_folder.then(|| {
                folders.push(Folder { path: folders[at].path.join(&name), lines: Vec::new(), entries: None });
                waiting.push_back(folders.len() - 1);
                folders.len() - 1
            });
            folders[at].lines.push((visible(&name.to_string_lossy()), below));
        }
    }
    let mut output = format!("{}/\n", place.name.trim_end_matches('/'));
    render(&folders, 0, 1, &mut output);
    let unopened = folders.iter().filter(|folder| folder.entries.is_none()).count();
    if unopened != 0 {
        output.push_str(&format!("({unopened} folders marked … were not opened; call list with their path)\n"));
    }
    let metadata = json!({"count": shown, "truncated": unopened != 0});
    Ok(Outcome::Done { output: output.into(), title: place.name.clone(), metadata: Some(metadata), attachments: Vec::new() })
}

/// Folders first, each group by name.
fn entries_of(folder: &Path, left_out: &Override) -> Vec<(std::ffi::OsString, bool)> {
    let walk = walk::builder(folder).overrides(left_out.clone()).max_depth(Some(1)).build();
    let entries = walk.flatten().filter(|entry| entry.depth() == 1).take(ENTRIES_COUNTED_MAX);
    let mut entries: Vec<_> = entries.map(|entry| (entry.file_name().to_owned(), entry.file_type().is_some_and(|kind| kind.is_dir()))).collect();
    entries.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    entries
}

fn render(folders: &[Folder], at: usize, depth: usize, output: &mut String) {
    let indent = "  ".repeat(depth);
    let folder = &folders[at];
    for (name, below) in &folder.lines {
        match below {
            None => output.push_str(&format!("{indent}{name}\n")),
            Some(below) => {
                let mark = if folders[*below].entries.is_none() { " …" } else { "" };
                output.push_str(&format!("{indent}{name}/{mark}\n"));
                render(folders, *below, depth + 1, output);
            }
        }
    }
    let hidden = folder.entries.unwrap_or(0) - folder.lines.len().min(folder.entries.unwrap_or(0));
    if hidden != 0 {
        output.push_str(&format!("{indent}({hidden} more)\n"));
    }
}
