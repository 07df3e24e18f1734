//! Who is asked while a run goes on: nobody, whoever answers from another terminal, or the person at this one.
//!
//! Asks are read from the session and answers are commands to it, so an answer that comes by letter simply takes the
//! question away. Lines are read only when there are some: nothing blocks the runtime, and Ctrl-C stays a signal.

use std::{
    collections::HashSet,
    convert::Infallible,
    io::{IsTerminal as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use posse_api::Ask;
use posse_engine::{Handle, read_all, restore};
use posse_session::{Answer, AskId, Asking, By, CallState, Command, Hold, Log, OpenAsk, OpenCall, Scope, SessionId, Summary, Text};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{QueueSelector, tcflush, tcgetpgrp},
};

use crate::{
    args::{How, OnAsk},
    asks::{request, words_of},
    print::{flat, to_stderr},
};

/// The kernel's bound for a line of a terminal.
const LINE_BYTES_MAX: usize = 4_096;

/// How often it is looked whether somebody has typed; nobody notices, and it is done only while a question is open.
const LOOK: Duration = Duration::from_millis(50);

/// How a run gets its answers.
pub(crate) enum Asker {
    /// Every ask is refused, and the model is told.
    Nobody,
    /// They come from elsewhere; one line says how to give them.
    Elsewhere {
        told: HashSet<AskId>,
        quiet: bool,
    },
    Here(Box<Terminal>),
}

impl Asker {
    pub(crate) fn new(how: &How) -> Self {
        let is_terminal = || std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        match how.on_ask {
            Some(OnAsk::Deny | OnAsk::DenyOk) => Self::Nobody,
            Some(OnAsk::Wait) => Self::Elsewhere { told: HashSet::new(), quiet: how.quiet },
            None if is_terminal() => Terminal::open().map_or(Self::Nobody, |terminal| Self::Here(Box::new(terminal))),
            None => Self::Nobody,
        }
    }

    pub(crate) fn asking(&self) -> Asking {
        match self {
            Self::Nobody => Asking::Nobody,
            Self::Elsewhere { .. } | Self::Here(_) => Asking::Open,
        }
    }

    /// Brings every ask to whoever can answer it, for as long as it is polled.
    pub(crate) async fn serve(&mut self, handle: &Handle, log: &dyn Log) -> Infallible {
        if matches!(self, Self::Nobody) {
            return std::future::pending().await;
        }
        loop {
            let Some(open) = self.next(handle) else {
                handle.changed().await;
                continue;
            };
            let ask = described(handle.id(), &open.0, &(open.1, open.2), log).await;
            match self {
                Self::Nobody => std::future::pending().await,
                Self::Elsewhere { told, quiet } => {
                    told.insert(ask.ask.clone());
                    if !*quiet {
                        to_stderr(&format!(
                            "posse: {}; from another terminal: posse asks answer {} {}",
                            subject(&ask),
                            ask.ask,
                            words_of(&ask)
                        ));
                    }
                }
                Self::Here(terminal) => terminal.ask(&ask, handle).await,
            }
        }
    }

    /// The oldest ask that was not dealt with yet.
    fn next(&self, handle: &Handle) -> Option<(SessionId, AskId, OpenCall)> {
        let is_new = |ask: &AskId| match self {
            Self::Nobody => false,
            Self::Elsewhere { told, .. } => !told.contains(ask),
            Self::Here(_) => true,
        };
        // Ids sort by time.
        let sessions = handle.sessions();
        let asks = sessions.iter().flat_map(|session| session.open_asks().map(move |(ask, call)| (session.id(), ask, call)));
        let oldest = asks.filter(|(_, ask, _)| is_new(ask)).min_by(|one, other| one.1.cmp(other.1));
        oldest.map(|(session, ask, call)| (session.clone(), ask.clone(), call.clone()))
    }
}

/// What waits, on one line.
fn subject(ask: &Ask) -> String {
    let is_task = !ask.description.is_empty() || ask.name.is_some();
    let (asker, of) =
        if is_task { (flat(&ask.who()), format!(" of {}", flat(&ask.who()))) } else { ("the agent".to_owned(), String::new()) };
    match ask.questions.first() {
        Some(question) => format!("{asker} asks: {}", flat(&question.text)),
        None => format!("{}{of} waits for your permission: {}", flat(&ask.tool), flat(&ask.what)),
    }
}

/// An open ask with what the log knows of its call. What cannot be read is left out: the ask itself says what it is about.
async fn described(root: &SessionId, session: &SessionId, (ask, call): &(AskId, OpenCall), log: &dyn Log) -> Ask {
    let mut facts = read_all(log, session, call.seq.saturating_sub(1)).await.unwrap_or_default();
    facts.retain(|record| posse_api::concerns(&record.event, &call.call));
    let _ = restore(log, &mut facts).await;
    let tree = log.summaries(Some(root)).await.unwrap_or_default();
    let summary = tree.iter().find(|summary| summary.session == *session).cloned();
    let summary = summary.unwrap_or_else(|| Summary::new(session.clone()));
    let decision = match &call.state {
        CallState::Asked { decision, .. } => decision.clone(),
        _ => posse_session::Decision::allow(),
    };
    let open = OpenAsk { ask: ask.clone(), call: call.call.clone(), at: summary.updated, decision };
    Ask::new(&summary, &open, &facts, true).named_in(&tree)
}

/// The person at this terminal.
pub(crate) struct Terminal {
    input: OwnedFd,
    /// Bytes of a line that has not ended yet.
    begun: Vec<u8>,
    /// The terminal is gone: every ask is refused.
    gone: bool,
}

/// What a person typed in answer to an ask.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Answer(Answer),
    /// Refuse; the words for the model follow on a line of their own.
    NoBecause,
    /// Refuse everything and end the turn.
    Stop,
    /// Not understood.
    What,
}

