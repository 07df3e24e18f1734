//! `posse demo`: a team of agents on a repository, a refused ask, a `kill -9`, and everybody's work home, in seconds.
//!
//! The model is scripted and says so; tools, git, the log, the crash and the recovery are the real ones, in processes of
//! this same program that run as a user would run them. Everything that is told is checked, so it is a test as well.
//! What the model says is in `demo/script.rs`, the folder it plays in, in `demo/stage.rs`.

mod records;
pub(crate) mod script;
mod stage;
mod teller;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use clap::Args as ClapArgs;
use serde_json::Value;

use self::{
    records::{Records, Worker},
    script::{Cue, MODEL, NOTES, PAD, PAD_BROKEN, PAD_MENDED, PROMPT, TRIM, TRIM_MENDED},
    stage::{End, Going, Stage},
    teller::{FOLDER, Stop, Teller},
};
use crate::{
    exit::{Exit, Failure},
    signals::Signals,
};

/// How long anything that is to happen may take before it is missed. A busy machine needs a few seconds.
const HAPPENS_MAX: Duration = Duration::from_secs(25);

/// How often it is looked whether it has happened.
const LOOK: Duration = Duration::from_millis(80);

/// What a reader is given between two acts, and between two answers of the model. Nobody looks on: none.
const PAUSE: Duration = Duration::from_millis(350);
const PACE_MS: u64 = 180;

const KILLED: i32 = 9;

/// Runs end by themselves after this time, should the demo itself be killed while they wait for its answer.
const RUN_MAX: &str = "1m";

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DemoOptions {
    /// Leave the repository and the sessions where they are, to look around in them
    #[arg(long)]
    pub(crate) keep: bool,
    /// Spoils one thing, to show that the demo notices; for its tests
    #[arg(long, value_enum, hide = true)]
    pub(crate) spoil: Option<Spoil>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Spoil {
    /// Answers yes where it says no
    Ask,
    /// Writes the line of the lost command once more
    Twice,
    /// Breaks a function after it came home
    Tests,
}

pub(crate) async fn demo(options: DemoOptions) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
    let stage = Stage::build().map_err(Failure::failed)?;
    if let Err(stop) = stage.found_repository().await {
        let left = stage.remove().await.err().map_or(String::new(), |words| format!("; {words}"));
        return Err(Failure::failed(format!("{}{left}", stop.words())));
    }
    let mut show = Show::new(&stage, &options);
    let ended = tokio::select! {
        ended = show.play() => ended,
        () = signals.next() => {
            show.teller.clear();
            let kept = cleared(&stage, options.keep).await;
            return Err(Failure::ended(Exit::Interrupted, format!("interrupted; {kept}")));
        }
    };
    show.teller.clear();
    match ended {
        Ok(()) => {
            let kept = cleared(&stage, options.keep).await;
            Ok(if show.teller.line(&sentence(&kept)).is_ok() { Exit::Done } else { Exit::Failed })
        }
        // Whoever closes the pipe has seen enough, as with any other tool.
        Err(Stop::Unheard(error)) => {
            let kept = cleared(&stage, options.keep).await;
            let left = error.kind() == std::io::ErrorKind::BrokenPipe;
            if left { Ok(Exit::Done) } else { Err(Failure::failed(format!("stdout cannot be written: {error}; {kept}"))) }
        }
        Err(stop) => Err(Failure::failed(format!("{}\nEverything is left in {} to look at", stop.words(), stage.folder.display()))),
    }
}

/// Removes the stage unless it is to be kept, and says what became of it.
async fn cleared(stage: &Stage, keep: bool) -> String {
    if keep {
        return format!("everything is kept: cd {0}/project; HOME={0}/home posse sessions tree", stage.folder.display());
    }
    match stage.remove().await {
        Ok(()) => format!("{} is removed", stage.folder.display()),
        Err(words) => words,
    }
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

struct Show<'a> {
    stage: &'a Stage,
    teller: Teller,
    spoil: Option<Spoil>,
    keep: bool,
    began: Instant,
    pause: Duration,
    cue: Cue,
}

