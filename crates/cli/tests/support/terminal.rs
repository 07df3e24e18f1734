//! A `posse` at a terminal: a real pseudo-terminal with its line discipline, so that Ctrl-C and Ctrl-D are what they are.

use std::{
    fs::File,
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::running::{Done, Running};

/// What a person types and sees; stdout is a pipe of its own.
pub struct AtTerminal {
    pub running: Running,
    keys: File,
}

/// Far more than anything takes to appear, even on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

impl AtTerminal {
    /// The command makes the terminal that is its stdin its own (`setsid --ctty`).
    pub fn start(mut command: Command) -> AtTerminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let child = command.stdin(theirs.try_clone().unwrap()).stdout(Stdio::piped()).stderr(theirs).spawn().unwrap();
        // The command holds their side too; once that is gone too, the end of the child is the end of the screen.
        drop(command);
        let ours = File::from(ours);
        let keys = ours.try_clone().unwrap();
        AtTerminal { running: Running::at_terminal(child, ours), keys }
    }

    /// Waits until the screen shows this.
    #[track_caller]
    pub fn sees(&self, what: &str) {
        assert!(self.running.wait_for_err(what, SHOWN_WITHIN), "no {what:?} on the screen:\n{}", self.screen());
    }

    pub fn screen(&self) -> String {
        self.running.err_so_far()
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub fn wait(self) -> Done {
        self.running.wait(Duration::from_secs(60))
    }
}
