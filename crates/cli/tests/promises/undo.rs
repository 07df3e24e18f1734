//! Which agent changed which file, and taking it back: whole, or not at all where somebody changed a file since.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World, call, git};

const BIG: usize = 200 * 1024;

/// A session that changes, makes, moves and deletes files, in five steps.
fn editing() -> World {
    let world = World::with()
        .file("a.txt", "one\r\ntwo\r\nthree\r\n")
        .file("gone.txt", "soon gone\n")
        .file("run.sh", "#!/bin/sh\necho one\n")
        .file("big.txt", &"old line\n".repeat(BIG / 9))
        .script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("edit", json!({"filePath": "a.txt", "oldString": "two", "newString": "zwei\nand more"})),
            1 => Answer::call("write", json!({"filePath": "new/b.txt", "content": "b\n"})),
            2 => Answer::call("write", json!({"filePath": "big.txt", "content": "short\n"})),
            3 => Answer::call(
                "apply_patch",
                json!({"patchText": "*** Begin Patch\n*** Delete File: gone.txt\n*** Update File: run.sh\n*** Move to: bin/start.sh\n@@\n-echo one\n+echo two\n*** End Patch"}),
            ),
            4 => Answer::call("multi_edit", json!({"filePath": "a.txt", "edits": [{"oldString": "one", "newString": "eins"}, {"oldString": "three", "newString": "drei"}]})),
            _ => Answer::text("done"),
        });
    std::fs::set_permissions(world.project.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    git(&world.project, &["commit", "-qam", "executable"]);
    world
}

fn session(world: &World) -> String {
    world.run(&["--format", "json", "change it all"]).expect_code(0).json()["session"].as_str().unwrap().to_owned()
}

fn edits(world: &World, id: &str) -> Vec<Value> {
    world.posse(&["sessions", "show", id, "--edits", "--format", "json"]).expect_code(0).json()["edits"].as_array().unwrap().clone()
}

/// What git sees of all that was changed: names of files, and nothing when all is as it was.
fn changed(world: &World) -> Vec<String> {
    git(&world.project, &["status", "--porcelain", "--untracked-files=all"]).lines().map(|line| line[3..].to_owned()).collect()
}

#[test]
fn every_edit_is_told_with_who_made_it() {
    let world = editing();
    let id = session(&world);
    let edits = edits(&world, &id);
    let told: Vec<String> = edits
        .iter()
        .map(|edit| {
            let there = |key: &str| if edit[key] == "" { "-" } else { "#" };
            format!(
                "{} {} {} +{} -{} {}..{} {}",
                edit["agent"],
                edit["tool"],
                edit["path"],
                edit["added"],
                edit["removed"],
                there("before"),
                there("after"),
                edit["undone"]
            )
        })
        .map(|line| line.replace('"', ""))
        .collect();
    assert_eq!(
        told,
        [
            "build edit a.txt +2 -1 #..# false",
            "build write new/b.txt +1 -0 -..# false",
            &format!("build write big.txt +1 -{} #..# false", BIG / 9),
            "build apply_patch bin/start.sh +2 -0 -..# false",
            "build apply_patch gone.txt +0 -1 #..- false",
            "build apply_patch run.sh +0 -2 #..- false",
            "build multi_edit a.txt +2 -2 #..# false",
        ]
    );
    assert!(edits.iter().all(|edit| edit["session"] == id.as_str() && edit["call"].as_str().unwrap().starts_with("call_")));
    assert_eq!(edits[6]["before"], edits[0]["after"], "one edit begins where the one before ended");
    let text = world.posse(&["sessions", "show", &id, "--edits"]).expect_code(0).out;
    let first = text.lines().next().unwrap();
    let short = |key: &str| edits[0][key].as_str().unwrap()[..8].to_owned();
    let expected =
        format!("  {id}  build  {}  edit  a.txt  +2 -1  {}..{}", edits[0]["call"].as_str().unwrap(), short("before"), short("after"));
    assert!(first.ends_with(&expected), "{first}");
    assert_eq!(text.lines().count(), 7);
    // What undoing needs is nobody's reading.
    let shown = world.posse(&["sessions", "show", &id, "--format", "json"]).expect_code(0);
    assert!(!shown.out.contains("old line\\\\nold line") && shown.out.contains("\"patch\""), "{}", shown.out.len());
}

