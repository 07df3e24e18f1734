//! Words to tasks through the real binary: from a model or a second terminal, to those that work, have ended or were stopped.

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, all_texts, id, launch, one, prompt, soon, task_in},
    support::{Answer, Block, Seen, World},
};

/// The tools that a model has called so far.
fn called(seen: &Seen) -> usize {
    seen.calls().len()
}

/// CC-151, CC-156, CC-146: a running task hears it at its next step; the tool it runs is not interrupted.
#[test]
fn a_running_task_hears_a_message_from_a_second_terminal_at_its_next_step() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger", "run_in_background": false}))]),
        ("go", _) => Answer::text(seen.last_results()[0]),
        (_, 0) => Answer::call("bash", json!({"command": "until [ -e go-on ]; do sleep 0.02; done; echo the tool ended"})),
        (_, _) => Answer::text(&format!("{} And you said: {}", seen.last_results()[0], seen.user_texts().last().unwrap())),
    });
    let run = world.start(&["run", "go"]);
    let task = task_in(&world, "dig deep", "running");
    soon("its tool runs", || world.posse(&["tasks"]).out.contains("last: bash").then_some(()));
    let told = world.posse(&["tasks", "send", "digger", "look", "left", "too"]).expect_code(0).out;
    assert_eq!(told, format!("{}  general: delivered; it works on\n", id(&task)));
    world.write("go-on", "");
    let done = run.wait(LONG).expect_code(0);
    assert!(done.out.contains("the tool ended") && done.out.contains("And you said: look left too"), "{}", done.out);
}

/// CC-152, CC-157, CC-147: one that has ended works again, in the background, while another process runs the tree.
#[test]
fn a_task_that_has_ended_works_again_when_it_is_spoken_to() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([
            launch("dig deep", "dig", json!({"name": "digger", "run_in_background": false})),
            launch("wait long", "wait", json!({})),
        ]),
        ("go", _) => Answer::text(&format!("So far: {}", all_texts(seen))),
        ("wait", _) => {
            held.pass();
            Answer::text("I waited.")
        }
        (_, 0) => Answer::text("I dug."),
        (_, _) => Answer::text(&format!("Again: {}", seen.user_texts().last().unwrap())),
    });
    let run = world.start(&["run", "--format", "stream-json", "go"]);
    let ended = task_in(&world, "dig deep", "completed");
    let told = world.posse(&["tasks", "send", id(&ended), "dig on"]).expect_code(0).out;
    assert_eq!(told, format!("{}  general: it had ended and works again\n", id(&ended)));
    assert!(run.wait_for_out("Again: dig on", LONG), "{}", run.out_so_far());
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    let resumed: Vec<&Value> = lines.iter().filter(|line| line["type"] == "task_updated" && line["status"] == "resumed").collect();
    assert_eq!((resumed.len(), &resumed[0]["task"], &resumed[0]["round"]), (1, &ended["session"], &json!(2)), "{resumed:#?}");
    let result = lines.last().unwrap()["result"].as_str().unwrap();
    assert!(result.contains("[task digger completed]") && result.contains("Again: dig on"), "{result}");
}

/// CC-153, CC-155, CC-256: nobody runs the tree: the sender goes on with it, and prints like `resume`.
#[test]
fn without_a_process_the_sender_goes_on_with_the_tree() {
    let gate = Gate::default();
    gate.open();
    let world = one(&gate);
    world.run(&["go"]).expect_code(0);
    let done = world.posse(&["tasks", "send", "digger", "--format", "json", "dig on"]).expect_code(0);
    assert!(done.err.contains("no process runs ses_"), "{}", done.err);
    let shown = done.json();
    let result = shown["result"].as_str().unwrap();
    assert!(result.starts_with("Heard: [task digger completed]") && result.contains("Again: dig on"), "{shown:#}");
    let child = world.model.requests().into_iter().rfind(|seen| prompt(seen) == "dig").unwrap();
    assert!(all_texts(&child).contains("dig on") && child.steps() == 1, "it goes on with what it knows");
    let quiet = world.posse(&["tasks", "send", "-q", "digger", "once more"]).expect_code(0);
    assert!(quiet.err.is_empty() && quiet.out.contains("Again: once more"), "{quiet:?}");
    world.posse(&["tasks", "send", "digger", " "]).expect_code(2);
    world.posse(&["tasks", "send", "digger"]).expect_code(2);
}

