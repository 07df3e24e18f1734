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
            Piece::Unknown { source, .. } if is_changed_folder(source) => return vec![Place::Outside(PathBuf::from("/"))],
            Piece::Unknown { source, .. } => {
                let values = element_of(source).map(|name| scope.values(name, surroundings)).unwrap_or_default();
                values.into_iter().map(Some).collect()
            }
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
    let places = guesses.into_iter().flat_map(|guess| match guess {
        Some(guess) => of_text(&guess, scope, surroundings),
        None => vec![Place::Unknown],
    });
    places.map(Place::shown).collect()
}

impl Place {
    /// With a sign that people and rules can read where something is not known.
    fn shown(self) -> Self {
        match self {
            Self::Inside(path) => Self::Inside(path.replace('\u{1}', "?")),
            Self::Outside(path) if path.to_string_lossy().contains('\u{1}') => {
                Self::Outside(PathBuf::from(path.to_string_lossy().replace('\u{1}', "?")))
            }
            other => other,
        }
    }
}

/// `${HOME%/}`, `${PWD:0}`: a folder's path that was changed leads anywhere. `${PWD##*/}` is only its name.
pub(super) fn is_changed_folder(source: &str) -> bool {
    let Some(inner) = source.strip_prefix("${").filter(|inner| !inner.ends_with("##*/}")) else { return false };
    ["HOME", "PWD", "OLDPWD", "TMPDIR"]
        .iter()
        .filter_map(|name| inner.strip_prefix(name))
        .any(|rest| !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_'))
}

/// The array whose elements a word takes: `${name[0]}`, `${name[@]}`.
pub(super) fn element_of(source: &str) -> Option<&str> {
    let (name, index) = source.strip_prefix("${")?.strip_suffix("]}")?.split_once('[')?;
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !index.contains(['[', ']'])).then_some(name)
}

/// All values a variable may get from this word; nothing if one of them is not known.
pub(super) fn assigned(word: &Word, scope: &Scope, surroundings: &Surroundings) -> Option<Vec<String>> {
    let known = |piece: &Piece| match piece {
        Piece::Variable { name, .. } => !scope.values(name, surroundings).is_empty(),
        _ => true,
    };
    let values = filled(word, scope, surroundings);
    let complete = !values.is_empty() && values.len() < GUESSES_MAX && word.pieces.iter().all(known) && !word.has_glob();
    if complete { Some(values) } else { word.literal().map(|value| vec![value]) }
}

/// The texts a word may be by the values this line gave its variables; empty when it takes none, or one is not known.
pub(super) fn filled(word: &Word, scope: &Scope, surroundings: &Surroundings) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut given = false;
    for piece in &word.pieces {
        let values = match piece {
            Piece::Text { text, .. } => vec![text.clone()],
            Piece::Variable { source, .. } if source == "~" => vec![source.clone()],
            Piece::Variable { name, default, .. } => {
                given = true;
                scope.values(name, surroundings).into_iter().chain(default.clone()).collect()
            }
            Piece::Unknown { source, .. } => {
                given = true;
                element_of(source).map(|name| scope.values(name, surroundings)).unwrap_or_default()
            }
            Piece::Elsewhere { .. } => Vec::new(),
        };
        let longer = texts.iter().flat_map(|text| values.iter().map(move |value| format!("{text}{value}")));
        texts = longer.filter(|text| text.len() <= PATH_BYTES_MAX).take(GUESSES_MAX).collect();
    }
    if given { texts } else { Vec::new() }
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
pub(crate) fn without_classes(pattern: &str) -> String {
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