#[test]
fn an_undo_restores_every_file_and_tells_the_model() {
    let world = editing();
    let id = session(&world);
    assert_eq!(changed(&world).len(), 6, "{:?}", changed(&world));
    let done = world.posse(&["sessions", "undo", &id]).expect_code(0);
    assert_eq!(
        done.out,
        "restored  a.txt  (2 edits)\nrestored  big.txt  (1 edit)\nremoved  bin/start.sh  (1 edit)\nrestored  gone.txt  (1 edit)\nremoved  new/b.txt  (1 edit)\nrestored  run.sh  (1 edit)\n"
    );
    assert_eq!(changed(&world), Vec::<String>::new(), "contents and modes are as they were");
    assert!(edits(&world, &id).iter().all(|edit| edit["undone"] == true));
    assert!(world.posse(&["sessions", "show", &id, "--edits"]).expect_code(0).out.lines().all(|line| line.ends_with("  (undone)")));
    let again = world.posse(&["sessions", "undo", &id]).expect_code(0);
    assert_eq!(again.out, format!("nothing is left to undo in {id}\n"));
    let requests = world.model.requests().len();
    world.run(&["-s", &id, "and now?"]).expect_code(0);
    assert_eq!(world.model.requests().len(), requests + 1);
    let told = world.model.last().user_texts().join("\n");
    for word in ["undid", "a.txt", "gone.txt", "and now?"] {
        assert!(told.contains(word), "no {word} in {told}");
    }
}

