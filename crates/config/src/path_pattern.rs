//! Paths in rules of ours, in the one spelling in which calls name them: relative below the project, absolute elsewhere.
//!
//! A deny of `./a.txt` that matched nothing would protect nothing and say nothing. Only the letters count, the disk is not
//! asked; wildcards stay what they are. Claude's paths mean more and are `claude_path.rs`.

use std::path::Path;

use posse_session::Verdict;

/// Where the paths of rules start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Roots<'a> {
    /// What `~` and `$HOME` are.
    pub(crate) home: &'a Path,
    /// What names are relative to.
    pub(crate) project: &'a Path,
}

/// Whether the patterns of this key are paths.
fn is_of_paths(key: &str) -> bool {
    matches!(key, "read" | "edit" | "list" | OUTSIDE)
}

/// Calls name folders here, with everything in them, and only such outside of the project.
const OUTSIDE: &str = "external_directory";

/// What a written pattern means. A folder is everything below it, and to whoever forbids it the folder itself.
pub(crate) fn patterns(key: &str, written: &str, action: Verdict, roots: Roots<'_>) -> Vec<String> {
    if !is_of_paths(key) || key == OUTSIDE && written.starts_with(['*', '?']) {
        return vec![written.to_owned()];
    }
    let whole = at_home(&written.replace('\\', "/"), roots.home);
    let Some(path) = absolute(&whole, roots.project) else { return vec![written.to_owned()] };
    let ends_as_folder = whole.ends_with('/') || whole.ends_with("/.") || matches!(written, "~" | "$HOME");
    let is_folder = ends_as_folder || key == OUTSIDE && !path.ends_with(['*', '?']);
    let strict = action != Verdict::Allow;
    let forms = |name: String| {
        if !is_folder {
            return vec![name];
        }
        let below = format!("{}/*", name.trim_end_matches('/'));
        let itself = (strict && key != OUTSIDE).then_some(name);
        std::iter::once(below).chain(itself).collect()
    };
    match relative(&path, roots.project).filter(|_| key != OUTSIDE) {
        None => forms(path),
        // The project itself.
        Some(name) if name.is_empty() => vec!["*".to_owned()],
        // `**/` is any folders, none too; here a star is any text, and the slash would want one.
        Some(name) if strict && name.starts_with("**/") => {
            forms(name.trim_start_matches("**/").to_owned()).into_iter().chain(forms(name)).collect()
        }
        // To a task in a worktree of its own the same file is one outside.
        Some(name) if strict && whole.starts_with('/') => forms(name).into_iter().chain(forms(path)).collect(),
        Some(name) => forms(name),
    }
}

/// Why no call can ever match a pattern, as [`patterns`] made it.
pub(crate) fn never_matches(key: &str, pattern: &str) -> Option<&'static str> {
    if !is_of_paths(key) {
        return None;
    }
    let has_choice = pattern.split('{').skip(1).any(|rest| rest.split('}').next().is_some_and(|inside| inside.contains(',')));
    if pattern.split('/').any(|part| part == "..") {
        Some("`..` after a wildcard, or above the top: no path is named like that, so this rule can never match")
    } else if has_choice && pattern.contains('}') {
        Some("`{a,b}` is no choice here, so this rule can hardly match; write a rule for each")
    } else {
        None
    }
}

fn at_home(pattern: &str, home: &Path) -> String {
    let rest = ["~", "$HOME"].into_iter().find_map(|prefix| pattern.strip_prefix(prefix));
    match rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => format!("{}{rest}", home.to_string_lossy().trim_end_matches('/')),
        None => pattern.to_owned(),
    }
}

/// Without `.`, `..` and slashes that say nothing. Nothing where `..` leads nowhere.
fn absolute(pattern: &str, project: &Path) -> Option<String> {
    let project = project.to_string_lossy();
    let mut path: Vec<&str> = if pattern.starts_with('/') { Vec::new() } else { parts(&project).collect() };
    for part in parts(pattern) {
        match part {
            ".." => {
                path.pop().filter(|folder| !folder.contains(['*', '?']))?;
            }
            part => path.push(part),
        }
    }
    let is_absolute = pattern.starts_with('/') || !project.is_empty();
    Some(format!("{}{}", if is_absolute { "/" } else { "" }, path.join("/")))
}

