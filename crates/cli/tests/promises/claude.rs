//! The `claude` dialect from a model's request to its next one: what a call is given, who waits, what comes back and when.
//!
//! Every story has one scripted model for all agents; a conversation is known by its first words. Who may be called and
//! with which rights is in `claude_rights.rs`; the wording of each tool by itself is tested beside the tools.

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, all_texts, id, prompt, soon, task_in, tasks},
    support::{Answer, Block, Running, Seen, World, answer::Piece, call, world::Plan},
};

/// A user who has chosen the dialect.
pub(crate) fn plan() -> Plan {
    World::with().config("dialect", json!("claude"))
}

/// A call of the delegation tool: these arguments, and a description where they have none.
pub(crate) fn agent(prompt: &str, more: Value) -> Piece {
    let mut input = json!({"description": "a piece of work", "prompt": prompt});
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call("Agent", input)
}

/// The requests of the conversation that began with these words.
pub(crate) fn requests_of(world: &World, words: &str) -> Vec<std::sync::Arc<Seen>> {
    world.model.requests().into_iter().filter(|seen| prompt(seen) == words).collect()
}

/// `posse run` with every fact as a line.
pub(crate) fn streamed(world: &World, args: &[&str], code: i32) -> Vec<Value> {
    world.run(&[&["--format", "stream-json"], args].concat()).expect_code(code).lines()
}

fn stream(world: &World) -> Running {
    world.start(&["run", "--format", "stream-json", "go"])
}

pub(crate) fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// The facts of one session, in their order.
fn told(world: &World, session: &str) -> Vec<Value> {
    let shown = world.posse(&["sessions", "show", session, "--format", "json"]).expect_code(0).json();
    shown["events"].as_array().unwrap().clone()
}

/// What the model was told as the result of its n-th call.
fn result(seen: &Seen, nth: usize) -> (&str, &str, bool) {
    let results = seen.results();
    let Some(Block::Result { id, text, error }) = results.get(nth) else { panic!("no result {nth}: {results:?}") };
    (id, text, *error)
}

/// The notices that a conversation has heard, in their order.
fn notices(seen: &Seen) -> Vec<String> {
    let texts = seen.user_texts().join("\n");
    texts.split("<task-notification>").skip(1).map(|part| part.split("</task-notification>").next().unwrap().to_owned()).collect()
}

/// What stands in an element of a notice.
fn element<'a>(notice: &'a str, name: &str) -> &'a str {
    let inside = notice.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    inside.unwrap_or_else(|| panic!("no {name} in {notice}")).0
}

/// The agent's id, as a result of a call names it.
fn id_in(result: &str) -> String {
    let named = result.split_once("agentId: ").unwrap_or_else(|| panic!("no id in {result}")).1;
    named.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}

/// The session of an agent of the tree, by the words it began with.
fn session_of<'a>(lines: &'a [Value], words: &str) -> &'a str {
    let queued = of_type(lines, "queued");
    let begun = queued.iter().find(|line| line["entry"]["parts"][0]["text"] == words);
    text(begun.unwrap_or_else(|| panic!("nobody was told {words:?}")), "session")
}

const REVIEWER: &str =
    "---\nname: code-reviewer\ndescription: Reviews changes for bugs\ntools: Read, Grep, Glob\n---\n\nYou review code.\n";

/// CC-001, CC-006, CC-008, CC-105, CC-107, CC-108, CC-109, CC-110, CC-225, CC-229, CC-234, CC-236, CC-241, CC-247, CC-259: the call
/// waits, beside another tool of the same reply; the answer is its result, and only then the caller is asked again.
#[test]
fn a_call_waits_for_its_agent_as_for_any_tool_and_the_answer_is_its_result() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = plan().file(".claude/agents/code-reviewer.md", REVIEWER).file("a.txt", "alpha\n").script(move |seen: &Seen| {
        match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([
                call("read", json!({"filePath": "a.txt"})),
                call("Agent", json!({"description": "review parser bug", "prompt": "review", "subagent_type": "code-reviewer"})),
            ]),
            ("go", _) => Answer::text("Reviewed."),
            (_, 0) => Answer::call("read", json!({"filePath": "a.txt"})),
            (_, _) => {
                held.pass();
                Answer::text("Looks good.").usage(500, 30, 0, 0)
            }
        }
    });
    let run = stream(&world);
    let task = task_in(&world, "review parser bug", "running");
    soon("the agent has read its file", || (requests_of(&world, "review").len() == 2).then_some(()));
    assert_eq!(requests_of(&world, "go").len(), 1, "CC-110: nobody asks the caller while it waits");
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    let (root, child) = (session_of(&lines, "go"), id(&task));
    let place = |session: &str, kind: &str, nth: usize| {
        let found = lines.iter().enumerate().filter(|(_, line)| line["session"] == session && line["type"] == kind).nth(nth);
        found.unwrap_or_else(|| panic!("no {kind} {nth} of {session}")).0
    };
    // CC-008: the loop of the agent, its end, the end as a result, the caller's next step.
    let order = [
        place(root, "called", 1),
        place(root, "task_started", 0),
        place(child, "created", 0),
        place(child, "step_started", 1),
        place(child, "ended", 0),
        place(root, "task_notification", 0),
        place(root, "step_started", 1),
    ];
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(of_type(&lines, "task_notification")[0]["to"], json!({"to": "call", "call": of_type(&lines, "task_started")[0]["call"]}));
    let queued = lines.iter().filter(|line| line["session"] == root && line["type"] == "queued").count();
    assert_eq!(queued, 1, "CC-109: only the user's words went through the queue");

    let last = requests_of(&world, "go").pop().unwrap();
    let answers = &last.messages[2];
    assert_eq!(
        (answers.role.as_str(), answers.blocks.len(), last.messages.len()),
        ("user", 2, 3),
        "one message has both results: {answers:?}"
    );
    let calls: Vec<&str> = last.calls().iter().map(|block| if let Block::Call { id, .. } = block { id.as_str() } else { "" }).collect();
    assert_eq!([result(&last, 0).0, result(&last, 1).0], calls[..], "each call has its own");
    let (_, words, error) = result(&last, 1);
    let (answer, rest) = words.split_once("\n\n").unwrap();
    assert_eq!((answer, error), ("Looks good.", false));
    assert!(rest.starts_with(&format!("agentId: {child} (use SendMessage with to: '{child}' to continue this agent)\n")), "{rest}");
    assert!(rest.contains("<usage>total_tokens: 650\ntool_uses: 1\nduration_ms: "), "CC-229: {rest}");
}

