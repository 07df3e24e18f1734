//! What a git command does to the repository itself: to branches other than its own, to settings and to objects.
//!
//! In a linked worktree all of that belongs to somebody else too, though no path in the line leads out. Here is only what
//! git's words say, by subcommand; whether the folder is a linked worktree, which branch is its own and what is a branch
//! at all is on the disk, and the business of `shell_line`. What is not known before it runs counts as shared, and so does
//! a subcommand that is not git's own: an alias or a program may do anything.

use std::path::{Path, PathBuf};

use super::{
    files::after,
    git,
    judging::{Judge, Reach, Reason, outside_folder_touch},
    places::{self, Place},
    programs, shapes,
    walk::Scope,
    word::Word,
    wrappers::basename,
};

/// One thing a git command does beyond its own branch and its own files, and the folders it may do it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepositoryUse {
    /// Empty when nobody knows.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) does: Does,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Does {
    /// Changes settings, objects, the list of worktrees, or refs that are nobody's own.
    Share,
    /// Moves, deletes or renames this branch.
    Move(String),
    /// Checks this out, if it is a branch: the next commit moves it.
    Enter(String),
    /// Takes stashes off the stack: any from the newest on, so many at most, or as many as there are.
    Unstash { until: Option<usize>, removes: bool },
    /// Goes to a folder or a repository that is not known before it runs.
    Leave,
    /// Not git's: files are changed outside, or where nobody knows. What rules about folders outside see.
    Reach(String),
}

/// Settings that say where a name leads, which branches move along, or what is thrown away; a dot stands for a section.
const SHARED_SETTINGS: &[&str] = &[
    "alias.",
    "branch.",
    "core.worktree",
    "extensions.",
    "fetch.prunetags",
    "gc.",
    "include.",
    "includeif.",
    "init.templatedir",
    "maintenance.",
    "notes.rewriteref",
    "push.",
    "rebase.updaterefs",
    "remote.",
    "submodule.",
];

/// Of these, what people write on lines every day and what leads nowhere.
const OWN_SETTINGS: &[&str] = &[
    "branch.autosetupmerge=false",
    "branch.sort",
    "gc.auto=0",
    "maintenance.auto=0",
    "maintenance.auto=false",
    "push.autosetupremote",
    "push.default=current",
    "push.default=nothing",
    "push.default=simple",
    "submodule.fetchjobs",
    "submodule.recurse",
];

/// Subcommands whose first operand says what they do, and the operands that change what is shared.
const SHARED_ACTIONS: &[(&str, &[&str])] = &[
    ("lfs", &["install", "uninstall", "prune", "migrate", "update"]),
    ("notes", &["add", "append", "copy", "edit", "remove", "merge", "prune"]),
    ("reflog", &["expire", "delete", "drop"]),
    ("refs", &["migrate", "optimize"]),
    ("remote", &["add", "rename", "remove", "rm", "set-head", "set-branches", "set-url", "prune"]),
    // The mode itself is a setting of the repository.
    ("sparse-checkout", &["init", "set", "add", "reapply", "disable"]),
    ("stash", &["clear", "export", "import"]),
    ("submodule", &["add", "init", "deinit", "sync", "set-url", "set-branch", "absorbgitdirs"]),
    ("worktree", &["add", "move", "remove", "prune", "lock", "unlock", "repair"]),
];

/// Files of a git folder that each worktree has for itself.
const OWN_FILES: &[&str] = &["HEAD", "index", "rebase-", "sequencer", "BISECT_", "logs/HEAD", "config.worktree", "info/sparse-checkout"];

/// A word that is not known before it runs.
type Name = Option<String>;

/// The words after a subcommand.
#[derive(Debug, Default)]
struct Said {
    /// Long names without dashes, single letters; with their value if they take one.
    options: Vec<(String, Option<Name>)>,
    /// Before `--`.
    operands: Vec<Name>,
    /// Something stands after `--`.
    paths: bool,
}