/// CC-154, CC-158, CC-266: who is unknown is an error that says who is known; an id works for ever.
#[test]
fn words_for_nobody_are_an_error_that_names_who_there_is() {
    let gate = Gate::default();
    gate.open();
    let world = one(&gate);
    let none = world.posse(&["tasks", "send", "digger", "hi"]).expect_code(2);
    assert!(none.err.contains("there is no task digger"), "{}", none.err);
    let root = world.run(&["--format", "json", "go"]).expect_code(0).json()["session"].as_str().unwrap().to_owned();
    let unknown = world.posse(&["tasks", "send", "diger", "hi"]).expect_code(2);
    assert!(unknown.err.contains("names that exist: digger = ses_") && unknown.err.contains("an id always works"), "{}", unknown.err);
    let no_task = world.posse(&["tasks", "send", &root, "hi"]).expect_code(2);
    assert!(no_task.err.contains("posse run -s"), "{}", no_task.err);
    // A second tree with the same name: the younger is meant, and an id still means the older.
    world.run(&["go"]).expect_code(0);
    let trees = task_ids(&world);
    world.posse(&["tasks", "send", "digger", "to the younger"]).expect_code(0);
    let shown = world.posse(&["sessions", "show", &trees[0]]).expect_code(0).out;
    assert!(shown.contains("to the younger"), "{shown}");
    let old = world.posse(&["tasks", "send", &trees[1], "to the older"]).expect_code(0);
    assert!(old.out.contains("Again: to the older"), "{}", old.out);
}

/// Newest first.
fn task_ids(world: &World) -> Vec<String> {
    crate::background::tasks(world).iter().map(|task| id(task).to_owned()).collect()
}

/// A stop by the user is for good until the user speaks: a model's message is refused, the user's is not.
#[test]
fn a_task_that_the_user_stopped_is_woken_by_the_user_only() {
    let (gate, stopped) = (Gate::default(), Gate::default());
    let (held, until) = (gate.clone(), stopped.clone());
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger"}))]),
        ("go", 1) => {
            until.pass();
            Answer::call("send_message", json!({"to": "digger", "message": "go on"}))
        }
        ("go", 2) => Answer::text(&format!("Sending said: {}", seen.last_results().first().unwrap_or(&"nothing"))),
        ("go", _) => Answer::text(&format!("Heard: {}", all_texts(seen))),
        (_, 0) => {
            held.pass();
            Answer::text("I dug.")
        }
        (_, _) => Answer::text(&format!("Again: {}", seen.user_texts().last().unwrap())),
    });
    let run = world.start(&["run", "--format", "json", "go"]);
    task_in(&world, "dig deep", "running");
    world.posse(&["tasks", "stop", "digger"]).expect_code(0);
    task_in(&world, "dig deep", "stopped");
    stopped.open();
    gate.open();
    run.wait(LONG).expect_code(0);
    let refused = world.model.requests().iter().map(|seen| all_texts(seen)).any(|text| text.contains("The user stopped the task"));
    assert!(refused, "a model's message does not wake it");
    let woken = world.posse(&["tasks", "send", "digger", "go on after all"]).expect_code(0);
    assert!(woken.out.contains("I dug."), "{}", woken.out);
    let child = world.model.requests().into_iter().rfind(|seen| prompt(seen) == "dig").unwrap();
    assert!(all_texts(&child).contains("go on after all"), "{}", all_texts(&child));
}

