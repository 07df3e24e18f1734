//! What a run tells while it goes on: lines on stderr for people, `stream-json` on stdout for scripts.
//!
//! Reads the log like any other follower, so nothing is printed that is not durable; live text is shown and forgotten.
//! The root's log is followed as it grows. What happens below it is found by looking at the views of the whole tree, one
//! query for all of them, so that a thousand agents cost no more waits than one.

pub(crate) mod screen;
mod team;

use std::{
    collections::{HashMap, VecDeque},
    io::IsTerminal as _,
    sync::Arc,
    time::{Duration, Instant},
};

use posse_api::{Lines, Node, WaitsFor, delta_line, progress_line, words};
use posse_engine::{Hub, Shown, World, restore};
use posse_session::{BoxFuture, Event, Progress, Record, Seq, SessionId, Summary, Timestamp, To, key_of};
use tokio::{
    sync::{broadcast, oneshot},
    task::JoinHandle,
};

use self::team::Team;
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

/// How often the whole tree is looked at while agents are at work in it. One look is one query for all of them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looking takes at most a twentieth of the time: of a huge tree it is done more rarely.
const LOOK_SHARE: u32 = 20;
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Narrator {
    finish: Option<oneshot::Sender<()>>,
    begun: Option<oneshot::Receiver<()>>,
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
            followed: HashMap::from([(session.clone(), Followed::from(session, after))]),
            team: Team::new(session.clone()),
            stream: how.format == Some(Format::StreamJson),
            lines: !how.quiet,
            terminal: std::io::stderr().is_terminal(),
            // Lines for a script on the same terminal would stand in the middle of the picture.
            draws: screen::can_draw() && !(how.format == Some(Format::StreamJson) && std::io::stdout().is_terminal()),
            began: Instant::now(),
            head: Head::Unsaid,
            calls: Vec::new(),
            waited: Default::default(),
            pause: None,
            retry_told: None,
            at_work: false,
            live: hub.world().live.listen(),
            unshown: VecDeque::new(),
            out,
        };
        let (finish, finished) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let task = tokio::spawn(teller.tell(begin, finished));
        Self { finish: Some(finish), begun: Some(begun), task }
    }

    /// Ready when it is known where every log of the tree stands: what is appended from here on is told. Only a session
    /// that goes on needs to wait for it.
    pub(crate) async fn ready(&mut self) {
        if let Some(begun) = self.begun.take() {
            let _ = tokio::time::timeout(FINISH_MAX, begun).await;
        }
    }

    /// Tells what is left and ends.
    pub(crate) async fn finish(&mut self) {
        if let Some(finish) = self.finish.take() {
            let _ = finish.send(());
        }
        let _ = tokio::time::timeout(FINISH_MAX, &mut self.task).await;
    }
}

/// How far a log was read.
struct Followed {
    seq: Seq,
    lines: Lines,
    /// Calls of which a line of progress told, and what it said was being done.
    calls: u64,
    doing: String,
}

impl Followed {
    fn from(session: &SessionId, seq: Seq) -> Self {
        Self { seq, lines: Lines::new(session.clone()), calls: 0, doing: String::new() }
    }
}

/// What a line of progress says of a call.
const TITLE_CHARS_MAX: usize = 60;

fn short(title: &str) -> String {
    let clipped: String = safe(title).chars().take(TITLE_CHARS_MAX).collect();
    if clipped.len() < title.len() { format!("{}…", clipped.trim_end_matches('…')) } else { clipped }
}

/// The line that names the root, where a picture can be drawn: a team's picture has it as its first line.
enum Head {
    Unsaid,
    Drawn(String),
    Lasting,
}

struct Teller {
    world: Arc<World>,
    /// The root of the tree that is told of.
    session: SessionId,
    /// The root, and for scripts every session below it.
    followed: HashMap<SessionId, Followed>,
    team: Team,
    stream: bool,
    lines: bool,
    terminal: bool,
    /// The terminal can show a picture.
    draws: bool,
    began: Instant,
    head: Head,
    /// Open calls of the root: id, what they do, since when.
    calls: Vec<(String, String, Instant)>,
    /// What was waited for after the answer at the last look, and how long the root's log was; whether it was said.
    waited: (Seq, String, bool),
    /// Why the root waits and until when, not told yet: the fact behind it may say it better.
    pause: Option<(String, Timestamp)>,
    /// The next try that was told with its reason.
    retry_told: Option<Timestamp>,
    /// Agents below the root may be at work: the tree is looked at.
    at_work: bool,
    live: broadcast::Receiver<Shown>,
    /// Live pieces of sessions whose start was not told yet.
    unshown: VecDeque<Shown>,
    out: Out,
}

