//! Which agent changed which file, and what it takes to undo some of that. Made from facts alone.
//!
//! Knows hashes and words, nothing of disks: who undoes reads the files, asks `FileUndo::check`, and writes. An edit that
//! was undone stays in the list, marked.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use posse_session::{CallId, Event, Outcome, Part, Record, SessionId, Summary, Text, Timestamp};
use serde::Serialize;

/// One change of one file by one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edit {
    pub at: Timestamp,
    pub session: SessionId,
    pub agent: String,
    pub call: CallId,
    pub tool: String,
    pub path: String,
    pub added: u64,
    pub removed: u64,
    /// The hash of the whole file; empty where there was none.
    pub before: String,
    pub after: String,
    pub undone: bool,
    /// Where the session worked; `path` is relative to the project it is in.
    #[serde(skip)]
    pub directory: String,
    /// The record from which the content before can be made.
    #[serde(skip)]
    pub change: Option<String>,
    /// The mode of a file that was removed.
    #[serde(skip)]
    pub mode: Option<u32>,
}

/// The edits of a session and of those below it, oldest first. `tree` has every session of the tree, with its facts and
/// their texts.
pub fn edits(tree: &[(Summary, Vec<Record>)], of: &SessionId) -> Vec<Edit> {
    let below = below(tree.iter().map(|(summary, _)| summary), of);
    let undone: HashSet<&CallId> = tree
        .iter()
        .flat_map(|(_, facts)| facts)
        .filter_map(|record| match &record.event {
            Event::Undone { calls, .. } => Some(calls),
            _ => None,
        })
        .flatten()
        .collect();
    let mut edits = Vec::new();
    for (summary, facts) in tree.iter().filter(|(summary, _)| below.contains(&summary.session)) {
        let mut tools: HashMap<&CallId, &str> = HashMap::new();
        // A clock that is turned back must not turn the order of one session's edits.
        let mut at = Timestamp::default();
        for record in facts {
            at = at.max(record.at);
            match &record.event {
                Event::Called { call, tool, .. } => drop(tools.insert(call, tool)),
                Event::CallFinished { call, outcome: Outcome::Done { attachments, .. } } => {
                    let tool = tools.get(call).copied().unwrap_or_default();
                    let undone = undone.contains(call);
                    let edit = |part: &Part| edit(part, summary, record.at, call, tool, undone);
                    edits.extend(attachments.iter().filter_map(edit).map(|edit| (at, record.seq, edit)));
                }
                _ => {}
            }
        }
    }
    edits.sort_by(|(at, seq, edit), (other_at, other_seq, other)| (at, &edit.session, seq).cmp(&(other_at, &other.session, other_seq)));
    edits.into_iter().map(|(_, _, edit)| edit).collect()
}

/// A session and all below it. A child may come before its parent.
pub fn below<'a>(all: impl IntoIterator<Item = &'a Summary>, of: &SessionId) -> BTreeSet<SessionId> {
    let mut children: HashMap<&SessionId, Vec<&SessionId>> = HashMap::new();
    for summary in all {
        if let Some(parent) = &summary.parent {
            children.entry(parent).or_default().push(&summary.session);
        }
    }
    let mut below = BTreeSet::new();
    let mut left = vec![of];
    while let Some(next) = left.pop() {
        if below.insert(next.clone()) {
            left.extend(children.get(next).into_iter().flatten());
        }
    }
    below
}

fn edit(part: &Part, summary: &Summary, at: Timestamp, call: &CallId, tool: &str, undone: bool) -> Option<Edit> {
    let Part::Patch { path, before, after, added, removed, change, mode } = part else { return None };
    Some(Edit {
        at,
        session: summary.session.clone(),
        agent: summary.agent.clone(),
        call: call.clone(),
        tool: tool.to_owned(),
        path: path.clone(),
        added: *added,
        removed: *removed,
        before: before.clone(),
        after: after.clone(),
        undone,
        directory: summary.directory.clone(),
        change: Some(change).filter(|change| !change.is_blank()).and_then(Text::inline).map(str::to_owned),
        mode: *mode,
    })
}

