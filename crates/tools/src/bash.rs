//! `bash`: one shell command below the keeper, with its output in a spool file: run to its end, or left in the background.
//!
//! There is no pipe that a grandchild could hold, no input, no terminal, and nothing stays behind: when the command has
//! ended, what it left in the background is ended too. The folder it ends in is where the next one starts. What runs on
//! after its call (`run_in_background`) is watched in `shells.rs`, and its session waits for it: see `kept.rs`.

mod folder;
mod kept;
pub(crate) mod output;
pub(crate) mod watch;

use std::{path::PathBuf, sync::Arc, time::Duration};

use posse_session::{
    BoxFuture, CommandLine, Ended, Look, Outcome, Progress, Reader, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace,
};
use serde_json::{Value, json};

use self::{
    folder::{Folders, Note, STARTUP},
    kept::Kept,
    output::Output,
    watch::{Bounds, MEMORY_PERCENT_MAX, Over, PROCESSES_MAX, Rest},
};
use crate::{
    arguments::{Arguments, Parameter},
    environment::child_env,
    judged::Judged,
    paths::{Place, real},
    private::Private,
    shell_line::ShellLine,
    shells::{Launch, Shells, no_spool},
    text::{small, spool_file, title},
};

const COMMAND: Parameter = Parameter::new("command", &["cmd", "script"]);
const TIMEOUT: Parameter = Parameter::new("timeout", &["timeoutMs"]);
const WORKDIR: Parameter = Parameter::new("workdir", &["cwd", "workingDirectory", "directory"]);
const DESCRIPTION: Parameter = Parameter::new("description", &[]);
const RUN_IN_BACKGROUND: Parameter = Parameter::new("run_in_background", &["background", "isBackground"]);

const TIME_DEFAULT: Duration = Duration::from_secs(120);
/// A call that needs longer should be split, or run in the background.
const TIME_MAX: Duration = Duration::from_secs(600);
/// In the background there is no bound unless one is wanted; a longer one is none.
const TIME_BACKGROUND_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The kernel's bound for one argument is 128 KiB.
const COMMAND_BYTES_MAX: usize = 120 * 1024;

pub(crate) struct Bash {
    spec: ToolSpec,
    shells: Arc<Shells>,
    judged: Judged,
    folders: Folders,
}

struct Wanted<'a> {
    command: &'a str,
    time: Option<Duration>,
    workdir: Option<Place>,
    background: bool,
    title: String,
}