impl Terminal {
    fn open() -> std::io::Result<Self> {
        Ok(Self { input: std::io::stdin().as_fd().try_clone_to_owned()?, begun: Vec::new(), gone: false })
    }

    /// Asks until there is an answer, whoever gives it.
    async fn ask(&mut self, ask: &Ask, handle: &Handle) {
        // The picture of the team stands still while somebody is asked.
        let _still = crate::narrate::screen::still();
        if !self.gone {
            to_stderr(&format!("\n? {} wants {}  ({} in {})", flat(&ask.who()), flat(&ask.tool), ask.ask, ask.session));
            request(ask).iter().for_each(|line| to_stderr(&format!("  {line}")));
            // What was typed before the question was there is no answer to it.
            let _ = tcflush(&self.input, QueueSelector::IFlush);
            self.begun.clear();
        }
        let session = ask.session.clone();
        tokio::select! {
            said = self.answer(ask) => match said {
                Some(Said::Answer(answer)) => say(handle, &session, &ask.ask, answer, By::User).await,
                Some(_) => stop(handle).await,
                // Nobody can be asked any more.
                None => say(handle, &session, &ask.ask, Answer::No { say: String::new() }, By::Policy).await,
            },
            () = closed(handle, &ask.ask) => to_stderr("\n  this was answered elsewhere, or is not needed any more"),
        }
    }

    /// The person's answer, or `None` when the terminal has gone away.
    async fn answer(&mut self, ask: &Ask) -> Option<Said> {
        loop {
            prompt(if ask.is_question() {
                "  a number or your words, n refuses, a refuses and stops: "
            } else {
                "  y once, s session, t tree, p project, n no, a no to all and stop: "
            });
            let line = self.line().await?;
            match understood(ask, &line) {
                Said::What => prompt("  that is none of them; "),
                Said::NoBecause => {
                    prompt("  words for the model, or nothing: ");
                    let words = self.line().await?;
                    return Some(Said::Answer(Answer::No { say: words.trim().to_owned() }));
                }
                said => return Some(said),
            }
        }
    }

    /// The next line, without its end. `None` when there will be none.
    async fn line(&mut self) -> Option<String> {
        while !self.gone {
            if let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            // To read where nothing is would stop the runtime, and to read in the background would stop the process.
            if !has_input(&self.input) || is_in_background(&self.input) {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let mut bytes = [0; LINE_BYTES_MAX];
            match rustix::io::read(&self.input, &mut bytes) {
                Ok(0) => self.gone = true,
                Ok(count) => self.begun.extend(&bytes[..count]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => self.gone = true,
            }
        }
        None
    }
}

fn has_input(terminal: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| 0 < ready)
}

/// A terminal that is not this process's own has no foreground to be in.
fn is_in_background(terminal: &OwnedFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground != rustix::process::getpgrp())
}

