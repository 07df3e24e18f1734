//! The keyring of the system, through the small program that each system has for it.
//!
//! `secret-tool` where there is libsecret, `security` on macOS; a key goes to them on stdin and comes back on stdout, never
//! as an argument, because arguments are everybody's to read. A keyring that does not answer soon is one that waits for
//! somebody to unlock it, and counts as absent.

use std::{
    io::{Read, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// A keyring that is open answers in milliseconds; one that is locked may wait for ever.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How often the end of the program is looked for once its output has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What is read of an answer: a key, or a sentence.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// libsecret's.
    SecretTool,
    /// macOS's.
    Security,
}

#[derive(Debug, Clone)]
pub(crate) struct Keyring {
    tool: Tool,
    program: PathBuf,
    /// Whose keys: another data folder has other keys.
    data_dir: String,
}

/// What the program answered.
struct Answer {
    good: bool,
    out: String,
    err: String,
}

impl Keyring {
    /// The keyring of this machine, if it has one that we can talk to.
    pub(crate) fn find(path: &str, data_dir: &Path) -> Option<Self> {
        let (tool, name) = if cfg!(target_os = "macos") { (Tool::Security, "security") } else { (Tool::SecretTool, "secret-tool") };
        // A relative folder would be one of the project's.
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let program = folders.map(|folder| folder.join(name)).find(|program| program.is_file())?;
        Some(Self { tool, program, data_dir: data_dir.to_string_lossy().into_owned() })
    }

    pub(crate) fn store(&self, provider: &str, key: &str) -> Result<(), String> {
        let (arguments, input) = self.storing(provider, key)?;
        let answer = self.run(&arguments, &input).map_err(|words| words.replace(key, "[key]"))?;
        if !answer.good {
            return Err(self.refusal(&answer).replace(key, "[key]"));
        }
        // One of the two programs calls it a success when nothing was stored.
        match self.lookup(provider)? {
            Some(stored) if stored == key => Ok(()),
            _ => Err(format!("{} did not keep it", self.name())),
        }
    }

    pub(crate) fn lookup(&self, provider: &str) -> Result<Option<String>, String> {
        let answer = self.run(&self.asking(provider), "")?;
        match answer.good {
            true => Ok(Some(answer.out.trim_end_matches('\n').to_owned()).filter(|key| !key.is_empty())),
            false if self.says_nothing_found(&answer) => Ok(None),
            false => Err(self.refusal(&answer)),
        }
    }

    pub(crate) fn clear(&self, provider: &str) -> Result<(), String> {
        let answer = self.run(&self.clearing(provider), "")?;
        if answer.good || self.says_nothing_found(&answer) { Ok(()) } else { Err(self.refusal(&answer)) }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.tool {
            Tool::SecretTool => "secret-tool",
            Tool::Security => "security",
        }
    }

    /// Arguments, and what goes to stdin.
    fn storing(&self, provider: &str, key: &str) -> Result<(Vec<String>, String), String> {
        match self.tool {
            Tool::SecretTool => {
                let label = format!("posse: key for {provider}");
                Ok(([vec!["store".to_owned(), "--label".to_owned(), label], self.attributes(provider)].concat(), key.to_owned()))
            }
            Tool::Security => {
                let account = self.account(provider);
                if [account.as_str(), key].iter().any(|text| text.contains(['"', '\\', '\n'])) {
                    return Err("the keyring's program cannot be given such a key or name".to_owned());
                }
                Ok((vec!["-i".to_owned()], format!("add-generic-password -U -s posse -a \"{account}\" -w \"{key}\"\n")))
            }
        }
    }

    fn asking(&self, provider: &str) -> Vec<String> {
        match self.tool {
            Tool::SecretTool => [vec!["lookup".to_owned()], self.attributes(provider)].concat(),
            Tool::Security => [vec!["find-generic-password".to_owned()], self.attributes(provider), vec!["-w".to_owned()]].concat(),
        }
    }

    fn clearing(&self, provider: &str) -> Vec<String> {
        let verb = match self.tool {
            Tool::SecretTool => "clear",
            Tool::Security => "delete-generic-password",
        };
        [vec![verb.to_owned()], self.attributes(provider)].concat()
    }

    /// What a key is found by.
    fn attributes(&self, provider: &str) -> Vec<String> {
        match self.tool {
            Tool::SecretTool => ["service", "posse", "provider", provider, "data", &self.data_dir].map(str::to_owned).to_vec(),
            Tool::Security => ["-s", "posse", "-a", &self.account(provider)].map(str::to_owned).to_vec(),
        }
    }

    fn account(&self, provider: &str) -> String {
        format!("{provider} in {}", self.data_dir)
    }

    fn says_nothing_found(&self, answer: &Answer) -> bool {
        match self.tool {
            Tool::SecretTool => answer.err.trim().is_empty(),
            Tool::Security => answer.err.contains("could not be found"),
        }
    }

    fn refusal(&self, answer: &Answer) -> String {
        let first = answer.err.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it gave no reason");
        format!("{}: {first}", self.name())
    }

    fn run(&self, arguments: &[String], input: &str) -> Result<Answer, String> {
        let name = self.name();
        let until = Instant::now() + ANSWER_MAX;
        let mut command = Command::new(&self.program);
        let spawned = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("{name} cannot be started: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A key fits into a pipe, so this does not wait; who does not read it says so by its answer.
            let _ = stdin.write_all(input.as_bytes());
        }
        let (out, err) = (read_aside(child.stdout.take()), read_aside(child.stderr.take()));
        let left = || until.saturating_duration_since(Instant::now());
        let texts = out.recv_timeout(left()).and_then(|out| err.recv_timeout(left()).map(|err| (out, err)));
        if let Ok((out, err)) = texts {
            // Who has closed its output is about to end.
            while !left().is_zero() {
                match child.try_wait() {
                    Ok(Some(status)) => return Ok(Answer { good: status.success(), out, err }),
                    Ok(None) => std::thread::sleep(LOOK_EVERY),
                    Err(error) => return Err(format!("{name}: {error}")),
                }
            }
        }
        // It may have ended in this moment, which is as good.
        let _ = child.kill();
        let _ = child.wait();
        Err(format!("{name} did not answer within {} s; is the keyring locked?", ANSWER_MAX.as_secs()))
    }
}

/// Reads to the end in a thread of its own; a program that holds its output keeps nobody waiting but this thread.
fn read_aside(from: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, text) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            let _ = from.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        }
        // Nobody waits any more: then it was too late.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(tool: Tool) -> Keyring {
        Keyring { tool, program: PathBuf::new(), data_dir: "/d".into() }
    }

    #[test]
    fn no_argument_ever_holds_a_key() {
        for tool in [Tool::SecretTool, Tool::Security] {
            let keyring = keyring(tool);
            let (arguments, input) = keyring.storing("openai", "sk-secret").unwrap();
            assert!(input.contains("sk-secret") && !arguments.concat().contains("secret"), "{tool:?}: {arguments:?}");
            assert!(keyring.asking("openai").concat().contains("/d") && keyring.clearing("openai").concat().contains("openai"));
        }
    }

    #[test]
    fn a_key_that_would_be_a_command_is_not_given_to_one() {
        for key in ["a\"b", "a\\b", "a\ndelete-keychain"] {
            assert!(keyring(Tool::Security).storing("p", key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn a_program_in_the_project_is_not_the_keyring() {
        let folder = tempfile::tempdir().unwrap();
        let name = if cfg!(target_os = "macos") { "security" } else { "secret-tool" };
        std::fs::write(folder.path().join(name), "").unwrap();
        assert!(Keyring::find(&folder.path().to_string_lossy(), Path::new("/d")).is_some());
        assert!(Keyring::find(".:bin::", Path::new("/d")).is_none());
    }
}
