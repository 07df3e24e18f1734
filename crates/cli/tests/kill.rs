//! Kill -9 through the real binary: at random times and at named points, the process alone or its whole group.
//!
//! Each round is one session that is killed several times and taken up again until it is done. What must hold then is in
//! `verify`. `POSSE_KILLS=5000 cargo test -p posse-cli --test kill` runs longer; `POSSE_SEED` repeats the choices (the
//! moments themselves are the machine's). Named points are `POSSE_CRASH_AT=name:count`: the binary kills itself there.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::{BTreeMap, HashSet},
    env, fmt, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use fastrand::Rng;
use serde_json::{Value, json};
use support::{Answer, Block, Done, Running, Seen, World, call};

const KILLS: usize = 50;
/// One session dies at most this often, so that sessions also get done.
const DEATHS_MAX: usize = 4;
const STEPS: usize = 6;
const CALLS: usize = 12;
/// The appends of one uninterrupted run are about as many; a higher count would not kill.
const APPENDS: usize = 20;
/// Named points, and how often one run passes them.
const POINTS: &[(&str, usize)] = &[("before_append", APPENDS), ("after_append", APPENDS), ("before_spawn", CALLS), ("after_spawn", CALLS)];
/// Far above what a run takes, even on a busy machine: who needs longer hangs.
const LIFE_MAX: Duration = Duration::from_secs(60);
/// How long the processes of a dead posse may need to be gone.
const ORPHANS_MAX: Duration = Duration::from_secs(5);

#[test]
fn nothing_acknowledged_is_lost_and_nothing_runs_twice() {
    let kills = env_number("POSSE_KILLS").map_or(KILLS, |kills| kills as usize);
    let seed =
        env_number("POSSE_SEED").unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 % 1_000_000);
    println!("POSSE_SEED={seed} POSSE_KILLS={kills}");
    // Two users side by side: a run mostly waits for its disk and its tools.
    thread::scope(|scope| {
        let work = |worker: u64| move || Driver::new(seed + worker).kill(kills.div_ceil(2));
        let workers = [scope.spawn(work(0)), scope.spawn(work(1))];
        for worker in workers {
            worker.join().unwrap_or_else(|_| panic!("see above; repeat with POSSE_SEED={seed} POSSE_KILLS={kills}"));
        }
    });
}

#[test]
fn a_recovery_that_is_killed_twice_is_recovered_too() {
    let mut driver = Driver::new(1);
    let first = [("after_spawn", 3), ("before_spawn", 5), ("after_append", 7), ("before_append", 8)];
    for (number, (name, count)) in first.into_iter().enumerate() {
        let deaths = [Death::Point(name, count), Death::Point("before_append", 1), Death::Point("after_append", 1)];
        assert_eq!(driver.die(number, &deaths), deaths.len(), "{name}:{count}: every one of these points is passed");
    }
}

/// Appends of a whole team at least; a run that passes all of them ends by itself and ends the loop.
const TEAM_APPENDS_MAX: usize = 60;

#[test]
fn a_team_that_dies_at_any_append_is_finished_with_one_result_for_each_task() {
    die_at_every_append(&PARALLEL);
}

#[test]
fn a_task_that_goes_on_and_dies_at_any_append_hears_every_prompt_once() {
    die_at_every_append(&AGAIN);
}

fn die_at_every_append(story: &'static Story) {
    thread::scope(|scope| {
        let points = ["before_append", "after_append"].map(|point| scope.spawn(move || die_at_every(story, point)));
        points.into_iter().for_each(|point| point.join().unwrap());
    });
}

fn die_at_every(story: &'static Story, point: &str) {
    for count in 1..TEAM_APPENDS_MAX {
        let mut team = Team::new(story, format!("{point}:{count}"));
        let dead = team.live(&[("POSSE_CRASH_AT", &format!("{point}:{count}"))]);
        let lived = dead.signal.is_none();
        team.finish();
        if lived {
            assert!(15 < count, "{point}: only {count} appends in the run of a team");
            return;
        }
    }
    panic!("{point}: a team's run has more than {TEAM_APPENDS_MAX} appends, and not all were tried");
}

