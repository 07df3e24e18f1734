//! Bringing work home through the real binary and real git: diff, merge, discard, who wrote what, and the model's own tool.
//!
//! What git does in every odd case is in `tools/tests/worktree.rs`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    delegation::{prompt, requests_of},
    support::{Answer, Seen, World, answer::Piece, call, git, world::Plan},
};

fn isolated(name: &str) -> Piece {
    let input =
        json!({"description": format!("the {name}"), "prompt": name, "subagent_type": "general", "isolation": "worktree", "name": name});
    call("agent", input)
}

fn replace(file: &str, old: &str, new: &str) -> Piece {
    call("bash", json!({"command": format!("sed -i 's/{old}/{new}/' {file}")}))
}

/// Ten lines, so that changes far apart are not in each other's way.
fn plan() -> Plan {
    let lines: String = (1..=20).map(|line| format!("line {line}\n")).collect();
    World::with().file("list.txt", &lines).file("other.txt", "one\ntwo\n")
}

/// The first task changes line 2, the second line 19, the third line 2 as well.
fn three() -> World {
    plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls(["first", "second", "third"].map(isolated)),
        ("go", _) => Answer::text("all have worked"),
        ("first", 0) => Answer::calls([replace("list.txt", "^line 2$", "first was here"), replace("other.txt", "two", "2")]),
        ("second", 0) => Answer::calls([replace("list.txt", "^line 19$", "second was here")]),
        ("third", 0) => Answer::calls([replace("list.txt", "^line 2$", "third was here")]),
        (_, _) => Answer::text("done"),
    })
}

fn line(world: &World, number: usize) -> String {
    world.read("list.txt").lines().nth(number - 1).unwrap().to_owned()
}

/// Everything of ours that git knows besides who wrote what.
fn traces(project: &Path) -> (usize, usize) {
    let worktrees = git(project, &["worktree", "list", "--porcelain"]).lines().filter(|line| line.starts_with("worktree ")).count();
    (worktrees, git(project, &["branch", "--list", "posse/*"]).lines().count())
}

/// CC-262: what a task has done is looked at, and comes home by name, in the order that is asked for; the second merge is onto the first.
#[test]
fn work_is_looked_at_and_comes_home_in_order() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    assert_eq!(traces(&world.project), (4, 3));
    let diff = world.posse(&["tasks", "diff", "first"]).expect_code(0).out;
    assert!(diff.contains("-line 2\n+first was here\n") && diff.contains("+++ b/other.txt"), "{diff}");
    let stat = world.posse(&["tasks", "diff", "first", "--stat"]).expect_code(0).out;
    assert_eq!(stat, "changed  list.txt  +1 -1\nchanged  other.txt  +1 -1\n");
    // What the user has not committed is kept, and so is what is staged.
    world.write("list.txt", &world.read("list.txt").replace("line 10", "the user was here"));
    git(&world.project, &["add", "list.txt"]);
    let staged = git(&world.project, &["diff", "--cached"]);

    let merged = world.posse(&["tasks", "merge", "first", "second", "--format", "json"]).expect_code(0).json();
    assert_eq!((&merged[0]["status"], &merged[1]["status"]), (&json!("merged"), &json!("merged")), "{merged}");
    assert_eq!(
        merged[0]["files"],
        json!([
            {"path": "list.txt", "status": "changed", "hunks": [[2, 1]]},
            {"path": "other.txt", "status": "changed", "hunks": [[2, 1]]},
        ])
    );
    assert_eq!(
        (line(&world, 2), line(&world, 10), line(&world, 19)),
        ("first was here".into(), "the user was here".into(), "second was here".into())
    );
    assert_eq!(git(&world.project, &["diff", "--cached"]), staged, "the index is the user's");
    assert_eq!(traces(&world.project), (2, 1), "what is home is not kept twice");

    // Who wrote what, by file and line.
    let wrote = world.posse(&["tasks", "wrote", "list.txt"]).expect_code(0).out;
    let rows: Vec<&str> = wrote.lines().collect();
    assert!(rows[0].starts_with("list.txt  19+1  ses_") && rows[0].ends_with("general  the second"), "{wrote}");
    assert!(rows[1].starts_with("list.txt  2+1  ses_") && rows[1].ends_with("general  the first"), "{wrote}");

    // Once more is nothing new, and says so.
    let again = world.posse(&["tasks", "merge", "first"]).expect_code(2);
    assert!(again.err.contains("has no worktree any more") && again.err.contains("posse tasks wrote"), "{}", again.err);
}

