//! Lanes: the queue in front of each provider and each model, shared by all sessions of a process.
//!
//! A slot is held only while a model call runs, so a waiting parent holds none. Which sessions wait is a view, not a fact.
//! Every request has a place in two lanes, its provider's and its model's, and gets both or none. A model nobody set a limit
//! for has its provider's, so its lane is felt only when the server is overloaded: then both lanes narrow, and the model's
//! pauses. Only the model's, because the agents' second choice is often another model of the same provider.
//!
//! [`Core`] decides who is next; it has no clock. Around it are a lock, and wakers that are used after the lock is given back.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

/// Requests at once to one provider when nothing is configured.
const DEFAULT_SLOTS: usize = 16;

/// In the background one waits this long for those in the foreground, and then no longer: nobody starves.
const AGE: Duration = Duration::from_secs(20);

/// So many of the foreground go before one of the background that has aged: it goes on under any load, and so does a user.
const AGED_AFTER: u32 = 3;

/// The first pause when the server does not say how long, and the least when it does: "0" would be a loop.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Pauses double up to this while the server says nothing better.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// No server is waited for longer than this, whatever it says.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

pub struct Lanes {
    core: Mutex<Core>,
}

/// How one lane stands, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStanding {
    /// `provider` or `provider/model`.
    pub name: String,
    /// Requests at once, as configured.
    pub limit: usize,
    /// Requests at once, now: less than the limit after an overload.
    pub width: usize,
    pub in_use: usize,
    pub waiting_foreground: usize,
    pub waiting_background: usize,
    /// How long nobody starts.
    pub paused_for: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Someone looks on, or waits for it.
    Foreground,
    Background,
}

/// Leave to call one model once. Dropped, it goes to the next and says nothing about the server.
#[must_use]
pub(crate) struct Slot {
    lanes: Arc<Lanes>,
    begun: Begun,
}

/// A place in the queue of one model; left when dropped. A slot that was granted and not taken goes to the next.
#[must_use]
pub(crate) struct Place {
    lanes: Arc<Lanes>,
    /// Known to the core until the slot is taken.
    ticket: Ticket,
}

impl Lanes {
    /// `limits` by `provider`, `provider/model` or `default`.
    pub fn new(limits: HashMap<String, usize>) -> Self {
        Self { core: Mutex::new(Core { limits, ..Core::default() }) }
    }

    /// Every provider in use; and its models that have a limit of their own, or that were overloaded.
    pub fn standing(&self) -> Vec<LaneStanding> {
        self.with(|core, now| core.standing(now))
    }

    /// A slot now, or none: then wait for one by [`Lanes::enter`].
    pub(crate) fn try_enter(self: &Arc<Self>, provider: &str, model: &str, urgency: Urgency) -> Option<Slot> {
        let place = self.enter(provider, model, urgency);
        match self.with(|core, now| core.ask(place.ticket, None, now)) {
            Answer::Begin(begun) => Some(Slot { lanes: self.clone(), begun }),
            Answer::NotBefore(_) | Answer::Wait => None,
        }
    }

    /// `model` is the full name, `provider/model`.
    pub(crate) fn enter(self: &Arc<Self>, provider: &str, model: &str, urgency: Urgency) -> Place {
        let ticket = self.with(|core, now| core.join(provider, model, urgency, now));
        Place { lanes: self.clone(), ticket }
    }

    /// How long nobody starts a request to this model because it was overloaded; none when it may be asked.
    pub(crate) fn paused_for(&self, provider: &str, model: &str) -> Option<Duration> {
        self.with(|core, now| core.find(provider, model).and_then(|model| core.models[model].pause(now)))
    }

