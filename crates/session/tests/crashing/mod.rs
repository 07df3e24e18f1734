//! One log and the processes that die on it: what the crash tests share.
//!
//! The driver is the loop of the architecture over a vector: draft, decide, begin, append, do. An append may be torn after
//! any event, and the process may die before or after it did what the append promised. What the world did (which tools
//! ran, which folders are there) outlives the process; so do letters, until an append that holds their facts is whole.
#![allow(dead_code, unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Counter, Dice, created, internal, left, play::task_report, rules, spawn, split_off, subtask, wanted};
use posse_session::{
    Answer, AskId, Asking, BatchId, By, CallId, CallState, Command, Delivery, Draft, Effect, EffectKey, Entry, EntryId, Event, Finish,
    Given, Hash, Hold, How, Ids, Isolation, Kind, Look, ModelFailure, OpenCall, Outcome, Part, Permit, Priority, Purpose, Record, Report,
    Scope, Session, SessionId, Source, Spawn, Text, Timestamp, To, Touch, Usage,
};

/// The four ways in which every story of a file must end well.
macro_rules! every_story_ends_well {
    ($scenarios:path) => {
        #[test]
        fn every_scenario_ends_when_nothing_goes_wrong() {
            $crate::crashing::check_undisturbed($scenarios());
        }

        #[test]
        fn a_crash_at_any_event_is_survived() {
            let deaths = $crate::crashing::check_deaths($scenarios());
            assert!(500 < deaths, "{deaths}");
        }

        #[test]
        fn crashes_during_recovery_are_survived() {
            $crate::crashing::check_deaths_during_recovery($scenarios());
        }

        #[test]
        fn a_saved_fold_goes_on_as_the_whole_log_would() {
            $crate::crashing::check_saved_folds($scenarios());
        }
    };
}
pub(crate) use every_story_ends_well;

