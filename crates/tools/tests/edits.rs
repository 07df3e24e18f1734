//! edit, multi_edit, write: what is forgiven, what is recorded of a change, taking it back, and being killed while writing.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{Office, metadata, words};
use posse_session::{Outcome, Part};
use posse_tools::{Keeper, LocalWorkspace, RecordedFile, content_hash, reversed};
use serde_json::{Value, json};

#[tokio::test]
async fn what_was_forgiven_is_said_and_shown() {
    let office = Office::new();
    office.file("a.py", "class A:\n\tdef alpha(self):\n\t\treturn 1\n");
    let edit = json!({"filePath": "a.py", "oldString": "def alpha(self):\n    return 1", "newString": "def alpha(self):\n    if self:\n        return 2"});
    assert_eq!(
        office.say("edit", edit).await,
        "Edited a.py at line 2 (oldString matched except for indentation; newString was moved to the indentation of the file).\n\
         It stood there as:\n2|\tdef alpha(self):\n3|\t\treturn 1\nNow:\n1|class A:\n2|\tdef alpha(self):\n3|\t\tif self:\n4|\t\t\treturn 2"
    );
    assert_eq!(office.text_of("a.py"), "class A:\n\tdef alpha(self):\n\t\tif self:\n\t\t\treturn 2\n");
    office.file("b.rs", "let apple = 1;  \nlet pear = 2;\n");
    let edit = json!({"filePath": "b.rs", "oldString": "let apple = 1;\nlet pear", "newString": "let plum"});
    let said = office.say("edit", edit).await;
    assert!(said.starts_with("failed: oldString was not found in b.rs. The closest place is:\n1|let apple = 1;  \n"), "{said}");
    let edit = json!({"filePath": "b.rs", "oldString": "let apple = 1;\nlet pear = 2;", "newString": "let plum = 3;"});
    let said = office.say("edit", edit).await;
    assert_eq!(
        said,
        "Edited b.rs at line 1 (oldString matched except for blanks at the ends of lines).\n\
         It stood there as:\n1|let apple = 1;  \n2|let pear = 2;\nNow:\n1|let plum = 3;"
    );
}

#[tokio::test]
async fn a_forgiving_match_is_never_a_guess() {
    let office = Office::new();
    for (text, old, said) in [
        (
            "  call(one);\n    call(one);\n",
            "call(one); ",
            "failed: oldString stands at 2 places in a.txt if indentation does not count (lines 1, 2), so it is unclear which one is meant.",
        ),
        (
            "call(one);  \ncall(one);\t\n",
            "call(one); \n",
            "failed: oldString stands at 2 places in a.txt if blanks at the ends of lines do not count (lines 1, 2), so it is unclear",
        ),
        ("abcabcabc", "abcabc", "failed: oldString stands at 2 places in a.txt (lines 1, 1), so it is unclear which one is meant."),
        // Not the structure of the file: where the new lines belong cannot be told.
        (
            "    if apple:\n        eat()\n",
            "if apple:\neat()",
            "failed: oldString was not found in a.txt. The closest place is:\n1|    if apple:\n2|        eat()",
        ),
    ] {
        office.file("a.txt", text);
        let answer = office.say("edit", json!({"filePath": "a.txt", "oldString": old, "newString": "x"})).await;
        assert!(answer.starts_with(said), "{old:?} in {text:?}: {answer}");
        assert_eq!(office.text_of("a.txt"), text);
    }
}