    /// What was woken is told after the lock is given back: a waker may run or drop anything, a [`Place`] among it.
    fn with<T>(&self, act: impl FnOnce(&mut Core, Instant) -> T) -> T {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that numbers and times go the same way.
        let result = act(&mut core, Instant::now());
        let woken = mem::take(&mut core.woken);
        drop(core);
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

impl Slot {
    /// The model answered: a narrowed lane grows again.
    pub(crate) fn succeeded(self) {
        self.lanes.with(|core, _| core.succeed(self.begun));
    }

    /// The server said it is too much: the lanes narrow, and nobody starts for as long as it asked.
    pub(crate) fn overloaded(self, retry_after: Option<Duration>) {
        self.lanes.with(|core, now| core.overload(self.begun, retry_after, now));
    }

    /// Whether it is leave to call this model; not, when the session has changed its model meanwhile.
    pub(crate) fn is_for(&self, model: &str) -> bool {
        self.lanes.with(|core, _| core.models[self.begun.model].lane.name == model)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.lanes.with(|core, now| core.release(self.begun.model, now));
    }
}

impl Place {
    /// Ready when it is this one's turn, once. May be dropped and called again: the place is kept.
    pub(crate) async fn first(&mut self) -> Slot {
        loop {
            match poll_fn(|context| self.turn(context)).await {
                Turn::Yours(slot) => return slot,
                // The end of a pause makes no sound, so everyone who waits looks at the clock.
                Turn::NotBefore(at) => tokio::time::sleep_until(at).await,
            }
        }
    }

    /// How many wait and go before this one.
    pub(crate) fn ahead(&self) -> usize {
        self.lanes.with(|core, now| core.ahead(self.ticket, now))
    }

    /// Whether it leads to this model; not, when the session has changed its model meanwhile.
    pub(crate) fn is_for(&self, model: &str) -> bool {
        self.lanes.with(|core, _| core.models[self.ticket.model].lane.name == model)
    }

    fn turn(&self, context: &mut Context<'_>) -> Poll<Turn> {
        match self.lanes.with(|core, now| core.ask(self.ticket, Some(context.waker()), now)) {
            Answer::Begin(begun) => Poll::Ready(Turn::Yours(Slot { lanes: self.lanes.clone(), begun })),
            Answer::NotBefore(at) => Poll::Ready(Turn::NotBefore(at)),
            Answer::Wait => Poll::Pending,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lanes.with(|core, now| core.leave(self.ticket, now));
    }
}

enum Turn {
    Yours(Slot),
    NotBefore(Instant),
}

/// Who holds what, who waits, and who is next. Models and providers are few and never leave, so an index names one.
#[derive(Default)]
struct Core {
    limits: HashMap<String, usize>,
    providers: Vec<Provider>,
    models: Vec<Model>,
    tickets: u64,
    /// Used and dropped outside of the lock.
    woken: Vec<Waker>,
}

struct Provider {
    lane: Lane,
    models: Vec<usize>,
    /// How many of the foreground in a row have passed by the background.
    passed: u32,
}

struct Model {
    provider: usize,
    lane: Lane,
    /// Whether it has a limit of its own.
    configured: bool,
    paused_until: Option<Instant>,
    /// Overloads since the last success.
    overloads: u32,
    foreground: Line,
    background: Line,
    /// Slots that wait to be taken, and since when their takers had waited.
    granted: HashMap<u64, Instant>,
}

/// Who waits, by number: the lower came earlier.
type Line = BTreeMap<u64, Waiter>;

struct Waiter {
    since: Instant,
    waker: Option<Waker>,
}

/// One who waits.
#[derive(Debug, Clone, Copy)]
struct Ticket {
    model: usize,
    urgency: Urgency,
    number: u64,
}

/// A request that runs, and how often its lanes had been narrowed before.
#[derive(Debug, Clone, Copy)]
struct Begun {
    model: usize,
    model_shrinks: u64,
    provider_shrinks: u64,
}

enum Answer {
    Begin(Begun),
    NotBefore(Instant),
    Wait,
}

impl Core {
    fn join(&mut self, provider: &str, model: &str, urgency: Urgency, now: Instant) -> Ticket {
        let model = self.find(provider, model).unwrap_or_else(|| self.open(provider, model));
        self.tickets += 1;
        let ticket = Ticket { model, urgency, number: self.tickets };
        self.models[model].line(urgency).insert(ticket.number, Waiter { since: now, waker: None });
        ticket
    }

    /// The slot, if it is this one's turn; else when to ask again, or nothing: then `waker` is called.
    fn ask(&mut self, ticket: Ticket, waker: Option<&Waker>, now: Instant) -> Answer {
        self.grant(self.models[ticket.model].provider, now);
        if let Some(since) = self.models[ticket.model].granted.remove(&ticket.number) {
            let Some(at) = self.models[ticket.model].paused_until(now) else { return Answer::Begin(self.begin(ticket.model)) };
            // The pause came between the grant and the taking: back to where it stood.
            self.models[ticket.model].line(ticket.urgency).insert(ticket.number, Waiter { since, waker: None });
            if ticket.urgency == Urgency::Background {
                let provider = self.models[ticket.model].provider;
                self.providers[provider].passed = AGED_AFTER;
            }
            self.release(ticket.model, now);
            return Answer::NotBefore(at);
        }
        if let Some(at) = self.models[ticket.model].paused_until(now) {
            return Answer::NotBefore(at);
        }
        let waiter = self.models[ticket.model].line(ticket.urgency).get_mut(&ticket.number);
        if let (Some(waiter), Some(waker)) = (waiter, waker)
            && !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker))
        {
            self.woken.extend(waiter.waker.replace(waker.clone()));
        }
        Answer::Wait
    }

    fn leave(&mut self, ticket: Ticket, now: Instant) {
        let model = &mut self.models[ticket.model];
        if let Some(waiter) = model.line(ticket.urgency).remove(&ticket.number) {
            self.woken.extend(waiter.waker);
        } else if model.granted.remove(&ticket.number).is_some() {
            self.release(ticket.model, now);
        }
    }

    fn begin(&self, model: usize) -> Begun {
        let Model { lane, provider, .. } = &self.models[model];
        Begun { model, model_shrinks: lane.shrinks, provider_shrinks: self.providers[*provider].lane.shrinks }
    }

    fn release(&mut self, model: usize, now: Instant) {
        let Model { lane, provider, .. } = &mut self.models[model];
        let provider = *provider;
        lane.in_use -= 1;
        self.providers[provider].lane.in_use -= 1;
        self.grant(provider, now);
    }

    fn succeed(&mut self, begun: Begun) {
        let model = &mut self.models[begun.model];
        if model.lane.grow(begun.model_shrinks) {
            model.overloads = 0;
        }
        self.providers[model.provider].lane.grow(begun.provider_shrinks);
    }

    fn overload(&mut self, begun: Begun, retry_after: Option<Duration>, now: Instant) {
        let model = &mut self.models[begun.model];
        let news = model.lane.shrink(begun.model_shrinks);
        self.providers[model.provider].lane.shrink(begun.provider_shrinks);
        let own = PAUSE_FIRST.saturating_mul(1 << model.overloads.min(16)).min(PAUSE_MAX);
        let pause = match retry_after {
            Some(asked) => asked.clamp(PAUSE_FIRST, RETRY_AFTER_MAX),
            None if news => own,
            // One of several that were under way together: the pause for them has begun.
            None => return,
        };
        model.overloads += u32::from(news);
        // Who knows of a pause sleeps, and looks again when it ends; who does not must be told.
        if model.paused_until(now).is_none() {
            let waiters = model.foreground.values_mut().chain(model.background.values_mut());
            self.woken.extend(waiters.filter_map(|waiter| waiter.waker.take()));
        }
        model.paused_until = model.paused_until.max(Some(now + pause));
    }

    /// Gives away every place there is. After it nobody waits who could begin.
    fn grant(&mut self, provider: usize, now: Instant) {
        while let Some(ticket) = self.next(provider, now) {
            let model = &mut self.models[ticket.model];
            let Some(waiter) = model.line(ticket.urgency).remove(&ticket.number) else { return };
            model.granted.insert(ticket.number, waiter.since);
            model.lane.in_use += 1;
            let provider = &mut self.providers[provider];
            provider.lane.in_use += 1;
            provider.passed = if ticket.urgency == Urgency::Foreground { provider.passed.saturating_add(1) } else { 0 };
            self.woken.extend(waiter.waker);
        }
    }

    /// The foreground first; every few of them somebody of the background who has aged and came before; among equals who
    /// came first. Looks only at the heads of the lines.
    fn next(&self, provider: usize, now: Instant) -> Option<Ticket> {
        let provider = self.providers.get(provider).filter(|provider| provider.lane.has_room())?;
        let open: Vec<usize> = provider.models.iter().copied().filter(|model| self.models[*model].is_open(now)).collect();
        let heads = |urgency: Urgency| {
            let head = move |&model: &usize| {
                let (&number, waiter) = self.models[model].waiting(urgency).first_key_value()?;
                Some((Ticket { model, urgency, number }, waiter.has_aged(now)))
            };
            open.iter().filter_map(head).min_by_key(|(ticket, _)| ticket.number)
        };
        match (heads(Urgency::Foreground), heads(Urgency::Background)) {
            (Some((first, _)), Some((aged, true))) if AGED_AFTER <= provider.passed && aged.number < first.number => Some(aged),
            (Some((first, _)), _) => Some(first),
            (None, background) => background.map(|(ticket, _)| ticket),
        }
    }

    fn ahead(&self, ticket: Ticket, now: Instant) -> usize {
        let own = &self.models[ticket.model];
        let yields = match ticket.urgency {
            Urgency::Foreground if own.foreground.contains_key(&ticket.number) => false,
            Urgency::Background if let Some(waiter) = own.background.get(&ticket.number) => !waiter.has_aged(now),
            // Its slot is granted, or taken.
            _ => return 0,
        };
        let before = |model: &Model| {
            let earlier = model.background.range(..ticket.number);
            match ticket.urgency {
                Urgency::Background if yields => model.foreground.len() + earlier.count(),
                Urgency::Background => {
                    let earlier = earlier.count();
                    earlier + model.foreground.len().min((earlier + 1) * AGED_AFTER as usize)
                }
                Urgency::Foreground => {
                    let (first, most) = (model.foreground.range(..ticket.number).count(), AGED_AFTER as usize);
                    first + earlier.take_while(|(_, waiter)| waiter.has_aged(now)).count().min(first / most)
                }
            }
        };
        let provider = &self.providers[own.provider];
        // Those of other models stand before it only if they want what it waits for, and not while they sleep.
        let rivals = provider.models.iter().filter(|&&model| model != ticket.model && !provider.lane.has_room());
        let awake = rivals.map(|model| &self.models[*model]).filter(|model| model.paused_until(now).is_none());
        before(own) + awake.map(before).sum::<usize>()
    }

    fn standing(&self, now: Instant) -> Vec<LaneStanding> {
        let waiting = |models: &[usize]| {
            let sum = |count: fn(&Model) -> usize| models.iter().map(|model| count(&self.models[*model])).sum();
            (sum(|model| model.foreground.len()), sum(|model| model.background.len()))
        };
        let provider = |provider: &Provider| provider.lane.standing(waiting(&provider.models), None);
        let model = |at: usize| self.models[at].lane.standing(waiting(&[at]), self.models[at].pause(now));
        let shown =
            |at: &usize| self.models[*at].configured || self.models[*at].lane.is_narrowed() || self.models[*at].pause(now).is_some();
        let models = (0..self.models.len()).filter(shown).map(model);
        let mut standing: Vec<_> = self.providers.iter().map(provider).chain(models).collect();
        standing.sort_by(|one, other| one.name.cmp(&other.name));
        standing
    }

    fn find(&self, provider: &str, model: &str) -> Option<usize> {
        self.models.iter().position(|known| known.lane.name == model && self.providers[known.provider].lane.name == provider)
    }

    fn open(&mut self, provider: &str, model: &str) -> usize {
        let at = self.models.len();
        let own = self.limits.get(model).copied();
        let of_provider = self.limits.get(provider).or_else(|| self.limits.get("default")).copied().unwrap_or(DEFAULT_SLOTS);
        let known = self.providers.iter().position(|known| known.lane.name == provider);
        let provider = known.unwrap_or_else(|| {
            self.providers.push(Provider { lane: Lane::new(provider, of_provider), models: Vec::new(), passed: 0 });
            self.providers.len() - 1
        });
        self.providers[provider].models.push(at);
        self.models.push(Model {
            provider,
            lane: Lane::new(model, own.unwrap_or(of_provider)),
            configured: own.is_some(),
            paused_until: None,
            overloads: 0,
            foreground: Line::new(),
            background: Line::new(),
            granted: HashMap::new(),
        });
        at
    }
}

impl Model {
    fn line(&mut self, urgency: Urgency) -> &mut Line {
        match urgency {
            Urgency::Foreground => &mut self.foreground,
            Urgency::Background => &mut self.background,
        }
    }