impl Teller {
    async fn tell(mut self, begin: oneshot::Sender<()>, mut finished: oneshot::Receiver<()>) {
        if !self.stream && !self.lines {
            return;
        }
        if 0 < self.seq() {
            self.rest().await;
        }
        let _ = begin.send(());
        // One wait for the next fact, renewed only when it came: live pieces are many.
        let mut changed = Box::pin(self.changed());
        let mut look = Box::pin(tokio::time::sleep(LOOK_EVERY));
        loop {
            tokio::select! {
                biased;
                shown = self.live.recv() => if let Ok(shown) = shown {
                    self.show(shown).await;
                    if self.pause.is_some() {
                        self.read_root().await;
                    }
                },
                () = &mut changed => {
                    if !self.read_root().await {
                        tokio::time::sleep(READ_AGAIN).await;
                    }
                    changed.set(self.changed());
                }
                () = &mut look, if self.at_work => {
                    let began = tokio::time::Instant::now();
                    self.look().await;
                    look.as_mut().reset(next_look(began, began.elapsed()));
                }
                _ = &mut finished => break,
            }
        }
        self.read_root().await;
        if let Some(tree) = self.look().await
            && self.lines
        {
            self.close(&tree);
        }
    }

    fn seq(&self) -> Seq {
        self.followed.get(&self.session).map_or(0, |followed| followed.seq)
    }

    /// What stands in the logs before this run is not told again.
    async fn rest(&mut self) {
        let Ok(tree) = self.world.log.summaries(Some(&self.session)).await else { return };
        self.team.rest(&tree);
        self.at_work = 1 < tree.len();
        for summary in tree.iter().filter(|summary| summary.session != self.session) {
            let followed = Followed { calls: summary.calls, ..Followed::from(&summary.session, summary.head) };
            self.followed.insert(summary.session.clone(), followed);
        }
    }

    fn changed(&self) -> impl Future<Output = ()> + use<> {
        let (world, session, seq) = (self.world.clone(), self.session.clone(), self.seq());
        async move { world.log.changed(&session, seq).await }
    }

    async fn read_root(&mut self) -> bool {
        let root = self.session.clone();
        let read = self.read(&root).await;
        self.tell_pause();
        read
    }

    /// Says why the root waits, unless its facts have said so with the reason.
    fn tell_pause(&mut self) {
        let Some((why, until)) = self.pause.take() else { return };
        if self.retry_told != Some(until) {
            to_stderr(&format!("posse: {why} {}", self.ends_at(until)));
        }
    }

    fn ends_at(&self, until: Timestamp) -> String {
        format!("in {:.1} s (Ctrl-C ends it)", until.since(self.world.clock.now()).as_secs_f64())
    }

    /// Tells every fact of a session since the last one; `false` when the log cannot be read right now.
    fn read<'s>(&'s mut self, session: &'s SessionId) -> BoxFuture<'s, bool> {
        Box::pin(async move {
            let mut seq = self.followed.entry(session.clone()).or_insert_with(|| Followed::from(session, 0)).seq;
            loop {
                let Ok(mut page) = self.world.log.read(session, seq, PAGE).await else { return false };
                if restore(&*self.world.log, &mut page).await.is_err() {
                    return false;
                }
                self.catch_up().await;
                if page.is_empty() {
                    return true;
                }
                for record in &page {
                    seq = record.seq;
                    self.fact(session, record).await;
                }
            }
        })
    }

    async fn fact(&mut self, session: &SessionId, record: &Record) {
        match &record.event {
            Event::TaskStarted { task, wait, .. } => {
                self.at_work = true;
                self.team.set_background(task, !wait);
            }
            Event::TaskResumed { task, .. } => {
                self.at_work = true;
                self.team.set_background(task, true);
            }
            Event::Detached { task } => {
                self.team.set_background(task, true);
                self.tell_detached(task);
            }
            Event::Kept { .. } => self.at_work = true,
            Event::ModelChanged { model, why } => self.tell_model(session, model.as_deref(), why).await,
            // A task's own last facts are older than the notice of its end.
            Event::TaskEnded { task, .. } if self.stream => drop(self.read(task).await),
            _ => {}
        }
        let Some(followed) = self.followed.get_mut(session) else { return };
        followed.seq = record.seq;
        if self.stream {
            let line = followed.lines.line(record).to_string();
            self.out.line(line).await;
        }
        if self.lines && *session == self.session {
            self.narrate(record);
        }
    }