/// CC-233: a built-in agent that answers once is not worth a hint; one that failed can still be gone on with.
#[test]
fn an_agent_that_answers_once_has_no_trailer() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => {
            Answer::calls([agent("look", json!({"subagent_type": "explore"})), agent("fail", json!({"subagent_type": "explore"}))])
        }
        ("fail", _) => Answer::error(400, "no such thing"),
        (_, _) => Answer::text("Here."),
    });
    world.run(&["go"]).expect_code(0);
    let last = requests_of(&world, "go").pop().unwrap();
    assert_eq!(result(&last, 0).1, "Here.");
    assert!(result(&last, 1).1.contains("agentId: ses_"), "{:?}", result(&last, 1));
}

/// The kinds of facts of a session, without what comes and goes with timing.
fn kinds(world: &World, session: &str) -> Vec<String> {
    told(world, session).iter().map(|event| text(event, "type").to_owned()).collect()
}

/// CC-239, CC-240, CC-257, CC-183, CC-185, CC-238: one way to run an agent, whoever waits; what differs is who is told of the end, and how.
#[test]
fn waited_for_or_not_an_agent_runs_the_same_way() {
    let ends = [("fine", "completed", "I dug."), ("broken", "failed", "no such thing")];
    for (words, status, said) in ends {
        let mut seen_of = Vec::new();
        for background in [false, true] {
            let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
                ("go", 0) => Answer::calls([agent(words, json!({"run_in_background": background}))]),
                ("broken", _) => Answer::error(400, "no such thing"),
                (_, _) => Answer::text("I dug."),
            });
            let lines = streamed(&world, &["go"], 0);
            let child = session_of(&lines, words);
            let started = of_type(&lines, "task_started");
            assert_eq!((started.len(), &started[0]["wait"]), (1, &json!(!background)), "{words}");
            let ended = of_type(&lines, "task_notification");
            assert_eq!((ended.len(), &ended[0]["status"], text(ended[0], "result").contains(said)), (1, &json!(status), true), "{ended:?}");
            assert_eq!(ended[0]["to"]["to"], json!(if background { "queue" } else { "call" }), "{words}");
            let listed = tasks(&world);
            assert_eq!((listed.len(), &listed[0]["status"]), (1, &json!(status)), "CC-257: {listed:?}");
            let last = requests_of(&world, "go").pop().unwrap();
            assert_eq!((last.results().len(), notices(&last).len()), (1, usize::from(background)), "{words}");
            let own = requests_of(&world, words);
            seen_of.push((
                kinds(&world, child),
                own.len(),
                own[0].system.replace(world.folder().to_str().unwrap(), ""),
                own[0].messages.clone(),
            ));
        }
        assert_eq!(seen_of[0], seen_of[1], "{words}");
        let middle = if status == "completed" { "message" } else { "step_failed" };
        assert_eq!(seen_of[0].0, ["created", "configured", "queued", "step_started", middle, "ended"], "{words}");
    }
}

