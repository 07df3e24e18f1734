//! Git's grammar: global options before the subcommand, and the options and subcommands that execute, write or redirect.

use super::word::Word;

/// Global options whose value may be the next word.
const GLOBAL_VALUES: &[&str] = &[
    "-c",
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--config-env",
    "--super-prefix",
    "--attr-source",
    "--list-cmds",
];

/// Global options that run or read something else.
const GLOBAL_HAZARDS: &[&str] =
    &["--git-dir", "--work-tree", "--exec-path", "--config-env", "--paginate", "--namespace", "--super-prefix", "--attr-source", "--bare"];

/// Long options of any subcommand that execute, write or open an editor.
const LONG: &[&str] = &[
    "output",
    "ext-diff",
    "textconv",
    "upload-pack",
    "receive-pack",
    "exec",
    "open-files-in-pager",
    "edit",
    "edit-description",
    "edit-todo",
    "interactive",
    "config",
    "template",
    "reedit-message",
    "show-signature",
    "extcmd",
    "smtp-server",
    "sendmail-cmd",
    "to-cmd",
    "cc-cmd",
    "header-cmd",
    "web",
    "unsafe-paths",
    "filters",
    "separate-git-dir",
];

/// Subcommands that execute by themselves what words, files or settings say.
const SUBCOMMANDS: &[&str] = &[
    "difftool",
    "mergetool",
    "filter-branch",
    "shell",
    "daemon",
    "gui",
    "citool",
    "instaweb",
    "send-email",
    "web--browse",
    "credential",
    "hook",
    "for-each-repo",
    "maintenance",
    "upload-pack",
    "receive-pack",
    "remote-ext",
    "remote-fd",
    "upload-archive",
    "http-backend",
    "fast-import",
    "update-server-info",
    "p4",
    "svn",
    "cvsserver",
    "sh-i18n",
    "sh-setup",
];

/// Git's own subcommands that leave alone what worktrees share, or whose words say what they do to it (see `repository`).
///
/// Not here are those that change it whatever their words are (`gc`), that serve it to others (`daemon`), and git's inner
/// helpers. Nobody can give one of these names another meaning; any other may be an alias or a program on the PATH.
const OWN_SUBCOMMANDS: &str = "
    add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config
    count-objects credential credential-cache credential-store describe diagnose diff diff-files diff-index diff-pairs diff-tree
    difftool fast-export fetch fetch-pack fmt-merge-msg for-each-ref format-patch fsck fsck-objects get-tar-commit-id grep
    hash-object help hook imap-send index-pack init init-db interpret-trailers last-modified lfs log ls-files ls-remote ls-tree
    mailinfo mailsplit merge merge-base merge-file merge-index merge-octopus merge-one-file merge-ours merge-recursive
    merge-resolve merge-subtree merge-tree mergetool mktag mktree mv name-rev notes pack-objects pack-redundant patch-id pickaxe
    pull push quiltimport range-diff read-tree rebase reflog refs remote replace repo request-pull rerere reset restore rev-list
    rev-parse revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status
    stripspace submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref upload-archive upload-pack
    var verify-commit verify-pack verify-tag version whatchanged worktree write-tree
";

/// Whether this is git's own, and does nothing to what worktrees share but what its words say.
pub(super) fn is_own_subcommand(name: &str) -> bool {
    OWN_SUBCOMMANDS.split_ascii_whitespace().any(|own| own == name)
}

/// How many words before the subcommand, and whether one of them is a hazard.
fn globals(texts: &[String]) -> (usize, Option<String>) {
    let mut hazard = None;
    let mut at = 0;
    while at < texts.len() && texts[at].starts_with('-') {
        let text = &texts[at];
        let name = text.split('=').next().unwrap_or_default();
        let dangerous = text.starts_with("-c")
            || text == "-p"
            || (text.starts_with("--") && 3 < name.len() && GLOBAL_HAZARDS.iter().any(|option| option.starts_with(name)));
        if dangerous && hazard.is_none() {
            hazard = Some(format!("`{text}` makes git execute or read something else"));
        }
        at += if takes_next(text) { 2 } else { 1 };
    }
    (at.min(texts.len()), hazard)
}

/// How many words stand before the subcommand.
pub(super) fn globals_end(texts: &[String]) -> usize {
    globals(texts).0
}

