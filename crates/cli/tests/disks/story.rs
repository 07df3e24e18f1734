//! One piece of work that touches everything: calls, an edit, a new file, a long text, two agents, a background shell.
//!
//! Position decides what the model says, so a story that was cut goes on at the same place. What must hold at its end,
//! however it was cut, is in `Verdict`.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::{
    lab::LIFE_MAX,
    support::{Answer, Done, Seen, World, call},
};

pub(crate) const END: &str = "all is well";

/// Far longer than the processes of a dead posse need to be gone.
const ORPHANS_MAX: Duration = Duration::from_secs(5);

/// What takes up the room on a small disk.
pub(crate) const FILLER: &str = "filler";

const LINES: usize = 300;

/// SQLite moves its log into the database when it has 1,000 pages of 4 KB. This is some 870 of them.
const FILLING_BYTES: usize = 3_400_000;

pub(crate) fn old_text() -> String {
    "an old line of the story\n".repeat(LINES)
}

pub(crate) fn new_text() -> String {
    old_text().replace("an old line", "a new line, longer than before,")
}

pub(crate) fn made_text() -> String {
    "a line of a file that was not there\n".repeat(LINES)
}

pub(crate) fn world() -> World {
    World::with()
        .config("permission", json!({"*": "allow"}))
        .file("story.txt", &old_text())
        .file("notes.txt", "notes\n")
        .without_git()
        .script(model)
}

/// An earlier session that leaves the database's log nearly full, so that the story is told over a checkpoint.
pub(crate) fn fill_the_log(world: &World) -> Promises {
    let long = "words that fill a log. ".repeat(FILLING_BYTES / 23);
    let done = world.command(&["run", "--format", "stream-json", "fill"]).stdin(long).run().expect_code(0);
    let mut promises = Promises::default();
    promises.note(&done.lines(), "an earlier session");
    promises.earlier = done.lines()[0]["session"].as_str().map(str::to_owned);
    promises
}

fn model(seen: &Seen) -> Answer {
    let agent = |prompt: &str, background: bool| {
        call("agent", json!({"description": prompt, "prompt": prompt, "subagent_type": "general", "run_in_background": background}))
    };
    match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([mark("first"), call("read", json!({"filePath": "notes.txt"}))]),
        ("go", 1) => {
            let change = json!({"filePath": "story.txt", "oldString": "an old line", "newString": "a new line, longer than before,", "replaceAll": true});
            Answer::call("edit", change).and_text(&"I will change the story. ".repeat(1_000))
        }
        ("go", 2) => Answer::calls([agent("near", false), agent("far", true)]),
        ("go", 3) => {
            let loud = bash("echo \"$POSSE_CALL loud\" >> witness; yes a long line of output | head -c 70000", false);
            Answer::calls([call("write", json!({"filePath": "made/new.txt", "content": made_text()})), loud])
        }
        ("go", 4) => Answer::calls([bash("echo \"$POSSE_CALL kept\" >> witness; sleep 0.05; echo it ends", true)]),
        ("go", _) => Answer::text(END),
        (long, _) if long.contains("fill") => Answer::text("filled"),
        (name, 0) => Answer::calls([mark(name)]),
        (name, _) => Answer::text(&format!("{name} is done")),
    }
}

fn mark(name: &str) -> crate::support::answer::Piece {
    bash(&format!("echo \"$POSSE_CALL {name}\" >> witness; echo did {name}"), false)
}

fn bash(command: &str, background: bool) -> crate::support::answer::Piece {
    call("bash", json!({"command": command, "description": "a mark", "run_in_background": background}))
}

/// What was printed with a `seq` is promised, over all lives of a session.
#[derive(Default, Clone)]
pub(crate) struct Promises {
    printed: BTreeMap<(String, u64), Value>,
    /// The session that `fill_the_log` left, if it was called: promised too, and not the story.
    pub(crate) earlier: Option<String>,
}

