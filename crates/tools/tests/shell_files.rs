//! Shell lines and the files on the disk: rules about files, wildcards, and links that lead out.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, os::unix::fs::symlink};

use common::Office;
use posse_session::{Rule, Rules, Verdict, judge};
use serde_json::json;

/// The rules that everybody has, and some more.
fn rules(more: &[(&str, &str, Verdict)]) -> Rules {
    let usual = [("*", "*", Verdict::Allow), ("external_directory", "*", Verdict::Ask)];
    let rule = |(key, pattern, action): &(&str, &str, Verdict)| Rule {
        key: (*key).to_owned(),
        pattern: (*pattern).to_owned(),
        action: *action,
        origin: String::new(),
    };
    Rules(usual.iter().chain(more).map(rule).collect())
}

fn verdict(office: &Office, command: &str, rules: &Rules) -> Verdict {
    let look = office.tool("bash").look(&json!({ "command": command }), &*office.context.workspace).unwrap();
    judge("bash", &look.touches, look.reader.as_ref(), rules, &[]).decision.verdict
}

fn wrong<'a>(office: &Office, rules: &Rules, table: &[(&'a str, Verdict)]) -> Vec<(&'a str, Verdict, Verdict)> {
    let judged = table.iter().map(|(line, wanted)| (*line, *wanted, verdict(office, line, rules)));
    judged.filter(|(_, wanted, found)| wanted != found).collect()
}

#[test]
fn a_rule_that_denies_editing_a_file_denies_it_to_who_may_write_it() {
    let office = Office::new();
    office.file("a.txt", "x");
    office.file("src/main.py", "x");
    let rules = rules(&[("edit", "a.txt", Verdict::Deny), ("edit", "src/*", Verdict::Deny)]);
    let table = [
        ("prettier --write a.txt", Verdict::Deny),
        ("yq -i .a a.txt", Verdict::Deny),
        ("sd a b a.txt", Verdict::Deny),
        ("xxd -r x a.txt", Verdict::Deny),
        ("strace -o a.txt ls", Verdict::Deny),
        ("find . -fprint a.txt", Verdict::Deny),
        ("curl -O http://x.example/a.txt", Verdict::Deny),
        ("tar cf a.txt x", Verdict::Deny),
        ("zip a.txt x", Verdict::Deny),
        ("split x a.txt", Verdict::Deny),
        ("git archive -o a.txt HEAD", Verdict::Deny),
        ("git checkout a.txt", Verdict::Deny),
        ("touch a.t*", Verdict::Deny),
        ("rm *.txt", Verdict::Deny),
        ("rm a.tx[t]", Verdict::Deny),
        ("echo y > a.t*", Verdict::Deny),
        ("sd a b *.txt", Verdict::Deny),
        ("cat a.txt", Verdict::Allow),
        ("cat *.txt", Verdict::Allow),
        ("prettier --check a.txt", Verdict::Allow),
        ("yq . a.txt", Verdict::Allow),
        ("cp a.txt b.txt", Verdict::Allow),
        ("tar cf b.tar a.txt", Verdict::Allow),
        ("git diff a.txt", Verdict::Allow),
        ("git add a.txt", Verdict::Allow),
        ("python3 src/main.py", Verdict::Allow),
        ("pytest src/main.py", Verdict::Allow),
        ("rm *.log", Verdict::Allow),
        ("sort a.txt > b.txt", Verdict::Allow),
        ("neverheardof b.txt", Verdict::Allow),
        ("psql -f a.txt", Verdict::Allow),
        ("npm test -- a.txt", Verdict::Allow),
        ("npx prettier --check a.txt", Verdict::Allow),
        ("cross-env A=1 cat a.txt", Verdict::Allow),
        ("yarn prettier --write a.txt", Verdict::Deny),
    ];
    assert_eq!(wrong(&office, &rules, &table), []);
}