/// Peers' ask 13: a conflict is told by file and place, nothing is half applied, and the others still come home.
#[test]
fn a_conflict_changes_nothing_and_holds_up_nobody() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    let done = world.posse(&["tasks", "merge", "first", "third", "second"]).expect_code(1);
    assert!(done.out.contains("conflict list.txt") && done.out.contains("line 2:"), "{}", done.out);
    assert!(done.out.contains("first was here") && done.out.contains("third was here"), "both versions are shown: {}", done.out);
    assert!(done.err.contains("nothing was changed") && done.err.contains("posse tasks send ses_"), "{}", done.err);
    assert_eq!((line(&world, 2), line(&world, 19)), ("first was here".into(), "second was here".into()));
    assert!(!world.read("list.txt").contains("<<<<<<<"));
    assert_eq!(traces(&world.project), (2, 1), "the third keeps its work");
    let json = world.posse(&["tasks", "merge", "third", "--format", "json"]).expect_code(1).json();
    assert_eq!(
        (&json[0]["status"], &json[0]["conflicts"][0]["path"], &json[0]["conflicts"][0]["hunks"][0]["line"]),
        (&json!("conflict"), &json!("list.txt"), &json!(2))
    );
    // Thrown away when it is said, and told to whoever started it.
    let gone = world.posse(&["tasks", "discard", "third"]).expect_code(0).out;
    assert!(gone.contains("the third: thrown away, 1 changed file"), "{gone}");
    assert_eq!(traces(&world.project), (1, 0));
    world.run(&["-c", "go on"]).expect_code(0);
    let said = requests_of(&world, "go").pop().unwrap();
    let said = said.user_texts().join("\n");
    for words in
        ["brought the work of task ses_", "into this folder. Changed: list.txt, other.txt.", "thrown away the worktree of task ses_"]
    {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    assert_eq!(said.matches("brought the work of task").count(), 2, "each is told once: {said}");
}

/// A branch instead of the folder: a commit with who wrote it, and the folder stays as it was.
#[test]
fn work_comes_to_a_branch_as_a_commit() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    git(&world.project, &["branch", "next"]);
    let done = world.posse(&["tasks", "merge", "first", "second", "--onto", "next", "--keep"]).expect_code(0);
    assert!(done.out.contains("2 files into next"), "{}", done.out);
    assert_eq!(git(&world.project, &["status", "--porcelain"]), "");
    assert_eq!(line(&world, 2), "line 2");
    assert_eq!(git(&world.project, &["show", "next:list.txt"]).lines().nth(1), Some("first was here"));
    let commit = git(&world.project, &["log", "-1", "--format=%B", "next"]);
    assert!(commit.contains("Posse-Task: ses_") && commit.contains("Posse-Agent: general"), "{commit}");
    assert_eq!(traces(&world.project), (4, 3), "--keep keeps");
    let checked_out =
        world.posse(&["tasks", "merge", "third", "--onto", git(&world.project, &["branch", "--show-current"]).trim()]).expect_code(1);
    assert!(checked_out.err.contains("is checked out"), "{}", checked_out.err);
}

