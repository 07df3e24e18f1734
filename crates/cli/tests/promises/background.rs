//! Background work through the real binary: started, waited for, detached, stopped, seen by a second terminal and by scripts.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Answer, Done, Running, Seen, World, answer::Piece, call};

/// Far more than anything takes, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(40);

/// Holds the model's answers back until somebody opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open; after a while it opens by itself, so that a test that fails ends.
    pub(crate) fn pass(&self) {
        let (open, changed) = &*self.0;
        let waited = changed.wait_timeout_while(open.lock().unwrap(), LONG, |open| !*open).unwrap();
        drop(waited);
    }
}

/// The prompt that a conversation began with.
pub(crate) fn prompt(seen: &Seen) -> &str {
    seen.user_texts()[0]
}

/// Everything a user's side has said, results too.
pub(crate) fn all_texts(seen: &Seen) -> String {
    let results = seen.results().into_iter().filter_map(|block| match block {
        crate::support::Block::Result { text, .. } => Some(text.as_str()),
        _ => None,
    });
    seen.user_texts().into_iter().chain(results).collect::<Vec<_>>().join("\n---\n")
}

pub(crate) fn launch(description: &str, prompt: &str, more: Value) -> Piece {
    let mut input = json!({"description": description, "prompt": prompt, "subagent_type": "general", "run_in_background": true});
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call("agent", input)
}

/// The value as soon as it is there.
#[track_caller]
pub(crate) fn soon<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn tasks(world: &World) -> Vec<Value> {
    world.posse(&["tasks", "--format", "json"]).expect_code(0).json().as_array().unwrap().clone()
}

/// The task of this description, once it is in this state.
#[track_caller]
pub(crate) fn task_in(world: &World, description: &str, status: &str) -> Value {
    soon(&format!("{description} is {status}"), || {
        tasks(world).into_iter().find(|task| task["description"] == description && task["status"] == status)
    })
}

pub(crate) fn id(task: &Value) -> &str {
    task["session"].as_str().unwrap()
}

/// A root that starts one task in the background, says so, and sums up when it hears of its end. The task waits at a gate.
pub(crate) fn one(gate: &Gate) -> World {
    let gate = gate.clone();
    World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger"}))]),
        ("go", 1) => Answer::text("It runs."),
        ("go", _) => Answer::text(&format!("Heard: {}", seen.user_texts().last().unwrap())),
        (_, 0) => {
            gate.pass();
            Answer::text("I dug.")
        }
        (_, _) => Answer::text(&format!("Again: {}", seen.user_texts().last().unwrap())),
    })
}

fn stream(world: &World) -> Running {
    world.start(&["run", "--format", "stream-json", "go"])
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// No session's numbers have a gap, and every fact that its log has was printed.
#[track_caller]
fn is_whole(world: &World, lines: &[Value]) {
    let mut sessions: Vec<&str> = lines.iter().filter_map(|line| line["session"].as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        let seqs: Vec<u64> = lines.iter().filter(|line| line["session"] == *session).filter_map(|line| line["seq"].as_u64()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{session}");
        let logged = world.posse(&["sessions", "show", session, "--format", "json"]).expect_code(0).json();
        assert_eq!(seqs.len(), logged["events"].as_array().unwrap().len(), "{session} is told to its end");
    }
}

/// CC-121, CC-122, CC-126, CC-127, CC-130, CC-183, CC-226, CC-230, CC-234, CC-237, CC-248, CC-253, CC-255, CC-260.
#[test]
fn a_background_task_is_launched_at_once_and_its_end_is_a_notice_that_the_run_waits_for() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "--format", "json", "go"]);
    let task = task_in(&world, "dig deep", "running");
    // The root has its answer and waits; the file can be read meanwhile.
    soon("the root waits", || {
        let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
        tree.contains("waits for 1 task in the background").then_some(())
    });
    let launched = world.model.requests().iter().map(|seen| all_texts(seen)).find(|text| text.contains("task_id: ")).unwrap();
    let output = launched.lines().find_map(|line| line.strip_prefix("output: ")).unwrap().to_owned();
    assert!(launched.contains("runs in the background") && launched.contains(&format!("task_id: {}", id(&task))), "{launched}");
    assert!(std::fs::read_to_string(&output).unwrap().contains("dig"), "{output}");
    assert!(run.out_so_far().is_empty());
    gate.open();
    let done = run.wait(LONG).expect_code(0).json();
    let result = done["result"].as_str().unwrap();
    assert!(
        result.starts_with("Heard: [task digger completed] dig deep") && result.contains("I dug.") && result.contains(&output),
        "{result}"
    );
    assert!(std::fs::read_to_string(&output).unwrap().contains("I dug."), "the file stays");
    let tree: Vec<(&str, &str)> =
        done["tree"].as_array().unwrap().iter().map(|entry| (entry["kind"].as_str().unwrap(), entry["status"].as_str().unwrap())).collect();
    assert_eq!(tree, [("root", "completed"), ("task", "completed")]);
    let notices = world.model.last().user_texts().iter().filter(|text| text.contains("[task digger")).count();
    assert_eq!(notices, 1, "told once");
}