/// The name of what is in the project.
fn relative(path: &str, project: &Path) -> Option<String> {
    let project = project.to_string_lossy();
    let rest = path.strip_prefix(project.trim_end_matches('/')).filter(|_| !project.is_empty())?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> Roots<'static> {
        Roots { home: Path::new("/home/me"), project: Path::new("/home/me/p") }
    }

    fn said(key: &str, written: &str, action: Verdict) -> String {
        patterns(key, written, action, roots()).join(" ")
    }

    #[test]
    fn every_spelling_of_a_path_is_the_one_that_calls_name() {
        let table = [
            // written, allow, deny
            ("a.txt", "a.txt", "a.txt"),
            ("./a.txt", "a.txt", "a.txt"),
            (".\\src\\a.txt", "src/a.txt", "src/a.txt"),
            ("/home/me/p/a.txt", "a.txt", "a.txt /home/me/p/a.txt"),
            ("~/p/a.txt", "a.txt", "a.txt /home/me/p/a.txt"),
            ("$HOME/p/src/*.rs", "src/*.rs", "src/*.rs /home/me/p/src/*.rs"),
            ("src/", "src/*", "src/* src"),
            ("./src//x/./", "src/x/*", "src/x/* src/x"),
            ("/home/me/p/src/", "src/*", "src/* src /home/me/p/src/* /home/me/p/src"),
            ("src/**", "src/**", "src/**"),
            ("**/.env", "**/.env", ".env **/.env"),
            ("**/keys/", "**/keys/*", "keys/* keys **/keys/* **/keys"),
            ("a/../b", "b", "b"),
            ("../q/x", "/home/me/q/x", "/home/me/q/x"),
            ("../p/x", "x", "x"),
            ("/home/me/pp/x", "/home/me/pp/x", "/home/me/pp/x"),
            ("/etc/hosts", "/etc/hosts", "/etc/hosts"),
            ("/etc/", "/etc/*", "/etc/* /etc"),
            ("~/notes/*", "/home/me/notes/*", "/home/me/notes/*"),
            ("~x", "~x", "~x"),
            ("/", "/*", "/* /"),
            (".", "*", "*"),
            ("./", "*", "*"),
            ("/home/me/p", "*", "*"),
            ("*", "*", "*"),
            ("*/", "*/*", "*/* *"),
            ("./*.env", "*.env", "*.env"),
            ("*/../x", "*/../x", "*/../x"),
        ];
        for (written, allow, deny) in table {
            assert_eq!(said("edit", written, Verdict::Allow), allow, "allow {written}");
            assert_eq!(said("read", written, Verdict::Deny), deny, "deny {written}");
        }
        assert_eq!(said("bash", "./run.sh", Verdict::Deny), "./run.sh", "a command is no path");
        let nowhere = Roots { project: Path::new(""), ..roots() };
        assert_eq!(patterns("read", "./a/../../b", Verdict::Deny, nowhere), ["./a/../../b"]);
        assert_eq!(patterns("read", "./a", Verdict::Deny, nowhere), ["a"]);
    }

    #[test]
    fn a_place_outside_is_a_folder_with_everything_in_it() {
        for written in ["/srv/data", "/srv/data/", "/srv/data/*"] {
            assert_eq!(said("external_directory", written, Verdict::Deny), "/srv/data/*", "{written}");
        }
        assert_eq!(said("external_directory", "*", Verdict::Allow), "*");
        assert_eq!(said("external_directory", "*/keys/*", Verdict::Deny), "*/keys/*");
        assert_eq!(said("external_directory", "/home/me/p/", Verdict::Deny), "/home/me/p/*", "outside of a worktree");
        assert_eq!(said("external_directory", "../q", Verdict::Allow), "/home/me/q/*");
    }

    #[test]
    fn what_can_never_match_is_known() {
        for (key, pattern, never) in [
            ("edit", "*/../x", true),
            ("edit", "a..b/x", false),
            ("edit", "*.{txt,rs}", true),
            ("edit", "{{cookiecutter.name}}/x", false),
            ("external_directory", "/srv/*", false),
            ("external_directory", "*/../x", true),
            ("bash", "cat ../x", false),
        ] {
            assert_eq!(never_matches(key, pattern).is_some(), never, "{key} {pattern}");
        }
    }
}