#[tokio::test]
async fn several_edits_are_made_in_order_or_not_at_all() {
    let office = Office::new();
    let text = "one\ntwo\nthree\n";
    let edit = |old: &str, new: &str| json!({"oldString": old, "newString": new});
    for (edits, said, after) in [
        (
            json!([edit("one", "1"), edit("1\ntwo", "1 and 2")]),
            "Made 2 edits in a.txt.\nEdit 1 at line 1.\n1|1\n2|two\n3|three\nEdit 2 at line 1.\n1|1 and 2\n2|three",
            "1 and 2\nthree\n",
        ),
        (json!([edit("three", "3")]), "Edited a.txt at line 3.\n1|one\n2|two\n3|3", "one\ntwo\n3\n"),
        // As a string, which some models send.
        (
            json!("[{\"old_string\": \"e\", \"new_string\": \"E\", \"replace_all\": true}]"),
            "Edited a.txt at 3 places, the first at line 1.\n1|onE\n2|two\n3|thrEE",
            "onE\ntwo\nthrEE\n",
        ),
        (
            json!([edit("one", "1"), edit("one", "eins"), edit("two", "2")]),
            "failed: Edit 2 of 3 could not be made, so nothing was written. oldString was not found in a.txt. Nothing in it looks similar; read the file again.",
            text,
        ),
        (
            json!([edit("t", "T")]),
            "failed: Edit 1 of 1 could not be made, so nothing was written. oldString stands at 2 places in a.txt (lines 2, 3), so it is unclear which one is meant. Add lines around it until it is unique, or set replaceAll.",
            text,
        ),
        (
            json!([edit("one\n", ""), edit("t", "T")]),
            "failed: Edit 2 of 2 could not be made, so nothing was written. oldString stands at 2 places in a.txt (lines 1, 2), so it is unclear which one is meant. Add lines around it until it is unique, or set replaceAll. (Line numbers count with the edits before it.)",
            text,
        ),
        (json!([edit("one", "1"), edit("1", "one")]), "failed: The change leaves a.txt as it is, so nothing was written.", text),
        (
            json!([edit("one", "1"), edit("x", "x")]),
            "failed: multi_edit: oldString and newString are the same, so there is nothing to change. (edit 2 of 2; nothing was written)",
            text,
        ),
        (
            json!([edit("one", "1"), {"oldString": "two"}]),
            "failed: multi_edit: the required parameter `newString` (a string) is missing; the call had only: oldString. Call multi_edit again with it. (edit 2 of 2; nothing was written)",
            text,
        ),
        (
            json!([edit("", "x")]),
            "failed: Edit 1 of 1 could not be made, so nothing was written. a.txt exists, so oldString must not be empty. To replace the whole file use write.",
            text,
        ),
        (json!([]), "failed: multi_edit: `edits` is empty, so there is nothing to change.", text),
        (
            json!({"oldString": "one"}),
            "failed: multi_edit: parameter `edits` must be a list of objects with oldString and newString; got an object. Call multi_edit again with that corrected.",
            text,
        ),
    ] {
        office.file("a.txt", text);
        office.say("read", json!({"filePath": "a.txt"})).await;
        assert_eq!(office.say("multi_edit", json!({"filePath": "a.txt", "edits": edits})).await, said, "{edits}");
        assert_eq!(office.text_of("a.txt"), after, "{edits}");
    }
    let created = office.say("multi_edit", json!({"filePath": "new.txt", "edits": [edit("", "a\nb\n"), edit("b", "c")]})).await;
    assert_eq!((created.as_str(), office.text_of("new.txt").as_str()), ("Created new.txt (2 lines).", "a\nc\n"));
    let gone = office.say("multi_edit", json!({"filePath": "gone.txt", "edits": [edit("a", "b")]})).await;
    assert!(gone.starts_with("failed: Edit 1 of 1 could not be made, so nothing was written. gone.txt does not exist."), "{gone}");
    assert_eq!(office.touches("multi_edit", json!({"filePath": "a.txt", "edits": [edit("a", "b")]})), ["edit a.txt"]);
    office.file("a.txt", "somebody else\n");
    let stale = office.say("multi_edit", json!({"filePath": "a.txt", "edits": [edit("somebody", "nobody")]})).await;
    assert!(stale.starts_with("failed: a.txt has changed since you last read it"), "{stale}");
}

fn patch_of(outcome: &Outcome) -> Option<&Part> {
    match outcome {
        Outcome::Done { attachments, .. } => attachments.first(),
        other => panic!("{other:?}"),
    }
}

