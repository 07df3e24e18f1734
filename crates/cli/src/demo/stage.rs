//! The stage of the demo: a temporary folder with a git repository and a home of its own, and the commands run in it.
//!
//! Nothing of the user's is read or written: processes get an environment that knows the stage only. Whatever is left
//! running ends with the value that holds it.

use std::{
    os::unix::{fs::DirBuilderExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use posse_engine::Ulids;
use posse_session::Ids as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use super::{
    script::{Cue, VARIABLE},
    teller::Stop,
};
use crate::build;

/// No command of the demo takes longer, even on a machine that is busy.
const COMMAND_MAX: Duration = Duration::from_secs(30);

/// Processes that have been killed may still hold the folder for a moment.
const REMOVE_TRIES: usize = 40;
const REMOVE_WAIT: Duration = Duration::from_millis(50);

/// Lines that a process has printed and nobody has told yet; beyond them it waits.
const LINES_MAX: usize = 256;

/// What is handed on of the user's environment: where programs are, and how text is written.
const HANDED_ON: [&str; 6] = ["PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"];

pub(super) const TEXT: &str = include_str!("repository/text.sh");
const TESTS: &str = include_str!("repository/tests.sh");

pub(super) struct Stage {
    pub(super) folder: PathBuf,
    pub(super) project: PathBuf,
    home: PathBuf,
    program: PathBuf,
}

/// What a command has printed, and how it ended.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exit(i32),
    Signal(i32),
}

impl Stage {
    /// An empty folder of its own.
    pub(super) fn build() -> Result<Self, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}; run posse by its path"))?;
        let temporary = std::env::temp_dir();
        let place = |error: std::io::Error| {
            format!("{}: a temporary folder cannot be made there: {error}; set TMPDIR to a folder that can be written", temporary.display())
        };
        let name = Ulids::new(Arc::new(build::SystemClock)).fresh("posse-demo-").to_lowercase();
        // The real path: that is how processes and messages name it.
        let folder = temporary.canonicalize().map_err(place)?.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(place)?;
        let (project, home) = (folder.join("project"), folder.join("home"));
        let stage = Self { folder, project, home, program };
        match stage.folders() {
            Ok(()) => Ok(stage),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&stage.folder);
                Err(place(error))
            }
        }
    }

    fn folders(&self) -> std::io::Result<()> {
        std::fs::create_dir(&self.project)?;
        std::fs::create_dir(&self.home)?;
        std::fs::write(self.project.join("text.sh"), TEXT)?;
        std::fs::write(self.project.join("tests.sh"), TESTS)
    }

    /// The project becomes a git repository with one commit, by a committer of its own.
    pub(super) async fn found_repository(&self) -> Result<(), Stop> {
        self.git(&self.project, &["--version"]).await?;
        let hint = format!("the demo needs some megabytes in {}; TMPDIR names another place", std::env::temp_dir().display());
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Posse Demo"],
            &["config", "user.email", "demo@localhost"],
            &["config", "commit.gpgsign", "false"],
            &["add", "-A"],
            &["commit", "-qm", "three functions, two of them wrong"],
        ] {
            self.git(&self.project, args).await.map_err(|stop| Stop::Trouble(format!("{}\n{hint}", stop.words())))?;
        }
        Ok(())
    }

    /// What git says; a git that fails is trouble.
    pub(super) async fn git(&self, folder: &Path, args: &[&str]) -> Result<String, Stop> {
        let mut command = self.command(Path::new("git"));
        command.args(args).current_dir(folder);
        let said = finished(command, "git").await?;
        match said.end {
            End::Exit(0) => Ok(said.out),
            end => Err(Stop::Trouble(format!("git {} in {}: {end:?}: {}", args.join(" "), folder.display(), said.err.trim()))),
        }
    }

    pub(super) async fn sh(&self, script: &str) -> Result<Said, Stop> {
        let mut command = self.command(Path::new("sh"));
        command.arg(script);
        finished(command, "sh").await
    }

    /// `posse ARGS` in the repository, to its end.
    pub(super) async fn posse(&self, args: &[&str]) -> Result<Said, Stop> {
        let mut command = self.command(&self.program);
        command.args(args);
        finished(command, "posse").await
    }

    /// `posse ARGS` in the repository with the scripted model, going.
    pub(super) fn start(&self, args: &[&str], cue: &Cue) -> Result<Going, Stop> {
        let mut command = self.command(&self.program);
        command.args(args).env(VARIABLE, cue.words());
        let mut child = command.spawn().map_err(|error| Stop::Trouble(format!("posse cannot be started: {error}")))?;
        let (sender, lines) = mpsc::channel(LINES_MAX);
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            tokio::spawn(read(out, sender.clone()));
            tokio::spawn(read(err, sender));
        }
        Ok(Going { child, lines })
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.project).env_clear();
        command.envs(HANDED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("HOME", &self.home).env("NO_COLOR", "1").env("TERM", "dumb");
        // A setting of this machine must not change what is shown.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C is for the demo, which then ends what it has started.
        command.process_group(0);
        command
    }

    /// Takes the stage down. Words if that cannot be done.
    pub(super) async fn remove(&self) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..REMOVE_TRIES {
            match std::fs::remove_dir_all(&self.folder) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !self.folder.exists() => return Ok(()),
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(REMOVE_WAIT).await;
        }
        Err(format!("{} could not be removed: {last}; remove it yourself", self.folder.display()))
    }
}

async fn finished(mut command: Command, name: &str) -> Result<Said, Stop> {
    let missing = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Stop::Trouble(format!("{name} is not on PATH; the demo needs git and sh")),
        _ => Stop::Trouble(format!("{name} cannot be run: {error}")),
    };
    let output = tokio::time::timeout(COMMAND_MAX, command.output()).await;
    let output =
        output.map_err(|_| Stop::Trouble(format!("{name} took longer than {} seconds", COMMAND_MAX.as_secs())))?.map_err(missing)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { out: text(&output.stdout), err: text(&output.stderr), end: End::of(output.status) })
}

impl End {
    fn of(status: std::process::ExitStatus) -> Self {
        status.signal().map_or(Self::Exit(status.code().unwrap_or_default()), Self::Signal)
    }
}

/// A process of the play that goes on while the demo looks at it. Dropped, it is killed.
pub(super) struct Going {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Going {
    /// What it has printed and nobody has told yet.
    pub(super) fn news(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<End>, Stop> {
        let ended = self.child.try_wait().map_err(|error| Stop::Trouble(format!("the run cannot be watched: {error}")))?;
        Ok(ended.map(End::of))
    }

    /// The rest of what it has printed, once it has ended.
    pub(super) async fn last_news(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Ok(Some(line)) = tokio::time::timeout(REMOVE_WAIT * 10, self.lines.recv()).await {
            rest.push(line);
        }
        rest
    }
}

async fn read(pipe: impl AsyncRead + Unpin, lines: mpsc::Sender<String>) {
    let mut reader = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        if lines.send(line).await.is_err() {
            return;
        }
    }
}
