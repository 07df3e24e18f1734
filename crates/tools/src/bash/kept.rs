//! A background shell as its session has it: something that is not over yet, and the notice of its end.
//!
//! The model hears of an end once: from `kill_shell`, which it wanted, from a `bash_output` that showed it, or else from
//! the notice. Whoever lets go of the shell before its end ends it, with all it has started.

use std::sync::Arc;

use posse_session::Ended;

use super::{output::Output, watch::Over};
use crate::{
    private::Private,
    shells::{End, Shell},
};

/// What a notice shows of the output: some twenty lines, enough to see how it ended. The rest is a call away.
const TAIL_BYTES_MAX: usize = 2_000;

pub(super) struct Kept {
    shell: Arc<Shell>,
    title: String,
    output: Output,
}

impl Kept {
    /// From here on the shell lives no longer than this.
    pub(super) fn new(shell: &Arc<Shell>, title: String, private: Private) -> Self {
        Self { shell: Arc::clone(shell), title, output: Output::new(shell.path().to_owned(), private) }
    }

    /// Ready when the shell has ended, with the words for a model that does not know it yet.
    pub(super) async fn over(self) -> Option<String> {
        let end = self.shell.ended().await;
        // Whoever is reading it now is about to say so.
        self.shell.nobody_reads().await;
        (!self.shell.is_told()).then(|| self.notice(&end))
    }

    fn notice(&self, end: &End) -> String {
        let id = self.shell.id();
        let how = how(end);
        let mut words = format!("[shell {id} {how}] {}\n", self.title);
        if end.words != how {
            words.push_str(&format!("({})\n", end.words));
        }
        let tail = self.output.tail(TAIL_BYTES_MAX);
        words.push('\n');
        if tail.before != 0 {
            words.push_str(&format!("... {} bytes before this\n", tail.before));
        }
        words.push_str(if tail.text.is_empty() { "(no output)" } else { &tail.text });
        words.push_str(if words.ends_with('\n') { "\n" } else { "\n\n" });
        words.push_str(&format!(
            "output: {} (bash_output with shell_id {id} reads what you have not read, with since: 0 all of it)",
            self.shell.path().display()
        ));
        words
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shell.let_go();
    }
}

/// How it ended, in as few words as a list needs.
fn how(end: &End) -> String {
    match end.over {
        Over::Ended(Ended::Code(code)) => format!("exited with code {code}"),
        Over::Ended(Ended::Signal(signal)) => format!("killed by signal {signal}"),
        Over::Ended(Ended::Unknown) => "lost".to_owned(),
        Over::TimedOut => "timed out".to_owned(),
        Over::Stopped | Over::Flooded | Over::Hogged => "ended".to_owned(),
    }
}
