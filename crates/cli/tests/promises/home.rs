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
        assert!(refused.err.contains("has no worktree: it worked in ") && refused.err.contains("sessions show --edits"), "{}", refused.err);
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
