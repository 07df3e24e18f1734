//! A recording as a model: what was asked before is answered as before, without a network and without a key.
//!
//! A request is found by its conversation, with what differs between any two runs left aside (`alike.rs`): the same model,
//! the same messages. Each recorded exchange is used once, in recorded order among equals, and answers come in the order in
//! which they came (`order.rs`). A step hears what it heard then (`hearing.rs`). Failures are played too, with no more waiting than the kernel insists on. What was never
//! recorded is an error that says where the run left the recording.

mod alike;
mod hearing;
mod order;
mod read;

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use posse_session::{
    BoxFuture, Head, Hearing, Hears, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Progress, Reply, ReplyPart, Request, Role,
    SessionId, ToolChoice,
};
use tokio::{sync::Notify, time::Instant};

use self::{
    alike::{Ids, Reader},
    hearing::{Heard, Said, Wait, compare},
    order::{Mark, Order, Turn, patience},
    read::{Recorded, Tape, Trace, canonical, follow, worded},
};
use crate::{
    neutral::{bytes, parsed},
    record::lines::{Came, Failed, Piece},
};

/// A request that nobody waited for in the recording is given up again soon, or not at all.
const DROPPED_MAX: Duration = Duration::from_secs(2);

/// Whoever began a session says so soon: its next step has the result of the call. One that waits for the session says it too
/// late.
const UNKNOWN_MAX: Duration = Duration::from_secs(1);

/// Letters of a text that are shown before and after the place where it differs.
const BEFORE_CHARS: usize = 40;
const AFTER_CHARS: usize = 80;

/// Notes that are kept; more of the same kind say no more.
const NOTES_MAX: usize = 5;

/// How a recording is played.
#[derive(Debug, Clone)]
pub struct ReplaySetup {
    /// The folders of this run, by the names that the recording has for its own.
    pub places: Vec<(String, String)>,
    /// Where a conversation is not the recorded one, the answer of the same step is good enough.
    pub loose: bool,
    /// Texts that may be there in one run and not in another.
    pub is_noise: fn(&str) -> bool,
}

/// A file that cannot be played; nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("the recording {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no recording; `posse run --record FILE` makes one", path.display())]
    NoRecording { path: PathBuf },
    #[error("{} is an exported session and no recording: `posse sessions import FILE` reads it; `posse run --record FILE` makes a recording", path.display())]
    Export { path: PathBuf },
    #[error("{} is a session that was exported for OpenCode, and no recording; `posse run --record FILE` makes one", path.display())]
    OpenCode { path: PathBuf },
    #[error("the recording {} was made by a later version of posse; update posse", path.display())]
    Newer { path: PathBuf },
    #[error("the recording {}, line {line}, is damaged: {why}", path.display())]
    Damaged { path: PathBuf, line: usize, why: String },
}

/// A recording that is being played, shared by all models of a process.
pub struct Replay {
    path: PathBuf,
    tape: Tape,
    here: Reader,
    setup: ReplaySetup,
    /// Exchanges by the end of their conversations.
    by_trace: HashMap<Trace, Vec<usize>>,
    /// Links by the conversation up to them.
    traces: HashSet<Trace>,
    /// By exchange, the next one of the same conversation.
    followers: Vec<Option<usize>>,
    /// Every recorded conversation, by part and session.
    sessions: HashSet<(usize, String)>,
    state: Mutex<State>,
    /// Something began or ended.
    happened: Notify,
}

struct State {
    used: Vec<bool>,
    talks: HashMap<SessionId, Talk>,
    /// Recorded conversations that somebody here goes on with.
    taken: HashSet<(usize, String)>,
    /// The recorded conversations of sessions here, as those who began them speak of both.
    known: HashMap<SessionId, (usize, String)>,
    orders: Vec<Order>,
    /// Who waits for words that the recorded step had heard.
    waits: HashMap<SessionId, Wait>,
    /// Where the run left the recording first.
    diverged: Option<String>,
    notes: Vec<String>,
    moves: u64,
}

