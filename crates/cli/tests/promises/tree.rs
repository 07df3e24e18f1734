//! What people and scripts see of a team: progress lines, the picture on a terminal, the stream, trees and tasks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Done, Seen, World, call};

fn delegate(description: &str, prompt: &str) -> crate::support::answer::Piece {
    call("agent", json!({"description": description, "prompt": prompt, "subagent_type": "explore"}))
}

/// The prompt that a conversation began with.
fn prompt(seen: &Seen) -> &str {
    seen.user_texts()[0]
}

/// Two agents look at one file each, then the root sums up.
fn team() -> World {
    World::with().file("a.txt", "alpha\n").file("b.txt", "beta\n").script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("look around", 0) => Answer::calls([delegate("layout", "read a.txt"), delegate("tests and docs", "read b.txt")]),
        ("look around", _) => Answer::text("Both have reported."),
        (child, 0) => Answer::call("read", json!({"filePath": child.trim_start_matches("read ")})),
        (child, _) => Answer::text(&format!("I have done this: {child}.")),
    })
}

#[test]
fn without_a_terminal_every_agent_has_a_line_at_its_start_and_one_at_its_end() {
    let world = team();
    let done = world.run(&["look around"]).expect_code(0);
    assert_eq!(done.out, "Both have reported.\n");
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(lines.len(), 6, "{}", done.err);
    assert!(lines[0].starts_with("● build  ses_") && lines[0].ends_with("mock/m1"), "{}", done.err);
    for agent in ["explore  layout", "explore  tests and docs"] {
        let start = lines.iter().position(|line| *line == format!("  ● {agent}")).unwrap_or_else(|| panic!("{}", done.err));
        let end =
            lines.iter().position(|line| line.starts_with(&format!("  ✓ {agent}  1 call  "))).unwrap_or_else(|| panic!("{}", done.err));
        assert!(start < end && lines[end].ends_with(" s"), "{}", done.err);
    }
    let root = lines[0].split("  ").nth(1).unwrap();
    assert!(lines[5].starts_with("● build  done in ") && lines[5].contains(" · 3 sessions · $0.0036 · "), "{}", done.err);
    assert!(lines[5].ends_with(&format!("look closer: posse sessions tree {root}")), "{}", done.err);
    assert_eq!(world.run(&["-q", "look around"]).expect_code(0).err, "");
}

/// What a terminal shows after these bytes, if it were wide enough for every line.
fn shown(bytes: &str) -> Vec<String> {
    let (mut rows, mut row, mut column): (Vec<Vec<char>>, usize, usize) = (vec![Vec::new()], 0, 0);
    let mut letters = bytes.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => {
                row += 1;
                rows.resize(rows.len().max(row + 1), Vec::new());
            }
            '\r' => column = 0,
            '\x1b' => {
                letters.next();
                let count: String = std::iter::from_fn(|| letters.next_if(char::is_ascii_digit)).collect();
                match letters.next() {
                    Some('A') => row -= count.parse::<usize>().unwrap(),
                    Some('J') => {
                        rows[row].truncate(column);
                        rows.truncate(row + 1);
                    }
                    other => panic!("{other:?} in {bytes:?}"),
                }
            }
            letter => {
                let width = rows[row].len().max(column + 1);
                rows[row].resize(width, ' ');
                rows[row][column] = letter;
                column += 1;
            }
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>()).collect()
}

#[test]
fn on_a_terminal_the_team_is_a_picture_that_ends_as_a_tree() {
    let world = team();
    let terminal = world.command(&["run", "look around"]).env("TERM", "xterm").at_terminal();
    let done = terminal.wait().expect_code(0);
    let screen = shown(&done.err);
    assert_eq!(screen.len(), 5, "{screen:#?}");
    assert!(screen[0].starts_with("● build  ses_") && screen[0].ends_with("  delegating to 2 agents"), "{screen:#?}");
    assert!(screen[1].starts_with("├─ ✓ explore  layout           1 call  ") && screen[1].ends_with(" s"), "{screen:#?}");
    assert!(screen[2].starts_with("└─ ✓ explore  tests and docs   1 call  "), "{screen:#?}");
    assert!(screen[3].starts_with("done in ") && screen[3].contains(" · 3 sessions · $0.0036 · look closer: "), "{screen:#?}");
    assert_eq!(screen[4], "");
}

