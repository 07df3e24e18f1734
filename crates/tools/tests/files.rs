//! read, write, edit: what they answer, what they touch, what they refuse.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::Duration,
};

use common::{Office, metadata, words};
use posse_session::{Outcome, Part, ToolCall};
use serde_json::json;

#[tokio::test]
async fn read_shows_a_window_and_says_how_to_go_on() {
    let office = Office::new();
    office.file("a.txt", (1..=10).map(|line| format!("line {line}\n")).collect::<String>());
    office.file("crlf.txt", "\u{feff}one\r\ntwo\r\n");
    office.file("empty.txt", "");
    office.file("long.txt", format!("{}\nshort", "x".repeat(5_000)));
    office.file("sly.txt", "if admin\u{202e} {\u{200b}}\n\x1b[2J\n");
    for (input, answer) in [
        (json!({"filePath": "a.txt", "limit": 2}), "1|line 1\n2|line 2\n(lines 1-2 of 10; to go on, call read with offset 3)\n".to_owned()),
        (json!({"file_path": "a.txt", "offset": "9"}), "9|line 9\n10|line 10\n(lines 9-10; end of file)\n".into()),
        (json!({"path": office.root.join("a.txt"), "offset": 0, "limit": 1}), "1|line 1\n(lines 1-1 of 10; to go on, call read with offset 2)\n".into()),
        (json!({"filePath": "a.txt", "offset": 11}), "failed: a.txt has only 10 lines; offset 11 is beyond its end.".into()),
        (json!({"filePath": "crlf.txt"}), "1|one\n2|two\n(the lines of this file end with CRLF)\n".into()),
        (json!({"filePath": "empty.txt"}), "empty.txt is empty (0 lines).".into()),
        (json!({"filePath": "long.txt"}), format!("1|{}... (line cut: 5000 bytes)\n2|short\n", "x".repeat(2_000))),
        (json!({"filePath": "sly.txt"}), "1|if admin<U+202E> {<U+200B>}\n2|<U+001B>[2J\n".into()),
        (json!({"filePath": "A.TXT"}), "failed: A.TXT does not exist. Did you mean a.txt?".into()),
        (json!({"filePath": "."}), ". is a directory with 5 entries:\na.txt\ncrlf.txt\nempty.txt\nlong.txt\nsly.txt".into()),
        (json!({}), "failed: read: the required parameter `filePath` (a string) is missing; the call had no parameters at all. Call read again with it.".into()),
        (
            json!({"filePath": "a.txt", "limit": -3}),
            "failed: read: parameter `limit` must be a whole number, not negative; got the number -3. Call read again with that corrected.".into(),
        ),
    ] {
        assert_eq!(office.say("read", input.clone()).await, answer, "{input}");
    }
}