/// What the model does at the n-th reply; a step that is asked again gets the same answer.
#[derive(Clone, Copy)]
pub enum Say {
    Calls(&'static [(&'static str, &'static str)]),
    Done,
    /// Fails so often with this before it answers.
    After(u32, ModelFailure, &'static [(&'static str, &'static str)]),
    /// Answers, but not in the shape that was asked for.
    Misshapen,
}

/// What comes of it when the conversation is to be shorter.
#[derive(Clone, Copy, PartialEq)]
pub enum Shortening {
    Sums,
    /// Whoever is to sum it up fails.
    Fails,
    /// What calls printed is left out first; if that was done since the last answer, it is summed up.
    Prunes,
    /// There is nothing that could be left out.
    Cannot,
    /// What is to be summed up is too long itself, so often; then less of it is not.
    TooMuch(u32),
}

/// Something that comes from outside when the log holds so many events of a name.
pub struct Letter {
    pub when: (&'static str, usize),
    pub command: fn(&Session) -> Option<Command>,
}

pub struct Scenario {
    pub name: &'static str,
    pub script: &'static [Say],
    pub letters: Vec<Letter>,
    pub asking: Asking,
    pub looks: bool,
    /// The model's steps from this one on are closing ones.
    pub closing_at: Option<u64>,
    /// Models that answer when its own is overloaded.
    pub fallbacks: &'static [&'static str],
    /// Its tasks and shells end when the log holds so many events of a name, or after a while.
    pub ends_after: (&'static str, usize),
    pub shortening: Shortening,
    /// The run finds the conversation too long by itself when the model has answered so often.
    pub full_at: Option<usize>,
}

/// What outlives every process.
pub struct World<'a> {
    pub scenario: &'a Scenario,
    pub log: Vec<Record>,
    /// How many events of each name the log holds.
    pub counts: BTreeMap<String, usize>,
    /// Every time a tool really ran.
    pub ran: Vec<CallId>,
    /// Letters that wait: the index in the scenario.
    pub inbox: BTreeSet<usize>,
    pub failures: u32,
    pub looked_after: u32,
    /// What calls have left running in this process; it ends with it.
    pub shells: BTreeSet<CallId>,
    /// The folders of tasks that have one of their own.
    pub folders: BTreeMap<SessionId, Folder>,
    pub ids: Counter,
    pub now: u64,
}

/// A folder of a task's own, as the disk has it.
#[derive(Debug, Clone)]
pub struct Folder {
    /// What the task does there: `clean` nothing, `dirty` something, `later` something from its second round on, `stuck`
    /// nothing, but the folder cannot be removed.
    pub fate: String,
    pub is_there: bool,
    pub is_dirty: bool,
    /// How often somebody tried to remove it.
    pub tries: u32,
}

/// When the process dies: at the append that would bring the log beyond this length, which is torn there, or right after.
#[derive(Debug, Clone, Copy)]
pub enum Death {
    Torn(usize),
    After(usize),
    Never,
}

pub struct Crashed;

pub fn entry(id: &str, source: Source, delivery: Delivery, priority: Priority) -> Command {
    Command::Say(Entry { source, delivery, priority, ..Entry::user(EntryId::new(id), "words") })
}

pub fn user(id: &str) -> Option<Command> {
    Some(entry(id, Source::User, Delivery::NextStep, Priority::Next))
}

pub fn typed(id: &str) -> Option<Command> {
    Some(Command::Say(Entry { typed: true, ..Entry::user(EntryId::new(id), "words") }))
}

impl<'a> World<'a> {
    pub fn new(scenario: &'a Scenario) -> Self {
        let inbox = (0..scenario.letters.len()).collect();
        Self {
            scenario,
            log: Vec::new(),
            counts: BTreeMap::new(),
            ran: Vec::new(),
            inbox,
            failures: 0,
            looked_after: 0,
            shells: BTreeSet::new(),
            folders: BTreeMap::new(),
            ids: Counter::default(),
            now: 0,
        }
    }

    pub fn count(&self, name: &str) -> usize {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// One process: opens the session, takes over what it finds, runs until nothing is left to do.
    pub fn live(&mut self, death: Death) -> Result<(), Crashed> {
        let id = SessionId::new("ses_0");
        let mut session = Session::fold(id.clone(), &self.log);
        let mut under_way: Vec<Effect> = Vec::new();
        self.shells.clear();
        let create = Command::Create(Box::new(created(Kind::Root, "ses_0", None, Vec::new())));
        let mut opening = vec![create, Command::Configure { head: Hash::new("aa"), model: "test/one".into() }, Command::TakeOver];
        let mut reports = Vec::new();
        let rules = rules();
        for _ in 0..2_000 {
            self.now += 1_000_000;
            let due: Vec<usize> = self.inbox.iter().copied().filter(|letter| self.is_due(*letter)).collect();
            let scenario = self.scenario;
            let (asking, looks) = (scenario.asking, scenario.looks);
            let fallbacks: Vec<String> = scenario.fallbacks.iter().map(|model| (*model).to_owned()).collect();
            let mut draft = session.draft(BatchId::new(self.ids.fresh("evt_")), Timestamp(self.now));
            let given = Given {
                now: Timestamp(self.now),
                ids: &self.ids,
                chance: 0.0,
                rules: &rules,
                ceiling: &[],
                asking,
                mode: Default::default(),
                strict_shell: false,
                grants: &[],
                looks,
                fallbacks: &fallbacks,
                compacts: true,
                in_flight: Default::default(),
            };
            opening.drain(..).for_each(|command| draft.decide(command, &given));
            let mut taken = Vec::new();
            for letter in due {
                if let Some(command) = (scenario.letters[letter].command)(draft.session()) {
                    draft.decide(self.addressed(command), &given);
                    taken.push(letter);
                }
            }
            // Letters come before reports, so that a report may find that nobody waits for it any more.
            reports.drain(..).for_each(|report| draft.decide(report, &given));
            for effect in draft.session().owed() {
                if let Effect::Subtask { step } = effect {
                    let mut wanted = wanted(&self.ids.fresh("call_"), "agent", "{}");
                    wanted.consented = true;
                    let author = "scout".to_owned();
                    draft.decide(Command::Subtask { step, author, wanted: Box::new(wanted), notes: Vec::new() }, &given);
                    continue;
                }
                if let Some(entry) = self.must_shorten(&effect, draft.session()) {
                    draft.decide(self.shorten(draft.session(), entry), &given);
                    continue;
                }
                let closing = matches!(effect, Effect::CallModel { step, .. } if scenario.closing_at.is_some_and(|at| at <= step));
                draft.begin(&effect, Permit { closing, ..Permit::default() }, Vec::new(), &given);
            }
            session = self.append(draft, death)?;
            self.inbox.retain(|letter| !taken.contains(letter));
            assert_eq!(Session::fold(id.clone(), &self.log), session, "the log says something else");
            match_to(&mut under_way, &session);
            let has_mail = self.inbox.iter().any(|letter| self.is_due(*letter) && (scenario.letters[*letter].command)(&session).is_some());
            if session.is_settled() && under_way.is_empty() && !has_mail {
                match session.hold() {
                    // A person comes by in the end and lets it go on, so that no entry waits for ever.
                    Some(_) if !session.queue().is_empty() || session.hold() == Some(Hold::TakeOvers) => {
                        reports.push(Command::Resume { by: By::User });
                        continue;
                    }
                    _ => return Ok(()),
                }
            }
            // Calls that were told to stop say how far they came; one of the others is done.
            for open in session.calls() {
                if open.state == CallState::Stopping {
                    let outcome = Outcome::cancelled("half");
                    reports.push(Command::Report(Report::CallFinished { call: open.call.clone(), outcome }));
                }
            }
            if let Some(effect) = under_way.first().cloned() {
                reports.extend(self.perform(&effect, &session));
                under_way.rotate_left(1);
            } else if reports.is_empty() && !has_mail {
                // Only an open question is left; somebody answers it in the end.
                reports.extend(first_ask(&session, Answer::Yes { scope: Scope::Once }));
            }
        }
        panic!("{}: never settles: {:?} owes {:?}", self.scenario.name, session, session.owed());
    }

    /// Whether the conversation must be shorter before this goes on, and which entry asks for it.
    fn must_shorten(&self, effect: &Effect, session: &Session) -> Option<Option<EntryId>> {
        let is_full =
            self.scenario.full_at == Some(self.count("replied")) && session.compaction().rounds == 0 && !session.compaction().failed;
        match effect {
            Effect::Compact { entry } => Some(entry.clone()),
            Effect::CallModel { .. } if !session.has_begun(effect) && is_full && !self.was_pruned() => Some(None),
            _ => None,
        }
    }

    /// Outputs were left out since the model last answered.
    fn was_pruned(&self) -> bool {
        let last = self.log.iter().rev().find(|record| matches!(record.event, Event::Replied { .. } | Event::Pruned { .. }));
        last.is_some_and(|record| matches!(record.event, Event::Pruned { .. }))
    }

    fn shorten(&self, session: &Session, took: Option<EntryId>) -> Command {
        let tail_from = session.head();
        match self.scenario.shortening {
            Shortening::Cannot => Command::LeaveUncompacted { why: "nothing of it can be left out".into(), took },
            Shortening::Prunes if took.is_none() && !self.was_pruned() => Command::Prune { to: tail_from },
            _ => {
                let task = SessionId::new(self.ids.fresh("ses_"));
                let segments = session.segments_until(tail_from);
                let spawn = internal(&format!("msg_{task}"), Purpose::Compact { tail_from }, segments);
                Command::Compact { task, spawn: Box::new(spawn), took }
            }
        }
    }

    /// Half of it would be sent the next time.
    fn is_too_much(&self) -> bool {
        let Shortening::TooMuch(times) = self.scenario.shortening else { return false };
        Session::fold(SessionId::new("ses_0"), &self.log).compaction().shrunk < times
    }

    fn is_due(&self, letter: usize) -> bool {
        let (name, times) = self.scenario.letters[letter].when;
        times <= self.count(name)
    }

    fn append(&mut self, draft: Draft, death: Death) -> Result<Session, Crashed> {
        let (session, mut records) = draft.into_parts();
        let length = self.log.len() + records.len();
        let dies = match death {
            Death::Torn(at) => at < length,
            Death::After(at) => at <= length,
            Death::Never => false,
        };
        if let (true, Death::Torn(at)) = (dies, death) {
            records.truncate(at.saturating_sub(self.log.len()));
        }
        for record in &records {
            *self.counts.entry(record.event.name()).or_default() += 1;
        }
        self.log.extend(records);
        if dies { Err(Crashed) } else { Ok(session) }
    }

    /// Does a piece of work that is owed and begun, and says how it went.
    fn perform(&mut self, effect: &Effect, session: &Session) -> Vec<Command> {
        match effect {
            Effect::CallModel { step, .. } => vec![Command::Report(self.reply(*step))],
            Effect::Look { call } => {
                let open = session.call(call).expect("it is open");
                let refused = open.tool == "refused";
                let touches = vec![Touch::new(open.tool.as_str(), "amended")];
                let look = if refused {
                    Err("no".into())
                } else {
                    Ok(Look { touches, repeatable: open.repeatable, title: String::new(), ..Look::default() })
                };
                vec![Command::Report(Report::Looked { call: call.clone(), input: "amended".into(), look, by: "hook".into() })]
            }
            Effect::RunCall { call } => {
                let open = session.call(call).expect("it is open");
                let task = SessionId::new(self.ids.fresh("ses_"));
                self.ran.push(call.clone());
                if let Some(done) = self.delegate(call, open, session) {
                    return done;
                }
                let (wait, internal) = (!matches!(open.tool.as_str(), "launch" | "apart" | "fork"), open.tool == "dream");
                if matches!(open.tool.as_str(), "agent" | "launch" | "dream" | "alone" | "apart" | "fork") {
                    let mut spawn = Box::new(spawn(&format!("msg_{task}"), internal));
                    if matches!(open.tool.as_str(), "alone" | "apart") {
                        spawn.isolation = Some(Isolation::Worktree);
                        let fate = self.input_of(open).to_owned();
                        self.folders.insert(task.clone(), Folder { fate, is_there: false, is_dirty: false, tries: 0 });
                    }
                    if open.tool == "fork" {
                        let called = |record: &&Record| matches!(record.event, Event::Called { .. });
                        let to = self.log.iter().rev().find(called).map_or(0, |record| record.seq);
                        *spawn = split_off(&format!("msg_{task}"), session.segments_until(to));
                    }
                    let launched = (!wait).then(|| Outcome::done("it runs"));
                    return vec![Command::Spawn { call: call.clone(), task, round: 1, spawn, launched }];
                }
                vec![Command::Report(Report::CallFinished { call: call.clone(), outcome: Outcome::done("ok") })]
            }
            Effect::Watch { task, round } => {
                let stopped = session.tasks()[task].stopped.is_some();
                // Whoever goes on with a task sees that its folder is there.
                if let Some(folder) = self.folders.get_mut(task) {
                    folder.is_there = true;
                    folder.is_dirty |= folder.fate == "dirty" || (folder.fate == "later" && 1 < *round);
                }
                // A child that is to be stopped or detached takes its time, so that the letter finds it.
                self.looked_after += 1;
                let has_letter = self.inbox.iter().any(|letter| self.scenario.letters[*letter].when.0 == "task_started");
                if (has_letter || self.is_early()) && !stopped && !self.looked_after.is_multiple_of(12) {
                    return Vec::new();
                }
                let sums = matches!(session.tasks()[task].purpose, Some(Purpose::Compact { .. }));
                let how = match stopped {
                    true => How::Stopped,
                    false if sums && self.scenario.shortening == Shortening::Fails => How::Failed,
                    false if sums && self.is_too_much() => How::Failed,
                    false => How::Completed,
                };
                let Report::TaskEnded(mut end) = task_report(task.as_str(), *round, how) else { return Vec::new() };
                end.said = if how == How::Completed { "found".into() } else { Text::default() };
                end.too_long = sums && how == How::Failed && self.scenario.shortening != Shortening::Fails;
                end.left = self.folders.get(task).map(|folder| left(task.as_str(), !folder.is_dirty));
                vec![Command::Report(Report::TaskEnded(end))]
            }
            Effect::Expand { entry } => vec![Command::Report(self.expand(entry))],
            Effect::Mind { call } => {
                self.looked_after += 1;
                if !self.shells.contains(call) || (self.is_early() && !self.looked_after.is_multiple_of(12)) {
                    return Vec::new();
                }
                let words = (session.kept()[call] != "silent").then(|| Text::from("[shell done]"));
                vec![Command::Report(Report::KeptEnded { call: call.clone(), words })]
            }
            Effect::Release { task } => vec![Command::Report(self.release(task, session))],
            Effect::Subtask { .. } | Effect::StopTask { .. } | Effect::Compact { .. } | Effect::Conclude { .. } => Vec::new(),
        }
    }

    /// Removes a folder, as often as it is asked to: what is gone is gone.
    fn release(&mut self, task: &SessionId, session: &Session) -> Report {
        let (name, task) = (self.scenario.name, task.clone());
        assert!(!session.tasks().contains_key(&task), "{name}: the folder of {task} is removed while it works");
        let folder = self.folders.get_mut(&task).expect("only who has a folder is released");
        assert!(!folder.is_dirty, "{name}: the folder of {task} is removed with work in it");
        folder.tries += 1;
        folder.is_there &= folder.fate == "stuck";
        let removed = !folder.is_there;
        Report::Released { task, removed, words: if removed { String::new() } else { "it is locked".into() } }
    }

    fn is_early(&self) -> bool {
        let (name, times) = self.scenario.ends_after;
        self.count(name) < times
    }

    /// The task that ended last and does not run again, and its next round.
    fn ended_task(&self, session: &Session) -> Option<(SessionId, u64)> {
        self.log.iter().rev().find_map(|record| match &record.event {
            Event::TaskEnded { task, round, .. } if !session.tasks().contains_key(task) => Some((task.clone(), round + 1)),
            _ => None,
        })
    }

    /// What the model wrote for a call.
    fn input_of(&self, open: &OpenCall) -> &str {
        let input = if let Event::Called { input, .. } = &self.log[open.seq as usize - 1].event { input.inline() } else { None };
        input.unwrap_or_default()
    }

    /// What calls do to tasks that they did not start, and what they leave running.
    fn delegate(&mut self, call: &CallId, open: &OpenCall, session: &Session) -> Option<Vec<Command>> {
        let done = Command::Report(Report::CallFinished { call: call.clone(), outcome: Outcome::done("ok") });
        Some(match open.tool.as_str() {
            "await" => match session.tasks().keys().next() {
                Some(task) => vec![Command::Await { call: call.clone(), task: task.clone(), until: None }],
                None => vec![done],
            },
            "keep" => {
                self.shells.insert(call.clone());
                vec![Command::Keep { call: call.clone(), title: self.input_of(open).to_owned() }, done]
            }
            // It reads how a task ended: the result first, so that the notice is gone only when it was read.
            "output" => {
                let noticed = self.ended_task(session).map(|(task, _)| Command::Noticed { task });
                std::iter::once(done).chain(noticed).collect()
            }
            "message" => self.ended_task(session).map(wake).into_iter().chain([done]).collect(),
            _ => return None,
        })
    }

    /// People find in the log whom they mean by `last`.
    fn addressed(&self, command: Command) -> Command {
        match command {
            Command::Answer { ask, answer, by } if ask.as_str() == "last" => {
                let asked = |record: &Record| if let Event::Asked { ask, .. } = &record.event { Some(ask.clone()) } else { None };
                Command::Answer { ask: self.log.iter().rev().find_map(asked).unwrap_or(ask), answer, by }
            }
            // Whoever begins internal work looks first whether it was begun.
            Command::Advise { task, .. }
                if self.log.iter().any(|record| matches!(&record.event, Event::TaskStarted { task: known, .. } if *known == task)) =>
            {
                Command::Noticed { task }
            }
            Command::Wake { task, .. } if task.as_str() == "last" => {
                let session = Session::fold(SessionId::new("ses_0"), &self.log);
                self.ended_task(&session).map_or(Command::Resume { by: By::User }, wake)
            }
            other => other,
        }
    }

    /// `typed` needs a file and comes to words and two agents, `direct` to one agent whose answer is the answer.
    fn expand(&mut self, entry: &EntryId) -> Report {
        let asked =
            self.log.iter().filter(|record| matches!(&record.event, Event::Expanding { entry: asked, .. } if asked == entry)).count();
        if entry.as_str() == "typed" && asked == 0 {
            let calls = vec![wanted(&self.ids.fresh("call_"), "read", "1"), wanted(&self.ids.fresh("call_"), "ask", "2")];
            return Report::Expanding { entry: entry.clone(), calls };
        }
        let parts = if entry.as_str() == "direct" { vec![subtask(true)] } else { vec![Part::text("hi"), subtask(false), subtask(false)] };
        Report::Expanded { entry: entry.clone(), parts, agent: Some("plan".into()), model: None, allowed: Vec::new() }
    }

    fn reply(&mut self, step: u64) -> Report {
        let said = self.count("replied");
        let calls = match self.scenario.script.get(said) {
            Some(Say::Calls(calls)) => calls,
            Some(Say::After(times, failure, calls)) => {
                if self.failures < *times {
                    self.failures += 1;
                    let (words, partial) = ("it broke".to_owned(), Text::from("half"));
                    return Report::ModelFailed { step, failure: *failure, words, retry_after: None, partial, usage: Usage::default() };
                }
                calls
            }
            Some(Say::Done | Say::Misshapen) | None => &[][..],
        };
        let misshapen = matches!(self.scenario.script.get(said), Some(Say::Misshapen)).then(|| "no such field".to_owned());
        let calls: Vec<_> = calls
            .iter()
            .map(|(tool, input)| {
                let mut wanted = wanted(&self.ids.fresh("call_"), tool, input);
                if let Ok(look) = &mut wanted.look {
                    look.repeatable |= matches!(*tool, "launch" | "dream" | "alone" | "apart" | "fork" | "await" | "output");
                }
                wanted
            })
            .collect();
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        Report::Reply { step, parts: Vec::new(), calls, usage: Usage { output: 1, ..Usage::default() }, finish, misshapen }
    }

    /// What must hold when all is over, however often the process died.
    pub fn check(&self, story: &str) {
        let session = Session::fold(SessionId::new("ses_0"), &self.log);
        assert!(session.is_settled(), "{story}: {session:?}");
        let seqs: Vec<u64> = self.log.iter().map(|record| record.seq).collect();
        assert_eq!(seqs, (1..=self.log.len() as u64).collect::<Vec<_>>(), "{story}: the numbers are dense");
        let (mut results, mut queued, mut taken) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut repeatable, mut ends, mut promised) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut kept, mut over) = (BTreeMap::new(), BTreeMap::new());
        for record in &self.log {
            match &record.event {
                Event::Called { call, repeatable: again, .. } => {
                    repeatable.insert(call.clone(), *again);
                    results.entry(call.clone()).or_insert(0);
                }
                Event::CallFinished { call, .. } => *results.entry(call.clone()).or_default() += 1,
                Event::Queued { entry } => *queued.entry(entry.id.clone()).or_insert(0) += 1,
                Event::StepStarted { took, .. } => took.iter().for_each(|id| *taken.entry(id.clone()).or_insert(0) += 1),
                Event::Unqueued { entry } => *taken.entry(entry.clone()).or_insert(0) += 1,
                Event::Kept { call, .. } => *kept.entry(call.clone()).or_insert(0) += 1,
                Event::KeptEnded { call, entry, .. } => {
                    *over.entry(call.clone()).or_insert(0) += 1;
                    entry.iter().for_each(|entry| *queued.entry(entry.clone()).or_insert(0) += 1);
                }
                Event::TaskStarted { task, round, .. } | Event::TaskResumed { task, round, .. } => {
                    *promised.entry((task.clone(), *round)).or_insert(0) += 1
                }
                Event::TaskEnded { task, round, to, .. } => {
                    *ends.entry((task.clone(), *round)).or_insert(0) += 1;
                    match to {
                        To::Call { call } => *results.entry(call.clone()).or_default() += 1,
                        To::Queue { entry, .. } => *queued.entry(entry.clone()).or_insert(0) += 1,
                        To::Internal => {}
                    }
                }
                _ => {}
            }
        }
        assert!(results.values().all(|results| *results == 1), "{story}: every call has one result: {results:?}");
        assert!(queued.values().all(|times| *times == 1), "{story}: no entry comes twice: {queued:?}");
        assert_eq!(queued, taken, "{story}: every entry is said once");
        assert!(promised.values().all(|times| *times == 1), "{story}: a round is promised once: {promised:?}");
        assert_eq!(promised, ends, "{story}: every task ends once");
        assert!(kept.values().all(|times| *times == 1), "{story}: a call leaves one thing running: {kept:?}");
        assert_eq!(kept, over, "{story}: what was left running is over once");
        self.check_length(story);
        self.check_folders(story);
        self.check_beside(story);
        let late = queued.keys().filter(|entry| entry.as_str().ends_with(".late")).count();
        // A reply that was torn before its call has asked nobody.
        let asked = self.scenario.name.contains("answered late") && 0 < self.count("asked");
        assert_eq!(late, usize::from(asked), "{story}: a late answer is heard of once");
        // What the user ran is called once, whatever happens; only a stop may end it before.
        let run = self.log.iter().filter(|record| matches!(&record.event, Event::Called { tool, .. } if tool == "agent")).count();
        if self.scenario.name.starts_with("typed") {
            assert_eq!(run, 3, "{story}: every agent that the user ran is called once");
        }
        for (index, letter) in self.scenario.letters.iter().enumerate() {
            if let Some(Command::Say(entry)) = (letter.command)(&session) {
                assert!(self.inbox.contains(&index) || queued.contains_key(&entry.id), "{story}: {} was lost", entry.id);
            }
        }
        let mut ran: BTreeMap<&CallId, u32> = BTreeMap::new();
        self.ran.iter().for_each(|call| *ran.entry(call).or_default() += 1);
        for (call, times) in ran {
            let most = if repeatable.get(call) == Some(&true) { 3 } else { 1 };
            assert!(times <= most, "{story}: {call} ran {times} times");
        }
    }
}

impl World<'_> {
    /// Every summary that was promised is written once or said to have failed, and whoever asked for one has it.
    fn check_length(&self, story: &str) {
        let (mut promised, mut written): (BTreeMap<u64, u32>, BTreeMap<u64, u32>) = Default::default();
        let (mut asked, mut failures) = (Vec::new(), Vec::new());
        // The provider finds it too long, and nothing was done about it yet.
        let mut overflowed = false;
        for record in &self.log {
            match &record.event {
                Event::Queued { entry } if entry.parts.iter().any(|part| matches!(part, Part::Compact { .. })) => {
                    asked.push((&entry.id, record.seq));
                }
                Event::TaskStarted { spawn: Spawn { purpose: Some(Purpose::Compact { tail_from }), .. }, .. } => {
                    *promised.entry(*tail_from).or_default() += 1;
                    assert!(*tail_from < record.seq, "{story}: a summary of what is not said yet");
                }
                Event::Compacted { tail_from, .. } => *written.entry(*tail_from).or_default() += 1,
                Event::CompactionFailed { .. } => failures.push(record.seq),
                Event::StepStarted { took, .. } => {
                    assert!(asked.iter().all(|(entry, _)| !took.contains(entry)), "{story}: who asks for a summary says nothing");
                    assert!(!overflowed, "{story}: what was too long is sent again as it was");
                }
                _ => {}
            }
            match &record.event {
                Event::StepFailed { failure: Some(ModelFailure::TooLong), retry_at: Some(_), .. } => overflowed = true,
                // Somebody's word lets it be tried as it is.
                Event::Compacted { .. } | Event::Pruned { .. } | Event::CompactionFailed { smaller: false, .. } => overflowed = false,
                Event::Resumed { .. } | Event::Queued { .. } => overflowed = false,
                _ => {}
            }
        }
        assert!(promised.values().all(|times| *times == 1), "{story}: a summary is promised once: {promised:?}");
        assert!(written.values().all(|times| *times == 1), "{story}: a summary is written once: {written:?}");
        assert!(written.keys().all(|tail| promised.contains_key(tail)), "{story}: a summary that nobody promised: {written:?}");
        let unwritten = promised.keys().filter(|tail| !written.contains_key(tail)).count();
        assert!(unwritten <= failures.len(), "{story}: {unwritten} summaries came to nothing, {failures:?} were said to");
        for (entry, seq) in asked {
            let served = promised.keys().chain(&failures).any(|served| seq <= *served);
            assert!(served, "{story}: {entry} asked for a summary, and nothing came of it");
        }
    }
}