#[test]
fn a_terminal_that_cannot_move_gets_lines() {
    let world = team();
    let done = world.command(&["run", "look around"]).at_terminal().wait().expect_code(0);
    assert!(!done.err.contains('\x1b') && done.err.contains("  ● explore  layout"), "{}", done.err);
    assert!(done.err.contains("  ✓ explore  tests and docs  1 call  "), "{}", done.err);
}

/// One agent, whose last answer takes its time.
fn slow() -> World {
    World::with().file("a.txt", "alpha\n").script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("look around", 0) => Answer::calls([delegate("layout", "read a.txt")]),
        ("look around", _) => Answer::text("It has reported."),
        (_, 0) => Answer::call("read", json!({"filePath": "a.txt"})),
        (_, _) => Answer::text("done").after(Duration::from_secs(2)),
    })
}

#[test]
fn who_is_at_work_is_shown_with_what_it_does() {
    let world = slow();
    let terminal = world.command(&["run", "look around"]).env("TERM", "xterm").at_terminal();
    terminal.sees("└─ ● explore  layout   1 call  ");
    terminal.sees(" s  read a.txt");
    let done = terminal.wait().expect_code(0);
    assert!(shown(&done.err)[1].starts_with("└─ ✓ explore  layout   1 call  "), "{}", done.err);
}

#[test]
fn the_stream_tells_how_far_a_task_is() {
    let world = slow();
    let lines = world.run(&["--format", "stream-json", "look around"]).expect_code(0).lines();
    let progress: Vec<&Value> = lines.iter().filter(|line| line["type"] == "task_progress").collect();
    assert_eq!(progress.len(), 1, "{progress:#?}");
    let task = &lines.iter().find(|line| line["type"] == "task_started").unwrap()["task"];
    assert_eq!((&progress[0]["task"], &progress[0]["session"], &progress[0]["calls"]), (task, &lines[0]["session"], &json!(1)));
    assert_eq!(progress[0]["last_action"], "read a.txt");
}

/// An agent below the root wants to push, which asks.
fn pushing() -> World {
    World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})).script(|seen: &Seen| {
        match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::call("agent", json!({"description": "make it", "prompt": "touch it", "subagent_type": "general"})),
            ("go", _) => Answer::text("It is over."),
            (_, 0) => Answer::call("bash", json!({"command": "touch made"})),
            (_, _) => Answer::text(seen.last_results()[0]),
        }
    })
}

#[test]
fn a_question_below_is_asked_at_the_terminal_without_the_picture_over_it() {
    let world = pushing();
    let mut terminal = world.command(&["run", "go"]).env("TERM", "xterm").at_terminal();
    terminal.sees("n no, a no to all and stop: ");
    // Long enough for the picture to be drawn over the question, if it were.
    std::thread::sleep(Duration::from_millis(300));
    let screen = shown(&terminal.screen());
    let asked = screen.iter().position(|line| line.starts_with("? general (make it) wants bash")).unwrap_or_else(|| panic!("{screen:#?}"));
    assert!(screen[asked..].iter().any(|line| line.contains("bash(touch made)")), "{screen:#?}");
    assert!(screen.last().unwrap().contains("a no to all and stop: "), "the question is the last thing on the screen: {screen:#?}");
    terminal.types("y\n");
    let done = terminal.wait().expect_code(0);
    assert!(world.project.join("made").exists());
    let end = done.err.rfind("└─ ✓ general  make it   1 call").unwrap_or_else(|| panic!("{}", done.err));
    assert!(done.err[end..].contains("done in "), "{}", done.err);
}