impl Judge<'_> {
    /// What git is to do to its repository. The folder is where git looks for it, after every `-C`.
    pub(super) fn repository_uses(&mut self, arguments: &[Word], scope: &Scope) {
        // From a folder that nobody knows, or with variables that a file has set.
        if scope.astray || scope.sourced {
            self.repository(scope.cwds.clone(), Does::Leave);
        }
        let in_place = scope.depth == 0 && !self.source().contains(['|', '>', '$', '`']);
        for does in uses(arguments, scope.more_arguments, in_place) {
            let does = self.after_others(does, scope);
            self.repository(scope.cwds.clone(), does);
        }
    }

    /// The same after what this line took off the stack before: the second `git stash pop` takes what was the second stash.
    fn after_others(&self, does: Does, scope: &Scope) -> Does {
        let Does::Unstash { until, removes } = does else { return does };
        let gone = self.repository_so_far().filter(|used| matches!(used.does, Does::Unstash { removes: true, .. })).count();
        Does::Unstash { until: until.filter(|_| !scope.repeats).map(|until| until + gone), removes }
    }

    /// Where git runs after its `-C` options, one relative to the other, and its words without them.
    pub(super) fn git_folder(&mut self, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) -> Option<(Scope, Vec<Word>)> {
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        let places = git::folder_values(&texts);
        if places.is_empty() {
            return None;
        }
        let mut moved = scope.clone();
        for at in &places {
            // What `xargs` puts there is not known.
            let missing = Word::unknown("-C");
            let word = arguments.get(*at).or(scope.more_arguments.then_some(&missing));
            if let Some(word) = word {
                moved.cwds = self.folders_by(word, &moved, reasons);
            }
        }
        let is_folder = |at: usize| places.contains(&at) || places.contains(&(at + 1));
        let rest = arguments.iter().enumerate().filter(|(at, _)| !is_folder(*at)).map(|(_, word)| word.clone()).collect();
        Some((moved, rest))
    }

    /// Folders that other programs go to, one relative to the other: `make -C a -C ..`.
    pub(super) fn chained_folders(&mut self, program: &str, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        if !matches!(program, "make" | "gmake" | "bmake" | "tar" | "gtar" | "bsdtar" | "ninja") {
            return;
        }
        let mut moved = scope.clone();
        for (at, word) in arguments.iter().enumerate() {
            let text = word.text();
            let folder = match text.as_str() {
                "-C" | "--directory" => arguments.get(at + 1).cloned(),
                _ if text.starts_with("-C") => Some(after(word, 2)),
                _ if text.starts_with("--directory=") => Some(after(word, "--directory=".len())),
                _ => None,
            };
            if let Some(folder) = folder {
                moved.cwds = self.folders_by(&folder, &moved, reasons);
            }
        }
    }

    /// Git that is started by a program which only passes words on: `uv run git push . HEAD:main`.
    pub(super) fn passed_to_git(&mut self, program: &str, arguments: &[Word], scope: &Scope) {
        // What these start works on files of its own.
        let is_elsewhere = matches!(
            program,
            "docker" | "docker-compose" | "gcloud" | "incus" | "kubectl" | "lxc" | "nerdctl" | "oc" | "podman" | "vagrant"
        );
        // Behind other words it may be a name like any other, and what follows too: `npx jest git utils`.
        let is_command = |at: &usize| {
            let after = arguments.get(at + 1).filter(|word| !word.is_dynamic()).map(Word::text).filter(|text| !text.starts_with('-'));
            arguments[..*at].iter().all(|word| word.text().starts_with('-')) || after.is_none_or(|name| git::is_own_subcommand(&name))
        };
        let git = arguments.iter().position(|word| basename(&word.text()) == "git").filter(|_| !is_elsewhere);
        if let Some(at) = git.filter(is_command) {
            // The program itself is what the rules were made for; only the places count.
            self.places_named("git", &arguments[at + 1..], &scope.deeper(), &mut Vec::new());
        }
    }

    /// The folders a word may lead to, noticed when they are outside; none when nobody knows.
    pub(super) fn folders_by(&mut self, word: &Word, scope: &Scope, reasons: &mut Vec<Reason>) -> Vec<PathBuf> {
        self.leaves_by(word, scope);
        // `git -C sub/$X` may climb.
        if word.is_dynamic() && shapes::reached(word, scope, self.surroundings).contains(&Place::Unknown) {
            self.repository(scope.cwds.clone(), Does::Leave);
        }
        let mut folders = Vec::new();
        let mut lost = word.has_glob();
        for place in places::places(word, scope, self.surroundings) {
            match place {
                Place::Inside(path) => {
                    folders.push(self.surroundings.root.join(&path));
                    self.file(path, false);
                }
                Place::Outside(path) => {
                    self.outside_folder(&path, reasons);
                    folders.push(path);
                }
                Place::Nowhere | Place::Unknown => lost = true,
            }
        }
        // One that is not known makes all of them unknown.
        if lost { Vec::new() } else { folders }
    }

    fn outside_folder(&mut self, path: &Path, reasons: &mut Vec<Reason>) {
        let touch = outside_folder_touch(path);
        if !self.is_allowed(&touch) {
            reasons.push(Reason::new(Reach::Wildcard, format!("{} is outside the project", path.display())));
        }
        self.touch(&touch.key, touch.pattern);
        self.file(path.display().to_string(), false);
    }

    /// Notes that this word leads nobody knows where.
    pub(super) fn leaves_by(&mut self, word: &Word, scope: &Scope) {
        let unknown = places::places(word, scope, self.surroundings).contains(&Place::Unknown);
        // From a folder that is not known, which was noted when it became so, a written name leads no further.
        let stays = || shapes::reached(word, scope, self.surroundings).iter().all(|place| matches!(place, Place::Inside(_)));
        if unknown && word.is_dynamic() && !is_top(&word.text()) && !stays() {
            self.repository(scope.cwds.clone(), Does::Leave);
        }
    }

    /// A variable that says which repository, files or settings git takes.
    pub(super) fn git_variable(&mut self, name: &str, value: Option<&Word>, scope: &Scope) {
        if runs_before_scripts(name, value) {
            self.repository(scope.cwds.clone(), Does::Leave);
        }
        let names_place = is_place_variable(name);
        if !names_place && !name.starts_with("GIT_") {
            return;
        }
        let Some(value) = value.filter(|_| !name.starts_with("GIT_CONFIG_KEY") && !name.starts_with("GIT_CONFIG_PARAMETERS")) else {
            if names_place {
                self.repository(scope.cwds.clone(), Does::Leave);
            }
            return;
        };
        // Lists of folders have colons.
        let words: Vec<Word> = match value.literal() {
            Some(text) => text.split(':').filter(|part| !part.is_empty()).map(Word::plain).collect(),
            None => vec![value.clone()],
        };
        for word in words {
            for place in places::places(&word, scope, self.surroundings) {
                match place {
                    Place::Outside(path) if !programs::is_installed(&path) => {
                        self.outside(&path);
                        self.file(path.display().to_string(), false);
                    }
                    Place::Inside(path) => self.file(path, false),
                    _ => {}
                }
            }
            if names_place {
                self.leaves_by(&word, scope);
            }
            // Settings of another file name other files, programs and repositories.
            let anywhere = match name {
                "GIT_CONFIG" | "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" => word.text() != "/dev/null",
                "GIT_DIR" | "GIT_COMMON_DIR" => !word.is_dynamic() && !is_git_folder(&word.text()),
                // `git init` copies hooks from there.
                "GIT_TEMPLATE_DIR" => true,
                _ => false,
            };
            if anywhere {
                self.repository(scope.cwds.clone(), Does::Leave);
            }
        }
    }
}

