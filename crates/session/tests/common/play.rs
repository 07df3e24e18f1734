//! A tiny language to play a session with: `say; step; reply +touch; start; finish ok`.
//!
//! Every command goes through a draft, as in the run. After each the log is folded anew and must give the same session,
//! and what is owed must be the same when asked twice. The words are explained where they are parsed.

use std::{collections::BTreeSet, time::Duration};

use posse_session::Finish;
use posse_session::{
    Answer, AskId, Asking, BatchId, By, CallId, CallState, Command, Decision, Delivery, Effect, Effort, Entry, EntryId, Event, Given,
    Grant, Granted, Hash, Hold, How, Ids, Isolation, Kind, Left, Limit, Look, Mode, ModelFailure, Outcome, Part, Permit, Priority, Purpose,
    Record, Report, Rules, Scope, Segment, Session, SessionId, Source, Spawn, TaskReport, Text, Timestamp, To, Touch, Usage, Verdict,
    Wanted,
};

use super::{Counter, created, internal, left, rules, spawn, split_off, subtask, wanted};

pub struct Play {
    pub session: Session,
    pub log: Vec<Record>,
    pub rules: Rules,
    /// What the last command added to the log.
    pub facts: Vec<Event>,
    pub now: u64,
    ids: Counter,
    entries: u32,
    calls: u32,
    asking: Asking,
    mode: Mode,
    /// What other sessions were allowed.
    pub grants: Vec<Granted>,
    looks: bool,
    fallbacks: Vec<String>,
    compacts: bool,
    /// Internal sessions that were started.
    internal: u32,
}

impl Play {
    /// A root session that exists and has heard nothing.
    pub fn new() -> Self {
        let mut play = Self::empty();
        play.decide(Command::Create(Box::new(created(Kind::Root, "ses_0", None, Vec::new()))));
        play
    }

    pub fn empty() -> Self {
        Self {
            session: Session::new(SessionId::new("ses_0")),
            log: Vec::new(),
            rules: rules(),
            facts: Vec::new(),
            now: 0,
            ids: Counter::default(),
            entries: 0,
            calls: 0,
            asking: Asking::Open,
            mode: Mode::Default,
            grants: Vec::new(),
            looks: false,
            fallbacks: Vec::new(),
            compacts: false,
            internal: 0,
        }
    }

    pub fn of(script: &str) -> Self {
        let mut play = Self::new();
        play.run(script);
        play
    }