/// Where the values of `-C` stand among the global options: git goes there before it does anything, one after the other.
pub(super) fn folder_values(texts: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < texts.len() && texts[at].starts_with('-') {
        found.extend((texts[at] == "-C").then_some(at + 1));
        at += if takes_next(&texts[at]) { 2 } else { 1 };
    }
    found
}

/// Whether the value of this global option is the next word.
fn takes_next(text: &str) -> bool {
    GLOBAL_VALUES.contains(&text) && text != "--exec-path"
}

/// The words without global options, for rules that name a subcommand.
pub(super) fn stripped(texts: &[String]) -> Option<Vec<String>> {
    let (first, _) = globals(texts);
    (0 < first).then(|| texts[first..].to_vec())
}

pub(super) fn subcommand(texts: &[String]) -> Option<&str> {
    texts.get(globals(texts).0).map(String::as_str)
}

pub(super) fn hazard(arguments: &[Word]) -> Option<String> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let (first, global) = globals(&texts);
    if global.is_some() {
        return global;
    }
    let subcommand = texts.get(first)?;
    if arguments[first].is_dynamic() || arguments[first].has_glob() {
        return Some("git's subcommand is not known".to_owned());
    }
    let rest = &texts[first + 1..];
    if SUBCOMMANDS.contains(&subcommand.as_str()) {
        return Some(format!("git {subcommand} executes what words or settings say"));
    }
    let word = |wanted: &str| rest.iter().any(|text| text == wanted);
    let by_word = match subcommand.as_str() {
        "bisect" => word("run").then_some("run"),
        "submodule" => word("foreach").then_some("foreach"),
        "config" => (!reads_config(rest)).then_some("config"),
        "remote" => ["add", "set-url"].into_iter().find(|wanted| word(wanted)),
        "notes" | "replace" => ["edit", "--edit"].into_iter().find(|wanted| word(wanted)),
        "stash" | "worktree" | "status" => None,
        "help" => rest.iter().any(|text| matches!(text.as_str(), "-w" | "-i" | "-m")).then_some("help"),
        "alias" => Some("alias"),
        _ => None,
    };
    if let Some(found) = by_word {
        return Some(format!("git {subcommand} {found} executes, or changes what executes"));
    }
    if opens_editor(subcommand, rest) {
        return Some(format!("git {subcommand} without a message opens an editor, a program that settings name"));
    }
    rest.iter()
        .take_while(|text| *text != "--")
        .find(|text| option(subcommand, text))
        .map(|text| format!("`{text}` makes git {subcommand} execute or write something else"))
}

/// A commit or a tag with no message in its words.
fn opens_editor(subcommand: &str, rest: &[String]) -> bool {
    let long = |names: &[&str]| rest.iter().any(|text| names.iter().any(|name| text.split('=').next() == Some(*name)));
    let short = |letters: &str| {
        let mut clusters =
            rest.iter().take_while(|text| *text != "--").filter_map(|text| text.strip_prefix('-')).filter(|text| !text.starts_with('-'));
        clusters.any(|cluster| cluster.contains(|letter| letters.contains(letter)))
    };
    match subcommand {
        "commit" => {
            let rewords = rest.iter().any(|text| text.starts_with("--fixup=reword:") || text.starts_with("--fixup=amend:"));
            let given = short("mFCh")
                || long(&["--message", "--file", "--reuse-message", "--no-edit", "--fixup", "--dry-run", "--short", "--porcelain"]);
            rewords || !given
        }
        "tag" => {
            let annotates = short("as") || long(&["--annotate", "--sign"]);
            let other = short("mFdlv") || long(&["--message", "--file", "--delete", "--list", "--verify"]);
            annotates && !other
        }
        _ => false,
    }
}