/// A file that every shell runs first: nobody sees what it sets. `ENV=test` is a word for programs, and no file.
fn runs_before_scripts(name: &str, value: Option<&Word>) -> bool {
    let text = value.map(Word::text);
    match name {
        "BASH_ENV" => text.is_none_or(|text| !matches!(text.as_str(), "" | "/dev/null")),
        "ENV" => text.is_some_and(|text| text.contains('/') && text != "/dev/null"),
        _ => false,
    }
}

/// Variables whose value decides which repository, files or settings git takes, or which folder `cd` means.
pub(super) fn is_place_variable(name: &str) -> bool {
    matches!(
        name,
        "CDPATH"
            | "GIT_ALTERNATE_OBJECT_DIRECTORIES"
            | "GIT_COMMON_DIR"
            | "GIT_CONFIG"
            | "GIT_CONFIG_GLOBAL"
            | "GIT_CONFIG_SYSTEM"
            | "GIT_DIR"
            | "GIT_EXEC_PATH"
            | "GIT_GRAFT_FILE"
            | "GIT_INDEX_FILE"
            | "GIT_OBJECT_DIRECTORY"
            | "GIT_SHALLOW_FILE"
            | "GIT_TEMPLATE_DIR"
            | "GIT_WORK_TREE"
    ) || ["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_PARAMETERS"].iter().any(|start| name.starts_with(start))
}

