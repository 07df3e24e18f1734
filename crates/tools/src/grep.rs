//! `grep`: lines of files that match a regular expression, with ripgrep's libraries; or only the files, or how many lines.
//!
//! Takes the parameters of other products' tools too, `-i` and `-C` included. The search itself is in `grep/search.rs`.

mod search;

use std::{io, path::Path};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_regex::RegexMatcherBuilder;
use ignore::types::{Types, TypesBuilder};
use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use self::search::{FileFound, Line, Plan, Searched};
use crate::{
    arguments::{Arguments, PATH, Parameter},
    blocking::blocking,
    judged::Judged,
    paths::{Place, absolute, trouble},
    private::Private,
    text::{most_alike, title, visible},
};

const PATTERN: Parameter = Parameter::new("pattern", &["regex", "query"]);
const INCLUDE: Parameter = Parameter::new("include", &["glob", "includePattern", "filePattern"]);
const TYPE: Parameter = Parameter::new("type", &["fileType"]);
// A dash never counts in a name, so `-i` and `-C` are found as well.
const IGNORE_CASE: Parameter = Parameter::new("ignoreCase", &["i", "caseInsensitive"]);
const CONTEXT: Parameter = Parameter::new("context", &["C", "contextLines"]);
const BEFORE: Parameter = Parameter::new("before", &["B", "beforeContext", "linesBefore"]);
const AFTER: Parameter = Parameter::new("after", &["A", "afterContext", "linesAfter"]);
const OUTPUT_MODE: Parameter = Parameter::new("outputMode", &["mode", "output"]);
const LIMIT: Parameter = Parameter::new("limit", &["headLimit", "maxResults", "maxCount"]);
const MULTILINE: Parameter = Parameter::new("multiline", &["multilineMode", "U"]);

/// A few screens; more matches mean that the pattern is too wide.
const SHOWN_USUAL: u64 = 100;
/// What a call may ask for.
const SHOWN_MAX: u64 = 500;
/// About 12,000 tokens.
const OUTPUT_BYTES_MAX: usize = 50 * 1024;
/// Matches are counted up to here, to say how many more there are.
const COUNTED_MAX: u64 = 2_000;
/// Where nothing but the number is wanted.
const ONLY_COUNTED_MAX: u64 = 1_000_000;
/// More lines around a match are a job for read.
const CONTEXT_MAX: u64 = 20;
/// Names to choose from when a type is not known.
const NEAR_TYPES_MAX: usize = 3;

pub(crate) struct Grep {
    spec: ToolSpec,
    judged: Judged,
}

struct Wanted {
    pattern: String,
    plan: Plan,
    include: Option<GlobSet>,
    types: Option<Types>,
    place: Place,
    mode: Mode,
    limit: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Lines,
    Files,
    Count,
}