fn option(subcommand: &str, text: &str) -> bool {
    if text.starts_with("ext::") || text.starts_with("fd::") || text.contains("=ext::") {
        return true;
    }
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        return 2 <= name.len() && !is_other_option(name) && LONG.iter().any(|option| option.starts_with(name));
    }
    let Some(cluster) = text.strip_prefix('-').filter(|cluster| !cluster.is_empty()) else { return false };
    // Short options that execute or write, and those whose value ends a cluster.
    let (dangerous, values) = match subcommand {
        "grep" => ("O", "efABCm"),
        "rebase" => ("xi", "sXCS"),
        "commit" => ("ect", "mFCS"),
        "add" => ("ei", ""),
        "tag" | "merge" | "revert" | "cherry-pick" => ("e", "muFsXS"),
        "clone" => ("uc", "bojt"),
        "archive" => ("o", ""),
        "format-patch" => ("", "ov"),
        "init" => ("", "b"),
        "fetch" | "pull" | "ls-remote" => ("", "jo"),
        _ => return false,
    };
    for letter in cluster.chars() {
        if dangerous.contains(letter) {
            return true;
        }
        if values.contains(letter) {
            return false;
        }
    }
    false
}

/// Whole options that happen to begin a dangerous one.
fn is_other_option(name: &str) -> bool {
    matches!(name, "text" | "cc" | "to" | "re" | "te" | "in" | "fi" | "fil" | "file" | "filter")
}

/// Settings that say who somebody is, or how something looks: nothing runs because of them, nothing is read from elsewhere.
const HARMLESS_SETTINGS: &[&str] = &[
    "advice.",
    "author.",
    "color.",
    "column.",
    "commit.gpgsign",
    "committer.",
    "core.autocrlf",
    "core.filemode",
    "core.quotepath",
    "diff.renames",
    "init.defaultbranch",
    "log.",
    "merge.conflictstyle",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
    "status.",
    "tag.gpgsign",
    "user.email",
    "user.name",
];

/// Which settings `git config` writes, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settings {
    Project,
    Home,
    System,
    /// A file that stands among the words.
    Named,
}

/// The settings these words of git write, and whether anything may run or be read from elsewhere because of it.
pub(super) fn written_settings(arguments: &[Word]) -> Option<(Settings, bool)> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let first = globals_end(&texts);
    let rest = texts.get(first + 1..).filter(|rest| texts[first] == "config" && !rest.is_empty() && !reads_config(rest))?;
    let given = |long: &str| rest.iter().any(|text| 4 < text.len() && long.starts_with(text.split('=').next().unwrap_or_default()));
    let which = match () {
        () if given("--global") => Settings::Home,
        () if given("--system") => Settings::System,
        () if given("--file") || rest.iter().any(|text| text.starts_with("-f")) => Settings::Named,
        () => Settings::Project,
    };
    let action = |text: &&String| matches!(text.as_str(), "set" | "unset");
    let name = rest.iter().filter(|text| !text.starts_with('-')).find(|text| !action(text)).map(|text| text.to_ascii_lowercase());
    // Sections, editors and files hold more than one name.
    let one = !rest.iter().any(|text| text.contains("section") || text.starts_with("--e") || matches!(text.as_str(), "-e" | "edit"));
    Some((which, !(one && name.as_deref().is_some_and(is_harmless_setting))))
}

/// Whether nothing runs and nothing is read from elsewhere because of this setting, whatever its value is.
pub(super) fn is_harmless_setting(name: &str) -> bool {
    HARMLESS_SETTINGS.iter().any(|setting| if setting.ends_with('.') { name.starts_with(setting) } else { name == *setting })
}

/// `git config` that only shows. Writing `.git/config` is writing a protected file.
pub(super) fn reads_config(rest: &[String]) -> bool {
    let shows = |text: &String| {
        let name = text.split('=').next().unwrap_or_default();
        matches!(
            name,
            "--get"
                | "--get-all"
                | "--get-regexp"
                | "--get-urlmatch"
                | "--get-color"
                | "--get-colorbool"
                | "--list"
                | "-l"
                | "get"
                | "list"
        )
    };
    let writes = |text: &String| {
        let name = text.split('=').next().unwrap_or_default();
        name.starts_with("--")
            && 4 < name.len()
            && ["--add", "--replace-all", "--unset", "--unset-all", "--rename-section", "--remove-section", "--edit", "--file", "--blob"]
                .iter()
                .any(|option| option.starts_with(name))
            || matches!(text.as_str(), "-e" | "-f" | "set" | "unset" | "edit" | "rename-section" | "remove-section")
    };
    if rest.iter().any(writes) {
        return false;
    }
    let operands = rest.iter().filter(|text| !text.starts_with('-')).count();
    rest.iter().any(shows) || operands == 1
}
