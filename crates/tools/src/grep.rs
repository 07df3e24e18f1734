//! `grep`: lines of files that match a regular expression, with ripgrep's libraries.

use std::{io, path::Path};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch};
use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, PATH, Parameter},
    blocking::blocking,
    files,
    judged::Judged,
    paths::{Place, absolute, name_in},
    private::Private,
    text::{title, visible},
    walk::{Timely, Walk},
};

const PATTERN: Parameter = Parameter::new("pattern", &["regex", "query"]);
const INCLUDE: Parameter = Parameter::new("include", &["glob", "includePattern", "filePattern"]);

/// A few screens; more matches mean that the pattern is too wide.
const SHOWN_MAX: u64 = 100;
/// Matches are counted up to here, to say how many more there are.
const COUNTED_MAX: u64 = 2_000;
/// A longer line is cut around its match.
const LINE_CHARS_MAX: usize = 250;
/// What stands before the match in a cut line.
const LINE_CHARS_BEFORE: usize = 60;
/// A line that needs more memory is no text; the file is passed over.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(crate) struct Grep {
    spec: ToolSpec,
    judged: Judged,
}

struct Wanted {
    pattern: String,
    matcher: RegexMatcher,
    include: Option<GlobSet>,
    place: Place,
    is_folder: bool,
}

impl Grep {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "grep".into(),
            description: "Search the text of files with a regular expression (Rust syntax, one line at a time, case counts; start with `(?i)` to ignore it). \
                Answers with file names and numbered lines, at most 100. Binary files and files that .gitignore excludes are left out. \
                To find files by name use glob; to see a file use read; do not use bash with grep or rg."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "For example `fn \\w+_main`, `TODO|FIXME`, `foo\\(` (a literal parenthesis)."},
                    "path": {"type": "string", "description": "The folder or file to search. Default: the working directory."},
                    "include": {"type": "string", "description": "Search only files with such names, for example `*.rs` or `*.{ts,tsx}`."}
                },
                "required": ["pattern"]
            }),
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = wanted(input, workspace)?;
        let touches = wanted.touches();
        self.judged.note(input, &touches);
        Ok(Look { touches, repeatable: true, title: title(&wanted.pattern) })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let wanted = wanted(&call.input, workspace).and_then(|wanted| {
                self.judged.check(&call.input, &wanted.touches(), &wanted.place)?;
                Ok(wanted)
            });
            let (root, private) = (workspace.root().to_owned(), Private::of(workspace));
            blocking("grep", context, move |stopped| search(&wanted?, &root, &private, stopped)).await
        })
    }
}

impl Wanted {
    /// The lines of a file that is named are read like with `read`, so its rules count too.
    fn touches(&self) -> Vec<Touch> {
        let place = if self.is_folder { self.place.read_outside().into_iter().collect() } else { self.place.read_touches("read") };
        std::iter::once(Touch::new("grep", &self.pattern)).chain(place).collect()
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<Wanted, String> {
    let arguments = Arguments::new("grep", input)?;
    let pattern = arguments.text(PATTERN)?;
    if pattern.is_empty() {
        return Err("grep: parameter `pattern` must not be empty.".into());
    }
    let matcher = RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(pattern).map_err(|error| {
        format!("grep: `{pattern}` is not a valid regular expression: {error}\nTo search for special characters literally, put a backslash before each: `{}`", escape(pattern))
    })?;
    let include = arguments.maybe_text(INCLUDE)?.filter(|include| !include.trim().is_empty()).map(include_set).transpose()?;
    let folder = arguments.maybe_text(PATH)?.filter(|path| !path.trim().is_empty());
    let folder = folder.map_or_else(|| workspace.cwd().to_owned(), |path| absolute(workspace.cwd(), path));
    let place = Place::at(workspace, &folder)?;
    let is_folder = place.real.is_dir();
    Ok(Wanted { pattern: pattern.to_owned(), matcher, include, place, is_folder })
}

/// Without a slash a pattern is about names, with one about paths below the folder.
fn include_set(include: &str) -> Result<GlobSet, String> {
    let include = include.trim().trim_start_matches("./").trim_start_matches('/');
    let mut set = GlobSetBuilder::new();
    for pattern in [include.to_owned(), format!("**/{include}")] {
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| format!("grep: parameter `include` is not a valid file pattern: {error}"))?);
    }
    set.build().map_err(|error| format!("grep: parameter `include` is not a valid file pattern: {error}"))
}

fn escape(pattern: &str) -> String {
    pattern.chars().flat_map(|letter| r"\.+*?()|[]{}^$".contains(letter).then_some('\\').into_iter().chain([letter])).collect()
}

