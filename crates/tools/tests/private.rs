//! posse's own data is closed to tools, by path and by identity, and its locks outlive whatever they do.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use common::Office;
use posse_tools::LocalWorkspace;
use serde_json::json;

/// A project that has the data folder inside, with a database that this process has open.
struct Home {
    office: Office,
    data: PathBuf,
    database: PathBuf,
    _connection: rusqlite::Connection,
}

impl Home {
    fn new() -> Self {
        let mut office = Office::new();
        let data = office.root.join("home/data");
        let (folder, spool) = (data.join("projects/p-1"), data.join("projects/p-1/spool"));
        fs::create_dir_all(spool.join("ses_1")).unwrap();
        fs::write(spool.join("ses_1/call_1.out"), "needle in the spool\n").unwrap();
        office.file("src/a.txt", "needle\n");
        let database = folder.join("posse.db");
        let connection = rusqlite::Connection::open(&database).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x TEXT); INSERT INTO t VALUES ('needle'); BEGIN; SELECT * FROM t;")
            .unwrap();
        let workspace = LocalWorkspace::new(&office.root, &office.root, Arc::clone(&office.keeper)).unwrap();
        office.context.workspace = Arc::new(workspace.with_readable_roots([spool.clone()]).with_private_roots([data.clone()]));
        office.context.spool = spool.join("ses_1");
        Self { office, data, database, _connection: connection }
    }

    /// The kernel's list of this process's POSIX locks on the database's files.
    fn locks(&self) -> Vec<String> {
        let inode = |ending: &str| {
            fs::metadata(format!("{}{ending}", self.database.display())).map(|metadata| format!(":{} ", metadata.ino())).unwrap()
        };
        let (files, pid) = (["", "-wal", "-shm"].map(inode), format!(" {} ", std::process::id()));
        let all = fs::read_to_string("/proc/locks").unwrap();
        let ours = all.lines().filter(|line| line.contains("POSIX") && line.contains(&pid) && files.iter().any(|file| line.contains(file)));
        // Without the running number.
        ours.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    }
}

#[tokio::test]
async fn no_tool_opens_the_data_folder() {
    let home = Home::new();
    let refused = |path: &str| format!("failed: {path} is in posse's own data folder, which no tool opens.");
    symlink(&home.database, home.office.root.join("link")).unwrap();
    let database = "home/data/projects/p-1/posse.db";
    for (tool, input, path) in [
        ("read", json!({"filePath": database}), database),
        ("read", json!({"filePath": "link"}), database),
        ("read", json!({"filePath": "home/data"}), "home/data"),
        ("write", json!({"filePath": "home/data/new", "content": ""}), "home/data/new"),
        ("edit", json!({"filePath": "link", "oldString": "a", "newString": "b"}), database),
        ("grep", json!({"pattern": "needle", "path": database}), database),
        ("grep", json!({"pattern": "needle", "path": "home/data/projects"}), "home/data/projects"),
        ("glob", json!({"pattern": "home/data/**"}), "home/data"),
        ("list", json!({"path": home.data}), "home/data"),
    ] {
        assert_eq!(home.office.say(tool, input.clone()).await, refused(path), "{tool} {input}");
    }
    assert_eq!(home.office.say("grep", json!({"pattern": "needle"})).await, "src/a.txt:\n  1: needle\n");
    assert_eq!(home.office.say("glob", json!({"pattern": "*.{db,out,txt}"})).await, "src/a.txt");
    assert_eq!(home.office.say("list", json!({"path": "home"})).await, "home/\n  (empty, or everything in it is left out)\n");
}

#[tokio::test]
async fn the_spool_in_the_data_folder_can_be_read() {
    let home = Home::new();
    let spool = &home.office.context.spool;
    assert_eq!(home.office.say("read", json!({"filePath": spool.join("call_1.out")})).await, "1|needle in the spool\n");
    let said = home.office.say("grep", json!({"pattern": "needle", "path": spool})).await;
    assert!(said.ends_with("call_1.out:\n  1: needle in the spool\n"), "{said}");
    assert_eq!(home.office.say("bash", json!({"command": "echo works"})).await, "works\n");
}

#[tokio::test]
async fn a_database_is_known_by_any_name() {
    let home = Home::new();
    let root = &home.office.root;
    for (ending, name) in [("", "hard.txt"), ("-wal", "hard.wal"), ("-shm", ".ignore")] {
        fs::hard_link(format!("{}{ending}", home.database.display()), root.join(name)).unwrap();
    }
    let refused = "this is a database of posse itself, which no tool opens";
    for name in ["hard.txt", "hard.wal", ".ignore"] {
        assert_eq!(home.office.say("read", json!({"filePath": name})).await, format!("failed: {name}: {refused}"));
        assert_eq!(home.office.say("grep", json!({"pattern": "n", "path": name})).await, format!("failed: {name}: {refused}"));
        let edit = json!({"filePath": name, "oldString": "a", "newString": "b"});
        assert_eq!(home.office.say("edit", edit).await, format!("failed: {name}: {refused}"));
        assert_eq!(home.office.say("write", json!({"filePath": name, "content": "x"})).await, format!("failed: {name}: {refused}"));
    }
    assert_eq!(home.office.say("grep", json!({"pattern": "needle"})).await, "src/a.txt:\n  1: needle\n");
}

#[tokio::test]
async fn the_locks_of_an_open_database_outlive_every_tool() {
    let home = Home::new();
    let before = home.locks();
    assert!(!before.is_empty(), "SQLite holds POSIX locks: {}", fs::read_to_string("/proc/locks").unwrap());
    let links: Vec<&Path> = ["hard.txt", ".gitignore", ".ignore", "src/.gitignore"].into_iter().map(Path::new).collect();
    for link in &links {
        fs::hard_link(&home.database, home.office.root.join(link)).unwrap();
    }
    symlink(&home.database, home.office.root.join("soft")).unwrap();
    let spooled = home.office.context.spool.join("startup.sh");
    fs::hard_link(&home.database, &spooled).unwrap();
    for (tool, input) in [
        ("grep", json!({"pattern": "needle"})),
        ("grep", json!({"pattern": "needle", "path": "hard.txt"})),
        ("grep", json!({"pattern": "needle", "path": home.database})),
        ("glob", json!({"pattern": "**/*"})),
        ("list", json!({})),
        ("read", json!({"filePath": "hard.txt"})),
        ("read", json!({"filePath": "soft"})),
        ("read", json!({"filePath": home.database})),
        ("edit", json!({"filePath": "hard.txt", "oldString": "a", "newString": "b"})),
        ("write", json!({"filePath": "hard.txt", "content": "x"})),
        ("write", json!({"filePath": home.database, "content": "x"})),
        ("bash", json!({"command": "echo hi"})),
    ] {
        let said = home.office.say(tool, input.clone()).await;
        assert_eq!(home.locks(), before, "{tool} {input}: {said}");
    }
}
