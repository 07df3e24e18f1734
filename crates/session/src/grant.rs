//! Grants: what a person's "yes" covers beyond the one call it was given for.
//!
//! A grant lifts an ask and never a deny. How wide it is depends on what asked: a command by its first words, a file by
//! its name or, where every file asks, by its key; what a rule would have allowed but for its dangers, only word for word.

use serde::{Deserialize, Serialize};

use crate::{
    ids::AskId,
    outcome::Scope,
    rule::{Touch, host_of, matches_pattern},
};

/// Grants are kept in events and in the state; a longer one is not offered.
const GRANT_BYTES_MAX: usize = 256;

/// Something a call would touch that no rule allows: it needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedFor {
    pub touch: Touch,
    /// Only a "yes" to these very words covers it.
    pub exact: bool,
    /// The rule that asks, where it stands, and what else is to be said: as in a decision.
    pub rule: Option<String>,
    pub origin: String,
    pub why: String,
}

impl AskedFor {
    pub fn new(touch: Touch, exact: bool) -> Self {
        Self { touch, exact, rule: None, origin: String::new(), why: String::new() }
    }

    /// What "yes, for longer" would allow; nothing when it cannot be remembered as it is.
    pub(crate) fn offer(&self) -> Option<Grant> {
        let Touch { key, pattern } = &self.touch;
        let widened = if self.exact { None } else { widened(key, pattern) };
        let exact = widened.is_none();
        let pattern = widened.unwrap_or_else(|| pattern.clone());
        let fits = pattern.len() <= GRANT_BYTES_MAX && !pattern.contains(char::is_control);
        fits.then(|| Grant { key: key.clone(), pattern, exact })
    }
}

/// What a person allowed, or would allow by a wider "yes".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub key: String,
    pub pattern: String,
    /// The pattern is a name, and a star in it is a star.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
}

impl Grant {
    pub fn covers(&self, asked: &AskedFor) -> bool {
        let Touch { key, pattern } = &asked.touch;
        self.key == *key
            && match (self.exact, asked.exact) {
                (true, _) => self.pattern == *pattern,
                (false, true) => false,
                (false, false) => matches_pattern(&asked.touch, &self.pattern),
            }
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}({})", self.key, self.pattern)
    }
}

/// A grant in force, and the answer it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub grant: Grant,
    pub ask: AskId,
    pub scope: Scope,
}

/// The pattern that covers the like of this; `None` when only itself is like it.
fn widened(key: &str, pattern: &str) -> Option<String> {
    match key {
        "bash" => prefix(pattern),
        "webfetch" => host_of(pattern).map(|host| format!("domain:{host}")),
        "read" | "edit" | "glob" | "grep" | "list" | "todowrite" | "todoread" => Some("*".to_owned()),
        _ => None,
    }
}

/// The words of a command that say what it does: `git push origin main` is a `git push`, `npm run dev -- -p 1` an `npm run dev`.
fn prefix(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split(' ').collect();
    let plain = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+@:".contains(&byte));
    let count = words_that_name(&words);
    let named: Vec<&str> = words.iter().take(count).copied().take_while(plain).collect();
    // An option where a sub-command should stand says nothing about what is run.
    let whole = named.len() == count && named.iter().skip(1).all(|word| !word.starts_with('-'));
    whole.then(|| format!("{} *", named.join(" ")))
}

fn words_that_name(words: &[&str]) -> usize {
    let first = words.first().copied().unwrap_or_default();
    let both = format!("{first} {}", words.get(1).copied().unwrap_or_default());
    let known = |table: &[&str], name: &str| table.contains(&name);
    if known(THREE_WORDS, &both) || known(ALWAYS_THREE_WORDS, first) {
        3
    } else if known(TWO_WORDS, first) {
        2
    } else {
        1
    }
}