impl World<'_> {
    /// CC-222, CC-223: what holds nothing is removed and that is recorded, what holds something stays, and what cannot be removed is
    /// tried and told of once.
    fn check_folders(&self, story: &str) {
        let (mut at_work, mut releasable) = (BTreeSet::new(), BTreeSet::new());
        for record in &self.log {
            match &record.event {
                Event::TaskStarted { task, .. } | Event::TaskResumed { task, .. } => drop(at_work.insert(task)),
                Event::WorktreeLeft { task, left } => {
                    assert!(self.folders.contains_key(task), "{story}: {task} has no folder");
                    assert!(at_work.contains(task), "{story}: what {task} left is told when it ends");
                    if left.clean {
                        releasable.insert(task)
                    } else {
                        releasable.remove(task)
                    };
                }
                Event::TaskEnded { task, .. } => drop(at_work.remove(task)),
                Event::Released { task, .. } => {
                    assert!(!at_work.contains(task), "{story}: {task} is released while it works");
                    assert!(releasable.remove(task), "{story}: {task} is released twice, or with work in it");
                }
                _ => {}
            }
        }
        assert!(releasable.is_empty(), "{story}: nobody has removed {releasable:?}");
        for (task, folder) in &self.folders {
            let last = self.log.iter().rev().find_map(|record| match &record.event {
                Event::Released { task: released, removed, .. } if released == task => Some(*removed),
                _ => None,
            });
            match (folder.fate.as_str(), last) {
                (_, Some(true)) if !folder.is_dirty => assert!(!folder.is_there, "{story}: {task} was removed and is there"),
                ("stuck", Some(false)) => assert!(folder.is_there, "{story}: {task} stays"),
                // The promise of its task was torn, or it was stopped before it began: it never was.
                (_, None) if !folder.is_there => {}
                (_, _) if folder.is_dirty => assert!(folder.is_there, "{story}: the work of {task} is gone"),
                (fate, last) => panic!("{story}: {task} is {fate}, was released {last:?}: {folder:?}"),
            }
        }
    }

    /// CC-209 and CC-213..216: work beside the conversation ends once, without a word to the model, and advises at most once.
    fn check_beside(&self, story: &str) {
        let mut open: BTreeMap<&SessionId, &Purpose> = BTreeMap::new();
        let (mut ends, mut advised): (BTreeMap<&str, usize>, BTreeMap<&str, usize>) = Default::default();
        for record in &self.log {
            match &record.event {
                Event::TaskStarted { task, spawn: Spawn { purpose: Some(purpose), .. }, .. } => {
                    let busy = open.values().any(|other| *other == purpose);
                    assert!(!busy || *purpose == Purpose::Side, "{story}: two at once that are {purpose:?}");
                    open.insert(task, purpose);
                }
                Event::TaskEnded { task, to, .. } => {
                    if let Some(purpose) = open.remove(task) {
                        assert_eq!(*to, To::Internal, "{story}: nobody hears of {purpose:?}");
                        *ends.entry(purpose.agent()).or_default() += 1;
                    }
                }
                Event::Advised { advice, .. } => {
                    assert!(
                        matches!(advice, Purpose::Suggest | Purpose::Speculate | Purpose::Summarise),
                        "{story}: {advice:?} is no advice"
                    );
                    *advised.entry(advice.agent()).or_default() += 1;
                }
                Event::Ended { .. } => {
                    let yields: Vec<_> = open.values().filter(|purpose| ***purpose == Purpose::Summarise).collect();
                    assert!(yields.is_empty(), "{story}: a round has ended and left {yields:?} open");
                }
                _ => {}
            }
        }
        for (agent, times) in advised {
            assert!(times <= ends.get(agent).copied().unwrap_or(0), "{story}: {agent} has advised {times} times, and ended {ends:?}");
        }
    }
}

