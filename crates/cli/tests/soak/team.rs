//! The scripted team: a root that starts tasks in batches, agents that take a few steps, chiefs with agents of their own.
//!
//! Everything follows from the seed and the conversation, so a step that is tried again gets the same answer. Who somebody is
//! stands in the first words: `root TREE TASKS`, or `task NAME` with a name that no other has.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::{Answer, Block, Seen, answer::Piece, call};

/// What the root says when all its tasks were started.
pub(crate) const COMPLETE: &str = "all were started";

/// Calls of one reply at most.
const BATCH_MAX: usize = 5;

/// Milliseconds before the first byte.
const DELAY_MAX: u64 = 40;

/// Steps with tools that an agent takes at most before it answers.
const STEPS_MAX: usize = 4;

/// One answer in so many is cut off or refused as overloaded, the first time.
const FAULTS_EVERY: u8 = 60;

pub(crate) fn root_prompt(tree: usize, tasks: usize) -> String {
    format!("root {tree} {tasks}")
}

pub(crate) fn answer(seed: u64, seen: &Seen) -> Answer {
    let label = seen.user_texts()[0].to_owned();
    let mut rng = chance(seed, &label, seen.steps());
    let delay = Duration::from_millis(rng.u64(0..DELAY_MAX));
    if rng.u8(0..FAULTS_EVERY) == 0 && is_first(&label, seen.steps()) {
        return if rng.bool() { Answer::text("never read to its end").cut_after(90) } else { Answer::error(529, "overloaded") };
    }
    let mut words = label.split(' ');
    let reply = match (words.next(), words.next(), words.next()) {
        (Some("root"), Some(tree), Some(tasks)) => root(tree, tasks.parse().unwrap(), seen, &mut rng),
        (Some("task"), Some(name), None) => agent(seed, name, seen, &mut rng),
        _ => panic!("nobody is called {label:?}"),
    };
    reply.after(delay)
}

/// Whether this step is asked for the first time; a provider's faults do not last.
fn is_first(label: &str, step: usize) -> bool {
    static ASKED: Mutex<Option<HashSet<(String, usize)>>> = Mutex::new(None);
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    asked.get_or_insert_with(HashSet::new).insert((label.to_owned(), step))
}

/// What is chosen at this place of this conversation.
fn chance(seed: u64, label: &str, step: usize) -> Rng {
    let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Rng::with_seed(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (step as u64).wrapping_mul(0xd1b5_4a32_d192_ed03))
}

fn root(tree: &str, tasks: usize, seen: &Seen, rng: &mut Rng) -> Answer {
    let (asked, known) = (asked(seen), known(seen));
    // Some are refused or cut off by an interrupt; but not for ever.
    if tasks <= known.len() || 3 * tasks <= asked {
        return Answer::text(COMPLETE);
    }
    if 0 < asked && rng.u8(0..5) == 0 {
        return Answer::text("I wait for what I started.");
    }
    let count = rng.usize(1..=BATCH_MAX).min(tasks - known.len());
    let mut calls: Vec<Piece> = (0..count).map(|at| launch(&format!("{tree}.{}", asked + at), rng, 5)).collect();
    if rng.u8(0..3) != 0 {
        calls.extend(about(&known, tree, &format!("{tree}.s{}", seen.steps()), rng));
    }
    Answer::calls(calls)
}