    /// Tells what is new anywhere in the tree. Answers with its views, or nothing when they cannot be read right now.
    async fn look(&mut self) -> Option<Vec<Summary>> {
        let mut tree = self.world.log.summaries(Some(&self.session)).await.ok()?;
        // Who started somebody is older, and ids sort as they were given.
        tree.sort_by(|a, b| a.session.cmp(&b.session));
        self.at_work = tree.iter().any(|summary| {
            0 < summary.open_tasks
                || !summary.beside.is_empty()
                || !summary.kept.is_empty()
                || summary.session != self.session && !summary.is_over()
        });
        for summary in &tree {
            // Whoever has started others knows which of them nobody waits for.
            if self.stream || 0 < summary.tasks_started || summary.stand_in.is_some() {
                self.follow(summary).await;
            }
        }
        if self.lines {
            let members = self.team.members(&tree, self.world.clock.now());
            let news = self.team.news(&members);
            match tree.iter().find(|summary| summary.session == self.session) {
                Some(root) if self.draws && !members.is_empty() => {
                    // What has left the screen cannot be drawn over.
                    let (_, rows) = screen::size();
                    screen::draw(self.picture(root, &members, team::LIVE_LINES_MAX.min(rows.saturating_sub(4))));
                }
                _ => news.iter().for_each(|line| to_stderr(line)),
            }
            self.tell_waiting(&tree);
        }
        Some(tree)
    }

    /// Tells a script what is new in one session.
    async fn follow(&mut self, summary: &Summary) {
        if self.followed.get(&summary.session).map_or(0, |followed| followed.seq) < summary.head {
            self.read(&summary.session).await;
        }
        let Some(followed) = self.followed.get_mut(&summary.session) else { return };
        if self.stream
            && (followed.calls != summary.calls || followed.doing != summary.doing)
            && !summary.is_over()
            && let Some(line) = progress_line(summary)
        {
            (followed.calls, followed.doing) = (summary.calls, summary.doing.clone());
            self.out.line(line.to_string()).await;
        }
    }

    /// What was shown before facts were read is older than they are.
    async fn catch_up(&mut self) {
        while let Ok(shown) = self.live.try_recv() {
            self.unshown.push_back(shown);
        }
        for shown in std::mem::take(&mut self.unshown) {
            if self.followed.contains_key(&shown.session) {
                self.show_piece(&shown).await;
            } else if self.stream {
                self.unshown.push_back(shown);
            }
        }
    }

    async fn show(&mut self, shown: Shown) {
        if self.followed.contains_key(&shown.session) {
            return self.show_piece(&shown).await;
        }
        // Who speaks was started before: that is told first, and then what was said.
        if self.stream && delta_line(&shown.session, &shown.progress).is_some() {
            self.unshown.push_back(shown);
            self.look().await;
        }
    }

    async fn show_piece(&mut self, shown: &Shown) {
        if self.stream
            && let Some(line) = delta_line(&shown.session, &shown.progress)
        {
            self.out.line(line.to_string()).await;
        }
        if self.lines
            && shown.session == self.session
            && let Progress::Waiting { why, until: Some(until) } = &shown.progress
        {
            self.pause = Some((why.clone(), *until));
        }
    }

    fn narrate(&mut self, record: &Record) {
        match &record.event {
            Event::Created { recipe, .. } => {
                let head = format!("● {}  {}  {}", recipe.agent, self.session, recipe.model);
                if !self.draws {
                    return to_stderr(&head);
                }
                screen::draw(vec![head.clone()]);
                self.head = Head::Drawn(head);
            }
            Event::Expanded { agent: Some(agent), .. } => self.lasting(&format!("  {} answers this turn", safe(agent))),
            Event::Compacted { .. } => self.lasting("  the conversation was long and is summed up; its last steps stay as they were"),
            Event::Pruned { .. } => self.lasting("  the conversation was long; what calls printed long ago is left out"),
            Event::CompactionFailed { smaller: true, .. } => {}
            Event::CompactionFailed { why, .. } => self.lasting(&format!("  ! the conversation was not summed up: {}", safe(why))),
            Event::Misshapen { words, .. } => self.lasting(&format!("  ! the answer does not fit the schema: {}", safe(words))),
            Event::TookOver { .. } => self.lasting("  ! the process before this one died; going on from its log"),
            Event::StepFailed { error, retry_at: Some(at), .. } => {
                self.retry_told = Some(*at);
                self.lasting(&format!("  ! {}; trying again {}", safe(error), self.ends_at(*at)));
            }
            Event::Called { call, tool, title, .. } if self.terminal => {
                // A call that starts an agent is that agent's line.
                if key_of(tool) != "task" {
                    self.settle_head();
                }
                self.calls.push((call.to_string(), format!("{tool} {}", short(title)), Instant::now()));
            }
            Event::CallFinished { call, outcome } if self.terminal => {
                let Some(place) = self.calls.iter().position(|(open, ..)| *open == call.0) else { return };
                let (_, what, since) = self.calls.remove(place);
                let mark = if outcome.is_error() { "✗" } else { "✓" };
                self.lasting(&format!("├─ {mark} {what}  {:.2} s", since.elapsed().as_secs_f64()));
            }
            Event::TaskEnded { to: To::Call { call }, .. } => self.calls.retain(|(open, ..)| *open != call.0),
            _ => {}
        }
    }