/// The content before, from the record of a change and the content after.
fn before_of(office: &Office, outcome: &Outcome) -> String {
    let Some(Part::Patch { path, before, after, change, .. }) = patch_of(outcome) else { panic!("{outcome:?}") };
    let now = fs::read(office.root.join(path)).unwrap();
    assert_eq!(content_hash(Some(&now)), *after);
    let old = reversed(&now, change.inline().unwrap()).unwrap();
    assert_eq!(content_hash((!before.is_empty()).then_some(&old)), *before);
    String::from_utf8_lossy(&old).into_owned()
}

#[tokio::test]
async fn every_change_leaves_a_record_to_undo_it_by() {
    let office = Office::new();
    let text = "eins\r\nzwei\r\ndrei\r\n";
    for (tool, input) in [
        ("edit", json!({"filePath": "a.txt", "oldString": "zwei", "newString": "two\nand more"})),
        ("edit", json!({"filePath": "a.txt", "oldString": "ei", "newString": "EI", "replaceAll": true})),
        (
            "multi_edit",
            json!({"filePath": "a.txt", "edits": [{"oldString": "eins", "newString": ""}, {"oldString": "drei", "newString": "3"}]}),
        ),
        ("write", json!({"filePath": "a.txt", "content": "all new"})),
        ("write", json!({"filePath": "a.txt", "content": ""})),
        ("apply_patch", json!({"patchText": "*** Begin Patch\n*** Update File: a.txt\n@@\n eins\n-zwei\n+2\n*** End Patch"})),
    ] {
        office.file("a.txt", text);
        office.say("read", json!({"filePath": "a.txt"})).await;
        let outcome = office.run(tool, input.clone()).await;
        assert_eq!(before_of(&office, &outcome), text, "{tool} {input}: {outcome:?}");
        assert_ne!(office.text_of("a.txt"), text);
    }
    let Some(Part::Patch { before, added, removed, .. }) =
        patch_of(&office.run("write", json!({"filePath": "new", "content": "1\n2\n"})).await).cloned()
    else {
        panic!()
    };
    assert_eq!((&*before, added, removed), ("", 2, 0));
    // The same again is no change.
    assert_eq!(patch_of(&office.run("write", json!({"filePath": "new", "content": "1\n2\n"})).await), None);
    // What is no text is kept all the same; what is too large is not, and that is said.
    office.file("binary", b"a\xff\0b");
    let outcome = office.run("write", json!({"filePath": "binary", "content": "a b"})).await;
    assert_eq!(before_of(&office, &outcome), "a\u{fffd}\0b");
    office.file("huge", vec![b'x'; 11 * 1024 * 1024]);
    let outcome = office.run("write", json!({"filePath": "huge", "content": "small"})).await;
    let Some(Part::Patch { before, change, .. }) = patch_of(&outcome) else { panic!() };
    assert_eq!((before.as_str(), change.inline()), ("unknown", Some("")));
    assert_eq!(words(&outcome), "Overwrote huge (1 line, 5 bytes).");
}

#[tokio::test]
async fn a_small_change_of_a_large_file_is_a_small_record() {
    let office = Office::new();
    office.file("a.txt", (0..50_000).map(|n| format!("line {n}\n")).collect::<String>());
    let edits = json!([{"oldString": "line 7\n", "newString": "line seven\n"}, {"oldString": "line 49000\n", "newString": ""}]);
    let outcome = office.run("multi_edit", json!({"filePath": "a.txt", "edits": edits})).await;
    let Some(Part::Patch { change, added, removed, .. }) = patch_of(&outcome) else { panic!() };
    assert!(change.bytes() < 100, "{change:?}");
    assert_eq!((*added, *removed, &metadata(&outcome)["additions"]), (1, 2, &json!(1)));
}