/// The top of the working tree or a folder in it, as scripts ask for it. Inside, by what a workspace is.
fn is_top(text: &str) -> bool {
    ["$(git rev-parse --show-toplevel)", "$(git rev-parse --show-cdup)", "$(pwd)", "$(pwd -P)"]
        .iter()
        .any(|top| text.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Everything these words do to the repository. `in_place` when what is printed is only shown.
fn uses(arguments: &[Word], more_arguments: bool, in_place: bool) -> Vec<Does> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let first = git::globals_end(&texts);
    let mut uses: Vec<Does> = (0..first).filter_map(|at| setting(&arguments[..first], at)).collect();
    if (0..first).any(|at| leads_anywhere(&arguments[..first], at)) || (more_arguments && first == arguments.len()) {
        uses.push(Does::Leave);
    }
    let Some(subcommand) = arguments.get(first) else {
        uses.extend(more_arguments.then_some(Does::Share));
        return uses;
    };
    let Some(name) = subcommand.literal() else {
        uses.push(Does::Share);
        return uses;
    };
    let mut said = Said::of(&arguments[first + 1..], value_letters(&name), value_options(&name));
    if more_arguments {
        said.operands.push(None);
    }
    let rest = &texts[first + 1..];
    match name.as_str() {
        "branch" => uses.extend(branch(&said)),
        "checkout" | "switch" => uses.extend(checkout(&name, &said)),
        "push" | "send-pack" => uses.extend(push(&said)),
        "fetch" | "pull" => uses.extend(fetch(&said)),
        "rebase" => uses.extend(rebase(&said)),
        "update-ref" => uses.extend(update_ref(&said)),
        "symbolic-ref" => uses.extend(symbolic_ref(&said)),
        "stash" => uses.extend(stash(&said)),
        "bisect" if said.operand(0) == Some("reset") => uses.extend(said.operands.get(1).map(entered)),
        "config" if !git::reads_config(rest) => uses.push(Does::Share),
        "tag" if said.has("d", "delete") || said.has("f", "force") => uses.push(Does::Share),
        "replace" if !said.operands.is_empty() && !said.has("l", "list") => uses.push(Does::Share),
        "init" | "init-db"
            if said.operands.is_empty() && ["template", "separate-git-dir", "shared"].iter().any(|long| said.has("", long)) =>
        {
            uses.push(Does::Share)
        }
        "submodule" if said.has("", "init") => uses.push(Does::Share),
        "rev-parse" if !in_place && prints_shared_path(rest) => uses.push(Does::Share),
        _ if !git::is_own_subcommand(&name) => uses.push(Does::Share),
        _ => {}
    }
    let actions = SHARED_ACTIONS.iter().find(|(subcommand, _)| *subcommand == name).map(|(_, actions)| *actions).unwrap_or_default();
    let acts = |operand: &Name| operand.as_ref().is_none_or(|operand| actions.contains(&operand.as_str()));
    if !actions.is_empty() && said.operands.first().is_some_and(acts) {
        uses.push(Does::Share);
    }
    uses
}

/// Whether this global word of git names a folder that nobody knows, or a git folder that may point to any other.
fn leads_anywhere(globals: &[Word], at: usize) -> bool {
    let text = globals[at].text();
    let (option, value) = match text.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (option.to_owned(), value.to_owned()),
        _ => (at.checked_sub(1).map(|before| globals[before].text()).unwrap_or_default(), text),
    };
    match option.as_str() {
        "--git-dir" => globals[at].is_dynamic() || !is_git_folder(&value),
        "--work-tree" => globals[at].is_dynamic(),
        _ => false,
    }
}

/// To make a `.git` asks; what is made under another name may say that it belongs to any repository.
fn is_git_folder(path: &str) -> bool {
    path.trim_end_matches('/').rsplit('/').next() == Some(".git")
}