/// CC-020, CC-021, CC-047, CC-104, CC-115, CC-116: the call or the definition wants the background, and where it is switched off nobody
/// is offered it.
#[test]
fn in_the_background_by_the_call_or_by_the_definition_and_only_where_it_is_allowed() {
    let agents = json!({"slow": {"mode": "subagent", "prompt": "You are slow.", "background": true}});
    let script = |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([
            agent("plain", json!({})),
            agent("asked", json!({"run_in_background": true})),
            agent("refused", json!({"run_in_background": false})),
            agent("defined", json!({"subagent_type": "slow"})),
            agent("defined, not asked", json!({"subagent_type": "slow", "run_in_background": false})),
        ]),
        (_, _) => Answer::text("ok"),
    };
    let waits = |lines: &[Value]| -> Vec<(String, bool)> {
        let started = of_type(lines, "task_started");
        started.iter().map(|line| (text(&line["spawn"], "prompt").to_owned(), line["wait"].as_bool().unwrap())).collect()
    };
    let offers =
        |world: &World| world.model.requests()[0].tool("Agent").unwrap()["input_schema"]["properties"]["run_in_background"].is_object();
    let world = plan().config("agent", agents.clone()).script(script);
    let lines = streamed(&world, &["go"], 0);
    let expected = [("plain", true), ("asked", false), ("refused", true), ("defined", false), ("defined, not asked", false)];
    assert_eq!(waits(&lines), expected.map(|(words, waits)| (words.to_owned(), waits)));
    assert!(offers(&world));

    let world = plan().config("agent", agents).env("POSSE_DISABLE_BACKGROUND", "1").script(script);
    let lines = streamed(&world, &["go"], 0);
    assert!(!offers(&world), "CC-021: what cannot be chosen is not shown");
    let expected = [("plain", true), ("refused", true), ("defined", true), ("defined, not asked", true)];
    assert_eq!(waits(&lines), expected.map(|(words, waits)| (words.to_owned(), waits)));
    let last = requests_of(&world, "go").pop().unwrap();
    let (_, words, error) = result(&last, 1);
    assert!(error && words.contains("background work is switched off here"), "{words}");
}

/// CC-010, CC-011, CC-012, CC-013, CC-007: a label for people and the words for the agent, both needed, never mixed.
#[test]
fn a_description_is_for_lists_and_a_prompt_is_all_that_an_agent_hears() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([
            call("Agent", json!({"description": "xyzzy label", "prompt": "dig", "run_in_background": true})),
            call("Agent", json!({"prompt": "without a label"})),
            call("Agent", json!({"description": "without words"})),
            call("Agent", json!({"description": 7, "prompt": "with a number"})),
        ]),
        (_, _) => Answer::text("ok"),
    });
    let lines = streamed(&world, &["go"], 0);
    let schema = world.model.requests()[0].tool("Agent").unwrap()["input_schema"].clone();
    assert_eq!(schema["required"], json!(["description", "prompt"]));
    assert_eq!(
        (&schema["properties"]["description"]["type"], &schema["properties"]["prompt"]["type"]),
        (&json!("string"), &json!("string"))
    );
    assert!(text(&schema["properties"]["description"], "description").contains("3-5 word"), "{schema}");
    let last = requests_of(&world, "go").pop().unwrap();
    for (nth, missing) in [(1, "description"), (2, "prompt"), (3, "description")] {
        let (_, words, error) = result(&last, nth);
        assert!(error && words.contains(&format!("`{missing}`")), "{nth}: {words}");
    }
    assert_eq!(of_type(&lines, "task_started").len(), 1, "what is wrong starts nobody");

    let heard = requests_of(&world, "dig");
    assert_eq!((heard.len(), heard[0].user_texts()), (1, vec!["dig"]), "CC-013: its first and only words");
    assert!(!String::from_utf8_lossy(&heard[0].body).contains("xyzzy"), "CC-011: the label is not for the agent");
    let child = session_of(&lines, "dig");
    let created = lines.iter().find(|line| line["type"] == "created" && line["session"] == child).unwrap();
    assert!(text(created, "title").starts_with("xyzzy label"), "{created}");
    let launched = |line: &&&Value| line["outcome"]["metadata"]["status"] == "async_launched";
    let launch = of_type(&lines, "call_finished").iter().find(launched).unwrap()["outcome"]["metadata"].clone();
    assert_eq!(launch["description"], "xyzzy label");
    assert_eq!(element(&notices(&last)[0], "summary"), "Agent \"xyzzy label\" completed");
    for args in [&["tasks"][..], &["sessions", "tree"], &["why", child]] {
        assert!(world.posse(args).expect_code(0).out.contains("xyzzy label"), "{args:?}");
    }
}

/// CC-250, CC-281, CC-226, CC-230, CC-235, CC-237, CC-255, CC-248, CC-260: what a call was told stays as it was; the end is a message of its own, later.
#[test]
fn the_first_result_of_a_background_agent_is_never_changed() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = plan().file("a.txt", "alpha\n").script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("dig", json!({"subagent_type": "general-purpose", "run_in_background": true}))]),
        // It is not held up, and may read the file meanwhile.
        ("go", 1) => Answer::call("read", json!({"filePath": result(seen, 0).1.rsplit_once("output_file: ").unwrap().1})),
        ("go", 2) => {
            held.open();
            Answer::text("It runs.")
        }
        ("go", _) => Answer::text("Heard."),
        (_, 0) => Answer::text("I begin.").and_call("read", json!({"filePath": "a.txt"})),
        (_, _) => {
            gate.pass();
            Answer::text("I dug.")
        }
    });
    let lines = streamed(&world, &["go"], 0);
    assert_eq!(lines.last().unwrap()["result"], "Heard.");
    let asked = requests_of(&world, "go");
    let (first, last) = (&asked[1], &asked[3]);
    let (_, launched, error) = result(first, 0);
    assert!(!error && launched.starts_with("status: async_launched\n") && launched.contains("never guess it"), "{launched}");
    assert_eq!(result(last, 0), result(first, 0), "the old result is as it was");
    assert_eq!(last.messages[..3], first.messages[..], "and so is everything before it");
    let heard = notices(last);
    assert_eq!((heard.len(), notices(first).len(), last.messages.last().unwrap().role.as_str()), (1, 0, "user"));
    assert_eq!((element(&heard[0], "task-id"), element(&heard[0], "tool-use-id")), (id_in(launched).as_str(), result(first, 0).0));
    assert!(!result(&asked[2], 1).2, "CC-255, CC-260: it can be read at once: {:?}", result(&asked[2], 1));
    let launch = &of_type(&lines, "call_finished")[0]["outcome"]["metadata"];
    let mut fields: Vec<&str> = launch.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["agentId", "canReadOutputFile", "description", "outputFile", "prompt", "status"], "CC-230");
    assert_eq!((text(launch, "agentId"), text(launch, "status")), (id_in(launched).as_str(), "async_launched"));
    assert_eq!(of_type(&lines, "call_finished")[0]["outcome"]["output"], launched, "CC-235: data for programs, words for the model");
}

