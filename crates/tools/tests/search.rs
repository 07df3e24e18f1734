//! glob, grep, list, todowrite, and what all specs have in common.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs::{self, File},
    os::unix::{ffi::OsStrExt, fs::symlink},
    process::Command,
    time::{Duration, SystemTime},
};

use common::{Office, metadata};
use serde_json::json;

fn project() -> Office {
    let office = Office::new();
    office.file(".gitignore", "target/\n*.log\n");
    office.file(".git/config", "needle");
    office.file(".hidden/x.rs", "needle hidden\n");
    office.file("src/main.rs", "fn main() {\n    needle(1);\n}\n");
    office.file("src/lib.rs", "// needle\nfn needle(n: u32) {}\n");
    office.file("target/out.rs", "needle");
    office.file("debug.log", "needle");
    office.file("image.bin", b"needle\0\0needle");
    office.file("docs/a b.md", "no match\n");
    symlink(".", office.root.join("loop")).unwrap();
    office
}

#[tokio::test]
async fn glob_finds_what_a_person_would() {
    let office = project();
    let old = SystemTime::now() - Duration::from_secs(100);
    File::options().append(true).open(office.root.join("src/main.rs")).unwrap().set_modified(old).unwrap();
    File::options().append(true).open(office.root.join(".hidden/x.rs")).unwrap().set_modified(old - Duration::from_secs(1)).unwrap();
    for (input, answer) in [
        (json!({"pattern": "*.rs"}), "src/lib.rs\nsrc/main.rs\n.hidden/x.rs"),
        (json!({"pattern": "src/*.rs"}), "src/lib.rs\nsrc/main.rs"),
        (json!({"pattern": "**/{main,nothing}.rs"}), "src/main.rs"),
        (json!({"pattern": "*.rs", "path": "src"}), "src/lib.rs\nsrc/main.rs"),
        (json!({"glob_pattern": "docs/*"}), "docs/a b.md"),
        (json!({"pattern": office.root.join("src/m*")}), "src/main.rs"),
        (json!({"pattern": "target/*.rs"}), "target/out.rs"),
        (json!({"pattern": "*.java"}), "No files match *.java in . (files that .gitignore excludes are not searched)."),
        (json!({"pattern": "src/"}), "src/lib.rs\nsrc/main.rs"),
        (
            json!({"pattern": "src"}),
            "No files match src in . (files that .gitignore excludes are not searched). src is a folder; its files match src/**.",
        ),
        (json!({"pattern": "*.rs", "path": "nowhere"}), "failed: nowhere does not exist."),
        (json!({"pattern": "srv/*.rs"}), "failed: srv does not exist. Did you mean src?"),
        (json!({"pattern": "*.rs", "path": "src/lib.rs"}), "failed: src/lib.rs: a file stands in this path where a folder must be."),
    ] {
        assert_eq!(office.say("glob", input.clone()).await, answer, "{input}");
    }
    let said = office.say("glob", json!({"pattern": "a{b"})).await;
    assert!(said.starts_with("failed: glob: the pattern is not valid:"), "{said}");
    for n in 0..150 {
        office.file(&format!("many/{n}.txt"), "");
    }
    let outcome = office.run("glob", json!({"pattern": "many/*.txt"})).await;
    assert!(common::words(&outcome).ends_with("\n(50 more match; narrow the pattern or the path)"));
    assert_eq!(metadata(&outcome), json!({"count": 150, "truncated": true}));
}

#[tokio::test]
async fn grep_groups_matches_by_file() {
    let office = project();
    let all = ".hidden/x.rs:\n  1: needle hidden\n\nsrc/lib.rs:\n  1: // needle\n  2: fn needle(n: u32) {}\n\nsrc/main.rs:\n  2:     needle(1);\n";
    for (input, answer) in [
        (json!({"pattern": "needle"}), all),
        (
            json!({"pattern": "(?i)NEEDLE\\(", "path": "src"}),
            "src/lib.rs:\n  2: fn needle(n: u32) {}\n\nsrc/main.rs:\n  2:     needle(1);\n",
        ),
        (json!({"pattern": "needle", "glob": "m*.rs"}), "src/main.rs:\n  2:     needle(1);\n"),
        (
            json!({"pattern": "needle", "include": "src/*.{rs,md}"}),
            "src/lib.rs:\n  1: // needle\n  2: fn needle(n: u32) {}\n\nsrc/main.rs:\n  2:     needle(1);\n",
        ),
        (json!({"pattern": "^}$", "path": "src/main.rs"}), "src/main.rs:\n  3: }\n"),
        (json!({"pattern": "absent"}), "No line matches absent in . (binary and ignored files are not searched)."),
        (json!({"pattern": "x", "path": "nowhere"}), "failed: nowhere does not exist."),
    ] {
        assert_eq!(office.say("grep", input.clone()).await, answer, "{input}");
    }
    let said = office.say("grep", json!({"pattern": "main("})).await;
    assert!(
        said.starts_with("failed: grep: `main(` is not a valid regular expression:")
            && said.ends_with("put a backslash before each: `main\\(`"),
        "{said}"
    );
}