/// CC-145, CC-147, CC-148, CC-261: a model speaks to its task by name; marked as an agent's words.
#[test]
fn a_model_speaks_to_its_task_by_name() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), called(seen)) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger"}))]),
        ("go", 1) => Answer::call("send_message", json!({"to": "digger", "message": "look left", "summary": "where"})),
        ("go", _) => {
            held.open();
            Answer::text(&format!("So far: {}", all_texts(seen)))
        }
        (_, 0) => {
            held.pass();
            Answer::call("read", json!({"filePath": "nothing.txt"}))
        }
        (_, _) => Answer::text(&format!("I was told: {}", seen.user_texts().last().unwrap())),
    });
    let done = world.run(&["go"]).expect_code(0);
    assert!(done.out.contains("I was told: [message from the agent build") && done.out.contains("look left"), "{}", done.out);
}

/// CC-161, CC-162, CC-163, CC-164, CC-165: at once, with a wait, with a bound; no notice of an end that a call has shown.
#[test]
fn reading_a_task_shows_it_at_once_or_waits_and_leaves_no_notice() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), called(seen)) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger"}))]),
        ("go", 1) => Answer::call("task_output", json!({"task_id": "digger", "block": false})),
        ("go", 2) => Answer::call("task_output", json!({"task_id": "digger", "timeout": 200})),
        ("go", 3) => Answer::call("task_output", json!({"task_id": "digger"})),
        ("go", _) => Answer::text("Read."),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = world.start(&["run", "--format", "stream-json", "go"]);
    soon("two calls have waited for it", || (run.out_so_far().matches("\"status\":\"awaited\"").count() == 2).then_some(()));
    gate.open();
    run.wait(LONG).expect_code(0);
    let last = world.model.last();
    let text = |block: &&Block| if let Block::Result { text, .. } = block { Some(text.clone()) } else { None };
    let results: Vec<String> = last.results().iter().filter_map(text).collect();
    assert_eq!(results.len(), 4, "{results:#?}");
    assert!(!results[1].contains("I dug.") && !results[2].contains("I dug.") && results[3].contains("I dug."), "{results:#?}");
    assert!(!last.user_texts().iter().any(|text| text.contains("[task digger")), "no notice of what was read");
    let told = world.posse(&["why", "digger"]).expect_code(0).out;
    assert!(told.contains("(task_output), which read it") && told.contains("so there is no notice"), "{told}");
}

/// The owner dies with the letter unread: nothing is lost, the sender takes its place.
#[test]
fn a_letter_to_a_process_that_dies_is_delivered_by_its_sender() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    task_in(&world, "dig deep", "running");
    soon("the root waits", || world.posse(&["sessions", "tree"]).out.contains("1 task in the background").then_some(()));
    // It lives and owns the tree, and reads no letters.
    run.signal(rustix::process::Signal::STOP);
    let sender = world.start(&["tasks", "send", "digger", "dig on"]);
    soon("the letter is there", || letters(&world).then_some(()));
    run.kill();
    gate.open();
    let done = sender.wait(LONG).expect_code(0);
    assert!(done.err.contains("no process runs"), "{done:?}");
    let said = world.model.requests().iter().filter(|seen| prompt(seen) == "dig").map(|seen| all_texts(seen)).next_back().unwrap();
    assert_eq!(said.matches("dig on").count(), 1, "{said}");
    let left = world.processes_left_after(std::time::Duration::from_secs(10));
    assert!(left.is_empty(), "{left:?}");
}

/// Whether a letter waits in the project's inbox: somebody wrote to the database since, which is all that can be seen from outside.
fn letters(world: &World) -> bool {
    fn found(folder: &std::path::Path) -> bool {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| {
            let path = entry.path();
            if path.is_dir() {
                return found(&path);
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with("posse.db") && std::fs::read(&path).is_ok_and(|bytes| bytes.windows(6).any(|part| part == b"dig on"))
        })
    }
    found(&world.posse_home)
}