/// CC-106, CC-251, CC-252, CC-253, CC-254, CC-256: while it works, waited for or not, people and scripts see how far it is, a file has its
/// words and its log has its messages; the caller's model hears of it once, at the end.
#[test]
fn progress_result_and_transcript_are_three_things() {
    for background in [false, true] {
        let gate = Gate::default();
        let held = gate.clone();
        let world = plan().file("a.txt", "alpha\n").script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([agent("dig", json!({"description": "dig deep", "run_in_background": background}))]),
            ("go", _) => Answer::text("ok"),
            (_, 0) => Answer::text("I begin.").and_call("read", json!({"filePath": "a.txt"})),
            (_, _) => {
                held.pass();
                Answer::text("I dug.")
            }
        });
        let run = stream(&world);
        let task = task_in(&world, "dig deep", "running");
        soon("its first step is told of", || run.out_so_far().contains("task_progress").then_some(()));
        let early = run.out_so_far();
        let seen_live =
            early.lines().any(|line| line.contains("\"type\":\"message\"") && line.contains("I begin.") && line.contains(id(&task)));
        assert!(seen_live && !early.contains("task_notification"), "CC-106, CC-252: {early}");
        let listed = world.posse(&["tasks"]).expect_code(0).out;
        assert!(listed.contains("last: read a.txt"), "{listed}");
        let transcript = told(&world, id(&task));
        assert!(transcript.iter().any(|event| event["type"] == "message" && event["text"] == "I begin."), "CC-256: {transcript:?}");
        let file = output_file(&world, id(&task));
        soon("its file has its words", || std::fs::read_to_string(&file).unwrap().contains("I begin.").then_some(()));
        gate.open();
        let lines = run.wait(LONG).expect_code(0).lines();
        assert_eq!(of_type(&lines, "task_notification").len(), 1, "{background}");
        let heard: Vec<String> = requests_of(&world, "go").iter().map(|seen| all_texts(seen)).collect();
        assert!(heard.iter().all(|heard| !heard.contains("I begin.")), "the caller's model has the result only: {heard:?}");
        assert_eq!(heard.last().unwrap().matches("I dug.").count(), 1, "{background}: {heard:?}");
        assert!(std::fs::read_to_string(file).unwrap().contains("I dug."), "CC-254: also of one that was waited for");
    }
}

/// Where a task's words go.
fn output_file(world: &World, task: &str) -> std::path::PathBuf {
    let projects = std::fs::read_dir(world.posse_home.join("data/projects")).unwrap();
    let files = projects.map(|project| project.unwrap().path().join("spool").join(task).join("output.txt"));
    files.into_iter().find(|file| file.is_file()).unwrap_or_else(|| panic!("{task} has no file"))
}

/// CC-022, CC-024, CC-145, CC-258, CC-261, CC-280, CC-289: a name or an id reaches an agent that works and one that has ended; what it goes
/// on from is its log, in another process too, and not the file that people read.
#[test]
fn an_agent_is_spoken_to_by_name_or_id_and_goes_on_from_its_log() {
    let said = |to: &str, words: &str| call("SendMessage", json!({"to": to, "message": words, "summary": "more to do"}));
    let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.user_texts().len(), seen.steps()) {
        ("go", 1, 0) => Answer::calls([agent("dig", json!({"name": "flaky-investigator"}))]),
        ("go", 1, _) => Answer::text("Dug."),
        ("go", 2, 2) => Answer::calls([said("flaky-investigator", "look left")]),
        ("go", _, 3) => Answer::text("Told by name."),
        ("go", 3, 4) => Answer::calls([said(&id_in(result(seen, 0).1), "look right")]),
        ("go", _, _) => Answer::text("ok"),
        (_, _, _) => Answer::text(&format!("heard {:?}", seen.user_texts())),
    });
    let lines = streamed(&world, &["go"], 0);
    let child = session_of(&lines, "dig").to_owned();
    std::fs::remove_file(output_file(&world, &child)).unwrap();
    let lines = streamed(&world, &["-c", "more"], 0);
    let updated: Vec<(&str, &str)> =
        of_type(&lines, "task_updated").into_iter().map(|line| (text(line, "status"), text(line, "task"))).collect();
    assert_eq!(updated, [("resumed", child.as_str()); 2], "by its name, then by its id");
    let heard = requests_of(&world, "dig");
    assert_eq!(heard.len(), 3);
    assert_eq!(heard[1].messages[..1], heard[0].messages[..], "it has its first words before it");
    assert_eq!((heard[1].steps(), heard[2].steps()), (1, 2), "and its first answer");
    for (seen, words) in [(&heard[1], "look left"), (&heard[2], "look right")] {
        let last = *seen.user_texts().last().unwrap();
        assert!(last.starts_with("[message from the agent build (") && last.ends_with(words), "{last}");
    }
    let asked = requests_of(&world, "go");
    let answered = asked.iter().find(|seen| seen.results().len() == 2).unwrap();
    assert!(result(answered, 1).1.contains("was not running: it was resumed in the background"), "{:?}", result(answered, 1));
    assert!(element(&notices(asked.last().unwrap())[0], "result").contains("look left"));
    let why = world.posse(&["why", "flaky-investigator"]).expect_code(0).out;
    assert!(why.contains("round 2  started again by a message of ") && why.contains("round 3  started again by a message of "), "{why}");
}