#[tokio::test]
async fn grep_is_bounded() {
    let office = Office::new();
    office.file("many.txt", "needle\n".repeat(500));
    office.file("wide.txt", format!("{}pin{}\n", "a".repeat(1_000), "b".repeat(1_000)));
    office.file("one-line.txt", vec![b'z'; 20 * 1024 * 1024]);
    let outcome = office.run("grep", json!({"pattern": "needle"})).await;
    assert!(common::words(&outcome).ends_with("\n(400 more matches are not shown; narrow the pattern, the path or include)"));
    assert_eq!(metadata(&outcome), json!({"matches": 500, "files": 1, "truncated": true}));
    let wide = office.say("grep", json!({"pattern": "pin"})).await;
    assert!(wide.len() < 320 && wide.contains("aaapinbbb") && wide.contains("…"), "{wide}");
}

#[tokio::test]
async fn a_hostile_folder_hangs_nothing() {
    let office = Office::new();
    Command::new("mkfifo").arg(office.root.join("pipe")).status().unwrap();
    symlink("self", office.root.join("self")).unwrap();
    symlink("/", office.root.join("root")).unwrap();
    fs::write(office.root.join(std::ffi::OsStr::from_bytes(b"bad-\xff-name.rs")), "needle\n").unwrap();
    let mut deep = office.root.clone();
    for _ in 0..100 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("deep.rs"), "needle").unwrap();
    let all = async {
        assert_eq!(office.say("grep", json!({"pattern": "needle"})).await, "bad-\u{fffd}-name.rs:\n  1: needle\n");
        assert_eq!(office.say("glob", json!({"pattern": "*.rs"})).await, "bad-\u{fffd}-name.rs");
        assert!(office.say("list", json!({})).await.contains("bad-\u{fffd}-name.rs"));
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("no hang");
}

#[tokio::test]
async fn a_stopped_search_ends() {
    let office = project();
    office.stop.stop();
    assert!(office.say("grep", json!({"pattern": "needle"})).await.ends_with("(Stopped before the end.)"));
    assert!(office.say("glob", json!({"pattern": "*.rs"})).await.ends_with("(Stopped before the end.)"));
}

#[tokio::test]
async fn list_is_wide_before_deep() {
    let office = project();
    assert_eq!(
        office.say("list", json!({})).await,
        "./\n  .hidden/\n    x.rs\n  docs/\n    a b.md\n  src/\n    lib.rs\n    main.rs\n  .gitignore\n  image.bin\n  loop\n"
    );
    assert_eq!(office.say("list", json!({"path": "src", "ignore": ["main*"]})).await, "src/\n  lib.rs\n");
    assert_eq!(office.say("list", json!({"path": "src/lib.rs"})).await, "failed: src/lib.rs is not a folder; use read for a file.");
    assert_eq!(office.say("list", json!({"path": "src", "ignore": "*"})).await, "src/\n  (empty, or everything in it is left out)\n");
    for n in 0..300 {
        office.file(&format!("aaa/{n:03}/x"), "");
    }
    let said = office.say("list", json!({})).await;
    assert!(
        said.contains("  aaa/\n    000/")
            && said.contains("(240 more)")
            && said.contains("    lib.rs\n")
            && said.contains("(60 folders marked … were not opened"),
        "{said}"
    );
    assert!(said.lines().count() < 210);
}

