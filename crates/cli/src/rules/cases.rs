//! `posse rules test`: a file of cases, each with its own rules or its own folder, judged one by one.
//!
//! The rules in force here do not count, so the same file gives the same verdicts everywhere. A file is read whole before
//! anything is judged: a case that cannot be read is an error, never a case less.

use std::path::{Path, PathBuf};

use posse_api::words;
use posse_session::{Rule, Rules, Verdict};
use posse_tools::{Surroundings, judge_shell, test_path_case};
use serde_json::{Map, Value};

use crate::{
    args::Listing,
    exit::{Exit, Failure},
    print::{safe, to_stderr, to_stdout},
};

/// Where the command of a case would run: made-up places, because no case may depend on this machine.
const ROOT: &str = "/work/project";
const HOME: &str = "/home/someone";

/// So many broken lines are named; more say nothing new.
const ERRORS_MAX: usize = 10;

struct Case {
    line: usize,
    id: Value,
    expected: Option<String>,
    subject: Subject,
}

enum Subject {
    Command { rules: Rules, command: String },
    Path(Value),
}

pub(super) fn test(file: &Path, format: Listing) -> Result<Exit, Failure> {
    let unreadable = |error: std::io::Error| Failure::usage(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let cases = read(&text, file)?;
    let (mut wrong, mut broken) = (0, 0);
    let width = cases.iter().map(|case| shown(&case.id).chars().count()).max().unwrap_or(0).min(40);
    for case in &cases {
        let (verdict, why) = match judged(&case.subject) {
            Ok(found) => found,
            Err(error) => {
                broken += 1;
                to_stderr(&format!("posse: {}:{}: {error}", file.display(), case.line));
                continue;
            }
        };
        let mismatch = case.expected.as_ref().filter(|expected| **expected != verdict);
        wrong += usize::from(mismatch.is_some());
        if format == Listing::Json {
            let mut fields = Map::new();
            fields.insert("id".into(), case.id.clone());
            fields.insert("verdict".into(), verdict.into());
            fields.insert("why".into(), why.into());
            fields.extend(mismatch.map(|expected| ("expected".to_owned(), expected.clone().into())));
            to_stdout(&Value::Object(fields).to_string());
        } else {
            let mark = mismatch.map_or(String::new(), |expected| format!("expected {expected}; "));
            to_stdout(&safe(&format!("{:width$}  {verdict:7}  {mark}{}", shown(&case.id), why.replace('\n', "⏎"))));
        }
    }
    to_stderr(&format!("posse: {} cases, {wrong} not as expected", cases.len()));
    Ok(match (broken, wrong) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::Usage,
    })
}

fn shown(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

fn read(text: &str, file: &Path) -> Result<Vec<Case>, Failure> {
    let (mut cases, mut errors) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match case(at + 1, line) {
            Ok(case) => cases.push(case),
            Err(words) => errors.push(format!("{}:{}: {words}", file.display(), at + 1)),
        }
    }
    if !errors.is_empty() {
        let more = errors.len().saturating_sub(ERRORS_MAX);
        errors.truncate(ERRORS_MAX);
        errors.extend((0 < more).then(|| format!("and {more} more lines like these")));
        return Err(Failure::usage(errors.join("\nposse: ")));
    }
    if cases.is_empty() {
        return Err(Failure::usage(format!("{}: there is nothing to check in it; write one case per line", file.display())));
    }
    Ok(cases)
}

fn case(line: usize, text: &str) -> Result<Case, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    if !value.is_object() {
        return Err("expected an object, as in {\"id\": 1, \"ruleset\": [[\"git *\", \"allow\"]], \"command\": \"git status\"}".to_owned());
    }
    let (is_command, is_path) = (value.get("command").is_some(), value.get("path").is_some());
    let (subject, known): (Subject, &[&str]) = match (is_command, is_path) {
        (true, false) => {
            let command = value["command"].as_str().ok_or("`command` must be a string")?.to_owned();
            (Subject::Command { rules: ruleset(&value["ruleset"])?, command }, &["allow", "ask", "deny"])
        }
        (false, true) => (Subject::Path(value.clone()), &["inside", "outside", "refuse"]),
        _ => return Err("expected either `command` with `ruleset`, or `path` with `root`, `setup` and `op`".to_owned()),
    };
    let expected = match value.get("expected") {
        None => None,
        Some(word) => {
            let word = word.as_str().filter(|word| known.contains(word));
            Some(word.ok_or_else(|| format!("`expected` must be one of {}", known.join(", ")))?.to_owned())
        }
    };
    let id = value.get("id").cloned().unwrap_or_else(|| line.into());
    Ok(Case { line, id, expected, subject })
}

fn ruleset(value: &Value) -> Result<Rules, String> {
    let wrong = || "`ruleset` must be a list of [pattern, action], the action allow, ask or deny".to_owned();
    let rule = |entry: &Value| {
        let [pattern, action] = entry.as_array()?.as_slice() else { return None };
        let action = match action.as_str()? {
            "allow" => Verdict::Allow,
            "ask" => Verdict::Ask,
            "deny" => Verdict::Deny,
            _ => return None,
        };
        Some(Rule { key: "bash".to_owned(), pattern: pattern.as_str()?.to_owned(), action, origin: String::new() })
    };
    let rules = value.as_array().ok_or_else(wrong)?.iter().map(rule).collect::<Option<Vec<Rule>>>();
    rules.map(Rules).ok_or_else(wrong)
}

fn judged(subject: &Subject) -> Result<(String, String), String> {
    match subject {
        Subject::Command { rules, command } => {
            let surroundings = Surroundings { root: PathBuf::from(ROOT), cwd: PathBuf::from(ROOT), home: PathBuf::from(HOME) };
            let found = judge_shell(command, rules, &surroundings);
            Ok((words::verdict(found.verdict).to_owned(), found.why))
        }
        Subject::Path(case) => test_path_case(case).map(|found| (found.verdict.to_string(), found.why)),
    }
}