/// CC-173: an interrupt of the turn is the interrupt of what it waits for; the caller is not asked what to make of it.
#[test]
fn an_abort_while_an_agent_is_waited_for_is_the_turns_interrupt() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.user_texts().len(), seen.steps()) {
        ("go", 1, 0) => Answer::calls([agent("dig", json!({}))]),
        ("go", 1, _) => Answer::text("never"),
        ("go", _, _) => Answer::text("later"),
        (_, _, _) => Answer::text("Half of it is").stalled_after(700),
    });
    let run = stream(&world);
    assert!(world.model.wait_for_requests(2));
    soon("it has begun to speak", || run.out_so_far().contains("text_delta").then_some(()));
    run.interrupt();
    let lines = run.wait(LONG).expect_code(130).lines();
    assert_eq!((requests_of(&world, "go").len(), lines.last().unwrap()["status"].as_str()), (1, Some("interrupted")));
    let root = session_of(&lines, "go");
    let facts = told(&world, root);
    assert!(facts.iter().any(|event| event["type"] == "interrupted"), "{facts:?}");
    assert!(facts.iter().all(|event| event["type"] != "step_started" || event["step"] == 0), "no next step: {facts:?}");
    // Its call has an answer all the same, which is heard when the user speaks again.
    assert_eq!(world.run(&["-c", "and now?"]).expect_code(0).out, "later\n");
    let last = world.model.last();
    let (_, words, error) = result(&last, 0);
    assert!(error && words.contains("stopped"), "{words}");
    assert_eq!((requests_of(&world, "dig").len(), last.results().len()), (1, 1), "and nobody has begun again");
}

/// CC-174, CC-175, CC-225: an error of the agent's model gives what there is, with the error; where there is nothing it is an error alone.
#[test]
fn an_agent_whose_model_fails_gives_what_it_has_said() {
    for (words, has_text) in [("I found the cause.", true), ("", false)] {
        let world = plan().file("a.txt", "alpha\n").script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([agent("dig", json!({}))]),
            ("go", _) => Answer::text("Then I do it."),
            (_, 0) if has_text => Answer::text(words).and_call("read", json!({"filePath": "a.txt"})),
            (_, _) => Answer::error(400, "the prompt is not acceptable"),
        });
        assert_eq!(world.run(&["go"]).expect_code(0).out, "Then I do it.\n", "the caller goes on");
        let last = world.model.last();
        let (_, told, error) = result(&last, 0);
        assert!(
            error && told.starts_with("The task failed before it was done: ") && told.contains("the prompt is not acceptable"),
            "{told}"
        );
        assert_eq!(told.contains("The last it had said:\nI found the cause."), has_text, "{told}");
        assert_eq!(told.contains("The last it had said"), has_text, "{told}");
    }
}

/// CC-186, CC-187, CC-163, CC-165, CC-188: a read that waits returns with the end, which is recorded before anything else is done about it; no notice comes.
#[test]
fn a_read_that_waits_returns_when_the_end_is_recorded() {
    let (gate, begun) = (Gate::default(), Gate::default());
    let (held, there) = (gate.clone(), begun.clone());
    let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("dig", json!({"run_in_background": true, "name": "digger"}))]),
        ("go", 1) => {
            there.pass();
            Answer::call("TaskOutput", json!({"task_id": "digger", "block": true, "timeout": 60_000}))
        }
        ("go", _) => Answer::text("Read."),
        (_, _) => {
            there.open();
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = stream(&world);
    soon("it waits", || run.out_so_far().contains("\"status\":\"awaited\"").then_some(()));
    // Work that is left for after its end, and cannot be done: a pipe that nobody reads in the place of its file.
    let task = task_in(&world, "a piece of work", "running");
    let file = output_file(&world, id(&task));
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    let root = session_of(&lines, "go");
    let place = |session: &str, kind: &str| lines.iter().position(|line| line["session"] == session && line["type"] == kind).unwrap();
    assert!(place(id(&task), "ended") < place(root, "task_notification"));
    let ended = of_type(&lines, "task_notification");
    assert_eq!((ended.len(), &ended[0]["to"]["to"]), (1, &json!("call")), "{ended:?}");
    let last = world.model.last();
    let (_, read, error) = result(&last, 1);
    assert!(!error && element(read, "status") == "completed" && element(read, "result") == "I dug.", "{read}");
    assert_eq!((notices(&last).len(), lines.last().unwrap()["result"].as_str()), (0, Some("Read.")));
}