#[tokio::test]
async fn grep_shows_lines_around_files_or_counts() {
    let office = Office::new();
    office.file("a.rs", "one\ntwo Needle\nthree\nfour\nfive\nsix needle\nseven\nneedle\n");
    office.file("b.py", "needle\nneedle needle\n");
    office.file("c.txt", "nothing\n");
    office.file("d.tsx", "fn x(\n  a,\n)\nneedle");
    let all = "a.rs:\n  6: six needle\n  8: needle\n\nb.py:\n  1: needle\n  2: needle needle\n\nd.tsx:\n  4: needle\n";
    let rust = "a.rs:\n  2: two Needle\n  6: six needle\n  8: needle\n";
    let rust_around = "a.rs:\n  1- one\n  2: two Needle\n  3- three\n  --\n  5- five\n  6: six needle\n  7- seven\n  8: needle\n";
    for (more, answer) in [
        (json!({}), all.to_owned()),
        (json!({"-n": true, "output_mode": "content"}), all.into()),
        (json!({"-i": true, "glob": "*.rs"}), rust.into()),
        (json!({"ignoreCase": "true", "type": "rust"}), rust.into()),
        (json!({"case_insensitive": true, "type": ".rs"}), rust.into()),
        (json!({"-i": true, "type": "rust", "-C": 1}), rust_around.into()),
        (json!({"i": true, "type": "rust", "context": "1"}), rust_around.into()),
        (json!({"type": "rust", "-A": 1}), "a.rs:\n  6: six needle\n  7- seven\n  8: needle\n".into()),
        (json!({"type": "rust", "-B": 2, "-C": 0}), "a.rs:\n  4- four\n  5- five\n  6: six needle\n  7- seven\n  8: needle\n".into()),
        (json!({"type": "rust", "before": 1, "after": 0}), "a.rs:\n  5- five\n  6: six needle\n  7- seven\n  8: needle\n".into()),
        (json!({"output_mode": "files_with_matches"}), "a.rs\nb.py\nd.tsx".into()),
        (json!({"outputMode": "files", "head_limit": 1}), "a.rs\n(2 more files are not shown; narrow the pattern, the path or include)".into()),
        (json!({"output_mode": "count"}), "a.rs: 2\nb.py: 2\nd.tsx: 1\n(5 matches in 3 files)".into()),
        (json!({"output_mode": "count", "path": "b.py"}), "b.py: 2".into()),
        (
            json!({"head_limit": 3}),
            "a.rs:\n  6: six needle\n  8: needle\n\nb.py:\n  1: needle\n\n(2 more matches are not shown; narrow the pattern, the path or include)".into(),
        ),
        (
            json!({"limit": 1, "before": 1}),
            "a.rs:\n  5- five\n  6: six needle\n\n(4 more matches are not shown; narrow the pattern, the path or include)".into(),
        ),
        (
            json!({"limit": 1, "context": 1}),
            "a.rs:\n  5- five\n  6: six needle\n  7- seven\n\n(4 more matches are not shown; narrow the pattern, the path or include)".into(),
        ),
        (json!({"pattern": "x\\(.*?\\)", "multiline": true}), "d.tsx:\n  1: fn x(\n  2:   a,\n  3: )\n".into()),
        (json!({"pattern": "x\\(.*?\\)"}), "No line matches x\\(.*?\\) in . (binary and ignored files are not searched).".into()),
        (
            json!({"type": "js"}),
            "No line matches needle in . (only the named kind of files was searched, binary and ignored files are not searched).".into(),
        ),
        (json!({"type": "typescript"}), "d.tsx:\n  4: needle\n".into()),
        (
            json!({"type": "rustt"}),
            "failed: grep: no type of files is called `rustt`. Did you mean rust? Or use include with a pattern such as `*.rustt`.".into(),
        ),
        (
            json!({"output_mode": "json"}),
            "failed: grep: parameter `outputMode` must be one of content, files_with_matches, count; got the string \"json\". Call grep again with that corrected.".into(),
        ),
    ] {
        let mut input = json!({"pattern": "needle"});
        for (name, value) in more.as_object().unwrap() {
            input[name] = value.clone();
        }
        assert_eq!(office.say("grep", input.clone()).await, answer, "{input}");
    }
}