#[tokio::test]
async fn a_recorded_file_is_put_back_only_over_what_is_expected() {
    let office = Office::new();
    let workspace = &*office.context.workspace;
    office.file("sub/a.txt", "after");
    let file = RecordedFile::new(workspace, "sub/a.txt");
    assert_eq!(file.content(), Ok(Some(b"after".to_vec())));
    assert_eq!(file.restore(&content_hash(Some(b"other")), Some(b"before"), None), Err("sub/a.txt was changed just now".into()));
    assert_eq!(file.restore(&content_hash(Some(b"after")), Some(b"before"), None), Ok(()));
    assert_eq!(office.text_of("sub/a.txt"), "before");
    assert_eq!(file.restore(&content_hash(Some(b"before")), None, None), Ok(()));
    assert_eq!((file.content(), office.root.join("sub/a.txt").exists()), (Ok(None), false));
    assert_eq!(file.restore("", Some(b"#!/bin/sh"), Some(0o755)), Ok(()));
    assert_eq!(fs::metadata(office.root.join("sub/a.txt")).unwrap().permissions().mode() & 0o777, 0o755);
    // A link that came into the path leads elsewhere.
    let outside = office.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "theirs").unwrap();
    fs::remove_dir_all(office.root.join("sub")).unwrap();
    symlink(&outside, office.root.join("sub")).unwrap();
    assert!(file.content().unwrap_err().contains("has a link in its path now"));
    assert!(file.restore(&content_hash(Some(b"theirs")), None, None).is_err());
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "theirs");
}

/// Large enough that most kills meet a write under way.
const KILLED_BYTES: usize = 10 * 1024 * 1024;
const WRITES_IN: &str = "POSSE_TEST_WRITES_IN";

fn content(letter: u8) -> Vec<u8> {
    vec![letter; KILLED_BYTES]
}

/// Only for the test below, which starts it as a process of its own and kills it.
#[test]
fn a_child_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(WRITES_IN) else { return };
    let workspace = LocalWorkspace::new(&folder, &folder, std::sync::Arc::new(Keeper::new())).unwrap();
    let file = RecordedFile::new(&workspace, "a.txt");
    let (a, b) = (content(b'a'), content(b'b'));
    let (mut now, mut next) = if file.content().unwrap().unwrap()[0] == b'a' { (&a, &b) } else { (&b, &a) };
    fs::write(Path::new(&folder).join("started"), "").unwrap();
    loop {
        file.restore(&content_hash(Some(now)), Some(next), None).unwrap();
        std::mem::swap(&mut now, &mut next);
    }
}

#[test]
fn killed_while_writing_leaves_the_old_or_the_new_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    fs::write(path.join("a.txt"), content(b'a')).unwrap();
    let mut chance = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..30 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_child_writes_until_it_is_killed", "--nocapture"])
            .env(WRITES_IN, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !path.join("started").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the child did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        std::thread::sleep(Duration::from_micros(chance % 80_000));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(path.join("started")).unwrap();
        let text = fs::read(path.join("a.txt")).unwrap();
        let whole = text.len() == KILLED_BYTES && text.iter().all(|letter| *letter == text[0]);
        assert!(whole, "round {round}: {} bytes, neither old nor new", text.len());
    }
    // What a killed writer may have left goes with the next write.
    fs::write(path.join(".posse-0123456789abcdef.tmp"), "left").unwrap();
    let workspace = LocalWorkspace::new(&path, &path, std::sync::Arc::new(Keeper::new())).unwrap();
    let file = RecordedFile::new(&workspace, "a.txt");
    let now = content_hash(file.content().unwrap().as_deref());
    file.restore(&now, Some(b"last"), None).unwrap();
    let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.txt"]);
}

#[test]
fn the_specs_name_what_models_know() {
    let names = |tool: &str, pointer: &str| -> Vec<String> {
        let tool = posse_tools::builtin().into_iter().find(|known| known.spec().name == tool).unwrap();
        let properties: &Value = tool.spec().schema.pointer(pointer).unwrap();
        properties.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names("edit", "/properties"), ["filePath", "oldString", "newString", "replaceAll"]);
    assert_eq!(names("multi_edit", "/properties"), ["filePath", "edits"]);
    assert_eq!(names("multi_edit", "/properties/edits/items/properties"), ["oldString", "newString", "replaceAll"]);
    assert_eq!(names("apply_patch", "/properties"), ["patchText"]);
}