/// CC-179, CC-251, CC-252: scripts see start, progress and end of background tasks; no line is missing.
#[test]
fn the_stream_tells_start_progress_and_end_of_a_background_task() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().file("a.txt", "alpha\n").script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({}))]),
        ("go", _) => Answer::text("ok"),
        (_, 0) => Answer::call("read", json!({"filePath": "a.txt"})),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = stream(&world);
    assert!(run.wait_for_out("task_progress", LONG), "{}", run.out_so_far());
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    let (started, ended) = (of_type(&lines, "task_started"), of_type(&lines, "task_notification"));
    assert_eq!((started.len(), ended.len()), (1, 1), "{lines:#?}");
    assert_eq!((&started[0]["wait"], &ended[0]["status"], &ended[0]["task"]), (&json!(false), &json!("completed"), &started[0]["task"]));
    let progress = of_type(&lines, "task_progress");
    assert_eq!((&progress[0]["task"], &progress[0]["last_action"]), (&started[0]["task"], &json!("read a.txt")));
    let place = |line: &Value| lines.iter().position(|other| other == line).unwrap();
    let own: Vec<usize> = lines.iter().enumerate().filter(|(_, line)| line["session"] == started[0]["task"]).map(|(at, _)| at).collect();
    assert!(place(started[0]) < own[0] && *own.last().unwrap() < place(ended[0]));
    is_whole(&world, &lines);
}

/// CC-111, CC-112, CC-113, CC-114, CC-178, CC-247, CC-257: a task that its caller waits for goes on in the background.
#[test]
fn a_foreground_task_is_detached_from_a_second_terminal() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"run_in_background": false}))]),
        ("go", 1) => Answer::text("Then I work on."),
        ("go", _) => Answer::text(&format!("Heard: {}", seen.user_texts().last().unwrap())),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = stream(&world);
    let task = task_in(&world, "dig deep", "running");
    let told = world.posse(&["tasks", "detach", id(&task)]).expect_code(0).out;
    assert!(told.contains("goes on in the background") && told.contains("notice"), "{told}");
    assert!(run.wait_for_out("Then I work on.", LONG), "the caller works on: {}", run.out_so_far());
    let again = world.posse(&["tasks", "detach", id(&task)]).expect_code(1);
    assert!(again.err.contains("runs in the background already"), "{}", again.err);
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    let updated = of_type(&lines, "task_updated");
    assert_eq!((updated.len(), &updated[0]["status"], &updated[0]["task"]), (1, &json!("background"), &task["session"]), "{updated:#?}");
    let result = lines.last().unwrap()["result"].as_str().unwrap();
    assert!(result.starts_with("Heard: [task ses_") && result.contains("I dug."), "{result}");
    is_whole(&world, &lines);
    let over = world.posse(&["tasks", "detach", id(&task)]).expect_code(1);
    assert!(over.err.contains("is completed: there is nothing to detach"), "{}", over.err);
    world.posse(&["tasks", "detach", "ses_nobody"]).expect_code(2);
}