/// A conversation of this run, as far as it was read.
#[derive(Default)]
struct Talk {
    messages: Vec<Arc<[u8]>>,
    traces: Vec<Trace>,
    steps: usize,
    ids: Ids,
    /// The recorded conversation that it goes on with.
    mate: Option<(usize, String)>,
    /// The exchange that it was answered with last.
    last: Option<usize>,
}

/// An exchange that was found for a request, with the ids of this run in place of the recorded ones.
struct Found {
    exchange: usize,
    ids: Vec<(String, String)>,
}

impl Replay {
    pub fn open(path: &Path, setup: ReplaySetup) -> Result<Arc<Self>, ReplayError> {
        let tape = read::read(path, setup.is_noise)?;
        let late = read::heard_late(&tape);
        let mut by_trace: HashMap<Trace, Vec<usize>> = HashMap::new();
        let mut talks: HashMap<(usize, &str), usize> = HashMap::new();
        let (mut followers, mut latest) = (vec![None; tape.exchanges.len()], HashMap::new());
        let mut marks: Vec<Vec<Mark>> = tape.parts.iter().map(|_| Vec::new()).collect();
        for (number, recorded) in tape.exchanges.iter().enumerate() {
            by_trace.entry(tape.end_of(recorded)).or_default().push(number);
            let next = talks.len();
            let talk = *talks.entry((recorded.part, &recorded.exchange.session)).or_insert(next);
            if let Some(before) = latest.insert(talk, number) {
                followers[before] = Some(number);
            }
            for (moment, is_end) in [(recorded.exchange.began, false), (recorded.exchange.ended, true)] {
                let late = late.get(&number).filter(|_| is_end).copied();
                // Twice, so that there is room right after each.
                let place = late.map_or(moment.place.saturating_mul(2), |after| after.saturating_mul(2).saturating_add(1));
                marks[recorded.part].push(Mark { place, ms: moment.ms, exchange: number, is_end, talk });
            }
        }
        let state = State {
            used: vec![false; tape.exchanges.len()],
            talks: HashMap::new(),
            taken: HashSet::new(),
            known: HashMap::new(),
            orders: marks.into_iter().map(Order::new).collect(),
            waits: HashMap::new(),
            diverged: None,
            notes: Vec::new(),
            moves: 0,
        };
        let sessions = talks.keys().map(|(part, session)| (*part, (*session).to_owned())).collect();
        let traces = tape.links.iter().map(|link| link.trace).collect();
        let (here, path) = (Reader::new(&setup.places), path.to_owned());
        Ok(Arc::new(Self {
            path,
            tape,
            here,
            setup,
            by_trace,
            traces,
            followers,
            sessions,
            state: Mutex::new(state),
            happened: Notify::new(),
        }))
    }