/// Short options of a subcommand whose value may be the next word.
fn value_letters(subcommand: &str) -> &'static str {
    match subcommand {
        "branch" => "u",
        "checkout" => "bB",
        "switch" => "cC",
        "push" => "o",
        "fetch" | "pull" => "josX",
        "rebase" => "sXxC",
        "stash" => "m",
        "tag" => "muF",
        "update-ref" | "symbolic-ref" => "m",
        _ => "",
    }
}

/// Long options of a subcommand whose value may be the next word.
fn value_options(subcommand: &str) -> &'static [&'static str] {
    match subcommand {
        "branch" => &["set-upstream-to", "contains", "no-contains", "merged", "no-merged", "points-at", "sort", "format"],
        "checkout" | "switch" => &["orphan", "conflict", "create", "force-create", "pathspec-from-file"],
        "push" => &["push-option", "repo", "receive-pack", "exec"],
        "fetch" | "pull" => &[
            "depth",
            "deepen",
            "shallow-since",
            "shallow-exclude",
            "jobs",
            "refmap",
            "upload-pack",
            "negotiation-tip",
            "server-option",
            "strategy",
            "strategy-option",
        ],
        "rebase" => &["onto", "strategy", "strategy-option", "exec", "whitespace"],
        "notes" => &["ref"],
        "stash" => &["message", "pathspec-from-file"],
        "tag" => &["message", "file", "local-user", "cleanup", "sort", "format"],
        _ => &[],
    }
}

impl Said {
    fn of(words: &[Word], letters: &str, long_values: &[&str]) -> Self {
        let mut said = Self::default();
        let mut at = 0;
        while at < words.len() {
            let (word, text) = (&words[at], words[at].text());
            at += 1;
            let next = words.get(at).map(name_of);
            if text == "--" {
                said.paths = at < words.len();
                break;
            }
            let dashed = text.starts_with('-') && 1 < text.len();
            if let Some(long) = text.strip_prefix("--") {
                let (name, joined) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let known = |_: &&str| !word.is_dynamic();
                let is_it = |known: &&str| known.starts_with(name) && 1 < name.len();
                let takes_next = joined.is_none() && long_values.iter().any(is_it);
                let value = joined.map(|value| Some(value).filter(known).map(str::to_owned)).or(next.filter(|_| takes_next));
                at += usize::from(takes_next);
                said.options.push((name.to_owned(), value));
            } else if dashed {
                at += usize::from(said.cluster(&text[1..], letters, next, word.is_dynamic()));
            } else {
                said.operands.push(name_of(word));
            }
        }
        said
    }

    /// Letters of one word; whether the last one takes the next word.
    fn cluster(&mut self, cluster: &str, letters: &str, next: Option<Name>, dynamic: bool) -> bool {
        for (at, letter) in cluster.char_indices() {
            let rest = &cluster[at + letter.len_utf8()..];
            let takes = letters.contains(letter);
            let value = match rest {
                _ if !takes => None,
                "" => next.clone(),
                rest => Some((!dynamic).then(|| rest.to_owned())),
            };
            self.options.push((letter.to_string(), value));
            if takes {
                return rest.is_empty();
            }
        }
        false
    }

    /// Git takes a long option as far as it is written out; a dangerous one counts at two letters.
    fn given(&self, letters: &str, long: &str) -> Option<&(String, Option<Name>)> {
        let is_it = |name: &str| match name.chars().count() {
            1 => letters.contains(name),
            _ => !name.is_empty() && long.starts_with(name),
        };
        self.options.iter().find(|(name, _)| is_it(name))
    }

    fn has(&self, letters: &str, long: &str) -> bool {
        self.given(letters, long).is_some()
    }

    /// The value of an option that was given; not known if it was given without.
    fn value(&self, letters: &str, long: &str) -> Option<Name> {
        self.given(letters, long).map(|(_, value)| value.clone().flatten())
    }

    fn operand(&self, at: usize) -> Option<&str> {
        self.operands.get(at)?.as_deref()
    }
}

/// A pattern stands for names too, and is none that could be the own branch.
fn name_of(word: &Word) -> Name {
    (!word.is_dynamic()).then(|| word.text())
}