impl Grep {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "grep".into(),
            description: "Search the text of files with a regular expression (Rust syntax, one line at a time, case counts). \
                Answers with file names and numbered lines, at most 100 unless limit says more. Binary files and files that .gitignore excludes are left out. \
                To find files by name use glob; to see a file use read; do not use bash with grep or rg."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "For example `fn \\w+_main`, `TODO|FIXME`, `foo\\(` (a literal parenthesis)."},
                    "path": {"type": "string", "description": "The folder or file to search. Default: the working directory."},
                    "include": {"type": "string", "description": "Search only files with such names, for example `*.rs` or `*.{ts,tsx}`."},
                    "type": {"type": "string", "description": "Search only files of this type, for example rust, py, js."},
                    "ignoreCase": {"type": "boolean", "description": "Default false."},
                    "context": {"type": "integer", "description": "Lines to show before and after each match, up to 20. Or `before` and `after`. Default 0."},
                    "outputMode": {"type": "string", "enum": ["content", "files_with_matches", "count"], "description": "Lines, only file names, or the number of matches per file. Default content."},
                    "multiline": {"type": "boolean", "description": "The pattern may reach over lines, and `.` matches their ends. Default false."},
                    "limit": {"type": "integer", "description": "Matches or files to show, up to 500. Default 100."}
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
        Ok(Look { touches, repeatable: true, title: title(&wanted.pattern), ..Look::default() })
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
        let place = if self.place.is_folder { self.place.read_outside().into_iter().collect() } else { self.place.read_touches("read") };
        std::iter::once(Touch::new("grep", &self.pattern)).chain(place).collect()
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<Wanted, String> {
    let arguments = Arguments::new("grep", input)?;
    let pattern = arguments.text(PATTERN)?;
    if pattern.is_empty() {
        return Err("grep: parameter `pattern` must not be empty.".into());
    }
    let multiline = arguments.flag(MULTILINE)?;
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(arguments.flag(IGNORE_CASE)?);
    match multiline {
        true => builder.multi_line(true).dot_matches_new_line(true),
        false => builder.line_terminator(Some(b'\n')),
    };
    let matcher = builder.build(pattern).map_err(|error| {
        format!("grep: `{pattern}` is not a valid regular expression: {error}\nTo search for special characters literally, put a backslash before each: `{}`", escape(pattern))
    })?;
    let include = arguments.maybe_text(INCLUDE)?.filter(|include| !include.trim().is_empty()).map(include_set).transpose()?;
    let folder = arguments.maybe_text(PATH)?.filter(|path| !path.trim().is_empty());
    let folder = folder.map_or_else(|| workspace.cwd().to_owned(), |path| absolute(workspace.cwd(), path));
    let place = Place::at(workspace, &folder)?;
    let mode = mode(&arguments)?;
    let lines = |parameter| Ok::<_, String>(arguments.maybe_number(parameter)?.map(|lines| lines.min(CONTEXT_MAX) as usize));
    let around = lines(CONTEXT)?;
    let limit = arguments.maybe_number(LIMIT)?.filter(|limit| *limit != 0).unwrap_or(SHOWN_USUAL).min(SHOWN_MAX);
    let (before, after) = (lines(BEFORE)?.or(around).unwrap_or(0), lines(AFTER)?.or(around).unwrap_or(0));
    let plan = match mode {
        Mode::Lines => Plan { matcher, multiline, before, after, kept_max: limit, in_file_max: COUNTED_MAX, total_max: COUNTED_MAX },
        Mode::Files => Plan { matcher, multiline, before: 0, after: 0, kept_max: 0, in_file_max: 1, total_max: COUNTED_MAX },
        Mode::Count => {
            Plan { matcher, multiline, before: 0, after: 0, kept_max: 0, in_file_max: ONLY_COUNTED_MAX, total_max: ONLY_COUNTED_MAX }
        }
    };
    let types = arguments.maybe_text(TYPE)?.map(str::trim).filter(|name| !name.is_empty()).map(types).transpose()?;
    Ok(Wanted { pattern: pattern.to_owned(), plan, include, types, place, mode, limit })
}

fn mode(arguments: &Arguments<'_>) -> Result<Mode, String> {
    let Some(text) = arguments.maybe_text(OUTPUT_MODE)? else { return Ok(Mode::Lines) };
    match text.trim().to_ascii_lowercase().replace(['-', ' '], "_").as_str() {
        "" | "content" | "lines" | "matches" => Ok(Mode::Lines),
        "files_with_matches" | "files" | "filenames" => Ok(Mode::Files),
        "count" | "counts" | "count_matches" => Ok(Mode::Count),
        _ => Err(arguments.wrong(OUTPUT_MODE, "one of content, files_with_matches, count", &Value::String(text.to_owned()))),
    }
}

/// The files of a type as ripgrep knows it; an ending (`rs`, `.tsx`) is as good as its name.
fn types(name: &str) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let definitions = builder.definitions();
    let name = name.trim_start_matches('.').to_ascii_lowercase();
    let by_ending = || definitions.iter().find(|known| known.globs().iter().any(|glob| *glob == format!("*.{name}")));
    let known = definitions.iter().find(|known| known.name() == name).or_else(by_ending);
    let Some(known) = known else {
        let names: Vec<&str> = definitions.iter().map(|known| known.name()).collect();
        let near = most_alike(&name, &names, NEAR_TYPES_MAX, 0.8);
        let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
        return Err(format!("grep: no type of files is called `{name}`.{hint} Or use include with a pattern such as `*.{name}`."));
    };
    builder.select(known.name());
    builder.build().map_err(|error| format!("grep: parameter `type`: {error}"))
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
    let wants = |below: &Path| {
        wanted.include.as_ref().is_none_or(|include| include.is_match(below))
            && wanted.types.as_ref().is_none_or(|types| types.matched(below, false).is_whitelist())
    };
    let searched = match place.is_folder {
        true => search::folder(&wanted.plan, &place.real, root, &wants, private, stopped),
        false => search::file(&wanted.plan, &place.real, place.name.clone(), private, stopped),
    };
    let searched = searched.map_err(|error: io::Error| trouble(place, &error))?;
    Ok(shown(wanted, &searched))
}