    /// What the recorded root ran on.
    pub fn lead(&self) -> Option<&str> {
        self.tape.models.first().map(|facts| facts.name.as_str())
    }

    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.tape.models.iter().map(|facts| facts.name.as_str())
    }

    /// The recorded model that a name stood for.
    pub fn resolve(&self, name: &str) -> Option<&str> {
        let name = self.tape.names.get(name).map_or(name, String::as_str);
        self.models().find(|known| *known == name)
    }

    /// The recorded model of that name.
    pub fn model(self: &Arc<Self>, name: &str) -> Option<Arc<dyn Model>> {
        let facts = self.tape.models.iter().find(|facts| facts.name == name)?.clone();
        Some(Arc::new(Replayed { replay: self.clone(), facts }))
    }

    /// What a user should know when the run is over: where answers were given by their place, what was not asked for.
    pub fn notes(&self) -> Vec<String> {
        let state = self.state();
        let parts: HashSet<usize> =
            self.tape.exchanges.iter().zip(&state.used).filter(|(_, used)| **used).map(|(recorded, _)| recorded.part).collect();
        let unasked =
            self.tape.exchanges.iter().zip(&state.used).filter(|(recorded, used)| !**used && parts.contains(&recorded.part)).count();
        let mut notes = state.notes.clone();
        if 0 < unasked && state.diverged.is_none() {
            let path = self.path.display();
            notes.push(match unasked {
                1 => format!("1 exchange of the recording {path} was not asked for"),
                more => format!("{more} exchanges of the recording {path} were not asked for"),
            });
        }
        notes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole after every statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn play(&self, model: &str, request: Request, live: &dyn Live) -> Result<Reply, ModelError> {
        self.become_known(model, &request).await;
        let found = self.take(model, &request)?;
        let running = Running { replay: self, exchange: found.exchange };
        // Others may wait for it, and their answers may have come before the end of this one.
        live.show(Progress::Begun);
        self.turn_of(found.exchange).await;
        let recorded = &self.tape.exchanges[found.exchange];
        let ids: HashMap<&str, &str> = found.ids.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
        let told = |text: &str| self.tape.parts[recorded.part].translate(text, &self.here, &ids);
        for piece in recorded.exchange.live.clone() {
            let piece = match piece {
                Piece::Text(text) => Piece::Text(told(&text)),
                Piece::Reasoning(text) => Piece::Reasoning(told(&text)),
                piece @ Piece::Call(_) => piece,
            };
            live.show(piece.progress());
            // Whoever looks on sees it grow.
            tokio::task::yield_now().await;
        }
        match &recorded.exchange.came {
            Came::Reply(recorded) => Ok(reply(recorded, &told)),
            Came::Error(failed) => Err(error(failed, &told)),
            Came::Dropped(_) => {
                drop(running);
                tokio::time::sleep(DROPPED_MAX).await;
                let words = "in the recording nobody waited for this answer: it was stopped, or it took too long";
                Err(ModelError::new(ModelFailure::Deadline, words))
            }
        }
    }

    /// Waits until somebody says which of several recorded sessions this one is, if they all began with the same words.
    async fn become_known(&self, model: &str, request: &Request) {
        let deadline = Instant::now() + UNKNOWN_MAX;
        loop {
            let mut happened = std::pin::pin!(self.happened.notified());
            happened.as_mut().enable();
            if !self.is_anyone(model, request) || tokio::time::timeout_at(deadline, happened).await.is_err() {
                return;
            }
        }
    }

    /// Whether more than one recorded session may be this one.
    fn is_anyone(&self, model: &str, request: &Request) -> bool {
        let state = self.state();
        if state.diverged.is_some() || state.talks.contains_key(&request.session) || state.known.contains_key(&request.session) {
            return false;
        }
        let mut talk = Talk::default();
        // What cannot be read is refused where it is taken.
        if talk.read(request, &self.here, self.setup.is_noise).is_err() {
            return false;
        }
        let free = |number: &&usize| !state.used[**number] && self.tape.exchanges[**number].exchange.model == model;
        let same = self.by_trace.get(&talk.end()).into_iter().flatten().filter(free);
        let mut mates = same.map(|number| self.mate(*number)).filter(|mate| !state.taken.contains(mate));
        // Another process of the same recording is another run.
        mates.next().is_some_and(|first| mates.any(|other| other.0 == first.0 && other.1 != first.1))
    }

    fn mate(&self, exchange: usize) -> (usize, String) {
        let recorded = &self.tape.exchanges[exchange];
        (recorded.part, recorded.exchange.session.clone())
    }

    /// What a conversation and its recorded one call by the same number is the same. Sessions among it are known then.
    fn learn(&self, state: &mut State, part: usize, pairs: impl Iterator<Item = (String, String)>) {
        let mut news = false;
        for (then, now) in pairs {
            let (mate, session) = ((part, then), SessionId::new(now));
            if self.sessions.contains(&mate) && !state.known.contains_key(&session) && state.taken.insert(mate.clone()) {
                state.known.insert(session, mate);
                news = true;
            }
        }
        if news {
            self.happened.notify_waiters();
        }
    }

    /// Waits until it is this exchange's turn to be answered, as far as what came before it comes at all.
    async fn turn_of(&self, exchange: usize) {
        let part = self.tape.exchanges[exchange].part;
        loop {
            let mut happened = std::pin::pin!(self.happened.notified());
            happened.as_mut().enable();
            let (turn, moves) = {
                let state = self.state();
                let turn = if state.diverged.is_some() { Turn::Now } else { state.orders[part].turn(exchange, now()) };
                (turn, state.moves)
            };
            match turn {
                Turn::Now => return,
                Turn::At(at) => tokio::time::sleep_until(at.into()).await,
                Turn::Later(silence) => {
                    if tokio::time::timeout(silence, happened).await.is_err() {
                        let mut state = self.state();
                        if state.moves == moves {
                            state.orders[part].give_up(exchange, now());
                        }
                    }
                }
            }
        }
    }

    fn mark(&self, state: &mut State, exchange: usize, is_end: bool) {
        state.orders[self.tape.exchanges[exchange].part].happened(exchange, is_end, now());
        state.moves += 1;
        self.happened.notify_waiters();
    }

    /// What the next step of a session takes: what the recorded one had taken, as soon as it is there. Where nothing is
    /// recorded to go by, what there is.
    fn hears(&self, session: &SessionId, next: &dyn Fn() -> Hearing) -> Hears {
        let expected = {
            let state = self.state();
            self.expected(&state, session).map(|(before, after, ids)| (before, after, ids.clone()))
        };
        let Some((before, after, ids)) = expected else { return Hears::All };
        let hearing = next();
        let Heard { takes, misses } = self.compare(before, after, &ids, &hearing);
        let now = now();
        let mut state = self.state();
        let moves = (state.moves, hearing.waiting.len());
        let wait = state.waits.entry(session.clone()).or_insert(Wait { moves, since: now });
        if wait.moves != moves {
            *wait = Wait { moves, since: now };
        }
        let (ended, began) = (self.tape.exchanges[before].exchange.ended.ms, self.tape.exchanges[after].exchange.began.ms);
        if misses && now < wait.since + patience(ended, began) {
            return Hears::Later;
        }
        Hears::Only(takes.into_iter().map(|at| hearing.waiting[at].0.clone()).collect())
    }

    /// The exchange that a session was last answered with, the one that comes next, and the ids that came up so far.
    fn expected<'a>(&self, state: &'a State, session: &SessionId) -> Option<(usize, usize, &'a Ids)> {
        let talk = state.talks.get(session).filter(|_| state.diverged.is_none())?;
        let before = talk.last?;
        let mut after = self.followers[before]?;
        while state.used[after] {
            after = self.followers[after]?;
        }
        Some((before, after, &talk.ids))
    }

    /// What was said to a conversation between two exchanges, beside what waits here.
    fn compare(&self, before: usize, after: usize, ids: &Ids, hearing: &Hearing) -> Heard {
        let tape = &self.tape;
        let (last, next) = (&tape.exchanges[before], &tape.exchanges[after]);
        let (new, goes_on) = tape.new_in(next, last.last);
        // Ids are numbered anew where the conversation was written anew, by a summary.
        let (then, now) = if goes_on { (tape.ids[next.ids.0].first(last.ids.1), ids.clone()) } else { Default::default() };
        let recorded = Said::of(&new, &tape.parts[next.part], then);
        let own = Said::of(&hearing.says.iter().collect::<Vec<_>>(), &self.here, now);
        let waiting: Vec<Vec<String>> = hearing.waiting.iter().map(|(_, says)| own.read(says, &self.here)).collect();
        let pairs = recorded.ids.seen.iter().cloned().zip(own.ids.seen.iter().cloned());
        self.learn(&mut self.state(), next.part, pairs.filter(|_| goes_on));
        compare(&recorded.texts, &own.texts, &waiting, self.setup.is_noise)
    }

    /// The recorded exchange that this request is, which then is used up.
    fn take(&self, model: &str, request: &Request) -> Result<Found, ModelError> {
        let mut state = self.state();
        let mut talk = state.talks.remove(&request.session).unwrap_or_default();
        if talk.mate.is_none() {
            talk.mate = state.known.get(&request.session).cloned();
        }
        let read = talk.read(request, &self.here, self.setup.is_noise);
        let closing = request.tool_choice == ToolChoice::None;
        let found = match read {
            Err(error) => Err(error),
            Ok(()) => self.find(&mut state, &talk, model, closing).ok_or_else(|| {
                let words = self.left(&state, &talk, model);
                // Whoever is told of it later differs because of it.
                let words = state.diverged.get_or_insert(words).clone();
                self.happened.notify_waiters();
                ModelError::new(ModelFailure::NeedsModel, words)
            }),
        };
        let taken = found.map(|exchange| {
            let (recorded, mate) = (&self.tape.exchanges[exchange], self.mate(exchange));
            state.taken.insert(mate.clone());
            (talk.mate, talk.last) = (Some(mate), Some(exchange));
            state.waits.remove(&request.session);
            state.used[exchange] = true;
            self.mark(&mut state, exchange, false);
            let (list, count) = recorded.ids;
            let ids: Vec<_> = self.tape.ids[list].seen.iter().take(count).cloned().zip(talk.ids.seen.iter().cloned()).collect();
            self.learn(&mut state, recorded.part, ids.iter().cloned());
            Found { exchange, ids }
        });
        state.talks.insert(request.session.clone(), talk);
        taken
    }

    fn find(&self, state: &mut State, talk: &Talk, model: &str, closing: bool) -> Option<usize> {
        let is_free = |number: &usize| !state.used[*number] && self.tape.exchanges[*number].exchange.model == model;
        // Who has answered so far answers on; then those that nobody here goes on with; then in recorded order.
        let rank = |number: &usize| {
            let (recorded, mate) = (&self.tape.exchanges[*number], self.mate(*number));
            let distance = match &talk.mate {
                Some(own) if *own == mate => 0,
                _ if !state.taken.contains(&mate) => 1,
                _ => 2,
            };
            (recorded.exchange.closing != closing, distance, *number)
        };
        let same = self.by_trace.get(&talk.end()).into_iter().flatten().copied().filter(is_free).min_by_key(rank);
        if same.is_some() || !self.setup.loose {
            return same;
        }
        let at_the_same_step = |number: &usize| {
            let link = self.tape.exchanges[*number].last.map(|last| &self.tape.links[last]);
            link.is_some_and(|link| link.steps == talk.steps && talk.traces.first() == Some(&link.first))
        };
        let near = (0..self.tape.exchanges.len()).filter(|number| is_free(number) && at_the_same_step(number)).min_by_key(rank)?;
        if state.notes.len() < NOTES_MAX {
            let words = self.left(state, talk, model);
            state.notes.push(format!("answered by its place in the conversation: {words}"));
        }
        Some(near)
    }

    /// Where and how this conversation differs from everything that was recorded.
    fn left(&self, state: &State, talk: &Talk, model: &str) -> String {
        let path = self.path.display();
        let same: Vec<usize> = self.by_trace.get(&talk.end()).cloned().unwrap_or_default();
        if let Some(other) = same.iter().map(|number| &self.tape.exchanges[*number].exchange.model).find(|other| *other != model) {
            return format!("the recording {path} has the answer of {other} to this, and {model} is asked now");
        }
        if !same.is_empty() {
            let times = if same.len() == 1 { "once".to_owned() } else { format!("{} times", same.len()) };
            return format!("the recording {path} answers this {times}, and it is asked once more; {}", talk.about());
        }
        let common = talk.traces.iter().take_while(|trace| self.traces.contains(trace)).count();
        let known = common.checked_sub(1).map(|last| talk.traces[last]);
        let mut after = (0..self.tape.exchanges.len()).filter_map(|number| {
            let link = self.tape.link_at(&self.tape.exchanges[number], common)?;
            let before = self.tape.links[link].before.map(|before| self.tape.links[before].trace);
            (before == known).then_some((number, link))
        });
        // One that still waits to be asked for is more likely to be meant.
        let first = after.next();
        let meant = first.filter(|(number, _)| !state.used[*number]).or_else(|| after.find(|(number, _)| !state.used[*number])).or(first);
        let Some((number, link)) = meant else {
            let cut = if self.tape.is_cut { " (its last line is cut off)" } else { "" };
            let count = match self.tape.exchanges.len() {
                1 => "1 exchange".to_owned(),
                count => format!("{count} exchanges"),
            };
            return format!("the recording {path} ends before this, after {count}{cut}; {}", talk.about());
        };
        let recorded = &self.tape.exchanges[number];
        let had = self.worded(recorded, link);
        let (had, has) = difference(&had, &talk.worded(common, &self.here, self.setup.is_noise));
        format!(
            "the run is not the recorded one any more (recording {path}): {}, message {}: recorded was `{had}`, now it is `{has}`. \
             `--loose` gives the recorded answers all the same",
            talk.about(),
            common + 1
        )
    }

    /// A recorded message as it reads in its conversation.
    fn worded(&self, recorded: &Recorded, link: usize) -> String {
        let links = &self.tape.links;
        let mut chain = vec![link];
        while let Some(before) = chain.last().and_then(|last| links[*last].before) {
            chain.push(before);
        }
        let (mut ids, reader) = (Ids::default(), &self.tape.parts[recorded.part]);
        let words = chain.iter().rev().map(|link| worded(&self.tape.messages[links[*link].message], reader, &mut ids, self.setup.is_noise));
        words.last().unwrap_or_default()
    }
}