#[tokio::test]
async fn grep_finds_the_same_however_the_threads_take_turns() {
    let office = Office::new();
    // Large and small ones in turn, so that later files are done before earlier ones.
    for n in 0..300 {
        let filler = "nothing of interest\n".repeat(if n % 7 == 0 { 3_000 } else { 1 });
        office.file(&format!("{:02}/{n:03}.txt", n % 20), format!("{filler}{}", "needle\n".repeat(n % 11)));
    }
    for input in [
        json!({"pattern": "needle"}),
        json!({"pattern": "needle", "limit": 500, "context": 1}),
        json!({"pattern": "nothing", "limit": 500}),
        json!({"pattern": "needle", "output_mode": "files"}),
        json!({"pattern": "n", "output_mode": "count"}),
    ] {
        let first = office.run("grep", input.clone()).await;
        assert!(common::words(&first).len() <= 51 * 1024, "{input}");
        for _ in 0..10 {
            assert_eq!(office.run("grep", input.clone()).await, first, "{input}");
        }
    }
    let counted = office.run("grep", json!({"pattern": "needle", "output_mode": "count"})).await;
    assert_eq!(metadata(&counted)["matches"], (0..300).map(|n| n % 11).sum::<usize>());
    assert!(common::words(&counted).ends_with("(1488 matches in 272 files)"), "{}", common::words(&counted));
    // The first file alone reaches the bound; what other threads found meanwhile does not count.
    let outcome = office.run("grep", json!({"pattern": "nothing"})).await;
    assert_eq!(metadata(&outcome), json!({"matches": 2_000, "files": 1, "truncated": true}));
    let many = common::words(&outcome);
    assert!(many.ends_with("(at least 1900 more matches are not shown; narrow the pattern, the path or include)"), "{many}");
}

#[tokio::test]
async fn todos_are_checked_kept_and_shown() {
    let office = Office::new();
    let input = json!({"todos": [
        {"content": "look", "status": "completed", "priority": "high", "id": "1"},
        {"content": "build", "status": "In-Progress", "activeForm": "Building"},
        {"content": "rest", "status": "pending", "priority": "low"}
    ]});
    let outcome = office.run("todowrite", input).await;
    assert_eq!(common::words(&outcome), "[x] look (high)\n[>] build\n[ ] rest (low)");
    let kept = json!([
        {"content": "look", "status": "completed", "priority": "high", "id": "1"},
        {"content": "build", "status": "in_progress", "priority": "medium"},
        {"content": "rest", "status": "pending", "priority": "low"}
    ]);
    assert_eq!(metadata(&outcome), json!({"todos": kept}));
    assert_eq!(office.context.memory.lock().unwrap()["todos"], kept);
    assert_eq!(office.say("todowrite", json!({"todos": "[{\"content\": \"a\", \"status\": \"pending\"}]"})).await, "[ ] a");
    for (input, complaint) in [
        (
            json!({"todos": 3}),
            "todowrite: parameter `todos` must be a list of objects with content and status; got the number 3. Call todowrite again with that corrected.",
        ),
        (
            json!({"todos": [{"content": "a", "status": "maybe"}]}),
            "todowrite: parameter `status` must be one of pending, in_progress, completed, cancelled; got the string \"maybe\". Call todowrite again with that corrected. (step 1 of the list)",
        ),
    ] {
        assert_eq!(office.touches("todowrite", input), [format!("error: {complaint}")]);
    }
}

#[tokio::test]
async fn the_list_comes_back_after_a_restart() {
    let office = Office::new();
    assert_eq!(office.touches("todoread", json!({})), ["todoread *"]);
    assert_eq!(office.say("todoread", json!({})).await, "The list is empty.");
    let todos = |content: &str| json!({"todos": [{"content": content, "status": "pending"}]});
    office.say("todowrite", todos("first")).await;
    office.say("todowrite", todos("second ü \\ \"x\"")).await;
    let restart = || office.context.memory.lock().unwrap().clear();
    for _ in 0..2 {
        assert_eq!(office.say("todoread", json!({})).await, "[ ] second ü \\ \"x\"");
        restart();
    }
    // A crash while it was written leaves the list as it was.
    fs::write(office.context.spool.join("todos.json.new"), "[{\"content\": \"thi").unwrap();
    assert_eq!(office.say("todoread", json!({})).await, "[ ] second ü \\ \"x\"");
    for broken in ["", "[{\"content\": \"thi", "{}", "[{\"content\": 3}]", "\u{0}"] {
        restart();
        fs::write(office.context.spool.join("todos.json"), broken).unwrap();
        assert_eq!(office.say("todoread", json!({})).await, "The list is empty.", "{broken:?}");
    }
    office.say("todowrite", todos("third")).await;
    restart();
    assert_eq!(office.say("todoread", json!({})).await, "[ ] third");
    office.say("todowrite", json!({"todos": []})).await;
    restart();
    assert_eq!(office.say("todoread", json!({})).await, "The list is empty.");
    // A disk that takes nothing: the list holds, and the answer says what is missing.
    let mut office = Office::new();
    office.context.spool = office.file("a-file", "").join("spool");
    let said = office.say("todowrite", todos("a")).await;
    assert!(said.starts_with("[ ] a\n(The list could not be kept on disk: "), "{said}");
    assert_eq!(office.say("todoread", json!({})).await, "[ ] a");
}

