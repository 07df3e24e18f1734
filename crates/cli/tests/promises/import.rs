//! Sessions that come back: exported here or elsewhere, imported, shown, gone on with.

use serde_json::{Value, json};

use crate::{
    background::{LONG, soon},
    support::{Answer, Seen, World},
};

/// The root has an agent read a long file.
fn team() -> World {
    World::with().file("long.txt", &"a long line of text\n".repeat(1_500)).script(|seen: &Seen| {
        match (seen.user_texts()[0], seen.steps()) {
            ("go", 0) => Answer::call("agent", json!({"description": "read it", "prompt": "read", "subagent_type": "general"})),
            ("go", 1) => Answer::text("It is read."),
            ("go", steps) => Answer::text(&format!("after {steps} answers")),
            (_, 0) => Answer::call("read", json!({"filePath": "long.txt"})),
            (_, _) => Answer::text("I read it."),
        }
    })
}

fn root(world: &World) -> String {
    let list = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    list[0]["session"].as_str().unwrap().to_owned()
}

fn export(world: &World, id: &str, more: &[&str]) -> String {
    world.posse(&[&["sessions", "export", id, "--format", "jsonl"], more].concat()).expect_code(0).out
}

/// A file beside the project, so that no session sees it.
fn keep(world: &World, text: &str) -> String {
    let path = world.folder().join("session.jsonl");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn sessions(world: &World) -> usize {
    world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json().as_array().unwrap().len()
}

#[test]
fn a_session_comes_back_as_it_was_and_goes_on() {
    let world = team();
    world.run(&["go"]).expect_code(0);
    let id = root(&world);
    for more in [&[][..], &["--whole"]] {
        let text = export(&world, &id, more);
        assert!(20_000 < text.lines().map(str::len).max().unwrap(), "the long text is in it");
        // How long ago it was is not part of it.
        let show = || world.posse(&["sessions", "show", &id]).expect_code(0).out.split("\ntasks:").next().unwrap().to_owned();
        let shown = show();
        let file = keep(&world, &text);
        world.posse(&["sessions", "rm", &id]).expect_code(0);
        assert_eq!(sessions(&world), 0);
        let done = world.posse(&["sessions", "import", &file, "--as-is"]).expect_code(0);
        assert!(done.out.starts_with(&format!("imported {id} (2 sessions, ")), "{}", done.out);
        assert_eq!(done.err, "");
        assert_eq!(export(&world, &id, more), text);
        assert_eq!(show(), shown);
        let again = world.posse(&["sessions", "import", &file, "--as-is"]).expect_code(1);
        assert!(again.err.contains("already here") && again.err.contains("--new-ids"), "{}", again.err);
    }
    assert_eq!(world.run(&["-s", &id, "and now?"]).expect_code(0).out, "after 2 answers\n");
    let file = keep(&world, &export(&world, &id, &[]).lines().take(3).map(|line| format!("{line}\n")).collect::<String>());
    let other = world.posse(&["sessions", "import", &file]).expect_code(1);
    assert!(other.err.contains("already here"), "{}", other.err);
}

#[test]
fn a_session_of_another_machine_works_in_this_folder() {
    let there = team();
    there.run(&["go"]).expect_code(0);
    let id = root(&there);
    let text = export(&there, &id, &[]);
    let here = team();
    let file = keep(&here, &text);
    here.posse(&["sessions", "import", &file]).expect_code(0);
    assert_eq!(root(&here), id, "it is listed in this folder");
    let nodes = here.posse(&["sessions", "tree", &id, "--format", "json"]).expect_code(0).json();
    let statuses: Vec<&Value> = nodes.as_array().unwrap().iter().map(|node| &node["status"]).collect();
    assert_eq!(statuses, ["completed", "completed"]);
    assert_eq!(here.run(&["-c", "and now?"]).expect_code(0).out, "after 2 answers\n");
}

#[test]
fn a_copy_has_ids_of_its_own_wherever_they_stand() {
    let world = team();
    world.run(&["go"]).expect_code(0);
    let id = root(&world);
    let text = export(&world, &id, &[]);
    let file = keep(&world, &text);
    let done = world.posse(&["sessions", "import", &file, "--new-ids"]).expect_code(0);
    let copy = done.out.split_whitespace().nth(1).unwrap().to_owned();
    assert!(copy != id && sessions(&world) == 2, "{}", done.out);
    let exported = export(&world, &copy, &[]);
    let mut ids: Vec<&str> = text.split('"').filter(|piece| piece.starts_with("ses_") && piece.len() == 30).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(2 <= ids.len() && ids.iter().all(|old| !exported.contains(old)), "{ids:?}");
    assert_eq!(exported.lines().count(), text.lines().count());
    assert_eq!(export(&world, &id, &[]), text, "the other is as it was");
    assert_eq!(world.run(&["-s", &copy, "and now?"]).expect_code(0).out, "after 2 answers\n");
}

/// A file may come from anybody: it runs nothing and allows nothing.
#[test]
fn what_was_open_is_ended_and_what_was_allowed_is_asked_about_again() {
    let script = |seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "touch first", "description": "d"})),
        1 => Answer::call("bash", json!({"command": "touch second", "description": "d"})),
        _ => Answer::text("done"),
    };
    let world = World::new(script);
    let run = world.start(&["run", "--ask", "bash", "--on-ask", "wait", "go"]);
    let ask = || {
        soon("an ask", || {
            let asks = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json();
            asks[0]["ask"].as_str().map(str::to_owned)
        })
    };
    let first = ask();
    world.posse(&["asks", "answer", &first, "project"]).expect_code(0);
    run.wait(LONG).expect_code(0);
    let id = root(&world);
    let text = export(&world, &id, &[]);
    // Up to the second call, which was allowed and had not begun.
    let decided: String = text.lines().take_while(|line| !line.contains("touch second")).map(|line| format!("{line}\n")).collect();
    let called = text.lines().find(|line| line.contains("touch second") && line.contains("\"called\"")).unwrap();
    let file = keep(&world, &format!("{decided}{called}\n"));
    world.posse(&["sessions", "rm", &id]).expect_code(0);
    std::fs::remove_file(world.project.join("second")).unwrap();
    let done = world.posse(&["sessions", "import", &file]).expect_code(0);
    assert!(done.err.contains("1 session was in the middle") && done.err.contains("1 lasting answer counts no more"), "{}", done.err);
    let rules = world.posse(&["rules", "list", "--format", "json"]).expect_code(0).out;
    assert!(!rules.contains(&first), "{rules}");
    world.posse(&["sessions", "resume", &id, "--ask", "bash"]);
    assert!(!world.project.join("second").exists(), "what a file says was allowed does not run");
    // One's own file keeps it all.
    world.posse(&["sessions", "rm", &id]).expect_code(0);
    world.posse(&["sessions", "import", &file, "--as-is"]).expect_code(0);
    assert!(world.posse(&["rules", "list", "--format", "json"]).expect_code(0).out.contains(&first));
}