#[test]
fn a_rule_that_denies_all_editing_is_not_about_every_word() {
    let office = Office::new();
    let rules = rules(&[("edit", "*", Verdict::Deny)]);
    let table = [("neverheardof get pods", Verdict::Allow), ("sd a b a.txt", Verdict::Allow), ("touch a.txt", Verdict::Deny)];
    assert_eq!(wrong(&office, &rules, &table), []);
}

#[test]
fn a_wildcard_does_not_step_over_a_rule_or_a_link() {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("name"), "x").unwrap();
    symlink(&outside, office.root.join("ext")).unwrap();
    symlink(outside.join("name"), office.root.join("exf")).unwrap();
    fs::create_dir(office.root.join("bin")).unwrap();
    symlink("/usr/bin/env", office.root.join("bin/env")).unwrap();
    symlink("a.txt", office.root.join("same")).unwrap();
    office.file("a.txt", "x");
    office.file("b.md", "x");
    office.file("sub/deep/c.txt", "x");
    let rules = rules(&[("read", "a.txt", Verdict::Deny), ("read", "sub/deep/*", Verdict::Deny)]);
    let table = [
        ("cat exf", Verdict::Ask),
        ("cat ex*", Verdict::Ask),
        ("cat ex?", Verdict::Ask),
        ("cat e[x]f", Verdict::Ask),
        ("cat e*t/name", Verdict::Ask),
        ("cat ./*/name", Verdict::Ask),
        ("ls e*t", Verdict::Ask),
        ("cd e*t && cat name", Verdict::Ask),
        ("for f in ex*; do cat \"$f\"; done", Verdict::Ask),
        ("cat a.t*", Verdict::Deny),
        ("cat a.tx?", Verdict::Deny),
        ("cat {a,b}.t*", Verdict::Deny),
        ("grep x *.txt", Verdict::Deny),
        ("cat sam*", Verdict::Deny),
        ("cat */deep/*.txt", Verdict::Deny),
        ("shopt -s globstar; cat **/c.txt", Verdict::Deny),
        ("cat *.md", Verdict::Allow),
        ("ls bin/*", Verdict::Allow),
        ("chmod +x bin/*", Verdict::Ask),
        ("cat b.*", Verdict::Allow),
        ("ls *.rs", Verdict::Allow),
        ("grep -rn 'a.t*' src", Verdict::Allow),
        ("find . -name 'ex*'", Verdict::Allow),
        ("shopt -s globstar; cat **/*.md", Verdict::Allow),
    ];
    assert_eq!(wrong(&office, &rules, &table), []);
}

#[test]
fn what_only_the_run_can_tell_asks_under_the_usual_rules() {
    let office = Office::new();
    let usual = rules(&[]);
    let table = [
        ("echo x >> \"$(cat f)\"", Verdict::Ask),
        ("read X < f; echo x >> \"$X\"", Verdict::Ask),
        ("cd \"$(cat f)\" && echo x > y", Verdict::Ask),
        ("tee -a $(cat f)", Verdict::Ask),
        ("cargo build > \"build/$(date +%F).log\"", Verdict::Allow),
        ("for f in *.txt; do sort \"$f\" > \"$f.sorted\"; done", Verdict::Allow),
        ("cp a.txt \"$X\"", Verdict::Allow),
    ];
    assert_eq!(wrong(&office, &usual, &table), []);
    let anywhere = rules(&[("external_directory", "*", Verdict::Allow)]);
    assert_eq!(verdict(&office, "echo x >> \"$(cat f)\"", &anywhere), Verdict::Allow);
}

#[test]
fn wildcards_for_more_than_can_be_looked_at_ask() {
    let office = Office::new();
    for number in 0..5_001 {
        office.file(&format!("many/{number}.txt"), "");
    }
    office.file("few/1.txt", "");
    assert_eq!(verdict(&office, "cat many/*", &rules(&[])), Verdict::Ask);
    assert_eq!(verdict(&office, "cat few/*", &rules(&[])), Verdict::Allow);
}