/// What has no worktree says why.
#[test]
fn what_has_no_worktree_is_refused_in_words() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([call(
            "agent",
            json!({"description": "the plain", "prompt": "plain", "subagent_type": "general", "name": "plain"}),
        )]),
        (_, _) => Answer::text("ok"),
    });
    world.run(&["go"]).expect_code(0);
    for verb in ["diff", "merge", "discard"] {
        let refused = world.posse(&["tasks", verb, "plain"]).expect_code(2);
        assert!(
            refused.err.contains(&format!("has no worktree: it worked in {}; ", world.project.display()))
                && refused.err.contains("sessions show --edits"),
            "{}",
            refused.err
        );
        assert!(world.posse(&["tasks", verb, "nobody"]).expect_code(2).err.contains("there is no task nobody"));
    }
    assert!(world.posse(&["tasks", "wrote"]).expect_code(0).err.contains("nothing of a task was brought home"));
}

fn ids(seen: &Seen) -> Vec<String> {
    seen.last_results().iter().map(|result| result.rsplit("task_id: ").next().unwrap().trim().to_owned()).collect()
}

/// The model brings work home itself: asked about by default, judged by every file, undone like any edit.
fn merging() -> Plan {
    plan()
}

fn merges(seen: &Seen) -> Answer {
    match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls(["first", "third"].map(isolated)),
        ("go", 1) => Answer::calls(ids(seen).iter().map(|id| call("task_merge", json!({"task_id": id})))),
        ("go", _) => Answer::text(&seen.last_results().join("\n====\n")),
        ("first", 0) => Answer::calls([replace("list.txt", "^line 2$", "first was here")]),
        ("third", 0) => Answer::calls([replace("list.txt", "^line 2$", "third was here")]),
        (_, _) => Answer::text("done"),
    }
}

#[test]
fn the_model_merges_under_an_ask() {
    // Nobody to ask: it is refused, and nothing changes.
    let world = merging().script(merges);
    let refused = world.run(&["--format", "json", "go"]).expect_code(4).json();
    let denied: Vec<&str> = refused["denied"].as_array().unwrap().iter().map(|one| one["tool"].as_str().unwrap()).collect();
    assert_eq!((denied, line(&world, 2)), (vec!["task_merge", "task_merge"], "line 2".into()));

    // Allowed: the first comes home, the second is in conflict and says where.
    let world = merging().script(merges);
    let shown = world.run(&["--allow", "task_merge", "--format", "json", "go"]).expect_code(0).json();
    let result = shown["result"].as_str().unwrap();
    let (first, second) = result.split_once("====").unwrap();
    assert!(first.contains("is home (1 file):\n- changed list.txt (lines 2+1)"), "{first}");
    assert!(second.contains("list.txt") && second.contains("line 2:") && second.contains("third was here"), "{second}");
    assert_eq!(line(&world, 2), "first was here");
    // It is an edit of the session like any other.
    let session = shown["session"].as_str().unwrap();
    let edits = world.posse(&["sessions", "show", session, "--edits"]).expect_code(0).out;
    assert!(edits.contains("task_merge") && edits.contains("list.txt"), "{edits}");
    world.posse(&["sessions", "undo", session]).expect_code(0);
    assert_eq!(line(&world, 2), "line 2");
}

/// A rule about files holds for what is brought home, too.
#[test]
fn a_merge_is_judged_by_every_file() {
    for (rules, allowed) in [(&["--deny", "edit(other.txt)"][..], true), (&["--deny", "edit(list.txt)"], false)] {
        let world = merging().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("first")]),
            ("go", 1) => Answer::calls(ids(seen).iter().map(|id| call("task_merge", json!({"task_id": id})))),
            ("first", 0) => Answer::calls([call("bash", json!({"command": "printf 'x\\n' > list.txt"}))]),
            (_, _) => Answer::text("done"),
        });
        world.run(&[&["--allow", "task_merge", "--allow", "bash"], rules, &["go"]].concat()).expect_code(0);
        assert_eq!(world.read("list.txt") == "x\n", allowed, "{rules:?}");
    }
}