/// The clock that the waiting goes by.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

impl Tape {
    fn end_of(&self, recorded: &Recorded) -> Trace {
        recorded.last.map(|last| self.links[last].trace).unwrap_or_default()
    }

    /// The messages that a request has after those up to a link, and whether it has that link. Without it the last message.
    fn new_in(&self, recorded: &Recorded, before: Option<usize>) -> (Vec<&Message>, bool) {
        let mut new = Vec::new();
        let mut link = recorded.last;
        while let Some(at) = link.filter(|at| Some(*at) != before) {
            new.push(&self.messages[self.links[at].message]);
            link = self.links[at].before;
        }
        let goes_on = link == before;
        new.truncate(if goes_on { new.len() } else { 1 });
        new.reverse();
        (new, goes_on)
    }

    /// The link of the message after so many others.
    fn link_at(&self, recorded: &Recorded, before: usize) -> Option<usize> {
        let mut link = recorded.last?;
        while before + 1 < self.links[link].length {
            link = self.links[link].before?;
        }
        (self.links[link].length == before + 1).then_some(link)
    }
}

impl Talk {
    /// Reads what is new in the conversation since the request before.
    fn read(&mut self, request: &Request, here: &Reader, is_noise: fn(&str) -> bool) -> Result<(), ModelError> {
        let goes_on = self.messages.len() <= request.messages.len()
            && self.messages.iter().zip(&request.messages).all(|(known, asked)| Arc::ptr_eq(known, asked) || known == asked);
        if !goes_on {
            *self = Self { mate: self.mate.take(), last: self.last, ..Self::default() };
        }
        for bytes in &request.messages[self.messages.len()..] {
            let message: Message = parsed(bytes, "the recording")?;
            let words = worded(&message, here, &mut self.ids, is_noise);
            self.traces.push(follow(self.end(), &words));
            self.steps += usize::from(message.role == Role::Assistant);
            self.messages.push(bytes.clone());
        }
        Ok(())
    }