/// A line to be gone on with; if it cannot be written there is nobody to tell.
fn prompt(words: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(words.as_bytes()).and_then(|()| err.flush());
}

fn understood(ask: &Ask, line: &str) -> Said {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).map_or((line, ""), |(word, rest)| (word, rest.trim()));
    let yes = |scope| Said::Answer(Answer::Yes { scope });
    match (word.to_lowercase().as_str(), ask.is_question()) {
        ("", _) => Said::What,
        ("a", _) if rest.is_empty() => Said::Stop,
        ("n" | "no", _) if rest.is_empty() => Said::NoBecause,
        ("n" | "no", false) => Said::Answer(Answer::No { say: rest.to_owned() }),
        (_, true) => Said::Answer(Answer::Words { say: line.to_owned() }),
        (_, false) if !rest.is_empty() => Said::What,
        ("y" | "yes" | "once", _) => yes(Scope::Once),
        ("s" | "session", _) => yes(Scope::Session),
        ("t" | "tree", _) => yes(Scope::Tree),
        ("p" | "project", _) => yes(Scope::Project),
        _ => Said::What,
    }
}

async fn say(handle: &Handle, session: &SessionId, ask: &AskId, answer: Answer, by: By) {
    // A run that has ended meanwhile says so itself.
    let _ = handle.command_to(session, Command::Answer { ask: ask.clone(), answer, by }).await;
}

/// Refuses every open ask and ends the turn, in one append where possible: the model is not called in between.
async fn stop(handle: &Handle) {
    let sessions = handle.sessions();
    let asks = sessions.iter().flat_map(|session| session.open_asks().map(move |(ask, _)| (session.id().clone(), ask.clone())));
    let open: Vec<(SessionId, AskId)> = asks.collect();
    let halt = handle.command(Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() });
    let refuse =
        |(session, ask): (SessionId, AskId)| async move { say(handle, &session, &ask, Answer::No { say: String::new() }, By::User).await };
    let Some((last, others)) = open.split_last() else { return drop(halt.await) };
    // While one is open the model is not called; the last refusal and the end of the turn go out together.
    for ask in others {
        refuse(ask.clone()).await;
    }
    let _ = tokio::join!(refuse(last.clone()), halt);
}

/// Ready when the ask is no longer open.
async fn closed(handle: &Handle, ask: &AskId) {
    let is_open = || handle.sessions().iter().any(|session| session.open_asks().any(|(open, _)| open == ask));
    while is_open() {
        handle.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use posse_session::{CallId, Decision, Touch, Verdict};

    use super::*;

    fn ask(key: &str) -> Ask {
        let decision = Decision::of(Verdict::Ask, Some(Touch::new(key, "x")));
        let open = OpenAsk { ask: AskId::new("ask_1"), call: CallId::new("call_1"), at: Default::default(), decision };
        Ask::new(&Summary::new(SessionId::new("ses_1")), &open, &[], true)
    }

    #[test]
    fn what_a_person_types_is_understood_or_asked_again() {
        let yes = |scope| Said::Answer(Answer::Yes { scope });
        let no = |say: &str| Said::Answer(Answer::No { say: say.into() });
        let words = |say: &str| Said::Answer(Answer::Words { say: say.into() });
        for (key, line, expected) in [
            ("bash", "y", yes(Scope::Once)),
            ("bash", "  Yes ", yes(Scope::Once)),
            ("bash", "s", yes(Scope::Session)),
            ("bash", "tree", yes(Scope::Tree)),
            ("bash", "p", yes(Scope::Project)),
            ("bash", "n", Said::NoBecause),
            ("bash", "n not now", no("not now")),
            ("bash", "a", Said::Stop),
            ("bash", "", Said::What),
            ("bash", "yy", Said::What),
            ("bash", "y but only this", Said::What),
            ("question", "y", words("y")),
            ("question", "a blue one", words("a blue one")),
            ("question", "no idea", words("no idea")),
            ("question", "n", Said::NoBecause),
            ("question", "a", Said::Stop),
            ("question", " ", Said::What),
        ] {
            assert_eq!(understood(&ask(key), line), expected, "{key}: {line:?}");
        }
    }
}
