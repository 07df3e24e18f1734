//! A task in a git worktree: whatever leads out of its folder, or changes the repository it shares, is an ask.
//!
//! Real repositories in a temporary folder: `main` is the caller's, `task` the linked worktree, `out` somebody else's.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "shell/daily.rs"]
mod daily;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use posse_session::{Look, Rule, Rules, Tool, Verdict};
use posse_tools::{Keeper, LocalWorkspace};
use serde_json::{Value, json};

struct World {
    _folder: tempfile::TempDir,
    base: PathBuf,
    tools: Vec<Arc<dyn Tool>>,
    workspace: LocalWorkspace,
}

impl World {
    /// With the worktree as the workspace.
    fn new() -> Self {
        Self::at("task")
    }

    fn at(workspace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let script = "git init -q -b main main && cd main && mkdir sub && echo one > file.txt && echo two > sub/inner.txt \
            && git add . && git commit -qm first && echo three >> file.txt && git commit -qam second \
            && git branch other HEAD~1 && git branch packed && git pack-refs --all && git branch loose && git tag v1 \
            && git worktree add -q ../task -b posse/t1 && git init -q ../out && cd ../out && echo secret > secret.txt && git add . && git commit -qm out";
        run(&base, script);
        let root = base.join(workspace);
        // Nothing is started here: these tests only look.
        let keeper = Arc::new(Keeper::with_program(PathBuf::from("/no/keeper"), ["__keeper"]));
        let workspace = LocalWorkspace::new(&root, &root, keeper).unwrap();
        Self { _folder: folder, base, tools: posse_tools::builtin(), workspace }
    }

    fn look(&self, tool: &str, input: &Value) -> Look {
        let tool = self.tools.iter().find(|known| known.spec().name == tool).unwrap();
        tool.look(input, &self.workspace).unwrap_or_else(|words| panic!("{input}: {words}"))
    }

    /// What a call asks for under the built-in rules: all is allowed, only leaving and protected files are not.
    fn asks(&self, tool: &str, input: &Value) -> Vec<String> {
        let touches = self.look(tool, input).touches;
        let asking = touches.iter().filter(|touch| matches!(touch.key.as_str(), "external_directory" | "protected"));
        asking.map(|touch| format!("{} {}", touch.key, touch.pattern.replace(self.base.to_str().unwrap(), "{base}"))).collect()
    }

    /// The same for a shell line in a folder of the workspace. `{base}` is the folder of all repositories.
    fn line_asks(&self, folder: &str, line: &str) -> Vec<String> {
        self.asks("bash", &json!({"command": self.filled(line), "workdir": folder}))
    }

    fn filled(&self, line: &str) -> String {
        line.replace("{base}", self.base.to_str().unwrap())
    }

    fn task(&self) -> PathBuf {
        self.base.join("task")
    }

    /// Everything in the repository that is not the task's own.
    fn shared(&self) -> String {
        let refs = "git for-each-ref --format='%(refname) %(objectname)' | grep -v refs/heads/posse/t1 | grep -v refs/heads/new; \
            git symbolic-ref HEAD; cat .git/config; git worktree list --porcelain | grep ^worktree; git status --porcelain; ls .git/hooks";
        run(&self.base.join("main"), refs)
    }
}

/// Runs a line as the bash tool would, with nobody's settings.
fn run(folder: &Path, line: &str) -> String {
    let (text, worked) = try_run(folder, line);
    assert!(worked, "{line}: {text}");
    text
}

fn try_run(folder: &Path, line: &str) -> (String, bool) {
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", line]).current_dir(folder).stdin(Stdio::null());
    let inherited: Vec<String> = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("GIT_")).collect();
    for name in inherited {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_EDITOR", "true");
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "someone");
    }
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (text, output.status.success())
}