/// The edits of one file that are to be undone.
#[derive(Debug)]
pub struct FileUndo<'a> {
    /// The newest first; at least one.
    pub edits: Vec<&'a Edit>,
    /// Edits of the file that stay.
    others: Vec<&'a Edit>,
}

/// What is to be done to a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Needed {
    /// It is already as it was before, as after an undo that was cut short.
    Nothing,
    Restore,
}

/// What undoing the wanted edits means for each file. `file` tells files apart; two edits of one file have the same.
pub fn undo_plan<'a, F: Ord>(edits: &'a [Edit], is_wanted: impl Fn(&Edit) -> bool, file: impl Fn(&Edit) -> F) -> Vec<FileUndo<'a>> {
    let mut files: BTreeMap<F, FileUndo<'a>> = BTreeMap::new();
    for edit in edits.iter().rev().filter(|edit| !edit.undone) {
        let entry = files.entry(file(edit)).or_insert_with(|| FileUndo { edits: Vec::new(), others: Vec::new() });
        if is_wanted(edit) { &mut entry.edits } else { &mut entry.others }.push(edit);
    }
    let mut plan: Vec<FileUndo<'a>> = files.into_values().filter(|file| !file.edits.is_empty()).collect();
    plan.iter_mut().for_each(|file| file.edits = chained(std::mem::take(&mut file.edits)));
    plan
}

/// Edits in the order in which they were made, the newest first. Calls that run at the same time are recorded as their
/// ends are known, so where hashes tell another order, that one counts.
fn chained(mut recorded: Vec<&Edit>) -> Vec<&Edit> {
    let mut chain: Vec<&Edit> = Vec::with_capacity(recorded.len());
    while !recorded.is_empty() {
        let next = match chain.last() {
            Some(later) => recorded.iter().position(|edit| edit.after == later.before),
            None => recorded.iter().position(|edit| !recorded.iter().any(|other| other.before == edit.after)),
        };
        chain.push(recorded.remove(next.unwrap_or(0)));
    }
    chain
}

impl FileUndo<'_> {
    pub fn path(&self) -> &str {
        &self.edits[0].path
    }

    /// The hash the file had before all of them.
    pub fn before(&self) -> &str {
        self.edits.last().map_or("", |oldest| &oldest.before)
    }

    /// Whether the file, whose hash is `now`, can be put back; an error is for people.
    pub fn check(&self, now: &str) -> Result<Needed, String> {
        let (path, newest) = (self.path(), self.edits[0]);
        if now == self.before() {
            return Ok(Needed::Nothing);
        }
        if let Some(edit) = self.edits.iter().find(|edit| edit.change.is_none()) {
            return Err(format!(
                "{path}: what it was before {} was not recorded; it was too large, or an older posse made the edit",
                edit.call
            ));
        }
        if now != newest.after {
            return Err(match self.others.iter().find(|other| other.after == now) {
                Some(later) => format!("{path}: {} changed it later (agent {}, {}); undo that too", later.call, later.agent, later.tool),
                None if now.is_empty() => format!("{path}: has been removed since {} edited it", newest.call),
                None => format!("{path}: has been changed since {} edited it", newest.call),
            });
        }
        match self.edits.windows(2).find(|pair| pair[0].before != pair[1].after) {
            Some(pair) => Err(format!(
                "{path}: something else changed it between {} and {}; `--call {}` undoes only what came after that",
                pair[1].call, pair[0].call, pair[0].call
            )),
            None => Ok(Needed::Restore),
        }
    }
}

#[cfg(test)]
mod tests {
    use posse_session::{BatchId, Kind, Recipe};

    use super::*;