#[test]
fn nothing_at_all_is_undone_where_a_file_was_changed_since() {
    let world = editing();
    let id = session(&world);
    world.write("a.txt", "the user's own\n");
    std::fs::remove_file(world.project.join("new/b.txt")).unwrap();
    world.write("gone.txt", "made anew\n");
    let before = changed(&world);
    let done = world.posse(&["sessions", "undo", &id]).expect_code(1);
    let calls: Vec<String> = edits(&world, &id).iter().map(|edit| edit["call"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        done.err,
        format!(
            "posse: nothing was undone, because these files are not as the session left them:\n  a.txt: has been changed since {} edited it\n  gone.txt: has been changed since {} edited it\n",
            calls[6], calls[4]
        )
    );
    assert_eq!((done.out.as_str(), changed(&world), world.read("a.txt").as_str()), ("", before, "the user's own\n"));
    assert!(edits(&world, &id).iter().all(|edit| edit["undone"] == false));
    // A file that is already as it was before counts as done.
    let write = world.posse(&["sessions", "undo", &id, "--call", &calls[1]]).expect_code(0);
    assert_eq!(write.out, "already as it was  new/b.txt  (1 edit)\n");
}

#[test]
fn when_one_file_cannot_be_written_the_others_are_left_as_they_were() {
    let world = editing();
    let id = session(&world);
    let modes = |mode: u32| {
        for name in ["new/b.txt", "bin/start.sh"] {
            let mode = if name == "bin/start.sh" { 0o755 } else { mode };
            std::fs::set_permissions(world.project.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0o444);
    let before = (changed(&world), world.read("a.txt"), world.read("bin/start.sh"));
    let done = world.posse(&["sessions", "undo", &id]).expect_code(1);
    assert!(done.err.contains("new/b.txt: this file is write-protected") && done.err.contains("; nothing was undone"), "{}", done.err);
    assert_eq!((changed(&world), world.read("a.txt"), world.read("bin/start.sh")), before);
    let mode = std::fs::metadata(world.project.join("bin/start.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    modes(0o644);
    world.posse(&["sessions", "undo", &id]).expect_code(0);
    assert_eq!(changed(&world), Vec::<String>::new());
}

#[test]
fn one_call_or_one_agent_can_be_undone() {
    let world = editing();
    let id = session(&world);
    let all = edits(&world, &id);
    let call = |nth: usize| all[nth]["call"].as_str().unwrap();
    let earlier = world.posse(&["sessions", "undo", &id, "--call", call(0)]).expect_code(1);
    assert!(
        earlier.err.contains(&format!("a.txt: {} changed it later (agent build, multi_edit); undo that too", call(6))),
        "{}",
        earlier.err
    );
    let json = world.posse(&["sessions", "undo", &id, "--call", call(6), "--format", "json"]).expect_code(0).json();
    assert_eq!(json, json!({"session": id, "calls": [call(6)], "files": [{"path": "a.txt", "action": "restored", "edits": 1}]}));
    assert_eq!(world.read("a.txt"), "one\r\nzwei\r\nand more\r\nthree\r\n");
    // All files of one call go together, and now the earlier edit is the last.
    world.posse(&["sessions", "undo", &id, "--call", call(4)]).expect_code(0);
    let bare = call(0)["call_".len()..].to_lowercase();
    world.posse(&["sessions", "undo", &id, "--call", &bare]).expect_code(0);
    assert_eq!(changed(&world), ["big.txt", "new/b.txt"]);
    let unclear = world.posse(&["sessions", "undo", &id, "--call", "call_0"]).expect_code(2).err;
    assert!([0, 1, 2, 4, 6].iter().all(|nth| unclear.contains(call(*nth))), "every match is named: {unclear}");
    for (option, value, words) in [
        ("--call", "call_nothing", "no call call_nothing changed a file here"),
        ("--call", "call_", "call_ could be any of these: call_"),
        ("--agent", "nobody", "no agent named nobody changed a file here; these did: build"),
    ] {
        let done = world.posse(&["sessions", "undo", &id, option, value]).expect_code(2);
        assert!(done.err.contains(words), "{option} {value}: {}", done.err);
    }
    assert_eq!(world.posse(&["sessions", "undo", &id, "--agent", "build"]).expect_code(0).out.lines().count(), 2);
    assert_eq!(changed(&world), Vec::<String>::new());
}

#[test]
fn edits_of_one_file_in_one_reply_are_undone_whatever_their_order() {
    let world = World::with().file("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n").script(|seen: &Seen| match seen.steps() {
        0 => Answer::calls(
            (1..=8).map(|n| call("edit", json!({"filePath": "a.txt", "oldString": format!("{n}\n"), "newString": format!("line {n}\n")}))),
        ),
        _ => Answer::text("done"),
    });
    let id = session(&world);
    assert_eq!(world.read("a.txt").matches("line").count(), 8);
    assert_eq!(world.posse(&["sessions", "undo", &id]).expect_code(0).out, "restored  a.txt  (8 edits)\n");
    assert_eq!(changed(&world), Vec::<String>::new());
}

#[test]
fn nothing_is_undone_while_a_process_runs_the_session() {
    let world = World::with().file("a.txt", "one\n").script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("edit", json!({"filePath": "a.txt", "oldString": "one", "newString": "two"})),
        1 => Answer::call("bash", json!({"command": "sleep 60"})),
        _ => Answer::text("on"),
    });
    let running = world.start(&["run", "--format", "stream-json", "take long"]);
    assert!(running.wait_for_out("sleep 60", Duration::from_secs(20)), "{}", running.out_so_far());
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let id = list.split_whitespace().next().unwrap().to_owned();
    let done = world.posse(&["sessions", "undo", &id]).expect_code(1);
    assert!(done.err.contains(&format!("process {} runs this session, so nothing was undone", running.pid())), "{}", done.err);
    assert_eq!(world.read("a.txt"), "two\n");
    // When that process has died in the middle of its turn, it can be undone, and the turn goes on after it.
    running.kill();
    running.wait(Duration::from_secs(10));
    world.posse(&["sessions", "undo", &id]).expect_code(0);
    assert_eq!(world.read("a.txt"), "one\n");
    world.posse(&["sessions", "resume", &id]).expect_code(0);
    assert!(world.model.last().user_texts().join("\n").contains("undid"));
}

#[test]
fn an_undo_that_is_killed_is_finished_by_the_next() {
    let world = editing();
    let id = session(&world);
    let killed = world.command(&["sessions", "undo", &id]).env("POSSE_CRASH_AT", "before_append:1").run();
    assert_eq!(killed.signal, Some(9), "{killed:#?}");
    assert_eq!(changed(&world), Vec::<String>::new(), "files go first");
    assert!(edits(&world, &id).iter().all(|edit| edit["undone"] == false));
    let done = world.posse(&["sessions", "undo", &id]).expect_code(0);
    assert!(done.out.lines().count() == 6 && done.out.lines().all(|line| line.starts_with("already as it was  ")), "{}", done.out);
    assert!(edits(&world, &id).iter().all(|edit| edit["undone"] == true));
    assert_eq!(world.posse(&["sessions", "undo", &id]).expect_code(0).out, format!("nothing is left to undo in {id}\n"));
}

#[test]
fn killed_at_any_moment_every_file_is_old_or_new() {
    const FILES: usize = 30;
    let patch: String = (0..FILES).map(|n| format!("*** Update File: {n}.txt\n-old {n}\n+new {n}\n")).collect();
    let world = (0..FILES).fold(World::with(), |plan, n| plan.file(&format!("{n}.txt"), &format!("old {n}\n")));
    let world = world.script(move |seen: &Seen| match seen.last_results().is_empty() {
        true => Answer::call("apply_patch", json!({"patchText": format!("*** Begin Patch\n{patch}*** End Patch")})),
        false => Answer::text("done"),
    });
    for round in 0..8u64 {
        let id = session(&world);
        assert_eq!(world.read("7.txt"), "new 7\n");
        let undo = world.start(&["sessions", "undo", &id]);
        // Somewhere between its start and its end.
        std::thread::sleep(Duration::from_millis(4 + 5 * round));
        undo.kill();
        undo.wait(Duration::from_secs(10));
        for n in 0..FILES {
            let text = world.read(&format!("{n}.txt"));
            assert!(text == format!("old {n}\n") || text == format!("new {n}\n"), "round {round}: {n}.txt is {text:?}");
        }
        world.posse(&["sessions", "undo", &id]).expect_code(0);
        assert_eq!(changed(&world), Vec::<String>::new(), "round {round}");
    }
}

#[test]
fn a_session_without_edits_has_nothing_to_undo() {
    let world = World::new(|_: &Seen| "just words");
    let id = session(&world);
    assert_eq!(
        world.posse(&["sessions", "undo", &id]).expect_code(0).out,
        format!("{id} changed no file with edit tools, so there is nothing to undo\n")
    );
    let shown = world.posse(&["sessions", "show", &id, "--edits"]).expect_code(0);
    assert!(shown.out.is_empty() && shown.err.contains("changed no file"), "{shown:?}");
    world.posse(&["sessions", "undo", "ses_nothing"]).expect_code(2);
}