/// CC-186, CC-255: the end is durable before anybody is told: after a crash in between nothing is done twice, and the end is told once.
#[test]
fn an_end_that_is_recorded_survives_a_crash_before_it_is_told() {
    let script = |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("dig", json!({"run_in_background": true}))]),
        ("go", _) if notices(seen).is_empty() => Answer::text("It runs."),
        ("go", _) => Answer::text("Heard."),
        (_, _) => Answer::text("I dug."),
    };
    let mut in_between = 0;
    for append in 1..30 {
        let world = plan().script(script);
        let died = world.command(&["run", "go"]).env("POSSE_CRASH_AT", &format!("after_append:{append}")).run();
        if died.signal.is_none() {
            assert!(0 < in_between, "there is a moment between an agent's end and its caller's knowledge of it");
            return;
        }
        let all = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        let root = text(&all[0], "session").to_owned();
        let facts = told(&world, &root);
        let launch = facts.iter().find_map(|event| event["outcome"]["metadata"]["outputFile"].as_str());
        assert!(launch.is_none_or(|file| std::path::Path::new(file).exists()), "append {append}: a file that is told of is there");
        let started = facts.into_iter().find(|event| event["type"] == "task_started");
        let has = |session: &str, kind: &str| told(&world, session).iter().any(|event| event["type"] == kind);
        let is_between = started.is_some_and(|started| {
            let task = text(&started, "task").to_owned();
            world.posse(&["why", &task]).code == Some(0) && has(&task, "ended") && !has(&root, "task_notification")
        });
        let asked = requests_of(&world, "dig").len();
        let resumed = world.posse(&["sessions", "resume", &root]).expect_code(0);
        assert_eq!(resumed.out, "Heard.\n", "append {append}: {resumed:?}");
        assert_eq!(notices(&requests_of(&world, "go").pop().unwrap()).len(), 1, "append {append}");
        if is_between {
            in_between += 1;
            assert_eq!(requests_of(&world, "dig").len(), asked, "append {append}: what has ended is not asked again");
        }
    }
    panic!("a run has an end");
}

const AUDIT: &str = "---\ndescription: Audits\ncontext: fork\nallowed-tools: Bash(git log:*)\n---\nAudit $ARGUMENTS.\n";

/// A user with a skill that runs apart, and rules that ask before `git log`.
fn auditing(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> World {
    let world = plan().config("permission", json!({"bash": {"*": "allow", "git log*": "ask"}})).script(script);
    for (name, words) in [("audit-auth", AUDIT), ("pdf", "---\ndescription: Fill in forms\n---\nThe word is plugh.\n")] {
        let folder = world.posse_home.join("skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), words).unwrap();
    }
    world
}

/// What a conversation began with; of a skill's text the folder it stands in follows.
fn first_line(seen: &Seen) -> &str {
    prompt(seen).lines().next().unwrap()
}

/// CC-003, CC-244: who runs a skill that forks waits for it and has its answer; no model has called for it, and none is asked after it.
#[test]
fn a_skill_that_forks_is_run_by_the_user_and_waited_for() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = auditing(move |seen: &Seen| match (first_line(seen), seen.steps()) {
        ("Audit the login.", 0) => {
            held.pass();
            Answer::call("bash", json!({"command": "git log --oneline", "description": "d"}))
        }
        ("Audit the login.", _) => Answer::text("Two holes."),
        (_, _) => Answer::text("as you saw"),
    });
    let mut run = world.start(&["run", "--format", "stream-json", "/audit-auth the login"]);
    assert!(world.model.wait_for_requests(1));
    assert!(!run.has_ended() && !run.out_so_far().contains("\"type\":\"result\""), "CC-244: the command waits");
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    assert_eq!(lines.last().unwrap()["result"], "Two holes.");
    let asked = world.model.requests();
    assert!(asked.iter().all(|seen| first_line(seen) == "Audit the login."), "only the fork's own steps");
    let used = asked.iter().flat_map(|seen| seen.calls()).any(|block| matches!(block, Block::Call { name, .. } if name == "Agent"));
    assert!(!used, "no model has called Agent");
    assert_eq!((of_type(&lines, "task_started").len(), &of_type(&lines, "task_started")[0]["wait"]), (1, &json!(true)));
    assert_eq!(world.run(&["-c", "so?"]).expect_code(0).out, "as you saw\n");
    assert!(all_texts(&world.model.last()).contains("Two holes."), "the main conversation has its output");
}

/// CC-180, CC-181, CC-178: what belonged to one agent is gone with it: skills it had loaded, what it was allowed, files it needed on the way.
#[test]
fn what_belonged_to_an_agent_ends_with_it() {
    let world = auditing(|seen: &Seen| match (first_line(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("load", json!({}))]),
        ("go", 1) => Answer::calls([agent("plain", json!({}))]),
        ("load", 0) => Answer::call("skill", json!({"name": "pdf"})),
        ("load" | "Audit it.", 1) | ("list", 1) => Answer::text(seen.last_results()[0]),
        ("Audit it." | "list", 0) => Answer::call("bash", json!({"command": "git log --oneline", "description": "d"})),
        (_, _) if seen.user_texts().last() == Some(&"again") => match seen.last_results().first() {
            None => Answer::calls([agent("list", json!({}))]),
            Some(_) => Answer::text("over"),
        },
        (_, _) => Answer::text("ok"),
    });
    let temporary = world.folder().join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let run = |args: &[&str], code: i32| {
        let done = world.command(&[&["run", "--format", "json"], args].concat()).env("TMPDIR", temporary.to_str().unwrap()).run();
        done.expect_code(code).json()
    };
    run(&["go"], 0);
    assert!(all_texts(&requests_of(&world, "load")[1]).contains("The word is plugh."), "the one had it");
    assert!(!String::from_utf8_lossy(&requests_of(&world, "plain")[0].body).contains("plugh"), "CC-180: the next has not");
    // The fork was allowed to look at the history; the next agent of the same kind is not.
    let forked = run(&["/audit-auth it"], 0);
    assert!(text(&forked, "result").contains("init"), "{forked}");
    let later = run(&["-c", "again"], 4);
    let denied = later["denied"].as_array().unwrap();
    assert_eq!((denied.len(), &denied[0]["what"]), (1, &json!("bash(git log --oneline)")), "{later}");
    // CC-181: nothing lies about but the log and the file of each agent.
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    for entry in [forked, later].iter().flat_map(|done| done["tree"].as_array().unwrap()).filter(|entry| entry["kind"] == "task") {
        let folder = output_file(&world, text(entry, "session")).parent().unwrap().to_owned();
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        // What every shell begins with, the same for all.
        names.retain(|name| name != "startup.sh");
        assert_eq!(names, ["output.txt"], "{entry}");
    }
    assert!(world.processes_left_after(LONG).is_empty());
    assert!(tasks(&world).iter().all(|task| task["status"] == "completed"), "CC-178: none is held as working");
}

