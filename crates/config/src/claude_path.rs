//! Claude's path patterns as patterns of ours.
//!
//! Claude writes paths as gitignore does: `*` stays within a folder, `**` does not, a bare name is meant at any depth, a
//! folder is meant with all that is in it, and the first letters say where the path starts. Ours are plain wildcards on
//! names relative to the project, where `*` crosses folders. One pattern may therefore become several. Where ours cannot
//! say the same, a deny or an ask becomes wider and an allow does not, except that `src/*.rs` also means deeper files.

use std::path::{Path, PathBuf};

use posse_session::Verdict;

use crate::{path_pattern::Roots, places::tidy};

/// Where the paths of a rule start.
#[derive(Debug, Clone)]
pub(crate) struct Anchors<'a> {
    pub(crate) home: &'a Path,
    /// What names are relative to. Empty when patterns are relative to it already.
    pub(crate) project: &'a Path,
    /// What `/x` is below.
    pub(crate) top: PathBuf,
    /// What `x/y` is below: for an allow the first, for anything stricter all of them.
    pub(crate) here: Vec<PathBuf>,
}

impl<'a> Anchors<'a> {
    /// For rules that were not written in one of Claude's files: their paths start at the project.
    pub(crate) fn of_project(roots: Roots<'a>) -> Self {
        let Roots { home, project } = roots;
        Self { home, project, top: project.to_owned(), here: vec![project.to_owned()] }
    }
}

/// Something gitignore can say and we cannot. To leave it out would leave files unprotected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathPatternError {
    Negated,
    Escaped,
}

impl PathPatternError {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Negated => "a pattern that begins with `!` is not supported; write a rule of its own",
            Self::Escaped => "a backslash in a path is not supported; write `?` for the letter it stands before",
        }
    }
}

/// More `**` than this in one pattern are read as one wide star.
const DOUBLE_STARS_MAX: usize = 3;

pub(crate) fn patterns(written: &str, action: Verdict, anchors: &Anchors<'_>) -> Result<Vec<String>, PathPatternError> {
    let written = written.trim();
    if written.starts_with('!') {
        return Err(PathPatternError::Negated);
    }
    if written.contains('\\') {
        return Err(PathPatternError::Escaped);
    }
    if matches!(written, "*" | "**" | "**/*") {
        return Ok(vec!["*".to_owned()]);
    }
    let strict = action != Verdict::Allow;
    let mut patterns = Vec::new();
    for start in starts(written, strict, anchors) {
        for body in bodies(start.rest, strict) {
            for pattern in placed(&start, &body, anchors) {
                if !patterns.contains(&pattern) {
                    patterns.push(pattern);
                }
            }
        }
    }
    Ok(patterns)
}

/// A folder and what is looked for in it.
struct Start<'a> {
    folder: PathBuf,
    rest: &'a str,
    /// In the folders below, too.
    at_any_depth: bool,
}

fn starts<'a>(written: &'a str, strict: bool, anchors: &Anchors<'_>) -> Vec<Start<'a>> {
    let fixed = |folder: PathBuf, rest: &'a str| vec![Start { folder, rest, at_any_depth: false }];
    if let Some(rest) = written.strip_prefix("//") {
        return fixed(PathBuf::from("/"), rest);
    }
    if let Some(rest) = ["~", "$HOME"].into_iter().find_map(|home| written.strip_prefix(home)).filter(|rest| is_end(rest)) {
        return fixed(anchors.home.to_owned(), rest.trim_start_matches('/'));
    }
    if let Some(rest) = written.strip_prefix('/') {
        return fixed(anchors.top.clone(), rest);
    }
    let (rest, dotted) = match written.strip_prefix("./") {
        Some(rest) => (rest, true),
        None => (written, false),
    };
    let (rest, starred) = match rest.strip_prefix("**/") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let bare = !dotted && !rest.trim_end_matches('/').contains('/');
    let folders = if strict { &anchors.here[..] } else { &anchors.here[..1.min(anchors.here.len())] };
    folders.iter().map(|folder| Start { folder: folder.clone(), rest, at_any_depth: starred || bare }).collect()
}

fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// The rest of a path in all the forms it can have: `a/**/b` is also `a/b`, and a folder is also what is in it.
fn bodies(rest: &str, strict: bool) -> Vec<String> {
    let is_folder = rest.ends_with('/') || rest.is_empty();
    let rest = rest.trim_end_matches('/');
    let rest = if strict { without_classes(rest) } else { rest.to_owned() };
    let parts: Vec<&str> = rest.split("/**/").collect();
    let mut bodies = vec![parts[0].to_owned()];
    for part in &parts[1..] {
        if DOUBLE_STARS_MAX < parts.len() - 1 {
            let between = if strict { "*" } else { "/*/" };
            bodies = bodies.iter().map(|body| format!("{body}{between}{part}")).collect();
        } else {
            bodies = bodies.iter().flat_map(|body| [format!("{body}/{part}"), format!("{body}/*/{part}")]).collect();
        }
    }
    let mut all = Vec::new();
    for body in bodies {
        let body = one_star(&body);
        if is_folder {
            all.push(if body.is_empty() { "*".to_owned() } else { format!("{body}/*") });
            continue;
        }
        // What ends in a star means everything below already; whether another name is a folder only the disk knows.
        let inside = (strict && !body.ends_with('*')).then(|| format!("{body}/*"));
        all.push(body);
        all.extend(inside);
    }
    all
}

