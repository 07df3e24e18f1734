//! An exported file, read and checked as a whole: what comes out of here is trees that can be written.
//!
//! Pure. Every objection names the line and says what is wrong with it.

use std::collections::{BTreeSet, HashMap, HashSet};

use posse_engine::content_hash;
use posse_session::{Event, Hash, Ids, Kind, Record, Segment, SessionId, Text};
use serde::Deserialize;
use serde_json::Value;

/// How our ids begin, and how many letters and digits follow.
const ID_PREFIXES: [&str; 5] = ["ses_", "call_", "msg_", "ask_", "evt_"];
const ID_CHARS: usize = 26;

/// What can be read, for those who brought something else.
const ACCEPTED: &str = "what can be imported is a file of `posse sessions export ID --format jsonl`";

/// One log.
pub(super) struct Imports {
    pub(super) session: SessionId,
    pub(super) records: Vec<Record>,
}

/// A root and everything below it.
pub(super) struct Tree {
    pub(super) root: SessionId,
    pub(super) sessions: Vec<Imports>,
    /// A session of another tree that begins with words of this one, if any does.
    pub(super) shown_by: Option<SessionId>,
}

pub(super) struct Imported {
    /// What another tree shows comes before it.
    pub(super) trees: Vec<Tree>,
    /// What stands in the file beside the records, by hash.
    pub(super) blobs: HashMap<Hash, String>,
    /// Texts that the records name and the file has not.
    pub(super) missing: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Record {
        session: SessionId,
        #[serde(flatten)]
        record: Box<Record>,
    },
    Blob {
        blob: Hash,
        text: String,
    },
}

pub(super) fn read(text: &str) -> Result<Imported, String> {
    recognise(text)?;
    let mut logs: Vec<Imports> = Vec::new();
    let mut places: HashMap<SessionId, usize> = HashMap::new();
    let mut blobs = HashMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |why: String| format!("line {}: {why}", number + 1);
        match serde_json::from_str(line).map_err(|error| at(format!("it is no record of a session ({error}); {ACCEPTED}")))? {
            Line::Blob { blob, text } if content_hash(text.as_bytes()) != blob => {
                return Err(at(format!("the text of {} is not the one that was exported: its hash is another", blob.as_str())));
            }
            Line::Blob { blob, text } => drop(blobs.insert(blob, text)),
            Line::Record { session, record } => {
                let place = *places.entry(session.clone()).or_insert(logs.len());
                if place == logs.len() {
                    logs.push(Imports { session: session.clone(), records: Vec::new() });
                }
                let log = &mut logs[place];
                fits(log, &record).map_err(|why| at(format!("{session}: {why}")))?;
                log.records.push(*record);
            }
        }
    }
    if logs.is_empty() {
        return Err(format!("there is no record in it; {ACCEPTED}"));
    }
    let missing = restore(&mut logs, &blobs);
    adopt(&mut logs);
    Ok(Imported { trees: in_order(trees(logs)?)?, blobs, missing })
}

/// Says what a file is that is something else.
fn recognise(text: &str) -> Result<(), String> {
    let first: Option<Value> = text.lines().next().and_then(|line| serde_json::from_str(line).ok());
    if first.as_ref().is_some_and(|line| line["type"] == "posse_recording") {
        return Err(format!("it is a recording and no session: `posse run --replay FILE` plays it; {ACCEPTED}"));
    }
    let has_info = text.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with("\"info\""));
    if has_info {
        return Err(format!("it is a session in OpenCode's shape, which leaves out what going on needs; {ACCEPTED}"));
    }
    Ok(())
}

/// Whether a record can follow the ones before it.
fn fits(log: &Imports, record: &Record) -> Result<(), String> {
    let expected = log.records.len() as u64 + 1;
    if record.seq != expected {
        return Err(format!("record {expected} is missing: this one is {}", record.seq));
    }
    if !record.event.is_understood() {
        return Err(format!("record {expected} (`{}`) is not known to this version of posse; update posse", record.event.name()));
    }
    match (&record.event, log.records.last()) {
        (Event::Created { .. }, None) => Ok(()),
        (_, None) => Err("its first record does not create it".to_owned()),
        (Event::Created { .. }, Some(_)) => Err("it is created twice".to_owned()),
        (_, Some(last)) if last.batch == record.batch && last.at != record.at => {
            Err(format!("records of the append {} are from two times", record.batch))
        }
        _ => Ok(()),
    }
}

