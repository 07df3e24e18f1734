//! What a worktree costs: making and removing one of ours, against `git worktree add` and `git worktree remove`, in turns.
//!
//! `cargo run --release -p posse-tools --example worktree_cost [files] [rounds]` prints both medians and their ratio.

use std::{
    error::Error,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use posse_tools::{Making, Worktrees};

const FILES: usize = 5_000;
const FILES_PER_FOLDER: usize = 50;
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().and_then(|argument| argument.parse().ok()).unwrap_or(default);
    let (files, rounds) = (number(FILES), number(ROUNDS));
    let folder = std::env::temp_dir().join(format!("posse-worktree-cost-{}", std::process::id()));
    let measured = measure(&folder, files, rounds);
    fs::remove_dir_all(&folder)?;
    let (plain, ours) = measured?;
    println!(
        "{files} files, {rounds} rounds in turns: plain git {plain:.1?}, posse {ours:.1?}, ratio {:.2}",
        ours.as_secs_f64() / plain.as_secs_f64()
    );
    Ok(())
}

fn measure(folder: &Path, files: usize, rounds: usize) -> Result<(Duration, Duration), Box<dyn Error>> {
    let repo = folder.join("repo");
    fs::create_dir_all(&repo)?;
    git(&repo, &["init", "-q"])?;
    for number in 0..files {
        let path = repo.join(format!("folder{}/file{number}.txt", number / FILES_PER_FOLDER));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, format!("file {number}\n").repeat(40))?;
    }
    git(&repo, &["add", "-A"])?;
    git(&repo, &["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-qm", "files"])?;
    let trees = Worktrees::new(folder.join("trees"));
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let began = Instant::now();
        let branch = format!("plain{round}");
        git(&repo, &["worktree", "add", "-q", "-b", &branch, "../plain"])?;
        git(&repo, &["worktree", "remove", "../plain"])?;
        plain.push(began.elapsed());
        git(&repo, &["branch", "-q", "-D", &branch])?;

        let began = Instant::now();
        let (tree, _) = trees.make(&Making { from: &repo, slug: &format!("ses_{round}"), changes: false, title: "" })?;
        let is_gone = trees.release(&tree)?;
        ours.push(began.elapsed());
        if !is_gone {
            return Err("a clean worktree was kept".into());
        }
    }
    Ok((median(plain), median(ours)))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn git(folder: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("git").args(arguments).current_dir(folder).env("GIT_CONFIG_NOSYSTEM", "1").status()?;
    if status.success() { Ok(()) } else { Err(format!("git {arguments:?}: {status}").into()) }
}