/// What a killed process leaves is listed by `doctor` and cleaned; what holds work is not.
#[test]
fn doctor_lists_and_cleans_what_is_left_over() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    let listed = |args: &[&str]| -> Vec<Value> {
        let shown = world.posse(&[&["doctor", "--format", "json"], args].concat()).json();
        shown["checks"].as_array().unwrap().iter().filter(|check| check["check"] == "worktrees").cloned().collect()
    };
    let work = listed(&[]);
    assert_eq!(work.len(), 3, "{work:#?}");
    assert!(work.iter().all(|check| check["words"].as_str().unwrap().contains("posse tasks merge ses_")), "{work:#?}");
    // Somebody removes a folder by hand, and a stray branch is left.
    let path = PathBuf::from(
        git(&world.project, &["worktree", "list", "--porcelain"]).lines().filter_map(|line| line.strip_prefix("worktree ")).nth(1).unwrap(),
    );
    std::fs::write(path.parent().unwrap().join("stray.txt"), "").unwrap();
    git(&world.project, &["branch", "posse/ses_nobody"]);
    let more = listed(&[]);
    assert!(work.len() < more.len() && more.iter().any(|check| check["words"].as_str().unwrap().contains("doctor --clean")), "{more:#?}");
    listed(&["--clean"]);
    let after = listed(&[]);
    assert!(!git(&world.project, &["branch", "--list", "posse/*"]).contains("ses_nobody"), "{after:#?}");
    assert_eq!(after.iter().filter(|check| check["words"].as_str().unwrap().contains("posse tasks merge ses_")).count(), 3, "{after:#?}");
    assert_eq!(traces(&world.project), (4, 3), "work is never cleaned");
}

/// Twenty workers in twenty worktrees, five of them on lines that others have changed: every change lands or is told as a conflict, none is lost.
#[test]
fn twenty_workers_lose_nothing() {
    const WORKERS: usize = 20;
    const LINES: usize = 15;
    let lines: String = (0..LINES * 4).map(|line| format!("line {line}\n")).collect();
    let world = World::with().file("list.txt", &lines).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls((0..WORKERS).map(|worker| isolated(&format!("w{worker}")))),
        ("go", _) => Answer::text("all have worked"),
        (name, 0) => {
            let worker: usize = name[1..].parse().unwrap();
            Answer::calls([replace("list.txt", &format!("^line {}$", worker % LINES * 4), &format!("{name} was here"))])
        }
        (_, _) => Answer::text("done"),
    });
    world.run(&["go"]).expect_code(0);
    assert_eq!(traces(&world.project), (1 + WORKERS, WORKERS));
    let names: Vec<String> = (0..WORKERS).map(|worker| format!("w{worker}")).collect();
    let args: Vec<&str> = ["tasks", "merge", "--format", "json"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let told = world.posse(&args).expect_code(1).json();
    for (worker, row) in told.as_array().unwrap().iter().enumerate() {
        let late = LINES <= worker;
        assert_eq!(row["status"], if late { "conflict" } else { "merged" }, "w{worker}: {row}");
        let said = if late { row["conflicts"][0]["hunks"][0]["text"].as_str().unwrap().to_owned() } else { world.read("list.txt") };
        assert!(said.contains(&format!("w{worker} was here")), "w{worker}: {said}");
    }
    // Whoever was in conflict has its work where it was.
    assert_eq!(traces(&world.project), (1 + WORKERS - LINES, WORKERS - LINES));
    for worker in LINES..WORKERS {
        assert!(world.posse(&["tasks", "diff", &format!("w{worker}")]).expect_code(0).out.contains(&format!("+w{worker} was here")));
    }
}