/// `[abc]` is one letter to gitignore and a name to many who write it: a deny is for both, an allow for the name.
fn without_classes(rest: &str) -> String {
    let mut text = String::with_capacity(rest.len());
    let mut rest = rest;
    while let Some((open, close)) = rest.find('[').and_then(|open| Some((open, open + rest[open..].find(']')?))) {
        text.push_str(&rest[..open]);
        // Wide enough for the one letter and for the name with its brackets.
        text.push('*');
        rest = &rest[close + 1..];
    }
    text.push_str(rest);
    text
}

fn one_star(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter != '*' || !plain.ends_with('*') {
            plain.push(letter);
        }
    }
    plain
}

fn placed(start: &Start<'_>, body: &str, anchors: &Anchors<'_>) -> Vec<String> {
    // Above a folder that is not known: no name is like that, so it matches nothing.
    if start.folder.as_os_str().is_empty() && body.starts_with("..") {
        return vec![body.to_owned()];
    }
    let whole = tidy(&start.folder.join(body));
    let here = named(&whole, anchors);
    // A leading star crosses folders by itself.
    if !start.at_any_depth || body.starts_with('*') {
        return vec![here];
    }
    vec![here, named(&tidy(&start.folder.join(format!("*/{body}"))), anchors)]
}

/// As rules name a path: relative below the project, absolute elsewhere.
fn named(path: &Path, anchors: &Anchors<'_>) -> String {
    let inside = path.strip_prefix(anchors.project).ok().filter(|_| !anchors.project.as_os_str().is_empty());
    let name = inside.unwrap_or(path).to_string_lossy().into_owned();
    if name.is_empty() { ".".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(here: &[&str]) -> Anchors<'static> {
        Anchors {
            home: Path::new("/home/me"),
            project: Path::new("/p"),
            top: PathBuf::from("/p"),
            here: here.iter().map(PathBuf::from).collect(),
        }
    }

    fn said(written: &str, action: Verdict, anchors: &Anchors<'_>) -> String {
        patterns(written, action, anchors).map(|patterns| patterns.join(" ")).unwrap_or_else(|error| error.words().to_owned())
    }

    #[test]
    fn a_path_of_claudes_becomes_patterns_of_ours() {
        let table = [
            // written, allow, deny
            ("src/**", "src/*", "src/*"),
            ("./src/**", "src/*", "src/*"),
            ("src/", "src/* */src/*", "src/* */src/*"),
            ("src/a/", "src/a/*", "src/a/*"),
            ("./.env", ".env", ".env .env/*"),
            (".env", ".env */.env", ".env */.env .env/* */.env/*"),
            ("*.env", "*.env", "*.env *.env/*"),
            ("secrets", "secrets */secrets", "secrets */secrets secrets/* */secrets/*"),
            ("src/*.rs", "src/*.rs", "src/*.rs src/*.rs/*"),
            ("src/**/*.rs", "src/*.rs src/*/*.rs", "src/*.rs src/*.rs/* src/*/*.rs src/*/*.rs/*"),
            ("**/id_rsa", "id_rsa */id_rsa", "id_rsa */id_rsa id_rsa/* */id_rsa/*"),
            ("**/.ssh/**", ".ssh/* */.ssh/*", ".ssh/* */.ssh/*"),
            ("a/**/b/**/c", "a/b/c a/b/*/c a/*/b/c a/*/b/*/c", ""),
            ("a/**/b/**/c/**/d/**/e", "a/*/b/*/c/*/d/*/e", "a*b*c*d*e a*b*c*d*e/*"),
            ("**", "*", "*"),
            ("*", "*", "*"),
            ("//etc/hosts", "/etc/hosts", "/etc/hosts /etc/hosts/*"),
            ("//p/src/**", "src/*", "src/*"),
            ("~/notes/**", "/home/me/notes/*", "/home/me/notes/*"),
            ("~", "/home/me/*", "/home/me/*"),
            ("~x", "~x */~x", "~x */~x ~x/* */~x/*"),
            ("/docs/**", "docs/*", "docs/*"),
            ("../other/**", "/other/*", "/other/*"),
            ("a/../b", "b", "b b/*"),
            ("app/[id]/**", "app/[id]/*", "app/*/*"),
            ("key[0-9]", "key[0-9] */key[0-9]", "key* */key*"),
        ];
        for (written, allow, deny) in table {
            assert_eq!(said(written, Verdict::Allow, &anchors(&["/p"])), allow, "allow {written}");
            if !deny.is_empty() {
                assert_eq!(said(written, Verdict::Deny, &anchors(&["/p"])), deny, "deny {written}");
            }
        }
    }

    #[test]
    fn a_deny_counts_from_every_folder_that_may_be_meant_and_an_allow_from_one() {
        let both = anchors(&["/p/sub", "/p"]);
        assert_eq!(said("./src/**", Verdict::Allow, &both), "sub/src/*");
        assert_eq!(said("./src/**", Verdict::Deny, &both), "sub/src/* src/*");
        assert_eq!(said("*.env", Verdict::Ask, &both), "sub/*.env sub/*.env/* *.env *.env/*");
        let project = Anchors::of_project(Roots { home: Path::new("/home/me"), project: Path::new("") });
        assert_eq!(said("a/b", Verdict::Allow, &project), "a/b");
        assert_eq!(said("../a", Verdict::Allow, &project), "../a");
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for action in [Verdict::Allow, Verdict::Deny] {
            assert_eq!(patterns("!src/**", action, &anchors(&["/p"])), Err(PathPatternError::Negated));
            assert_eq!(patterns("a\\*b", action, &anchors(&["/p"])), Err(PathPatternError::Escaped));
        }
    }
}