    /// A session whose calls change files: `call path before after`.
    fn session(id: &str, parent: Option<&str>, edits: &[(u64, &str, &str, &str, &str)], undone: &[&str]) -> (Summary, Vec<Record>) {
        let mut events = vec![(
            0,
            Event::Created {
                kind: Kind::Root,
                root: SessionId::new("ses_1"),
                parent: parent.map(SessionId::new),
                directory: "/work".into(),
                title: String::new(),
                recipe: Recipe { agent: format!("agent of {id}"), ..Recipe::default() },
                ceiling: Vec::new(),
                above: Default::default(),
                depth: 0,
                strict_shell: false,
                worktree: None,
                within: None,
            },
        )];
        for (at, call, path, before, after) in edits {
            let called = serde_json::json!({"type": "called", "call": call, "tool": "edit", "input": "{}", "wire_id": ""});
            events.push((*at, serde_json::from_value(called).unwrap()));
            let patch = Part::Patch {
                path: (*path).into(),
                before: (*before).into(),
                after: (*after).into(),
                added: 1,
                removed: 2,
                change: if *before == "old log" { "" } else { "[]" }.into(),
                mode: None,
            };
            let outcome = Outcome::Done { output: "".into(), title: String::new(), metadata: None, attachments: vec![patch] };
            events.push((*at, Event::CallFinished { call: CallId::new(*call), outcome }));
        }
        if !undone.is_empty() {
            events.push((99, Event::Undone { calls: undone.iter().map(|call| CallId::new(*call)).collect(), paths: Vec::new() }));
        }
        let mut summary = Summary::new(SessionId::new(id));
        let record = |(place, (at, event)): (usize, (u64, Event))| Record {
            seq: place as u64 + 1,
            at: Timestamp(at),
            batch: BatchId::new(""),
            event,
        };
        let records: Vec<Record> = events.into_iter().enumerate().map(record).collect();
        records.iter().for_each(|record| summary.apply(record));
        (summary, records)
    }

    fn told(edits: &[Edit]) -> Vec<String> {
        edits
            .iter()
            .map(|edit| format!("{} {} {}..{}{}", edit.call, edit.path, edit.before, edit.after, if edit.undone { " undone" } else { "" }))
            .collect()
    }

    #[test]
    fn the_edits_of_a_tree_are_told_in_order_with_who_made_them() {
        let tree = [
            session(
                "ses_1",
                None,
                &[(10, "call_a", "a.rs", "1", "2"), (30, "call_c", "a.rs", "3", "4"), (20, "call_d", "a.rs", "4", "5")],
                &["call_b"],
            ),
            session("ses_2", Some("ses_1"), &[(15, "call_b", "a.rs", "2", "3")], &[]),
            session("ses_3", Some("ses_2"), &[(40, "call_e", "b.rs", "", "1")], &[]),
        ];
        let all = edits(&tree, &SessionId::new("ses_1"));
        assert_eq!(told(&all), ["call_a a.rs 1..2", "call_b a.rs 2..3 undone", "call_c a.rs 3..4", "call_d a.rs 4..5", "call_e b.rs ..1"]);
        assert_eq!((all[1].agent.as_str(), all[1].tool.as_str(), all[1].added, all[1].removed), ("agent of ses_2", "edit", 1, 2));
        assert_eq!(told(&edits(&tree, &SessionId::new("ses_2"))), ["call_b a.rs 2..3 undone", "call_e b.rs ..1"]);
    }

    #[test]
    fn below_a_session_are_its_children_and_theirs() {
        let born = |id: &str, parent: Option<&str>| Summary { parent: parent.map(SessionId::new), ..Summary::new(SessionId::new(id)) };
        let all =
            [born("d", Some("c")), born("c", Some("a")), born("a", None), born("b", Some("a")), born("x", None), born("y", Some("y"))];
        for (top, expected) in [("a", "abcd"), ("c", "cd"), ("x", "x"), ("y", "y")] {
            let found: Vec<String> = below(&all, &SessionId::new(top)).into_iter().map(|id| id.0).collect();
            assert_eq!(found.concat(), expected);
        }
    }

