//! `bash`: one shell command, run to its end below the keeper, with its output in a spool file.
//!
//! There is no pipe that a grandchild could hold, no input, no terminal, and nothing stays behind: when the command has
//! ended, what it left in the background is ended too. The folder it ends in is where the next one starts.

mod output;

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    time::Duration,
};

use posse_session::{
    BoxFuture, CommandLine, Ended, Look, Outcome, Process, Progress, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use self::output::Output;
use crate::{
    arguments::{Arguments, Parameter},
    environment::child_env,
    files::{memory, open_regular, write_whole},
    judged::Judged,
    paths::{Place, real},
    private::Private,
    process_table,
    text::{small, spool_file, title},
};

const COMMAND: Parameter = Parameter::new("command", &["cmd", "script"]);
const TIMEOUT: Parameter = Parameter::new("timeout", &["timeoutMs"]);
const WORKDIR: Parameter = Parameter::new("workdir", &["cwd", "workingDirectory", "directory"]);
const DESCRIPTION: Parameter = Parameter::new("description", &[]);

const TIME_DEFAULT: Duration = Duration::from_secs(120);
/// A call that needs longer should be split, or run in the background when that exists.
const TIME_MAX: Duration = Duration::from_secs(600);
/// The kernel's bound for one argument is 128 KiB.
const COMMAND_BYTES_MAX: usize = 120 * 1024;
/// What a spool file may hold; a command that prints more is ended.
const SPOOL_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// How often a running command's output is looked at; much more often while it floods.
const TICK: Duration = Duration::from_millis(100);
const TICK_FLOOD: Duration = Duration::from_millis(10);
/// So much in one tick is a flood.
const FLOOD_BYTES: u64 = 16 * 1024 * 1024;
/// How often it is looked at how much a command and all it started take.
const WEIGH: Duration = Duration::from_millis(500);
/// A build of a large project starts hundreds of processes; thousands are a runaway.
const PROCESSES_MAX: usize = 4_000;
/// So much of the machine's memory, in percent, may one command take; the rest is for whoever must end it.
const MEMORY_PERCENT_MAX: u64 = 75;
/// From TERM to KILL. A stopped call must be over within three seconds, all told.
const GRACE_TIMEOUT: Duration = Duration::from_secs(3);
const GRACE_STOP: Duration = Duration::from_secs(1);
/// For what was left in the background: it was not promised anything.
const GRACE_LEFT: Duration = Duration::from_millis(500);
/// After KILL a process can only be held by the kernel; then the call ends without it.
const KILL_WAIT: Duration = Duration::from_millis(800);
/// The kernel's bound for a path, with room.
const FOLDER_BYTES_MAX: u64 = 8 * 1024;

/// Where the shell's folder is in a session's memory.
const MEMORY_KEY: &str = "shell_folder";

/// Read by bash before the command, which stays exactly as the model wrote it: line numbers in errors are right, and
/// the folder it ends in is noted whatever way it ends. A trap of the command's own wins; then the folder just stays.
const STARTUP: &str = r#"__posse_folder=$POSSE_FOLDER
unset POSSE_FOLDER BASH_ENV
trap '{ set +x; } 2>/dev/null; command pwd -P >|"$__posse_folder" 2>/dev/null || :' EXIT
"#;

pub(crate) struct Bash {
    spec: ToolSpec,
    spool_bytes_max: u64,
    memory_bytes_max: u64,
    judged: Judged,
}

struct Wanted<'a> {
    command: &'a str,
    time: Duration,
    workdir: Option<Place>,
    title: String,
}