/// A task is meant by its name or by the start of its id, as everywhere.
#[test]
fn the_model_merges_by_name_and_by_the_start_of_an_id() {
    for by_start in [false, true] {
        let world = merging().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("first")]),
            ("go", 1) => {
                let meant = if by_start { ids(seen)[0][..12].to_owned() } else { "first".to_owned() };
                Answer::calls([call("task_merge", json!({"task_id": meant})), call("task_merge", json!({"task_id": "nobody"}))])
            }
            ("go", _) => Answer::text(&seen.last_results().join("====")),
            ("first", 0) => Answer::calls([replace("list.txt", "^line 2$", "first was here")]),
            (_, _) => Answer::text("done"),
        });
        let shown = world.run(&["--allow", "task_merge", "--format", "json", "go"]).expect_code(0).json();
        let (merged, unknown) = shown["result"].as_str().unwrap().split_once("====").unwrap();
        assert!(merged.contains("is home (1 file)"), "{merged}");
        assert!(unknown.contains("There is no task with the id or name `nobody`. There are: first = ses_"), "{unknown}");
        assert_eq!(line(&world, 2), "first was here");
    }
}

/// Where a file was renamed at home, the work comes to its new name, and that is what the rules are asked about.
#[test]
fn a_merge_into_a_renamed_file_is_judged_by_its_new_name() {
    for (rules, allowed) in [(&[][..], true), (&["--deny", "edit(moved/**)"], false)] {
        let world = merging().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("first")]),
            ("go", 1) => Answer::text("it has worked"),
            ("go", 2) => Answer::calls([call("task_merge", json!({"task_id": "first"}))]),
            ("go", _) => Answer::text(&seen.last_results().join("")),
            ("first", 0) => Answer::calls([replace("list.txt", "^line 2$", "first was here")]),
            (_, _) => Answer::text("done"),
        });
        world.run(&["go"]).expect_code(0);
        std::fs::create_dir(world.project.join("moved")).unwrap();
        std::fs::rename(world.project.join("list.txt"), world.project.join("moved/list.txt")).unwrap();
        let said = world.run(&[&["-c", "--allow", "task_merge"], rules, &["bring it home"]].concat()).expect_code(0).out;
        assert_eq!(world.read("moved/list.txt").contains("first was here"), allowed, "{rules:?}: {said}");
        assert!(!world.project.join("list.txt").exists());
    }
}

/// A merge that was killed before its caller was told is told by whoever finishes it: the next merge, a cleaning, or the next word.
#[test]
fn a_killed_merge_is_told_by_who_finishes_it() {
    let finishing: [&[&str]; 3] = [&["tasks", "merge", "first"], &["doctor", "--clean"], &["run", "-c", "what is new?"]];
    for command in finishing {
        let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("first")]),
            ("go", 1) => Answer::text("it has worked"),
            ("go", _) => Answer::text(&seen.user_texts().join("\n")),
            ("first", 0) => Answer::calls([replace("list.txt", "^line 2$", "first was here")]),
            (_, _) => Answer::text("done"),
        });
        world.run(&["go"]).expect_code(0);
        let died = world.command(&["tasks", "merge", "first"]).env("POSSE_CRASH_AT", "before_append:1").run();
        assert_ne!(died.code, Some(0), "{died:?}");
        assert_eq!(line(&world, 2), "first was here", "what is written is written");
        let root = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned();
        let told =
            || world.posse(&["sessions", "export", &root, "--format", "jsonl"]).expect_code(0).out.matches("\"brought_home\"").count();
        assert_eq!(told(), 0);
        world.posse(command);
        assert_eq!(told(), 1, "{command:?}");
        let heard = world.run(&["-c", "and now?"]).expect_code(0).out;
        assert!(heard.contains("has brought the work of task ses_") && heard.contains("Changed: list.txt."), "{command:?}: {heard}");
        assert_eq!(told(), 1, "{command:?}: once");
    }
}