impl Promises {
    /// A last line without its end was never said.
    pub(crate) fn note(&mut self, printed: &[Value], what: &str) {
        for line in printed {
            let (Some(session), Some(seq)) = (line["session"].as_str(), line["seq"].as_u64()) else { continue };
            if let Some(before) = self.printed.insert((session.to_owned(), seq), line.clone()) {
                assert_eq!(before, *line, "{what}: one place, two facts");
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.printed.len()
    }

    /// The earlier session was looked at; what comes is about the story alone.
    pub(crate) fn forget_the_earlier(&mut self) {
        self.printed.retain(|(session, _), _| Some(session) != self.earlier.as_ref());
    }

    /// Every one of them is in the log, word for word.
    pub(crate) fn expect_kept(&self, logs: &BTreeMap<String, Vec<Value>>, what: &str) {
        for ((session, seq), line) in &self.printed {
            let event = logs.get(session).and_then(|events| events.iter().find(|event| event["seq"] == *seq));
            assert_eq!(event, Some(line), "{what}: event {seq} of {session} was printed and is not in the log");
        }
    }
}

pub(crate) fn sessions(world: &World, what: &str) -> Vec<String> {
    let list = world.command(&["sessions", "list"]).within(LIFE_MAX).run();
    assert_eq!(list.code, Some(0), "{what}: the sessions cannot be listed: {list:#?}");
    list.out.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// All logs of a tree, by session. Seqs are dense, or the test fails.
pub(crate) fn logs(world: &World, root: &str, what: &str) -> BTreeMap<String, Vec<Value>> {
    let mut logs = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(id) = open.pop() {
        let shown = world.posse(&["sessions", "show", &id, "--format", "json"]);
        assert_eq!(shown.code, Some(0), "{what}: {id} cannot be shown: {shown:#?}");
        let shown = shown.json();
        let events = shown["events"].as_array().unwrap().clone();
        let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{what}: {id} has gaps");
        open.extend(shown["tasks"].as_array().unwrap().iter().filter_map(|task| task["session"].as_str()).map(str::to_owned));
        logs.insert(id, events);
    }
    logs
}

/// Goes on to the end when the disk is well again, and looks at all there is.
pub(crate) fn finish(world: &World, promises: &mut Promises, what: &str) {
    let mut roots = sessions(world, what);
    roots.retain(|root| promises.earlier.as_ref() != Some(root));
    assert!(roots.len() <= 1, "{what}: one prompt, several sessions: {roots:?}");
    let args = match roots.first() {
        Some(root) => vec!["sessions", "resume", root, "--format", "stream-json"],
        None => vec!["run", "--format", "stream-json", "go"],
    };
    let done = world.command(&args).within(LIFE_MAX).run();
    assert_eq!(done.code, Some(0), "{what}: does not go on: {done:#?}");
    let lines = done.lines();
    promises.note(&lines, what);
    assert_eq!(lines.last().unwrap()["result"], END, "{what}: {done:#?}");
    let root = roots.first().cloned().unwrap_or_else(|| lines[0]["session"].as_str().unwrap().to_owned());
    let logs = logs(world, &root, what);
    promises.expect_kept(&logs, what);
    expect_each_call_once(world, &logs, what);
    expect_a_whole_database(world, what);
    let errors = world.model.take_errors();
    assert!(errors.is_empty(), "{what}: a provider would have refused: {errors:#?}");
    let left = world.processes_left_after(ORPHANS_MAX);
    assert!(left.is_empty(), "{what}: orphans: {left:#?}");
}

/// No mark twice, and none of a call that no log knows.
pub(crate) fn expect_each_call_once(world: &World, logs: &BTreeMap<String, Vec<Value>>, what: &str) {
    let witness = fs::read_to_string(world.project.join("witness")).unwrap_or_default();
    let started: HashSet<&str> =
        logs.values().flatten().filter(|event| event["type"] == "call_started").filter_map(|event| event["call"].as_str()).collect();
    let mut seen = HashSet::new();
    for line in witness.lines() {
        let (id, mark) = line.split_once(' ').unwrap_or_else(|| panic!("{what}: strange witness {line:?}"));
        assert!(seen.insert(id) && seen.insert(mark), "{what}: {line} ran twice:\n{witness}");
        assert!(started.contains(id), "{what}: {line} ran and no log says so");
    }
}

pub(crate) fn expect_a_whole_database(world: &World, what: &str) {
    for path in databases(world) {
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        let check: String = connection.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{what}: {}", path.display());
        let foreign = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
        assert!(!foreign, "{what}: {} has rows that point nowhere", path.display());
    }
}

/// The one database there is, if there is one.
pub(crate) fn databases(world: &World) -> Vec<PathBuf> {
    let projects = fs::read_dir(world.posse_home.join("data/projects")).into_iter().flatten();
    projects.map(|entry| entry.unwrap().path().join("posse.db")).filter(|path| path.exists()).collect()
}

/// The user's files are as they were or as they should become.
pub(crate) fn expect_no_torn_file(world: &World, what: &str) {
    let story = fs::read_to_string(world.project.join("story.txt")).unwrap_or_else(|error| panic!("{what}: story.txt: {error}"));
    assert!(story == old_text() || story == new_text(), "{what}: story.txt is neither old nor new: {} bytes", story.len());
    if let Ok(made) = fs::read_to_string(world.project.join("made/new.txt")) {
        assert!(made == made_text(), "{what}: made/new.txt is torn: {} bytes", made.len());
    }
}

/// No temporary file lies beside them.
pub(crate) fn expect_nothing_left(world: &World, what: &str) {
    let known = ["story.txt", "notes.txt", "witness", "made", "made/new.txt", FILLER];
    let mut left = names_below(&world.project, Path::new(""));
    left.retain(|name| !known.contains(&name.as_str()));
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
}

fn names_below(folder: &Path, within: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join(within)).into_iter().flatten() {
        let name = within.join(entry.unwrap().file_name());
        names.push(name.to_str().unwrap().to_owned());
        names.extend(names_below(folder, &name));
    }
    names
}

/// It ended by itself, and neither in a panic nor without a word.
pub(crate) fn expect_a_clean_end(done: &Done, what: &str) {
    assert!(!done.timed_out, "{what}: hangs: {done:#?}");
    assert!(matches!(done.code, Some(0 | 1)), "{what}: {done:#?}");
    for word in ["panicked", "backtrace", "unwrap()", "BUG"] {
        assert!(!done.err.contains(word) && !done.out.contains(word), "{what}: {word}: {done:#?}");
    }
}