impl Bash {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "bash".into(),
            description: "Run a shell command: builds, tests, git, package managers, scripts. stdout and stderr come back together, long output with its middle left out \
                and the whole in a file. The folder is kept between calls (`cd` works) as long as it is inside the project. There is no input and no terminal, so pass flags like `-y`. \
                Processes left in the background are ended with the command. Quote paths with blanks; join dependent commands with `&&`. \
                To read files use read, to find them use glob, to search them use grep, to change them use edit or write."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command, one or more lines of bash."},
                    "timeout": {"type": "integer", "minimum": 1, "description": "Milliseconds until the command is ended. Default 120000, at most 600000."},
                    "workdir": {"type": "string", "description": "Run in this folder, for this call only. Default: where the last command ended."},
                    "description": {"type": "string", "description": "What the command is for, in 5 to 10 words."}
                },
                "required": ["command"]
            }),
        };
        let memory_bytes_max = process_table::memory_of_the_machine().map_or(u64::MAX, |bytes| bytes / 100 * MEMORY_PERCENT_MAX);
        Self { spec, spool_bytes_max: SPOOL_BYTES_MAX, memory_bytes_max, judged: Judged::default() }
    }

    pub(crate) fn with_spool_max(bytes: u64) -> Self {
        Self { spool_bytes_max: bytes, ..Self::new() }
    }

    pub(crate) fn with_memory_max(bytes: u64) -> Self {
        Self { memory_bytes_max: bytes, ..Self::new() }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = wanted(input, workspace)?;
        let outside = wanted.outside();
        self.judged.note(input, &outside);
        let touches = std::iter::once(Touch::new("bash", wanted.command)).chain(outside).collect();
        Ok(Look { touches, repeatable: false, title: wanted.title })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let run = async {
                let wanted = wanted(&call.input, &*context.workspace)?;
                if let Some(folder) = &wanted.workdir {
                    self.judged.check(&call.input, &wanted.outside(), folder)?;
                }
                self.run_command(&wanted, call, context).await
            };
            run.await.unwrap_or_else(Outcome::failed)
        })
    }
}

impl Wanted<'_> {
    fn outside(&self) -> Vec<Touch> {
        self.workdir.as_ref().and_then(Place::write_outside).into_iter().collect()
    }
}

fn wanted<'a>(input: &'a Value, workspace: &dyn Workspace) -> Result<Wanted<'a>, String> {
    let arguments = Arguments::new("bash", input)?;
    let command = arguments.filled_text(COMMAND)?;
    if COMMAND_BYTES_MAX < command.len() {
        return Err(format!(
            "bash: the command has {} bytes, at most {COMMAND_BYTES_MAX} can be run. Write it to a file with write and run that.",
            command.len()
        ));
    }
    let time = arguments.maybe_number(TIMEOUT)?.filter(|time| *time != 0).map_or(TIME_DEFAULT, Duration::from_millis).min(TIME_MAX);
    let workdir =
        arguments.maybe_text(WORKDIR)?.filter(|path| !path.trim().is_empty()).map(|path| Place::of(workspace, path)).transpose()?;
    let described = arguments.maybe_text(DESCRIPTION)?.filter(|text| !text.trim().is_empty());
    Ok(Wanted { command, time, workdir, title: title(described.unwrap_or(command)) })
}

/// Why the command is no longer waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Ended(Ended),
    TimedOut,
    Stopped,
    Flooded,
    /// It and all it started took too much memory, or were too many.
    Hogged,
}