/// Programs whose second word is what they do.
const TWO_WORDS: &[&str] = &[
    "ansible",
    "apt",
    "apt-get",
    "bazel",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "cmake",
    "composer",
    "conda",
    "deno",
    "docker",
    "dotnet",
    "flutter",
    "gem",
    "git",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "make",
    "mise",
    "mix",
    "mvn",
    "ninja",
    "nix",
    "npm",
    "npx",
    "nx",
    "pip",
    "pip3",
    "pipenv",
    "pnpm",
    "podman",
    "poetry",
    "python",
    "python3",
    "rails",
    "rake",
    "rustup",
    "sbt",
    "swift",
    "systemctl",
    "task",
    "terraform",
    "turbo",
    "uv",
    "vagrant",
    "yarn",
];

/// Programs that take a noun and a verb.
const ALWAYS_THREE_WORDS: &[&str] = &["aws", "az", "doctl", "gcloud", "gh", "glab"];

/// Sub-commands that have sub-commands.
const THREE_WORDS: &[&str] = &[
    "bun run",
    "cargo add",
    "cargo run",
    "deno task",
    "docker builder",
    "docker compose",
    "docker container",
    "docker image",
    "docker network",
    "docker volume",
    "git config",
    "git remote",
    "git stash",
    "git submodule",
    "git worktree",
    "kubectl rollout",
    "npm exec",
    "npm init",
    "npm run",
    "npm view",
    "pnpm dlx",
    "pnpm exec",
    "pnpm run",
    "poetry run",
    "python -m",
    "python3 -m",
    "terraform state",
    "uv pip",
    "uv run",
    "yarn run",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(key: &str, pattern: &str, exact: bool) -> AskedFor {
        AskedFor::new(Touch::new(key, pattern), exact)
    }

    /// Vectors 57 and 60 of opencode.md 3.7, with our words.
    #[test]
    fn a_wider_yes_covers_the_like_and_no_more() {
        let table: &[(&str, &str, bool, &str, bool)] = &[
            ("bash", "ls -la", false, "ls *", false),
            ("bash", "git checkout main", false, "git checkout *", false),
            ("bash", "npm run dev x", false, "npm run dev *", false),
            ("bash", "docker compose up s", false, "docker compose up *", false),
            ("bash", "unknown a", false, "unknown *", false),
            ("bash", "git -C /x push", false, "git -C /x push", true),
            ("bash", "git", false, "git", true),
            ("bash", "aws s3 ls", false, "aws s3 ls *", false),
            ("bash", "find . -delete", true, "find . -delete", true),
            ("bash", "./it's here", false, "./it's here", true),
            ("edit", "src/a.rs", false, "*", false),
            ("edit", "src/*.rs", true, "src/*.rs", true),
            ("protected", ".posse/x", true, ".posse/x", true),
            // This folder and none below it: a yes to one file at home is no yes to all that is there.
            ("external_directory", "/home/me/*", false, "/home/me/*", true),
            ("webfetch", "https://a.example/b?c", false, "domain:a.example", false),
            ("doom_loop", "bash", false, "bash", true),
            ("server_tool", "*", false, "*", true),
        ];
        for (key, pattern, exact, offered, is_exact) in table {
            let offer = asked(key, pattern, *exact).offer().expect("short enough");
            assert_eq!((offer.pattern.as_str(), offer.exact), (*offered, *is_exact), "{key} {pattern}");
            assert!(offer.covers(&asked(key, pattern, *exact)), "{key} {pattern}: the offer covers what asked");
        }
        let long = asked("bash", &"x".repeat(600), true);
        assert_eq!(long.offer(), None);
        assert_eq!(asked("bash", "echo a\nb", true).offer(), None);
    }

    #[test]
    fn a_pattern_never_covers_what_must_be_said_word_for_word() {
        let wide = Grant { key: "bash".into(), pattern: "find *".into(), exact: false };
        assert!(wide.covers(&asked("bash", "find . -name x", false)));
        assert!(!wide.covers(&asked("bash", "find . -delete", true)));
        assert!(!wide.covers(&asked("edit", "find x", false)));
        let star = Grant { key: "edit".into(), pattern: "a*".into(), exact: true };
        assert!(star.covers(&asked("edit", "a*", true)));
        assert!(!star.covers(&asked("edit", "abc", false)));
    }
}