impl Bash {
    pub(crate) fn new(shells: &Arc<Shells>) -> Self {
        let (servers, time) = if shells.background() {
            ("for servers and watchers use run_in_background, then bash_output and kill_shell", "; in the background none unless given")
        } else {
            ("nothing can be left running", "")
        };
        let mut schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, one or more lines of bash."},
                "timeout": {"type": "integer", "minimum": 1, "description": format!("Milliseconds until the command is ended. Default 120000, at most 600000{time}.")},
                "workdir": {"type": "string", "description": "Run in this folder, for this call only. Default: where the last command ended."},
                "description": {"type": "string", "description": "What the command is for, in 5 to 10 words."}
            },
            "required": ["command"]
        });
        if shells.background() {
            schema["properties"]["run_in_background"] = json!({"type": "boolean", "description": "Answer at once with a shell_id and let the command go on. \
                A notice says when it has ended and how, so there is no need to ask again and again. Write no `&` then. \
                posse waits for it before it exits: end a server that is no longer needed with kill_shell."});
        }
        let description = format!(
            "Run a shell command: builds, tests, git, package managers, scripts. stdout and stderr come back together, long output with its middle left out \
            and the whole in a file. The folder is kept between calls (`cd` works) as long as it is inside the project. There is no input and no terminal, so pass flags like `-y`. \
            Processes left behind with `&` are ended with the command; {servers}. \
            Quote paths with blanks; join dependent commands with `&&`. \
            To read files use read, to find them use glob, to search them use grep, to change them use edit or write."
        );
        let spec = ToolSpec { name: "bash".into(), description, schema };
        Self { spec, shells: Arc::clone(shells), judged: Judged::default(), folders: Folders::default() }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = self.wanted(input, workspace)?;
        let outside = wanted.outside();
        self.judged.note(input, &outside);
        let folder = match &wanted.workdir {
            Some(place) => place.real.clone(),
            None => self.folders.at_look(input, workspace),
        };
        let line = ShellLine::new(wanted.command, &folder, workspace);
        let touches = line.touches().into_iter().chain(outside).collect();
        Ok(Look { touches, repeatable: false, title: wanted.title, reader: Some(Reader(Arc::new(line))), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let run = async {
                let wanted = self.wanted(&call.input, &*context.workspace)?;
                if let Some(folder) = &wanted.workdir {
                    self.judged.check(&call.input, &wanted.outside(), folder)?;
                }
                let outcome = self.run_command(&wanted, call, context).await;
                self.folders.moved(context);
                outcome
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
    let background = arguments.flag(RUN_IN_BACKGROUND)?;
    let given = arguments.maybe_number(TIMEOUT)?.filter(|time| *time != 0).map(Duration::from_millis);
    let time =
        if background { given.filter(|time| *time <= TIME_BACKGROUND_MAX) } else { Some(given.unwrap_or(TIME_DEFAULT).min(TIME_MAX)) };
    let workdir =
        arguments.maybe_text(WORKDIR)?.filter(|path| !path.trim().is_empty()).map(|path| Place::of(workspace, path)).transpose()?;
    let described = arguments.maybe_text(DESCRIPTION)?.filter(|text| !text.trim().is_empty());
    Ok(Wanted { command, time, workdir, background, title: title(described.unwrap_or(command)) })
}

impl Bash {
    fn wanted<'a>(&self, input: &'a Value, workspace: &dyn Workspace) -> Result<Wanted<'a>, String> {
        let wanted = wanted(input, workspace)?;
        if wanted.background && !self.shells.background() {
            return Err(format!(
                "bash: nothing may run in the background here (the user has turned `background` off). Run it without run_in_background, \
                with a timeout of at most {} ms.",
                TIME_MAX.as_millis()
            ));
        }
        Ok(wanted)
    }

    async fn run_command(&self, wanted: &Wanted<'_>, call: &ToolCall, context: &ToolContext) -> Result<Outcome, String> {
        if context.stop.is_stopped() {
            return Ok(Outcome::cancelled("Stopped before it began."));
        }
        self.shells.enter(context).await;
        let mut notes = Vec::new();
        let folder = match &wanted.workdir {
            Some(place) if place.real.is_dir() => place.real.clone(),
            Some(place) => return Err(format!("bash: the folder {} (workdir) does not exist.", place.name)),
            None => self.folders.at_run(&call.input, context, &mut notes),
        };
        if wanted.background {
            self.leave(wanted, folder, notes, call, context).await
        } else {
            self.see_through(wanted, folder, notes, call, context).await
        }
    }

    /// Runs the command to its end.
    async fn see_through(
        &self,
        wanted: &Wanted<'_>,
        cwd: PathBuf,
        mut notes: Vec<String>,
        call: &ToolCall,
        context: &ToolContext,
    ) -> Result<Outcome, String> {
        let spool = real(&context.spool).map_err(no_spool)?;
        let note = Note::new(&spool, &call.id, context).map_err(no_spool)?;
        let mut output = Output::new(spool_file(&spool, &format!("{}.out", call.id)).map_err(no_spool)?, Private::of(&*context.workspace));
        let mut env = child_env();
        env.extend(note.variables());
        let line = CommandLine { argv: shell(wanted.command, STARTUP)?, cwd, env, output: output.path.clone(), call: call.id.clone() };
        let process = context.workspace.spawn(line).await.map_err(|error| format!("bash: {error}"))?;

        let show = |output: &mut Output| {
            if let Some(text) = output.next_piece() {
                context.live.show(Progress::Output { call: call.id.clone(), text });
            }
        };
        let bounds = self.shells.bounds();
        let over = watch::until_over(&*process, wanted.time, bounds, &mut output, context.stop.stopped(), show).await;
        let rest = watch::end(&*process, over).await;
        notes.extend(words_of_rest(rest));
        output.cut_to(bounds.spool_bytes);
        if wanted.workdir.is_none() {
            note.keep(context, &mut notes);
        }
        Ok(outcome(over, wanted, output, &notes, bounds))
    }

    /// Starts the command and answers as soon as its session waits for it.
    async fn leave(
        &self,
        wanted: &Wanted<'_>,
        cwd: PathBuf,
        notes: Vec<String>,
        call: &ToolCall,
        context: &ToolContext,
    ) -> Result<Outcome, String> {
        let launch = Launch { argv: shell(wanted.command, "")?, cwd, title: title(wanted.command), time: wanted.time };
        let shell = self.shells.start(launch, &call.id, context).await?;
        let (id, path) = (shell.id(), shell.path().display().to_string());
        let kept = Kept::new(&shell, wanted.title.clone(), Private::of(&*context.workspace));
        context.delegate.keep(&call.id, format!("{id}: {}", wanted.title), Box::pin(kept.over())).await;
        let mut text = format!(
            "shell_id: {id}\noutput: {path}\n(it runs in the background, and a notice says when it has ended; bash_output reads what is new, or waits for it with block, \
            and kill_shell ends it, which it needs when it would never end by itself)\n"
        );
        notes.iter().for_each(|note| text.push_str(&format!("({note})\n")));
        let metadata = small(json!({"shell_id": id, "outputPath": path}), "");
        Ok(Outcome::Done { output: text.into(), title: wanted.title.clone(), metadata, attachments: Vec::new() })
    }
}