/// Who wrote what is known as long as the task's session is; with it the repository is rid of it.
#[test]
fn who_wrote_what_goes_with_the_session() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    let kept = || git(&world.project, &["for-each-ref", "--format=%(refname)", "refs/posse"]).lines().count();
    world.posse(&["tasks", "merge", "first"]).expect_code(0);
    world.posse(&["tasks", "discard", "third"]).expect_code(0);
    world.posse(&["doctor", "--clean"]);
    let wrote = world.posse(&["tasks", "wrote"]).expect_code(0).out;
    assert!(wrote.contains("the first") && wrote.contains("list.txt"), "nothing of a living task is forgotten: {wrote}");
    let root = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned();
    // Another session stays, so the store is not empty; what it merges is its own.
    world.run(&["go"]).expect_code(0);
    let second = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let again = second.as_array().unwrap().iter().find(|task| task["name"] == "first").unwrap()["session"].as_str().unwrap().to_owned();
    world.posse(&["tasks", "merge", &again]);
    // One with work that is not home is kept; what is thrown away holds nothing up.
    let refused = world.posse(&["sessions", "rm", &root]).expect_code(1);
    let unmerged = refused.err.lines().find(|line| line.starts_with("  ses_")).unwrap().split_whitespace().next().unwrap().to_owned();
    world.posse(&["tasks", "discard", &unmerged]).expect_code(0);
    let before = kept();
    world.posse(&["sessions", "rm", &root]).expect_code(0);
    let after = kept();
    assert!(after < before, "{before} and {after}");
    let left = git(&world.project, &["for-each-ref", "--format=%(refname) %(contents:subject)", "refs/posse/merges"]);
    assert!(!left.contains("the first") || left.contains(&again.to_ascii_lowercase()), "{left}");
    // The work of `second` was never brought home: its names stay until somebody sees to it.
    assert!(git(&world.project, &["branch", "--list", "posse/*"]).lines().count() >= 1);
    // A session that went without its repository being asked: doctor sees to it.
    let commit = git(
        &world.project,
        &["commit-tree", "HEAD^{tree}", "-m", "Merge task ses_gone: x\n\nPosse-Task: ses_gone\nPosse-Agent: x\nPosse-Home: main"],
    );
    git(&world.project, &["update-ref", "refs/posse/merges/ses_gone/1", commit.trim()]);
    let foreign = git(
        &world.project,
        &["commit-tree", "HEAD^{tree}", "-m", "Merge task ses_there: x\n\nPosse-Task: ses_there\nPosse-Home: worktrees/linked"],
    );
    git(&world.project, &["update-ref", "refs/posse/merges/ses_there/1", foreign.trim()]);
    let said = world.posse(&["doctor"]).out;
    assert!(said.contains("1 task whose session is gone"), "{said}");
    assert!(git(&world.project, &["for-each-ref", "refs/posse/merges/ses_gone"]).contains("ses_gone"), "looking changes nothing");
    world.posse(&["doctor", "--clean"]);
    let left = git(&world.project, &["for-each-ref", "--format=%(refname)", "refs/posse/merges"]);
    assert!(!left.contains("ses_gone") && left.contains("ses_there"), "{left}");
}

fn root(world: &World) -> String {
    world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned()
}

fn task(world: &World, name: &str) -> String {
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    tasks.as_array().unwrap().iter().find(|task| task["name"] == name).unwrap()["session"].as_str().unwrap().to_owned()
}