fn shown(wanted: &Wanted, searched: &Searched) -> Outcome {
    let Searched { files, secrets, walked } = searched;
    // A file is searched to its end even where the sum is reached in it.
    let matches = files.iter().map(|file| file.matches).sum::<u64>().min(wanted.plan.total_max);
    let (mut output, shown) = match wanted.mode {
        _ if matches == 0 => (nothing(wanted), 0),
        Mode::Lines => lines(files, wanted.limit),
        Mode::Files => list(files, wanted.limit, |file| visible(&file.name)),
        Mode::Count => list(files, wanted.limit, |file| format!("{}: {}", visible(&file.name), file.matches)),
    };
    let found = if wanted.mode == Mode::Lines { matches } else { files.len() as u64 };
    let least = if wanted.plan.total_max <= matches { "at least " } else { "" };
    if shown < found {
        let what = match (wanted.mode == Mode::Lines, found - shown) {
            (true, 1) => "match is",
            (true, _) => "matches are",
            (false, 1) => "file is",
            (false, _) => "files are",
        };
        output.push_str(&format!("\n({least}{} more {what} not shown; narrow the pattern, the path or include)", found - shown));
    }
    if wanted.mode == Mode::Count && 1 < found {
        output.push_str(&format!("\n({least}{matches} matches in {found} files)"));
    }
    if *secrets != 0 {
        let (files, them) = if *secrets == 1 { ("file was", "it") } else { ("files were", "them") };
        output.push_str(&format!("\n({secrets} .env {files} not searched; grep {them} by name, which is asked about)"));
    }
    output.push_str(&walked.note());
    let metadata = json!({"matches": matches, "files": files.len(), "truncated": shown < found});
    Outcome::Done { output: output.into(), title: title(&wanted.pattern), metadata: Some(metadata), attachments: Vec::new() }
}

fn nothing(wanted: &Wanted) -> String {
    let narrowed = if wanted.include.is_some() || wanted.types.is_some() { "only the named kind of files was searched, " } else { "" };
    format!("No line matches {} in {} ({narrowed}binary and ignored files are not searched).", wanted.pattern, wanted.place.name)
}

/// One line per file, and how many.
fn list(files: &[FileFound], limit: u64, line: impl Fn(&FileFound) -> String) -> (String, u64) {
    let mut output = String::new();
    let mut shown = 0;
    for file in files.iter().take(limit as usize) {
        let line = line(file);
        if OUTPUT_BYTES_MAX < output.len() + line.len() {
            break;
        }
        if shown != 0 {
            output.push('\n');
        }
        output.push_str(&line);
        shown += 1;
    }
    (output, shown)
}

/// The lines under the names of their files, and how many matches there are among them.
fn lines(files: &[FileFound], limit: u64) -> (String, u64) {
    let mut output = String::new();
    let mut shown = 0;
    for file in files {
        let gap = if output.is_empty() { "" } else { "\n" };
        output.push_str(&format!("{gap}{}:\n", visible(&file.name)));
        let before = shown;
        for line in &file.lines {
            let text = match line {
                Line::Match(number, text) => format!("  {number}: {text}\n"),
                Line::Context(number, text) => format!("  {number}- {text}\n"),
                Line::Gap => "  --\n".to_owned(),
            };
            let is_match = matches!(line, Line::Match(..));
            if is_match && limit <= shown || OUTPUT_BYTES_MAX < output.len() + text.len() {
                return (output, shown);
            }
            shown += u64::from(is_match);
            output.push_str(&text);
        }
        // A match over several lines counts once.
        shown = shown.min(before + file.matches);
        if limit <= shown {
            break;
        }
    }
    (output, shown)
}
