//! One throw-away user: a home, a configuration, a git project, a scripted model, and the real binary.
//!
//! Everything is in one temporary folder that no other test shares, so its name also finds the user's processes.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    answer::Answer,
    model::ModelServer,
    procs,
    running::{Done, Running},
    seen::{Api, Seen},
    terminal::AtTerminal,
};

pub struct World {
    pub model: ModelServer,
    pub home: PathBuf,
    /// `POSSE_HOME`: the user's own configuration, and posse's data.
    pub posse_home: PathBuf,
    pub project: PathBuf,
    env: Vec<(String, String)>,
    folder: TempDir,
}

/// What a world is made from; see [`World::with`].
#[derive(Default)]
pub struct Plan {
    api: Option<Api>,
    config: Vec<(String, Value)>,
    files: Vec<(String, String)>,
    env: Vec<(String, String)>,
    bare: bool,
}

impl World {
    /// A user whose model answers by this script, over the Anthropic protocol.
    pub fn new<A: Into<Answer>>(script: impl Fn(&Seen) -> A + Send + Sync + 'static) -> World {
        World::with().script(script)
    }

    /// `World::with().api(..).config(..).file(..).script(..)`.
    pub fn with() -> Plan {
        Plan::default()
    }

    /// `posse run ARGS`, to its end.
    pub fn run(&self, args: &[&str]) -> Done {
        self.posse(&[&["run"], args].concat())
    }

    /// `posse ARGS`, to its end.
    pub fn posse(&self, args: &[&str]) -> Done {
        self.command(args).run()
    }

    /// `posse ARGS`, going.
    pub fn start(&self, args: &[&str]) -> Running {
        self.command(args).start()
    }

    /// `posse ARGS`, with more to say about how: `.stdin(..)`, `.env(..)`, `.cwd(..)`, `.within(..)`.
    pub fn command(&self, args: &[&str]) -> Invocation<'_> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Invocation {
            world: self,
            args,
            stdin: Stdin::Empty,
            env: Vec::new(),
            unset: Vec::new(),
            cwd: self.project.clone(),
            user: None,
            within: Duration::from_secs(60),
        }
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.project.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.project.join(name)).unwrap()
    }

    /// Writes the user's configuration anew.
    pub fn configure(&self, config: &Value) {
        std::fs::write(self.posse_home.join("posse.json"), serde_json::to_string_pretty(config).unwrap()).unwrap();
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Processes of this user that are still there after this long.
    pub fn processes_left_after(&self, within: Duration) -> Vec<procs::Process> {
        procs::left_after(self.folder.path(), within)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let errors = self.model.take_errors();
        if !std::thread::panicking() {
            assert!(errors.is_empty(), "the model refused what it was sent: {errors:#?}");
        }
    }
}

impl Plan {
    pub fn api(mut self, api: Api) -> Plan {
        self.api = Some(api);
        self
    }

    /// One more key of the user's `posse.json`, or another value for it.
    pub fn config(mut self, key: &str, value: Value) -> Plan {
        self.config.push((key.into(), value));
        self
    }