#[test]
fn what_is_no_session_is_refused_and_nothing_is_written() {
    let world = team();
    world.run(&["--record", "run.jsonl", "go"]).expect_code(0);
    let id = root(&world);
    let text = export(&world, &id, &[]);
    let child =
        text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).unwrap()["session"].as_str().map(str::to_owned)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let without =
        |gap: usize| lines.iter().enumerate().filter(|(at, _)| *at != gap).map(|(_, line)| format!("{line}\n")).collect::<String>();
    let table = [
        (world.read("run.jsonl"), "posse run --replay"),
        (world.posse(&["sessions", "export", &id]).expect_code(0).out, "OpenCode's shape"),
        (export(&world, &child, &[]), "not in the file"),
        (without(4), "record 5 is missing"),
        (text.replace("\"replied\"", "\"answered_later\""), "update posse"),
        (format!("{text}{}", &lines[3][..20]), "is no record of a session"),
        ("hello\n".to_owned(), "posse sessions export ID --format jsonl"),
    ];
    world.posse(&["sessions", "rm", &id]).expect_code(0);
    for (content, expected) in table {
        let done = world.posse(&["sessions", "import", &keep(&world, &content)]).expect_code(2);
        assert!(done.err.contains(expected), "{expected}: {}", done.err);
    }
    assert_eq!(sessions(&world), 0);
    assert!(world.posse(&["sessions", "import", "missing.jsonl"]).expect_code(2).err.contains("missing.jsonl"));
}

#[test]
fn a_text_that_is_not_in_the_file_is_told_of() {
    let world = team();
    world.run(&["go"]).expect_code(0);
    let id = root(&world);
    let long = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line.to_string().len() > 20_000 {
            line["event"]["outcome"]["output"] = json!({"blob": "ab".repeat(32), "bytes": 30_000});
        }
        format!("{line}\n")
    };
    let text: String = export(&world, &id, &[]).lines().map(long).collect();
    world.posse(&["sessions", "rm", &id]).expect_code(0);
    let done = world.posse(&["sessions", "import", &keep(&world, &text)]).expect_code(0);
    assert!(done.err.contains("1 long text"), "{}", done.err);
    world.posse(&["sessions", "show", &id]).expect_code(0);
}

#[test]
fn an_import_that_was_killed_is_finished_by_the_next() {
    let there = team();
    there.run(&["go"]).expect_code(0);
    let id = root(&there);
    let text = export(&there, &id, &[]);
    let mut finished = 0;
    for point in ["before_append:1", "before_append:2", "before_append:5", "after_append:1", "after_append:3", "after_append:9"] {
        let here = team();
        let file = keep(&here, &text);
        let died = here.command(&["sessions", "import", &file, "--as-is"]).env("POSSE_CRASH_AT", point).run();
        assert_ne!(died.code, Some(0), "{point}: {died:?}");
        let again = here.posse(&["sessions", "import", &file, "--as-is"]);
        // What was on its way when the process died may all have been written.
        let whole = again.code == Some(1) && again.err.contains("already here") && point.starts_with("after");
        assert!(again.code == Some(0) || whole, "{point}: {again:?}");
        finished += usize::from(!whole);
        assert_eq!(export(&here, &id, &[]), text, "{point}");
    }
    assert!(3 <= finished);
}