/// Puts texts back that stand beside the records. Answers with how many stand nowhere.
fn restore(logs: &mut [Imports], blobs: &HashMap<Hash, String>) -> usize {
    let mut missing = 0;
    let texts = logs.iter_mut().flat_map(|log| &mut log.records).flat_map(|record| record.event.texts_mut());
    for text in texts {
        let Text::Stored { blob, .. } = &*text else { continue };
        match blobs.get(blob) {
            Some(words) => *text = Text::Inline(words.clone()),
            None => missing += 1,
        }
    }
    missing
}

/// The stretches of other logs that a session begins with.
fn segments(log: &Imports) -> impl Iterator<Item = &Segment> {
    log.records.iter().filter_map(|record| if let Event::Forked { segments } = &record.event { Some(segments) } else { None }).flatten()
}

/// A task that is in the file only because a fork begins with its words is a session of its own here: nobody waits for it.
fn adopt(logs: &mut [Imports]) {
    let known: HashSet<SessionId> = logs.iter().map(|log| log.session.clone()).collect();
    let shown: HashSet<SessionId> = logs.iter().flat_map(segments).map(|segment| segment.session.clone()).collect();
    // A parent may come after its child; each round settles one level at least.
    let mut roots: HashMap<SessionId, SessionId> = HashMap::new();
    loop {
        let before = roots.len();
        for log in logs.iter_mut().filter(|log| shown.contains(&log.session)) {
            let Some(Event::Created { kind, root, parent, depth, .. }) = log.records.first_mut().map(|record| &mut record.event) else {
                continue;
            };
            let Some(above) = parent.as_ref().filter(|_| !known.contains(root)) else { continue };
            if !known.contains(above) {
                (*kind, *root, *parent, *depth) = (Kind::Root, log.session.clone(), None, 0);
            } else if let Some(theirs) = roots.get(above) {
                *root = theirs.clone();
            } else {
                continue;
            }
            roots.insert(log.session.clone(), root.clone());
        }
        if roots.len() == before {
            return;
        }
    }
}

/// What is shown stands before who shows it: whoever reads a fork finds what it begins with, whenever the import was cut short.
fn in_order(mut left: Vec<Tree>) -> Result<Vec<Tree>, String> {
    let tree_of: HashMap<SessionId, SessionId> =
        left.iter().flat_map(|tree| tree.sessions.iter().map(|log| (log.session.clone(), tree.root.clone()))).collect();
    let needs = |tree: &Tree| -> Vec<SessionId> {
        let shown = tree.sessions.iter().flat_map(segments).filter_map(|segment| tree_of.get(&segment.session));
        shown.filter(|root| **root != tree.root).cloned().collect()
    };
    let mut shown_by: HashMap<SessionId, SessionId> = HashMap::new();
    for tree in &left {
        shown_by.extend(needs(tree).into_iter().map(|root| (root, tree.root.clone())));
    }
    for tree in &mut left {
        tree.shown_by = shown_by.remove(&tree.root);
    }
    let mut ordered: Vec<Tree> = Vec::new();
    while !left.is_empty() {
        let is_ready = |tree: &Tree| needs(tree).iter().all(|root| ordered.iter().any(|written| written.root == *root));
        let Some(place) = left.iter().position(is_ready) else {
            return Err(format!("{} begins with itself: its forks show each other", left[0].root));
        };
        ordered.push(left.remove(place));
    }
    Ok(ordered)
}

/// The logs as trees, each with its root and with every parent.
fn trees(logs: Vec<Imports>) -> Result<Vec<Tree>, String> {
    let known: HashSet<SessionId> = logs.iter().map(|log| log.session.clone()).collect();
    let lengths: HashMap<SessionId, u64> = logs.iter().map(|log| (log.session.clone(), log.records.len() as u64)).collect();
    let mut trees: Vec<Tree> = Vec::new();
    for log in logs {
        let Some(Event::Created { kind, root, parent, .. }) = log.records.first().map(|record| &record.event) else { continue };
        let id = &log.session;
        let whole = "export the session that it belongs to";
        match parent {
            Some(parent) if !known.contains(parent) => {
                return Err(format!("{id} was started by {parent}, which is not in the file; {whole}"));
            }
            None if root != id => return Err(format!("{id} belongs to {root} and was started by nobody")),
            Some(_) if root == id => return Err(format!("{id} is its own root and was started by somebody")),
            None if !matches!(kind, Kind::Root | Kind::Internal) => return Err(format!("{id} is no session that a user began; {whole}")),
            _ if !known.contains(root) => return Err(format!("{id} belongs to {root}, which is not in the file; {whole}")),
            _ => {}
        }
        for segment in segments(&log) {
            let earlier = "; what it begins with is in a file that this version of posse exports";
            match lengths.get(&segment.session) {
                None => return Err(format!("{id} goes on from {}, which is not in the file{earlier}", segment.session)),
                Some(length) if *length < segment.to => {
                    return Err(format!(
                        "{id} goes on from record {} of {}, which is not in the file{earlier}",
                        segment.to, segment.session
                    ));
                }
                Some(_) => {}
            }
        }
        match trees.iter_mut().find(|tree| tree.root == *root) {
            Some(tree) => tree.sessions.push(log),
            None => trees.push(Tree { root: root.clone(), sessions: vec![log], shown_by: None }),
        }
    }
    let begins = |tree: &Tree| tree.sessions.iter().any(|log| log.session == tree.root);
    match trees.iter().find(|tree| !begins(tree)) {
        Some(tree) => Err(format!("{} is not in the file", tree.root)),
        None => Ok(trees),
    }
}