#[test]
fn a_team_that_is_killed_again_and_again_is_finished_too() {
    let seed = env_number("POSSE_SEED").unwrap_or(7);
    let mut rng = Rng::with_seed(seed);
    for round in 0..TEAM_ROUNDS {
        let mut team = Team::new(&PARALLEL, format!("POSSE_SEED={seed}, round {round}"));
        for _ in 0..rng.usize(1..=DEATHS_MAX) {
            let (point, passes) = POINTS[rng.usize(0..POINTS.len())];
            let count = rng.usize(1..=if passes == CALLS { PARALLEL.marks.len() } else { passes });
            team.live(&[("POSSE_CRASH_AT", &format!("{point}:{count}"))]);
        }
        team.finish();
    }
}

/// Sessions of a team that die a few times each.
const TEAM_ROUNDS: usize = 12;

/// What a team does, and what must be left of it.
struct Story {
    model: fn(&Seen) -> Answer,
    sessions: usize,
    /// Of everything that leaves a mark.
    marks: &'static [&'static str],
    /// How often an agent that is below the root is spoken to.
    prompts: usize,
}

/// A root, two agents, and an agent of the second's own.
static PARALLEL: Story = Story { model: team_model, sessions: 4, marks: &["one", "two", "deep"], prompts: 1 };
/// One agent that is given more to do once it has answered.
static AGAIN: Story = Story { model: again_model, sessions: 2, marks: &["one", "more"], prompts: 2 };

struct Team {
    world: World,
    story: &'static Story,
    what: String,
}

impl Team {
    fn new(story: &'static Story, what: String) -> Team {
        let chief = json!({"mode": "subagent", "prompt": "You pass it on.", "permission": {"task": "allow"}});
        let config = World::with().config("permission", json!({"*": "allow"})).config("agent", json!({ "chief": chief }));
        Team { world: config.script(story.model), story, what }
    }

    fn root(&self) -> Option<String> {
        let list = self.world.posse(&["sessions", "list"]).expect_code(0).out;
        assert!(list.lines().count() <= 1, "{}: one prompt, one session: {list}", self.what);
        list.split_whitespace().next().map(str::to_owned)
    }

    fn live(&mut self, env: &[(&str, &str)]) -> Done {
        let root = self.root();
        let args = match &root {
            None => vec!["run", "--format", "json", "go"],
            Some(root) => vec!["sessions", "resume", root, "--format", "json"],
        };
        let command = env.iter().fold(self.world.command(&args).within(LIFE_MAX), |command, (name, value)| command.env(name, value));
        let done = command.run();
        assert!(!done.timed_out, "{} hangs: {done:#?}", self.what);
        done
    }

    /// Lives until the work is done, and looks at what came of it.
    fn finish(mut self) {
        let mut done = self.live(&[]).expect_code(0);
        if self.world.model.requests().is_empty() {
            // The session was made and the prompt was never accepted.
            done = self.world.command(&["run", "-c", "--format", "json", "go"]).within(LIFE_MAX).run().expect_code(0);
        }
        let what = &self.what;
        let errors = self.world.model.take_errors();
        assert!(errors.is_empty(), "{what}: a provider would have refused: {errors:#?}");
        let shown = done.json();
        assert_eq!(shown["status"], "done", "{what}: {shown}");
        let tree = shown["tree"].as_array().unwrap();
        let agents: Vec<&str> = tree.iter().map(|entry| entry["agent"].as_str().unwrap()).collect();
        assert_eq!(tree.len(), self.story.sessions, "{what}: {agents:?}: no child twice, none forgotten: {shown}");
        assert!(tree.iter().all(|entry| entry["status"] == "completed"), "{what}: {shown}");
        let witness = std::fs::read_to_string(self.world.project.join("witness")).unwrap_or_default();
        let mut marks: Vec<&str> = witness.lines().collect();
        marks.sort_unstable();
        let ran = marks.len();
        marks.dedup();
        assert_eq!(ran, marks.len(), "{what}: something ran twice:\n{witness}");
        let results = shown["result"].as_str().unwrap();
        for name in self.story.marks {
            let claims = results.matches(&format!("did {name}.")).count();
            assert!(claims <= 1 && (claims == 0 || marks.contains(name)), "{what}: {name} is said to be done: {results}\n{witness}");
        }
        self.expect_one_end_for_each_task(tree);
        let left = self.world.processes_left_after(ORPHANS_MAX);
        assert!(left.is_empty(), "{what}: orphans: {left:#?}");
    }

