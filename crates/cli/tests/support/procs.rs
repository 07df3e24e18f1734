//! What runs on this machine and has to do with a test: found by its folder, which is in no other test's processes.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub command: String,
}

/// Processes that work in `folder`, or name it in their command line or environment. Zombies are not counted.
pub fn belonging_to(folder: &Path) -> Vec<Process> {
    let mark = folder.to_string_lossy().into_owned();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).filter_map(|pid| look_at(pid, &mark)).collect()
}

/// What is still left of them after a while: nothing, one hopes.
pub fn left_after(folder: &Path, within: Duration) -> Vec<Process> {
    let end = Instant::now() + within;
    loop {
        let left = belonging_to(folder);
        if left.is_empty() || end <= Instant::now() {
            return left;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn look_at(pid: u32, mark: &str) -> Option<Process> {
    let place = Path::new("/proc").join(pid.to_string());
    // A process without a command line is a zombie or the kernel's own.
    let command = fs::read(place.join("cmdline")).ok().filter(|command| !command.is_empty())?;
    let environment = fs::read(place.join("environ")).unwrap_or_default();
    let cwd = fs::read_link(place.join("cwd")).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', " ");
    let belongs = cwd.starts_with(mark) || text(&command).contains(mark) || text(&environment).contains(mark);
    belongs.then(|| Process { pid, command: text(&command) })
}