/// CC-286, CC-287, CC-288: from an argument to whom it led, from a call to what it waits for, from an end to the step that heard of it, all of
/// it from the logs.
#[test]
fn every_hop_of_a_call_can_be_followed() {
    let world = plan().config("models", json!({"haiku": "mock/m2"})).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([
            agent("wait for me", json!({"model": "haiku", "subagent_type": "explore", "name": "waited"})),
            agent("go ahead", json!({"run_in_background": true, "name": "noticed", "mode": "plan"})),
        ]),
        (_, _) => Answer::text("ok"),
    });
    let lines = streamed(&world, &["go"], 0);
    let (called, started) = (of_type(&lines, "called"), of_type(&lines, "task_started"));
    assert_eq!((called.len(), started.len()), (2, 2));
    let rows = [("waited", "explore", "mock/m2", json!("haiku"), true), ("noticed", "general", "mock/m1", Value::Null, false)];
    for (name, who, model, wanted, waits) in rows {
        let start = started.iter().find(|line| line["spawn"]["name"] == name).unwrap();
        let call = called.iter().find(|line| line["call"] == start["call"]).unwrap();
        // As the model wrote it, as it was understood, and what was made of it.
        let written: Value = serde_json::from_str(text(call, "input")).unwrap();
        assert_eq!((&written["name"], &written["prompt"]), (&json!(name), &start["spawn"]["prompt"]));
        assert_eq!((call["touches"][0]["pattern"].as_str(), text(&start["spawn"], "agent")), (Some(who), who));
        assert_eq!((&start["spawn"]["model"], &start["wait"]), (&wanted, &json!(waits)), "{start}");
        let child = text(start, "task");
        let born = lines.iter().find(|line| line["type"] == "created" && line["session"] == child).unwrap();
        assert_eq!(born["recipe"], json!({"agent": who, "model": model}));
        let judged = world.posse(&["why", text(call, "call")]).expect_code(0).out;
        assert!(judged.contains("Agent") && judged.contains("allow") && judged.contains(&format!("task({who})")), "CC-286: {judged}");
    }
    let why = |name: &str| world.posse(&["why", name]).expect_code(0).out;
    let rows = [
        ("waited", ["(Agent), which waits for it", "completed: recorded in its own log", "told as the result of call_"]),
        ("noticed", ["(Agent), in the background", "told by a notice, msg_", "the notice was taken at step "]),
    ];
    for (name, hops) in rows {
        let told = why(name);
        let places: Vec<Option<usize>> = hops.iter().map(|hop| told.find(hop)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "CC-287, CC-288: {hops:?} in {told}");
    }
    // The notice that was queued is the one that a step took.
    let ended = of_type(&lines, "task_notification").into_iter().find(|line| line["to"]["to"] == "queue").unwrap();
    let took = lines.iter().filter(|line| line["type"] == "step_started" && line["session"] == ended["session"]);
    let taken = took.filter(|line| line["took"].as_array().unwrap().contains(&ended["to"]["entry"])).count();
    assert_eq!(taken, 1, "{ended}");
}