fn moved(name: &Name) -> Does {
    let Some(name) = name else { return Does::Share };
    let bare = name.trim_start_matches('+');
    Does::Move(["refs/heads/", "heads/"].iter().find_map(|start| bare.strip_prefix(start)).unwrap_or(bare).to_owned())
}

fn entered(name: &Name) -> Does {
    match name.as_deref() {
        // Where the worktree was before is written on the disk, and changes with every checkout.
        None | Some("-") => Does::Share,
        Some(name) if name.starts_with("@{-") => Does::Share,
        Some(name) => Does::Enter(name.to_owned()),
    }
}

fn branch(said: &Said) -> Vec<Does> {
    let settings = said.has("u", "set-upstream-to") || said.has("", "unset-upstream") || said.has("", "edit-description");
    // Whoever brings the work home looks for it by the branch's name, so a new name for the own one is shared too.
    if settings || said.has("mM", "move") || (said.has("r", "remotes") && said.has("dD", "delete")) {
        return vec![Does::Share];
    }
    if said.has("dD", "delete") {
        return said.operands.iter().map(moved).collect();
    }
    if said.has("C", "") || (said.has("c", "copy") && said.has("f", "force")) {
        return said.operands.last().map(moved).into_iter().collect();
    }
    if said.has("f", "force") {
        return said.operands.first().map(moved).into_iter().collect();
    }
    if said.has("lar", "list") {
        return Vec::new();
    }
    // A word that is not known may be an option.
    said.operands.iter().filter(|operand| operand.is_none()).map(moved).collect()
}

fn checkout(subcommand: &str, said: &Said) -> Vec<Does> {
    let (forced, made) = if subcommand == "switch" { ("C", "c") } else { ("B", "b") };
    if let Some(name) = said.value(forced, "force-create") {
        return vec![moved(&name)];
    }
    let makes = said.has(made, "create") || said.has("", "orphan") || said.has("t", "track");
    let restores = said.paths || 1 < said.operands.len() || said.has("p", "patch");
    if makes || restores || said.has("d", "detach") {
        return Vec::new();
    }
    said.operands.iter().map(entered).collect()
}

/// A push to a repository on this disk moves branches there; one to a remote is a matter of the rules for commands.
fn push(said: &Said) -> Vec<Does> {
    let given = said.value("", "repo");
    let (remote, refs) = match (&given, said.operands.split_first()) {
        (Some(remote), _) => (remote, said.operands.as_slice()),
        (None, Some((remote, refs))) => (remote, refs),
        (None, None) => return Vec::new(),
    };
    let is_path =
        |name: &str| name.starts_with(['.', '/', '~']) || name.starts_with("file:") || (name.contains('/') && !name.contains(':'));
    if remote.as_deref().is_some_and(|name| !is_path(name)) {
        return Vec::new();
    }
    let many = ["all", "branches", "mirror", "prune", "tags", "follow-tags"].iter().any(|long| said.has("", long));
    if many || refs.is_empty() {
        return vec![Does::Share];
    }
    // `HEAD` alone is the own branch.
    refs.iter().filter(|name| !matches!(name.as_deref(), Some("HEAD" | "@"))).map(|name| moved(&name.as_deref().map(target))).collect()
}

/// `a:b` writes b, as an operand or as what `--refmap` makes of one; remote-tracking branches are there to be moved.
fn fetch(said: &Said) -> Vec<Does> {
    let prunes_tags = said.options.iter().any(|(name, _)| name == "P" || name.starts_with("prune-"));
    if said.has("", "stdin") || prunes_tags {
        return vec![Does::Share];
    }
    let is_map = |name: &str| 1 < name.len() && "refmap".starts_with(name);
    let maps = said.options.iter().filter(|(name, _)| is_map(name)).map(|(_, value)| value.clone().flatten());
    let refs = said.operands.iter().skip(1).cloned().chain(maps);
    refs.filter(|name| name.as_ref().is_none_or(|name| name.contains(':') && !name.contains("://")))
        .map(|name| name.as_deref().map(target))
        .filter(|name| name.as_ref().is_none_or(|name| !name.is_empty() && !name.starts_with("refs/remotes/")))
        .map(|name| moved(&name))
        .collect()
}

fn target(refspec: &str) -> String {
    refspec.rsplit_once(':').map_or(refspec, |(_, target)| target).to_owned()
}

