//! Paths: the shared cases and our own, and what the tools make of protected files, swapped roots, replaced files and links.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use common::{Office, words};
use posse_tools::{PathOp, Whereabouts, judge_path, test_path_case};
use serde_json::{Value, json};

fn wrong(cases: &str) -> (usize, Vec<String>) {
    let cases: Vec<Value> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wrong = cases.iter().filter_map(|case| {
        let found = test_path_case(case).map(|found| (found.verdict.to_string(), found.why));
        let right = found.as_ref().is_ok_and(|(verdict, _)| case["expected"] == **verdict);
        (!right).then(|| format!("{} {:?} {}: {found:?}, wanted {}", case["id"], case["path"], case["why"], case["expected"]))
    });
    (cases.len(), wrong.collect())
}

#[test]
fn the_shared_cases_pass() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/paths.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("skipped: no corpus at {}", file.display());
        return;
    };
    let (all, wrong) = wrong(&text);
    assert!(wrong.is_empty(), "{} of {all} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn our_own_cases_pass() {
    let (all, wrong) = wrong(include_str!("paths/cases.jsonl"));
    assert!(wrong.is_empty(), "{} of {all} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(100 < all);
}

#[test]
fn a_case_that_is_not_understood_is_an_error() {
    let case = |setup: Value, path: &str| test_path_case(&json!({"root": "/w/proj", "setup": setup, "path": path, "op": "write"}));
    for (setup, words) in [
        (json!([{"mount": "/w/proj/m"}]), "is not understood"),
        (json!([{"file": "/w/proj/a", "owner": "root"}]), "is not understood"),
        (json!(["/w/proj/a"]), "must be an object"),
        (json!("none"), "needs `setup`"),
        (json!([{"race": "after check: the moon rises"}]), "this race is not understood"),
        (json!([{"race": "after check: symlink ../up -> /etc"}]), "no plain name"),
        (json!([{"via": "carrier pigeon"}]), "is not known"),
        (json!([{"sparse": "/w/proj/a", "size": "many"}]), "`size` must be a number"),
        // Whatever a case says, nothing is made outside of its own folder.
        (json!([{"symlink": "/etc/posse-test", "target": "x"}]), "where nothing is made"),
        (json!([{"file": "/w/../../posse-test"}]), "where nothing is made"),
        (json!([{"symlink": "/w/proj/l", "target": "/var/tmp"}, {"file": "/w/proj/l/posse-test"}]), "leads outside of /w"),
        (json!([{"hardlink": "/w/proj/l", "target": "/etc/passwd"}]), "where nothing is made"),
    ] {
        let said = case(setup.clone(), "a").unwrap_err();
        assert!(said.contains(words), "{setup}: {said}");
    }
    for broken in
        [json!({"root": "w", "setup": [], "path": "a", "op": "read"}), json!({"root": "/w/p", "setup": [], "path": "a", "op": "run"})]
    {
        assert!(test_path_case(&broken).is_err(), "{broken}");
    }
    // Only root makes devices; elsewhere the case says so instead of passing.
    match case(json!([{"device": "/w/proj/null"}]), "null") {
        Ok(found) => assert_eq!(found.verdict, Whereabouts::Refuse),
        Err(said) => assert!(said.contains("does not permit"), "{said}"),
    }
    let found = case(json!([{"file": "/w/out"}]), "../out").unwrap();
    assert_eq!((found.why.as_str(), found.real.as_path()), ("/w/out is outside the project.", Path::new("/w/out")));
}

#[test]
fn a_project_that_is_not_there_is_refused() {
    let found = judge_path(Path::new("/no/such/project"), "a", PathOp::Read);
    assert_eq!(found.verdict, Whereabouts::Refuse);
    assert!(found.why.starts_with("The project's folder /no/such/project cannot be opened:"), "{}", found.why);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(judge_path(folder.path(), "a", PathOp::Write).verdict, Whereabouts::Inside);
}

#[test]
fn a_protected_file_is_a_touch_of_its_own() {
    let office = Office::new();
    office.file("conf/x.md", "");
    symlink("conf", office.root.join(".opencode")).unwrap();
    symlink(".git/hooks", office.root.join("hooks")).unwrap();
    for (path, touches) in [
        ("a.rs", vec!["edit a.rs"]),
        ("posse.json", vec!["edit posse.json", "protected posse.json"]),
        ("sub/OpenCode.JSON", vec!["edit sub/OpenCode.JSON", "protected sub/OpenCode.JSON"]),
        // By where it leads, by how it is spelled, and because its folder would be made.
        ("hooks/pre-push", vec!["edit .git/hooks/pre-push", "edit hooks/pre-push", "protected .git/hooks/pre-push"]),
        (".opencode/x.md", vec!["edit conf/x.md", "edit .opencode/x.md", "protected .opencode/x.md"]),
        (".github/CODEOWNERS", vec!["edit .github/CODEOWNERS", "protected .github/CODEOWNERS"]),
    ] {
        assert_eq!(office.touches("write", json!({"filePath": path, "content": ""})), touches, "{path}");
        assert_eq!(office.touches("edit", json!({"filePath": path, "oldString": "", "newString": "x"})), touches, "{path}");
    }
    fs::create_dir(office.root.join(".github")).unwrap();
    assert_eq!(office.touches("write", json!({"filePath": ".github/CODEOWNERS", "content": ""})), ["edit .github/CODEOWNERS"]);
    assert_eq!(office.touches("read", json!({"filePath": "posse.json"})), ["read posse.json"]);
    let outside = office.root.parent().unwrap().join(".bashrc");
    let touches = office.touches("write", json!({"filePath": outside, "content": ""}));
    assert_eq!(
        touches[1..],
        [format!("external_directory {}/*", outside.parent().unwrap().display()), format!("protected {}", outside.display())]
    );
}

#[test]
fn whoever_shows_parts_of_an_env_file_reads_it() {
    let office = Office::new();
    office.file(".env.local", "KEY=1\n");
    symlink(".env.local", office.root.join("settings")).unwrap();
    let edit = |path: &str| json!({"filePath": path, "oldString": "a", "newString": "b", "edits": [{"oldString": "a", "newString": "b"}]});
    for tool in ["edit", "multi_edit"] {
        assert_eq!(office.touches(tool, edit(".env.local")), ["edit .env.local", "read .env.local"]);
        assert_eq!(office.touches(tool, edit("settings")), ["edit .env.local", "edit settings", "read .env.local", "read settings"]);
        assert_eq!(office.touches(tool, edit(".env.example")), ["edit .env.example"]);
    }
    assert_eq!(office.touches("write", json!({"filePath": ".env", "content": ""})), ["edit .env"]);
}

#[tokio::test]
async fn a_project_that_was_replaced_is_not_the_one_that_was_opened() {
    let office = Office::new();
    office.file("a.txt", "ours\n");
    let moved = office.root.parent().unwrap().join("moved");
    fs::rename(&office.root, &moved).unwrap();
    fs::create_dir(&office.root).unwrap();
    office.file("a.txt", "theirs\n");
    for (tool, input) in [
        ("read", json!({"filePath": "a.txt"})),
        ("write", json!({"filePath": "a.txt", "content": "x"})),
        ("edit", json!({"filePath": "a.txt", "oldString": "theirs", "newString": "x"})),
        ("grep", json!({"pattern": "theirs"})),
        ("glob", json!({"pattern": "*"})),
        ("list", json!({})),
    ] {
        let said = office.say(tool, input).await;
        assert!(said.contains("is no longer the one in which this session began"), "{tool}: {said}");
    }
    assert_eq!((office.text_of("a.txt"), fs::read_to_string(moved.join("a.txt")).unwrap()), ("theirs\n".into(), "ours\n".into()));
    // Back in its place it is the same again.
    fs::remove_dir_all(&office.root).unwrap();
    fs::rename(&moved, &office.root).unwrap();
    assert_eq!(office.say("read", json!({"filePath": "a.txt"})).await, "1|ours\n");
}

#[tokio::test]
async fn a_verdict_is_on_the_file_that_was_there() {
    let office = Office::new();
    let replace = |text: &str| {
        office.file("theirs", text);
        fs::rename(office.root.join("theirs"), office.root.join("a.txt")).unwrap();
    };
    let write = json!({"filePath": "a.txt", "content": "mine\n"});
    let edit = json!({"filePath": "a.txt", "oldString": "one", "newString": "two"});
    let refused = "a.txt: the file changed since it was judged, so nothing was done. Make the call again if it is still wanted.";
    for (tool, input) in [("write", &write), ("edit", &edit)] {
        office.file("a.txt", "one\n");
        assert_eq!(words(&office.run_after(tool, input.clone(), || replace("one of theirs\n")).await), refused, "{tool}");
        assert_eq!(office.text_of("a.txt"), "one of theirs\n");
    }
    // What was not there is not overwritten either; what is gone can be made anew.
    fs::remove_file(office.root.join("a.txt")).unwrap();
    assert_eq!(words(&office.run_after("write", write.clone(), || replace("theirs\n")).await), refused);
    let outcome = office.run_after("write", write.clone(), || fs::remove_file(office.root.join("a.txt")).unwrap()).await;
    assert_eq!(words(&outcome), "Created a.txt (1 line, 5 bytes).");
    // A file that is changed in place is still the same one; what is in it is the stale guard's business.
    let outcome = office.run_after("write", write.clone(), || fs::write(office.root.join("a.txt"), "mine\n").unwrap()).await;
    assert!(words(&outcome).starts_with("Unchanged"), "{outcome:?}");
}

#[tokio::test]
async fn calls_of_one_reply_may_change_the_same_file() {
    let office = Office::new();
    office.file("a.txt", "one\ntwo\n");
    let edits = [("one", "1"), ("two", "2")].map(|(old, new)| json!({"filePath": "a.txt", "oldString": old, "newString": new}));
    let (edit, write) = (office.tool("edit"), office.tool("write"));
    let made = ["new.txt", "a.txt"].map(|name| json!({"filePath": name, "content": format!("{name}\n")}));
    let workspace = &*office.context.workspace;
    // All are looked at before the first one runs, twice where hooks look too; then each replaces the file of the one before.
    for _ in 0..2 {
        edits.iter().for_each(|input| drop(edit.look(input, workspace).unwrap()));
        made.iter().for_each(|input| drop(write.look(input, workspace).unwrap()));
    }
    let changed_later = json!({"filePath": "new.txt", "oldString": "new", "newString": "old"});
    edit.look(&changed_later, workspace).unwrap();
    let mut said = Vec::new();
    for (tool, input) in
        edits.iter().map(|input| (&edit, input)).chain(made.iter().map(|input| (&write, input))).chain([(&edit, &changed_later)])
    {
        let call = posse_session::ToolCall { id: common::fresh_call(), input: input.clone(), answer: None };
        said.push(words(&tool.run(&call, &office.context).await).split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(said, ["Edited a.txt", "Edited a.txt", "Created new.txt", "Overwrote a.txt", "Edited new.txt"]);
    assert_eq!((office.text_of("a.txt"), office.text_of("new.txt")), ("a.txt\n".into(), "old.txt\n".into()));
}

#[tokio::test]
async fn a_hard_link_is_written_beside_and_not_through() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("store");
    fs::write(&outside, "kept\n").unwrap();
    for name in ["written", "edited"] {
        fs::hard_link(&outside, office.root.join(name)).unwrap();
    }
    assert_eq!(office.say("read", json!({"filePath": "written"})).await, "1|kept\n");
    office.say("write", json!({"filePath": "written", "content": "new\n"})).await;
    office.say("edit", json!({"filePath": "edited", "oldString": "kept", "newString": "new"})).await;
    assert_eq!((office.text_of("written"), office.text_of("edited")), ("new\n".into(), "new\n".into()));
    assert_eq!(fs::read_to_string(outside).unwrap(), "kept\n");
}

#[tokio::test]
async fn a_walk_does_not_leave_through_links() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/secret.txt"), "needle\n").unwrap();
    office.file("in/a.txt", "needle\n");
    symlink(&outside, office.root.join("in/folder")).unwrap();
    symlink(outside.join("deep/secret.txt"), office.root.join("in/file.txt")).unwrap();
    assert_eq!(office.say("grep", json!({"pattern": "needle"})).await, "in/a.txt:\n  1: needle\n");
    let found = office.say("glob", json!({"pattern": "**/*.txt"})).await;
    assert!(!found.contains("secret") && found.contains("in/file.txt"), "{found}");
    assert_eq!(office.say("list", json!({})).await, "./\n  in/\n    a.txt\n    file.txt\n    folder\n");
    // A folder that may not be read is said to be so, not shown as empty.
    let closed = office.root.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_err() {
        assert!(office.say("list", json!({"path": "closed"})).await.contains("refuses permission"));
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}