impl Bash {
    async fn run_command(&self, wanted: &Wanted<'_>, call: &ToolCall, context: &ToolContext) -> Result<Outcome, String> {
        if context.stop.is_stopped() {
            return Ok(Outcome::cancelled("Stopped before it began."));
        }
        let mut notes = Vec::new();
        let folder = match &wanted.workdir {
            Some(place) if place.real.is_dir() => place.real.clone(),
            Some(place) => return Err(format!("bash: the folder {} (workdir) does not exist.", place.name)),
            None => shell_folder(context, &mut notes),
        };
        let private = Private::of(&*context.workspace);
        let no_spool = |error: std::io::Error| format!("bash: no spool folder: {error}");
        let spool = real(&context.spool).map_err(no_spool)?;
        let in_spool = |suffix: &str| spool_file(&spool, &format!("{}.{suffix}", call.id)).map_err(no_spool);
        let (output_file, folder_note) = (in_spool("out")?, in_spool("folder")?);
        let (argv, mut env) = (shell(wanted.command)?, child_env());
        // An environment is text; from a spool whose name is not, `cd` is simply not kept.
        if let (Some(startup), Some(note)) = (startup_file(&spool, &private)?.to_str(), folder_note.to_str()) {
            env.push(("BASH_ENV".into(), startup.into()));
            env.push(("POSSE_FOLDER".into(), note.into()));
        }
        let mut output = Output::new(output_file, Private::of(&*context.workspace));
        let line = CommandLine { argv, cwd: folder, env, output: output.path.clone(), call: call.id.clone() };
        let process = context.workspace.spawn(line).await.map_err(|error| format!("bash: {error}"))?;

        let over = self.watch(&*process, wanted.time, &mut output, call, context).await;
        let grace = match over {
            Over::Ended(_) => GRACE_LEFT,
            Over::Stopped => GRACE_STOP,
            Over::TimedOut => GRACE_TIMEOUT,
            Over::Flooded | Over::Hogged => Duration::ZERO,
        };
        if timeout(grace + KILL_WAIT, process.end(grace)).await.is_err() {
            notes.push("some of its processes could not be ended yet".to_owned());
        }
        if process.stragglers() != 0 {
            notes.push(format!(
                "{} processes left in the background were ended; background processes do not outlive their command",
                process.stragglers()
            ));
        }
        output.cut_to(self.spool_bytes_max);
        if wanted.workdir.is_none() {
            keep_folder(&folder_note, context, &private, &mut notes);
        }
        // Never there when the shell was replaced by `exec`.
        let _ = fs::remove_file(&folder_note);
        Ok(outcome(over, wanted, output, &notes, self.spool_bytes_max))
    }

    async fn watch(&self, process: &dyn Process, time: Duration, output: &mut Output, call: &ToolCall, context: &ToolContext) -> Over {
        let deadline = Instant::now() + time;
        let mut ended = process.wait();
        let mut stopped = context.stop.stopped();
        let (mut tick, mut bytes) = (Instant::now() + TICK, 0);
        let mut weigh = Instant::now() + WEIGH;
        loop {
            tokio::select! {
                biased;
                ended = &mut ended => return Over::Ended(ended),
                () = &mut stopped => return Over::Stopped,
                () = sleep_until(deadline) => return Over::TimedOut,
                () = sleep_until(tick) => {}
            }
            let now = output.bytes();
            if self.spool_bytes_max < now {
                return Over::Flooded;
            }
            if weigh <= Instant::now() {
                if self.is_too_heavy(process.pid()).await {
                    return Over::Hogged;
                }
                weigh = Instant::now() + WEIGH;
            }
            if let Some(text) = output.next_piece() {
                context.live.show(Progress::Output { call: call.id.clone(), text });
            }
            tick = Instant::now() + if FLOOD_BYTES < now - now.min(bytes) { TICK_FLOOD } else { TICK };
            bytes = now;
        }
    }
}

impl Bash {
    async fn is_too_heavy(&self, pid: u32) -> bool {
        let pid = i32::try_from(pid).unwrap_or(i32::MAX);
        let (processes, bytes) = tokio::task::spawn_blocking(move || process_table::weight(pid)).await.unwrap_or_default();
        PROCESSES_MAX < processes || self.memory_bytes_max < bytes
    }
}

fn outcome(over: Over, wanted: &Wanted<'_>, output: Output, notes: &[String], spool_bytes_max: u64) -> Outcome {
    let kept = output.finish();
    let mut text = kept.text;
    let mut say = |words: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("({words})\n"));
    };
    notes.iter().cloned().for_each(&mut say);
    match over {
        Over::Ended(Ended::Code(0)) => {}
        Over::Ended(Ended::Code(code)) => say(format!("exit code {code}")),
        Over::Ended(Ended::Signal(signal)) => say(format!("killed by signal {signal}")),
        Over::Ended(Ended::Unknown) => {
            say("the process that watches commands died; whether this one did its work is unknown, so look before you repeat it".into())
        }
        Over::TimedOut => say(format!(
            "timed out after {} ms and was ended with all it had started; give a larger timeout (at most {} ms) or do less at once",
            wanted.time.as_millis(),
            TIME_MAX.as_millis()
        )),
        Over::Stopped => say("stopped".into()),
        Over::Hogged => say(format!(
            "it took more than {MEMORY_PERCENT_MAX} % of the machine's memory, or started more than {PROCESSES_MAX} processes, and was ended with all it had started; do less at once"
        )),
        Over::Flooded => say(format!("it printed more than {spool_bytes_max} bytes and was ended; redirect its output or print less")),
    }
    match over {
        Over::Ended(Ended::Unknown) => Outcome::Lost { partial: text.into() },
        Over::Ended(ended) => {
            if text.trim().is_empty() {
                text = "(no output)\n".to_owned();
            }
            let exit = match ended {
                Ended::Code(code) => code,
                Ended::Signal(signal) => 128 + signal,
                Ended::Unknown => -1,
            };
            let mut metadata = json!({"exit": exit, "truncated": kept.path.is_some()});
            if let Some(path) = kept.path {
                metadata["outputPath"] = path.display().to_string().into();
            }
            Outcome::Done { output: text.into(), title: wanted.title.clone(), metadata: small(metadata, ""), attachments: Vec::new() }
        }
        Over::Stopped => Outcome::cancelled(text),
        Over::TimedOut | Over::Flooded | Over::Hogged => Outcome::failed(text),
    }
}