/// Starts nothing by itself: what is no longer owed is dropped, what is new is put at the end.
pub fn match_to(under_way: &mut Vec<Effect>, session: &Session) {
    let owed = session.owed();
    let keys: BTreeSet<EffectKey> = owed.iter().map(Effect::key).collect();
    under_way.retain(|effect| keys.contains(&effect.key()));
    for effect in owed {
        if session.has_begun(&effect) && !under_way.iter().any(|known| known.key() == effect.key()) {
            under_way.push(effect);
        }
    }
}

pub fn wake((task, round): (SessionId, u64)) -> Command {
    Command::Wake { spawn: Box::new(spawn(&format!("msg_{task}_{round}"), false)), task, round }
}

/// The last ask is answered when it is closed.
pub fn late(session: &Session, answer: Answer) -> Option<Command> {
    let closed = session.open_asks().next().is_none();
    closed.then_some(Command::Answer { ask: AskId::new("last"), answer, by: By::User })
}

pub fn first_ask(session: &Session, answer: Answer) -> Option<Command> {
    let ask = session.open_asks().next()?.0.clone();
    Some(Command::Answer { ask, answer, by: By::User })
}

pub fn interrupt(session: &Session, hold: Hold, is: fn(&Session) -> bool) -> Option<Command> {
    is(session).then(|| Command::Interrupt { by: By::User, hold, partial: "half".into() })
}