impl<'a> Show<'a> {
    fn new(stage: &'a Stage, options: &DemoOptions) -> Self {
        let teller = Teller::new(stage.folder.display().to_string());
        let (pause, pace_ms) = if teller.is_watched() { (PAUSE, PACE_MS) } else { (Duration::ZERO, 0) };
        let cue = Cue { project: stage.project.clone(), dies: true, pace_ms };
        Self { stage, teller, spoil: options.spoil, keep: options.keep, began: Instant::now(), pause, cue }
    }

    async fn play(&mut self) -> Result<(), Stop> {
        let kept = if self.keep { "which is kept" } else { "removed at the end" };
        self.teller.line(&format!("posse demo: the model is SCRIPTED ({MODEL}): no LLM, no key, no network."))?;
        self.teller.line("Tools, git, worktrees, log, kill -9 and recovery are real; all told is checked.")?;
        self.teller.line(&format!("{FOLDER} is {}, {kept}.", self.stage.folder.display()))?;
        self.a_repository().await?;
        let mut run = self.two_agents().await?;
        self.an_ask(&mut run).await?;
        self.a_crash(run).await?;
        let root = self.root().await?;
        let workers = self.going_on(&root).await?;
        self.home_by_hand(&workers).await?;
        let seconds = self.began.elapsed().as_secs_f64();
        self.teller.line("")?;
        self.teller.line(&format!("Done in {seconds:.1} s: {} things were told, and all of them are so.", self.teller.checks()))
    }

    async fn a_repository(&mut self) -> Result<(), Stop> {
        self.act(1, "A repository with two bugs").await?;
        let failing = self.tests().await?;
        self.teller.check("two of its three tests fail", &vec!["trim".to_owned(), "pad".to_owned()], &failing)
    }

    /// A run that waits for an answer, with both agents as far as they come without one.
    async fn two_agents(&mut self) -> Result<Going, Stop> {
        self.act(2, "Two background agents, each in a git worktree of its own").await?;
        let args = ["run", "-m", MODEL, "--on-ask", "wait", "--timeout", RUN_MAX, PROMPT];
        self.teller.command(&line(&args))?;
        let mut run = self.stage.start(&args, &self.cue)?;
        self.until(&mut run, "the trimmer has edited and tested, the padder asks", |now| {
            now.calls_of(TRIM) == Some(3) && !now.asks.is_empty()
        })
        .await?;
        self.teller.clear();
        self.tree().await?;
        let records = self.records(&self.root().await?).await?;
        let (trimmer, padder) = (records.worker(TRIM)?, records.worker(PAD)?);
        let mended = (self.is_in(&trimmer.worktree.path, TRIM_MENDED)?, self.is_in(&padder.worktree.path, PAD_MENDED)?);
        self.teller.check("each has edited text.sh in its own worktree", &(true, true), &mended)?;
        self.untouched()?;
        Ok(run)
    }

    async fn an_ask(&mut self, run: &mut Going) -> Result<(), Stop> {
        self.act(3, "One wants out of its worktree: that asks, and is refused").await?;
        self.news(run)?;
        self.posse(&["asks", "list"]).await?;
        let ask = self.only_ask().await?;
        let wants = text(&ask["input"]["command"]);
        self.teller.check("it is the padder's copy over the user's file", &script::way_out(&self.stage.project).as_str(), &wants)?;
        self.pause().await;
        let mut answer = vec!["asks", "answer", text(&ask["ask"])];
        answer.extend(if self.spoil == Some(Spoil::Ask) { &["once"][..] } else { &["no", "--say", "Stay in your worktree."] });
        self.posse(&answer).await?;
        self.news(run)?;
        let records = self.records(&self.root().await?).await?;
        let padder = records.worker(PAD)?;
        self.teller.check("the padder's copy was refused, and it was told so", &vec![&padder.task], &records.denied())
    }