#[tokio::test]
async fn read_says_what_is_special_about_a_file() {
    let office = Office::new();
    let utf16 = |text: &str, big: bool| {
        let unit = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect::<Vec<u8>>()
    };
    office.file("little.txt", utf16("grün\r\n😀\n", false));
    office.file("big.txt", utf16("a\nb", true));
    office.file("mark.txt", b"\xff\xfe");
    office.file("utf32.txt", b"\xff\xfe\0\0a\0\0\0");
    office.file("latin.txt", b"gr\xfcn\nok\n");
    office.file("one.txt", "only");
    office.file("cut.txt", format!("x{}", "ü".repeat(10_000)));
    office.file("plain.pdf", "%PDF-1.4\nonly letters");
    office.file("binary.pdf", b"%PDF-1.7\n\0\0");
    let utf16_note = "(this file is UTF-16; edit cannot change it, only bash can)\n";
    for (input, answer) in [
        (json!({"filePath": "little.txt"}), format!("1|grün\n2|😀\n(the lines of this file end with CRLF)\n{utf16_note}")),
        (json!({"filePath": "big.txt", "offset": 2}), format!("2|b\n(lines 2-2; end of file)\n{utf16_note}")),
        (json!({"filePath": "mark.txt"}), "mark.txt is empty (0 lines; UTF-16).".into()),
        (
            json!({"filePath": "utf32.txt"}),
            "failed: utf32.txt is not text: 8 bytes of UTF-32 text (try iconv -f utf-32). Use bash with a program that understands it.".into(),
        ),
        (
            json!({"filePath": "latin.txt"}),
            "1|gr\u{fffd}n\n2|ok\n(this file is not UTF-8; bytes that are no text are shown as \u{fffd}, and edit cannot change it)\n".into(),
        ),
        (json!({"filePath": "one.txt", "offset": 2}), "failed: one.txt has only 1 line; offset 2 is beyond its end.".into()),
        (
            json!({"filePath": "one.txt", "offset": u64::MAX, "limit": u64::MAX}),
            "failed: one.txt has only 1 line; offset 18446744073709551615 is beyond its end.".into(),
        ),
        // A letter cut in two by the bound is not a broken file.
        (json!({"filePath": "cut.txt"}), format!("1|x{}... (line cut: 20001 bytes)\n", "ü".repeat(1_999))),
        (
            json!({"filePath": "plain.pdf"}),
            "failed: plain.pdf is a PDF document of 21 bytes, which read does not show. Its text is to be had with bash: `pdftotext -layout FILE -` (from poppler-utils).".into(),
        ),
        (
            json!({"filePath": "binary.pdf"}),
            "failed: binary.pdf is a PDF document of 11 bytes, which read does not show. Its text is to be had with bash: `pdftotext -layout FILE -` (from poppler-utils).".into(),
        ),
    ] {
        assert_eq!(office.say("read", input.clone()).await, answer, "{input}");
    }
}

#[tokio::test]
async fn a_read_that_is_stopped_ends_within_a_line() {
    let office = Office::new();
    // A line of 64 GB, of which the disk holds one block.
    let path = office.file("endless.txt", "x".repeat(10_000));
    fs::File::options().write(true).open(&path).unwrap().set_len(64 * 1024 * 1024 * 1024).unwrap();
    office.stop.stop();
    let said = office.say("read", json!({"filePath": "endless.txt", "offset": 2}));
    let said = tokio::time::timeout(Duration::from_secs(20), said).await.expect("it was stopped");
    assert_eq!(said, "failed: endless.txt: read was stopped");
}

#[tokio::test]
async fn read_is_bounded_however_large_the_file_is() {
    let office = Office::new();
    office.file("many.txt", "0123456789 0123456789 0123456789\n".repeat(200_000));
    office.file("one-line.txt", vec![b'y'; 50 * 1024 * 1024]);
    let before = resident_bytes();
    let many = office.say("read", json!({"filePath": "many.txt"})).await;
    assert!(many.len() < 51 * 1024 + 200 && many.contains("of 200000; to go on, call read with offset"), "{}", &many[many.len() - 200..]);
    let far = office.say("read", json!({"filePath": "many.txt", "offset": 199_999})).await;
    assert!(far.ends_with("(lines 199999-200000; end of file)\n"));
    assert!(office.say("read", json!({"filePath": "one-line.txt"})).await.ends_with("... (line cut: 52428800 bytes)\n"));
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 16 * 1024 * 1024, "{grown}");
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn read_opens_no_pipe_no_device_and_no_binary() {
    let office = Office::new();
    Command::new("mkfifo").arg(office.root.join("pipe")).status().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(office.root.join("socket")).unwrap();
    office.file("program", b"\x7fELF\x02\x01\0\0\0");
    office.file("data.bin", b"ab\0cd");
    for (path, answer) in [
        ("pipe", "failed: pipe: this is a named pipe, not a file; it cannot be read as text"),
        ("socket", "failed: socket: this is a socket, not a file; it cannot be read as text"),
        ("/dev/zero", "failed: /dev/zero: this is a device, not a file; it cannot be read as text"),
        ("program", "failed: program is not text: 9 bytes of an ELF program or library. Use bash with a program that understands it."),
        ("data.bin", "failed: data.bin is not text: 5 bytes of binary data. Use bash with a program that understands it."),
    ] {
        let said = tokio::time::timeout(Duration::from_secs(5), office.say("read", json!({"filePath": path}))).await.expect("not blocked");
        assert_eq!(said, answer);
    }
}