    fn waiting(&self, urgency: Urgency) -> &Line {
        match urgency {
            Urgency::Foreground => &self.foreground,
            Urgency::Background => &self.background,
        }
    }

    fn is_open(&self, now: Instant) -> bool {
        self.lane.has_room() && self.paused_until(now).is_none()
    }

    fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    fn pause(&self, now: Instant) -> Option<Duration> {
        self.paused_until(now).map(|until| until - now)
    }
}

impl Waiter {
    fn has_aged(&self, now: Instant) -> bool {
        AGE <= now.duration_since(self.since)
    }
}

/// How many may run at once, and how many do. Narrows by half when the server is overloaded, and grows by one place at a time.
struct Lane {
    name: String,
    limit: usize,
    width: usize,
    in_use: usize,
    /// Since it last changed its width.
    successes: usize,
    shrinks: u64,
}

impl Lane {
    fn new(name: &str, limit: usize) -> Self {
        let limit = limit.max(1);
        Self { name: name.to_owned(), limit, width: limit, in_use: 0, successes: 0, shrinks: 0 }
    }

    fn has_room(&self) -> bool {
        self.in_use < self.width
    }

    fn is_narrowed(&self) -> bool {
        self.width < self.limit
    }

    /// Whether the failure was news. Requests that were under way together fail together: one sign of too much, not many.
    fn shrink(&mut self, shrinks: u64) -> bool {
        let news = shrinks == self.shrinks;
        if news {
            (self.width, self.successes, self.shrinks) = ((self.width / 2).max(1), 0, self.shrinks + 1);
        }
        news
    }