    async fn a_crash(&mut self, mut run: Going) -> Result<(), Stop> {
        self.act(4, "kill -9, while one thinks and the other runs a command").await?;
        self.teller.printed("(the run sends itself SIGKILL as soon as the padder's next command has begun to act)")?;
        let end = self.end_of(&mut run, "the run dies").await?;
        self.teller.check("the run was killed by signal 9, in the middle of everything", &End::Signal(KILLED), &end)?;
        self.untouched()?;
        self.posse(&["tasks"]).await?;
        let now = self.now().await?;
        let open: Vec<bool> = now.tree.iter().map(|node| text(&node["status"]) == "waiting").collect();
        self.teller.check("all three sessions are on disk and wait for a process", &vec![true; 3], &open)?;
        if self.spoil == Some(Spoil::Twice) {
            let padder = self.records(&self.root().await?).await?.worker(PAD)?;
            let notes = Path::new(&padder.worktree.path).join(NOTES);
            let line = std::fs::read_to_string(&notes).unwrap_or_default();
            std::fs::write(&notes, line.repeat(2)).map_err(|error| Stop::Trouble(error.to_string()))?;
        }
        Ok(())
    }

    /// The tree goes on until its first merge is asked for and done.
    async fn going_on(&mut self, root: &str) -> Result<(Worker, Worker), Stop> {
        self.act(5, "Going on: what was lost is told, nothing runs twice").await?;
        let args = ["sessions", "resume", root, "--on-ask", "wait", "--timeout", RUN_MAX];
        self.teller.command(&line(&args))?;
        let cue = Cue { dies: false, ..self.cue.clone() };
        let mut run = self.stage.start(&args, &cue)?;
        self.until(&mut run, "both agents end and the first merge is asked for", |now| !now.asks.is_empty()).await?;
        self.teller.clear();
        self.tree().await?;
        let records = self.records(root).await?;
        let (trimmer, padder) = (records.worker(TRIM)?, records.worker(PAD)?);
        self.teller.check("only the command that ran is lost, and its agent was told so", &vec![&padder.task], &records.lost())?;
        self.teller.check("no call was started twice", &0, &records.started_again())?;
        let notes = self.notes(Path::new(&padder.worktree.path))?;
        self.teller.check("the padder's command wrote its line exactly once", &1, &notes)?;
        let range = format!("{}..{}", trimmer.worktree.base, trimmer.worktree.branch);
        let commits = self.stage.git(&self.stage.project, &["rev-list", "--count", &range]).await?;
        self.teller.check("the trimmer has committed exactly once", &"1", &commits.trim())?;
        let ends = (records.ends(&trimmer), records.ends(&padder));
        self.teller.check("the end of each agent reached its caller exactly once", &(1, 1), &ends)?;
        self.pause().await;
        let ask = self.only_ask().await?;
        let asks = (text(&ask["tool"]), text(&ask["input"]["task_id"]));
        self.teller.check("the model asks to merge the trimmer's work", &("task_merge", trimmer.task.as_str()), &asks)?;
        self.posse(&["asks", "answer", text(&ask["ask"]), "once"]).await?;
        let end = self.end_of(&mut run, "the resumed run comes to rest").await?;
        self.teller.check("the run is done", &End::Exit(0), &end)?;
        let home = (self.is_in(&self.stage.project, TRIM_MENDED)?, self.is_in(&self.stage.project, PAD_BROKEN)?);
        self.teller.check("the trimmer's work is home, and only that", &(true, true), &home)?;
        Ok((trimmer, padder))
    }