/// CC-223: with a session goes the only way to bring its tasks' work home, so one with work is kept, and says which and what to do.
#[test]
fn a_session_whose_tasks_hold_work_is_not_removed() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    let root = root(&world);
    world.posse(&["tasks", "merge", "first"]).expect_code(0);
    let (second, third) = (task(&world, "second"), task(&world, "third"));
    let kept = world.posse(&["sessions", "rm", &root]).expect_code(1);
    for words in [&second, &third, "worktrees/", "1 changed file", "posse tasks merge ses_", "posse tasks discard ses_"] {
        assert!(kept.err.contains(words), "no `{words}` in {}", kept.err);
    }
    assert!(kept.out.is_empty() && !kept.err.contains(&task(&world, "first")), "{kept:?}");
    // By age it is left, and said.
    for id in [root.clone(), task(&world, "first"), second.clone(), third.clone()] {
        crate::storage::make_old(&world, &id, 40);
    }
    for more in [&["--dry-run"][..], &[]] {
        let done = world.posse(&[&["sessions", "rm", "--older-than", "30d"], more].concat()).expect_code(0);
        assert!(done.out.is_empty() && done.err.contains(&format!("{root} is kept")) && done.err.contains(&second), "{done:?}");
    }
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
    config["retention"] = json!({"age": "30d"});
    world.configure(&config);
    let done = world.run(&["something else"]).expect_code(0);
    assert!(done.err.contains("1 session is kept") && done.err.contains("posse doctor"), "{}", done.err);
    // Nothing of it was touched.
    world.posse(&["tasks", "diff", &second]).expect_code(0);
    world.posse(&["tasks", "merge", &second]).expect_code(0);
    world.posse(&["tasks", "discard", &third]).expect_code(0);
    world.posse(&["sessions", "rm", &root]).expect_code(0);
}

/// A worktree whose session is gone all the same is listed with what its user can do without posse's record of it.
#[test]
fn a_worktree_without_a_session_is_listed_with_what_to_do() {
    let world = three();
    world.run(&["go"]).expect_code(0);
    let second = task(&world, "second").to_ascii_lowercase();
    std::fs::remove_dir_all(crate::storage::data(&world)).unwrap();
    world.run(&["something else"]).expect_code(0);
    let said = world.posse(&["doctor"]).out;
    for words in ["git worktree remove --force".to_owned(), format!("git branch -D posse/{second}"), format!("{second} diff")] {
        assert!(said.contains(&words), "no `{words}` in {said}");
    }
}

/// Only a branch moved, so that is said: the folder is as it was.
#[test]
fn the_model_is_told_which_branch_has_the_work() {
    let world = merging().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("first")]),
        ("go", 1) => Answer::calls(ids(seen).iter().map(|id| call("task_merge", json!({"task_id": id, "onto": "next"})))),
        ("go", _) => Answer::text(&seen.last_results().join("\n")),
        ("first", 0) => Answer::calls([replace("list.txt", "^line 2$", "first was here")]),
        (_, _) => Answer::text("done"),
    });
    git(&world.project, &["branch", "next"]);
    let shown = world.run(&["--allow", "task_merge", "--format", "json", "go"]).expect_code(0).json();
    let result = shown["result"].as_str().unwrap();
    assert!(result.contains("is a commit on the branch next (1 file)") && result.contains("Your folder is as it was"), "{result}");
    assert!(!result.contains("is home") && !result.contains("Read a file again"), "{result}");
    assert_eq!((line(&world, 2), git(&world.project, &["show", "next:list.txt"]).contains("first was here")), ("line 2".into(), true));
}