/// CC-166, CC-168, CC-169, CC-170, CC-184, CC-125: a person stops a task; its caller is told, with what there is.
#[test]
fn a_task_is_stopped_from_a_second_terminal_by_its_name() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "--format", "json", "go"]);
    let task = task_in(&world, "dig deep", "running");
    let told = world.posse(&["tasks", "stop", "digger"]).expect_code(0).out;
    assert_eq!(told, format!("{} was told to stop\n", id(&task)));
    let done = run.wait(LONG).expect_code(0).json();
    gate.open();
    assert!(done["result"].as_str().unwrap().contains("[task digger stopped] dig deep"), "{done}");
    let listed = world.posse(&["tasks"]).expect_code(0).out;
    assert!(listed.contains("stopped by you"), "{listed}");
    let again = world.posse(&["tasks", "stop", "digger"]).expect_code(1);
    assert!(again.err.contains("is stopped: there is nothing to stop"), "{}", again.err);
    let unknown = world.posse(&["tasks", "stop", "nobody"]).expect_code(2);
    assert!(unknown.err.contains("names that exist: digger = ses_") && unknown.err.contains("an id always works"), "{}", unknown.err);
    let root = done["session"].as_str().unwrap();
    let no_task = world.posse(&["tasks", "stop", root]).expect_code(2);
    assert!(no_task.err.contains("posse sessions stop"), "{}", no_task.err);
    world.posse(&["tasks", "stop"]).expect_code(2);
}

/// CC-125: all at once.
#[test]
fn every_open_task_is_stopped_at_once() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls((0..3).map(|part| launch(&format!("part {part}"), "dig", json!({})))),
        ("go", _) => Answer::text("ok"),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = world.start(&["run", "--format", "json", "go"]);
    (0..3).for_each(|part| drop(task_in(&world, &format!("part {part}"), "running")));
    let told = world.posse(&["tasks", "stop", "--all"]).expect_code(0).out;
    assert_eq!(told.matches("was told to stop").count(), 3, "{told}");
    let done = run.wait(LONG).expect_code(0).json();
    gate.open();
    let stopped = done["tree"].as_array().unwrap().iter().filter(|entry| entry["status"] == "stopped").count();
    assert_eq!(stopped, 3, "{done:#}");
    assert!(world.posse(&["tasks", "stop", "--all"]).expect_code(0).err.contains("nothing to stop"));
}

/// What a killed process has left is stopped by whoever says so, and stays stopped; nothing is run for that.
#[test]
fn a_task_that_no_process_runs_is_stopped_without_running_anything() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    let task = task_in(&world, "dig deep", "running");
    soon("the root waits", || world.posse(&["sessions", "tree"]).out.contains("1 task in the background").then_some(()));
    run.kill_group();
    let _ = run.wait(LONG);
    let left = world.posse(&["tasks"]).expect_code(0).out;
    assert!(left.contains("waiting (no process)") && left.contains("posse sessions resume"), "{left}");
    let nothing = world.posse(&["tasks", "detach", id(&task)]).expect_code(1);
    assert!(nothing.err.contains("in the background already") || nothing.err.contains("no process"), "{}", nothing.err);
    let asked = world.model.requests().len();
    let told = world.posse(&["tasks", "stop", "digger"]).expect_code(0).out;
    assert!(told.contains("was not running; nothing of it will go on by itself"), "{told}");
    assert_eq!(world.model.requests().len(), asked);
    assert_eq!(task_in(&world, "dig deep", "stopped")["stopped_by"], "user");
    gate.open();
    let resumed = world.posse(&["sessions", "resume", task["root"].as_str().unwrap()]).expect_code(0);
    assert!(resumed.out.contains("[task digger stopped] dig deep"), "{}", resumed.out);
    assert!(!all_texts(&world.model.last()).contains("I dug."));
}

/// Queued behind a lane: which one, and how many it lets through.
#[test]
fn who_waits_for_a_lane_is_listed_as_queued() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().config("concurrency", json!({"mock": 1})).script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls((0..2).map(|part| launch(&format!("part {part}"), "dig", json!({"run_in_background": false})))),
        ("go", _) => Answer::text("ok"),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = world.start(&["run", "go"]);
    let queued = soon("one is queued", || tasks(&world).into_iter().find(|task| task["status"] == "queued"));
    assert_eq!((&queued["waits"]["for"], &queued["waits"]["words"]), (&json!("lane"), &json!("its turn: mock, 1 at once")), "{queued:#}");
    assert!(world.posse(&["tasks"]).expect_code(0).out.contains("waits for its turn: mock, 1 at once"));
    gate.open();
    run.wait(LONG).expect_code(0);
    assert_eq!(world.model.max_in_flight(), 1);
}

