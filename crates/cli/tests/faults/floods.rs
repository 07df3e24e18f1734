//! Commands that print more than anybody wants to read: posse's memory stays flat, the model sees head and tail, and the
//! whole is in the spool up to its bound.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::support::{Answer, Done, Seen, World};

/// What one call may add to posse's memory, in kB.
const GROWTH_MAX: u64 = 32 * 1024;

/// What one command may leave in the spool.
const SPOOL_MAX: u64 = 1024 * 1024 * 1024;

/// A flood: the command, what it leaves in the spool, how the model's text begins and what else is in it.
struct Flood {
    command: &'static str,
    bytes: u64,
    begins: &'static str,
    holds: &'static str,
}

const FLOODS: &[(&str, Flood)] = &[
    (
        "100 MB of lines",
        Flood {
            command: "head -c 104857600 /dev/zero | tr '\\0' x | fold -w 127; echo; echo the end",
            bytes: 104_857_600 + 825_650 + 9,
            begins: "xxxxxxxx",
            holds: "the end\n",
        },
    ),
    (
        "one line of 50 MB",
        Flood { command: "head -c 52428800 /dev/zero | tr '\\0' y; echo end", bytes: 52_428_804, begins: "yyyyyyyy", holds: "yyend\n" },
    ),
    (
        "100 MB that are no text",
        Flood { command: "head -c 104857600 /dev/urandom; echo; echo end", bytes: 104_857_605, begins: "", holds: "\nend\n" },
    ),
    ("100 MB of nothing", Flood { command: "head -c 104857600 /dev/zero; echo end", bytes: 104_857_604, begins: "", holds: "end\n" }),
    (
        "100 MB in colours",
        Flood {
            command: "yes $'\\033[31mred\\033[0m \\033]0;title\\007plain' | head -c 104857600; echo; echo end",
            bytes: 104_857_605,
            begins: "red plain\nred plain\n",
            holds: "\nend\n",
        },
    ),
    (
        "no end at all",
        Flood { command: "yes", bytes: SPOOL_MAX, begins: "y\ny\n", holds: "it printed more than 1073741824 bytes and was ended" },
    ),
];

/// Runs one answer of the model after another, then says what came of the last.
fn run(answers: Vec<(&'static str, Value)>) -> (World, Done, u64) {
    let world = World::new(move |seen: &Seen| match answers.get(seen.steps()) {
        Some((tool, input)) => Answer::call(tool, input.clone()),
        // Time for a last look at the memory.
        None => Answer::text(seen.last_results()[0]).after(Duration::from_millis(300)),
    });
    let mut running = world.start(&["run", "--permission-mode", "bypass", "go"]);
    let mut peak = 0;
    while !running.has_ended() {
        peak = peak_memory(running.pid()).unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = running.wait(Duration::from_secs(1)).expect_code(0);
    (world, done, peak)
}

/// The most memory a process ever had, in kB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().split(' ').next()?.parse().ok()
}

fn spool_files(world: &World) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![world.posse_home.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "out" => found.push(path),
                _ => {}
            }
        }
    }
    found
}

fn check(name: &str, flood: &Flood, world: &World, done: &Done) {
    let said = &done.out;
    assert!(said.len() < 40_000, "{name}: {} bytes went to the model", said.len());
    assert!(!said.contains(['\u{1b}', '\0', '\u{7}']), "{name}: steers a terminal");
    assert!(said.starts_with(flood.begins), "{name}: {:?}", said.chars().take(200).collect::<String>());
    assert!(
        said.contains(flood.holds),
        "{name}: {:?}",
        said.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect::<String>()
    );
    let [file] = &spool_files(world)[..] else { panic!("{name}: not one spool file") };
    assert!(said.contains(&format!("bytes omitted; full output: {}", file.display())), "{name}: the way to the rest is said");
    assert_eq!(fs::metadata(file).unwrap().len(), flood.bytes, "{name}");
}

#[test]
fn floods_leave_the_memory_flat() {
    let (_, _, idle) = run(vec![("bash", json!({"command": "echo hi"}))]);
    assert!(5_000 < idle, "{idle} kB");
    for (name, flood) in FLOODS {
        let (world, done, peak) = run(vec![("bash", json!({"command": flood.command, "timeout": 100_000}))]);
        check(name, flood, &world, &done);
        assert!(peak < idle + GROWTH_MAX, "{name}: {peak} kB, {idle} kB idle");
        let left = world.processes_left_after(Duration::from_secs(5));
        assert!(left.is_empty(), "{name}: {left:#?}");
    }
}

#[test]
fn floods_in_the_background_do_too() {
    let (_, _, idle) = run(vec![("bash", json!({"command": "echo hi"}))]);
    for (name, flood) in &FLOODS[..2] {
        let (world, done, peak) = run(vec![
            ("bash", json!({"command": flood.command, "run_in_background": true})),
            // Waits for the end: no line of it matches before.
            ("bash_output", json!({"shell_id": "bash_1", "filter": "^there is no such line$", "block": true, "timeout": 100_000})),
            ("bash_output", json!({"shell_id": "bash_1", "since": 0})),
        ]);
        check(name, flood, &world, &done);
        assert!(done.out.contains("(bash_1: exited with code 0; next read: since "), "{name}");
        assert!(peak < idle + GROWTH_MAX, "{name}: {peak} kB, {idle} kB idle");
    }
}