    fn expect_one_end_for_each_task(&self, tree: &[Value]) {
        for entry in tree {
            let id = entry["session"].as_str().unwrap();
            let events = self.world.posse(&["sessions", "show", id, "--format", "json"]).expect_code(0).json()["events"].clone();
            let events = events.as_array().unwrap();
            let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
            assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{}: gaps", self.what);
            let of = |kind: &str| {
                let found = events.iter().filter(|event| event["type"] == kind);
                let mut found: Vec<String> = found.map(|event| format!("{} {}", event["task"], event["round"])).collect();
                found.sort();
                found
            };
            assert_eq!(of("task_started"), of("task_notification"), "{}", self.what);
            let prompts = if entry["parent"].is_null() { 1 } else { self.story.prompts };
            assert_eq!(events.iter().filter(|event| event["type"] == "queued").count(), prompts, "{}: {id} heard each once", self.what);
        }
    }
}

fn team_model(seen: &Seen) -> Answer {
    let agent = |who: &str, prompt: &str| call("agent", json!({"description": prompt, "prompt": prompt, "subagent_type": who}));
    let results = || seen.results().iter().map(|block| format!("{block:?}")).collect::<Vec<_>>().join("\n");
    match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "one"), agent("chief", "two")]),
        ("two", 0) => {
            let command = json!({"command": "echo two >> witness; sleep 0.02; echo did two."});
            Answer::calls([agent("general", "deep"), call("bash", command)])
        }
        (name, 0) => Answer::call("bash", json!({"command": format!("echo {name} >> witness; sleep 0.02; echo did {name}.")})),
        (_, _) => Answer::text(&results()),
    }
}

fn again_model(seen: &Seen) -> Answer {
    let give = |prompt: &str| json!({"description": prompt, "prompt": prompt, "subagent_type": "general"});
    let did = |name: &str| Answer::call("bash", json!({"command": format!("echo {name} >> witness; sleep 0.02; echo did {name}.")}));
    match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([call("agent", give("one"))]),
        ("go", 1) => {
            let mut more = give("more");
            more["task_id"] = json!(seen.last_results()[0].split("task_id: ").last().unwrap());
            Answer::calls([call("agent", more)])
        }
        ("one", 0) => did("one"),
        ("one", 2) => did("more"),
        (_, _) => Answer::text(&seen.last_results().join("\n")),
    }
}

fn env_number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// How one life of a session's process ends.
#[derive(Debug, Clone, Copy)]
enum Death {
    Process(Duration),
    Group(Duration),
    Point(&'static str, usize),
}

struct Driver {
    world: World,
    rng: Rng,
    seed: u64,
    /// What a run takes when nobody kills it.
    usual: Duration,
    known: HashSet<String>,
}

/// One session, from its prompt to its end.
struct Round {
    prompt: String,
    session: Option<String>,
    /// Everything that was printed with a `seq`, over all lives: these facts are promised.
    promised: BTreeMap<u64, Value>,
    history: Vec<String>,
}

impl Driver {
    fn new(seed: u64) -> Driver {
        let world = World::with().config("permission", json!({"*": "allow"})).script(model);
        Driver { world, rng: Rng::with_seed(seed), seed, usual: Duration::ZERO, known: HashSet::new() }
    }