fn search(wanted: &Wanted, root: &Path, private: &Private, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let place = &wanted.place;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .memory_map(MmapChoice::never())
        .heap_limit(Some(LINE_BYTES_MAX))
        .build();
    let mut found = Found { wanted, private, output: String::new(), file: String::new(), named: false, in_file: 0, files: 0, matches: 0 };
    let mut walk = Walk::new(private, stopped);
    let mut secrets = 0;
    if wanted.is_folder {
        walk.files(&place.real, root, |walk, entry| {
            let below = entry.path.strip_prefix(&place.real).unwrap_or(&entry.path);
            // A link may lead anywhere; its target is searched where it lives.
            if entry.is_file && wanted.include.as_ref().is_none_or(|include| include.is_match(below)) {
                match is_secret(&entry.path) {
                    true => secrets += 1,
                    // Vanished or not allowed: passed over, as every search program does.
                    false => drop(found.search(&mut searcher, walk, &entry.path, name_in(root, &entry.path))),
                }
            }
            found.matches < COUNTED_MAX
        });
    } else {
        found.search(&mut searcher, &mut walk, &place.real, place.name.clone()).map_err(|error| crate::paths::trouble(place, &error))?;
    }
    let (matches, files) = (found.matches, found.files);
    let mut output = std::mem::take(&mut found.output);
    if matches == 0 {
        output = format!("No line matches {} in {} (binary and ignored files are not searched).", wanted.pattern, place.name);
    } else if SHOWN_MAX < matches {
        let least = if COUNTED_MAX <= matches { "at least " } else { "" };
        output.push_str(&format!("\n({least}{} more matches are not shown; narrow the pattern, the path or include)", matches - SHOWN_MAX));
    }
    if secrets != 0 {
        output.push_str(&format!("\n({secrets} .env files were not searched; to search one, name it as path)"));
    }
    output.push_str(&walk.walked.note());
    let metadata = json!({"matches": matches, "files": files, "truncated": SHOWN_MAX < matches});
    Ok(Outcome::Done { output: output.into(), title: title(&wanted.pattern), metadata: Some(metadata), attachments: Vec::new() })
}

/// Files that the built-in rules ask about before they are read. A search of a folder names no file, so it could not ask.
fn is_secret(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    (name.ends_with(".env") || name.contains(".env.")) && !name.ends_with(".env.example")
}

/// What was found so far; the sink of one file after the other.
struct Found<'a> {
    wanted: &'a Wanted,
    private: &'a Private,
    output: String,
    file: String,
    /// The present file's name is in the output.
    named: bool,
    in_file: u64,
    files: u64,
    matches: u64,
}

impl Found<'_> {
    fn search(&mut self, searcher: &mut Searcher, walk: &mut Walk<'_>, path: &Path, name: String) -> io::Result<()> {
        let (input, _) = files::open_regular(path, self.private)?;
        (self.file, self.named, self.in_file) = (name, false, 0);
        let wanted = self.wanted;
        // A file that cannot be read to its end still gives what was found before.
        if let Err(error) = searcher.search_reader(&wanted.matcher, Timely { walk, input }, &mut *self) {
            tracing::debug!(%error, file = self.file, "not searched to the end");
        }
        self.files += u64::from(self.in_file != 0);
        Ok(())
    }
}

impl Sink for &mut Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        self.in_file += 1;
        if self.matches <= SHOWN_MAX {
            if !std::mem::replace(&mut self.named, true) {
                let gap = if self.output.is_empty() { "" } else { "\n" };
                let name = format!("{gap}{}:\n", visible(&self.file));
                self.output.push_str(&name);
            }
            let start = self.wanted.matcher.find(found.bytes()).ok().flatten().map_or(0, |found| found.start());
            let line = format!("  {}: {}\n", found.line_number().unwrap_or(0), cut(found.bytes(), start));
            self.output.push_str(&line);
        }
        Ok(self.matches < COUNTED_MAX)
    }
}

fn cut(line: &[u8], start: usize) -> String {
    let before = String::from_utf8_lossy(&line[..start.min(line.len())]).chars().count();
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    let total = line.chars().count();
    if total <= LINE_CHARS_MAX {
        return visible(line);
    }
    let skip = if before < LINE_CHARS_MAX - LINE_CHARS_BEFORE { 0 } else { before - LINE_CHARS_BEFORE };
    let shown: String = line.chars().skip(skip).take(LINE_CHARS_MAX).collect();
    let (front, back) = (if skip == 0 { "" } else { "…" }, if skip + LINE_CHARS_MAX < total { "…" } else { "" });
    format!("{front}{}{back}", visible(&shown))
}