    /// Whether the success was news. One that began before the lane narrowed does not show that there is room now.
    fn grow(&mut self, shrinks: u64) -> bool {
        let news = shrinks == self.shrinks;
        if news && self.is_narrowed() {
            self.successes += 1;
            if self.width <= self.successes {
                (self.width, self.successes) = (self.width + 1, 0);
            }
        }
        news
    }

    fn standing(&self, waiting: (usize, usize), paused_for: Option<Duration>) -> LaneStanding {
        LaneStanding {
            name: self.name.clone(),
            limit: self.limit,
            width: self.width,
            in_use: self.in_use,
            waiting_foreground: waiting.0,
            waiting_background: waiting.1,
            paused_for,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::{
        Urgency::{Background, Foreground},
        *,
    };

    const OPUS: &str = "anthropic/opus";
    const SONNET: &str = "anthropic/sonnet";

    fn lanes<const N: usize>(limits: [(&str, usize); N]) -> Arc<Lanes> {
        Arc::new(Lanes::new(limits.into_iter().map(|(name, limit)| (name.to_owned(), limit)).collect()))
    }

    impl Lanes {
        fn try_model(self: &Arc<Self>, model: &str) -> Option<Slot> {
            self.try_enter(provider_of(model), model, Foreground)
        }

        fn take(self: &Arc<Self>, model: &str, count: usize) -> Vec<Slot> {
            (0..count).map(|_| self.try_model(model).expect("a free place")).collect()
        }

        fn wait(self: &Arc<Self>, model: &str, urgency: Urgency) -> Place {
            self.enter(provider_of(model), model, urgency)
        }

        /// `name in_use/width of limit, foreground+background waiting, paused seconds`.
        fn told(&self) -> Vec<String> {
            let tell = |lane: LaneStanding| {
                let LaneStanding { name, limit, width, in_use, waiting_foreground, waiting_background, paused_for } = lane;
                let paused = paused_for.map(|pause| format!(", paused {} s", pause.as_secs_f64())).unwrap_or_default();
                format!("{name} {in_use}/{width} of {limit}, {waiting_foreground}+{waiting_background} wait{paused}")
            };
            self.standing().into_iter().map(tell).collect()
        }
    }

    fn provider_of(model: &str) -> &str {
        model.split_once('/').map_or(model, |(provider, _)| provider)
    }

    /// What is ready now, without waiting.
    fn look(place: &mut Place) -> Option<Slot> {
        match pin!(place.first()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    /// Which of them has its turn.
    fn whose_turn(places: &mut [Place]) -> Vec<(usize, Slot)> {
        places.iter_mut().enumerate().filter_map(|(at, place)| Some((at, look(place)?))).collect()
    }

    fn numbers(turns: &[(usize, Slot)]) -> Vec<usize> {
        turns.iter().map(|(at, _)| *at).collect()
    }

    /// In which order they go when one slot goes round.
    fn order(places: &mut [Place], slot: Slot) -> Vec<usize> {
        let (mut order, mut slots) = (Vec::new(), vec![slot]);
        while slots.pop().is_some() {
            let turns = whose_turn(places);
            assert!(turns.len() <= 1, "one slot, one turn");
            order.extend(numbers(&turns));
            slots.extend(turns.into_iter().map(|(_, slot)| slot));
        }
        order
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_needs_a_place_at_its_provider_and_at_its_model() {
        let lanes = lanes([("default", 2), ("anthropic", 5), (OPUS, 3)]);
        let opus = lanes.take(OPUS, 3);
        assert!(lanes.try_model(OPUS).is_none(), "three of three at the model");
        let sonnet = lanes.take(SONNET, 2);
        assert!(lanes.try_model(SONNET).is_none(), "five of five at the provider");
        let other = lanes.take("other/x", 2);
        assert!(lanes.try_model("other/y").is_none(), "the default is the provider's, not the model's");
        assert_eq!(lanes.told(), ["anthropic 5/5 of 5, 0+0 wait", "anthropic/opus 3/3 of 3, 0+0 wait", "other 2/2 of 2, 0+0 wait"]);
        drop((opus, sonnet, other));
        assert_eq!(lanes.told(), ["anthropic 0/5 of 5, 0+0 wait", "anthropic/opus 0/3 of 3, 0+0 wait", "other 0/2 of 2, 0+0 wait"]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_configuration_sixteen_go_and_a_limit_of_none_is_one() {
        let free = lanes([]);
        let _held = free.take("a/b", DEFAULT_SLOTS);
        assert!(free.try_model("a/b").is_none());
        let closed = lanes([("a", 0)]);
        let _held = closed.take("a/b", 1);
        assert!(closed.try_model("a/b").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_one_lane_holds_no_place_in_the_other() {
        let lanes = lanes([("anthropic", 2), (OPUS, 1)]);
        let opus = lanes.take(OPUS, 1);
        let mut second = lanes.wait(OPUS, Foreground);
        assert!(look(&mut second).is_none());
        let sonnet = lanes.try_model(SONNET).expect("the provider has a place, and who wants opus cannot use it");
        drop(opus);
        assert!(look(&mut second).is_some());
        drop(sonnet);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_another_model_is_ahead_only_when_the_provider_is_full() {
        let lanes = lanes([("anthropic", 3), (OPUS, 1), (SONNET, 1)]);
        let _held = (lanes.take(OPUS, 1), lanes.take(SONNET, 1));
        let places = [lanes.wait(OPUS, Foreground), lanes.wait(SONNET, Foreground), lanes.wait(OPUS, Foreground)];
        assert_eq!(places.each_ref().map(Place::ahead), [0, 0, 1]);
        let _third = lanes.take("anthropic/haiku", 1);
        assert_eq!(places.each_ref().map(Place::ahead), [0, 1, 2]);
    }

    /// Peers' row 8: queue at the limit, never beyond it, and everybody has a turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn two_hundred_wait_and_never_more_than_the_limit_run() {
        let lanes = lanes([("anthropic", 5), (OPUS, 3)]);
        let running: Arc<[AtomicUsize; 2]> = Arc::default();
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let (lanes, running) = (lanes.clone(), running.clone());
                tokio::spawn(async move {
                    let which = number % 2;
                    let urgency = if number % 3 == 0 { Foreground } else { Background };
                    let slot = lanes.enter("anthropic", [OPUS, SONNET][which], urgency).first().await;
                    let opus = running[0].fetch_add(usize::from(which == 0), Ordering::SeqCst) + usize::from(which == 0);
                    let both = running[1].fetch_add(1, Ordering::SeqCst) + 1;
                    for _ in 0..5 {
                        tokio::task::yield_now().await;
                    }
                    running[0].fetch_sub(usize::from(which == 0), Ordering::SeqCst);
                    running[1].fetch_sub(1, Ordering::SeqCst);
                    slot.succeeded();
                    (opus, both)
                })
            })
            .collect();
        let (mut opus, mut both) = (0, 0);
        for task in tasks {
            let most = tokio::time::timeout(Duration::from_secs(30), task).await.expect("everybody has a turn").unwrap();
            (opus, both) = (opus.max(most.0), both.max(most.1));
        }
        assert!(opus <= 3 && both <= 5 && 1 < both, "at once: {opus} at the model, {both} at the provider");
        assert_eq!(lanes.told(), ["anthropic 0/5 of 5, 0+0 wait", "anthropic/opus 0/3 of 3, 0+0 wait"]);
    }

    /// Peers' row 23.
    #[tokio::test(start_paused = true)]
    async fn the_foreground_goes_first_and_among_equals_who_came_first() {
        let lanes = lanes([("anthropic", 1)]);
        let slot = lanes.take(OPUS, 1).remove(0);
        let wanted = [(OPUS, Background), (OPUS, Foreground), (SONNET, Background), (SONNET, Foreground), (OPUS, Foreground)];
        let mut places: Vec<_> = wanted.into_iter().map(|(model, urgency)| lanes.wait(model, urgency)).collect();
        assert_eq!(places.iter().map(Place::ahead).collect::<Vec<_>>(), [3, 0, 4, 1, 2]);
        assert_eq!(order(&mut places, slot), [1, 3, 4, 0, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_waited_long_in_the_background_goes_after_a_few_of_the_foreground() {
        let lanes = lanes([("anthropic", 1)]);
        let slot = lanes.take(OPUS, 1).remove(0);
        let mut places = vec![lanes.wait(OPUS, Foreground), lanes.wait(SONNET, Background)];
        tokio::time::advance(AGE - Duration::from_millis(1)).await;
        places.push(lanes.wait(OPUS, Background));
        places.extend((0..3).map(|_| lanes.wait(OPUS, Foreground)));
        assert_eq!(places.iter().map(Place::ahead).collect::<Vec<_>>(), [0, 4, 5, 1, 2, 3]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(places.iter().map(Place::ahead).collect::<Vec<_>>(), [0, 3, 5, 1, 2, 3]);
        assert_eq!(order(&mut places, slot), [0, 3, 1, 4, 5, 2], "the slot that was held was the first of three");
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_stream_in_the_foreground_starves_nobody() {
        let lanes = lanes([("anthropic", 1)]);
        let mut slot = lanes.take(OPUS, 1).remove(0);
        let mut patient = lanes.wait(OPUS, Background);
        let mut stream = vec![lanes.wait(OPUS, Foreground)];
        let begun = Instant::now();
        let waited = loop {
            tokio::time::advance(Duration::from_secs(1)).await;
            stream.push(lanes.wait(OPUS, Foreground));
            drop(slot);
            if look(&mut patient).is_some() {
                break begun.elapsed();
            }
            slot = look(&mut stream.remove(0)).expect("the next of the stream");
            assert!(begun.elapsed() < AGE * 2, "it starves");
        };
        assert_eq!(waited, AGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_failures_is_one_overload() {
        let lanes = lanes([("anthropic", 16)]);
        let mut storm = lanes.take(OPUS, 16);
        for slot in storm.drain(..5) {
            slot.overloaded(None);
        }
        assert_eq!(lanes.told(), ["anthropic 11/8 of 16, 0+0 wait", "anthropic/opus 11/8 of 16, 0+0 wait, paused 1 s"]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(lanes.try_model(OPUS).is_none(), "eleven run, eight may");
        // One that was under way before fails late: nothing new, but its word about the time counts.
        storm.remove(0).overloaded(Some(Duration::from_secs(3)));
        assert_eq!(lanes.told(), ["anthropic 10/8 of 16, 0+0 wait", "anthropic/opus 10/8 of 16, 0+0 wait, paused 3 s"]);
        drop(storm);
        tokio::time::advance(Duration::from_secs(3)).await;
        for (width, pause) in [(4, 2), (2, 4), (1, 8), (1, 16), (1, 32), (1, 60), (1, 60)] {
            let mut next = lanes.take(OPUS, 1);
            next.remove(0).overloaded(None);
            let expected = format!("anthropic/opus 0/{width} of 16, 0+0 wait, paused {pause} s");
            assert_eq!(lanes.told(), [format!("anthropic 0/{width} of 16, 0+0 wait"), expected]);
            tokio::time::advance(Duration::from_secs(pause)).await;
        }
    }

    /// Peers' row 9.
    #[tokio::test(start_paused = true)]
    async fn nobody_starts_before_the_server_allows_it() {
        for (asked, waited) in [(Some(7.0), 7.0), (Some(0.0), 1.0), (Some(86_400.0), 600.0), (None, 1.0)] {
            let lanes = lanes([("anthropic", 4)]);
            let slots = lanes.take(OPUS, 4);
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let mut place = lanes.wait(OPUS, Background);
                    assert!(look(&mut place).is_none(), "asked from one task, awaited in another");
                    tokio::spawn(async move {
                        let slot = place.first().await;
                        (Instant::now(), slot)
                    })
                })
                .collect();
            // They wait for a slot before they wait for the pause.
            tokio::task::yield_now().await;
            let begun = Instant::now();
            for slot in slots {
                slot.overloaded(asked.map(Duration::from_secs_f64));
            }
            assert!(lanes.try_model(OPUS).is_none());
            assert_eq!(lanes.paused_for("anthropic", OPUS), Some(Duration::from_secs_f64(waited)));
            let mut starts = Vec::new();
            for waiter in waiters {
                let (at, slot) = tokio::time::timeout(RETRY_AFTER_MAX * 2, waiter).await.expect("woken").unwrap();
                starts.push(at.duration_since(begun).as_secs_f64().round());
                slot.succeeded();
            }
            assert_eq!(starts, [waited; 3], "asked for {asked:?}");
            assert_eq!(lanes.paused_for("anthropic", OPUS), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_may_grow_while_one_sleeps_and_never_shrinks() {
        let lanes = lanes([("anthropic", 3)]);
        let mut slots = lanes.take(OPUS, 3);
        let mut place = lanes.wait(OPUS, Foreground);
        slots.remove(0).overloaded(Some(Duration::from_secs(5)));
        let begun = Instant::now();
        let mut sleeper = tokio::spawn(async move { (place.first().await, Instant::now()) });
        assert!(tokio::time::timeout(Duration::from_secs(3), &mut sleeper).await.is_err());
        slots.remove(0).overloaded(Some(Duration::from_secs(30)));
        slots.remove(0).overloaded(Some(Duration::from_secs(2)));
        let (_slot, at) = sleeper.await.unwrap();
        assert_eq!(at.duration_since(begun).as_secs(), 33);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_model_does_not_hold_up_the_others_of_its_provider() {
        let lanes = lanes([("anthropic", 4)]);
        lanes.take(OPUS, 1).remove(0).overloaded(Some(Duration::from_secs(60)));
        let mut waits = lanes.wait(OPUS, Foreground);
        assert!(look(&mut waits).is_none());
        let mut fallback = lanes.wait(SONNET, Background);
        assert_eq!(fallback.ahead(), 0, "who waits for a pause to end stands in nobody's way");
        assert!(look(&mut fallback).is_some());
        let _held = lanes.take(SONNET, 2);
        assert!(lanes.try_model(SONNET).is_none(), "but the provider as a whole is narrower");
        assert_eq!(lanes.wait(SONNET, Background).ahead(), 0, "still not");
        assert_eq!(lanes.paused_for("anthropic", SONNET), None);
        assert_eq!(lanes.paused_for("anthropic", "anthropic/never-used"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_granted_before_the_pause_and_not_taken_waits_for_its_end() {
        let lanes = lanes([("anthropic", 2)]);
        drop(lanes.take(OPUS, 1));
        let mut slots = lanes.take(OPUS, 2);
        let mut first = lanes.wait(OPUS, Background);
        tokio::time::advance(AGE).await;
        let mut second = lanes.wait(OPUS, Foreground);
        drop(slots.remove(0));
        assert_eq!((first.ahead(), second.ahead()), (0, 0));
        slots.remove(0).overloaded(Some(Duration::from_secs(9)));
        assert!(look(&mut first).is_none(), "the server said stop before it began");
        assert_eq!((lanes.told()[0].as_str(), second.ahead()), ("anthropic 0/1 of 2, 1+1 wait", 0));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(look(&mut second).is_none());
        assert!(look(&mut first).is_some(), "it has kept its place and its age");
    }

    #[tokio::test(start_paused = true)]
    async fn successes_widen_the_lane_one_place_at_a_time() {
        let lanes = lanes([("anthropic", 8), (OPUS, 4)]);
        let mut slots = lanes.take(OPUS, 3);
        slots.remove(0).overloaded(None);
        tokio::time::advance(Duration::from_secs(1)).await;
        slots.into_iter().for_each(Slot::succeeded);
        let widths = || lanes.standing().iter().map(|lane| lane.width).collect::<Vec<_>>();
        assert_eq!(widths(), [4, 2], "what began before says nothing about now");
        let mut seen = Vec::new();
        for _ in 0..27 {
            lanes.take(OPUS, 1).remove(0).succeeded();
            seen.push(widths());
        }
        let at = |successes: usize| seen[successes - 1].clone();
        assert_eq!([at(1), at(2), at(4), at(5), at(8), at(9)], [[4, 2], [4, 3], [5, 3], [5, 4], [5, 4], [6, 4]]);
        assert_eq!([at(14), at(15), at(21), at(22), at(27)], [[6, 4], [7, 4], [7, 4], [8, 4], [8, 4]], "up to the limits");
        // And the pauses begin anew.
        lanes.take(OPUS, 1).remove(0).overloaded(None);
        assert_eq!(lanes.paused_for("anthropic", OPUS), Some(PAUSE_FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_slot_says_nothing_about_the_server() {
        let lanes = lanes([("anthropic", 2)]);
        lanes.take(OPUS, 1).remove(0).overloaded(None);
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(lanes.take(OPUS, 1));
        assert_eq!(lanes.told(), ["anthropic 0/1 of 2, 0+0 wait", "anthropic/opus 0/1 of 2, 0+0 wait"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_the_queue_is_not_waited_for() {
        let lanes = lanes([("anthropic", 1)]);
        let slot = lanes.take(OPUS, 1).remove(0);
        let mut places: Vec<_> = (0..4).map(|_| lanes.wait(OPUS, Foreground)).collect();
        drop(places.remove(1));
        assert_eq!(lanes.told(), ["anthropic 1/1 of 1, 3+0 wait"]);
        drop(slot);
        // The first has a slot and never takes it.
        drop(places.remove(0));
        assert_eq!(numbers(&whose_turn(&mut places)), [0]);
        drop(places);
        assert_eq!(lanes.told(), ["anthropic 0/1 of 1, 0+0 wait"]);
        assert!(lanes.try_model(OPUS).is_some());
    }

    /// The run asks for its turn beside its mail, again and again.
    #[tokio::test(start_paused = true)]
    async fn a_place_is_kept_while_the_asking_is_broken_off() {
        let lanes = lanes([("anthropic", 1)]);
        let slot = lanes.take(OPUS, 1).remove(0);
        let mut place = lanes.wait(OPUS, Foreground);
        let mut later = lanes.wait(OPUS, Foreground);
        for _ in 0..50 {
            tokio::select! {
                biased;
                _ = place.first() => panic!("the lane is full"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!((place.ahead(), later.ahead()), (0, 1));
        assert!(place.is_for(OPUS) && !place.is_for(SONNET));
        drop(slot);
        assert!(look(&mut later).is_none());
        assert!(lanes.try_model(OPUS).is_none(), "granted is taken");
        let slot = place.first().await;
        assert!(slot.is_for(OPUS) && !slot.is_for(SONNET));
        assert!(look(&mut place).is_none(), "once");
        drop(place);
        assert_eq!(lanes.told(), ["anthropic 1/1 of 1, 1+0 wait"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_who_wait_are_cheap() {
        #[derive(Default)]
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let lanes = lanes([("anthropic", 2)]);
        let mut slots = lanes.take(OPUS, 2);
        let mut places: Vec<_> = (0..1000).map(|_| lanes.wait(OPUS, Background)).collect();
        let count = Arc::new(Count::default());
        for place in &mut places {
            assert!(pin!(place.first()).poll(&mut Context::from_waker(&count.clone().into())).is_pending());
        }
        drop(slots.remove(0));
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "a slot wakes one");
        slots.remove(0).overloaded(None);
        assert_eq!(count.0.load(Ordering::SeqCst), 1000, "a pause is told to all");
        let waiting = size_of_val(&places[0].first());
        let bytes = size_of::<Place>() + size_of::<(u64, Waiter)>() + waiting;
        assert!(bytes < 512, "{bytes} bytes each");
    }

    /// Whatever happens in whatever order: the limits hold, nobody waits who could go, and in the end all is given back.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_lost_in_five_hundred_random_days() {
        for seed in 0..500 {
            let mut dice = fastrand::Rng::with_seed(seed);
            let lanes = lanes([("default", 3), ("anthropic", 5), (OPUS, 2)]);
            let (mut places, mut slots) = (Vec::<(&str, Place)>::new(), Vec::<(&str, Slot)>::new());
            for _ in 0..100 {
                let model = [OPUS, SONNET, "anthropic/haiku", "other/x"][dice.usize(..4)];
                let urgency = if dice.bool() { Foreground } else { Background };
                match dice.u8(..10) {
                    0..=2 => places.push((model, lanes.wait(model, urgency))),
                    3 => slots.extend(lanes.try_enter(provider_of(model), model, urgency).map(|slot| (model, slot))),
                    4 if !places.is_empty() => drop(places.swap_remove(dice.usize(..places.len()))),
                    5 | 6 if !places.is_empty() => {
                        let at = dice.usize(..places.len());
                        if let Some(slot) = look(&mut places[at].1) {
                            slots.push((places.swap_remove(at).0, slot));
                        }
                    }
                    7 | 8 if !slots.is_empty() => {
                        let slot = slots.swap_remove(dice.usize(..slots.len())).1;
                        match dice.u8(..4) {
                            0 => slot.overloaded(dice.bool().then(|| Duration::from_secs(dice.u64(..700)))),
                            1 => drop(slot),
                            _ => slot.succeeded(),
                        }
                    }
                    _ => tokio::time::advance(Duration::from_millis(dice.u64(..5000))).await,
                }
                let held = |of: &str| slots.iter().filter(|(model, _)| *model == of || provider_of(model) == of).count();
                for lane in lanes.standing() {
                    let waiting = lane.waiting_foreground + lane.waiting_background;
                    assert!(held(&lane.name) <= lane.in_use && lane.in_use <= lane.limit, "seed {seed}: {lane:?}");
                    assert!((1..=lane.limit).contains(&lane.width) && waiting <= places.len(), "seed {seed}: {lane:?}");
                }
                // Whoever asks, all who can go are let in.
                let asking = if dice.u8(..5) == 0 { places.len() } else { 0 };
                for (model, mut place) in places.drain(..asking).collect::<Vec<_>>() {
                    match look(&mut place) {
                        Some(slot) => slots.push((model, slot)),
                        None => places.push((model, place)),
                    }
                    let idle = lanes.with(|core, now| {
                        let model = &core.models[core.find(provider_of(model), model).unwrap()];
                        let waiting = model.foreground.len() + model.background.len();
                        0 < waiting && model.is_open(now) && core.providers[model.provider].lane.has_room()
                    });
                    assert!(!idle, "seed {seed}: there is room and somebody waits: {:?}", lanes.told());
                }
            }
            drop((places, slots));
            for lane in lanes.standing() {
                assert_eq!((lane.in_use, lane.waiting_foreground, lane.waiting_background), (0, 0, 0), "seed {seed}: {lane:?}");
            }
            assert!(lanes.with(|core, _| core.models.iter().all(|model| model.granted.is_empty())), "seed {seed}");
        }
    }
}
