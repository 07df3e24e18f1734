//! Git as a program: one command, run so that nothing of the surroundings and nothing of a worktree decides what happens.
//!
//! No hooks, no prompts, no pager, no signing, no monitors, no `GIT_*` from outside; every command has a deadline. Knows
//! nothing of tasks. Who holds a lock hands it to a command that changes refs or folders, so that it is held as long as
//! that command lives, also when posse is killed.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::locks::Lock;

/// A checkout of a very large repository on a slow disk takes minutes; more is a command that hangs.
const DEADLINE: Duration = Duration::from_secs(600);
/// Lists of paths of the largest repositories are some dozens of megabytes.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What git says when it fails is a few lines; the last ones name the reason.
const COMPLAINT_BYTES_MAX: usize = 64 * 1024;
const COMPLAINT_LINES_MAX: usize = 6;
/// A page or two at a time.
const READ_BYTES: usize = 8 * 1024;
/// `merge-tree --write-tree --merge-base` came with this one.
const VERSION_MIN: (u32, u32) = (2, 40);

/// What every command is told before its own arguments.
const SETTINGS: &[&str] = &[
    // No file can lie below it, so there are no hooks.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "core.safecrlf=false",
    "advice.addEmbeddedRepo=false",
    "submodule.recurse=false",
    "core.pager=cat",
    "core.editor=true",
];

/// Where a command runs, and on what.
#[derive(Clone)]
pub(super) struct Git<'a> {
    folder: PathBuf,
    repository: Option<(PathBuf, Option<PathBuf>)>,
    index: Option<PathBuf>,
    lock: Option<&'a Lock>,
    settings: Vec<String>,
    identity: Option<(&'static str, &'static str)>,
}

/// What a command said and how it ended.
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) output: Vec<u8>,
    /// More was said than was asked for.
    pub(super) cut: bool,
    complaint: Vec<u8>,
    command: String,
}

impl Said {
    pub(super) fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let said = lines[lines.len().saturating_sub(COMPLAINT_LINES_MAX)..].join("\n");
        if said.is_empty() {
            format!("`git {}` failed with status {} and said nothing", self.command, self.code)
        } else {
            format!("`git {}` failed: {said}", self.command)
        }
    }

    /// The output of a command that must succeed.
    pub(super) fn success(self) -> Result<Vec<u8>, String> {
        match self.code {
            0 if self.cut => Err(format!("`git {}` says more than {OUTPUT_BYTES_MAX} bytes", self.command)),
            0 => Ok(self.output),
            _ => Err(self.words()),
        }
    }

    pub(super) fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.complaint).into_owned()
    }
}