/// Lines are as they are now, a path may be written in any way, and what has nothing is named.
#[test]
fn who_wrote_what_follows_the_lines_and_the_path() {
    let world = plan().file("sub/inner.txt", "inner\n").script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls(["first", "second"].map(isolated)),
        ("first", 0) => Answer::calls([replace("list.txt", "^line 12$", "first was here"), replace("sub/inner.txt", "inner", "INNER")]),
        ("second", 0) => Answer::calls([call("bash", json!({"command": "sed -i '1i top\\ntop\\ntop' list.txt"}))]),
        (_, _) => Answer::text("done"),
    });
    world.run(&["go"]).expect_code(0);
    world.posse(&["tasks", "merge", "first", "second"]).expect_code(0);
    let wrote = |path: &str| world.posse(&["tasks", "wrote", path]).expect_code(0);
    let rows = wrote("list.txt").out;
    assert!(rows.contains("list.txt  1+3  ses_") && rows.contains("list.txt  15+1  ses_"), "{rows}");
    world.write("list.txt", &world.read("list.txt").replace("first was here\n", "the user was here\n"));
    let rows = wrote("list.txt").out;
    assert!(rows.contains("list.txt  (1 line is not here now)  ses_"), "{rows}");
    let json = world.posse(&["tasks", "wrote", "list.txt", "--format", "json"]).expect_code(0).json();
    assert_eq!((&json[1]["hunks"], &json[1]["gone"]), (&json!([]), &json!(1)), "{json}");
    for path in ["sub/inner.txt", "./sub/../sub/inner.txt", "sub", world.project.join("sub/inner.txt").to_str().unwrap()] {
        assert!(wrote(path).out.starts_with("sub/inner.txt  1+1  ses_"), "{path}");
    }
    assert!(wrote(".").out.contains("list.txt") && wrote(".").out.contains("sub/inner.txt"));
    for (path, words) in [("nosuch", "nothing of a task was brought home into nosuch"), ("other.txt", "into other.txt")] {
        assert!(wrote(path).err.contains(words), "{path}: {}", wrote(path).err);
    }
    let outside = world.posse(&["tasks", "wrote", "../elsewhere"]).expect_code(2);
    assert!(outside.err.contains("not in"), "{}", outside.err);
}

/// What is in a submodule is named by the result, by `diff` and by `merge`, which has failed if there is nothing else.
#[test]
fn work_in_a_submodule_is_named_everywhere() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("first")]),
        ("go", 1) => Answer::text(&seen.last_results().join("\n")),
        ("first", 0) => Answer::calls([call("bash", json!({"command": "echo x >> deps/inner.txt"}))]),
        (_, _) => Answer::text("done"),
    });
    let library = world.project.with_file_name("library");
    std::fs::create_dir(&library).unwrap();
    std::fs::write(library.join("inner.txt"), "inner\n").unwrap();
    git(&library, &["init", "-q"]);
    git(&library, &["add", "-A"]);
    git(&library, &["commit", "-qm", "library"]);
    git(&world.project, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.to_str().unwrap(), "deps"]);
    git(&world.project, &["commit", "-qm", "submodule"]);
    let shown = world.run(&["--format", "json", "go"]).expect_code(0).json();
    let result = shown["result"].as_str().unwrap();
    for words in ["worktree: /", "branch: posse/ses_", "the submodule deps has 1 changed file (inner.txt)", "does not bring"] {
        assert!(result.contains(words), "no `{words}` in {result}");
    }
    let diff = world.posse(&["tasks", "diff", "first"]).expect_code(0).err;
    assert!(diff.contains("deps") && diff.contains("inner.txt") && !diff.contains("has changed nothing"), "{diff}");
    let merged = world.posse(&["tasks", "merge", "first"]).expect_code(1).err;
    assert!(merged.contains("deps") && merged.contains("inner.txt") && !merged.contains("nothing new"), "{merged}");
}

/// What the user brought home is the user's own to take back, and `undo` says so and how.
#[test]
fn an_undo_says_what_becomes_of_work_that_the_user_brought_home() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("first")]),
        ("first", 0) => Answer::calls([call("write", json!({"filePath": "new.txt", "content": "new\n"}))]),
        (_, _) => Answer::text("done"),
    });
    world.run(&["go"]).expect_code(0);
    world.posse(&["tasks", "merge", "first"]).expect_code(0);
    let undone = world.posse(&["sessions", "undo", &root(&world)]).expect_code(0);
    for words in ["1 edit was made in worktrees that are gone", "`posse tasks merge` stays", "git restore"] {
        assert!(undone.err.contains(words), "no `{words}` in {}", undone.err);
    }
    assert_eq!(world.read("new.txt"), "new\n");
}