    fn kill(mut self, kills: usize) {
        let begun = Instant::now();
        self.die(0, &[]);
        let mut killed = 0;
        let rounds_max = 3 * kills + 10;
        for round in 1..rounds_max {
            if kills <= killed {
                println!("seed {}: {killed} kills in {round} sessions, {:?}", self.seed, begun.elapsed());
                return;
            }
            let deaths: Vec<Death> = (0..self.rng.usize(1..=DEATHS_MAX)).map(|_| self.choose()).collect();
            killed += self.die(round, &deaths);
        }
        panic!("only {killed} of {kills} kills hit in {rounds_max} sessions: runs end before they can be killed");
    }

    /// One session that dies in these ways until it is done; how many of them it came to.
    fn die(&mut self, number: usize, deaths: &[Death]) -> usize {
        let mut round = Round { prompt: format!("work w{number}"), session: None, promised: BTreeMap::new(), history: Vec::new() };
        let mut killed = 0;
        for death in deaths {
            let done = self.live(&mut round, *death);
            if done.signal.is_none() {
                break;
            }
            killed += 1;
            // Half of the time the next life begins while the old one's processes may still be dying.
            if self.rng.bool() {
                self.expect_no_process(&round);
            }
        }
        self.finish(&mut round);
        self.known.extend(round.session.clone());
        self.verify(&round, number);
        killed
    }

    fn choose(&mut self) -> Death {
        let longest = self.usual.as_micros() as u64 * 11 / 10;
        let moment = Duration::from_micros(self.rng.u64(0..longest.max(1)));
        match self.rng.u8(0..4) {
            0 => Death::Process(moment),
            1 => Death::Group(moment),
            _ => {
                let (name, passes) = POINTS[self.rng.usize(0..POINTS.len())];
                Death::Point(name, self.rng.usize(1..=passes))
            }
        }
    }

    /// Starts or resumes the session, lets the process die, and notes what it had promised.
    fn live(&self, round: &mut Round, death: Death) -> Done {
        let args = match &round.session {
            None => vec!["run", "--format", "stream-json", &round.prompt],
            Some(id) => vec!["sessions", "resume", id, "--format", "stream-json"],
        };
        let begun = Instant::now();
        let mut command = self.world.command(&args);
        if let Death::Point(name, count) = death {
            command = command.env("POSSE_CRASH_AT", &format!("{name}:{count}"));
        }
        let running = command.start();
        let done = die(running, death);
        round.history.push(format!("{args:?} {death:?}: {:?} after {:?}", done.code.ok_or(done.signal), begun.elapsed()));
        round.check(!done.timed_out, || format!("hangs: {done:#?}"));
        round.note(&done);
        self.find_session(round);
        done
    }

    /// A process that died before it printed anything may have made its session all the same.
    fn find_session(&self, round: &mut Round) {
        if round.session.is_none() {
            let list = self.world.posse(&["sessions", "list"]).expect_code(0);
            let ids = list.out.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.starts_with("ses_"));
            let new: Vec<&str> = ids.filter(|id| !self.known.contains(*id)).collect();
            round.check(new.len() <= 1, || format!("one prompt made several sessions: {}", list.out));
            round.session = new.first().map(|id| (*id).to_owned());
        }
    }

    /// Lives until the work is done. A prompt that was never accepted is said again.
    fn finish(&mut self, round: &mut Round) {
        if let Some(id) = round.session.clone() {
            self.last_life(round, &["sessions", "resume", &id, "--format", "stream-json"]);
        }
        if self.requests(round).is_empty() {
            let prompt = round.prompt.clone();
            match round.session.clone() {
                Some(id) => self.last_life(round, &["run", "-s", &id, "--format", "stream-json", &prompt]),
                None => self.last_life(round, &["run", "--format", "stream-json", &prompt]),
            }
        }
    }