/// CC-148, CC-145, CC-261: in the claude dialect plain text needs a summary; then the named agent is reached.
#[test]
fn in_the_claude_dialect_a_message_needs_a_summary() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().config("dialect", json!("claude")).script(move |seen: &Seen| match (prompt(seen), called(seen)) {
        ("go", 0) => Answer::call(
            "Agent",
            json!({"description": "flaky tests", "prompt": "dig", "subagent_type": "general-purpose", "run_in_background": true, "name": "flaky-investigator"}),
        ),
        ("go", 1) => Answer::call("SendMessage", json!({"to": "flaky-investigator", "message": "look left"})),
        ("go", 2) => Answer::call("SendMessage", json!({"to": "flaky-investigator", "message": "look right", "summary": "where"})),
        ("go", _) => {
            held.open();
            Answer::text(&format!("So far: {}", all_texts(seen)))
        }
        (_, 0) => {
            held.pass();
            Answer::call("read", json!({"filePath": "nothing.txt"}))
        }
        (_, _) => Answer::text(&format!("I was told: {}", all_texts(seen))),
    });
    let done = world.run(&["go"]).expect_code(0);
    let told = done.out.split_once("I was told: ").unwrap_or_else(|| panic!("{}", done.out)).1;
    assert!(told.contains("look right") && !told.contains("look left"), "{}", done.out);
    assert!(done.out.contains("summary"), "the refusal says what is missing: {}", done.out);
}

/// Two levels down, and nobody runs the tree: whoever started it hears of it, and so does nobody else.
#[test]
fn a_task_of_a_task_is_reached_and_its_own_caller_hears_of_it() {
    let chief = json!({"mode": "subagent", "prompt": "You pass it on.", "permission": {"task": "allow"}});
    let world = World::with().config("agent", json!({ "chief": chief })).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("manage", "manage it", json!({"subagent_type": "chief", "run_in_background": false}))]),
        ("manage it", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger", "run_in_background": false}))]),
        ("go", _) => Answer::text("All done."),
        ("manage it", 1) => Answer::text("Managed."),
        ("manage it", _) => Answer::text(&format!("Managed again: {}", seen.user_texts().last().unwrap())),
        (_, 0) => Answer::text("I dug."),
        (_, _) => Answer::text(&format!("Again: {}", seen.user_texts().last().unwrap())),
    });
    world.run(&["go"]).expect_code(0);
    let done = world.posse(&["tasks", "send", "digger", "dig on"]).expect_code(0);
    let digger = world.model.requests().into_iter().rfind(|seen| prompt(seen) == "dig").unwrap();
    assert!(all_texts(&digger).contains("dig on"), "{done:?}");
    let chief = world.model.requests().into_iter().rfind(|seen| prompt(seen) == "manage it").unwrap();
    assert!(all_texts(&chief).contains("[task digger completed]") && all_texts(&chief).contains("Again: dig on"), "{}", all_texts(&chief));
    let open: Vec<Value> = crate::background::tasks(&world).into_iter().filter(|task| task["status"] != "completed").collect();
    assert_eq!(open, Vec::<Value>::new(), "everything has come to rest");
    let told = world.posse(&["why", "digger"]).expect_code(0).out;
    assert!(
        told.contains("round 2") && told.contains("again by a message of you") && told.contains("the notice was taken at step"),
        "{told}"
    );
}

/// The owner dies while it is told to stop somebody: the stop holds all the same.
#[test]
fn a_stop_for_a_process_that_dies_is_recorded_by_its_sender() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    task_in(&world, "dig deep", "running");
    run.signal(rustix::process::Signal::STOP);
    let mut sender = world.start(&["tasks", "stop", "digger"]);
    // It waits for an answer as long as that process lives.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!sender.has_ended(), "{}", sender.out_so_far());
    run.kill();
    let done = sender.wait(LONG).expect_code(0);
    assert!(done.out.contains("nothing of it will go on by itself"), "{done:?}");
    gate.open();
    assert_eq!(task_in(&world, "dig deep", "stopped")["stopped_by"], "user");
}