#[test]
fn the_stream_has_every_event_of_every_session_in_order() {
    let world = team();
    let lines = world.run(&["--format", "stream-json", "look around"]).expect_code(0).lines();
    let root = lines[0]["session"].as_str().unwrap();
    let mut sessions: Vec<&str> = lines.iter().filter_map(|line| line["session"].as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
    for session in &sessions {
        let seqs: Vec<u64> = lines.iter().filter(|line| line["session"] == **session).filter_map(|line| line["seq"].as_u64()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{session} has no gap");
        let logged = world.posse(&["sessions", "show", session, "--format", "json"]).expect_code(0).json();
        assert_eq!(seqs.len(), logged["events"].as_array().unwrap().len(), "{session} is told to its end");
    }
    let place = |kind: &str, key: &str, of: &str| {
        let found = lines.iter().position(|line| line["type"] == kind && line[key] == of);
        found.unwrap_or_else(|| panic!("no {kind} of {of} in {lines:#?}"))
    };
    for child in sessions.iter().filter(|session| **session != root) {
        let first = lines.iter().position(|line| line["session"] == **child).unwrap();
        let last = lines.iter().rposition(|line| line["session"] == **child).unwrap();
        let (started, ended) = (place("task_started", "task", child), place("task_notification", "task", child));
        assert!(started < first && last < ended, "a task's lines are between its start and its end");
        assert_eq!((&lines[started]["session"], &lines[ended]["status"]), (&json!(root), &json!("completed")));
        let said: String = lines
            .iter()
            .filter(|line| line["type"] == "text_delta" && line["session"] == **child)
            .filter_map(|line| line["text"].as_str())
            .collect();
        assert!(said.starts_with("I have done this: read "), "{said}");
        assert_eq!(lines[place("message", "text", &said)]["session"], **child);
    }
    let result = lines.last().unwrap();
    let tree: Vec<&str> = result["tree"].as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!((&result["type"], tree), (&json!("result"), vec!["root", "task", "task"]));
    assert_eq!(result["usage"]["input"], 600, "the usage of the whole tree");
}

/// The session of each agent of the latest tree, by what it was started for; the root's under its title.
fn sessions(world: &World) -> Vec<(String, Value)> {
    let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
    nodes.as_array().unwrap().iter().map(|node| (node["description"].as_str().unwrap().to_owned(), node.clone())).collect()
}

#[test]
fn a_tree_is_listed_from_the_root_or_from_a_part_and_shown_with_its_parent() {
    let world = team();
    let nothing = world.posse(&["sessions", "tree"]).expect_code(0);
    assert!(nothing.out.is_empty() && nothing.err.contains("no sessions in "), "{nothing:?}");
    assert!(world.posse(&["tasks"]).expect_code(0).err.contains("no tasks"));
    world.run(&["look around"]).expect_code(0);

    let found = sessions(&world);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["look around", "layout", "tests and docs"], "brothers in the order they were started");
    let (root, child) = (found[0].1["session"].as_str().unwrap(), found[1].1["session"].as_str().unwrap());
    assert_eq!(
        (&found[0].1["subtree"]["input"], &found[0].1["usage"]["input"], &found[0].1["below"]),
        (&json!(600), &json!(200), &json!(2))
    );

    let text = world.posse(&["sessions", "tree", root]).expect_code(0).out;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("✓ build  look around  {root}  completed · 2 steps · 2 calls · ")), "{text}");
    assert!(lines[1].starts_with(&format!("├─ ✓ explore  layout  {child}  completed · 2 steps · 1 call · 240 tokens · ")), "{text}");
    assert!(lines[2].starts_with("└─ ✓ explore  tests and docs  ses_"), "{text}");
    assert_eq!(world.posse(&["sessions", "tree", child]).expect_code(0).out.lines().count(), 1);
    assert_eq!(world.posse(&["sessions", "tree", "ses_0"]).expect_code(2).out, "");

    let tasks = world.posse(&["tasks"]).expect_code(0).out;
    assert_eq!(tasks.lines().count(), 2, "{tasks}");
    assert!(tasks.lines().nth(1).unwrap().starts_with(&format!("{child}  explore  completed    2 steps")), "{tasks}");
    assert_eq!(world.posse(&["tasks", "list", "--session", root]).expect_code(0).out.lines().count(), 2);
    assert_eq!(world.posse(&["tasks", "--session", child]).expect_code(0).out, "", "a leaf has none");

    let shown = world.posse(&["sessions", "show", child]).expect_code(0).out;
    assert!(shown.contains(&format!("started by {root}: layout (@explore subagent)")) && shown.contains("read a.txt"), "{shown}");
    let shown = world.posse(&["sessions", "show", root]).expect_code(0).out;
    assert!(shown.contains(&format!("\ntasks:\n{child}  explore")), "{shown}");
}