#[test]
fn the_tools_are_sorted_and_say_what_they_take() {
    let tools = posse_tools::builtin();
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let all = [
        "apply_patch",
        "bash",
        "bash_output",
        "edit",
        "glob",
        "grep",
        "kill_shell",
        "list",
        "multi_edit",
        "question",
        "read",
        "todoread",
        "todowrite",
        "webfetch",
        "write",
    ];
    assert_eq!(names, all);
    for tool in &tools {
        let spec = tool.spec();
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert!((100..900).contains(&spec.description.len()), "{}: {}", spec.name, spec.description.len());
        assert!(!spec.description.contains("  "), "{}", spec.name);
    }
}

#[tokio::test]
async fn an_ignore_file_that_is_no_file_hangs_nothing() {
    let office = Office::new();
    office.file("a.txt", "needle\n");
    office.file("sub/b.txt", "needle\n");
    for pipe in [".gitignore", ".ignore", "sub/.gitignore", "sub/.ignore", ".git/info/exclude", "../.gitignore"] {
        let path = office.root.join(pipe);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        Command::new("mkfifo").arg(path).status().unwrap();
    }
    let all = async {
        assert_eq!(office.say("grep", json!({"pattern": "needle"})).await, "a.txt:\n  1: needle\n\nsub/b.txt:\n  1: needle\n");
        assert!(office.say("glob", json!({"pattern": "*.txt"})).await.contains("sub/b.txt"));
        assert!(office.say("list", json!({})).await.contains("    b.txt"));
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("no hang");
    // A huge one is read in part, and one above the project not at all.
    let office = Office::new();
    office.file("a.txt", "needle\n");
    office.file(".gitignore", "x\n".repeat(40_000) + "*.txt\n");
    office.file("../.gitignore", "*.txt\n");
    assert_eq!(office.say("grep", json!({"pattern": "needle"})).await, "a.txt:\n  1: needle\n");
}

#[tokio::test]
async fn grep_reads_no_env_file_that_was_not_named() {
    let office = Office::new();
    for name in [".env", ".env.local", "sub/prod.env", ".env.example", "a.environment"] {
        office.file(name, "KEY=needle\n");
    }
    fs::create_dir(office.root.join("venv.env")).unwrap();
    office.file("venv.env/inside.txt", "KEY=needle\n");
    assert_eq!(
        office.say("grep", json!({"pattern": "needle"})).await,
        ".env.example:\n  1: KEY=needle\n\na.environment:\n  1: KEY=needle\n\nvenv.env/inside.txt:\n  1: KEY=needle\n\n\
         (3 .env files were not searched; grep them by name, which is asked about)"
    );
    assert_eq!(office.touches("grep", json!({"pattern": "needle", "path": ".env"})), ["grep needle", "read .env"]);
    assert_eq!(office.touches("grep", json!({"pattern": "needle", "path": "sub"})), ["grep needle"]);
    assert_eq!(office.say("grep", json!({"pattern": "needle", "path": ".env"})).await, ".env:\n  1: KEY=needle\n");
    // A folder that became the file between look and run.
    let outcome = office
        .run_after("grep", json!({"pattern": "needle", "path": "sub"}), || {
            fs::remove_dir_all(office.root.join("sub")).unwrap();
            fs::rename(office.root.join(".env"), office.root.join("sub")).unwrap();
        })
        .await;
    assert!(common::words(&outcome).starts_with("sub: the path changed since it was judged"), "{outcome:?}");
}

#[test]
fn titles_are_short_whatever_is_asked_for() {
    let office = Office::new();
    let long = format!("{}/", "x".repeat(199)).repeat(9) + "x";
    for tool in posse_tools::builtin() {
        let input = json!({
            "filePath": long, "path": long, "pattern": long, "command": long, "description": long,
            "oldString": "a", "newString": "b", "content": "", "todos": [], "edits": [{"oldString": "a", "newString": "b"}],
            "patchText": format!("*** Begin Patch\n*** Add File: {long}\n+x\n*** End Patch"), "id": long,
            "url": format!("https://example.com/{long}"), "questions": [{"question": long}],
        });
        let look = tool.look(&input, &*office.context.workspace).unwrap();
        assert!(look.title.chars().count() <= 120, "{}: {}", tool.spec().name, look.title);
    }
}