    async fn home_by_hand(&mut self, (trimmer, padder): &(Worker, Worker)) -> Result<(), Stop> {
        self.act(6, "The other one's work comes home by hand").await?;
        self.posse(&["tasks", "diff", PAD, "--stat"]).await?;
        self.posse(&["tasks", "merge", PAD]).await?;
        self.posse(&["tasks", "wrote"]).await?;
        if self.spoil == Some(Spoil::Tests) {
            let path = self.stage.project.join("text.sh");
            let broken = std::fs::read_to_string(&path).unwrap_or_default().replace(PAD_MENDED, PAD_BROKEN);
            std::fs::write(&path, broken).map_err(|error| Stop::Trouble(error.to_string()))?;
        }
        let wrote = self.json(&["tasks", "wrote"]).await?;
        let mut wrote: Vec<(&str, &str)> = wrote.iter().map(|one| (text(&one["path"]), text(&one["task"]))).collect();
        wrote.sort_unstable();
        let mut expected = vec![(NOTES, padder.task.as_str()), ("text.sh", trimmer.task.as_str()), ("text.sh", padder.task.as_str())];
        expected.sort_unstable();
        self.teller.check("every line that came home is known by the agent that wrote it", &expected, &wrote)?;
        let failing = self.tests().await?;
        self.teller.check("every test passes", &Vec::<String>::new(), &failing)?;
        let notes = self.notes(&self.stage.project)?;
        self.teller.check("the padder's note came along, one line", &1, &notes)?;
        let worktrees = self.stage.git(&self.stage.project, &["worktree", "list", "--porcelain"]).await?;
        let branches = self.stage.git(&self.stage.project, &["branch", "--format", "%(refname:short)"]).await?;
        let left = (worktrees.lines().filter(|line| line.starts_with("worktree ")).count(), branches.trim());
        self.teller.check("no worktree and no branch is left behind", &(1, "main"), &left)?;
        self.tree().await
    }
}