impl<'a> Git<'a> {
    /// Git finds the repository by itself, from `folder`: only where a person's own folder is meant.
    pub(super) fn finding(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), repository: None, index: None, lock: None, settings: Vec::new(), identity: None }
    }

    /// A working tree with its own git folder; no `.git` in it is asked.
    pub(super) fn in_tree(git_dir: &Path, top: &Path) -> Self {
        Self { repository: Some((git_dir.to_owned(), Some(top.to_owned()))), ..Self::finding(top) }
    }

    /// A repository without a working tree: refs and objects.
    pub(super) fn in_repository(common: &Path) -> Self {
        Self { repository: Some((common.to_owned(), None)), ..Self::finding(common) }
    }

    pub(super) fn holding<'b>(&self, lock: &'b Lock) -> Git<'b> {
        Git { lock: Some(lock), ..self.unlocked() }
    }

    fn unlocked<'b>(&self) -> Git<'b> {
        Git {
            folder: self.folder.clone(),
            repository: self.repository.clone(),
            index: self.index.clone(),
            lock: None,
            settings: self.settings.clone(),
            identity: self.identity,
        }
    }

    pub(super) fn with_index(&self, index: &Path) -> Self {
        // Else git would leave a part of it in its own folder.
        Self { index: Some(index.to_owned()), ..self.with_setting("core.splitIndex=false".to_owned()) }
    }

    pub(super) fn with_setting(&self, setting: String) -> Self {
        let mut git = self.clone();
        git.settings.push(setting);
        git
    }

    /// Commits are made in this name and not in the user's.
    pub(super) fn as_posse(&self) -> Self {
        Self { identity: Some(("posse", "posse@localhost")), ..self.clone() }
    }

    pub(super) fn run<I, S>(&self, arguments: I) -> Result<Said, String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.start(arguments, None, OUTPUT_BYTES_MAX)
    }

    /// The same, and its output is cut at `most` bytes.
    pub(super) fn run_for<I, S>(&self, arguments: I, most: usize) -> Result<Said, String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.start(arguments, None, most)
    }

    pub(super) fn tell<I, S>(&self, arguments: I, input: &[u8]) -> Result<Said, String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.start(arguments, Some(input), OUTPUT_BYTES_MAX)
    }

    /// The output of a command that must succeed.
    pub(super) fn ask<I, S>(&self, arguments: I) -> Result<Vec<u8>, String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.run(arguments)?.success()
    }

    /// One line of it.
    pub(super) fn ask_line<I, S>(&self, arguments: I) -> Result<String, String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let output = self.ask(arguments)?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    fn start<I, S>(&self, arguments: I, input: Option<&[u8]>, most: usize) -> Result<Said, String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let arguments: Vec<OsString> = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut command = self.command(&arguments);
        self.connect(&mut command, input.is_some()).map_err(|error| format!("git cannot be started: {error}"))?;
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if self.folder.is_dir() => {
                "git is not installed, or not on the PATH: worktrees need git 2.40 or newer".to_owned()
            }
            _ => format!("git cannot be started in {}: {error}", self.folder.display()),
        })?;
        gather(&mut child, input, most, name)
    }

    fn command(&self, arguments: &[OsString]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(crate::environment::child_env());
        // Their words are read by us, and what only looks must not lock the user's index.
        command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        if let Some((name, mail)) = self.identity {
            command.env("GIT_AUTHOR_NAME", name).env("GIT_AUTHOR_EMAIL", mail);
            command.env("GIT_COMMITTER_NAME", name).env("GIT_COMMITTER_EMAIL", mail);
        }
        command.arg("--no-pager");
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        if let Some((git_dir, top)) = &self.repository {
            command.arg("--git-dir").arg(git_dir);
            if let Some(top) = top {
                command.arg("--work-tree").arg(top);
            }
        }
        command.args(arguments).current_dir(&self.folder).stderr(Stdio::piped());
        // Ctrl-C is for posse, which ends what it has begun.
        command.process_group(0);
        command
    }

    /// As long as a command has a lock's file, the lock is held. The file is an empty input; a command that is told
    /// something while a lock is held says nothing, so there it is the output.
    fn connect(&self, command: &mut Command, is_told: bool) -> io::Result<()> {
        let handle = || self.lock.map(|lock| lock.another_handle().map(Stdio::from)).transpose();
        if is_told {
            command.stdin(Stdio::piped()).stdout(handle()?.unwrap_or_else(Stdio::piped));
        } else {
            command.stdin(handle()?.unwrap_or_else(Stdio::null)).stdout(Stdio::piped());
        }
        Ok(())
    }
}

/// Reads both outputs to their ends, or ends the command at its deadline.
fn gather(child: &mut Child, input: Option<&[u8]>, most: usize, command: String) -> Result<Said, String> {
    let (report, reports) = mpsc::channel();
    let pipes: [Option<Box<dyn Read + Send>>; 2] =
        [child.stdout.take().map(|pipe| Box::new(pipe) as _), child.stderr.take().map(|pipe| Box::new(pipe) as _)];
    for (which, pipe) in pipes.into_iter().enumerate() {
        let report = report.clone();
        let read = move |pipe| if which == 0 { read_up_to(pipe, most) } else { (read_last(pipe, COMPLAINT_BYTES_MAX), false) };
        std::thread::spawn(move || report.send((which, pipe.map(read).unwrap_or_default())));
    }
    let writing = child.stdin.take().zip(input).map(|(mut pipe, input)| {
        let input = input.to_owned();
        // A command that ends early does not read on; why it ended is the news.
        std::thread::spawn(move || drop(pipe.write_all(&input)))
    });
    let until = Instant::now() + DEADLINE;
    let mut said = [(Vec::new(), false), (Vec::new(), false)];
    for _ in 0..said.len() {
        match reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((which, text)) => said[which] = text,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                end(child);
                return Err(format!("`git {command}` was stopped: it took longer than {} minutes", DEADLINE.as_secs() / 60));
            }
        }
        // Nobody reads on, so it would wait for ever.
        if said[0].1 {
            end(child);
        }
    }
    let status = child.wait().map_err(|error| format!("`git {command}`: {error}"))?;
    if let Some(writing) = writing {
        let _ = writing.join();
    }
    let [(output, cut), (complaint, _)] = said;
    // One that was ended because it said too much has said what was wanted.
    let code = if cut { 0 } else { status.code().unwrap_or(-1) };
    Ok(Said { code, output, cut, complaint, command })
}

