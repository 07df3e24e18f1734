//! What a run tells while it goes on: lines on stderr for people, `stream-json` on stdout for scripts.
//!
//! Reads the log like any other follower, so nothing is printed that is not durable; live text is shown and forgotten.

use std::{
    io::IsTerminal as _,
    sync::Arc,
    time::{Duration, Instant},
};

use posse_api::{Lines, delta_line, words};
use posse_engine::{Hub, World, restore};
use posse_session::{Event, Progress, Record, Seq, SessionId, Summary};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    args::{Format, How},
    print::{Out, safe, to_stderr},
};

/// Facts read at once.
const PAGE: usize = 500;

/// How long to wait when the log cannot be read.
const READ_AGAIN: Duration = Duration::from_millis(100);

/// How long the last facts may take to be read.
const FINISH_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Narrator {
    finish: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Narrator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Narrator {
    pub(crate) fn start(hub: &Hub, session: &SessionId, after: Seq, how: &How, out: Out) -> Self {
        let teller = Teller {
            world: hub.world().clone(),
            session: session.clone(),
            facts: Lines::new(session.clone()),
            seq: after,
            stream: how.format == Some(Format::StreamJson),
            lines: !how.quiet,
            terminal: std::io::stderr().is_terminal(),
            began: Instant::now(),
            calls: Vec::new(),
            out,
        };
        let (finish, finished) = oneshot::channel();
        let task = tokio::spawn(teller.tell(finished));
        Self { finish: Some(finish), task }
    }

    /// Tells what is left and ends.
    pub(crate) async fn finish(&mut self) {
        if let Some(finish) = self.finish.take() {
            let _ = finish.send(());
        }
        let _ = tokio::time::timeout(FINISH_MAX, &mut self.task).await;
    }
}

/// What a line of progress says of a call.
const TITLE_CHARS_MAX: usize = 60;

fn short(title: &str) -> String {
    let clipped: String = safe(title).chars().take(TITLE_CHARS_MAX).collect();
    if clipped.len() < title.len() { format!("{}…", clipped.trim_end_matches('…')) } else { clipped }
}

struct Teller {
    world: Arc<World>,
    session: SessionId,
    facts: Lines,
    seq: Seq,
    stream: bool,
    lines: bool,
    terminal: bool,
    began: Instant,
    /// Open calls: id, what they do, since when.
    calls: Vec<(String, String, Instant)>,
    out: Out,
}

impl Teller {
    async fn tell(mut self, mut finished: oneshot::Receiver<()>) {
        if !self.stream && !self.lines {
            return;
        }
        let mut live = self.world.live.listen();
        // One wait for the next fact, renewed only when it came: live pieces are many.
        let mut changed = Box::pin(self.changed());
        loop {
            tokio::select! {
                biased;
                shown = live.recv() => if let Ok(shown) = shown && shown.session == self.session { self.show(&shown.progress).await },
                () = &mut changed => {
                    if !self.read().await {
                        tokio::time::sleep(READ_AGAIN).await;
                    }
                    changed.set(self.changed());
                }
                _ = &mut finished => break,
            }
        }
        self.read().await;
        if self.lines
            && let Ok(tree) = self.world.log.summaries(Some(&self.session)).await
        {
            self.close(&tree);
        }
    }

    fn changed(&self) -> impl Future<Output = ()> + use<> {
        let (world, session, seq) = (self.world.clone(), self.session.clone(), self.seq);
        async move { world.log.changed(&session, seq).await }
    }

    /// Tells every fact since the last one; `false` when the log cannot be read right now.
    async fn read(&mut self) -> bool {
        loop {
            let Ok(mut page) = self.world.log.read(&self.session, self.seq, PAGE).await else { return false };
            if restore(&*self.world.log, &mut page).await.is_err() {
                return false;
            }
            if page.is_empty() {
                return true;
            }
            for record in &page {
                self.seq = record.seq;
                if self.stream {
                    self.out.line(self.facts.line(record).to_string()).await;
                }
                if self.lines {
                    self.narrate(record);
                }
            }
        }
    }

    async fn show(&self, progress: &Progress) {
        if self.stream
            && let Some(line) = delta_line(&self.session, progress)
        {
            self.out.line(line.to_string()).await;
        }
        if self.lines
            && let Progress::Waiting { why, until: Some(until) } = progress
        {
            let wait = until.since(self.world.clock.now()).as_secs_f64();
            to_stderr(&format!("posse: {why} in {wait:.1} s (Ctrl-C ends it)"));
        }
    }

    fn narrate(&mut self, record: &Record) {
        match &record.event {
            Event::Created { recipe, .. } => to_stderr(&format!("● {}  {}  {}", recipe.agent, self.session, recipe.model)),
            Event::TookOver { .. } => to_stderr("  ! the process before this one died; going on from its log"),
            Event::StepFailed { error, retry_at: Some(_), .. } => to_stderr(&format!("  ! {}", safe(error))),
            Event::Called { call, tool, title, .. } if self.terminal => {
                self.calls.push((call.to_string(), format!("{tool} {}", short(title)), Instant::now()));
            }
            Event::CallFinished { call, outcome } if self.terminal => {
                let Some(place) = self.calls.iter().position(|(open, ..)| *open == call.0) else { return };
                let (_, what, since) = self.calls.remove(place);
                let mark = if outcome.is_error() { "✗" } else { "✓" };
                to_stderr(&format!("├─ {mark} {what}  {:.2} s", since.elapsed().as_secs_f64()));
            }
            _ => {}
        }
    }

    fn close(&self, tree: &[Summary]) {
        let Some(root) = tree.iter().find(|summary| summary.session == self.session) else { return };
        let mut usage = posse_session::Usage::default();
        tree.iter().for_each(|summary| usage += summary.usage);
        to_stderr(&format!("● {}  {}", root.agent, words::closing(root, usage, self.began.elapsed(), tree.len())));
    }
}