pub fn plain(name: &'static str, script: &'static [Say], letters: Vec<Letter>) -> Scenario {
    Scenario {
        name,
        script,
        letters,
        asking: Asking::Open,
        looks: false,
        closing_at: None,
        fallbacks: &[],
        ends_after: ("created", 0),
        shortening: Shortening::Sums,
        full_at: None,
    }
}

pub fn tell(when: (&'static str, usize), command: fn(&Session) -> Option<Command>) -> Letter {
    Letter { when, command }
}

/// The first words, as soon as there is someone to hear them.
pub fn go() -> Letter {
    tell(("configured", 1), |_| user("one"))
}

/// The whole life of a scenario, with these deaths on the way.
pub fn run<'a>(scenario: &'a Scenario, deaths: &[Death], story: &str) -> World<'a> {
    let mut world = World::new(scenario);
    for death in deaths {
        if world.live(*death).is_ok() {
            break;
        }
    }
    assert!(world.live(Death::Never).is_ok(), "{story}: it dies without being killed");
    world.check(story);
    world
}

/// Every script is played to its end, and nobody has to take anything over.
pub fn check_undisturbed(scenarios: Vec<Scenario>) {
    let mut wrong = Vec::new();
    for scenario in scenarios {
        let world = run(&scenario, &[], scenario.name);
        let left: Vec<usize> = world.inbox.iter().copied().collect();
        let (replies, script, taken_over) = (world.count("replied"), scenario.script.len(), world.count("took_over"));
        if !left.is_empty() || replies != script || taken_over != 0 {
            wrong.push(format!(
                "{}: {replies} answers of {script}, letters that were never due: {left:?}, took over {taken_over}",
                scenario.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One death, at every event of every scenario; how many there were.
pub fn check_deaths(scenarios: Vec<Scenario>) -> u32 {
    let mut deaths = 0;
    for scenario in scenarios {
        let length = run(&scenario, &[], scenario.name).log.len();
        for at in 0..=length {
            for death in [Death::Torn(at), Death::After(at)] {
                run(&scenario, &[death], &format!("{}, {death:?}", scenario.name));
                deaths += 1;
            }
        }
    }
    deaths
}

/// Several deaths, close together.
pub fn check_deaths_during_recovery(scenarios: Vec<Scenario>) {
    for scenario in scenarios {
        let length = run(&scenario, &[], scenario.name).log.len() as u64;
        for seed in 0..60 {
            let mut dice = Dice::new(seed);
            let mut at = 0;
            let mut deaths = Vec::new();
            for _ in 0..2 + dice.roll(3) {
                // Often close together, so that the recovery itself is hit.
                at += if dice.once_in(2) { dice.roll(4) } else { dice.roll(length) };
                deaths.push(if dice.once_in(2) { Death::Torn(at as usize) } else { Death::After(at as usize) });
            }
            run(&scenario, &deaths, &format!("{}, seed {seed}, {deaths:?}", scenario.name));
        }
    }
}

/// A fold that was saved at any place is the session, and goes on like it.
pub fn check_saved_folds(scenarios: Vec<Scenario>) {
    let id = SessionId::new("ses_0");
    for scenario in scenarios {
        let log = run(&scenario, &[Death::After(9)], scenario.name).log;
        let whole = Session::fold(id.clone(), &log);
        let mut session = Session::new(id.clone());
        for at in 0..=log.len() {
            let json = serde_json::to_string(&session).expect("a session is JSON");
            let mut saved: Session = serde_json::from_str(&json).expect(&json);
            assert_eq!(saved, session, "{}: saved at {at}", scenario.name);
            log[at..].iter().for_each(|record| saved.apply(record));
            assert_eq!(saved, whole, "{}: gone on from {at}", scenario.name);
            if let Some(record) = log.get(at) {
                session.apply(record);
            }
        }
    }
}