fn rebase(said: &Said) -> Vec<Does> {
    if said.has("", "update-refs") {
        return vec![Does::Share];
    }
    let upstreams = usize::from(!said.has("", "root"));
    said.operands.iter().skip(upstreams).map(entered).collect()
}

fn update_ref(said: &Said) -> Vec<Does> {
    if said.has("", "stdin") {
        return vec![Does::Share];
    }
    said.operands.first().filter(|name| !is_own_ref(name)).map(moved).into_iter().collect()
}

/// `symbolic-ref NAME OTHER` moves the name; and whoever writes to it from then on, moves the other.
fn symbolic_ref(said: &Said) -> Vec<Does> {
    if said.has("d", "delete") || said.operands.iter().any(Option::is_none) {
        return vec![Does::Share];
    }
    match said.operands.as_slice() {
        [name, other, ..] => Some(name).filter(|name| !is_own_ref(name)).into_iter().chain([other]).map(moved).collect(),
        _ => Vec::new(),
    }
}

/// Refs that each worktree has for itself.
fn is_own_ref(name: &Name) -> bool {
    let Some(name) = name else { return false };
    let plain = !name.contains('/') && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    plain || ["refs/worktree/", "refs/bisect/", "refs/rewritten/"].iter().any(|start| name.starts_with(start))
}

/// The stack of stashes is one for all worktrees. To put something there harms nobody; what is taken may be anybody's.
fn stash(said: &Said) -> Vec<Does> {
    let (stash, removes) = match said.operand(0) {
        Some("apply") => (said.operands.get(1), false),
        Some("pop" | "drop") => (said.operands.get(1), true),
        Some("branch") => (said.operands.get(2), true),
        _ => return Vec::new(),
    };
    // Those above count too: what the line puts there or takes away first decides which one a number means.
    let at = match stash {
        None => Some(0),
        Some(name) => name.as_deref().and_then(stash_number),
    };
    vec![at.map_or(Does::Share, |at| Does::Unstash { until: at.checked_add(1), removes })]
}

/// `stash@{2}` and `2` are the third from the top; a time or a commit is nothing that is known here.
fn stash_number(name: &str) -> Option<usize> {
    let name = name.strip_prefix("refs/").unwrap_or(name);
    if name == "stash" {
        return Some(0);
    }
    let number = name.strip_prefix("stash@{").and_then(|rest| rest.strip_suffix('}')).unwrap_or(name);
    number.parse().ok()
}

/// What a setting among git's global words does: `-c name=value`, `--config-env=name=VARIABLE`.
fn setting(globals: &[Word], at: usize) -> Option<Does> {
    let text = globals[at].text().to_ascii_lowercase();
    let before = at.checked_sub(1).map(|before| globals[before].text()).unwrap_or_default();
    let (text, is_hidden) = match before.as_str() {
        "-c" => (text.as_str(), false),
        "--config-env" => (text.as_str(), true),
        _ => (text.strip_prefix("--config-env=")?, true),
    };
    let name = text.split('=').next().unwrap_or_default();
    let said = if is_hidden { name } else { text };
    let is_known = !(globals[at].is_dynamic() && name.contains(['$', '`']));
    let is_shared = SHARED_SETTINGS.iter().any(|known| if known.ends_with('.') { name.starts_with(known) } else { name == *known })
        && !OWN_SETTINGS.iter().any(|own| *own == name || *own == said);
    match () {
        // Any address may stand for another then.
        () if name.starts_with("url.") => Some(Does::Leave),
        () if !is_known || is_shared || (is_hidden && !git::is_harmless_setting(name)) => Some(Does::Share),
        () => None,
    }
}