    pub fn file(mut self, name: &str, text: &str) -> Plan {
        self.files.push((name.into(), text.into()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Plan {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The project is a plain folder.
    pub fn without_git(mut self) -> Plan {
        self.bare = true;
        self
    }

    pub fn script<A: Into<Answer>>(self, script: impl Fn(&Seen) -> A + Send + Sync + 'static) -> World {
        let model = ModelServer::start(script);
        let folder = tempfile::Builder::new().prefix("posse-test-").tempdir().unwrap();
        // The real path: that is how processes and messages will name it.
        let root = folder.path().canonicalize().unwrap();
        let (home, project) = (root.join("home"), root.join("project"));
        let posse_home = home.join("posse");
        std::fs::create_dir_all(&posse_home).unwrap();
        std::fs::create_dir_all(&project).unwrap();
        let mut config = mock_config(self.api.unwrap_or(Api::Anthropic), &model.url);
        for (key, value) in self.config {
            config[key] = value;
        }
        let world = World { env: environment(&home, &posse_home, self.env), model, home, posse_home, project, folder };
        world.configure(&config);
        for (name, text) in &self.files {
            world.write(name, text);
        }
        if !self.bare {
            commit_all(&world.project);
        }
        world
    }
}

/// A user's file that knows two models of the scripted server.
pub fn mock_config(api: Api, url: &str) -> Value {
    let (api, base_url) = match api {
        Api::Anthropic => ("anthropic", url.to_owned()),
        Api::OpenAi => ("openai", format!("{url}/v1")),
        Api::Responses => ("openai-responses", format!("{url}/v1")),
        Api::Gemini => ("gemini", url.to_owned()),
    };
    let cost = json!({"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75});
    let models = json!({"m1": {"context": 200_000, "output": 8192, "cost": cost}, "m2": {"context": 200_000, "output": 8192}});
    json!({"model": "mock/m1", "provider": {"mock": {"api": api, "base_url": base_url, "api_key": "key-123", "models": models}}})
}

/// All that `posse` gets to know of this machine.
fn environment(home: &Path, posse_home: &Path, more: Vec<(String, String)>) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut env: Vec<(String, String)> = [
        ("PATH", path),
        ("HOME", text(home)),
        ("POSSE_HOME", text(posse_home)),
        ("LANG", "C.UTF-8".into()),
        ("TERM", "dumb".into()),
        ("NO_COLOR", "1".into()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    env.extend(more);
    env
}

fn commit_all(project: &Path) {
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "--allow-empty", "-qm", "init"]] {
        git(project, args);
    }
}

/// Git as a test's own user runs it, whatever the settings of whoever runs the tests; what it prints.
pub fn git(folder: &Path, args: &[&str]) -> String {
    let plain = ["user.name=test", "user.email=test@localhost", "commit.gpgsign=false", "core.autocrlf=false"];
    let done = Command::new("git").args(plain.iter().flat_map(|set| ["-c", set])).args(args).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

enum Stdin {
    Empty,
    Text(Vec<u8>),
    /// A pipe that stays open and brings nothing.
    Silent,
}

pub struct Invocation<'a> {
    world: &'a World,
    args: Vec<String>,
    stdin: Stdin,
    env: Vec<(String, String)>,
    unset: Vec<String>,
    cwd: PathBuf,
    user: Option<u32>,
    within: Duration,
}

impl Invocation<'_> {
    /// Piped in, then closed. Without it stdin is empty.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Text(text.into());
        self
    }

    /// A pipe that nobody writes to and nobody closes.
    pub fn silent_pipe(mut self) -> Self {
        self.stdin = Stdin::Silent;
        self
    }

    /// As this user of the machine, who may do less than root.
    pub fn by_user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.unset.push(name.into());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = folder.into();
        self
    }

    /// How long it may take before it is killed; a minute unless told.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = time;
        self
    }

    pub fn start(self) -> Running {
        Running::new(self.unread())
    }

    /// Started by a person: stdin and stderr are a terminal of its own.
    pub fn at_terminal(self) -> AtTerminal {
        // Without a process group: it leads a session, because a terminal belongs to one.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_posse"));
        self.prepare(&mut command);
        AtTerminal::start(command)
    }

    fn prepare(&self, command: &mut Command) {
        command
            .args(&self.args)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(self.world.env.iter().chain(&self.env).map(|(name, value)| (name, value)));
    }

    /// Started, with pipes that nobody reads.
    pub fn unread(self) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(env!("CARGO_BIN_EXE_posse"));
        self.prepare(&mut command);
        command
            .stdin(if matches!(self.stdin, Stdin::Empty) { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for name in &self.unset {
            command.env_remove(name);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        // A silent pipe stays with the child's handle, which `Running` keeps.
        if let Stdin::Text(text) = self.stdin
            && let Some(mut pipe) = child.stdin.take()
        {
            // A thread, because a long text does not fit into a pipe that is not read yet.
            std::thread::spawn(move || pipe.write_all(&text));
        }
        child
    }

    pub fn run(self) -> Done {
        let within = self.within;
        self.start().wait(within)
    }
}