    fn end(&self) -> Trace {
        self.traces.last().copied().unwrap_or_default()
    }

    /// A message as it reads in this conversation; blank where there is none.
    fn worded(&self, at: usize, here: &Reader, is_noise: fn(&str) -> bool) -> String {
        let mut ids = Ids::default();
        let messages = self.messages.iter().take(at + 1).filter_map(|bytes| serde_json::from_slice::<Message>(bytes).ok());
        let words: Vec<String> = messages.map(|message| worded(&message, here, &mut ids, is_noise)).collect();
        words.into_iter().nth(at).unwrap_or_default()
    }

    /// Which conversation this is, in words.
    fn about(&self) -> String {
        let first = self.worded(0, &Reader::default(), |_| false);
        let first = first.strip_prefix("user:").unwrap_or(&first).trim();
        format!("step {} of the conversation that begins with `{}`", self.steps + 1, clip(first, BEFORE_CHARS))
    }
}

fn clip(text: &str, chars_max: usize) -> String {
    let flat = text.replace('\n', " ");
    match flat.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}

/// The stretch of two texts around the first place where they are not the same.
fn difference(one: &str, other: &str) -> (String, String) {
    let common: usize = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let start = common.saturating_sub(BEFORE_CHARS);
    let lead = if start == 0 { "" } else { "…" };
    let stretch = |text: &str| {
        let shown: String = text.chars().skip(start).collect();
        format!("{lead}{}", clip(shown.trim_end(), BEFORE_CHARS + AFTER_CHARS))
    };
    (stretch(one), stretch(other))
}