/// CC-135, CC-171: background shells are listed, and scripts hear of them like of tasks.
#[test]
fn a_background_shell_is_listed_and_told_of_like_a_task() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call(
            "bash",
            json!({"command": "until [ -e go-on ]; do sleep 0.02; done; echo built", "description": "wait for it", "run_in_background": true}),
        ),
        1 => Answer::text("It runs."),
        _ => Answer::text(&format!("Heard: {}", seen.user_texts().last().unwrap())),
    });
    let run = stream(&world);
    let shell = soon("a shell is listed", || tasks(&world).into_iter().find(|row| row["kind"] == "shell"));
    assert_eq!(shell["status"], "running");
    let call = shell["call"].as_str().unwrap();
    let listed = world.posse(&["tasks"]).expect_code(0).out;
    assert!(listed.contains(call) && listed.contains("shell  running"), "{listed}");
    soon("the root waits for it", || world.posse(&["sessions", "tree"]).out.contains("waits for a shell in the background").then_some(()));
    world.write("go-on", "");
    let lines = run.wait(LONG).expect_code(0).lines();
    let (started, ended) = (of_type(&lines, "task_started"), of_type(&lines, "task_notification"));
    assert_eq!((&started[0]["task"], &started[0]["kind"]), (&json!(call), &json!("shell")));
    assert_eq!((&ended[0]["task"], &ended[0]["status"]), (&json!(call), &json!("completed")), "{ended:#?}");
    assert!(lines.last().unwrap()["result"].as_str().unwrap().contains("built"));
    is_whole(&world, &lines);
    assert_eq!(tasks(&world), Vec::<Value>::new());
}

fn err_lines(done: &Done) -> Vec<&str> {
    done.err.lines().collect()
}

/// Without a terminal: who works in the background is marked, and what is waited for after the answer is said once.
#[test]
fn lines_on_stderr_mark_background_tasks_and_say_what_is_waited_for() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    assert!(run.wait_for_err("waiting for 1 task in the background", LONG), "{}", run.err_so_far());
    // Long enough for it to be said again, if it were.
    std::thread::sleep(Duration::from_millis(300));
    gate.open();
    let done = run.wait(LONG).expect_code(0);
    let lines = err_lines(&done);
    assert!(lines.contains(&"  ● general \"digger\"  dig deep (background)"), "{}", done.err);
    assert!(lines.iter().any(|line| line.starts_with("  ✓ general \"digger\"  dig deep (background)  ")), "{}", done.err);
    assert_eq!(lines.iter().filter(|line| line.contains("waiting for")).count(), 1, "{}", done.err);
}

/// On a terminal the picture says so too, and what is waited for stays above it.
#[test]
fn on_a_terminal_who_works_in_the_background_is_marked() {
    let gate = Gate::default();
    let world = one(&gate);
    let terminal = world.command(&["run", "go"]).env("TERM", "xterm").at_terminal();
    terminal.sees("● general \"digger\"  dig deep (background)");
    terminal.sees("waiting for 1 task in the background (Ctrl-C leaves it open)");
    gate.open();
    let done = terminal.wait().expect_code(0);
    assert!(done.err.contains("✓ general \"digger\"  dig deep (background)"), "{}", done.err);
}

/// CC-123, CC-124: the turn ends by Ctrl-C; what runs in the background stays open, and a resume goes on with it.
#[test]
fn what_runs_in_the_background_survives_an_interrupt() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    let task = task_in(&world, "dig deep", "running");
    run.interrupt();
    run.wait(LONG).expect_code(130);
    let left = task_in(&world, "dig deep", "waiting");
    assert_eq!((id(&left), &left["waits"]["for"]), (id(&task), &json!("process")));
    gate.open();
    let resumed = world.posse(&["sessions", "resume", task["root"].as_str().unwrap()]).expect_code(0);
    assert!(resumed.out.contains("I dug."), "{resumed:?}");
}

/// CC-185: a task that fails is told as failed, with the error.
#[test]
fn a_background_task_that_fails_is_told_as_failed() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"name": "digger"}))]),
        ("go", _) if all_texts(seen).contains("[task digger") => Answer::text(&format!("Heard: {}", seen.user_texts().last().unwrap())),
        ("go", _) => Answer::text("It runs."),
        (_, _) => Answer::error(400, "no such thing"),
    });
    let lines = world.run(&["--format", "stream-json", "go"]).expect_code(0).lines();
    assert_eq!(of_type(&lines, "task_notification")[0]["status"], "failed");
    let result = lines.last().unwrap()["result"].as_str().unwrap();
    assert!(result.contains("[task digger failed] dig deep") && result.contains("no such thing"), "{result}");
}

