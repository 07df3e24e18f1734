//! What happens to a tree while it grows: other terminals, stops, words, detaches, and the deaths of whoever runs it.
//!
//! Any process may come to run the tree: the first one, a resume, or a sender who found nobody there. All of them are
//! `Life`s, and all of them may be killed. A tree is done when its root has started everything and nobody runs it any more.

use std::{
    fmt, thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde_json::Value;

use crate::{
    support::{Done, Running, World},
    team, verdict,
};

/// Far above what anything takes, even on a busy machine: who needs longer hangs.
const LIFE_MAX: Duration = Duration::from_secs(90);

/// How long a tree may take per task once it is left in peace. Who needs longer does not come to rest.
const TREE_MAX_PER_TASK: Duration = Duration::from_secs(6);

/// Accidents per task.
const ACCIDENTS_PER_TASK: usize = 2;

/// Processes that have to do with one tree at once.
const LIVES_MAX: usize = 4;

/// After so many resumes in peace a tree that still does not rest never will.
const PEACEFUL_RESUMES_MAX: usize = 6;

/// Milliseconds between two accidents.
const PAUSE_MAX: u64 = 80;

/// The signal that nobody can catch.
const SIGKILL: i32 = 9;

/// Points at which a resume may kill itself, and how often one passes them about.
const POINTS: &[(&str, usize)] = &[("before_append", 40), ("after_append", 40), ("before_spawn", 8), ("after_spawn", 8)];

/// What happened, and what does not add up.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) started: usize,
    pub(crate) rounds: usize,
    pub(crate) events: usize,
    pub(crate) kills: usize,
    pub(crate) interrupts: usize,
    pub(crate) resumes: usize,
    pub(crate) letters: usize,
    /// Letters that wait in a session which was stopped or failed after they came.
    pub(crate) held: usize,
    pub(crate) agents_letters: usize,
    pub(crate) stops: usize,
    pub(crate) detaches: usize,
    pub(crate) looks: usize,
    pub(crate) violations: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.started += other.started;
        self.rounds += other.rounds;
        self.events += other.events;
        self.kills += other.kills;
        self.interrupts += other.interrupts;
        self.resumes += other.resumes;
        self.letters += other.letters;
        self.held += other.held;
        self.agents_letters += other.agents_letters;
        self.stops += other.stops;
        self.detaches += other.detaches;
        self.looks += other.looks;
        self.violations.extend(other.violations);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} tasks, {} rounds, {} events, {} kills, {} interrupts, {} resumes, {} letters of the user ({} of them held), {} of agents, {} stops, {} detaches, {} looks, {} violations",
            self.started,
            self.rounds,
            self.events,
            self.kills,
            self.interrupts,
            self.resumes,
            self.letters,
            self.held,
            self.agents_letters,
            self.stops,
            self.detaches,
            self.looks,
            self.violations.len()
        )
    }
}

/// Words of the user to a session of the tree.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) text: String,
    pub(crate) to: String,
    /// Whoever said it was told that it arrived.
    pub(crate) confirmed: bool,
}

/// A process that runs the tree, or may come to.
struct Life {
    running: Running,
    what: String,
    letter: Option<usize>,
    /// We killed it, interrupted it, or told it to die.
    doomed: bool,
}

pub(crate) struct Tree<'a> {
    world: &'a World,
    rng: Rng,
    number: usize,
    tasks: usize,
    pub(crate) root: String,
    lives: Vec<Life>,
    pub(crate) letters: Vec<Letter>,
    /// The root has said that it has started everything.
    complete: bool,
    known: Vec<Value>,
    tally: Tally,
    history: Vec<String>,
    begun: Instant,
}

impl<'a> Tree<'a> {
    /// From the first prompt to the verdict.
    pub(crate) fn grow(world: &'a World, seed: u64, number: usize, tasks: usize) -> Tally {
        let rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let mut tree = Tree {
            world,
            rng,
            number,
            tasks,
            root: String::new(),
            lives: Vec::new(),
            letters: Vec::new(),
            complete: false,
            known: Vec::new(),
            tally: Tally::default(),
            history: Vec::new(),
            begun: Instant::now(),
        };
        tree.plant();
        for _ in 0..ACCIDENTS_PER_TASK * tasks {
            tree.accident();
        }
        tree.come_to_rest();
        let violations = verdict::of(world, &tree.root, &tree.letters, &mut tree.tally);
        let about = format!("tree {number} ({})", tree.root);
        violations.into_iter().for_each(|violation| tree.violation(violation));
        if !tree.tally.violations.is_empty() {
            let history = tree.history.join("\n  ");
            println!("{about}:\n  {history}");
        }
        let named = tree.tally.violations.iter().map(|violation| format!("{about}: {violation}")).collect();
        Tally { violations: named, ..tree.tally }
    }

