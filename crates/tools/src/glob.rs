//! `glob`: files by the pattern of their path, newest first. The walk itself, with its bounds, is in `walk.rs`.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use globset::{GlobBuilder, GlobMatcher};
use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, PATH, Parameter},
    blocking::blocking,
    judged::Judged,
    paths::{Place, absolute, name_in, trouble},
    private::Private,
    text::{title, visible},
    walk::Walk,
};

const PATTERN: Parameter = Parameter::new("pattern", &["glob", "globPattern"]);

/// More names than anyone reads; the model should narrow the pattern.
const SHOWN_MAX: usize = 100;
/// Matches held to find the newest among them.
const MATCHES_MAX: usize = 50_000;

pub(crate) struct Glob {
    spec: ToolSpec,
    judged: Judged,
}

struct Wanted {
    pattern: String,
    matcher: GlobMatcher,
    place: Place,
}

impl Glob {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "glob".into(),
            description: "Find files by the pattern of their path, newest first. `*` is any text within one name, `**` any folders, `{a,b}` one of several. \
                A pattern without a slash (`*.rs`) is looked for in every folder. Files that .gitignore excludes are left out. At most 100 are shown. \
                To search in the text of files use grep; to see what a folder holds use list; do not use bash with find."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "For example `**/*.rs`, `src/**/test_*.py`, `*.{ts,tsx}`."},
                    "path": {"type": "string", "description": "The folder to search in. Default: the working directory."}
                },
                "required": ["pattern"]
            }),
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for Glob {
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
            blocking("glob", context, move |stopped| find(&wanted?, &root, &private, stopped)).await
        })
    }
}

impl Wanted {
    fn touches(&self) -> Vec<Touch> {
        std::iter::once(Touch::new("glob", &self.pattern)).chain(self.place.read_outside()).collect()
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<Wanted, String> {
    let arguments = Arguments::new("glob", input)?;
    let pattern = arguments.filled_text(PATTERN)?.trim();
    let start = arguments.maybe_text(PATH)?.filter(|path| !path.trim().is_empty());
    let start = start.map_or_else(|| workspace.cwd().to_owned(), |path| absolute(workspace.cwd(), path));
    let (folder, rest) = split(&start, pattern);
    let matcher = GlobBuilder::new(&rest)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("glob: the pattern is not valid: {error}. Put special characters in brackets: `[{{]`."))?
        .compile_matcher();
    Ok(Wanted { pattern: pattern.to_owned(), matcher, place: Place::at(workspace, &folder)? })
}

/// The folders at the front of a pattern that are no pattern are walked to, not through: `../other/src/*.rs`.
fn split(start: &Path, pattern: &str) -> (PathBuf, String) {
    let is_pattern = |part: &str| part.contains(['*', '?', '[', '{']);
    let parts: Vec<&str> = pattern.split('/').collect();
    let plain = parts.iter().take(parts.len() - 1).take_while(|part| !is_pattern(part)).count();
    let front = parts[..plain].join("/");
    let folder = if plain == 1 && front.is_empty() { PathBuf::from("/") } else { absolute(start, &front) };
    let rest = parts[plain..].join("/");
    // `src/` means what is in it.
    let rest = if rest.is_empty() { "**".to_owned() } else { rest };
    match rest.contains('/') || plain != 0 {
        true => (folder, rest),
        false => (folder, format!("**/{rest}")),
    }
}

fn find(wanted: &Wanted, root: &Path, private: &Private, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let folder = &wanted.place.real;
    let trouble = |error: io::Error| trouble(&wanted.place, &error);
    match wanted.place.find() {
        Ok(found) if found.metadata.is_dir() => {}
        Ok(_) => return Err(format!("{} is not a folder; use read for a file.", wanted.place.name)),
        Err(error) => return Err(trouble(error)),
    }
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let mut total = 0;
    let mut walk = Walk::new(private, stopped);
    walk.files(folder, root, |_, entry| {
        if entry.path.strip_prefix(folder).is_ok_and(|path| wanted.matcher.is_match(path)) {
            total += 1;
            let found_now = private.find(&entry.path).ok();
            let changed = found_now.and_then(|found| found.metadata.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((changed, entry.path.clone()));
        }
        found.len() < MATCHES_MAX
    })
    .map_err(trouble)?;
    found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    found.truncate(SHOWN_MAX);
    let mut output = if found.is_empty() {
        let is_folder = private.find(&folder.join(&wanted.pattern)).is_ok_and(|found| found.metadata.is_dir());
        let hint = if is_folder { format!(" {0} is a folder; its files match {0}/**.", wanted.pattern) } else { String::new() };
        format!("No files match {} in {} (files that .gitignore excludes are not searched).{hint}", wanted.pattern, wanted.place.name)
    } else {
        found.iter().map(|(_, path)| visible(&name_in(root, path))).collect::<Vec<_>>().join("\n")
    };
    if found.len() < total {
        output.push_str(&format!("\n({} more match; narrow the pattern or the path)", total - found.len()));
    }
    output.push_str(&walk.walked.note());
    let metadata = json!({"count": total, "truncated": found.len() < total});
    Ok(Outcome::Done { output: output.into(), title: title(&wanted.pattern), metadata: Some(metadata), attachments: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_front_of_a_pattern_is_a_folder() {
        for (pattern, folder, rest) in [
            ("*.rs", "/w", "**/*.rs"),
            ("src/*.rs", "/w/src", "*.rs"),
            ("src/**/*.rs", "/w/src", "**/*.rs"),
            ("**/x/*.rs", "/w", "**/x/*.rs"),
            ("/etc/*.conf", "/etc", "*.conf"),
            ("/*.conf", "/", "*.conf"),
            ("../a/b.txt", "/w/../a", "b.txt"),
            ("a.txt", "/w", "**/a.txt"),
            ("src/", "/w/src", "**"),
        ] {
            assert_eq!(split(Path::new("/w"), pattern), (PathBuf::from(folder), rest.to_owned()), "{pattern}");
        }
    }
}