    pub fn run(&mut self, script: &str) {
        for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            self.command(line);
        }
    }

    pub fn decide(&mut self, command: Command) {
        let given = Given {
            now: Timestamp(self.now),
            ids: &self.ids,
            chance: 0.0,
            rules: &self.rules,
            ceiling: &[],
            asking: self.asking,
            mode: self.mode,
            strict_shell: false,
            grants: &self.grants,
            looks: self.looks,
            fallbacks: &self.fallbacks,
            compacts: self.compacts,
            in_flight: Default::default(),
        };
        let mut draft = self.session.draft(BatchId::new(self.ids.fresh("evt_")), given.now);
        draft.decide(command, &given);
        self.commit(draft.into_parts());
    }

    pub fn begin(&mut self, effect: &Effect, permit: Permit) {
        let given = Given {
            now: Timestamp(self.now),
            ids: &self.ids,
            chance: 0.0,
            rules: &self.rules,
            ceiling: &[],
            asking: self.asking,
            mode: self.mode,
            strict_shell: false,
            grants: &self.grants,
            looks: self.looks,
            fallbacks: &self.fallbacks,
            compacts: self.compacts,
            in_flight: Default::default(),
        };
        let mut draft = self.session.draft(BatchId::new(self.ids.fresh("evt_")), given.now);
        draft.begin(effect, permit, Vec::new(), &given);
        self.commit(draft.into_parts());
    }

    fn commit(&mut self, (session, records): (Session, Vec<Record>)) {
        self.session = session;
        self.facts = records.iter().map(|record| record.event.clone()).collect();
        self.log.extend(records);
        assert_eq!(Session::fold(SessionId::new("ses_0"), &self.log), self.session, "the log says something else");
        let owed = self.session.owed();
        assert_eq!(owed, self.session.owed());
        let keys: BTreeSet<_> = owed.iter().map(Effect::key).collect();
        assert_eq!(keys.len(), owed.len(), "two effects with one key");
    }

    fn command(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let first = words.first().copied();
        match verb {
            "say" => self.say(&words),
            // The model's step begins: `step`, or `step closing` at a step limit.
            "step" => {
                let owed = self.session.owed();
                let model = owed
                    .iter()
                    .find(|effect| matches!(effect, Effect::CallModel { .. }))
                    .unwrap_or_else(|| panic!("no step is owed: {}", self.state()));
                self.begin(&model.clone(), Permit { closing: first == Some("closing"), ..Permit::default() });
            }
            "reply" => self.reply(&words),
            // The stream breaks: `fail cut`, `fail rate_limited after=30`.
            "fail" => {
                let failure: ModelFailure = serde_json::from_value(first.unwrap_or_default().into()).expect("a failure");
                let retry_after = words
                    .iter()
                    .find_map(|word| word.strip_prefix("after="))
                    .map(|secs| Duration::from_secs(secs.parse().expect("seconds")));
                let step = self.at_step();
                let words = failure_words(failure);
                self.decide(Command::Report(Report::ModelFailed {
                    step,
                    failure,
                    words,
                    retry_after,
                    partial: Text::default(),
                    usage: Usage { input: 3, ..Usage::default() },
                }));
            }
            // Every call that may run begins, or only the one named.
            "start" => {
                let mut facts = Vec::new();
                for effect in self.session.owed() {
                    let Effect::RunCall { call } = &effect else { continue };
                    if first.is_none_or(|wanted| wanted == call.as_str()) {
                        self.begin(&effect, Permit::default());
                        facts.append(&mut self.facts);
                    }
                }
                self.facts = facts;
            }
            // A running call ends: `finish ok`, `finish c2 fail`.
            "finish" => {
                let call =
                    words.iter().find(|word| word.starts_with('c') && word[1..].parse::<u32>().is_ok()).map(|call| CallId::new(*call));
                let call = call
                    .or_else(|| self.first_call(|state| matches!(state, CallState::Running | CallState::Stopping)))
                    .expect("a running call");
                let outcome = match words.last().copied() {
                    Some("fail") => Outcome::failed("it broke"),
                    Some("cancelled") => Outcome::cancelled("half"),
                    _ => Outcome::done("ok"),
                };
                self.decide(Command::Report(Report::CallFinished { call, outcome }));
            }
            "esc" => self.decide(Command::Interrupt { by: By::User, hold: Hold::Esc, partial: "half a".into() }),
            "stop" => {
                let (by, hold) = if first == Some("user") { (By::User, Hold::StoppedByUser) } else { (By::Model, Hold::StoppedByModel) };
                self.decide(Command::Interrupt { by, hold, partial: Text::default() });
            }
            "resume" => self.decide(Command::Resume { by: By::User }),
            "takeover" => self.decide(Command::TakeOver),
            // `limit`, `limit wall`, `limit tokens own`.
            "limit" => {
                let limit: Limit = serde_json::from_value(first.unwrap_or("time").into()).expect("a limit");
                let (words, partial, own) = ("time is up".into(), Text::default(), words.contains(&"own"));
                self.decide(Command::Limit { limit, words, partial, own });
            }
            "yes" => {
                let scope: Scope = serde_json::from_value(first.unwrap_or("once").into()).expect("a scope");
                self.answer(Answer::Yes { scope });
            }
            "words" => self.answer(Answer::Words { say: words.join(" ") }),
            "revoke" => self.revoke(),
            "mode" => self.mode = if first == Some("bypass") { Mode::Bypass } else { Mode::AcceptEdits },
            // Another session was allowed this: `granted ask x`, `granted ask *` as a pattern.
            "granted" => {
                let grant = Grant { key: words[0].into(), pattern: words[1].into(), exact: words[1] != "*" };
                self.grants.push(Granted { grant, ask: AskId::new("ask_far"), scope: Scope::Project });
            }
            "no" => self.answer(Answer::No { say: words.join(" ") }),
            "look" => self.look(&words),
            "configure" => self.decide(Command::Configure { head: Hash::new(first.expect("a head")), model: "test/one".into() }),
            "conclude" => {
                let owed = self.session.owed();
                let conclude = owed
                    .iter()
                    .find(|effect| matches!(effect, Effect::Conclude { .. }))
                    .unwrap_or_else(|| panic!("no end is owed: {}", self.state()));
                self.begin(&conclude.clone(), Permit::default());
            }
            "wait" => self.now += first.expect("milliseconds").parse::<u64>().expect("milliseconds"),
            "nobody" => self.asking = Asking::Nobody,
            "hooks" => self.looks = true,
            _ => self.by_user(verb, &words),
        }
    }

    /// Tasks, and what users set in motion themselves.
    fn by_user(&mut self, verb: &str, words: &[&str]) {
        let first = words.first().copied();
        match verb {
            // The first running call starts a task: `spawn t1`, `spawn t1 bg`, `spawn t1 bg internal`, `spawn t1 worktree`, `spawn t1 fork`.
            "spawn" => {
                let call = self.first_call(|state| *state == CallState::Running).expect("a running call");
                let task = first.expect("a task");
                let mut spawn = spawn(&format!("msg_{task}"), words.contains(&"internal"));
                if words.contains(&"fork") {
                    spawn = split_off(&format!("msg_{task}"), self.session.segments_until(self.last_called()));
                }
                spawn.isolation = words.contains(&"worktree").then_some(Isolation::Worktree);
                self.decide(Command::Spawn {
                    call,
                    task: SessionId::new(task),
                    round: round(words, 1),
                    spawn: Box::new(spawn),
                    launched: words.contains(&"bg").then(|| Outcome::done("it runs")),
                });
            }
            "detach" => self.decide(Command::Detach { task: SessionId::new(first.expect("a task")), launched: Outcome::done("it runs") }),
            "stoptask" => self.decide(Command::StopTask { task: SessionId::new(first.expect("a task")), by: By::User }),
            // A child's round ended: `ended t1`, `ended t1 stopped`, `ended t1 round=2`; it has left `clean`, `dirty` or something `unknown`.
            "ended" => {
                let how = match words.get(1).copied() {
                    Some("stopped") => How::Stopped,
                    Some("failed") => How::Failed,
                    Some("limit") => How::Limit,
                    _ => How::Completed,
                };
                let task = first.expect("a task");
                let Report::TaskEnded(mut end) = task_report(task, round(words, 1), how) else { return };
                let unknown = || Left { unknown: "git is gone".into(), ..left(task, false) };
                end.left = words.iter().find_map(|word| match *word {
                    "clean" => Some(left(task, true)),
                    "dirty" => Some(left(task, false)),
                    "unknown" => Some(unknown()),
                    _ => None,
                });
                self.decide(Command::Report(Report::TaskEnded(end)));
            }
            // What typed words come to: `expand e1 needs read`, `expand e1 words`, `expand e1 sub sub`, `expand e1 direct`, `by=plan`, `allows=ask`.
            "expand" => self.expand(words),
            // The kernel calls the next agent that the user ran.
            "subtask" => {
                self.calls += 1;
                let call = format!("c{}", self.calls);
                let step = self.session.steps();
                let wanted = Box::new(Wanted { consented: true, ..wanted(&call, "agent", "{}") });
                self.decide(Command::Subtask { step, author: "scout".into(), wanted, notes: Vec::new() });
            }
            _ => self.in_background(verb, words),
        }
    }

    /// What goes on beside the turn: tasks that are waited for or woken, shells, models that stand in, answers that are late.
    fn in_background(&mut self, verb: &str, words: &[&str]) {
        let first = words.first().copied();
        let task = || SessionId::new(first.expect("a task"));
        let call = |play: &Self| {
            let named = words.iter().find(|word| word.starts_with('c') && word[1..].parse::<u32>().is_ok());
            named.map(|call| CallId::new(*call)).or_else(|| play.first_call(|state| *state == CallState::Running)).expect("a call")
        };
        match verb {
            // The first running call, or the one named, waits for a task: `await t1`, `await t1 c3 until=500`.
            "await" => {
                let until = words.iter().find_map(|word| word.strip_prefix("until=")).map(|at| Timestamp(at.parse().expect("a time")));
                self.decide(Command::Await { call: call(self), task: task(), until });
            }
            "lapse" => self.decide(Command::Lapse { call: call(self), outcome: Outcome::done("it still runs") }),
            // Words for a task: `wake t1`, `wake t1 round=3`.
            "wake" => {
                let spawn = Box::new(spawn(&format!("msg_{}", task()), false));
                self.decide(Command::Wake { task: task(), round: round(words, 2), spawn });
            }
            "noticed" => self.decide(Command::Noticed { task: task() }),
            // A call leaves something running: `keep`, `keep c2`; it ends: `keptended c2`, `keptended c2 silent`.
            "keep" => self.decide(Command::Keep { call: call(self), title: "npm run dev".into() }),
            "keptended" => {
                let said = (!words.contains(&"silent")).then(|| Text::from("[shell done]"));
                self.decide(Command::Report(Report::KeptEnded { call: call(self), words: said }));
            }
            "fallbacks" => self.fallbacks = words.iter().map(|word| (*word).to_owned()).collect(),
            // Another model answers: `model two`; its own again: `model own`.
            "model" => {
                let model = first.filter(|word| *word != "own").map(str::to_owned);
                self.decide(Command::ChangeModel { model, why: "it was told to".into() });
            }
            // The last ask of the log is answered, open or not: `late yes session`, `late no why`, `late words blue`.
            "late" => {
                let asked = |record: &Record| if let Event::Asked { ask, .. } = &record.event { Some(ask.clone()) } else { None };
                let ask = self.log.iter().rev().find_map(asked).expect("an ask");
                let answer = match first {
                    Some("yes") => Answer::Yes { scope: serde_json::from_value(words[1].into()).expect("a scope") },
                    Some("no") => Answer::No { say: words[1..].join(" ") },
                    _ => Answer::Words { say: words[1..].join(" ") },
                };
                self.decide(Command::Answer { ask, answer, by: By::User });
            }
            _ => self.in_length(verb, words),
        }
    }

    /// How long the conversation is, what it is called, and the shape of its answers.
    fn in_length(&mut self, verb: &str, words: &[&str]) {
        let first = words.first().copied();
        match verb {
            // From here on a conversation that is too long is made shorter.
            "compacts" => self.compacts = true,
            // A summary is begun, because it is owed or because the run finds it time: `compact`, `compact tail=4`.
            "compact" => {
                let tail = words.iter().find_map(|word| word.strip_prefix("tail=")).map(|tail| tail.parse().expect("a place"));
                let tail_from = tail.unwrap_or(self.session.head());
                let (task, spawn) = self.summary(tail_from);
                self.decide(Command::Compact { task, spawn, took: self.wants_summary() });
            }
            "prune" => self.decide(Command::Prune { to: first.expect("a place").parse().expect("a place") }),
            "uncompacted" => self.decide(Command::LeaveUncompacted { why: words.join(" "), took: self.wants_summary() }),
            // The summary is written: `summed all of it`; or it is not: `unsummed`, `unsummed stopped`.
            "summed" => self.summary_ends(How::Completed, &words.join(" "), false),
            "unsummed" => {
                let how = if first == Some("stopped") { How::Stopped } else { How::Failed };
                self.summary_ends(how, "", first == Some("too_long"));
            }
            "retitle" => self.decide(Command::Retitle { title: words.join(" ") }),
            // The session begins with another's: `fork ses_9 5`.
            "fork" => {
                let (session, to) = (SessionId::new(words[0]), words[1].parse().expect("a place"));
                self.decide(Command::Fork { segments: vec![Segment { session, from: 0, to, pruned: false }] });
            }
            // An answer that does not have the shape that was asked for.
            "misshapen" => self.answers(&[], Some(words.join(" "))),
            _ => self.beside(verb, words),
        }
    }

    /// Folders of tasks, and work beside the conversation.
    fn beside(&mut self, verb: &str, words: &[&str]) {
        let task = SessionId::new(words.first().copied().expect("a task"));
        match verb {
            // The folder of a task is gone: `released t1`; or it stays: `released t1 stays it is locked`.
            "released" => {
                let removed = words.get(1) != Some(&"stays");
                let words = words.get(2..).unwrap_or_default().join(" ");
                self.decide(Command::Report(Report::Released { task, removed, words }));
            }
            // The user takes the work of a task: `home t1 a.rs b.rs`, `home t1 onto=main a.rs`; or throws it away: `home t1 discarded`.
            "home" => {
                let (discarded, mut paths) = (words.contains(&"discarded"), Vec::new());
                let onto = words.iter().find_map(|word| word.strip_prefix("onto=")).unwrap_or_default().to_owned();
                paths.extend(words[1..].iter().filter(|word| word.contains(".rs")).map(|word| (*word).to_owned()));
                self.decide(Command::BringHome { task, paths, onto, discarded });
            }
            // Internal work begins: `advise a1 suggest`; it ends: `advised a1 try the tests`, `advised a1` with nothing to say,
            // `unadvised a1 failed`.
            "advise" => {
                let purpose = serde_json::json!({ "purpose": words[1] });
                let purpose: Purpose = serde_json::from_value(purpose).expect("a purpose");
                let spawn = internal(&format!("msg_{task}"), purpose, self.session.segments_until(self.session.head()));
                self.decide(Command::Advise { task, spawn: Box::new(spawn) });
            }
            "advised" | "unadvised" => {
                let how = match (verb, words.get(1).copied()) {
                    ("advised", _) => How::Completed,
                    (_, Some("limit")) => How::Limit,
                    (_, Some("stopped")) => How::Stopped,
                    _ => How::Failed,
                };
                let Report::TaskEnded(mut end) = task_report(task.as_str(), 1, how) else { return };
                end.said = words[1..].join(" ").into();
                self.decide(Command::Report(Report::TaskEnded(end)));
            }
            other => panic!("no such word: {other}"),
        }
    }

    /// Where the last reply and its calls end.
    fn last_called(&self) -> u64 {
        let last = self.log.iter().rev().find(|record| matches!(record.event, Event::Called { .. } | Event::Replied { .. }));
        last.map_or(0, |record| record.seq)
    }

    fn summary(&mut self, tail_from: u64) -> (SessionId, Box<Spawn>) {
        self.internal += 1;
        let segments = self.session.segments_until(tail_from);
        let spawn = internal(&format!("msg_s{}", self.internal), Purpose::Compact { tail_from }, segments);
        (SessionId::new(format!("s{}", self.internal)), Box::new(spawn))
    }

    /// The entry that asks for a summary now.
    fn wants_summary(&self) -> Option<EntryId> {
        self.session.owed().into_iter().find_map(|effect| if let Effect::Compact { entry } = effect { entry } else { None })
    }

    fn summary_ends(&mut self, how: How, said: &str, too_long: bool) {
        let open = self.session.tasks().iter().find(|(_, open)| open.purpose.is_some());
        let task = open.expect("it is being written").0.clone();
        let Report::TaskEnded(mut end) = task_report(task.as_str(), 1, how) else { return };
        end.said = said.into();
        (end.verbatim, end.too_long) = ("do it".into(), too_long);
        end.result = if said.is_empty() { "its model is gone".into() } else { said.into() };
        self.decide(Command::Report(Report::TaskEnded(end)));
    }

    /// `say`, then in any order: `now` or `later`, `idle`, who speaks, `#id`, `bytes=N`. Users by default, ids `e1`, `e2`.
    fn say(&mut self, words: &[&str]) {
        self.entries += 1;
        let mut entry = Entry::user(EntryId::new(format!("e{}", self.entries)), "hi");
        for word in words {
            match *word {
                "now" => entry.priority = Priority::Now,
                "later" => entry.priority = Priority::Later,
                "idle" => entry.delivery = Delivery::WhenIdle,
                "task" => (entry.source, entry.priority) = (Source::Task { task: SessionId::new("t0") }, Priority::Later),
                "timer" => (entry.source, entry.priority, entry.delivery) = (Source::Timer, Priority::Later, Delivery::WhenIdle),
                "hook" => (entry.source, entry.priority) = (Source::Hook { name: "h".into() }, Priority::Later),
                "plugin" => (entry.source, entry.priority) = (Source::Plugin { name: "p".into() }, Priority::Later),
                "typed" => entry.typed = true,
                // It says nothing and wants a summary.
                "compact" => entry.parts = vec![Part::Compact { words: "the numbers".into() }],
                "prompt" => entry.source = Source::Prompt { session: SessionId::new("ses_9") },
                "agent" => entry.source = Source::Agent { session: SessionId::new("ses_9"), name: "peer".into() },
                other => match (other.strip_prefix('#'), other.strip_prefix("bytes=")) {
                    (Some(id), _) => entry.id = EntryId::new(id),
                    (_, Some(bytes)) => {
                        entry.parts =
                            vec![posse_session::Part::text(Text::Stored { blob: Hash::new("ab"), bytes: bytes.parse().expect("bytes") })];
                    }
                    _ => panic!("say what? {other}"),
                },
            }
        }
        self.decide(Command::Say(entry));
    }

    fn expand(&mut self, words: &[&str]) {
        let entry = EntryId::new(words[0]);
        if words[1] == "needs" {
            let mut calls = Vec::new();
            for tool in &words[2..] {
                self.calls += 1;
                calls.push(wanted(&format!("c{}", self.calls), tool, "{}"));
            }
            return self.decide(Command::Report(Report::Expanding { entry, calls }));
        }
        let (mut parts, mut agent, mut allowed) = (Vec::new(), None, Vec::new());
        for word in &words[1..] {
            match *word {
                "words" => parts.push(Part::text("hi")),
                "compact" => parts.push(Part::Compact { words: Text::default() }),
                "sub" => parts.push(subtask(false)),
                "direct" => parts.push(subtask(true)),
                other => match (other.strip_prefix("by="), other.strip_prefix("allows=")) {
                    (Some(name), _) => agent = Some(name.to_owned()),
                    (_, Some(key)) => allowed.push(Grant { key: key.into(), pattern: "*".into(), exact: false }),
                    _ => panic!("expand to what? {other}"),
                },
            }
        }
        self.decide(Command::Report(Report::Expanded { entry, parts, agent, model: None, allowed }));
    }

    /// `reply` ends the turn; `reply +touch +read=x` calls tools `c1`, `c2`, …, with inputs that differ unless given.
    fn reply(&mut self, words: &[&str]) {
        self.answers(words, None);
    }

    fn answers(&mut self, words: &[&str], misshapen: Option<String>) {
        let mut calls: Vec<Wanted> = Vec::new();
        for word in words {
            let word = word.strip_prefix('+').expect("+tool or +tool=input");
            self.calls += 1;
            let call = format!("c{}", self.calls);
            let (tool, input) =
                word.split_once('=').map_or((word, format!("{{\"n\":{}}}", self.calls)), |(tool, input)| (tool, input.to_owned()));
            calls.push(wanted(&call, tool, &input));
        }
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        let step = self.at_step();
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        self.decide(Command::Report(Report::Reply { step, parts: Vec::new(), calls, usage, finish, misshapen }));
    }

    /// A hook has looked at the first call that waits for it: `look ok`, `look refuse`, `look as deny`.
    fn look(&mut self, words: &[&str]) {
        let call = self.first_call(|state| *state == CallState::Unlooked).expect("a call to look at");
        let tool = self.session.call(&call).map(|open| open.tool.clone()).unwrap_or_default();
        let key = if words[0] == "as" { words[1] } else { &tool };
        let look = match words[0] {
            "refuse" => Err("not on my watch".to_owned()),
            _ => Ok(Look { touches: vec![Touch::new(key, "amended")], repeatable: false, title: String::new(), ..Look::default() }),
        };
        self.decide(Command::Report(Report::Looked { call, input: "amended".into(), look, by: "hook".into() }));
    }

    /// Takes back the last answer, whatever it allowed.
    fn revoke(&mut self) {
        let asked = self.log.iter().rev().find_map(|record| match &record.event {
            Event::Answered { ask, .. } => Some(ask.clone()),
            _ => None,
        });
        self.decide(Command::Revoke { ask: asked.expect("an answer"), by: By::User });
    }

    fn answer(&mut self, answer: Answer) {
        let ask: AskId = self.session.open_asks().next().expect("an open ask").0.clone();
        self.decide(Command::Answer { ask, answer, by: By::User });
    }

    fn at_step(&self) -> u64 {
        self.session.step().map_or(u64::MAX, |step| step.step)
    }

    fn first_call(&self, is: impl Fn(&CallState) -> bool) -> Option<CallId> {
        self.session.calls().iter().find(|open| is(&open.state)).map(|open| open.call.clone())
    }

    /// What the session is now, in one line; empty parts are left out. A star means begun.
    pub fn state(&self) -> String {
        let session = &self.session;
        let mut parts: Vec<String> = Vec::new();
        if session.is_settled() {
            parts.push("settled".into());
        }
        let owed: Vec<String> = session.owed().iter().map(|effect| self.word(effect)).collect();
        let calls: Vec<String> = session.calls().iter().map(|open| format!("{} {}", open.call, call_word(&open.state))).collect();
        let queue: Vec<String> = session.queue().waiting().iter().map(|waiting| waiting.id.to_string()).collect();
        for (name, list) in [("owed", owed), ("calls", calls), ("queue", queue)] {
            if !list.is_empty() {
                parts.push(format!("{name}: {}", list.join(", ")));
            }
        }
        if let Some(hold) = session.hold() {
            parts.push(format!("held: {}", plain(&hold)));
        }
        if let Some(stand_in) = session.stand_in() {
            parts.push(format!("on {}", stand_in.model));
        }
        let round = session.round();
        parts.push(format!("round {} {}", round.number, if round.open { "open".into() } else { plain(&round.how) }));
        parts.join(" | ")
    }

    fn word(&self, effect: &Effect) -> String {
        let star = if self.session.has_begun(effect) { "*" } else { "" };
        match effect {
            Effect::CallModel { step, not_before: Some(at) } => format!("model {step}{star} @{}", at.0),
            Effect::CallModel { step, not_before: None } => format!("model {step}{star}"),
            Effect::Expand { entry } => format!("expand {entry}"),
            Effect::Subtask { step } => format!("subtask {step}"),
            Effect::Compact { entry: None } => "compact".into(),
            Effect::Compact { entry: Some(entry) } => format!("compact for {entry}"),
            Effect::Look { call } => format!("look {call}"),
            Effect::RunCall { call } => format!("run {call}{star}"),
            Effect::Watch { task, round } => format!("watch {task}/{round}"),
            Effect::StopTask { task, round } => format!("stop {task}/{round}"),
            Effect::Mind { call } => format!("mind {call}"),
            Effect::Release { task } => format!("release {task}"),
            Effect::Conclude { round } => format!("conclude {round}"),
        }
    }

    /// What the last command added to the log, in one line.
    pub fn last_facts(&self) -> String {
        self.facts.iter().map(fact_word).collect::<Vec<_>>().join(", ")
    }
}