    /// The first life; nobody dies before there is a session to go on with.
    fn plant(&mut self) {
        let prompt = team::root_prompt(self.number, self.tasks);
        let running = self.world.start(&["run", "-q", "--format", "stream-json", &prompt]);
        assert!(running.wait_for_out("\"session\":\"ses_", LIFE_MAX), "no session: {:?}", running.wait(Duration::ZERO));
        let out = running.out_so_far();
        let after = out.split("\"session\":\"").nth(1).unwrap();
        self.root = after.split('"').next().unwrap().to_owned();
        self.lives.push(Life { running, what: "run".into(), letter: None, doomed: false });
    }

    fn note(&mut self, what: String) {
        self.history.push(format!("{:>8.3} {what}", self.begun.elapsed().as_secs_f64()));
    }

    fn violation(&mut self, what: String) {
        self.note(format!("VIOLATION {what}"));
        self.tally.violations.push(what);
    }

    fn accident(&mut self) {
        thread::sleep(Duration::from_millis(self.rng.u64(0..PAUSE_MAX)));
        self.reap();
        if self.lives.is_empty() {
            return self.revive();
        }
        match self.rng.u8(0..100) {
            0..30 => self.send(),
            30..32 => self.stop_all(),
            32..42 => self.stop(),
            42..52 => self.detach(),
            52..75 => self.look(),
            75..82 => self.kill(),
            82..87 => self.interrupt(),
            87..94 => self.resume(),
            _ => self.refresh(),
        }
    }

    /// Nobody runs the tree: somebody takes it up, one way or another, or two at once.
    fn revive(&mut self) {
        match self.rng.u8(0..10) {
            0..2 => {
                self.resume();
                self.resume();
            }
            2..4 => self.send(),
            4..5 => self.stop(),
            5..7 => self.go_on(),
            _ => self.resume(),
        }
    }

    /// Looks at who has ended, and how.
    fn reap(&mut self) {
        let mut at = 0;
        while at < self.lives.len() {
            if self.lives[at].running.has_ended() {
                let life = self.lives.remove(at);
                self.ended(life);
            } else {
                at += 1;
            }
        }
    }

    fn ended(&mut self, life: Life) {
        let Life { running, what, letter, doomed, .. } = life;
        let done = running.wait(LIFE_MAX);
        self.note(format!("{what} ended: {:?} {:?}{}", done.code, done.signal, if doomed { " (doomed)" } else { "" }));
        self.tally.kills += usize::from(done.signal == Some(SIGKILL));
        if let (Some(letter), Some(0)) = (letter, done.code) {
            self.letters[letter].confirmed = true;
        }
        // Whoever runs or follows a tree that is interrupted from elsewhere says so; a letter may be refused in words.
        let may_be = |code: i32| matches!(code, 0 | 130) || (letter.is_some() && code == 1);
        if !doomed && !done.code.is_some_and(may_be) {
            self.violation(format!("{what} ended by itself: {}", tail(&done)));
        }
        if done.err.contains("panicked") {
            self.violation(format!("{what} panicked: {}", tail(&done)));
        }
        self.complete |= done.out.contains(team::COMPLETE);
    }

    /// A process that may come to run the tree.
    fn live(&mut self, args: &[&str], letter: Option<usize>, may_crash: bool) {
        if LIVES_MAX <= self.lives.len() {
            return;
        }
        let mut command = self.world.command(args);
        let mut what = args.join(" ");
        let crashes = may_crash && self.rng.u8(0..4) == 0;
        if crashes {
            let (name, passes) = POINTS[self.rng.usize(0..POINTS.len())];
            let point = format!("{name}:{}", self.rng.usize(1..=passes));
            command = command.env("POSSE_CRASH_AT", &point);
            what = format!("{what} until {point}");
        }
        self.note(what.clone());
        self.lives.push(Life { running: command.start(), what, letter, doomed: crashes });
    }

    fn resume(&mut self) {
        self.tally.resumes += 1;
        let root = self.root.clone();
        self.live(&["sessions", "resume", "-q", &root, "--format", "stream-json"], None, true);
    }

    fn letter(&mut self, to: &str) -> (usize, String) {
        let text = format!("letter {}.{}", self.number, self.letters.len());
        self.letters.push(Letter { text: text.clone(), to: to.to_owned(), confirmed: false });
        self.tally.letters += 1;
        (self.letters.len() - 1, text)
    }

    /// Words to the root.
    fn go_on(&mut self) {
        if LIVES_MAX <= self.lives.len() {
            return;
        }
        let root = self.root.clone();
        let (letter, text) = self.letter(&root);
        self.live(&["run", "-q", "-s", &root, "--format", "stream-json", &text], Some(letter), true);
    }

    fn send(&mut self) {
        let Some(task) = self.somebody().filter(|_| self.lives.len() < LIVES_MAX) else { return self.refresh() };
        let (letter, text) = self.letter(&task);
        self.live(&["tasks", "send", "-q", &task, "--format", "stream-json", &text], Some(letter), true);
    }

    fn stop(&mut self) {
        let Some(task) = self.somebody() else { return self.refresh() };
        self.tally.stops += 1;
        self.quick(&["tasks", "stop", &task]);
    }