impl Imported {
    /// The sessions work in this folder from here on; one that worked below its root's folder works below this one.
    pub(super) fn move_to(&mut self, here: &str) {
        for tree in &mut self.trees {
            let folder = |log: &Imports| match log.records.first().map(|record| &record.event) {
                Some(Event::Created { directory, .. }) => Some(directory.clone()),
                _ => None,
            };
            let Some(top) = tree.sessions.iter().find(|log| log.session == tree.root).and_then(folder) else { continue };
            for log in &mut tree.sessions {
                if let Some(Event::Created { directory, worktree, within, .. }) = log.records.first_mut().map(|record| &mut record.event) {
                    // Folders of another machine, or of the original: nobody works in them here.
                    (*worktree, *within) = (None, None);
                    let below = directory.strip_prefix(top.as_str()).filter(|rest| rest.starts_with('/')).unwrap_or_default();
                    *directory = format!("{here}{below}");
                }
            }
        }
    }
}

/// The same file with a new id for everything, also where a text speaks of it.
pub(super) fn with_new_ids(text: &str, ids: &dyn Ids) -> String {
    let mut lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // A text that a hash vouches for stays as it is.
    let is_record = |line: &&mut Value| line.get("blob").is_none();
    let mut old: BTreeSet<String> = BTreeSet::new();
    for line in lines.iter_mut().filter(is_record) {
        each_text(line, &mut |text| {
            rewrite(text, &mut |id| {
                old.insert(id.to_owned());
                id.to_owned()
            });
        });
    }
    // What was made earlier still sorts before what was made later; ids of one kind only are ever compared.
    let fresh: HashMap<String, String> = old
        .into_iter()
        .map(|id| {
            let prefix = id.len() - ID_CHARS;
            (id.clone(), ids.fresh(&id[..prefix]))
        })
        .collect();
    for line in lines.iter_mut().filter(is_record) {
        each_text(line, &mut |text| {
            let told = rewrite(text, &mut |id| fresh.get(id).cloned().unwrap_or_else(|| id.to_owned()));
            *text = told;
        });
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn each_text(value: &mut Value, see: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, see)),
        Value::Object(fields) => fields.values_mut().for_each(|item| each_text(item, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with every id in it rewritten.
fn rewrite(text: &str, told: &mut dyn FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, length)) = next_id(rest) {
        out.push_str(&rest[..start]);
        out.push_str(&told(&rest[start..start + length]));
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    out
}

fn next_id(text: &str) -> Option<(usize, usize)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let starts = text.match_indices('_').filter_map(|(underscore, _)| {
        let prefix = ID_PREFIXES.iter().find(|prefix| text[..=underscore].ends_with(**prefix))?;
        let (start, length) = (underscore + 1 - prefix.len(), prefix.len() + ID_CHARS);
        let letters = text.as_bytes().get(underscore + 1..start + length)?;
        let is_id = letters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z'));
        let stands_alone = !text[..start].ends_with(is_word) && is_id && !text[start + length..].starts_with(is_word);
        stands_alone.then_some((start, length))
    });
    starts.into_iter().next()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;

    struct Counting(AtomicU64);

    impl Ids for Counting {
        fn fresh(&self, prefix: &str) -> String {
            format!("{prefix}{:026}", self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    const ROOT: &str = "ses_01JDAAAAAAAAAAAAAAAAAAAAAA";
    const CHILD: &str = "ses_01JDBBBBBBBBBBBBBBBBBBBBBB";

    fn created(session: &str, parent: Option<&str>, root: &str) -> Value {
        let kind = if parent.is_some() { "task" } else { "root" };
        let event = json!({"type": "created", "kind": kind, "root": root, "parent": parent, "directory": "/a", "title": "", "recipe": {"agent": "build"}});
        json!({"session": session, "seq": 1, "at": 1, "batch": "evt_1", "event": event})
    }

    fn said(session: &str, seq: u64, event: Value) -> Value {
        json!({"session": session, "seq": seq, "at": seq, "batch": format!("evt_{seq}"), "event": event})
    }

    fn file(lines: &[Value]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let resumed = json!({"type": "resumed", "by": "user"});
        let table = [
            (String::new(), "no record in it"),
            ("nonsense\n".to_owned(), "line 1"),
            (json!({"type": "posse_recording", "format": 1}).to_string(), "posse run --replay"),
            ("{\n \"info\": {} }".to_owned(), "OpenCode's shape"),
            (file(&[said(ROOT, 1, resumed.clone())]), "does not create it"),
            (
                file(&[created(ROOT, None, ROOT), said(ROOT, 3, resumed.clone())]),
                "line 2: ses_01JDAAAAAAAAAAAAAAAAAAAAAA: record 2 is missing",
            ),
            (file(&[created(ROOT, None, ROOT), said(ROOT, 2, json!({"type": "later"}))]), "update posse"),
            (file(&[created(ROOT, None, ROOT), said(ROOT, 2, json!({"type": "resumed"}))]), "not known"),
            (file(&[created(CHILD, Some(ROOT), ROOT)]), "not in the file"),
            (file(&[created(ROOT, None, CHILD)]), "started by nobody"),
            (file(&[created(ROOT, None, ROOT), json!({"blob": "ab", "text": "x"})]), "line 2: the text of ab"),
        ];
        for (text, expected) in table {
            let words = read(&text).map(|_| ()).unwrap_err();
            assert!(words.contains(expected), "{words}");
        }
        assert!(read(&file(&[created(ROOT, None, ROOT), said(ROOT, 2, json!({"type": "later", "ignorable": true}))])).is_ok());
    }

    #[test]
    fn texts_beside_the_records_are_put_back_and_missing_ones_are_counted() {
        let hash = content_hash(b"long words");
        let failed = |blob: &str| json!({"type": "step_failed", "step": 1, "error": "", "partial": {"blob": blob, "bytes": 10}});
        let lines = [
            created(ROOT, None, ROOT),
            said(ROOT, 2, failed(hash.as_str())),
            said(ROOT, 3, failed("gone")),
            json!({"blob": hash, "text": "long words"}),
        ];
        let imported = read(&file(&lines)).unwrap();
        assert_eq!(imported.missing, 1);
        let Event::StepFailed { partial, .. } = &imported.trees[0].sessions[0].records[1].event else { panic!() };
        assert_eq!(partial.inline(), Some("long words"));
    }

    #[test]
    fn new_ids_are_the_same_wherever_an_old_one_stood() {
        let note = json!({"type": "later", "ignorable": true, "text": format!("see\n{CHILD}, x{ROOT} and {ROOT}9")});
        let text = file(&[created(ROOT, None, ROOT), created(CHILD, Some(ROOT), ROOT), said(CHILD, 2, note)]);
        let told = with_new_ids(&text, &Counting(AtomicU64::new(0)));
        let (root, child) = (format!("ses_{:026}", 0), format!("ses_{:026}", 1));
        let imported = read(&told).unwrap();
        let sessions: Vec<&str> = imported.trees[0].sessions.iter().map(|log| log.session.as_str()).collect();
        assert_eq!((imported.trees[0].root.as_str(), sessions), (root.as_str(), vec![root.as_str(), child.as_str()]));
        assert!(told.contains(&format!("see\\n{child}, x{ROOT} and {ROOT}9")), "{told}");
    }

    #[test]
    fn sessions_move_with_their_root() {
        let mut below = created(CHILD, Some(ROOT), ROOT);
        below["event"]["directory"] = json!("/a/b");
        let mut imported = read(&file(&[created(ROOT, None, ROOT), below])).unwrap();
        imported.move_to("/here");
        let folders: Vec<&str> = imported.trees[0]
            .sessions
            .iter()
            .map(|log| if let Event::Created { directory, .. } = &log.records[0].event { directory.as_str() } else { "" })
            .collect();
        assert_eq!(folders, ["/here", "/here/b"]);
    }
}