    fn last_life(&mut self, round: &mut Round, args: &[&str]) {
        let begun = Instant::now();
        let done = self.world.command(args).within(LIFE_MAX).run();
        round.history.push(format!("{args:?}: {:?}", done.code.ok_or(done.signal)));
        round.check(done.code == Some(0), || format!("does not get done: {done:#?}"));
        round.note(&done);
        // The first round was never killed; its run is the measure for the others.
        if self.usual.is_zero() {
            self.usual = begun.elapsed();
        }
    }

    fn requests(&self, round: &Round) -> Vec<std::sync::Arc<Seen>> {
        self.world.model.requests().into_iter().filter(|seen| seen.user_texts()[0] == round.prompt).collect()
    }

    fn verify(&self, round: &Round, number: usize) {
        let errors = self.world.model.take_errors();
        round.check(errors.is_empty(), || format!("a provider would have refused: {errors:#?}"));
        let ran = self.expect_each_call_once(round, number);
        self.expect_one_result_per_call(round, &ran);
        self.expect_promised_events(round, number);
        self.expect_no_process(round);
        self.expect_next_prompt(round);
    }

    /// No tool twice: neither the same call, nor the same work under another call's name. What did run.
    fn expect_each_call_once(&self, round: &Round, number: usize) -> HashSet<String> {
        let witness = std::fs::read_to_string(self.world.project.join(witness(number))).unwrap_or_default();
        let mut ids = HashSet::new();
        let mut marks = HashSet::new();
        for line in witness.lines() {
            let (id, mark) = line.split_once(' ').unwrap_or_else(|| panic!("{round} strange witness {line:?}"));
            round.check(id.starts_with("call_"), || format!("POSSE_CALL is {id:?}"));
            round.check(ids.insert(id), || format!("{id} ran twice:\n{witness}"));
            round.check(marks.insert(mark.to_owned()), || format!("{mark} ran twice:\n{witness}"));
        }
        marks
    }

    /// In the last request every call has one result, and a result that claims success is true.
    fn expect_one_result_per_call(&self, round: &Round, ran: &HashSet<String>) {
        let requests = self.requests(round);
        let last = requests.last().unwrap_or_else(|| panic!("{round} the model was never asked"));
        let prompts = last.user_texts().iter().filter(|text| **text == round.prompt).count();
        round.check(prompts == 1, || format!("the prompt is said {prompts} times: {:#?}", last.messages));
        round.check(last.steps() == STEPS, || format!("{} steps, not {STEPS}", last.steps()));
        let (calls, results) = (last.calls().len(), last.results().len());
        round.check((calls, results) == (CALLS, CALLS), || format!("{calls} calls, {results} results"));
        for result in last.results() {
            let Block::Result { text, .. } = result else { continue };
            if let Some(mark) = text.split_whitespace().skip_while(|word| *word != "did").nth(1) {
                round.check(ran.contains(mark), || format!("{mark} is said to be done, and never ran"));
            }
        }
    }

    /// What was printed with a `seq` is in the log, at that place; the log has no gap; and what ran was recorded before.
    fn expect_promised_events(&self, round: &Round, number: usize) {
        let id = round.session.as_deref().unwrap_or_else(|| panic!("{round} no session"));
        let shown = self.world.posse(&["sessions", "show", id, "--format", "json"]).expect_code(0).json();
        let events = shown["events"].as_array().unwrap_or_else(|| panic!("{round} no events in {shown}"));
        let log: BTreeMap<u64, &Value> = events.iter().map(|event| (event["seq"].as_u64().unwrap(), event)).collect();
        let (first, last) = (log.keys().next().copied().unwrap_or(0), log.keys().last().copied().unwrap_or(0));
        round.check(log.len() == events.len() && last - first + 1 == log.len() as u64, || format!("seq has gaps: {:?}", log.keys()));
        for (seq, line) in &round.promised {
            let event = log.get(seq).copied();
            round.check(event.is_some(), || format!("seq {seq} was printed and is gone: {line}"));
            if let (Some(event), Some(call)) = (event, line["call"].as_str()) {
                round.check(event.to_string().contains(call), || format!("seq {seq} was {line} and is {event}"));
            }
        }
        let started: HashSet<&str> =
            events.iter().filter(|event| event["type"] == "call_started").filter_map(|event| event["call"].as_str()).collect();
        let witness = std::fs::read_to_string(self.world.project.join(witness(number))).unwrap_or_default();
        for id in witness.lines().filter_map(|line| line.split(' ').next()) {
            round.check(started.contains(id), || format!("{id} ran and no log says that it was started"));
        }
    }