/// What the demo looks at, over and over.
impl Show<'_> {
    async fn act(&self, number: usize, headline: &str) -> Result<(), Stop> {
        self.pause().await;
        self.teller.act(number, headline)
    }

    async fn pause(&self) {
        tokio::time::sleep(self.pause).await;
    }

    /// Runs a command as a user would, shows it and what it printed.
    async fn posse(&self, args: &[&str]) -> Result<String, Stop> {
        let command = line(args);
        self.teller.command(&command)?;
        let said = self.stage.posse(args).await?;
        self.teller.printed(&said.out)?;
        self.teller.printed(&said.err)?;
        match said.end {
            End::Exit(0) => Ok(said.out),
            end => {
                Err(Stop::Untrue { what: command, expected: format!("{:?}", End::Exit(0)), found: format!("{end:?} {}", said.err.trim()) })
            }
        }
    }

    /// The same, for the demo alone to read.
    async fn quietly(&self, args: &[&str]) -> Result<String, Stop> {
        let said = self.stage.posse(args).await?;
        let failed = |end: End| Stop::Trouble(format!("posse {}: {end:?}: {}", args.join(" "), said.err.trim()));
        if said.end == End::Exit(0) { Ok(said.out) } else { Err(failed(said.end)) }
    }

    async fn json(&self, args: &[&str]) -> Result<Vec<Value>, Stop> {
        let printed = self.quietly(&[args, &["--format", "json"]].concat()).await?;
        serde_json::from_str(&printed).map_err(|error| Stop::Trouble(format!("posse {}: {error}", args.join(" "))))
    }

    async fn tree(&self) -> Result<(), Stop> {
        self.posse(&["sessions", "tree"]).await.map(|_| ())
    }

    async fn now(&self) -> Result<Now, Stop> {
        Ok(Now { tree: self.json(&["sessions", "tree"]).await?, asks: self.json(&["asks", "list"]).await? })
    }

    async fn root(&self) -> Result<String, Stop> {
        let sessions = self.json(&["sessions", "list"]).await?;
        let root = sessions.first().map(|root| text(&root["session"]).to_owned());
        root.ok_or_else(|| Stop::Untrue { what: "the run is on disk".into(), expected: "a session".into(), found: "none".into() })
    }

    async fn records(&self, root: &str) -> Result<Records, Stop> {
        Records::read(&self.quietly(&["sessions", "export", root, "--format", "jsonl"]).await?)
    }

    async fn only_ask(&self) -> Result<Value, Stop> {
        let mut asks = self.json(&["asks", "list"]).await?;
        let count = asks.len();
        let wrong = || Stop::Untrue { what: "one ask is open".into(), expected: "1".into(), found: count.to_string() };
        asks.pop().filter(|_| count == 1).ok_or_else(wrong)
    }

    /// Runs the repository's own tests; the names of those that fail.
    async fn tests(&self) -> Result<Vec<String>, Stop> {
        self.teller.command("sh tests.sh")?;
        let said = self.stage.sh("tests.sh").await?;
        self.teller.printed(&said.out)?;
        self.teller.printed(&said.err)?;
        let name = |line: &str| Some(line.strip_prefix("FAIL")?.trim().split(':').next()?.to_owned());
        let failing: Vec<String> = said.out.lines().filter_map(name).collect();
        let fits = (said.end == End::Exit(0)) == failing.is_empty() && said.out.lines().count() == 3;
        if fits { Ok(failing) } else { Err(Stop::Trouble(format!("tests.sh: {:?}: {}", said.end, said.err.trim()))) }
    }

    fn is_in(&self, folder: impl AsRef<Path>, line: &str) -> Result<bool, Stop> {
        let path = folder.as_ref().join("text.sh");
        let found = std::fs::read_to_string(&path).map_err(|error| Stop::Trouble(format!("{}: {error}", path.display())))?;
        Ok(found.contains(line))
    }

    fn untouched(&mut self) -> Result<(), Stop> {
        let found = std::fs::read_to_string(self.stage.project.join("text.sh")).unwrap_or_default();
        self.teller.check("the user's own text.sh is untouched", &stage::TEXT.to_owned(), &found)
    }

    /// The lines that the slow command has left in a folder.
    fn notes(&self, folder: &Path) -> Result<usize, Stop> {
        let found = std::fs::read_to_string(folder.join(NOTES));
        found.map(|text| text.lines().count()).map_err(|error| Stop::Trouble(format!("{}: {error}", folder.join(NOTES).display())))
    }

    /// Tells what the run has printed since.
    fn news(&self, run: &mut Going) -> Result<(), Stop> {
        run.news().iter().try_for_each(|line| self.teller.printed(line))
    }

    /// Tells what the run prints and draws the tree, until what was promised is so.
    async fn until(&self, run: &mut Going, what: &str, is_so: impl Fn(&Now) -> bool) -> Result<(), Stop> {
        let began = Instant::now();
        let missed = |found: String| Stop::Untrue { what: what.to_owned(), expected: "that it comes about".into(), found };
        loop {
            let ended = run.ended()?;
            let now = self.now().await?;
            self.news(run)?;
            if is_so(&now) {
                return Ok(());
            }
            if let Some(end) = ended {
                self.teller.clear();
                run.last_news().await.iter().try_for_each(|line| self.teller.printed(line))?;
                return Err(missed(format!("the run has ended: {end:?}")));
            }
            if HAPPENS_MAX < began.elapsed() {
                return Err(missed(format!("nothing of it within {} seconds", HAPPENS_MAX.as_secs())));
            }
            self.draw().await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The same until the run has ended, and how it did.
    async fn end_of(&self, run: &mut Going, what: &str) -> Result<End, Stop> {
        let began = Instant::now();
        loop {
            self.news(run)?;
            if let Some(end) = run.ended()? {
                self.teller.clear();
                for line in run.last_news().await {
                    self.teller.printed(&line)?;
                }
                return Ok(end);
            }
            if HAPPENS_MAX < began.elapsed() {
                let found = format!("it still runs after {} seconds", HAPPENS_MAX.as_secs());
                return Err(Stop::Untrue { what: what.to_owned(), expected: "that it comes about".into(), found });
            }
            self.draw().await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The tree below what was told; only where it can be seen.
    async fn draw(&self) -> Result<(), Stop> {
        if self.teller.is_watched() {
            self.teller.draw(&self.quietly(&["sessions", "tree"]).await?);
        }
        Ok(())
    }
}

/// How the tree stands.
struct Now {
    tree: Vec<Value>,
    asks: Vec<Value>,
}

impl Now {
    fn calls_of(&self, name: &str) -> Option<u64> {
        self.tree.iter().find(|node| text(&node["name"]) == name)?["calls"].as_u64()
    }
}

/// A command line as a user would type it.
fn line(args: &[&str]) -> String {
    let quoted = |arg: &&str| if arg.contains(' ') { format!("\"{arg}\"") } else { (*arg).to_owned() };
    std::iter::once("posse".to_owned()).chain(args.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
