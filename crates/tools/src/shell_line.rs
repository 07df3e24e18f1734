//! A shell line as the kernel judges it: the reading that goes with a look, and what the line touches besides commands.
//!
//! The verdict itself is `shell.rs`; here it only meets the seams. Knows no session and asks nobody.

use std::path::{Path, PathBuf};

use posse_session::{Decision, Judgement, Reading, Rule, Rules, Touch, Verdict, Workspace};

use crate::shell::{Surroundings, judge_shell};

#[derive(Debug)]
pub(crate) struct ShellLine {
    command: String,
    surroundings: Surroundings,
}

impl ShellLine {
    /// The line as it would run in this folder.
    pub(crate) fn new(command: &str, folder: &Path, workspace: &dyn Workspace) -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let surroundings = Surroundings { root: workspace.root().to_owned(), cwd: folder.to_owned(), home };
        Self { command: command.to_owned(), surroundings }
    }

    /// Commands, files, folders outside. The same under all rules, so it is asked of a list that denies nothing.
    pub(crate) fn touches(&self) -> Vec<Touch> {
        let everything = Rule { key: "*".into(), pattern: "*".into(), action: Verdict::Allow, origin: String::new() };
        judge_shell(&self.command, &Rules(vec![everything]), &self.surroundings).touches
    }
}

impl Reading for ShellLine {
    fn key(&self) -> &str {
        "bash"
    }

    fn judge(&self, rules: &Rules) -> Judgement {
        let found = judge_shell(&self.command, rules, &self.surroundings);
        let touch = found.asking.first().map_or_else(|| Touch::new("bash", &self.command), |asked| asked.touch.clone());
        // The rule has a place of its own in the decision.
        let named = found.rule.as_ref().and_then(|rule| found.why.strip_suffix(&format!(": rule {rule}")));
        let why = named.map_or(found.why.clone(), str::to_owned);
        let decision = Decision { rule: found.rule, origin: found.origin, why, ..Decision::of(found.verdict, Some(touch)) };
        Judgement { decision, asked: found.asking }
    }
}
