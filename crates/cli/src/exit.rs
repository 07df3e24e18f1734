//! Exit codes, and the one place where an error becomes words on stderr.

use std::process::ExitCode;

/// How the process ends. If several hold, the most important one counts: `run.rs` decides which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    /// Wrong usage or configuration.
    Usage,
    Limit,
    /// Something was denied because nobody could answer.
    Unanswered,
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Limit => 3,
            Exit::Unanswered => 4,
            Exit::Interrupted => 130,
        })
    }
}

/// Why a command ended early: what happened, where, what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    words: String,
}

impl Failure {
    pub(crate) fn failed(words: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, words: words.into() }
    }

    pub(crate) fn usage(words: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, words: words.into() }
    }

    /// For an end that is neither: a limit, an interrupt.
    pub(crate) fn ended(exit: Exit, words: impl Into<String>) -> Self {
        Self { exit, words: words.into() }
    }

    /// The same, with a word on what it means here.
    pub(crate) fn with(self, words: &str) -> Self {
        Self { words: format!("{}; {words}", self.words), ..self }
    }

    /// What happened, for somebody else to say.
    pub(crate) fn into_words(self) -> String {
        self.words
    }

    /// Prints the words and gives the code.
    pub(crate) fn report(self) -> ExitCode {
        crate::print::to_stderr(&format!("posse: {}", self.words));
        self.exit.into()
    }
}