/// What must be said of the processes that a command left.
pub(crate) fn words_of_rest(rest: Rest) -> Vec<String> {
    let mut words = Vec::new();
    if !rest.all_gone {
        words.push("some of its processes could not be ended yet".to_owned());
    }
    if rest.stragglers != 0 {
        words.push(format!(
            "{} processes left in the background were ended; background processes do not outlive their command",
            rest.stragglers
        ));
    }
    words
}

/// How a command came to its end.
pub(crate) fn words_of_end(over: Over, time: Option<Duration>, bounds: Bounds) -> String {
    match over {
        Over::Ended(Ended::Code(code)) => format!("exit code {code}"),
        Over::Ended(Ended::Signal(signal)) => format!("killed by signal {signal}"),
        Over::Ended(Ended::Unknown) => {
            "the process that watches commands died; whether this one did its work is unknown, so look before you repeat it".into()
        }
        Over::TimedOut => format!("timed out after {} ms and was ended with all it had started", time.unwrap_or_default().as_millis()),
        Over::Stopped => "stopped".into(),
        Over::Hogged => format!(
            "it took more than {MEMORY_PERCENT_MAX} % of the machine's memory, or started more than {PROCESSES_MAX} processes, and was ended with all it had started; do less at once"
        ),
        Over::Flooded => format!("it printed more than {} bytes and was ended; redirect its output or print less", bounds.spool_bytes),
    }
}

fn outcome(over: Over, wanted: &Wanted<'_>, output: Output, notes: &[String], bounds: Bounds) -> Outcome {
    let kept = output.finish();
    let mut text = kept.text;
    let mut say = |words: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("({words})\n"));
    };
    notes.iter().cloned().for_each(&mut say);
    let mut words = words_of_end(over, wanted.time, bounds);
    if over == Over::TimedOut {
        words.push_str(&format!(
            "; give a larger timeout (at most {} ms), do less at once, or start it with run_in_background and read it with bash_output",
            TIME_MAX.as_millis()
        ));
    }
    if over != Over::Ended(Ended::Code(0)) {
        say(words);
    }
    match over {
        Over::Ended(Ended::Unknown) => Outcome::Lost { partial: text.into() },
        Over::Ended(ended) => {
            if text.trim().is_empty() {
                text = "(no output)\n".to_owned();
            }
            let mut metadata = json!({"exit": exit_code(ended), "truncated": kept.path.is_some()});
            if let Some(path) = kept.path {
                metadata["outputPath"] = path.display().to_string().into();
            }
            Outcome::Done { output: text.into(), title: wanted.title.clone(), metadata: small(metadata, ""), attachments: Vec::new() }
        }
        Over::Stopped => Outcome::cancelled(text),
        Over::TimedOut | Over::Flooded | Over::Hogged => Outcome::failed(text),
    }
}

/// As a shell would say it.
pub(crate) fn exit_code(ended: Ended) -> i32 {
    match ended {
        Ended::Code(code) => code,
        Ended::Signal(signal) => 128 + signal,
        Ended::Unknown => -1,
    }
}

/// The shell's arguments for a command: bash where there is one, else sh with what bash reads by itself before it.
fn shell(command: &str, startup: &str) -> Result<Vec<String>, String> {
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
    Ok(vec![sh.display().to_string(), "-c".into(), format!("{startup}{command}")])
}