/// CC-259: without a wish it is the foreground, and the result is the call's.
#[test]
fn by_default_the_caller_waits_and_the_answer_is_the_result_of_its_call() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("review", "review it", json!({"run_in_background": null}))]),
        ("go", _) => Answer::text(seen.last_results()[0]),
        (_, _) => Answer::text("Looks good."),
    });
    let done = world.run(&["--format", "json", "go"]).expect_code(0).json();
    assert!(done["result"].as_str().unwrap().starts_with("Looks good.\n\ntask_id: ses_"), "{done}");
    assert_eq!(world.model.requests().len(), 3);
}

/// What stands in an element of a notice.
fn element<'a>(text: &'a str, name: &str) -> &'a str {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let from = text.find(&open).unwrap_or_else(|| panic!("no {name} in {text}")) + open.len();
    &text[from..from + text[from..].find(&close).unwrap()]
}

fn claude(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> World {
    World::with().config("dialect", json!("claude")).script(script)
}

fn agent(description: &str, prompt: &str, more: Value) -> Answer {
    let mut input = json!({"description": description, "prompt": prompt, "subagent_type": "general-purpose"});
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    Answer::call("Agent", input)
}

/// CC-121, CC-126, CC-127, CC-183, CC-226, CC-230, CC-234, CC-237, CC-255, CC-260.
#[test]
fn in_the_claude_dialect_a_launch_and_a_notice_have_their_fields() {
    let world = claude(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => agent("dig deep", "dig", json!({"run_in_background": true})),
        ("go", _) if all_texts(seen).contains("<task-notification>") => Answer::text("Heard."),
        ("go", _) => Answer::text("It runs."),
        (_, _) => Answer::text("I dug."),
    });
    let lines = world.run(&["--format", "stream-json", "go"]).expect_code(0).lines();
    assert_eq!(lines.last().unwrap()["result"], "Heard.");
    let launched = lines.iter().find(|line| line["type"] == "call_finished").unwrap()["outcome"]["metadata"].clone();
    let task = of_type(&lines, "task_started")[0]["task"].as_str().unwrap();
    assert_eq!((&launched["status"], &launched["agentId"], &launched["prompt"]), (&json!("async_launched"), &json!(task), &json!("dig")));
    assert_eq!((&launched["description"], &launched["canReadOutputFile"]), (&json!("dig deep"), &json!(true)));
    let last = world.model.last();
    let results = last.results();
    let crate::support::Block::Result { id: wire, text: result, .. } = results[0] else { panic!("{results:?}") };
    assert!(result.contains("async_launched") && result.contains("A <task-notification> comes when it is done"), "{result}");
    let notice = *last.user_texts().iter().find(|text| text.contains("<task-notification>")).unwrap();
    assert_eq!((element(notice, "task-id"), element(notice, "tool-use-id"), element(notice, "status")), (task, wire.as_str(), "completed"));
    assert_eq!((element(notice, "summary"), element(notice, "result")), ("Agent \"dig deep\" completed", "I dug."));
    assert_eq!(element(notice, "output-file"), launched["outputFile"].as_str().unwrap());
    assert!(element(notice, "usage").contains("total_tokens: 120\ntool_uses: 0\nduration_ms: "), "{notice}");
    assert!(std::fs::read_to_string(element(notice, "output-file")).unwrap().contains("I dug."));
}

/// CC-236, CC-254, CC-259: a call that waits has the answer, how to go on, and there is a file of it as well.
#[test]
fn in_the_claude_dialect_a_foreground_result_says_how_to_go_on() {
    let world = claude(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => agent("review parser bug", "review", json!({})),
        ("go", _) => Answer::text(seen.last_results()[0]),
        (_, _) => Answer::text("Looks good."),
    });
    let done = world.run(&["--format", "json", "go"]).expect_code(0).json();
    let result = done["result"].as_str().unwrap();
    let task = done["tree"][1]["session"].as_str().unwrap();
    assert!(result.starts_with("Looks good.") && result.contains(&format!("use SendMessage with to: '{task}'")), "{result}");
    let file = find_file(&world.posse_home, task, "output.txt");
    assert!(std::fs::read_to_string(file).unwrap().contains("Looks good."));
}

