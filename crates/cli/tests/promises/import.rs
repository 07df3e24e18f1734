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

/// A conversation that counts its answers: a read, an answer, and one more word.
fn conversation() -> (World, String) {
    let world = team();
    world.run(&["go"]).expect_code(0);
    let id = root(&world);
    world.run(&["-s", &id, "what came later"]).expect_code(0);
    (world, id)
}

fn fork_of(world: &World, id: &str, at: &str) -> String {
    world.posse(&["sessions", "fork", id, "--at", at, "-q"]).expect_code(0).out.trim().to_owned()
}

fn sessions_in(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        text.lines().filter_map(|line| Some(serde_json::from_str::<Value>(line).unwrap()["session"].as_str()?.to_owned())).collect();
    found.dedup();
    found
}

/// Issues 6 and 7: an export has everything that the transcript shows, and nothing that came after it.
#[test]
fn a_fork_brings_what_it_begins_with() {
    let (there, source) = conversation();
    let fork = fork_of(&there, &source, "2");
    assert_eq!(there.run(&["-s", &fork, "another way"]).expect_code(0).out, "after 2 answers\n");
    for more in [&[][..], &["--whole"]] {
        let text = export(&there, &fork, more);
        assert_eq!(sessions_in(&text), [fork.clone(), source.clone()]);
        assert!(!text.contains("what came later") && text.contains("It is read."), "up to the fork and no further");
        for options in [&[][..], &["--as-is"], &["--new-ids"]] {
            let here = team();
            let file = keep(&here, &text);
            let done = here.posse(&[&["sessions", "import", &file], options].concat()).expect_code(0);
            let imported: Vec<&str> = done.out.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
            assert_eq!((imported.len(), done.err.as_str()), (2, ""), "{}", done.out);
            assert!(done.out.contains(&format!("which {} begins with\n", imported[1])), "{}", done.out);
            assert_eq!(options.contains(&"--new-ids"), imported != [source.as_str(), fork.as_str()]);
            let shown = || here.posse(&["sessions", "export", imported[1]]).expect_code(0).out;
            assert!(shown().contains("It is read.") && !shown().contains("what came later"));
            // What a living fork shows is kept, here as there.
            let kept = here.posse(&["sessions", "rm", imported[0]]).expect_code(1);
            assert!(kept.err.contains("forks of it still show") && kept.err.contains(imported[1]), "{}", kept.err);
            // Everything from the first word on is in the request.
            assert_eq!(here.run(&["-s", imported[1], "and now?"]).expect_code(0).out, "after 3 answers\n", "{options:?}");
            here.posse(&["sessions", "rm", imported[0], imported[1]]).expect_code(0);
        }
    }
}

#[test]
fn what_a_fork_begins_with_is_left_alone_where_it_is() {
    let (world, source) = conversation();
    let fork = fork_of(&world, &source, "1");
    let text = export(&world, &fork, &[]);
    let file = keep(&world, &text);
    let before = export(&world, &source, &[]);
    assert!(world.posse(&["sessions", "import", &file]).expect_code(1).err.contains("already here"));
    world.posse(&["sessions", "rm", &fork]).expect_code(0);
    let done = world.posse(&["sessions", "import", &file]).expect_code(0);
    assert!(done.out.starts_with(&format!("imported {fork} (1 session, ")) && done.out.lines().count() == 1, "{}", done.out);
    assert_eq!((export(&world, &source, &[]), export(&world, &fork, &[])), (before, text.clone()));
    // A file of a version that did not bring it, and one that brings too little of it, are refused.
    world.posse(&["sessions", "rm", &fork]).expect_code(0);
    let old: String =
        text.lines().filter(|line| line.starts_with(&format!("{{\"session\":\"{fork}\""))).map(|line| format!("{line}\n")).collect();
    let cut: String = text.lines().take(text.lines().count() - 3).map(|line| format!("{line}\n")).collect();
    for (content, expected) in
        [(old, format!("goes on from {source}, which is not in the file")), (cut, format!("of {source}, which is not in the file"))]
    {
        let done = world.posse(&["sessions", "import", &keep(&world, &content)]).expect_code(2);
        assert!(done.err.contains(&expected), "{}", done.err);
    }
    assert_eq!(sessions(&world), 1);
}

/// A fork of a fork, and a fork of a task whose caller is nobody's business.
#[test]
fn forks_of_forks_and_of_tasks_come_back_too() {
    let (there, source) = conversation();
    let first = fork_of(&there, &source, "2");
    there.run(&["-s", &first, "another way"]).expect_code(0);
    let second = fork_of(&there, &first, "1");
    let here = team();
    let text = export(&there, &second, &[]);
    let done = here.posse(&["sessions", "import", &keep(&here, &text)]).expect_code(0);
    assert_eq!(done.out.lines().count(), 3, "{}", done.out);
    assert_eq!(here.run(&["-s", &second, "and now?"]).expect_code(0).out, "after 3 answers\n");

    let task =
        there.posse(&["sessions", "tree", &source, "--format", "json"]).expect_code(0).json()[1]["session"].as_str().unwrap().to_owned();
    let fork = fork_of(&there, &task, "2");
    let text = export(&there, &fork, &[]);
    assert_eq!(sessions_in(&text), [fork.clone(), task.clone()]);
    let here = team();
    let done = here.posse(&["sessions", "import", &keep(&here, &text)]).expect_code(0);
    assert!(done.out.starts_with(&format!("imported {task} (1 session, ")), "{}", done.out);
    assert_eq!(here.run(&["-s", &fork, "and now?"]).expect_code(0).out, "I read it.\n");
    let exported = here.posse(&["sessions", "export", &fork]).expect_code(0).json();
    assert!(exported["messages"][0]["parts"][0]["text"] == "read" && exported.to_string().contains("a long line of text"), "{exported:#}");
    assert!(here.posse(&["sessions", "rm", &task]).expect_code(1).err.contains("forks of it still show"));
}

/// A task that was at work where the fork begins is not in the file, so it is not begun again.
#[test]
fn a_task_that_was_not_exported_is_not_begun_here() {
    let script = |seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::call(
            "agent",
            json!({"description": "look", "prompt": "look around", "subagent_type": "general", "run_in_background": true}),
        ),
        ("go", steps) => Answer::text(&format!("after {steps} answers")),
        _ => Answer::text("I looked."),
    };
    let there = World::new(script);
    there.run(&["go"]).expect_code(0);
    let source = root(&there);
    let fork = fork_of(&there, &source, "1");
    let text = export(&there, &fork, &[]);
    assert!(text.contains("task_started") && !text.contains("task_ended"), "{text}");
    let here = World::new(script);
    here.posse(&["sessions", "import", &keep(&here, &text)]).expect_code(0);
    here.run(&["-s", &source, "and now?"]).expect_code(0);
    assert!(here.model.last().user_texts().iter().any(|text| text.contains("was stopped: it was not imported")));
    assert_eq!(here.run(&["-s", &fork, "and now?"]).expect_code(0).out, "after 1 answers\n");
    assert!(here.model.requests().iter().all(|seen| seen.user_texts()[0] == "go"), "nobody looks around again");
}