/// `round=2` among the words.
fn round(words: &[&str], else_round: u64) -> u64 {
    words.iter().find_map(|word| word.strip_prefix("round=")).map_or(else_round, |round| round.parse().expect("a round"))
}

/// The end of a round, in other words for each who hears of it.
pub fn task_report(task: &str, round: u64, how: How) -> Report {
    Report::TaskEnded(Box::new(TaskReport {
        task: SessionId::new(task),
        round,
        how,
        result: "found".into(),
        notice: format!("[task {task}] found").into(),
        said: Text::default(),
        awaited: Vec::new(),
        verbatim: Text::default(),
        too_long: false,
        usage: Usage::default(),
        effort: Effort::default(),
        left: None,
    }))
}

fn failure_words(failure: ModelFailure) -> String {
    format!("it is {}", plain(&failure))
}

fn plain(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn call_word(state: &CallState) -> String {
    match state {
        CallState::Unlooked => "unlooked".into(),
        CallState::Judged(Decision { verdict: Verdict::Allow, .. }) => "ready".into(),
        CallState::Judged(decision) => format!("judged {}", plain(&decision.verdict)),
        CallState::Asked { .. } => "asked".into(),
        CallState::Running => "running".into(),
        CallState::Stopping => "stopping".into(),
        CallState::Waiting { task } => format!("waits for {task}"),
    }
}

pub fn fact_word(event: &Event) -> String {
    match event {
        Event::Configured { head, .. } => format!("configured {head}"),
        Event::Queued { entry } => format!("queued {}", entry.id),
        Event::StepStarted { step, took, closing, notes, .. } => {
            let took: Vec<&str> = took.iter().map(EntryId::as_str).collect();
            let closing = if *closing { " closing" } else { "" };
            let notes = if notes.is_empty() { String::new() } else { format!(" +{}", notes.len()) };
            format!("step {step} [{}]{closing}{notes}", took.join(" "))
        }
        Event::Replied { calls, .. } => format!("replied {calls}"),
        Event::Called { call, decision, .. } => {
            format!("called {call} {}", decision.as_ref().map_or("-".into(), |decision| plain(&decision.verdict)))
        }
        Event::StepFailed { failure, retry_at, .. } => {
            let why = failure.as_ref().map_or("step dropped".into(), |failure| format!("failed {}", plain(failure)));
            retry_at.map_or(why.clone(), |at| format!("{why} @{}", at.0))
        }
        Event::Looked { call, decision, .. } => format!("looked {call} {}", plain(&decision.verdict)),
        Event::Asked { call, decision, .. } => {
            format!("asked {call} {}", decision.touch.as_ref().map_or("", |touch| touch.key.as_str()))
        }
        Event::Answered { call, answer, by, .. } => {
            let word = match answer {
                Answer::Yes { .. } => "yes",
                Answer::No { .. } => "no",
                Answer::Words { .. } => "words",
            };
            format!("answered {call} {word} by {}", plain(by))
        }
        Event::CallStarted { call, attempt } => format!("started {call}/{attempt}"),
        Event::CallFinished { call, outcome } => format!("{call} {}", outcome.word()),
        Event::Interrupted { hold, .. } => format!("interrupted {}", plain(hold)),
        Event::Resumed { .. } => "resumed".into(),
        Event::TookOver { calls, .. } => format!("took over {calls}"),
        Event::LimitReached { limit, own, .. } => format!("limit {}{}", plain(limit), if *own { " own" } else { "" }),
        Event::TaskStarted { task, wait, .. } => format!("{task} started{}", if *wait { ", awaited" } else { "" }),
        Event::TaskEnded { task, round, how, to, .. } => {
            let to = match to {
                To::Call { call } => call.to_string(),
                To::Queue { .. } => "queue".into(),
                To::Internal => "nobody".into(),
            };
            format!("{task}/{round} {} to {to}", plain(how))
        }
        Event::TaskResumed { task, round, .. } => format!("{task}/{round} resumed"),
        Event::TaskAwaited { task, call, .. } => format!("{call} awaits {task}"),
        Event::Unqueued { entry } => format!("{entry} unqueued"),
        Event::Kept { call, .. } => format!("{call} kept"),
        Event::KeptEnded { call, entry, .. } => format!("kept {call} over, {}", if entry.is_some() { "to queue" } else { "in silence" }),
        Event::ModelChanged { model, .. } => format!("on {}", model.as_deref().unwrap_or("its own")),
        Event::Detached { task } => format!("{task} detached"),
        Event::TaskStopped { task, by, .. } => format!("{task} stopped by {}", plain(by)),
        Event::Ended { round, how, .. } => format!("ended {round} {}", plain(how)),
        Event::Forked { segments } => format!("forked {}", segments.len()),
        Event::Compacted { tail_from, .. } => format!("compacted to {tail_from}"),
        Event::Pruned { to } => format!("pruned to {to}"),
        Event::CompactionFailed { why, smaller: true } => format!("tries less: {why}"),
        Event::CompactionFailed { why, .. } => format!("uncompacted: {why}"),
        Event::Titled { title } => format!("titled {title}"),
        Event::WorktreeLeft { task, left: Left { clean: true, .. } } => format!("{task} left nothing"),
        Event::WorktreeLeft { task, left } => format!("{task} left {}", if left.unknown.is_empty() { "work" } else { &left.unknown }),
        Event::Released { task, removed: true, .. } => format!("{task} released"),
        Event::Released { task, removed: false, words } => format!("{task} stays: {words}"),
        Event::BroughtHome { task, discarded: true, .. } => format!("{task} thrown away"),
        Event::BroughtHome { task, paths, onto, .. } => {
            format!("{task} home: {} to {}", paths.join(" "), if onto.is_empty() { "here" } else { onto })
        }
        Event::Advised { advice, text } => format!("advised by {}: {}", advice.agent(), text.inline().unwrap_or_default()),
        Event::Misshapen { again, .. } => format!("misshapen, {}", if *again { "again" } else { "the last" }),
        other => other.name(),
    }
}

/// Plays each script and compares; says all rows that differ, not only the first.
pub fn check_rows(rows: &[(&str, &str)], show: fn(&Play) -> String) {
    let mut wrong = Vec::new();
    for (script, expected) in rows {
        let found = show(&Play::of(script));
        if found != *expected {
            wrong.push(format!("  {script}\n    expected: {expected}\n    found:    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
