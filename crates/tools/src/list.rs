//! `list`: the tree of a folder, wide before deep, so that a large subfolder does not crowd out the rest.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsString,
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
/// Of one folder; the others are counted.
const ENTRIES_OF_FOLDER_MAX: usize = 60;
/// A level of the tree is walked up to here; a larger one is counted in part.
const ENTRIES_COUNTED_MAX: usize = 20_000;
/// A chain of folders with nothing else in them ends somewhere.
const DEPTH_MAX: usize = 12;

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

/// The entries of every folder that was reached, folders first, each group by name.
type Tree = HashMap<PathBuf, Vec<(OsString, bool)>>;

fn show(place: &Place, left_out: &Override, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let metadata = place.real.metadata().map_err(|error| crate::paths::trouble(place, &error))?;
    if !metadata.is_dir() {
        return Err(format!("{} is not a folder; use read for a file.", place.name));
    }
    let (tree, depth) = reach(&place.real, left_out, stopped);
    let shown = choose(&place.real, &tree);
    let mut page =
        Page { tree: &tree, shown: &shown, depth, output: format!("{}/\n", place.name.trim_end_matches('/')), lines: 0, unopened: 0 };
    page.render(&place.real, 1);
    if page.unopened != 0 {
        page.output.push_str(&format!("({} folders marked … were not opened; call list with their path)\n", page.unopened));
    }
    let metadata = json!({"count": page.lines, "truncated": page.unopened != 0});
    Ok(Outcome::Done { output: page.output.into(), title: place.name.clone(), metadata: Some(metadata), attachments: Vec::new() })
}

/// Walks one level deeper each time until there is enough to show, so that a huge folder costs little.
fn reach(folder: &Path, left_out: &Override, stopped: &dyn Fn() -> bool) -> (Tree, usize) {
    let mut before = 0;
    let mut depth = 1;
    loop {
        let walk = walk::builder(folder).overrides(left_out.clone()).max_depth(Some(depth)).build();
        let mut tree = Tree::new();
        let mut count = 0;
        for entry in walk.flatten().filter(|entry| entry.depth() != 0).take(ENTRIES_COUNTED_MAX) {
            count += 1;
            let parent = entry.path().parent().unwrap_or(folder).to_owned();
            tree.entry(parent).or_default().push((entry.file_name().to_owned(), entry.file_type().is_some_and(|kind| kind.is_dir())));
        }
        tree.values_mut().for_each(|entries| entries.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0))));
        if ENTRIES_MAX <= count || count == before || DEPTH_MAX <= depth || stopped() {
            return (tree, depth);
        }
        (before, depth) = (count, depth + 1);
    }
}

/// How many entries of each folder are shown, wide before deep.
fn choose(folder: &Path, tree: &Tree) -> HashMap<PathBuf, usize> {
    let mut shown = HashMap::new();
    let mut left = ENTRIES_MAX;
    let mut waiting = VecDeque::from([folder.to_owned()]);
    while let Some(path) = waiting.pop_front() {
        let entries = tree.get(&path).map_or(&[][..], Vec::as_slice);
        let count = entries.len().min(ENTRIES_OF_FOLDER_MAX).min(left);
        left -= count;
        waiting.extend(entries[..count].iter().filter(|(_, is_folder)| *is_folder).map(|(name, _)| path.join(name)));
        // A folder for which there was no room at all is one that was not opened.
        if count != 0 || entries.is_empty() {
            shown.insert(path, count);
        }
    }
    shown
}

struct Page<'a> {
    tree: &'a Tree,
    shown: &'a HashMap<PathBuf, usize>,
    /// Folders at this depth were not walked into.
    depth: usize,
    output: String,
    lines: usize,
    unopened: usize,
}

impl Page<'_> {
    fn render(&mut self, folder: &Path, depth: usize) {
        let indent = "  ".repeat(depth);
        let entries = self.tree.get(folder).map_or(&[][..], Vec::as_slice);
        let count = self.shown.get(folder).copied().unwrap_or(0);
        for (name, is_folder) in &entries[..count] {
            self.lines += 1;
            let (path, name) = (folder.join(name), visible(&name.to_string_lossy()));
            if !is_folder {
                self.output.push_str(&format!("{indent}{name}\n"));
                continue;
            }
            let opened = self.shown.contains_key(&path) && depth < self.depth;
            self.unopened += usize::from(!opened);
            self.output.push_str(&format!("{indent}{name}/{}\n", if opened { "" } else { " …" }));
            if opened {
                self.render(&path, depth + 1);
            }
        }
        if count < entries.len() {
            self.output.push_str(&format!("{indent}({} more)\n", entries.len() - count));
        }
    }
}