    #[test]
    fn undoing_needs_every_file_as_the_newest_edit_left_it() {
        let tree = [session(
            "ses_1",
            None,
            &[
                (1, "call_1", "a", "A", "B"),
                (2, "call_2", "b", "", "N"),
                (3, "call_3", "a", "B", "C"),
                (4, "call_4", "c", "X", "Y"),
                (5, "call_5", "c", "Z", "W"),
                (6, "call_6", "d", "old log", "V"),
                (7, "call_7", "e", "E", ""),
            ],
            &[],
        )];
        let all = edits(&tree, &SessionId::new("ses_1"));
        let check = |wanted: &[&str], path: &str, now: &str| {
            let is_wanted = |edit: &Edit| wanted.is_empty() || wanted.contains(&edit.call.as_str());
            let plan = undo_plan(&all, is_wanted, |edit| edit.path.clone());
            plan.iter().find(|file| file.path() == path).unwrap().check(now)
        };
        for (wanted, path, now, answer) in [
            (&[][..], "a", "C", Ok(Needed::Restore)),
            (&[], "a", "A", Ok(Needed::Nothing)),
            (&[], "a", "D", Err("a: has been changed since call_3 edited it")),
            (&[], "a", "B", Err("a: has been changed since call_3 edited it")),
            (&[], "a", "", Err("a: has been removed since call_3 edited it")),
            (&["call_3"], "a", "C", Ok(Needed::Restore)),
            (&["call_3"], "a", "B", Ok(Needed::Nothing)),
            (&["call_1"], "a", "C", Err("a: call_3 changed it later (agent agent of ses_1, edit); undo that too")),
            (&[], "b", "N", Ok(Needed::Restore)),
            (&[], "b", "", Ok(Needed::Nothing)),
            (
                &[],
                "c",
                "W",
                Err("c: something else changed it between call_4 and call_5; `--call call_5` undoes only what came after that"),
            ),
            (&["call_5"], "c", "W", Ok(Needed::Restore)),
            (&[], "d", "V", Err("d: what it was before call_6 was not recorded; it was too large, or an older posse made the edit")),
            (&[], "e", "", Ok(Needed::Restore)),
            (&[], "e", "E", Ok(Needed::Nothing)),
            (&[], "e", "F", Err("e: has been changed since call_7 edited it")),
        ] {
            assert_eq!(check(wanted, path, now), answer.map_err(str::to_owned), "{wanted:?} {path} {now}");
        }
    }

    #[test]
    fn edits_that_were_made_at_the_same_time_are_undone_in_the_order_they_were_made() {
        let a = |call: &'static str, before: &'static str, after: &'static str| (1, call, "a", before, after);
        for (recorded, order) in [
            (vec![a("call_3", "C", "D"), a("call_1", "A", "B"), a("call_2", "B", "C")], ["call_3", "call_2", "call_1"]),
            (vec![a("call_2", "B", "C"), a("call_1", "A", "B"), a("call_3", "C", "D")], ["call_3", "call_2", "call_1"]),
            // A file that came back to what it was.
            (vec![a("call_1", "A", "B"), a("call_2", "B", "A"), a("call_3", "A", "B")], ["call_3", "call_2", "call_1"]),
        ] {
            let all = edits(&[session("ses_1", None, &recorded, &[])], &SessionId::new("ses_1"));
            let plan = undo_plan(&all, |_| true, |edit| edit.path.clone());
            assert_eq!(plan[0].edits.iter().map(|edit| edit.call.as_str()).collect::<Vec<_>>(), order);
            assert_eq!((plan[0].before(), plan[0].check(&plan[0].edits[0].after)), ("A", Ok(Needed::Restore)));
        }
    }

    #[test]
    fn what_was_undone_is_not_undone_again() {
        let tree = [session(
            "ses_1",
            None,
            &[(1, "call_1", "a", "A", "B"), (2, "call_2", "a", "B", "C"), (3, "call_3", "a", "B", "D")],
            &["call_2"],
        )];
        let all = edits(&tree, &SessionId::new("ses_1"));
        let plan = undo_plan(&all, |_| true, |edit| edit.path.clone());
        assert_eq!(plan[0].edits.iter().map(|edit| edit.call.as_str()).collect::<Vec<_>>(), ["call_3", "call_1"]);
        assert_eq!(plan[0].check("D"), Ok(Needed::Restore));
        let none = [session("ses_1", None, &[(1, "call_1", "a", "A", "B")], &["call_1"])];
        assert!(undo_plan(&edits(&none, &SessionId::new("ses_1")), |_| true, |edit| edit.path.clone()).is_empty());
    }
}
