//! apply_patch: what it changes, what it touches, and that a patch that does not fit changes nothing.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use common::{Office, metadata, words};
use posse_session::{Outcome, Part};
use posse_tools::{content_hash, reversed};
use serde_json::{Value, json};

fn patch(sections: &str) -> Value {
    json!({"patchText": format!("*** Begin Patch\n{sections}\n*** End Patch\n")})
}

/// Every file of the project with its text.
fn files(office: &Office) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![office.root.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                waiting.push(entry);
            } else {
                let name = entry.strip_prefix(&office.root).unwrap().display().to_string();
                found.push((name, String::from_utf8_lossy(&fs::read(&entry).unwrap()).into_owned()));
            }
        }
    }
    found.sort();
    found
}

fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn one_patch_changes_many_files() {
    let office = Office::new();
    office.file("src/a.rs", "fn one() {\n    1\n}\n\nfn two() {\n    2\n}\n");
    office.file("old.txt", "old\n");
    office.file("bin/run.sh", "#!/bin/sh\necho one\n");
    fs::set_permissions(office.root.join("bin/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = office
        .run(
            "apply_patch",
            patch(
                "*** Update File: src/a.rs\n@@ fn one() {\n-    1\n+    11\n@@ fn two() {\n-    2\n+    22\n\
                 *** Add File: docs/new.md\n+# New\n+\n+text\n\
                 *** Delete File: old.txt\n\
                 *** Update File: bin/run.sh\n*** Move to: bin/start.sh\n@@\n #!/bin/sh\n-echo one\n+echo two",
            ),
        )
        .await;
    assert_eq!(
        words(&outcome),
        "Updated src/a.rs: line 2, line 6.\nAdded docs/new.md (3 lines).\nMoved bin/run.sh to bin/start.sh: line 1.\nDeleted old.txt."
    );
    assert_eq!(
        files(&office),
        named(&[
            ("bin/start.sh", "#!/bin/sh\necho two\n"),
            ("docs/new.md", "# New\n\ntext\n"),
            ("src/a.rs", "fn one() {\n    11\n}\n\nfn two() {\n    22\n}\n"),
        ])
    );
    assert_eq!(fs::metadata(office.root.join("bin/start.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(metadata(&outcome)["files"], json!(["src/a.rs", "docs/new.md", "bin/start.sh", "old.txt", "bin/run.sh"]));
    assert!(metadata(&outcome)["diff"].as_str().unwrap().contains("-    2\n+    22\n"));
}

#[tokio::test]
async fn each_file_of_a_patch_leaves_its_record() {
    let office = Office::new();
    office.file("a.txt", "one\ntwo\n");
    office.file("gone.bin", b"\xff\0");
    office.file("moved.sh", "echo\n");
    for (name, mode) in [("gone.bin", 0o644), ("moved.sh", 0o700)] {
        fs::set_permissions(office.root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let outcome = office
        .run("apply_patch", patch("*** Update File: a.txt\n-one\n+1\n+one\n*** Delete File: gone.bin\n*** Update File: moved.sh\n*** Move to: new.sh\n*** Add File: b.txt\n+b"))
        .await;
    let Outcome::Done { attachments, .. } = outcome else { panic!("{outcome:?}") };
    let mut seen = Vec::new();
    for part in &attachments {
        let Part::Patch { path, before, after, added, removed, change, mode } = part else { panic!() };
        let now = fs::read(office.root.join(path)).ok();
        assert_eq!(content_hash(now.as_deref()), *after, "{path}");
        let old = reversed(now.as_deref().unwrap_or_default(), change.inline().unwrap()).unwrap();
        assert_eq!(content_hash((!before.is_empty()).then_some(&old)), *before, "{path}");
        seen.push(format!("{path} {:?} +{added} -{removed} {:?}", String::from_utf8_lossy(&old), mode.map(|mode| format!("{mode:o}"))));
    }
    assert_eq!(
        seen,
        [
            "a.txt \"one\\ntwo\\n\" +1 -0 None",
            "new.sh \"\" +1 -0 None",
            "b.txt \"\" +1 -0 None",
            "gone.bin \"\u{fffd}\\0\" +0 -1 Some(\"644\")",
            "moved.sh \"echo\\n\" +0 -1 Some(\"700\")",
        ]
    );
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing() {
    let office = Office::new();
    let before = [("a.txt", "one\ntwo\n"), ("b.txt", "b\n"), ("c/d.txt", "d\n")];
    before.iter().for_each(|(name, text)| drop(office.file(name, text)));
    office.file("latin.txt", b"caf\xe9\n");
    let all = files(&office);
    for (sections, said) in [
        (
            "*** Update File: a.txt\n-one\n+1\n*** Update File: b.txt\n@@\n-nothing like it\n+x",
            "hunk 1 of 1 for b.txt was not found. Nothing in the file looks similar; read it again.",
        ),
        ("*** Update File: a.txt\n@@\n-one\n+1\n@@\n two\n-three\n", "hunk 2 of 2 for a.txt was not found. The closest place is:\n2|two\n"),
        ("*** Update File: a.txt\n-one\n+1\n*** Update File: missing.txt\n-x\n+y", "missing.txt does not exist."),
        ("*** Delete File: a.txt\n*** Delete File: a.txt", "a.txt does not exist."),
        ("*** Delete File: a.txt\n*** Update File: a.txt\n-one\n+1", "a.txt does not exist."),
        (
            "*** Add File: new.txt\n+x\n*** Add File: b.txt\n+x",
            "b.txt exists already. Change it with `*** Update File:`, or replace it by `*** Delete File:` followed by `*** Add File:`.",
        ),
        ("*** Update File: a.txt\n*** Move to: b.txt\n-one\n+1", "b.txt exists already, so a.txt cannot be moved there."),
        (
            "*** Update File: a.txt\n-one\n+1\n*** Update File: latin.txt\n-caf\n+x",
            "latin.txt is not UTF-8 text, so it cannot be changed by a patch.",
        ),
        ("*** Update File: a.txt\n-one\n+1\n*** Delete File: c", "c is a directory; name a file in it."),
        ("*** Update File: a.txt\n one\n-two\n+two", "The patch leaves every file as it is, so nothing was written."),
        ("*** Update File: a.txt\n-one\n+1\n*** Add File: b.txt/x\n+x", "b.txt/x"),
    ] {
        let answer = office.say("apply_patch", patch(sections)).await;
        assert!(answer.starts_with("failed: ") && answer.contains(said), "{sections}: {answer}");
        assert_eq!(files(&office), all, "{sections}");
    }
}

#[tokio::test]
async fn what_was_written_is_put_back_when_a_later_file_cannot_be() {
    let office = Office::new();
    office.file("a.txt", "one\n");
    office.file("gone.txt", "kept\n");
    let locked = office.file("z.txt", "locked\n");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o444)).unwrap();
    let all = files(&office);
    let sections =
        "*** Update File: a.txt\n-one\n+1\n*** Add File: new.txt\n+new\n*** Update File: z.txt\n-locked\n+open\n*** Delete File: gone.txt";
    let answer = office.say("apply_patch", patch(sections)).await;
    assert_eq!(
        answer,
        "failed: The patch was not applied; what was written already was put back, so nothing is changed: z.txt: this file is write-protected; change its mode first if that is meant"
    );
    assert_eq!(files(&office), all);
}

#[tokio::test]
async fn a_patch_of_too_much_is_refused() {
    let office = Office::new();
    let sections: String = (0..7).map(|n| format!("*** Delete File: {n}\n")).collect();
    (0..7).for_each(|n| drop(office.file(&n.to_string(), vec![b'x'; 10 * 1024 * 1024])));
    let answer = office.say("apply_patch", patch(sections.trim_end())).await;
    assert_eq!(
        answer,
        "failed: The patch was not applied, and nothing was changed: its files have 73400320 bytes together; at most 67108864 can be changed in one call. Send it in parts."
    );
}

#[tokio::test]
async fn sections_follow_each_other() {
    for (sections, after) in [
        ("*** Update File: a.txt\n-one\n+1\n*** Update File: a.txt\n-1\n+eins", &[("a.txt", "eins\ntwo\n")][..]),
        ("*** Delete File: a.txt\n*** Add File: a.txt\n+all new", &[("a.txt", "all new\n")]),
        ("*** Update File: a.txt\n*** Move to: b.txt\n*** Update File: b.txt\n-one\n+1", &[("b.txt", "1\ntwo\n")]),
        ("*** Update File: a.txt\n*** Move to: b.txt\n*** Add File: a.txt\n+new", &[("a.txt", "new\n"), ("b.txt", "one\ntwo\n")]),
        ("*** Add File: b.txt\n+b\n*** Update File: b.txt\n b\n+c", &[("a.txt", "one\ntwo\n"), ("b.txt", "b\nc\n")]),
        ("*** Update File: a.txt\n*** Move to: a.txt\n-one\n+1", &[("a.txt", "1\ntwo\n")]),
    ] {
        let office = Office::new();
        office.file("a.txt", "one\ntwo\n");
        let answer = office.say("apply_patch", patch(sections)).await;
        assert!(!answer.starts_with("failed"), "{sections}: {answer}");
        assert_eq!(files(&office), named(after), "{sections}: {answer}");
    }
}

#[tokio::test]
async fn a_patch_is_judged_by_every_file_it_names() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    office.file("src/a.rs", "a\n");
    symlink(&outside, office.root.join("link")).unwrap();
    let (root, out) = (office.root.display(), outside.display());
    for (sections, touches) in [
        (
            "*** Update File: src/a.rs\n*** Move to: src/b.rs\n-a\n+b\n*** Delete File: c.rs\n*** Add File: d.rs\n+d".to_owned(),
            vec!["edit src/a.rs", "edit src/b.rs", "edit c.rs", "edit d.rs"].into_iter().map(String::from).collect::<Vec<_>>(),
        ),
        (format!("*** Update File: {root}/src/a.rs\n-a\n+b"), vec!["edit src/a.rs".into()]),
        (
            "*** Update File: src/a.rs\n*** Move to: ../outside/a.rs".to_owned(),
            vec!["edit src/a.rs".into(), format!("edit {out}/a.rs"), format!("external_directory {out}/*")],
        ),
        ("*** Delete File: link/x".to_owned(), vec![format!("edit {out}/x"), "edit link/x".into(), format!("external_directory {out}/*")]),
    ] {
        assert_eq!(office.touches("apply_patch", patch(&sections)), touches, "{sections}");
    }
    let protected =
        office.touches("apply_patch", patch("*** Delete File: .git/hooks/pre-commit\n*** Update File: src/a.rs\n*** Move to: posse.json"));
    for touch in ["protected .git/hooks/pre-commit", "protected posse.json"] {
        assert!(protected.contains(&touch.to_owned()), "{protected:?}");
    }
    let look = office
        .tool("apply_patch")
        .look(&patch("*** Delete File: a\n*** Delete File: b\n*** Delete File: c"), &*office.context.workspace)
        .unwrap();
    assert_eq!((look.title.as_str(), look.repeatable), ("a and 2 more", false));
    let many = (0..30).map(|n| format!("*** Delete File: {n}{}", "x".repeat(230))).collect::<Vec<_>>().join("\n");
    assert!(
        office.touches("apply_patch", patch(&many))[0].contains("the names of the files have"),
        "{:?}",
        office.touches("apply_patch", patch(&many))
    );
}

#[tokio::test]
async fn what_was_judged_is_what_is_changed() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "one\n").unwrap();
    for sections in [
        "*** Update File: b.txt\n-b\n+B\n*** Update File: sub/a.txt\n-one\n+1",
        "*** Update File: b.txt\n*** Move to: sub/new.txt",
        "*** Delete File: sub/a.txt",
    ] {
        office.file("b.txt", "b\n");
        let _ = fs::remove_file(office.root.join("sub"));
        office.file("sub/a.txt", "one\n");
        let swap = || {
            fs::remove_dir_all(office.root.join("sub")).unwrap();
            symlink(&outside, office.root.join("sub")).unwrap();
        };
        let outcome = office.run_after("apply_patch", patch(sections), swap).await;
        assert!(words(&outcome).contains("the path changed since it was judged, so nothing was done"), "{sections}: {outcome:?}");
        assert_eq!(office.text_of("b.txt"), "b\n");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_patched() {
    let office = Office::new();
    let path = office.file("a.txt", "one\n");
    office.say("read", json!({"filePath": "a.txt"})).await;
    fs::write(&path, "one\nand theirs\n").unwrap();
    for sections in ["*** Update File: a.txt\n-one\n+1", "*** Delete File: a.txt", "*** Update File: a.txt\n*** Move to: b.txt"] {
        let answer = office.say("apply_patch", patch(sections)).await;
        assert!(
            answer.starts_with("failed: The patch was not applied, and nothing was changed: a.txt has changed since you last read it"),
            "{answer}"
        );
    }
    assert_eq!(office.text_of("a.txt"), "one\nand theirs\n");
    office.say("read", json!({"filePath": "a.txt"})).await;
    assert_eq!(office.say("apply_patch", patch("*** Update File: a.txt\n-one\n+1")).await, "Updated a.txt: line 1.");
    // Its own change is known.
    assert_eq!(
        office.say("edit", json!({"filePath": "a.txt", "oldString": "1", "newString": "2"})).await,
        "Edited a.txt at line 1.\n1|2\n2|and theirs"
    );
}

#[tokio::test]
async fn what_was_forgiven_is_said() {
    let office = Office::new();
    office.file("a.py", "\tif ready:\n\t\tgo()\nlast line\nmore\nlast line\n");
    assert_eq!(
        office.say("apply_patch", patch("*** Update File: a.py\n@@\n if ready:\n-    go()\n+    stay()\n@@\n-last line\n+end")).await,
        "Updated a.py: line 1 (matched except for indentation; added lines were moved to that of the file), line 3 (the same lines stand at line 5 too; the first place was taken)."
    );
    assert_eq!(office.text_of("a.py"), "\tif ready:\n\t\tstay()\nend\nmore\nlast line\n");
    office.stop.stop();
    assert_eq!(office.say("apply_patch", patch("*** Delete File: a.py")).await, "cancelled: Stopped before anything was written.");
}