    fn expect_no_process(&self, round: &Round) {
        let left = self.world.processes_left_after(ORPHANS_MAX);
        round.check(left.is_empty(), || format!("orphans: {left:#?}"));
    }

    fn expect_next_prompt(&self, round: &Round) {
        let id = round.session.as_deref().unwrap_or_default();
        let next = self.world.command(&["run", "-s", id, "next"]).within(LIFE_MAX).run();
        round.check(next.code == Some(0) && next.out.trim() == "still here", || format!("takes no next prompt: {next:#?}"));
    }
}

impl Round {
    /// Lines that came out whole are promises; the same place must never hold two different facts.
    fn note(&mut self, done: &Done) {
        for line in done.lines() {
            let Some(session) = line["session"].as_str() else { continue };
            let session = session.to_owned();
            let known = self.session.get_or_insert_with(|| session.clone()).clone();
            self.check(known == session, || format!("another session appeared: {line}"));
            let Some(seq) = line["seq"].as_u64() else { continue };
            if let Some(before) = self.promised.get(&seq) {
                self.check(before["type"] == line["type"] && before["call"] == line["call"], || format!("was {before}, then {line}"));
            }
            self.promised.insert(seq, line);
        }
    }

    #[track_caller]
    fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            panic!("{self} {}", what());
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:?}, session {:?}:", self.prompt, self.session)?;
        self.history.iter().try_for_each(|life| writeln!(out, "  {life}"))
    }
}

fn die(mut running: Running, death: Death) -> Done {
    let (Death::Process(moment) | Death::Group(moment)) = death else { return running.wait(LIFE_MAX) };
    let end = Instant::now() + moment;
    while Instant::now() < end && !running.has_ended() {
        thread::sleep(Duration::from_millis(1).min(moment));
    }
    match death {
        Death::Group(_) => running.kill_group(),
        _ => running.kill(),
    }
    running.wait(LIFE_MAX)
}

/// The conversation: steps of one to three calls at once, then an answer. Position decides, so a retried step is the same.
fn model(seen: &Seen) -> Answer {
    if seen.user_texts().contains(&"next") {
        return Answer::text("still here");
    }
    let number: usize = seen.user_texts()[0].trim_start_matches("work w").parse().unwrap();
    let step = seen.steps();
    if STEPS <= step {
        return Answer::text("all done");
    }
    let calls = (0..1 + step % 3).map(|at| {
        let command = command(number, step, at);
        call("bash", json!({"command": command, "description": format!("step {step}, call {at}")}))
    });
    Answer::calls(calls).slowly(Duration::from_millis(1))
}

/// Says that it ran, takes a moment, and says that it is done. One of them leaves a process behind that would outlive all.
fn command(number: usize, step: usize, at: usize) -> String {
    let leave = if (step, at) == (1, 1) { "(setsid sleep 300 >/dev/null 2>&1 &); " } else { "" };
    let pause = 10 * (1 + (step + at) % 4);
    format!("echo \"$POSSE_CALL s{step}c{at}\" >> {}; {leave}sleep 0.0{pause}; echo did s{step}c{at}", witness(number))
}

fn witness(number: usize) -> String {
    format!("witness-{number}.txt")
}