#[tokio::test]
async fn read_attaches_images() {
    let office = Office::new();
    office.file("dot.png", b"\x89PNG\r\n\x1a\n\0\0\0");
    let Outcome::Done { attachments, .. } = office.run("read", json!({"filePath": "dot.png"})).await else { panic!() };
    assert_eq!(attachments, [Part::File { mime: "image/png".into(), name: "dot.png".into(), data: Some("iVBORw0KGgoAAAA=".into()) }]);
    office.file("huge.jpg", [&b"\xff\xd8\xff"[..], &vec![0; 5 * 1024 * 1024]].concat());
    assert!(
        office
            .say("read", json!({"filePath": "huge.jpg"}))
            .await
            .starts_with("failed: huge.jpg is an image of 5242883 bytes; at most 5242880 can be shown.")
    );
}

#[tokio::test]
async fn touches_name_the_real_path_and_what_is_outside() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "s").unwrap();
    symlink(&outside, office.root.join("link")).unwrap();
    symlink(outside.join("not-yet"), office.root.join("dangling")).unwrap();
    office.file(".env", "KEY=1");
    symlink(".env", office.root.join("innocent")).unwrap();
    let out = outside.display();
    let spool = office.context.spool.join("call_1.out");
    for (tool, input, touches) in [
        ("read", json!({"filePath": "src/../.env"}), vec!["read .env".to_owned()]),
        ("read", json!({"filePath": "innocent"}), vec!["read .env".into(), "read innocent".into()]),
        (
            "read",
            json!({"filePath": "link/secret"}),
            vec![format!("read {out}/secret"), "read link/secret".into(), format!("external_directory {out}/*")],
        ),
        ("read", json!({"filePath": "../outside/secret"}), vec![format!("read {out}/secret"), format!("external_directory {out}/*")]),
        ("read", json!({"filePath": spool}), vec![format!("read {}", spool.display())]),
        (
            "write",
            json!({"filePath": spool, "content": ""}),
            vec![format!("edit {}", spool.display()), format!("external_directory {}/*", office.context.spool.display())],
        ),
        (
            "write",
            json!({"filePath": "dangling", "content": ""}),
            vec![format!("edit {out}/not-yet"), "edit dangling".into(), format!("external_directory {out}/*")],
        ),
        ("write", json!({"filePath": "new/deep/a.rs", "content": ""}), vec!["edit new/deep/a.rs".into()]),
        ("edit", json!({"filePath": "a.rs", "oldString": "a", "newString": "b"}), vec!["edit a.rs".into()]),
        ("list", json!({}), vec!["list .".into()]),
        ("list", json!({"path": "/etc"}), vec!["list /etc".into(), "external_directory /etc/*".into()]),
        ("glob", json!({"pattern": "**/*.rs"}), vec!["glob **/*.rs".into()]),
        ("glob", json!({"pattern": "../outside/*"}), vec!["glob ../outside/*".into(), format!("external_directory {out}/*")]),
        ("grep", json!({"pattern": "x", "path": "link"}), vec!["grep x".into(), format!("external_directory {out}/*")]),
        ("bash", json!({"command": "ls -la"}), vec!["bash ls -la".into()]),
        ("bash", json!({"cmd": "ls", "workdir": "/usr"}), vec!["bash ls".into(), "external_directory /usr/*".into()]),
        ("todowrite", json!({"todos": []}), vec!["todowrite *".into()]),
    ] {
        assert_eq!(office.touches(tool, input.clone()), touches, "{tool} {input}");
    }
    for tool in posse_tools::builtin() {
        let name = tool.spec().name.clone();
        let input = json!({
            "filePath": "a", "pattern": "a", "command": "a", "oldString": "a", "newString": "b", "content": "", "todos": [],
            "edits": [{"oldString": "a", "newString": "b"}], "patchText": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch", "id": "shell_1",
            "url": "https://example.com", "questions": [{"question": "a"}],
        });
        let look = tool.look(&input, &*office.context.workspace).unwrap();
        let repeatable = ["bash_output", "read", "list", "glob", "grep", "todoread", "webfetch", "question"];
        assert_eq!(look.repeatable, repeatable.contains(&name.as_str()), "{name}");
    }
}