/// A folder of the worktree, and a line that leads out of it.
const LEADS_OUT: &[(&str, &str)] = &[
    // Git is sent elsewhere by its options.
    (".", "git -C {base}/main status"),
    (".", "git -C ../main status"),
    ("sub", "git -C .. -C .. status"),
    ("sub", "git -C .. archive -o ../x.tar HEAD"),
    (".", "git -C sub -C ../../main log"),
    (".", "git -C '' -C ../main log"),
    (".", "git -c color.ui=never -C ../main commit -am x"),
    (".", "git --git-dir={base}/main/.git status"),
    (".", "git --git-dir {base}/main/.git log"),
    (".", "git --git-dir=../main/.git log"),
    (".", "git --work-tree=../main checkout -f"),
    (".", "git --work-tree ../main status"),
    (".", "git -c core.worktree={base}/main status"),
    (".", "git -c core.worktree=../main restore ."),
    (".", "git --exec-path=../out status"),
    // By variables, however they are set.
    (".", "GIT_DIR={base}/main/.git git status"),
    (".", "GIT_DIR=../main/.git git commit -m x"),
    (".", "GIT_WORK_TREE=../main git checkout ."),
    (".", "GIT_INDEX_FILE=../main/.git/index git add ."),
    (".", "GIT_OBJECT_DIRECTORY={base}/main/.git/objects git gc"),
    (".", "GIT_COMMON_DIR=../main/.git git log"),
    (".", "GIT_ALTERNATE_OBJECT_DIRECTORIES=sub:{base}/out/.git/objects git log"),
    (".", "GIT_TRACE={base}/out/trace git log"),
    (".", "GIT_TEMPLATE_DIR=sub git init"),
    (".", "env GIT_DIR=../main/.git git status"),
    (".", "env -i GIT_WORK_TREE={base}/main git status"),
    (".", "export GIT_DIR={base}/main/.git; git status"),
    (".", "export GIT_DIR; GIT_DIR=../main/.git; git status"),
    (".", "declare -x GIT_WORK_TREE={base}/main && git status"),
    (".", "typeset -x GIT_DIR=../main/.git; git log"),
    (".", "d={base}/main/.git; GIT_DIR=$d git status"),
    (".", "d=..; export GIT_WORK_TREE=$d/main; git status"),
    (".", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.worktree GIT_CONFIG_VALUE_0=../main git status"),
    (".", "GIT_CONFIG_PARAMETERS=\"'core.worktree=../main'\" git status"),
    (".", "read GIT_DIR < sub/inner.txt; export GIT_DIR; git status"),
    (".", ": ${GIT_DIR:=x}; export GIT_DIR; git status"),
    (".", "printf -v GIT_DIR %s x; export GIT_DIR; git status"),
    // The shell goes elsewhere first.
    (".", "d={base}/main; git -C $d status"),
    (".", "d={base}/main; git -C \"$d\" status"),
    (".", "o='-C ../main'; git $o status"),
    (".", "for d in . ../main; do git -C $d status; done"),
    (".", "for d in . ../main; do git --work-tree=$d status; done"),
    (".", "cd {base}/main && git status"),
    (".", "cd .. && cd main && git status"),
    ("sub", "cd ../../main; git log"),
    (".", "pushd ../main && git status; popd"),
    (".", "(cd ../main && git commit -am x)"),
    (".", "{ cd ../main; git add .; }"),
    (".", "bash -c 'cd ../main && git status'"),
    (".", "cd && git status"),
    (".", "cd ~ && ls"),
    (".", "CDPATH={base} cd main"),
    ("sub", "env -C .. git -C .. status"),
    ("sub", "env --chdir=.. cat ../main/file.txt"),
    ("sub", "env -iC.. cat ../main/file.txt"),
    // Nobody knows where.
    (".", "cd \"$X\" && git status"),
    (".", "git -C \"$X\" status"),
    (".", "GIT_DIR=$X git status"),
    (".", "cd $(cat sub/inner.txt) && rm -rf x"),
    (".", "cd $(git worktree list | head -1 | cut -d' ' -f1) && git status"),
    (".", "git worktree list | cut -d' ' -f1 | xargs -I{} git -C {} status"),
    (".", "git --git-dir=\"$X\" status"),
    (".", "git --git-dir $X/.git status"),
    (".", "git --work-tree=$X checkout ."),
    (".", "cat sub/inner.txt | xargs git -C"),
    (".", "cat sub/inner.txt | xargs git"),
    (".", "export \"$X\"; git status"),
    (".", "GIT_CONFIG_GLOBAL=sub/inner.txt git status"),
    (".", "GIT_DIR=sub/crafted git reset --hard"),
    (".", "git --git-dir=sub/crafted reset --hard"),
    ("sub", "make -C .. -C .. all"),
    ("sub", "tar -C .. -C ../main -cf x.tar ."),
    // Words of git that write or read elsewhere.
    (".", "git clone . ../copy"),
    (".", "git clone {base}/main copy"),
    (".", "git init {base}/fresh"),
    (".", "git init --separate-git-dir=../g sub"),
    (".", "git bundle create {base}/x.bundle HEAD"),
    (".", "git format-patch -o ../patches HEAD~1"),
    (".", "git format-patch -o{base}/patches HEAD~1"),
    (".", "git archive -o {base}/x.tar HEAD"),
    (".", "git archive --output=../x.tar HEAD"),
    (".", "git diff --output={base}/x.diff"),
    (".", "git diff --output ../x.diff"),
    (".", "git diff --no-index file.txt ../main/file.txt"),
    (".", "git apply --directory=../main x.patch"),
    (".", "git apply --unsafe-paths --directory ../main x.patch"),
    (".", "git fetch {base}/main main"),
    (".", "git push ../main HEAD:main"),
    // Settings on the line say where a name leads.
    (".", "git -c url.{base}/out.insteadOf=q: push q:x HEAD:main"),
    (".", "git -c url.../out.pushInsteadOf=q: push q:x HEAD:main"),
    (".", "git -c remote.x.url=../out push x HEAD:main"),
    (".", "git -c remote.x.pushurl={base}/out push x HEAD"),
    (".", "git --config-env=remote.x.url=PWD push x HEAD:main"),
    (".", "git config --global user.name x"),
    (".", "git config --file ../main/.git/config user.name x"),
    (".", "git submodule foreach 'cat {base}/main/file.txt'"),
    (".", "git rebase -x 'cp file.txt ../main/file.txt' HEAD~1"),
    (".", "git bisect run sh -c 'cd ../main && git reset --hard'"),
    // Paths and links, without git.
    (".", "cat {base}/main/file.txt"),
    (".", "cat ../main/file.txt"),
    (".", "echo x > ../main/file.txt"),
    (".", "rm -rf {base}/main"),
    (".", "cat link/file.txt"),
    (".", "echo x > link/file.txt"),
    (".", "cat filelink"),
    (".", "cd link && git commit -am x"),
    (".", "git -C link status"),
    (".", "GIT_DIR=link/.git git status"),
    (".", "git --git-dir=link/.git --work-tree=link checkout ."),
    (".", "cp -r link/sub copied"),
];

/// Lines that change what all worktrees share, though no path in them leads out.
const SHARED: &[&str] = &[
    "git push . HEAD:main",
    "git push . +HEAD:refs/heads/main",
    "git push ./ HEAD:other",
    "git push . --delete other",
    "git push . :other",
    "git push --mirror .",
    "git fetch . HEAD:main",
    "git fetch . +posse/t1:other",
    "git fetch --refmap=+refs/heads/posse/t1:refs/heads/main . posse/t1",
    "git fetch --refmap '+refs/heads/*:refs/heads/*' . posse/t1",
    "git fetch --refmap= --refmap=posse/t1:main . posse/t1",
    "git pull --refmap=posse/t1:main . posse/t1",
    "git fetch --refmap=\"$X\" . posse/t1",
    "git -c remote.x.url=. push x HEAD:main",
    "git -c REMOTE.x.URL=. push x HEAD:main",
    "git -c remote.x.fetch=+posse/t1:main fetch x",
    "git -c remote.pushDefault=. push",
    "git -c branch.posse/t1.merge=refs/heads/main push",
    "git -c push.default=upstream push",
    "git -c push.default push",
    "git --config-env=branch.posse/t1.remote=X pull",
    "git --config-env remote.x.url=X push x HEAD:main",
    "git --config-env core.pager=X log",
    "git -c \"$X\" push x HEAD:main",
    "git -c remote.$X.url=. push x HEAD:main",
    "git -c core.pager='git branch -f main' log",
    "git -c rebase.updateRefs=true rebase main",
    "git -c rebase.updateRefs rebase main",
    "git -c gc.auto=1 -c gc.pruneExpire=now commit --allow-empty -m x",
    "git -c fetch.pruneTags=true fetch --prune .",
    "git -c notes.rewriteRef=refs/notes/x commit --amend --no-edit",
    "git -c submodule.vendor.url=. submodule update",
    "git branch -f main",
    "git branch -f other HEAD",
    "git branch --force other",
    "git branch -D other",
    "git branch -d other",
    "git branch --delete --force other",
    "git branch -m other mine",
    "git branch -M main",
    "git branch -C posse/t1 other",
    "git branch --set-upstream-to=main",
    "git branch -u main",
    "git branch | grep other | xargs git branch -D",
    "for b in main other; do git branch -D $b; done",
    "b=other; git branch -D $b",
    "o='-d v1'; git tag $o",
    "d=sub; o='-d v1'; git -C $d tag $o",
    "git update-ref refs/heads/main HEAD",
    "git update-ref -d refs/heads/other",
    "git update-ref refs/tags/v1 HEAD",
    "echo 'delete refs/heads/other' | git update-ref --stdin",
    "git symbolic-ref HEAD refs/heads/main",
    "git symbolic-ref -d HEAD",
    "git symbolic-ref refs/heads/main refs/heads/posse/t1",
    "git symbolic-ref -m x refs/heads/other HEAD",
    // What is written to the own name goes to the other from then on.
    "git symbolic-ref refs/heads/posse/t1 refs/heads/main",
    "git symbolic-ref ORIG_HEAD refs/heads/main",
    "git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main",
    "git checkout other",
    "git checkout packed",
    "git checkout loose",
    "git checkout other --",
    "git checkout -f -q other",
    "git checkout --conf merge other",
    "git checkout \"$(cat sub/inner.txt)\"",
    "git branch -D o*",
    "git checkout --ignore-other-worktrees main",
    "git checkout -",
    "git checkout @{-1}",
    "git checkout -B main",
    "git switch other",
    "git switch --ignore-other-worktrees main",
    "git switch -C main",
    "git switch --force-create main",
    "git rebase main other",
    "git rebase --update-refs main",
    "git worktree add inside",
    "git worktree remove inside",
    "git worktree remove --force ../task-not-there || git worktree prune",
    "git gc",
    "git gc --prune=now",
    "git prune",
    "git repack -ad",
    "git reflog expire --expire=now --all",
    "git reflog delete HEAD@{1}",
    "git pack-refs --all",
    "git maintenance run",
    "git filter-branch --msg-filter cat main",
    "git stash clear",
    "git tag -d v1",
    "git tag -f v1",
    "git notes add -m x",
    "git replace HEAD HEAD~1",
    "git remote add up https://example.org/x.git",
    "git remote set-url origin https://example.org/x.git",
    "git config user.name x",
    "git config set user.name x",
    "git submodule add https://example.org/x.git vendor",
    "git submodule update --init",
    "git sparse-checkout set sub",
    "git lfs install",
    // What is not git's own may be anything: an alias, a program on the PATH.
    "git co -B main",
    "git -c color.ui=never co main",
    "git subtree split -b main",
    "git-subtree split -b main",
    "git history reword HEAD~1",
    "git replay --onto main posse/t1..other",
    "git for-each-repo --config=x.y gc",
    "uv run git co -B main",
    "git refs optimize",
    "git stash import refs/stash",
    "git -c alias.x='push . HEAD:main' x",
    "cd sub && git branch -f main",
    "git -C sub branch -f main",
    "git submodule foreach git branch -f main",
    "git rebase -x 'git branch -f main' HEAD~1",
    "bash -c 'git branch -f main'",
    "timeout 5 git branch -f main",
    "uv run git branch -f main",
    "npx -y git branch -f main",
    "/usr/lib/git-core/git-branch -f main",
    "python3 -c 'import os; os.system(\"git branch -f main\")'",
    "git notes --ref x add -m y",
    "git fetch --prune-tags .",
    "git fetch -P .",
    "git -c core.worktree=sub status",
    "f() { git branch -f main; }; f",
    "x=$(git branch -f main)",
    "rm -rf \"$(git rev-parse --git-common-dir)\"",
    "cp file.txt $(git rev-parse --git-path hooks)/pre-commit",
    "git rev-parse --git-common-dir | xargs rm -rf",
];

/// What a task does all day in its worktree. None of it asks, and none of it changes what is not the task's own.
const OWN: &[&str] = &[
    "git status",
    "git status --short --branch",
    "echo x >> file.txt && git add . && git commit -m 'more'",
    "echo x >> file.txt; git commit -am 'more, and /etc is only a word'",
    "git commit --allow-empty -m x && git commit --amend --allow-empty -m y",
    "git log --oneline -5",
    "git log main..HEAD",
    "git diff",
    "git diff main...HEAD -- sub",
    "git show HEAD:file.txt",
    "git blame file.txt",
    "echo x >> file.txt; git restore file.txt",
    "echo x >> file.txt; git checkout file.txt",
    "echo x >> file.txt; git checkout -- file.txt",
    "echo x >> file.txt; git checkout *.txt",
    "cd sub && git checkout ../file.txt",
    "git checkout \"$PWD/file.txt\"",
    "git checkout v1",
    "git branch --list \"$USER\"",
    "GIT_CONFIG_GLOBAL=/dev/null GIT_DIR=.git git status",
    "git --git-dir=.git --work-tree=. status",
    "git checkout main -- file.txt",
    "git checkout other file.txt",
    "git checkout HEAD~1",
    "git checkout --detach other",
    "git switch --detach main",
    "git checkout -b new",
    "git switch -c new2",
    "git checkout posse/t1",
    "git branch",
    "git branch -a -vv",
    "git branch --show-current",
    "git branch new",
    "git merge other",
    "git merge --no-edit main",
    "git rebase main",
    "git rebase --onto main other",
    "git cherry-pick other || true",
    "git revert --no-edit HEAD",
    "git reset --hard HEAD~1",
    "git clean -fd",
    "echo x >> file.txt; git stash && git stash pop",
    "git stash list",
    "echo x >> file.txt; git stash push -m \"$USER\" && git stash apply && git checkout . && git stash drop",
    "git stash pop || true",
    "git fetch --prune . main",
    "git stash show -p || true",
    "git rm -q sub/inner.txt",
    "git mv file.txt other.txt",
    "git tag -l",
    "git remote -v",
    "git worktree list",
    "git reflog",
    "git config --get user.name || true",
    "git config --list",
    "git rev-parse HEAD",
    "git rev-parse --show-toplevel",
    "git rev-parse --git-common-dir",
    "git rev-parse --git-dir",
    "test -d \"$(git rev-parse --git-path rebase-merge)\" || true",
    "cd \"$(git rev-parse --show-toplevel)\" && git status",
    "cd \"$(git rev-parse --show-toplevel)/sub\" && ls",
    "cd sub && git add . && git -C .. status",
    "cd sub && git log -- ../file.txt",
    "git -C sub log -- ../file.txt",
    "(cd sub && ls) && git status",
    "for d in */; do (cd \"$d\" && ls); done",
    "for d in sub .; do git -C $d status; done",
    "for d in sub sub/../sub; do git -C $d log -1; done",
    "d=sub; cd $d && cd - && git status",
    "pushd sub && ls; popd",
    "GIT_PAGER=cat git log -1",
    "GIT_EDITOR=true git commit --allow-empty --amend -m x",
    "GIT_TERMINAL_PROMPT=0 git fetch . main",
    "git -c color.ui=never log -1",
    "git -c user.name=x -c user.email=y commit --allow-empty -m x",
    "git -c user.name=\"$USER\" -c user.email=y commit --allow-empty -m x",
    "git -c core.pager=cat log -1",
    "git -c core.editor=true commit --amend --allow-empty",
    "git -c advice.detachedHead=false checkout HEAD~1",
    "git -c branch.sort=-committerdate branch",
    "git -c push.default=current push . HEAD",
    "git -c gc.auto=0 fetch --refmap= . main",
    "git -c rebase.autoStash=true rebase main",
    "git help -g && git version && git --version && git var GIT_EDITOR",
    "git range-diff main...HEAD && git show-ref && git cat-file -t HEAD && git ls-tree HEAD",
    "git format-patch -1 --stdout | head -3",
    "git format-patch -o patches -1",
    "git archive -o x.tar HEAD",
    "git bundle create x.bundle HEAD",
    "git bisect start HEAD HEAD~1; git bisect reset",
    "git update-ref ORIG_HEAD HEAD",
    "git symbolic-ref --short HEAD",
    "git symbolic-ref HEAD",
    "git symbolic-ref refs/heads/posse/t1 || true",
    "git symbolic-ref HEAD refs/heads/posse/t1",
    "git push . HEAD",
    "b=new; git checkout -b $b",
    "git hash-object -w file.txt",
];

fn with_links(world: &World) {
    symlink("../main", world.task().join("link")).unwrap();
    symlink(world.base.join("out/secret.txt"), world.task().join("filelink")).unwrap();
}

/// CC-220, CC-278: no option, variable, link or path leads out of a worktree unnoticed.
#[test]
fn a_line_that_leads_out_of_the_worktree_asks() {
    let world = World::new();
    with_links(&world);
    let silent: Vec<&(&str, &str)> = LEADS_OUT
        .iter()
        .filter(|(folder, line)| !world.line_asks(folder, line).iter().any(|ask| ask.starts_with("external_directory ")))
        .collect();
    assert!(silent.is_empty(), "{} of {} are not noticed: {silent:#?}", silent.len(), LEADS_OUT.len());
    // The folder that is meant is the one that is shown.
    for (line, folder) in [
        ("git -C {base}/main/sub status", "{base}/main/sub/*"),
        ("git -C ../main status", "{base}/main/*"),
        ("GIT_DIR=../main/.git git status", "{base}/main/*"),
        ("cat link/sub/inner.txt", "{base}/main/sub/*"),
        ("cd \"$X\"", "/*"),
    ] {
        assert_eq!(world.line_asks(".", line), [format!("external_directory {folder}")], "{line}");
    }
}

#[test]
fn what_changes_the_shared_repository_asks_for_its_folder() {
    let world = World::new();
    fs::create_dir(world.task().join("inside")).unwrap();
    let common = "external_directory {base}/main/.git/*".to_owned();
    let silent: Vec<(&&str, Vec<String>)> =
        SHARED.iter().map(|line| (line, world.line_asks(".", line))).filter(|(_, asks)| !asks.contains(&common)).collect();
    assert!(silent.is_empty(), "{} of {} are not noticed: {silent:#?}", silent.len(), SHARED.len());
    assert_eq!(world.line_asks(".", "git branch -f main"), [common]);
}

/// Lines that change files at a place which only the run can tell, and the word that says so.
const SOMEWHERE: &[(&str, &str)] = &[
    ("rm -f $(git worktree list | head -1 | cut -d' ' -f1)/a.txt", "$(git worktree list | head -1 | cut -d' ' -f1)/a.txt"),
    ("cp a.txt $(git worktree list | head -1 | cut -d' ' -f1)/x", "$(git worktree list | head -1 | cut -d' ' -f1)/x"),
    ("M=$(git worktree list | head -1 | cut -d' ' -f1); cp a.txt \"$M/x\"", "$M/x"),
    ("echo x > \"$(git worktree list | head -1 | cut -d' ' -f1)/x\"", "$(git worktree list | head -1 | cut -d' ' -f1)/x"),
    ("D=$(cat list); sed -i s/a/b/ $D/a.txt", "$D/a.txt"),
    ("perl -pi -e 's/a/b/' \"$X\"", "$X"),
    ("touch sub/$(cat list)", "sub/$(cat list)"),
    ("mkdir -p \"$X\"", "$X"),
    ("mv a.txt \"$X\"", "$X"),
    ("mv \"$X\" sub/", "$X"),
    ("cp -t \"$X\" a.txt", "$X"),
    ("install -D a.txt \"$X/b\"", "$X/b"),
    ("install -d \"$X\" sub", "$X"),
    ("ln -s \"$X\" out", "$X"),
    ("rsync -a sub/ \"$X\"", "$X"),
    ("rsync -a --remove-source-files \"$X\" sub/", "$X"),
    ("truncate -s 0 \"$X\"", "$X"),
    ("chmod -R u+w \"$X\"", "$X"),
    ("chown \"$USER\" \"$X\"", "$X"),
    ("patch -d \"$X\" -p1 < a.diff", "$X"),
    ("tar -cf \"$X/a.tar\" sub", "$X/a.tar"),
    ("unzip a.zip -d \"$X\"", "$X"),
    ("curl -so \"$X\" https://example.org/a", "$X"),
    ("tee \"$X\" < a.txt", "$X"),
    ("git clone . \"$X\"", "$X"),
    ("git archive -o \"$X\" HEAD", "$X"),
    ("git checkout-index -a --prefix=\"$X/\"", "$X/"),
    ("timeout 5 rm -rf \"$X\"", "$X"),
    ("env A=1 rm -rf \"$X\"", "$X"),
    ("bash -c 'rm -rf \"$X\"'", "$X"),
    ("bash -c 'rm -rf \"$1\"' _ \"$(cat list)\"", "$1"),
    ("rm -rf $(pwd)/$(cat list)", "$(pwd)/$(cat list)"),
    // What is read from a file is known to nobody.
    ("read P < list; touch \"$P/x\"", "$P/x"),
    ("P=sub; read -r P < list; touch \"$P/x\"", "$P/x"),
    ("P=sub; while true; do touch \"$P/x\"; read -r P; done < list", "$P/x"),
    ("mapfile -t A < list; touch \"${A[0]}/x\"", "${A[0]}/x"),
    ("A=(sub); mapfile -t A < list; touch \"${A[0]}/x\"", "${A[0]}/x"),
    ("for f in $(cat list); do touch $f/x; done", "$f/x"),
    ("while read -r l; do touch \"$l/x\"; done < list", "$l/x"),
    ("cat list | while read -r l; do rm -rf \"$l\"; done", "$l"),
    ("set -- $(cat list); touch \"$1/x\"", "$1/x"),
    ("read X < list; rm -rf \"${X:-sub}\"", "${X:-sub}"),
    ("IFS= read -r P < list && cp a.txt \"$P\"", "$P"),
    ("P=sub; . ./env.sh; touch \"$P/x\"", "$P/x"),
    // Nothing may be listed, and then it is `/x`.
    ("read -r P < <(find . -name nothing); touch \"$P/x\"", "$P/x"),
    // Names come by a pipe.
    ("git worktree list | head -1 | awk '{print $1}' | xargs -I{} rm -rf {}/sub", "{}/sub"),
    ("cat list | xargs -I D cp a.txt D/x", "D/x"),
    ("xargs touch < list", "the names that touch is given"),
    ("xargs -a list rm", "the names that rm is given"),
    ("git ls-files | xargs -a list rm", "the names that rm is given"),
    ("cat list | xargs sed -i s/a/b/", "the names that sed is given"),
    ("cat list | xargs cp a.txt", "the names that cp is given"),
    ("cat list | xargs timeout 5 rm -rf", "the names that rm is given"),
    ("git ls-files | sed 's#^#/tmp/#' | xargs rm", "the names that rm is given"),
    ("git ls-files | cut -c2- | xargs rm", "the names that rm is given"),
    ("git ls-files | xargs -I{} rm .{}", ".{}"),
    ("find . -name '*.o' | grep -o /etc | xargs rm", "the names that rm is given"),
    ("grep -Rl foo . | xargs sed -i s/a/b/", "the names that sed is given"),
    ("parallel touch {}/x :::: list", "{}/x"),
    ("cat list | parallel rm", "the names that rm is given"),
    ("find $(cat list) -name a.txt -delete", "$(cat list)"),
    ("find \"$X\" -name '*.o' -exec rm {} +", "$X"),
    ("find . -name '*.o' -exec mv {} \"$X\" \\;", "$X"),
    ("find -L . -name '*.o' -delete", "find -L"),
    ("cd sub/$X && rm -rf x", "x"),
];

/// What is done to files whose names only the run can tell, but which are in the worktree whichever they are.
const STAYS: &[&str] = &[
    "for f in src/*.rs; do sed -i 's/a/b/' \"$f\"; done",
    "rm -rf build/$(date +%F)",
    "name=x; mkdir -p out/$name",
    "git ls-files '*.rs' | xargs sed -i s/a/b/",
    "git ls-files -z '*.rs' | xargs -0 sed -i s/a/b/",
    "git ls-files | grep -v vendor | head -5 | xargs rm -f",
    "git diff --name-only | xargs touch",
    "git grep -l foo | xargs perl -pi -e 's/foo/bar/'",
    "rg -l 'foo' src | xargs sed -i 's/foo/bar/g'",
    "grep -rl foo . | xargs sed -i 's/foo/bar/g'",
    "grep -rln --include='*.rs' foo src | sort -u | xargs sed -i 's/foo/bar/g'",
    "find . -name '*.o' | xargs rm -f",
    "find . -type f -name '*.orig' -print0 | xargs -0 rm",
    "find . -name '*.o' -exec rm {} +",
    "find src tests -name '*.tmp' -delete",
    "find . -name '*.x' -exec sh -c 'mv \"$1\" \"${1%.x}.y\"' _ {} \\;",
    "find . -name '*.txt' | xargs -I{} cp {} {}.bak",
    "find . -name '*.txt' | xargs -I{} mv {} out/",
    "find . -name '*.txt' | while read -r f; do mv \"$f\" \"${f%.txt}.md\"; done",
    "find . -type d | while IFS= read -r d; do touch \"$d/.keep\"; done",
    "while read -r f; do sed -i s/a/b/ \"$f\"; done < <(git ls-files '*.rs')",
    "while IFS= read -r -d '' f; do rm \"$f\"; done < <(find . -name '*.o' -print0)",
    "mapfile -t files < <(git ls-files '*.o'); rm -f \"${files[@]}\"",
    "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
    "for f in $(git ls-files '*.rs'); do sed -i s/a/b/ \"$f\"; done",
    "for f in $(git diff --name-only); do mkdir -p \"out/$(dirname \"$f\")\" && cp \"$f\" \"out/$f\"; done",
    "for f in $(grep -rl foo src); do sed -i s/foo/bar/ $f; done",
    "for d in a b c; do mkdir -p $d/src && touch $d/src/mod.rs; done",
    "for i in 1 2 3; do touch file$i; done",
    "for i in {1..3}; do mkdir -p run$i; done",
    "seq 5 | xargs -I{} touch file{}",
    "ls *.log | xargs rm",
    "fd -e o -x rm",
    "cp \"$X\" sub/",
    "cp $(cat list) sub/",
    "cat \"$X\" > sub/copy",
    "tar -xf \"$X\"",
    "d=$(pwd); mkdir -p \"$d/out\"",
    "cd \"$(git rev-parse --show-toplevel)\" && rm -rf build",
    "top=$(git rev-parse --show-toplevel); cd \"$top\" && rm -rf build && git status",
    "for f in *.tgz; do d=\"${f%.tgz}\"; mkdir -p \"$d\" && tar -xzf \"$f\" -C \"$d\"; done",
    "top=$(git rev-parse --show-toplevel); rm -rf \"$top/build\"",
    "b=$(git branch --show-current); mkdir -p \"out/$b\"",
    "sed -i \"s/$A/$B/\" file.txt",
    "sed -i -e \"s/$A/$B/\" file.txt",
    "touch -d \"$WHEN\" file.txt",
    "chmod \"$MODE\" file.txt",
    "git checkout $(git merge-base main HEAD) -- file.txt",
    "git add $(git ls-files -m)",
    "cat list | xargs wc -l",
    "wc -l $(git ls-files)",
    "cat \"$X\" | head -3",
    "cat list | xargs grep -n foo",
    "find \"$X\" -name a.txt",
    "find \"$X\" -name a.txt -exec cat {} +",
    "while read -r l; do echo \"$l\"; done < list",
    "cat list | xargs cp -t sub",
    ". ./env.sh && cargo test",
    "ENV=test cargo test",
];

/// CC-220: what is written, moved or removed by a word that nobody knows leads out like a path that is written out.
#[test]
fn what_is_changed_where_nobody_knows_asks_in_words() {
    let (world, main) = (World::new(), World::at("main"));
    let mut wrong = Vec::new();
    for (line, word) in SOMEWHERE {
        let wanted = format!("external_directory `{word}` in `{line}`: where it leads is known only when it runs");
        let asks = world.line_asks(".", line);
        if !asks.contains(&wanted) {
            wrong.push(format!("{line} -> {asks:?}"));
        }
        // Elsewhere only redirections and their like ask.
        let elsewhere = main.line_asks(".", line).contains(&wanted);
        if elsewhere != (line.starts_with("echo") || line.starts_with("tee")) {
            wrong.push(format!("{line} in an ordinary project"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), SOMEWHERE.len());
    // What is known of the place is said.
    for (line, folder) in [
        ("T=$(mktemp -d); cp file.txt \"$T/x\"", "/tmp/?/*"),
        ("d=$(dirname {base}/main/x); rm -rf \"$d/sub\"", "{base}/main/*"),
        ("rm -rf /var/lib/$X/y", "/var/lib/?/*"),
        // A file that is sourced, or that every shell runs first, may send git anywhere.
        (". ./env.sh && git log", "/*"),
        ("source env.sh; git status", "/*"),
        ("BASH_ENV=./env.sh bash -c true", "/*"),
        ("export BASH_ENV=sub/env.sh; bash -c 'git log'", "/*"),
        ("ENV=./env.sh sh -i", "/*"),
        ("cd sub/$X && git commit -am x", "/*"),
        ("git -C sub/$X commit -am x", "/*"),
    ] {
        assert_eq!(world.line_asks(".", line), [format!("external_directory {folder}")], "{line}");
    }
}

#[test]
fn what_stays_in_the_worktree_whatever_it_is_does_not_ask() {
    let world = World::new();
    let asking: Vec<String> = STAYS
        .iter()
        .map(|line| (line, world.line_asks(".", line)))
        .filter(|(_, asks)| !asks.is_empty())
        .map(|(line, asks)| format!("{line} -> {asks:?}"))
        .collect();
    assert!(asking.is_empty(), "{} of {} ask: {asking:#?}", asking.len(), STAYS.len());
}

/// The stack of stashes is one for all worktrees: who takes the newest may take somebody else's work.
#[test]
fn stashes_of_others_are_not_taken_unasked() {
    let world = World::new();
    let silent = |lines: &[&str]| {
        for line in lines {
            assert_eq!(world.line_asks(".", line), [""; 0], "{line}");
        }
    };
    let asking = |lines: &[&str]| {
        for line in lines {
            assert_eq!(world.line_asks(".", line), ["external_directory {base}/main/.git/*"], "{line}");
        }
    };
    let taking = ["git stash pop", "git stash apply", "git stash drop", "git stash branch new", "git stash pop -q --index"];
    silent(&taking);
    // The user's is on top; whether anything is put above it is not known before it runs.
    run(&world.base.join("main"), "echo x >> file.txt && git stash -q");
    asking(&taking);
    asking(&["git stash && git stash pop", "cd sub && git stash pop", "git stash pop stash@{0}"]);
    silent(&["git stash", "git stash list", "git stash show -p stash@{0}", "git stash push -m \"$X\""]);
    // The own one is above it.
    run(&world.task(), "echo y >> file.txt && git stash push -qm 'On main: words'");
    silent(&taking);
    silent(&["git stash && git stash pop", "git stash pop stash@{0}", "git stash pop 0", "git stash apply stash && git stash drop stash"]);
    asking(&[
        "git stash pop stash@{1}",
        "git stash drop 1",
        "git stash branch new stash@{1}",
        "git stash pop && git stash pop",
        "git stash drop; git stash apply",
        "while git stash pop; do :; done",
        "for i in 1 2; do git stash pop; done",
        "f() { git stash pop; }; f; f",
        "seq 2 | xargs -I{} git stash pop",
        "git rebase -x 'git stash pop' HEAD~1",
        "git stash pop \"$X\"",
        "git stash $X",
        "git stash apply stash@{1.hour.ago}",
        "git stash clear",
    ]);
    run(&world.task(), "echo z >> file.txt && git stash -q");
    silent(&["git stash pop && git stash pop", "git stash drop stash@{1}"]);
    asking(&["git stash pop && git stash pop && git stash pop"]);
    // A branch whose name begins like the own one is another.
    run(&world.base.join("main"), "git worktree add -q ../ten -b posse/t10 && cd ../ten && echo x >> file.txt && git stash -q");
    asking(&taking);
    // Without its log nobody knows whose they are.
    run(&world.task(), "git stash clear && echo z >> file.txt && git stash -q");
    silent(&taking);
    fs::remove_file(world.base.join("main/.git/logs/refs/stash")).unwrap();
    asking(&taking);
}

#[test]
fn settings_that_run_something_are_protected_wherever_they_are_written() {
    for workspace in ["task", "main"] {
        let world = World::at(workspace);
        for line in [
            "git config core.worktree ../main",
            "git config core.hooksPath sub",
            "git config --add alias.x '!ls'",
            "git config -e",
            "git config -f .git/config core.pager sub/x",
            "git config --file=.git/config core.pager sub/x",
        ] {
            assert!(world.line_asks(".", line).contains(&"protected .git/config".to_owned()), "{workspace}: {line}");
        }
    }
    let world = World::at("main");
    for line in ["git config user.name x", "git config core.worktree", "git config --get-all remote.origin.url", "git config list"] {
        assert_eq!(world.line_asks(".", line), [""; 0], "{line}");
    }
}

/// The list above is right about itself: each line asks for nothing, and then it runs, and nothing else has changed.
#[test]
fn the_tasks_own_work_neither_asks_nor_changes_anything_shared() {
    let world = World::new();
    let rules = Rules(vec![Rule { key: "*".into(), pattern: "*".into(), action: Verdict::Allow, origin: String::new() }]);
    let (start, before) = (run(&world.task(), "git rev-parse HEAD"), world.shared());
    for line in OWN {
        assert_eq!(world.line_asks(".", line), [""; 0], "{line}");
        let look = world.look("bash", &json!({"command": line}));
        assert_eq!(look.reader.unwrap().0.judge(&rules).decision.verdict, Verdict::Allow, "{line}");
        run(&world.task(), line);
        assert_eq!(world.shared(), before, "{line}");
        run(
            &world.task(),
            &format!(
                "git checkout -qfB posse/t1 {start} && git clean -qfdx && git for-each-ref refs/heads/new --format='delete %(refname)' | git update-ref --stdin",
                start = start.trim()
            ),
        );
    }
}

/// In a worktree the same lines ask as elsewhere, and besides them only those that change branches of others.
#[test]
fn what_agents_run_all_day_is_no_more_asked_about_than_elsewhere() {
    let (task, main) = (World::new(), World::at("main"));
    let more: Vec<String> = daily::BENIGN
        .iter()
        .map(|line| (line, task.line_asks(".", line), main.line_asks(".", line)))
        .filter(|(_, here, there)| here.len() != there.len())
        .map(|(line, here, _)| format!("{line} -> {}", here.join(", ")))
        .collect();
    assert_eq!(more, [""; 0]);
}

/// The same words in an ordinary project are its own business.
#[test]
fn an_ordinary_repository_is_not_shared() {
    let world = World::at("main");
    fs::create_dir(world.base.join("main/inside")).unwrap();
    // What these do to paths and to protected files is not about worktrees.
    let elsewhere = |line: &&&str| !line.contains("..") && !line.contains(".git") && !line.contains("hooks");
    for line in SHARED.iter().filter(elsewhere) {
        let asks = world.line_asks(".", line);
        assert!(!asks.iter().any(|ask| ask.starts_with("external_directory ")), "{line}: {asks:?}");
    }
    assert_eq!(world.line_asks(".", "cd \"$X\" && git -C \"$Y\" status"), [""; 0]);
}

#[test]
fn a_repository_of_its_own_inside_the_worktree_is_not_shared() {
    let world = World::new();
    run(&world.task(), "git init -q nested && git clone -q . cloned");
    for line in ["cd nested && git branch -f main", "git -C cloned checkout main", "cd cloned && git gc && git config user.name x"] {
        assert_eq!(world.line_asks(".", line), [""; 0], "{line}");
    }
    assert_eq!(world.line_asks("nested", "git branch -f main"), [""; 0]);
    // A submodule of the worktree has its git folder in the worktree's own.
    run(&world.task(), "git -c protocol.file.allow=always submodule --quiet add ../out vendor && git -C vendor branch other");
    assert_eq!(world.line_asks("vendor", "git checkout other"), [""; 0]);
    // Out of it again, and it is the shared one.
    assert_eq!(world.line_asks("nested", "cd .. && git branch -f main"), ["external_directory {base}/main/.git/*"]);
}

#[test]
fn the_own_branch_is_the_one_that_is_checked_out() {
    let world = World::new();
    run(&world.task(), "git checkout -q -b mine");
    assert_eq!(world.line_asks(".", "git branch -f mine HEAD~1"), [""; 0]);
    assert_eq!(world.line_asks(".", "git checkout posse/t1"), ["external_directory {base}/main/.git/*"]);
    run(&world.task(), "git checkout -q --detach");
    assert_eq!(world.line_asks(".", "git branch -f mine HEAD~1"), ["external_directory {base}/main/.git/*"]);
    assert_eq!(world.line_asks(".", "git commit -m x"), [""; 0]);
    // Git may write the way to its folder relative to the worktree.
    let pointer = world.task().join(".git");
    fs::write(&pointer, "gitdir: ../main/.git/worktrees/task\n").unwrap();
    assert_eq!(world.line_asks(".", "git branch -D other"), ["external_directory {base}/main/.git/*"]);
}

/// CC-220: file tools are bound to the worktree too, by every way to spell a path.
#[test]
fn file_tools_ask_before_they_leave_the_worktree() {
    let world = World::new();
    with_links(&world);
    let main = world.base.join("main");
    let paths = [
        (main.join("file.txt").display().to_string(), "{base}/main/*"),
        ("../main/file.txt".to_owned(), "{base}/main/*"),
        ("sub/../../main/file.txt".to_owned(), "{base}/main/*"),
        ("link/file.txt".to_owned(), "{base}/main/*"),
        ("link/.git/config".to_owned(), "{base}/main/.git/*"),
        ("filelink".to_owned(), "{base}/out/*"),
        (main.join(".git/worktrees/task/HEAD").display().to_string(), "{base}/main/.git/worktrees/task/*"),
    ];
    for (path, folder) in paths {
        let patch = format!("*** Begin Patch\n*** Update File: {path}\n@@\n-one\n+two\n*** End Patch\n");
        let calls = [
            ("read", json!({"filePath": path})),
            ("edit", json!({"filePath": path, "oldString": "one", "newString": "two"})),
            ("write", json!({"filePath": path, "content": "x"})),
            ("multi_edit", json!({"filePath": path, "edits": [{"oldString": "one", "newString": "two"}]})),
            ("apply_patch", json!({"patch": patch, "patchText": patch})),
            ("grep", json!({"pattern": "one", "path": path})),
        ];
        let known = |name: &str| world.tools.iter().any(|tool| tool.spec().name == name);
        for (tool, input) in calls.iter().filter(|(tool, _)| known(tool)) {
            let asks = world.asks(tool, input);
            assert!(asks.contains(&format!("external_directory {folder}")), "{tool} {path}: {asks:?}");
        }
    }
    for (path, folder) in [("..", "{base}/*"), ("link", "{base}/main/*"), ("../main/sub", "{base}/main/sub/*")] {
        for tool in ["list", "glob", "grep"] {
            let asks = world.asks(tool, &json!({"path": path, "pattern": "one"}));
            assert_eq!(asks, [format!("external_directory {folder}")], "{tool} {path}");
        }
    }
    // What is in the worktree does not ask, except for the file that says where the repository is.
    for (tool, input) in [
        ("read", json!({"filePath": world.task().join("file.txt")})),
        ("edit", json!({"filePath": "sub/../file.txt", "oldString": "one", "newString": "two"})),
        ("write", json!({"filePath": "new/file.txt", "content": ""})),
        ("read", json!({"filePath": ".git"})),
        ("list", json!({"path": "."})),
        ("grep", json!({"pattern": "one"})),
        ("glob", json!({"pattern": "**/*"})),
    ] {
        assert_eq!(world.asks(tool, &input), [""; 0], "{tool} {input}");
    }
    assert_eq!(world.asks("write", &json!({"filePath": ".git", "content": "gitdir: ../out/.git"})), ["protected .git"]);
    assert_eq!(world.line_asks(".", "echo 'gitdir: ../out/.git' > .git"), ["protected .git"]);
}
