//! Paths as words: which places a word may name, and whether they lead out of the project.
//!
//! Lexical: links are the business of whoever opens the file. A path that cannot be known is neither inside nor outside.

use std::path::{Component, Path, PathBuf};

use posse_session::wildcard;

use super::{
    Surroundings,
    walk::Scope,
    word::{Piece, Word},
};

/// Values of variables tried in one word.
const GUESSES_MAX: usize = 16;

/// The kernel opens no longer one.
const PATH_BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Inside(String),
    Outside(PathBuf),
    /// Devices that keep nothing.
    Nowhere,
    Unknown,
}

/// The paths a word may be, one per known value of its variables. Words that are no paths are names inside the project.
pub(super) fn places(word: &Word, scope: &Scope, surroundings: &Surroundings) -> Vec<Place> {
    let mut guesses: Vec<Option<String>> = vec![Some(String::new())];
    for piece in &word.pieces {
        let values: Vec<Option<String>> = match piece {
            Piece::Text { text, .. } => vec![Some(text.clone())],
            Piece::Variable { name, default, .. } => {
                scope.values(name, surroundings).into_iter().chain(default.clone()).map(Some).collect()
            }
            Piece::Elsewhere { .. } => return vec![Place::Outside(PathBuf::from("/"))],
            Piece::Unknown { .. } => vec![],
        };
        let values = if values.is_empty() { vec![None] } else { values };
        guesses = guesses
            .iter()
            .flat_map(|guess| {
                values.iter().map(move |value| match (guess, value) {
                    (Some(guess), Some(value)) if PATH_BYTES_MAX < guess.len() + value.len() => None,
                    (Some(guess), Some(value)) => Some(format!("{guess}{value}")),
                    // What is known before and after still counts: `/etc/$X`, `$X/../..`.
                    (Some(guess), None) if !guess.is_empty() => Some(format!("{guess}\u{1}")),
                    (None, Some(value)) => value.split('/').any(|part| part == "..").then(|| format!("\u{1}{value}")),
                    (Some(guess), None) if guess.is_empty() => None,
                    _ => None,
                })
            })
            .take(GUESSES_MAX)
            .collect();
    }
    guesses.into_iter().flat_map(|guess| guess.map_or_else(|| vec![Place::Unknown], |guess| of_text(&guess, scope, surroundings))).collect()
}

pub(super) fn of_text(text: &str, scope: &Scope, surroundings: &Surroundings) -> Vec<Place> {
    if text.starts_with('\u{1}') {
        // Unknown start, known steps upwards.
        return vec![Place::Outside(PathBuf::from(text.replace('\u{1}', "$")))];
    }
    let text = text.strip_prefix("file://").unwrap_or(text);
    if is_nowhere(text) {
        return vec![Place::Nowhere];
    }
    let tilde = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(rest) = tilde {
        return vec![place(&surroundings.home.join(rest.trim_start_matches('/')), surroundings)];
    }
    if text.starts_with('/') {
        return vec![place(Path::new(text), surroundings)];
    }
    if scope.cwds.is_empty() {
        let up = Path::new(text).components().any(|component| component == Component::ParentDir);
        return vec![if up { Place::Outside(PathBuf::from(text)) } else { Place::Unknown }];
    }
    scope.cwds.iter().map(|cwd| place(&cwd.join(text), surroundings)).collect()
}

fn place(path: &Path, surroundings: &Surroundings) -> Place {
    let path = tidy(path);
    match path.strip_prefix(tidy(&surroundings.root)) {
        Ok(inside) => Place::Inside(inside.to_string_lossy().into_owned()),
        Err(_) => Place::Outside(path),
    }
}

pub(super) fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                tidy.pop();
            }
            Component::CurDir => {}
            other => tidy.push(other),
        }
    }
    tidy
}

fn is_nowhere(text: &str) -> bool {
    matches!(
        text,
        "/dev/null"
            | "/dev/stdin"
            | "/dev/stdout"
            | "/dev/stderr"
            | "/dev/zero"
            | "/dev/full"
            | "/dev/random"
            | "/dev/urandom"
            | "/dev/tty"
    ) || text.strip_prefix("/dev/fd/").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The path as rules for `read` should see it, if it names a file that holds secrets: `.env`, `.env.local`, `prod.env`.
pub(super) fn environment_file(path: &str, glob: bool) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let holds = |name: &str| name == ".env" || name.starts_with(".env.") || (name.ends_with(".env") && !name.contains([' ', '\n', '@']));
    if holds(name) {
        return Some(path.to_owned());
    }
    let folded = name.to_ascii_lowercase();
    if holds(&folded) {
        return Some(path[..path.len() - name.len()].to_owned() + &folded);
    }
    // `.e*`, `.en[v]`: a star at the start matches no dot.
    let could = glob && name.starts_with('.') && wildcard(".env", &without_classes(&folded));
    could.then(|| if folder.is_empty() { ".env".to_owned() } else { format!("{folder}/.env") })
}

/// With every `[...]` as one unknown letter.
fn without_classes(pattern: &str) -> String {
    let mut plain = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        match after.split_once(']') {
            Some((_, after)) => {
                plain.push('?');
                rest = after;
            }
            None => {
                plain.push('[');
                rest = after;
            }
        }
    }
    plain + rest
}