#[tokio::test]
async fn write_creates_replaces_and_records_the_change() {
    let office = Office::new();
    let outcome = office.run("write", json!({"file_path": "new/a.txt", "contents": "one\ntwo\n"})).await;
    assert_eq!(words(&outcome), "Created new/a.txt (2 lines, 8 bytes).");
    fs::set_permissions(office.root.join("new/a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = office.run("write", json!({"filePath": "new/a.txt", "content": "three"})).await;
    assert_eq!(words(&outcome), "Overwrote new/a.txt (1 line, 5 bytes).");
    let Outcome::Done { attachments, .. } = outcome else { panic!() };
    assert!(
        matches!(&attachments[..], [Part::Patch { path, before, after, .. }] if path == "new/a.txt" && before.len() == 32 && before != after)
    );
    assert_eq!(office.text_of("new/a.txt"), "three");
    assert_eq!(fs::metadata(office.root.join("new/a.txt")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(office.say("write", json!({"filePath": "new", "content": "x"})).await, "failed: new is a directory; name a file in it.");
    assert!(
        office
            .say("write", json!({"filePath": "a"}))
            .await
            .contains("the required parameter `content` (a string) is missing; the call had only: filePath")
    );
    office.file("binary", b"a\0\xff");
    assert_eq!(office.say("write", json!({"filePath": "binary", "content": "text"})).await, "Overwrote binary (1 line, 4 bytes).");
}

#[tokio::test]
async fn edit_changes_one_place_and_shows_it() {
    let office = Office::new();
    office.file("a.rs", "fn one() {}\nfn two() {}\nfn three() {}\n");
    let outcome = office.run("edit", json!({"filePath": "a.rs", "old_string": "two", "new_string": "zwei"})).await;
    assert_eq!(words(&outcome), "Edited a.rs at line 2.\n1|fn one() {}\n2|fn zwei() {}\n3|fn three() {}");
    assert_eq!(
        metadata(&outcome),
        json!({
            "path": "a.rs",
            "diff": "--- a.rs\n+++ a.rs\n@@ -1,3 +1,3 @@\n fn one() {}\n-fn two() {}\n+fn zwei() {}\n fn three() {}\n",
            "additions": 1, "deletions": 1, "replaced": 1
        })
    );
    assert_eq!(
        office.say("edit", json!({"filePath": "a.rs", "oldString": "fn", "newString": "pub fn"})).await,
        "failed: oldString stands at 3 places in a.rs (lines 1, 2, 3), so it is unclear which one is meant. Add lines around it until it is unique, or set replaceAll."
    );
    assert!(
        office
            .say("edit", json!({"filePath": "a.rs", "oldString": "fn", "newString": "pub fn", "replaceAll": true}))
            .await
            .starts_with("Edited a.rs at 3 places, the first at line 1.\n")
    );
    assert_eq!(office.text_of("a.rs"), "pub fn one() {}\npub fn zwei() {}\npub fn three() {}\n");
}

#[tokio::test]
async fn edit_explains_what_it_cannot_do() {
    let office = Office::new();
    office.file("a.rs", "fn alpha(x: u32) {\n    body(x);\n}\n");
    office.file("latin.txt", b"caf\xe9");
    for (input, answer) in [
        (
            json!({"filePath": "a.rs", "oldString": "fn alpha(x: i32) {\n    body(x);", "newString": "y"}),
            "failed: oldString was not found in a.rs. The closest place is:\n1|fn alpha(x: u32) {\n2|    body(x);\n3|}\nUse the text exactly as it stands there, or read the file again.",
        ),
        (
            json!({"filePath": "a.rs", "oldString": "2|    bodi(x);", "newString": "y"}),
            "failed: oldString was not found in a.rs. It begins with line numbers; leave out `number|`, which is not in the file. The closest place is:\n2|    body(x);\n3|}\nUse the text exactly as it stands there, or read the file again.",
        ),
        (
            json!({"filePath": "a.rs", "oldString": "x", "newString": "x"}),
            "failed: edit: oldString and newString are the same, so there is nothing to change.",
        ),
        (
            json!({"filePath": "a.rs", "oldString": "", "newString": "x"}),
            "failed: a.rs exists, so oldString must not be empty. To replace the whole file use write.",
        ),
        (json!({"filePath": "b.rs", "oldString": "x", "newString": "y"}), "failed: b.rs does not exist. Did you mean a.rs?"),
        (
            json!({"filePath": "latin.txt", "oldString": "x", "newString": "y"}),
            "failed: latin.txt is not UTF-8 text, so it cannot be edited here. Use bash with a suitable program.",
        ),
        (json!({"filePath": "new/b.rs", "oldString": "", "newString": "x\n"}), "Created new/b.rs (1 line)."),
    ] {
        assert_eq!(office.say("edit", input.clone()).await, answer, "{input}");
    }
    assert_eq!(office.text_of("new/b.rs"), "x\n");
}

#[tokio::test]
async fn edit_forgives_blanks_and_keeps_line_ends() {
    let office = Office::new();
    office.file("a.py", "class A:\n    def alpha(self):\n        return 1\n");
    let said = office
        .say(
            "edit",
            json!({"filePath": "a.py", "oldString": "def alpha(self):\n    return 1", "newString": "def beta(self):\n    return 2"}),
        )
        .await;
    assert!(
        said.starts_with(
            "Edited a.py at line 2 (oldString matched except for indentation; newString was moved to the indentation of the file).\n"
        ),
        "{said}"
    );
    assert_eq!(office.text_of("a.py"), "class A:\n    def beta(self):\n        return 2\n");
    office.file("w.txt", "one\r\ntwo\r\nthree\r\n");
    office.say("edit", json!({"filePath": "w.txt", "oldString": "one\ntwo", "newString": "1\n2"})).await;
    assert_eq!(office.text_of("w.txt"), "1\r\n2\r\nthree\r\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let office = Office::new();
    let path = office.file("a.txt", "mine\n");
    let edit = json!({"filePath": "a.txt", "oldString": "mine", "newString": "ours"});
    office.say("read", json!({"filePath": "a.txt"})).await;
    fs::write(&path, "mine\nand theirs\n").unwrap();
    let refused = "failed: a.txt has changed since you last read it, so nothing was written. Read it again, then repeat the change on its present text.";
    assert_eq!(office.say("edit", edit.clone()).await, refused);
    assert_eq!(office.say("write", json!({"filePath": "a.txt", "content": "x"})).await, refused);
    assert_eq!(office.text_of("a.txt"), "mine\nand theirs\n");
    office.say("read", json!({"filePath": "a.txt"})).await;
    // The same text written again is no change.
    fs::write(&path, "mine\nand theirs\n").unwrap();
    assert!(office.say("edit", edit).await.starts_with("Edited"));
    assert!(
        office.say("edit", json!({"filePath": "a.txt", "oldString": "ours", "newString": "all"})).await.starts_with("Edited"),
        "its own change is known"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_edits_of_one_file_lose_nothing() {
    let office = std::sync::Arc::new(Office::new());
    office.file("a.txt", (0..20).map(|n| format!("<{n}>\n")).collect::<String>());
    let edits: Vec<_> = (0..20)
        .map(|n| {
            let office = std::sync::Arc::clone(&office);
            tokio::spawn(async move {
                office.say("edit", json!({"filePath": "a.txt", "oldString": format!("<{n}>"), "newString": format!("[{n}]")})).await
            })
        })
        .collect();
    for edit in edits {
        let said = edit.await.unwrap();
        assert!(said.starts_with("Edited"), "{said}");
    }
    assert_eq!(office.text_of("a.txt"), (0..20).map(|n| format!("[{n}]\n")).collect::<String>());
}

#[tokio::test]
async fn forty_one_links_do_not_lead_out_unnoticed() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("secret");
    fs::write(&outside, "s").unwrap();
    symlink(&outside, office.root.join("l1")).unwrap();
    for n in 2..=41 {
        symlink(format!("l{}", n - 1), office.root.join(format!("l{n}"))).unwrap();
    }
    for (tool, input) in [
        ("read", json!({"filePath": "l41"})),
        ("write", json!({"filePath": "l41", "content": "x"})),
        ("grep", json!({"pattern": "s", "path": "l41"})),
        ("bash", json!({"command": "pwd", "workdir": "l41"})),
    ] {
        assert_eq!(office.touches(tool, input.clone()), ["error: l41: Too many levels of symbolic links (os error 40)"], "{tool}");
        assert!(office.say(tool, input).await.contains("Too many levels of symbolic links"));
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "s");
}

#[tokio::test]
async fn what_was_judged_is_what_is_touched() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "theirs\n").unwrap();
    let swap = |name: &str, target: &Path| {
        let path = office.root.join(name);
        if path.is_symlink() {
            fs::remove_file(&path).unwrap();
        } else {
            fs::remove_dir_all(&path).unwrap();
        }
        symlink(target, path).unwrap();
    };
    for (tool, input) in [
        ("read", json!({"filePath": "sub/a.txt"})),
        ("write", json!({"filePath": "sub/a.txt", "content": "x"})),
        ("edit", json!({"filePath": "sub/a.txt", "oldString": "theirs", "newString": "x"})),
        ("grep", json!({"pattern": "theirs", "path": "sub"})),
        ("glob", json!({"pattern": "sub/*"})),
        ("list", json!({"path": "sub"})),
        ("bash", json!({"command": "cat a.txt", "workdir": "sub"})),
    ] {
        let sub = office.root.join("sub");
        let _ = fs::remove_file(&sub);
        fs::create_dir_all(&sub).unwrap();
        fs::write(sub.join("a.txt"), "ours\n").unwrap();
        let outcome = office.run_after(tool, input, || swap("sub", &outside)).await;
        let said = words(&outcome);
        assert!(said.contains(": the path changed since it was judged, so nothing was done."), "{tool}: {said}");
    }
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "theirs\n");
    // Inside of the project a rule may protect one file and not the other.
    office.file("open/a.txt", "");
    office.file("protected/a.txt", "kept");
    symlink("open", office.root.join("link")).unwrap();
    let write = json!({"filePath": "link/a.txt", "content": "x"});
    let outcome = office.run_after("write", write.clone(), || swap("link", Path::new("protected"))).await;
    assert!(words(&outcome).contains("changed since it was judged"), "{outcome:?}");
    assert_eq!(office.text_of("protected/a.txt"), "kept");
    // A link that stays what it is can be used, also one that leads out: it was judged as that.
    assert_eq!(office.say("write", write.clone()).await, "Overwrote link/a.txt (1 line, 1 byte).".replace("link", "protected"));
    assert_eq!(office.say("read", json!({"filePath": "sub/a.txt"})).await, "1|theirs\n");
    // After a restart no look is known: a plain path is what was spelled, a link could be anything.
    let run = async |input: serde_json::Value| {
        let call = ToolCall { id: common::fresh_call(), input, answer: None };
        words(&office.tool("write").run(&call, &office.context).await)
    };
    assert_eq!(run(json!({"filePath": "open/a.txt", "content": "x"})).await, "Overwrote open/a.txt (1 line, 1 byte).");
    assert!(run(write).await.contains("changed since it was judged"));
}

#[tokio::test]
async fn a_new_file_made_by_an_earlier_call_is_no_change_of_the_path() {
    let office = Office::new();
    let outcome = office.run_after("read", json!({"filePath": "new/a.txt"}), || drop(office.file("new/a.txt", "x\n"))).await;
    assert_eq!(words(&outcome), "1|x\n");
    let outcome = office.run_after("list", json!({"path": "made"}), || drop(office.file("made/a", ""))).await;
    assert_eq!(words(&outcome), "made/\n  a\n");
    let outcome = office.run_after("grep", json!({"pattern": "x", "path": "later"}), || drop(office.file("later/a", "x\n"))).await;
    assert_eq!(words(&outcome), "later/a:\n  1: x\n");
}

#[tokio::test]
async fn an_edit_costs_little_memory_before_it_is_judged() {
    let office = Office::new();
    office.file("a.txt", "a".repeat(1_000_000));
    let before = resident_bytes_max();
    let new = "b".repeat(2_000);
    let said = office.say("edit", json!({"filePath": "a.txt", "oldString": "a", "newString": new})).await;
    assert!(said.starts_with("failed: oldString stands at 1000000 places in a.txt (lines 1, 1,"), "{said}");
    let said = office.say("edit", json!({"filePath": "a.txt", "oldString": "a", "newString": new, "replaceAll": true})).await;
    assert_eq!(said, "failed: With this change a.txt would have 2000000000 bytes or more; at most 67108864 are written, so nothing was.");
    let grown = resident_bytes_max() - before;
    assert!(grown < 64 * 1024 * 1024, "{grown}");
    assert_eq!(office.text_of("a.txt").len(), 1_000_000);
}

/// The most this process ever had.
fn resident_bytes_max() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_slow_edit_holds_up_nobody_else() {
    let office = Office::new();
    let line = |letter: &str| (0..900).map(|n| format!("{letter}{}", n % 7)).collect::<String>();
    office.file("a.txt", (0..3_000).map(|n| format!("{}{n}\n", &line("ab")[..1_000])).collect::<String>());
    let edit = json!({"filePath": "a.txt", "oldString": &line("ba")[..1_000], "newString": "x"});
    let write = json!({"filePath": "b.txt", "content": "x"});
    let begun = std::time::Instant::now();
    for (tool, input, answer) in [("edit", edit, "oldString was not found in a.txt."), ("write", write, "Created b.txt")] {
        let mut running = std::pin::pin!(office.run(tool, input));
        // The thread of all sessions only waits: it does nothing of this itself.
        let first = running.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(first.is_pending(), "{tool}: {first:?}");
        let outcome = running.await;
        assert!(words(&outcome).starts_with(answer), "{outcome:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn metadata_is_small_whatever_was_changed() {
    let office = Office::new();
    office.file("a.txt", "\u{1}\"\\\n".repeat(3_000));
    let outcome = office.run("edit", json!({"filePath": "a.txt", "oldString": "\u{1}", "newString": "\u{2}", "replaceAll": true})).await;
    let metadata = metadata(&outcome);
    assert!(metadata.to_string().len() <= 2_048, "{}", metadata.to_string().len());
    assert!(metadata["diff"].as_str().unwrap().contains("bytes omitted") && metadata["additions"] == 3_000, "{metadata}");
}

#[tokio::test]
async fn a_stopped_or_forgotten_write_changes_nothing() {
    let office = Office::new();
    office.file("a.txt", "old");
    office.stop.stop();
    assert_eq!(
        office.say("write", json!({"filePath": "a.txt", "content": "new"})).await,
        "cancelled: Stopped before anything was written."
    );
    assert_eq!(office.text_of("a.txt"), "old");
}