#[test]
fn tasks_say_what_they_wait_for_and_whether_anybody_runs_them() {
    let world = pushing();
    let running = world.start(&["run", "--on-ask", "wait", "go"]);
    assert!(running.wait_for_err("asks answer ask_", Duration::from_secs(30)), "{}", running.err_so_far());
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let (status, waits) = (&tasks[0]["status"], &tasks[0]["waits"]);
    let ask = waits["ask"].as_str().unwrap_or_else(|| panic!("{tasks:#}"));
    assert_eq!(
        (status, &waits["for"], &waits["words"]),
        (&json!("waiting"), &json!("answer"), &json!("your permission: bash(touch made)"))
    );
    let text = world.posse(&["tasks"]).expect_code(0).out;
    assert!(
        text.contains(&format!("posse asks answer {ask} once|session|tree|project|no")) && text.contains("last: bash touch made"),
        "{text}"
    );
    let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
    assert!(tree.lines().next().unwrap().contains("  waiting · ") && tree.contains("waits for 1 task"), "{tree}");

    running.kill_group();
    let _ = running.wait(Duration::from_secs(30));
    let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
    assert!(tree.lines().next().unwrap().contains("waiting (no process)"), "{tree}");
    assert!(tree.contains("waits for a process; posse sessions resume ses_"), "{tree}");
    assert!(tree.contains(&format!("posse asks answer {ask}")), "the ask is still open: {tree}");
}

#[test]
fn what_is_refused_below_is_in_the_report_and_in_the_exit_code() {
    let world = pushing();
    let done: Done = world.run(&["--format", "json", "go"]).expect_code(4);
    let found = sessions(&world);
    let denied = &done.json()["denied"];
    assert_eq!(denied.as_array().unwrap().len(), 1, "{denied}");
    assert_eq!((&denied[0]["session"], &denied[0]["agent"]), (&found[1].1["session"], &json!("general")));
    assert_eq!(denied[0]["what"], "bash(touch made)");
    world.run(&["--on-ask", "deny-ok", "go"]).expect_code(0);
}

#[test]
fn a_second_prompt_tells_only_what_is_new_in_the_tree() {
    let world = team();
    let first = world.run(&["--format", "stream-json", "look around"]).expect_code(0).lines();
    let second = world.run(&["-c", "--format", "stream-json", "once more"]).expect_code(0);
    assert!(!second.err.contains("explore"), "those who had ended are no part of it: {}", second.err);
    let root = &first[0]["session"];
    let (told, again): (Vec<Value>, Vec<Value>) = (first.clone(), second.lines());
    assert!(again.iter().filter(|line| line["seq"].is_u64()).all(|line| line["session"] == *root), "{again:#?}");
    let seqs: Vec<u64> =
        told.iter().chain(&again).filter(|line| line["session"] == *root).filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}
