//! Paths as words: whether one leads out of the project, and whether writing it needs a consent of its own.
//!
//! Lexical: links are the business of whoever opens the file. A path that cannot be known is neither inside nor outside.

use std::path::{Component, Path, PathBuf};

use super::{
    Surroundings,
    walk::Scope,
    word::{Piece, Word},
};

/// Values of variables tried in one word.
const GUESSES_MAX: usize = 16;

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
            Piece::Variable { name, .. } => scope.values(name, surroundings).into_iter().map(Some).collect(),
            Piece::Elsewhere { .. } => return vec![Place::Outside(PathBuf::from("/"))],
            Piece::Unknown { .. } => vec![],
        };
        let values = if values.is_empty() { vec![None] } else { values };
        guesses = guesses
            .iter()
            .flat_map(|guess| {
                values.iter().map(move |value| match (guess, value) {
                    (Some(guess), Some(value)) => Some(format!("{guess}{value}")),
                    // What is known before and after still counts: `/etc/$X`, `$X/../..`.
                    (Some(guess), None) if !guess.is_empty() => Some(format!("{guess}\u{1}")),
                    (None, Some(value)) => value.contains("..").then(|| format!("\u{1}{value}")),
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

/// Files that would raise the agent's own rights, or speak for the user at the next start; by name in any folder.
const PROTECTED_NAMES: &[&str] = &[
    "posse.json",
    "posse.jsonc",
    "opencode.json",
    "opencode.jsonc",
    ".mcp.json",
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".envrc",
    ".gitconfig",
    ".gitmodules",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".gitlab-ci.yml",
    ".travis.yml",
    ".pre-commit-config.yaml",
    "jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".drone.yml",
];

/// Stretches of a path, whole components; a trailing `/` means everything below.
const PROTECTED_STRETCHES: &[&str] = &[
    ".posse/",
    ".opencode/",
    ".git/hooks/",
    ".git/config",
    ".git/config.worktree",
    ".git/info/attributes",
    ".git/modules/",
    ".git/worktrees/",
    ".git/commondir",
    ".git/gitdir",
    ".claude/agents/",
    ".claude/commands/",
    ".claude/skills/",
    ".claude/hooks/",
    ".claude/plugins/",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".vscode/extensions.json",
    ".vscode/mcp.json",
    ".cursor/",
    ".gemini/",
    ".codex/",
    ".idea/",
    ".github/workflows/",
    ".github/actions/",
    ".circleci/",
    ".gitlab/ci/",
    ".husky/",
    ".config/fish/",
    ".config/posse/",
    ".local/share/posse/",
    ".ssh/",
    ".cargo/config",
    ".cargo/config.toml",
    ".devcontainer/",
];

/// Whether writing this path inside the project asks whatever the rules say; also when the file does not exist.
pub(super) fn is_protected(inside: &str) -> bool {
    let folded = inside.to_lowercase();
    let name = folded.rsplit('/').next().unwrap_or_default();
    if PROTECTED_NAMES.contains(&name) {
        return true;
    }
    let path = format!("/{folded}/");
    let stretch = |stretch: &&str| path.contains(&format!("/{}/", stretch.trim_end_matches('/')));
    // The folder that holds them: replacing it replaces them. `.git` as a file points elsewhere.
    let holder = matches!(name, ".git" | ".claude" | ".vscode" | ".github");
    let settings = path.contains("/.claude/") && name.starts_with("settings") && name.ends_with(".json");
    holder || settings || PROTECTED_STRETCHES.iter().any(stretch)
}
