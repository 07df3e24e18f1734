//! `list`: the tree of a folder, wide before deep, so that a large subfolder does not crowd out the rest.

use std::{
    collections::{HashMap, VecDeque},
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::overrides::{Override, OverrideBuilder};
use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, PATH, Parameter},
    blocking::blocking,
    ignored::Ignored,
    judged::Judged,
    paths::Place,
    private::Private,
    text::{title, visible},
    walk::Walk,
};

const IGNORE: Parameter = Parameter::new("ignore", &["exclude"]);

/// A tree one can still take in.
const ENTRIES_MAX: usize = 200;
/// Of one folder; the others are counted.
const ENTRIES_OF_FOLDER_MAX: usize = 60;
/// No further folder is opened when so many entries were seen.
const ENTRIES_COUNTED_MAX: usize = 20_000;
/// A chain of folders with nothing else in them ends somewhere.
const DEPTH_MAX: usize = 12;

pub(crate) struct List {
    spec: ToolSpec,
    judged: Judged,
}

impl List {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
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
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let (place, _) = wanted(input, workspace)?;
        let touches = place.read_touches("list");
        self.judged.note(input, &touches);
        Ok(Look { touches, repeatable: true, title: title(&place.name), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let wanted = wanted(&call.input, workspace).and_then(|(place, left_out)| {
                self.judged.check(&call.input, &place.read_touches("list"), &place)?;
                Ok((place, left_out))
            });
            let (root, private) = (workspace.root().to_owned(), Private::of(workspace));
            blocking("list", context, move |stopped| {
                let (place, left_out) = wanted?;
                show(&place, &left_out, &root, &mut Walk::new(&private, stopped), &private)
            })
            .await
        })
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<(Place, Override), String> {
    let arguments = Arguments::new("list", input)?;
    let place = Place::of(workspace, arguments.maybe_text(PATH)?.filter(|path| !path.trim().is_empty()).unwrap_or("."))?;
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

fn show(place: &Place, left_out: &Override, project: &Path, walk: &mut Walk<'_>, private: &Private) -> Result<Outcome, String> {
    let trouble = |error: io::Error| crate::paths::trouble(place, &error);
    let found = place.find().map_err(trouble)?;
    if !found.metadata.is_dir() {
        return Err(format!("{} is not a folder; use read for a file.", place.name));
    }
    let tree = reach(&place.real, left_out, project, walk, private).map_err(trouble)?;
    let shown = choose(&place.real, &tree);
    let mut page = Page { tree: &tree, shown: &shown, output: format!("{}/\n", place.name.trim_end_matches('/')), lines: 0, unopened: 0 };
    page.render(&place.real, 1);
    if page.lines == 0 {
        page.output.push_str("  (empty, or everything in it is left out)\n");
    }
    if page.unopened != 0 {
        let (folders, their) = if page.unopened == 1 { ("folder marked … was", "its") } else { ("folders marked … were", "their") };
        page.output.push_str(&format!("({} {folders} not opened; call list with {their} path)\n", page.unopened));
    }
    page.output.push_str(&walk.walked.note());
    let metadata = json!({"count": page.lines, "truncated": page.unopened != 0});
    Ok(Outcome::Done { output: page.output.into(), title: title(&place.name), metadata: Some(metadata), attachments: Vec::new() })
}

/// Opens folder after folder, level by level, until there is enough to show, so that a huge tree costs little.
fn reach(folder: &Path, left_out: &Override, project: &Path, walk: &mut Walk<'_>, private: &Private) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut level: Vec<(PathBuf, Option<Arc<Ignored>>)> = vec![(folder.to_owned(), None)];
    let (mut count, mut depth) = (0, 0);
    while !level.is_empty() && count < ENTRIES_MAX && depth < DEPTH_MAX {
        let mut below = Vec::new();
        for (path, above) in level {
            if ENTRIES_COUNTED_MAX <= count || walk.is_over() {
                return Ok(tree);
            }
            let is_start = above.is_none();
            let ignored = above.map_or_else(|| Ignored::of(folder, project, private), |above| above.with(&path, private));
            let mut entries = if is_start { walk.entries_of(&path, &ignored)? } else { walk.entries(&path, &ignored) };
            entries.retain(|entry| !left_out.matched(&entry.path, entry.is_folder).is_ignore());
            count += entries.len();
            // Folders first, each group by name.
            entries.sort_by_key(|entry| !entry.is_folder);
            for entry in entries.iter().filter(|entry| entry.is_folder).take(ENTRIES_OF_FOLDER_MAX) {
                below.push((entry.path.clone(), Some(Arc::clone(&ignored))));
            }
            let name = |path: &Path| path.file_name().map(OsStr::to_owned).unwrap_or_default();
            tree.insert(path, entries.iter().map(|entry| (name(&entry.path), entry.is_folder)).collect());
        }
        (level, depth) = (below, depth + 1);
    }
    Ok(tree)
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
            let opened = self.shown.contains_key(&path) && self.tree.contains_key(&path);
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
