//! Protected files: writing one asks whatever the rules say, also under bypass and also when it does not exist yet.
//!
//! They would raise the agent's own rights, or run code when the user next starts an editor, a shell, git or a build.
//! Pure: a path inside the project in, yes or no out, in any folder and compared without regard to case. Links and `..`
//! are the business of whoever made the path.

use posse_session::wildcard;

/// File names, in any folder.
const NAMES: &[&str] = &[
    // Our own settings and the neighbours', which we read: rules, hooks, servers, providers.
    "posse.json",
    "posse.jsonc",
    "opencode.json",
    "opencode.jsonc",
    ".mcp.json",
    // Instructions that every next session reads as the user's own words (the shared corpus asks for these).
    "agents.md",
    "claude.md",
    "claude.local.md",
    // Shells read these when they start or end; the home folder may be the project.
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
    ".logout",
    ".inputrc",
    // direnv runs it on entering the folder.
    ".envrc",
    // Git's settings name programs that git runs.
    ".gitconfig",
    // Definitions of work that a server runs with its own rights, outside the folders below.
    ".gitlab-ci.yml",
    ".travis.yml",
    "jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".drone.yml",
    ".woodpecker.yml",
    "appveyor.yml",
];

/// Stretches of a path, whole components; a trailing `/` means everything below, and the folder itself.
const STRETCHES: &[&str] = &[
    // Our own settings, agents, hooks and data, and the neighbours'.
    ".posse/",
    ".config/posse/",
    ".local/share/posse/",
    ".local/state/posse/",
    ".opencode/",
    ".config/opencode/",
    ".claude/agents/",
    ".claude/commands/",
    ".claude/skills/",
    ".claude/hooks/",
    ".claude/plugins/",
    ".agents/skills/",
    ".claude-plugin/",
    // Git runs hooks, and what its settings and attributes name; the other files say which repository this is.
    ".git/hooks/",
    ".git/config",
    ".git/config.worktree",
    ".git/info/attributes",
    ".git/modules/",
    ".git/worktrees/",
    ".git/commondir",
    ".git/gitdir",
    ".config/git/",
    ".husky/",
    // Editors run tasks and load what their settings name when the folder is opened.
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".vscode/extensions.json",
    ".vscode/mcp.json",
    ".idea/",
    ".cursor/mcp.json",
    ".cursor/hooks.json",
    ".devcontainer/",
    // Continuous integration.
    ".github/workflows/",
    ".github/actions/",
    ".circleci/",
    ".gitlab/ci/",
    ".woodpecker/",
    ".forgejo/workflows/",
    ".gitea/workflows/",
    // Shells and logins that keep their settings in folders, where the home folder is the project.
    ".config/fish/",
    ".config/autostart/",
    ".config/systemd/",
    ".ssh/",
];

/// Folders that hold protected files: to replace the folder is to replace them. As a file, `.git` points elsewhere.
const HOLDERS: &[&str] = &[".git", ".claude", ".vscode", ".github"];

/// Whether writing this path asks. `inside` is relative to the project's root, with `/` between components.
pub(crate) fn is_protected(inside: &str) -> bool {
    let folded = folded(inside);
    let components: Vec<&str> =
        folded.split('/').filter(|part| !part.is_empty() && *part != ".").map(|part| part.trim_end_matches(['.', ' '])).collect();
    let Some(name) = components.last() else { return false };
    if NAMES.contains(name) || HOLDERS.contains(name) {
        return true;
    }
    if name.starts_with("settings") && name.ends_with(".json") && components.contains(&".claude") {
        return true;
    }
    let path = format!("/{}/", components.join("/"));
    STRETCHES.iter().any(|stretch| path.contains(&format!("/{}/", stretch.trim_end_matches('/'))))
}

/// Whether a path with wildcards could be one that `is_protected` names. A star at the start of a name matches no dot;
/// and a pattern that is mostly wildcard is no way to write `AGENTS.md`.
pub(crate) fn could_be_protected(pattern: &str) -> bool {
    let folded = folded(pattern);
    let parts: Vec<&str> = folded.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let Some(last) = parts.last() else { return false };
    let matches = |part: &str, name: &str| wildcard(name, part) && (!name.starts_with('.') || part.starts_with('.'));
    let named = |name: &&&str| {
        let letters = last.chars().filter(|letter| !matches!(letter, '*' | '?')).count();
        matches(last, name) && (name.starts_with('.') || name.chars().count() < 2 * letters)
    };
    NAMES.iter().chain(HOLDERS).any(|name| named(&name))
        || STRETCHES.iter().chain(&[".claude/settings.json"]).any(|stretch| {
            let wanted: Vec<&str> = stretch.trim_end_matches('/').split('/').collect();
            parts.windows(wanted.len()).any(|window| window.iter().zip(&wanted).all(|(part, name)| matches(part, name)))
        })
}

/// As the most forgiving file system would compare it: without case, without letters that are not seen, wide letters as
/// narrow ones. Dots and blanks at the end of a name are dropped by some too.
fn folded(inside: &str) -> String {
    let seen = |letter: &char| !matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let narrow = |letter: char| match u32::from(letter) {
        wide @ 0xff01..=0xff5e => char::from_u32(wide - 0xfee0).unwrap_or(letter),
        _ => letter,
    };
    // Up and then down: some letters have no small form but share the large one, as `ſ` does with `s`.
    inside.chars().filter(seen).map(narrow).flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::is_protected;

    #[test]
    fn what_raises_rights_is_protected_in_any_case_and_any_folder() {
        let yes = [
            "posse.json",
            "posse.jsonc",
            "sub/Posse.JSON",
            ".posse",
            ".posse/agents/a.md",
            "opencode.json",
            "opencode.jsonc",
            ".opencode/plugin/evil.ts",
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".claude/agents/a.md",
            ".claude/commands/a.md",
            ".claude/skills/a/SKILL.md",
            ".claude/hooks/a.sh",
            ".claude",
            ".mcp.json",
            ".git",
            ".git/hooks/pre-commit",
            ".GIT/Hooks/pre-commit",
            ".git/config",
            "vendor/x/.git/config",
            "./.git//config",
            ".bashrc",
            ".zshrc",
            ".profile",
            ".config/fish/config.fish",
            ".vscode/tasks.json",
            ".idea/workspace.xml",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            "Jenkinsfile",
            ".local/share/posse/x.db",
            "AGENTS.md",
            "CLAUDE.md",
            ".git\u{200c}/config",
            ".ｇｉｔ/config",
            "opencode.j\u{17f}on",
            ".git./config",
            "posse.json ",
        ];
        let no = [
            "",
            ".",
            "src/main.rs",
            "README.md",
            "GEMINI.md",
            ".gitignore",
            ".gitmodules",
            ".npmrc",
            ".env",
            ".claude/notes.md",
            ".github/CODEOWNERS",
            ".vscode/snippets.code-snippets",
            "config",
            "hooks/pre-commit",
            "git/config",
            "posse.json.md",
            "my.posse/x",
        ];
        let wrong: Vec<&str> =
            yes.into_iter().filter(|path| !is_protected(path)).chain(no.into_iter().filter(|path| is_protected(path))).collect();
        assert_eq!(wrong, [""; 0]);
    }
}