/// The file of this name in the folder of this name, anywhere below.
fn find_file(folder: &std::path::Path, parent: &str, name: &str) -> std::path::PathBuf {
    fn look(folder: &std::path::Path, parent: &str, name: &str) -> Option<std::path::PathBuf> {
        let wanted = folder.join(parent).join(name);
        if wanted.is_file() {
            return Some(wanted);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).find_map(|path| look(&path, parent, name))
    }
    look(folder, parent, name).unwrap_or_else(|| panic!("no {parent}/{name} below {}", folder.display()))
}

/// CC-166, CC-184: the model stops its task; the notice says killed, with what there was.
#[test]
fn in_the_claude_dialect_a_task_that_the_model_stops_is_killed_with_its_partial_result() {
    let (gate, begun) = (Gate::default(), Gate::default());
    let (held, there) = (gate.clone(), begun.clone());
    let world = World::with().config("dialect", json!("claude")).file("a.txt", "alpha\n").script(move |seen: &Seen| {
        match (prompt(seen), seen.steps()) {
            ("go", 0) => agent("dig deep", "dig", json!({"run_in_background": true, "name": "digger"})),
            ("go", 1) => {
                there.pass();
                Answer::call("TaskStop", json!({"task_id": "digger"}))
            }
            ("go", _) if all_texts(seen).contains("<task-notification>") => Answer::text("Heard."),
            ("go", _) => Answer::text("Stopped it."),
            (_, 0) => Answer::call("read", json!({"filePath": "a.txt"})).and_text("I began."),
            (_, _) => {
                there.open();
                held.pass();
                Answer::text("I dug.")
            }
        }
    });
    let lines = world.run(&["--format", "stream-json", "go"]).expect_code(0).lines();
    gate.open();
    assert_eq!(of_type(&lines, "task_notification")[0]["status"], "stopped");
    assert_eq!(of_type(&lines, "task_updated")[0]["status"], "stopping");
    let last = world.model.last();
    let notice = *last.user_texts().iter().find(|text| text.contains("<task-notification>")).unwrap();
    assert_eq!(element(notice, "status"), "killed");
    assert!(element(notice, "result").contains("I began.") && !notice.contains("I dug."), "{notice}");
    assert!(world.posse(&["tasks"]).expect_code(0).out.contains("stopped by another agent"));
}

/// CC-167, CC-171: a shell is stopped by the same tool, under its old parameter.
#[test]
fn in_the_claude_dialect_a_shell_is_stopped_by_its_id() {
    let world = claude(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "sleep 600", "description": "long", "run_in_background": true})),
        1 => Answer::call("TaskStop", json!({"shell_id": "bash_1"})),
        _ => Answer::text(seen.last_results().first().unwrap_or(&"")),
    });
    let lines = world.run(&["--format", "stream-json", "go"]).expect_code(0).lines();
    assert_eq!(of_type(&lines, "task_notification")[0]["status"], "stopped", "{lines:#?}");
    assert!(world.processes_left_after(Duration::from_secs(10)).is_empty());
    is_whole(&world, &lines);
}

/// CC-242: a foreground task that has run long enough goes on in the background by itself.
#[test]
fn a_foreground_task_goes_to_the_background_after_its_time() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().config("auto_background_after", json!("1s")).script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("dig deep", "dig", json!({"run_in_background": false}))]),
        ("go", 1) => Answer::text("Then I work on."),
        ("go", _) => Answer::text(&format!("Heard: {}", seen.user_texts().last().unwrap())),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = stream(&world);
    assert!(run.wait_for_out("Then I work on.", LONG), "{}", run.out_so_far());
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    assert_eq!(of_type(&lines, "task_updated")[0]["status"], "background");
    assert!(lines.last().unwrap()["result"].as_str().unwrap().contains("I dug."), "{lines:#?}");
}

/// CC-130: `--wait-background none` leaves tasks open, says so, and a resume goes on with them.
#[test]
fn a_run_that_does_not_wait_leaves_its_tasks_for_a_resume() {
    let gate = Gate::default();
    let world = one(&gate);
    let done = world.run(&["--wait-background", "none", "go"]).expect_code(0);
    assert_eq!(done.out, "It runs.\n");
    let task = task_in(&world, "dig deep", "waiting");
    gate.open();
    let resumed = world.posse(&["sessions", "resume", task["root"].as_str().unwrap()]).expect_code(0);
    assert!(resumed.out.contains("[task digger completed]") && resumed.out.contains("I dug."), "{resumed:?}");
}