/// A path into the part of the git folder that all worktrees share.
fn prints_shared_path(texts: &[String]) -> bool {
    let is_own = |file: &String| {
        OWN_FILES.iter().any(|own| file.starts_with(own)) || file.ends_with("_HEAD") || file.ends_with("_MSG") || file.ends_with("_EDITMSG")
    };
    let path = texts.iter().position(|text| text == "--git-path").map(|at| texts.get(at + 1));
    texts.iter().any(|text| text == "--git-common-dir") || path.is_some_and(|path| !path.is_some_and(is_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<Does> {
        let words: Vec<Word> = line.split_ascii_whitespace().map(Word::plain).collect();
        uses(&words, false, true)
    }

    #[test]
    fn words_tell_which_branch_is_moved() {
        let to = |name: &str| vec![Does::Move(name.to_owned())];
        for (line, wanted) in [
            ("branch -f main HEAD", to("main")),
            ("branch --forc main", to("main")),
            ("branch -D a b", [to("a"), to("b")].concat()),
            ("branch -C a b", to("b")),
            ("checkout -B main", to("main")),
            ("checkout -qBmain", to("main")),
            ("switch -C main origin/main", to("main")),
            ("switch --force-create=main", to("main")),
            ("push . HEAD:main", to("main")),
            ("push -f . +HEAD:refs/heads/main", to("main")),
            ("push --repo=. HEAD:main", to("main")),
            ("fetch . HEAD:main", to("main")),
            ("fetch --depth 1 origin main:main", to("main")),
            ("update-ref refs/heads/main HEAD", to("main")),
            ("symbolic-ref HEAD refs/heads/main", to("main")),
            ("symbolic-ref refs/heads/main HEAD", [to("main"), to("HEAD")].concat()),
            ("fetch --refmap=+refs/heads/a:refs/heads/main . a", to("main")),
            ("fetch --refmap a:b --refmap a:c . a", [to("b"), to("c")].concat()),
            ("-C sub branch -f main", to("main")),
        ] {
            assert_eq!(of(line), wanted, "{line}");
        }
    }

    #[test]
    fn words_that_keep_to_the_own_branch_do_nothing_to_others() {
        for line in [
            "branch",
            "branch new",
            "branch -a --contains HEAD",
            "checkout -b new",
            "checkout -- file",
            "checkout main -- file",
            "checkout main file",
            "checkout --detach main",
            "switch -c new main",
            "push origin HEAD:main",
            "push . HEAD",
            "fetch origin main",
            "fetch origin +refs/heads/*:refs/remotes/origin/*",
            "fetch https://host/x.git main",
            "pull --rebase origin main",
            "rebase main",
            "rebase --onto main a",
            "update-ref ORIG_HEAD HEAD",
            "symbolic-ref --short HEAD",
            "config user.name",
            "tag v1",
            "stash push -m words",
            "stash show stash@{1}",
            "fetch --prune origin",
            "fetch --refmap=refs/heads/*:refs/remotes/x/* . main",
            "fetch --refmap= . main",
            "-c gc.auto=0 -c user.name=x commit",
            "--config-env=user.name=USER commit",
            "worktree list",
            "remote -v",
            "rev-parse --git-common-dir",
        ] {
            assert_eq!(of(line), [], "{line}");
        }
        assert_eq!(of("rebase main other"), [Does::Enter("other".to_owned())]);
        assert_eq!(of("checkout -q main"), [Does::Enter("main".to_owned())]);
    }

    #[test]
    fn words_tell_how_far_down_the_stack_is_taken() {
        let until = |until, removes| vec![Does::Unstash { until: Some(until), removes }];
        for (line, wanted) in [
            ("stash pop", until(1, true)),
            ("stash pop -q --index", until(1, true)),
            ("stash apply stash@{1}", until(2, false)),
            ("stash drop 2", until(3, true)),
            ("stash branch new", until(1, true)),
            ("stash branch new refs/stash@{1}", until(2, true)),
            ("stash apply abc123", vec![Does::Share]),
            ("stash drop stash@{yesterday}", vec![Does::Share]),
            ("stash clear", vec![Does::Share]),
        ] {
            assert_eq!(of(line), wanted, "{line}");
        }
    }

    #[test]
    fn settings_on_the_line_and_strange_subcommands_count_as_shared() {
        for line in [
            "-c remote.x.url=. push x HEAD:main",
            "-c Branch.x.Remote=. pull",
            "-c rebase.updateRefs rebase main",
            "-c push.default=upstream push",
            "--config-env push.default=current push",
            "--config-env=core.pager=X log",
            "co main",
            "subtree split -b main",
        ] {
            assert_eq!(of(line), [Does::Share], "{line}");
        }
        assert_eq!(of("-c url.there.insteadOf=here: fetch here:x"), [Does::Leave]);
    }
}
