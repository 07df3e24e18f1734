//! A shell line as the kernel judges it: the reading that goes with a look, and what the line touches besides commands.
//!
//! The verdict on commands is `shell.rs`; here it meets the rules of other keys. A rule that denies a file denies it to
//! commands too, as far as their words name it. Knows no session and asks nobody.
//!
//! In a linked worktree what git does to branches, settings and objects is done to the repository it was made from: that
//! is a folder outside, whichever words say so.

mod globs;
mod repository;

use std::path::{Path, PathBuf};

use posse_session::{Decision, Judgement, Reading, Rule, Rules, Touch, Verdict, Workspace};

use crate::{
    paths::{is_secret, name_in, real, tidy},
    protected::is_protected,
    shell::{Files, Surroundings, is_installed, judge_shell, outside_touch},
};

#[derive(Debug)]
pub(crate) struct ShellLine {
    command: String,
    surroundings: Surroundings,
    touches: Vec<Touch>,
    files: Files,
}

impl ShellLine {
    /// The line as it would run in this folder.
    pub(crate) fn new(command: &str, folder: &Path, workspace: &dyn Workspace) -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let surroundings = Surroundings { root: workspace.root().to_owned(), cwd: folder.to_owned(), home };
        // What is touched is the same under all rules, so it is asked of a list that denies nothing.
        let everything = Rule { key: "*".into(), pattern: "*".into(), action: Verdict::Allow, origin: String::new() };
        let found = judge_shell(command, &Rules(vec![everything]), &surroundings);
        let (mut touches, mut files) = (found.touches, found.files);
        add_expanded(&mut touches, &mut files, command, workspace.root());
        add_linked(&mut touches, &mut files, workspace.root());
        touches.extend(repository::shared(&found.repository, workspace.root()).iter().map(|path| outside_touch(path)));
        for pattern in repository::reached(&found.repository, workspace.root()) {
            let reached = Touch::new("external_directory", pattern);
            if !touches.contains(&reached) {
                touches.push(reached);
            }
        }
        let guarded = |path: &&String| workspace.is_guarded(Path::new(path));
        touches.extend(files.written.iter().filter(guarded).map(|path| Touch::new("protected", path)));
        Self { command: command.to_owned(), surroundings, touches, files }
    }

    /// Commands, files, folders outside.
    pub(crate) fn touches(&self) -> Vec<Touch> {
        self.touches.clone()
    }

    /// The rule that denies a file the line names. To deny all reading says nothing about commands; to deny all editing does.
    fn denied_file(&self, rules: &Rules) -> Option<Decision> {
        let named = self.files.named.iter().map(|path| (Touch::new("read", path), false));
        let written = self.files.written.iter().map(|path| (Touch::new("edit", path), true));
        // Who is given a file need not change it: only a rule that names files is about it.
        let handed = self.files.handed.iter().map(|path| (Touch::new("edit", path), false));
        let denies = |(touch, all): (Touch, bool)| {
            let rule = rules.matching(&touch)?;
            (rule.action == Verdict::Deny && (all || rule.pattern != "*")).then(|| rules.judge(&touch))
        };
        named.chain(written).chain(handed).find_map(denies)
    }
}

/// Names with wildcards are also the names that they stand for when the line is judged. Where that is more than can be looked at, the line asks as
/// if it went outside.
fn add_expanded(touches: &mut Vec<Touch>, files: &mut Files, command: &str, root: &Path) {
    // A wildcard over links to what the system has installed, as in `ls .venv/bin/*`, reads nothing of anybody's.
    let installed = |name: &String| real(&root.join(name)).is_ok_and(|target| !target.starts_with(root) && is_installed(&target));
    for (names, write) in [(&mut files.named, false), (&mut files.written, true), (&mut files.handed, true)] {
        let found = globs::expanded(names.iter(), root, command);
        let unseen = Touch::new("external_directory", format!("wildcards in `{command}` stand for more files than can be looked at"));
        if found.cut && !touches.contains(&unseen) {
            touches.push(unseen);
        }
        let new = found.names.into_iter().filter(|name| !names.contains(name) && (write || !installed(name)));
        let new = new.collect::<Vec<_>>();
        names.extend(new);
    }
}

/// Names that are links, or lead through one, are also what they lead to: out of the project, to a secret, to a protected file.
fn add_linked(touches: &mut Vec<Touch>, files: &mut Files, root: &Path) {
    let follow = |names: &mut Vec<String>, write: bool, touches: &mut Vec<Touch>| {
        for name in names.clone() {
            let spelled = root.join(&name);
            let Ok(target) = real(&spelled) else { continue };
            if target == tidy(&spelled) {
                continue;
            }
            let leads_to = name_in(root, &target);
            if !target.starts_with(root) && !touches.contains(&outside_touch(&target)) {
                touches.push(outside_touch(&target));
            }
            if is_secret(&leads_to) {
                touches.push(Touch::new("read", &leads_to));
            }
            if write && is_protected(&leads_to) {
                touches.push(Touch::new("protected", &leads_to));
            }
            names.push(leads_to);
        }
    };
    follow(&mut files.named, false, touches);
    follow(&mut files.written, true, touches);
    follow(&mut files.handed, true, touches);
}

impl Reading for ShellLine {
    fn key(&self) -> &str {
        "bash"
    }

    fn judge(&self, rules: &Rules) -> Judgement {
        let found = judge_shell(&self.command, rules, &self.surroundings);
        if let Some(decision) = self.denied_file(rules).filter(|_| found.verdict != Verdict::Deny) {
            return Judgement { decision, asked: Vec::new() };
        }
        let touch = found.asking.first().map_or_else(|| Touch::new("bash", &self.command), |asked| asked.touch.clone());
        // The rule has a place of its own in the decision.
        let named = found.rule.as_ref().and_then(|rule| found.why.strip_suffix(&format!(": rule {rule}")));
        let why = named.map_or(found.why.clone(), str::to_owned);
        let decision = Decision { rule: found.rule, origin: found.origin, why, ..Decision::of(found.verdict, Some(touch)) };
        Judgement { decision, asked: found.asking }
    }
}