/// Where the last command ended, or the workspace's own folder if that is gone.
fn shell_folder(context: &ToolContext, notes: &mut Vec<String>) -> PathBuf {
    let start = context.workspace.cwd().to_owned();
    let kept = memory(context).get(MEMORY_KEY).cloned().and_then(|bytes| serde_json::from_value::<Vec<u8>>(bytes).ok());
    let Some(kept) = kept.map(|bytes| PathBuf::from(OsString::from_vec(bytes))) else { return start };
    if kept.is_dir() && real(&kept).is_ok_and(|kept| kept.starts_with(context.workspace.root())) {
        return kept;
    }
    notes.push(format!("the folder {} is gone; this ran in {}", kept.display(), start.display()));
    start
}

/// The next command starts where this one ended, if that is inside the root.
fn keep_folder(note: &Path, context: &ToolContext, private: &Private, notes: &mut Vec<String>) {
    let mut bytes = Vec::new();
    let read = open_regular(note, private).and_then(|(file, _)| file.take(FOLDER_BYTES_MAX).read_to_end(&mut bytes));
    if !matches!(read, Ok(1..)) {
        return;
    }
    let folder = PathBuf::from(OsString::from_vec(bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec()));
    let root = context.workspace.root();
    let kept = match real(&folder) {
        Ok(folder) if folder.starts_with(root) => folder,
        _ => {
            notes.push(format!("{} is outside the project; the next command starts in {}", folder.display(), root.display()));
            root.to_owned()
        }
    };
    // As bytes: the name of a folder need not be text.
    memory(context).insert(MEMORY_KEY.into(), json!(kept.as_os_str().as_bytes()));
}

/// The shell's arguments for a command: bash where there is one, else sh with the same trap before the command.
fn shell(command: &str) -> Result<Vec<String>, String> {
    let find = |name: &str| {
        let fixed = ["/bin", "/usr/bin", "/usr/local/bin"].into_iter().map(PathBuf::from);
        let searched: Vec<PathBuf> =
            std::env::var_os("PATH").iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute()).collect();
        fixed.chain(searched).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    if let Some(bash) = find("bash") {
        return Ok(vec![bash.display().to_string(), "-c".into(), command.into()]);
    }
    let sh = find("sh").ok_or("bash: neither bash nor sh is installed")?;
    Ok(vec![sh.display().to_string(), "-c".into(), format!("{STARTUP}{command}")])
}

/// Written once per spool folder.
fn startup_file(spool: &Path, private: &Private) -> Result<PathBuf, String> {
    let words = |error: std::io::Error| format!("bash: the spool folder cannot be written: {error}");
    let path = spool_file(spool, "startup.sh").map_err(words)?;
    let mut present = Vec::new();
    let read = open_regular(&path, private).and_then(|(file, _)| file.take(STARTUP.len() as u64 + 1).read_to_end(&mut present));
    if read.is_err() || present != STARTUP.as_bytes() {
        write_whole(&path, STARTUP.as_bytes(), private).map_err(words)?;
    }
    Ok(path)
}