    /// Once the answer is there, what it still takes: said when it changes.
    fn tell_waiting(&mut self, tree: &[Summary]) {
        let root = tree.iter().find(|summary| summary.session == self.session);
        let waits = root.filter(|root| root.last_reply.is_some()).and_then(|root| posse_api::waits(root, true, self.world.clock.now()));
        let what = waits.filter(|waits| root.is_some_and(|root| root.open_calls == 0) && waits.is_for_background());
        // A shell lives no longer than this process; a task can go on in another.
        let then = if what.as_ref().is_some_and(|waits| waits.what == WaitsFor::Shells) { "ends it" } else { "leaves it open" };
        let notes = root.filter(|root| !root.beside.is_empty() && root.last_reply.is_some() && root.open_calls == 0 && !root.in_step);
        let own = notes.map(|_| "posse's own work beside it, the answer is there".to_owned());
        let then = if what.is_none() && own.is_some() { "ends it" } else { then };
        let (head, words) = (root.map_or(0, |root| root.head), what.map(|waits| waits.words).or(own).unwrap_or_default());
        let (head_before, before, was_said) = std::mem::take(&mut self.waited);
        // Between two steps it looks the same for a moment; and whoever has more to say may wait again.
        let stays = !words.is_empty() && (was_said || (head == head_before && words == before));
        if stays && !was_said {
            self.lasting(&format!("  waiting for {} (Ctrl-C {then})", safe(&words)));
        }
        self.waited = (head, words, stays);
    }

    fn tell_detached(&mut self, task: &SessionId) {
        if self.lines {
            self.lasting(&format!("  {task} goes on in the background"));
        }
    }

    /// Another model answers: whoever pays for it should know.
    async fn tell_model(&mut self, session: &SessionId, model: Option<&str>, why: &str) {
        if !self.lines {
            return;
        }
        let views = self.world.log.summaries(Some(&self.session)).await.unwrap_or_default();
        let agent = views.iter().find(|summary| summary.session == *session).map_or(String::new(), |summary| summary.agent.clone());
        let then = model.map_or_else(|| "going on with its own model".to_owned(), |model| format!("going on with {model}"));
        self.lasting(&safe(&format!("  ! {agent}: {why}; {then}")));
    }

    /// A line about the root, under the one that names it.
    fn lasting(&mut self, line: &str) {
        self.settle_head();
        to_stderr(line);
    }

    /// The line that names the root stays where it is from here on.
    fn settle_head(&mut self) {
        if let Head::Drawn(head) = std::mem::replace(&mut self.head, Head::Lasting) {
            screen::finish(&[head]);
        }
    }

    fn picture(&self, root: &Summary, members: &[Node], lines_max: usize) -> Vec<String> {
        let (columns, _) = screen::size();
        let lines = team::picture(root, members, lines_max);
        let named = usize::from(matches!(self.head, Head::Lasting));
        lines.iter().skip(named).map(|line| screen::cut(line, columns.saturating_sub(1))).collect()
    }

    fn close(&mut self, tree: &[Summary]) {
        let Some(root) = tree.iter().find(|summary| summary.session == self.session) else { return };
        let mut usage = posse_session::Usage::default();
        tree.iter().for_each(|summary| usage += summary.usage);
        let members = self.team.members(tree, self.world.clock.now());
        if members.is_empty() {
            self.settle_head();
            return to_stderr(&format!("● {}  {}", root.agent, words::closing(root, usage, self.began.elapsed(), tree.len())));
        }
        let closing = words::closing_team(root, usage, self.began.elapsed(), tree.len());
        if !self.draws {
            return to_stderr(&format!("● {}  {closing}", root.agent));
        }
        let mut lines = self.picture(root, &members, team::FINAL_LINES_MAX);
        lines.push(closing);
        screen::finish(&lines);
    }
}

/// When to look again after a look that took so long.
fn next_look(began: tokio::time::Instant, took: Duration) -> tokio::time::Instant {
    began + took + (took * LOOK_SHARE).clamp(LOOK_EVERY, LOOK_EVERY_MAX)
}
