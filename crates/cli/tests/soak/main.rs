//! The soak: many background tasks through the real binary, and every accident that can happen to them at random.
//!
//! A scripted team (`team.rs`) starts tasks in batches; meanwhile `chaos.rs` stops, tells, detaches, looks, kills and resumes
//! from other processes. When everything has come to rest, `verdict.rs` reads the logs and says what does not add up.
//! `POSSE_SOAK_TASKS=1000 cargo test -p posse-cli --test soak` is the long run; `POSSE_SOAK_SEED` repeats the choices (the
//! moments themselves are the machine's), and `POSSE_SOAK_KEEP=FOLDER` keeps the logs of trees that do not add up.
#![allow(clippy::unwrap_used)]

mod chaos;
#[path = "../support/mod.rs"]
mod support;
mod team;
mod verdict;

use std::{
    env, thread,
    time::{Duration, Instant},
};

use chaos::{Tally, Tree};
use serde_json::json;
use support::World;

/// A few trees, small enough for every commit.
const TASKS: usize = 40;

/// Tasks that one root starts. More of them make its conversation long rather than its life harder.
const TREE_TASKS: usize = 20;

/// Trees of one user that run at once, each in a process of its own, on one store.
const TREES_AT_ONCE: usize = 2;

/// The choices of every commit; any other number makes others.
const SEED: u64 = 5;

/// How long the processes of a dead posse may need to be gone.
const ORPHANS_MAX: Duration = Duration::from_secs(5);

/// Far more than anything takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(40);

/// "1,000 background tasks, random stops, messages, detaches, kills and second terminals": nothing is lost, told twice or left.
#[test]
fn no_accident_loses_a_task_a_notice_or_a_message() {
    let tasks = number("POSSE_SOAK_TASKS").map_or(TASKS, |tasks| tasks as usize);
    let seed = number("POSSE_SOAK_SEED").unwrap_or(SEED);
    let of_tree = number("POSSE_SOAK_TREE").map_or(TREE_TASKS, |tasks| tasks as usize).max(1);
    println!("POSSE_SOAK_SEED={seed} POSSE_SOAK_TASKS={tasks} POSSE_SOAK_TREE={of_tree}");
    let begun = Instant::now();
    let mut tally = Tally::default();
    let trees = tasks.div_ceil(of_tree);
    for first in (0..trees).step_by(TREES_AT_ONCE) {
        let numbers: Vec<usize> = (first..trees.min(first + TREES_AT_ONCE)).collect();
        let sizes = numbers.iter().map(|number| (*number, of_tree.min(tasks - number * of_tree)));
        tally.add(user(seed, &sizes.collect::<Vec<_>>()));
        println!("after {:?}: {tally}", begun.elapsed());
    }
    println!("seed {seed}: {tally} in {:?}", begun.elapsed());
    assert!(
        tally.violations.is_empty(),
        "{} violations; repeat with POSSE_SOAK_SEED={seed} POSSE_SOAK_TASKS={tasks} POSSE_SOAK_TREE={of_tree}:\n{}",
        tally.violations.len(),
        tally.violations.join("\n")
    );
    assert!(tasks <= tally.started, "only {} of {tasks} tasks were started: {tally}", tally.started);
}

/// One user's trees side by side, from their prompts to the verdict.
fn user(seed: u64, trees: &[(usize, usize)]) -> Tally {
    let chief = json!({"mode": "subagent", "description": "Passes work on", "prompt": "You pass it on.", "permission": {"task": "allow"}});
    let world = World::with()
        .config("permission", json!({"*": "allow"}))
        .config("agent", json!({ "chief": chief }))
        .config("concurrency", json!({"mock": 12}))
        .config("limits", json!({"children": 5000, "tree": 5000}))
        .file("notes.txt", &(0..400).map(|line| format!("line {line}\n")).collect::<String>())
        .script(move |seen| team::answer(seed, seen));
    let mut tally = thread::scope(|scope| {
        let running = trees.iter().map(|(number, tasks)| {
            let world = &world;
            scope.spawn(move || Tree::grow(world, seed, *number, *tasks))
        });
        let running: Vec<_> = running.collect();
        let mut tally = Tally::default();
        for tree in running {
            tally.add(tree.join().unwrap_or_else(|_| panic!("see above; repeat with POSSE_SOAK_SEED={seed}")));
        }
        tally
    });
    tally.violations.extend(world.model.take_errors().into_iter().map(|error| format!("a provider would have refused: {error}")));
    let left = world.processes_left_after(ORPHANS_MAX);
    tally.violations.extend(left.into_iter().map(|process| format!("an orphan: {process:?}")));
    tally.violations.extend(verdict::ran_twice(&world));
    tally
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// Found by seed 1: whoever stopped a tree that nobody ran ran it for a moment, and answered what waited in its inbox.
#[test]
fn a_stop_without_a_process_asks_no_model_and_leaves_a_letter_to_the_next_owner() {
    let give = |prompt: &str| support::call("agent", json!({"description": prompt, "prompt": prompt, "subagent_type": "general"}));
    let world = World::new(move |seen: &support::Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => support::Answer::calls([give("dig"), give("wait")]),
        ("go", _) => support::Answer::text("ok"),
        ("wait", _) => support::Answer::text("I waited.").after(LONG),
        (_, 0) => support::Answer::text("I dug."),
        (_, _) => support::Answer::text("Again."),
    });
    let run = world.start(&["run", "--format", "stream-json", "go"]);
    // The end of the one that dug is in its log; its words alone may still be on their way there.
    assert!(run.wait_for_out(r#""type":"ended""#, LONG) && world.model.wait_for_requests(3), "{}", run.out_so_far());
    run.kill_group();
    let _ = run.wait(LONG);
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let dig = tasks.as_array().unwrap().iter().find(|task| task["description"] == "dig").unwrap();
    let (root, dig) = (dig["root"].as_str().unwrap(), dig["session"].as_str().unwrap());
    let sent = world.command(&["tasks", "send", dig, "dig on"]).env("POSSE_CRASH_AT", "before_append:1").run();
    assert_eq!(sent.signal, Some(9), "it dies when the letter is in the inbox: {sent:?}");
    let shown = || world.posse(&["sessions", "show", dig]).expect_code(0).out;
    let (asked, before) = (world.model.requests().len(), shown());
    world.posse(&["sessions", "stop", root]).expect_code(0);
    assert_eq!((world.model.requests().len(), shown()), (asked, before), "nothing went on");
    world.posse(&["sessions", "resume", root]).expect_code(0);
    let after = shown();
    assert!(after.contains("mock/m1") && after.matches("dig on").count() == 1 && after.contains("Again."), "{after}");
}