/// CC-126, CC-128, CC-130, CC-188: twenty-four at once over a lane of three: never more than three requests, and every end is told once.
#[test]
fn twenty_four_agents_share_three_places_and_each_is_told_of_once() {
    const AGENTS: usize = 24;
    let world = plan().config("concurrency", json!({"mock": 3})).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls(
            (0..AGENTS)
                .map(|part| agent(&format!("part {part}"), json!({"description": format!("dig {part}"), "run_in_background": true}))),
        ),
        ("go", _) => Answer::text(&format!("{} told", notices(seen).len())),
        (words, _) => Answer::text(&format!("done with {words}")).after(std::time::Duration::from_millis(30)),
    });
    let lines = streamed(&world, &["go"], 0);
    assert_eq!(lines.last().unwrap()["result"], format!("{AGENTS} told"));
    assert_eq!(world.model.max_in_flight(), 3, "never more, and no place stays empty");
    let last = requests_of(&world, "go").pop().unwrap();
    let heard = notices(&last);
    let mut results: Vec<&str> = heard.iter().map(|notice| element(notice, "result")).collect();
    results.sort_unstable();
    let mut expected: Vec<String> = (0..AGENTS).map(|part| format!("done with part {part}")).collect();
    expected.sort_unstable();
    assert_eq!(results, expected, "all of them, none twice");
    let launched: std::collections::HashSet<String> = (0..AGENTS).map(|nth| id_in(result(&last, nth).1)).collect();
    let told: std::collections::HashSet<String> = heard.iter().map(|notice| element(notice, "task-id").to_owned()).collect();
    assert_eq!((launched.len(), &told), (AGENTS, &launched));
    assert_eq!(of_type(&lines, "task_notification").len(), AGENTS);
    assert!((0..AGENTS).all(|part| requests_of(&world, &format!("part {part}")).len() == 1));
}

/// CC-273, CC-274, CC-285, CC-144, CC-160: what the model is told when it has to choose.
#[test]
fn the_tools_teach_when_to_use_which() {
    let world = plan().file(".claude/agents/code-reviewer.md", REVIEWER).script(|_: &Seen| "ok");
    world.run(&["go"]).expect_code(0);
    let seen = world.model.last();
    let taught = |tool: &str| text(seen.tool(tool).unwrap_or_else(|| panic!("no {tool}")), "description").to_owned();
    let rows = [
        ("Agent", "- code-reviewer: Reviews changes for bugs\n", "CC-273: who there is, and for what"),
        ("Agent", "Name one of them in `subagent_type`", "CC-273"),
        ("Agent", "the work fits what one of them is for", "CC-273"),
        ("Agent", "with its own tools, its own instructions and none of this conversation", "CC-273"),
        ("Agent", "Long work that need not hold you up: `run_in_background: true`", "CC-274"),
        ("Agent", "You do not know the result before: never guess it", "CC-144"),
        ("TaskOutput", "Deprecated: use Read on the output_file of the agent instead", "CC-285, CC-160"),
        ("TaskOutput", "to wait for a background agent when you cannot go on without its result", "CC-285"),
        ("SendMessage", "after a long time the agentId is the safer one", "CC-261"),
    ];
    for (tool, words, what) in rows {
        assert!(taught(tool).contains(words), "{what}: {}", taught(tool));
    }
    let without = world.command(&["run", "go"]).env("POSSE_DISABLE_BACKGROUND", "1").run();
    without.expect_code(0);
    assert!(!text(world.model.last().tool("Agent").unwrap(), "description").contains("run_in_background"), "CC-021: nor is it spoken of");
}

/// CC-009: which file is which unit, and what each must not know: a structure, so it is the structure that is looked at.
#[test]
fn the_units_of_delegation_are_apart() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let rows: [(&str, &str, &[&str], &[&str]); 6] = [
        (
            "the tool: arguments, whom they mean, words",
            "tools/src/delegate/spawn.rs",
            &["impl Tool for Delegation"],
            &["posse_engine", "Event::"],
        ),
        ("what runs any tool", "engine/src/work.rs", &["dyn Tool"], &["posse_tools", "\"Agent\"", "Dialect"]),
        (
            "the loop of every session, a caller's or an agent's",
            "engine/src/run.rs",
            &["impl Run"],
            &["posse_tools", "\"Agent\"", "Dialect"],
        ),
        ("who an agent is: prompt, tools, rights", "cli/src/wardrobe.rs", &["impl Outfits for Wardrobe"], &["Event::", "Model::reply"]),
        ("the register: started, ended, told", "session/src/delegation.rs", &["TaskEnded"], &["async ", "tokio", "std::fs"]),
        ("the queue that carries a notice", "session/src/queue.rs", &["Queue"], &["async ", "tokio", "Tool"]),
    ];
    for (unit, file, has, lacks) in rows {
        let source = std::fs::read_to_string(crates.join(file)).unwrap_or_else(|error| panic!("{unit}: {file}: {error}"));
        let code: String = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        assert!(has.iter().all(|word| code.contains(word)), "{unit}: {file} no longer has {has:?}");
        let known: Vec<&&str> = lacks.iter().filter(|word| code.contains(**word)).collect();
        assert!(known.is_empty(), "{unit}: {file} knows {known:?}");
    }
    for (one, other) in [("tools", "engine"), ("engine", "tools"), ("session", "engine"), ("session", "tools")] {
        let manifest = std::fs::read_to_string(crates.join(one).join("Cargo.toml")).unwrap();
        let depends = manifest.split("[dev-dependencies]").next().unwrap().contains(&format!("posse-{other}"));
        assert!(!depends, "{one} depends on {other}");
    }
}