fn end(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

fn read_up_to(pipe: Box<dyn Read + Send>, limit: usize) -> (Vec<u8>, bool) {
    let mut text = Vec::new();
    let _ = pipe.take(limit as u64 + 1).read_to_end(&mut text);
    let cut = limit < text.len();
    text.truncate(limit);
    (text, cut)
}

/// Everything is read, because a command that nobody listens to is killed by its next word; the end is kept.
fn read_last(mut pipe: Box<dyn Read + Send>, most: usize) -> Vec<u8> {
    let (mut text, mut buffer) = (Vec::new(), [0; READ_BYTES]);
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        if 2 * most < text.len() {
            text.drain(..text.len() - most);
        }
    }
    text.split_off(text.len().saturating_sub(most))
}

/// An error in words when git is missing or too old. Asked once per process.
pub(super) fn check_version() -> Result<(), String> {
    static CHECKED: OnceLock<()> = OnceLock::new();
    if CHECKED.get().is_some() {
        return Ok(());
    }
    let said = Git::finding(Path::new("/")).ask_line(["version"])?;
    check(&said)?;
    let _ = CHECKED.set(());
    Ok(())
}

fn check(said: &str) -> Result<(), String> {
    let version = said.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit())).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < VERSION_MIN {
        return Err(format!("worktrees need git {}.{} or newer, and this is {said:?}: install a newer git", VERSION_MIN.0, VERSION_MIN.1));
    }
    Ok(())
}

/// The parts of an output in which every part ends with a zero byte.
pub(super) fn parts(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.strip_suffix(b"\0").unwrap_or(output).split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_git_is_named() {
        for (said, fits) in [
            ("git version 2.47.3", true),
            ("git version 2.40.0.windows.1", true),
            ("git version 3.0.rc1", true),
            ("git version 2.39.5 (Apple Git-154)", false),
            ("git version 1.8", false),
            ("no git", false),
        ] {
            assert_eq!(check(said).is_ok(), fits, "{said}");
        }
        assert!(check("git version 2.39.5").unwrap_err().contains("need git 2.40 or newer"));
    }

    #[test]
    fn nothing_of_the_surroundings_reaches_git() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::in_repository(folder.path());
        let command = git.command(&["status".into()]);
        let names: Vec<String> = command.get_envs().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        let of_git: Vec<&String> = names.iter().filter(|name| name.starts_with("GIT_")).collect();
        assert_eq!(of_git, ["GIT_EDITOR", "GIT_OPTIONAL_LOCKS", "GIT_PAGER", "GIT_TERMINAL_PROMPT"]);
    }

    #[test]
    fn what_git_says_is_bounded_and_its_last_lines_are_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::finding(folder.path());
        let said = git.run_for(["help", "-a"], 10).unwrap();
        assert_eq!((said.output.len(), said.cut, said.code), (10, true, 0));
        let words = git.ask(["no-such-command"]).unwrap_err();
        assert!(words.starts_with("`git no-such-command` failed: ") && words.contains("not a git command"), "{words}");
    }

    /// Hundreds of warnings before the reason: it is not killed by them, and the reason is what is passed on.
    #[test]
    fn a_git_that_complains_at_length_is_heard_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let noise = "alias.noisy=!yes warning | head -c 1000000 >&2; echo the reason >&2; exit 3";
        let said = Git::finding(folder.path()).with_setting(noise.to_owned()).run(["noisy"]).unwrap();
        assert_eq!((said.code, said.complaint.len()), (3, COMPLAINT_BYTES_MAX));
        assert!(said.words().ends_with("warning\nthe reason"), "{}", said.words());
    }

    #[test]
    fn a_command_that_is_told_something_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        let git = Git::finding(folder.path());
        git.ask(["init", "-q"]).unwrap();
        // It reads what it is told to the end, and says which files it has.
        let look = "alias.look=!cat >&2; ls -l /proc/$$/fd >&2; exit 1";
        let said = git.with_setting(look.to_owned()).holding(&lock).tell(["look"], b"told\n").unwrap();
        let shown = path.canonicalize().unwrap();
        assert!(said.complaint().starts_with("told\n") && said.complaint().contains(shown.to_str().unwrap()), "{}", said.complaint());
    }
}