fn agent(seed: u64, name: &str, seen: &Seen, rng: &mut Rng) -> Answer {
    let character = &mut chance(seed, name, usize::MAX);
    let (steps, fails) = (character.usize(0..=STEPS_MAX), character.u8(0..20) == 0);
    let step = seen.steps();
    // Whoever is spoken to once more answers at once, or does one more thing.
    if steps <= step && (step <= steps || rng.u8(0..3) != 0) {
        return if fails { Answer::error(400, "this one fails") } else { Answer::text(&format!("{name} is done.")) };
    }
    let mark = format!("{name}.{step}");
    let known = known(seen);
    let tree = name.split('.').next().unwrap();
    let may_delegate = seen.tools.iter().any(|tool| tool == "agent") && name.matches('-').count() < 2;
    match rng.u8(0..100) {
        0..15 => Answer::call("read", json!({"filePath": "notes.txt", "offset": 1 + step, "limit": 3})),
        15..25 => Answer::calls([work(&format!("{mark}a"), rng), work(&format!("{mark}b"), rng)]),
        25..33 => Answer::calls([left_running(&mark, rng)]),
        33..55 if may_delegate => {
            let count = rng.usize(1..=2);
            Answer::calls((0..count).map(|at| launch(&format!("{name}-{step}{at}"), rng, 3)))
        }
        55..75 => Answer::calls(about(&known, tree, &mark, rng).into_iter().chain([work(&mark, rng)])),
        _ => Answer::calls([work(&mark, rng)]),
    }
}

/// A task; one in `waits` is waited for.
fn launch(name: &str, rng: &mut Rng, waits: u8) -> Piece {
    let agent = if rng.u8(0..4) == 0 { "chief" } else { "general" };
    let background = rng.u8(0..waits) != 0;
    let mut input = json!({"description": name, "prompt": format!("task {name}"), "subagent_type": agent, "run_in_background": background});
    if rng.u8(0..4) == 0 {
        input["name"] = json!(called(name));
    }
    call("agent", input)
}

/// Several share a name: only one of them may have it at a time.
fn called(name: &str) -> String {
    let tree = name.split('.').next().unwrap();
    format!("t{tree}-{}", name.len() % 4 + name.bytes().last().map_or(0, usize::from) % 5)
}

/// Words to a task, a look at it, its stop; for those without tasks, words to whoever has a name.
fn about(known: &[String], tree: &str, mark: &str, rng: &mut Rng) -> Vec<Piece> {
    let somebody = format!("t{tree}-{}", rng.usize(0..8));
    let task = if known.is_empty() { somebody.clone() } else { known[rng.usize(0..known.len())].clone() };
    let piece = match rng.u8(0..10) {
        0..4 => call("send_message", json!({"to": task, "message": message(mark)})),
        4 => call("send_message", json!({"to": somebody, "message": message(mark)})),
        5 => call("task_list", json!({})),
        6 => call("task_output", json!({"task_id": task, "block": false})),
        7..9 => call("task_output", json!({"task_id": task, "block": true, "timeout": rng.u64(1..400)})),
        _ => call("task_stop", json!({"task_id": task})),
    };
    vec![piece]
}

/// What an agent says to another; the verdict looks for it.
pub(crate) fn message(mark: &str) -> String {
    format!("word {mark}")
}

fn work(mark: &str, rng: &mut Rng) -> Piece {
    let pause = rng.u64(1..=9);
    call(
        "bash",
        json!({"command": format!("echo \"$POSSE_CALL {mark}\" >> witness; sleep 0.0{pause}; echo did {mark}"), "description": mark}),
    )
}

fn left_running(mark: &str, rng: &mut Rng) -> Piece {
    let pause = rng.u64(1..=4);
    let command = format!("echo \"$POSSE_CALL {mark}\" >> witness; sleep 0.{pause}; echo left {mark}");
    call("bash", json!({"command": command, "description": mark, "run_in_background": true}))
}

/// How many tasks were asked for in this conversation.
fn asked(seen: &Seen) -> usize {
    seen.calls().iter().filter(|block| matches!(block, Block::Call { name, .. } if name == "agent")).count()
}

/// The tasks that came of it, by the results of these calls.
fn known(seen: &Seen) -> Vec<String> {
    let is_launch = |wanted: &str| {
        seen.calls()
            .iter()
            .any(|block| matches!(block, Block::Call { id, name, input: Value::Object(_) } if name == "agent" && id == wanted))
    };
    let results = seen.results().into_iter().filter_map(|block| match block {
        Block::Result { id, text, .. } if is_launch(id) => text.rsplit_once("task_id: ").map(|(_, task)| task.trim().to_owned()),
        _ => None,
    });
    results.filter(|task| task.starts_with("ses_")).collect()
}