/// A recorded reply as this run has it.
fn reply(recorded: &Reply, told: &dyn Fn(&str) -> String) -> Reply {
    let part = |part: &ReplyPart| match part {
        ReplyPart::Text(text) => ReplyPart::Text(told(text)),
        ReplyPart::Reasoning { text, signature } => ReplyPart::Reasoning { text: told(text), signature: signature.clone() },
        ReplyPart::Call { id, tool, input } => ReplyPart::Call { id: id.clone(), tool: tool.clone(), input: told_input(input, told) },
        ReplyPart::Opaque { .. } => part.clone(),
    };
    Reply { parts: recorded.parts.iter().map(part).collect(), usage: recorded.usage, finish: recorded.finish }
}

/// As the model wrote it, unless something in it has another name here.
fn told_input(input: &str, told: &dyn Fn(&str) -> String) -> String {
    let here = canonical(input, &mut |text| told(text));
    if here == canonical(input, &mut str::to_owned) { input.to_owned() } else { here }
}

/// A recorded failure fails again; what the server asked to wait is not waited, it would answer at once.
fn error(failed: &Failed, told: &dyn Fn(&str) -> String) -> ModelError {
    ModelError {
        retry_after: failed.retry_after_ms.map(|_| Duration::ZERO),
        partial: told(&failed.partial),
        usage: failed.usage,
        ..ModelError::new(failed.failure, failed.words.clone())
    }
}

/// An exchange under way. It is over when it is answered, and when nobody waits for it any more.
struct Running<'a> {
    replay: &'a Replay,
    exchange: usize,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.replay.state();
        self.replay.mark(&mut state, self.exchange, true);
    }
}

/// One of the recorded models.
struct Replayed {
    replay: Arc<Replay>,
    facts: ModelFacts,
}

impl Model for Replayed {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        bytes(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        bytes(message)
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(self.replay.play(&self.facts.name, request, live))
    }

    fn hears(&self, session: &SessionId, next: &dyn Fn() -> Hearing) -> Hears {
        self.replay.hears(session, next)
    }
}