    /// The whole tree, or all its tasks.
    fn stop_all(&mut self) {
        self.tally.stops += 1;
        let root = self.root.clone();
        if self.rng.bool() {
            self.quick(&["sessions", "stop", &root]);
        } else {
            self.quick(&["tasks", "stop", "--all", "--session", &root]);
        }
    }

    fn detach(&mut self) {
        let Some(task) = self.somebody() else { return self.refresh() };
        self.tally.detaches += 1;
        self.quick(&["tasks", "detach", &task]);
    }

    fn look(&mut self) {
        self.tally.looks += 1;
        let root = self.root.clone();
        let task = self.somebody().unwrap_or_else(|| root.clone());
        match self.rng.u8(0..7) {
            0 => self.quick(&["sessions", "tree", &root]),
            1 => self.quick(&["tasks"]),
            2 => self.quick(&["asks", "list"]),
            3 => self.quick(&["sessions", "list"]),
            4 => self.quick(&["sessions", "show", &task]),
            5 => self.quick(&["why", &task]),
            _ => self.refresh(),
        };
    }

    /// A command of a second terminal that ends by itself, well or with a word of refusal.
    fn quick(&mut self, args: &[&str]) {
        let begun = Instant::now();
        let done = self.world.command(args).within(LIFE_MAX).run();
        self.note(format!("{} took {:?}: {:?} {}", args.join(" "), begun.elapsed(), done.code, done.err.trim()));
        if done.timed_out || !matches!(done.code, Some(0 | 1)) || done.err.contains("panicked") {
            self.violation(format!("{}: {}", args.join(" "), tail(&done)));
        }
    }

    fn refresh(&mut self) {
        let root = self.root.clone();
        let done = self.world.command(&["tasks", "--session", &root, "--format", "json"]).within(LIFE_MAX).run();
        match done.code {
            Some(0) => self.known = done.json().as_array().unwrap().iter().filter(|row| row["kind"] == "task").cloned().collect(),
            _ => self.violation(format!("posse tasks: {}", tail(&done))),
        }
    }

    /// A task of this tree; more often one that was not over when we last looked.
    fn somebody(&mut self) -> Option<String> {
        if self.rng.u8(0..3) == 0 {
            self.refresh();
        }
        let open: Vec<&Value> =
            self.known.iter().filter(|task| matches!(task["status"].as_str(), Some("queued" | "running" | "waiting"))).collect();
        let all: Vec<&Value> = self.known.iter().collect();
        let among = if open.is_empty() || self.rng.u8(0..4) == 0 { all } else { open };
        let task = among.get(self.rng.usize(0..among.len().max(1)))?;
        Some(task["session"].as_str().unwrap().to_owned())
    }

    fn kill(&mut self) {
        let at = self.rng.usize(0..self.lives.len());
        let whole_group = self.rng.bool();
        let life = &mut self.lives[at];
        life.doomed = true;
        if whole_group {
            life.running.kill_group();
        } else {
            life.running.kill();
        }
        let what = format!("killed {} (group: {whole_group})", life.what);
        self.note(what);
    }

    fn interrupt(&mut self) {
        let at = self.rng.usize(0..self.lives.len());
        let life = &mut self.lives[at];
        life.doomed = true;
        life.running.interrupt();
        let what = format!("interrupted {}", life.what);
        self.tally.interrupts += 1;
        self.note(what);
    }

    /// No more accidents: everybody ends, and the tree is taken up until there is nothing left to do.
    fn come_to_rest(&mut self) {
        self.note("peace".into());
        let end = Instant::now() + TREE_MAX_PER_TASK * self.tasks as u32;
        self.wait_for_all(end);
        let root = self.root.clone();
        for round in 0.. {
            if PEACEFUL_RESUMES_MAX * self.tasks < round || end < Instant::now() {
                self.violation(format!("does not come to rest after {round} resumes in peace"));
                return;
            }
            // Words make the root go on where an interrupt had ended its turn; the last life is a plain resume.
            if self.complete {
                self.live(&["sessions", "resume", "-q", &root, "--format", "stream-json"], None, false);
                return self.wait_for_all(end);
            }
            let (letter, text) = self.letter(&root);
            self.live(&["run", "-q", "-s", &root, "--format", "stream-json", &text], Some(letter), false);
            self.wait_for_all(end);
        }
    }

    fn wait_for_all(&mut self, end: Instant) {
        while !self.lives.is_empty() {
            self.reap();
            if end < Instant::now() {
                for life in std::mem::take(&mut self.lives) {
                    let tree = self.world.posse(&["sessions", "tree", &self.root]).out;
                    let done = life.running.wait(Duration::ZERO);
                    self.violation(format!("{} does not end: {}\n{tree}", life.what, tail(&done)));
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The end of what it said: the whole is too long to read.
fn tail(done: &Done) -> String {
    let last = |text: &str| text.chars().rev().take(600).collect::<Vec<_>>().into_iter().rev().collect::<String>();
    format!("code {:?}, signal {:?}, stderr: {}, stdout: {}", done.code, done.signal, last(&done.err), last(&done.out))
}
