//! Rules: the vectors of the OpenCode tests (opencode.md 3.7, by their numbers) and what we add to them.

mod common;

use std::time::{Duration, Instant};

use common::{play::Play, rule};
use posse_session::{Command, Decision, Rules, Session, Touch, Verdict, judge, key_of, wildcard};
use serde_json::{Value, json};

/// `bash:*:allow, bash:rm:deny` in the notation of the vectors.
fn parse(rules: &str) -> Rules {
    let one = |text: &str| {
        let mut pieces = text.trim().splitn(2, ':');
        let key = pieces.next().expect("a key");
        let (pattern, action) = pieces.next().expect("a pattern").rsplit_once(':').expect("an action");
        rule(key, pattern, verdict(action))
    };
    Rules(rules.split(',').filter(|text| !text.trim().is_empty()).map(one).collect())
}

fn verdict(word: &str) -> Verdict {
    serde_json::from_value(Value::String(word.into())).expect("a verdict")
}

fn config(value: Value) -> Rules {
    Rules::from_config(&value, "/home/me", "").expect("a permission")
}

#[test]
fn vectors_1_to_10_wildcards() {
    let rows = [
        (1, "file1.txt", "file?.txt", true),
        (2, "file12.txt", "file?.txt", false),
        (3, "foo+bar", "foo+bar", true),
        (4, "ls", "ls *", true),
        (5, "ls -la", "ls *", true),
        (6, "lstmeval", "ls *", false),
        (7, "lstmeval", "ls*", true),
        (8, "git", "git *", true),
        (9, r"C:\Windows\System32\*", "C:/Windows/System32/*", true),
        (10, "/users/test/file", "/Users/test/*", false),
        // Ours: the whole input, any letter, newlines too.
        (101, "foo+bar!", "foo+bar", false),
        (102, "a\nb", "a*b", true),
        (103, "é", "?", true),
        (104, "", "*", true),
        (105, "", "?", false),
        (106, "git  ", "git *", true),
        (107, "a.c", "a?c*", true),
        (108, "abc", "a.c", false),
    ];
    for (number, input, pattern, expected) in rows {
        assert_eq!(wildcard(input, pattern), expected, "vector {number}: {input:?} against {pattern:?}");
    }
}

#[test]
fn vectors_11_to_15_from_config() {
    let rows = [
        (11, json!({"bash": "allow"}), "bash:*:allow"),
        (12, json!({"bash": {"*": "allow", "rm": "deny"}}), "bash:*:allow, bash:rm:deny"),
        (13, json!({"external_directory": {"~/projects/*": "allow"}}), "external_directory:/home/me/projects/*:allow"),
        (13, json!({"external_directory": {"$HOME/projects/*": "allow"}}), "external_directory:/home/me/projects/*:allow"),
        (14, json!({"external_directory": {"/some/~/path": "allow"}}), "external_directory:/some/~/path:allow"),
        (15, json!({"*": "deny", "bash": "allow"}), "*:*:deny, bash:*:allow"),
        (15, json!({"bash": "allow", "*": "deny"}), "bash:*:allow, *:*:deny"),
        (111, json!("ask"), "*:*:ask"),
        (112, json!({"edit": {"~": "deny", "~x": "deny", "$HOMER": "deny"}}), "edit:/home/me:deny, edit:~x:deny, edit:$HOMER:deny"),
    ];
    for (number, value, expected) in rows {
        assert_eq!(config(value), parse(expected), "vector {number}");
    }
    let first = config(json!({"*": "deny", "bash": "allow"})).judge(&Touch::new("bash", "ls")).verdict;
    let second = config(json!({"bash": "allow", "*": "deny"})).judge(&Touch::new("bash", "ls")).verdict;
    assert_eq!((first, second), (Verdict::Allow, Verdict::Deny), "vector 15");
    for bad in [json!({"bash": "perhaps"}), json!({"bash": {"*": 1}}), json!(7), json!(["allow"]), json!("yes")] {
        assert!(Rules::from_config(&bad, "/", "").is_err(), "{bad} is no permission");
    }
}

#[test]
fn vectors_16_to_24_verdicts() {
    let rows = [
        (16, "", "bash", "rm", "ask"),
        (17, "bash:*:allow, bash:rm:deny", "bash", "rm", "deny"),
        (18, "bash:rm:deny, bash:*:allow", "bash", "rm", "allow"),
        (19, "edit:src/*:deny, edit:src/components/*:allow", "edit", "src/components/Button.tsx", "allow"),
        (19, "edit:src/components/*:allow, edit:src/*:deny", "edit", "src/components/Button.tsx", "deny"),
        (20, "edit:src/*:allow", "edit", "etc/passwd", "ask"),
        (21, "*:*:ask, mcp_*:*:allow, mcp_dangerous:*:deny", "mcp_dangerous", "x", "deny"),
        (22, "bash:*:allow, *:*:deny", "bash", "rm", "deny"),
        (23, "*:rm:deny", "bash", "rm", "deny"),
    ];
    for (number, rules, key, pattern, expected) in rows {
        assert_eq!(parse(rules).judge(&Touch::new(key, pattern)).verdict, verdict(expected), "vector {number}: {rules}");
    }
    let both = parse("bash:*:allow").then(parse("bash:rm:deny"));
    assert_eq!(both.judge(&Touch::new("bash", "rm")).verdict, Verdict::Deny, "vector 24");
}

#[test]
fn vectors_30_to_37_disabled_tools() {
    let rows = [
        (30, "*:*:allow, edit:*:deny", "edit write apply_patch multi_edit", "bash"),
        (31, "bash:*:allow, bash:rm *:deny", "", "bash"),
        (32, "bash:*:deny, bash:echo *:allow", "", "bash"),
        (33, "bash:rm *:deny, bash:*:allow", "", "bash"),
        (34, "*:*:ask", "", "bash edit read task"),
        (35, "*:*:deny, bash:*:allow", "edit read", "bash"),
        (36, "task:orchestrator-*:allow, task:*:deny", "task", ""),
        (37, "task:orchestrator-*:deny, task:general:deny", "", "task"),
    ];
    for (number, rules, disabled, enabled) in rows {
        let rules = parse(rules);
        let off = |tool: &str| rules.disables(key_of(tool));
        assert!(disabled.split_whitespace().all(off), "vector {number}: {disabled} is disabled");
        assert!(!enabled.split_whitespace().any(off), "vector {number}: {enabled} is enabled");
    }
}

#[test]
fn the_strictest_of_todays_rules_and_every_ceiling_counts() {
    let rows = [
        ("*:*:allow", "", "", "allow"),
        ("*:*:allow", "*:*:deny", "", "deny"),
        ("*:*:allow", "*:*:ask", "", "ask"),
        ("*:*:allow", "*:*:ask", "*:*:deny", "deny"),
        ("*:*:allow", "*:*:deny", "*:*:ask", "deny"),
        // A ceiling's allow lifts nothing.
        ("*:*:deny", "*:*:allow", "*:*:allow", "deny"),
        ("*:*:ask", "*:*:allow", "", "ask"),
        // A ceiling is judged whole: its own later allow wins inside it.
        ("*:*:allow", "edit:*:deny, edit:src/*:allow", "", "allow"),
        ("*:*:allow", "edit:src/*:allow, edit:*:deny", "", "deny"),
        // A ceiling that says nothing of this asks.
        ("*:*:allow", "bash:*:allow", "", "ask"),
    ];
    for (today, first, second, expected) in rows {
        let ceiling: Vec<Rules> = [first, second].iter().filter(|rules| !rules.is_empty()).map(|rules| parse(rules)).collect();
        let found = judge("edit", &[Touch::new("edit", "src/a.rs")], None, &parse(today), &ceiling.iter().collect::<Vec<_>>()).decision;
        assert_eq!(found.verdict, verdict(expected), "{today} under {first} and {second}");
    }
}

#[test]
fn the_strictest_touch_counts_and_is_named() {
    let rules = parse("*:*:allow, bash:curl *:ask, bash:rm *:deny");
    let touches = [Touch::new("bash", "ls"), Touch::new("bash", "curl x"), Touch::new("bash", "rm x"), Touch::new("bash", "ls")];
    let expected = Decision { rule: Some("bash(rm *)".into()), ..Decision::of(Verdict::Deny, Some(touches[2].clone())) };
    assert_eq!(judge("bash", &touches, None, &rules, &[]).decision, expected);
    // Vector 40: a deny wins over an earlier ask.
    assert_eq!(judge("bash", &touches[1..3], None, &rules, &[]).decision.verdict, Verdict::Deny);
    assert_eq!(judge("bash", &touches[..2], None, &rules, &[]).decision.verdict, Verdict::Ask);
}

#[test]
fn a_call_that_touches_nothing_is_judged_by_its_name() {
    let rows = [("", "ask"), ("bare:*:deny", "deny"), ("bash:*:allow", "ask"), ("*:*:allow", "allow"), ("bare:x:allow", "ask")];
    for (rules, expected) in rows {
        assert_eq!(judge("bare", &[], None, &parse(rules), &[]).decision.verdict, verdict(expected), "{rules}");
    }
    assert_eq!(
        judge("bare", &[], None, &parse("*:*:allow"), &[&parse("")]).decision.verdict,
        Verdict::Ask,
        "an empty ceiling allows nothing"
    );
    assert_eq!(judge("write", &[], None, &parse("*:*:allow, edit:*:deny"), &[]).decision.verdict, Verdict::Deny, "write is judged as edit");
}

/// A session whose third rule asks about `ask`, and which was granted `ask=x` for the session.
fn granted() -> Play {
    Play::of("say; step; reply +ask=x; yes session; start; finish ok; step")
}

#[test]
fn a_grant_lifts_an_ask_of_the_same_thing() {
    let mut play = granted();
    play.run("reply +ask=x");
    assert_eq!(play.last_facts(), "replied 1, called c2 allow");
}

#[test]
fn a_grant_says_nothing_of_other_things() {
    let mut play = granted();
    play.run("reply +ask=y");
    assert_eq!(play.last_facts(), "replied 1, called c2 ask, asked c2 ask");
    let mut once = Play::of("say; step; reply +ask=x; yes once; start; finish ok; step; reply +ask=x");
    assert_eq!(once.last_facts(), "replied 1, called c2 ask, asked c2 ask");
    once.run("no");
    assert_eq!(once.last_facts(), "answered c2 no by user, c2 denied");
}

#[test]
fn a_grant_never_beats_a_deny() {
    let mut play = granted();
    play.rules.0.push(rule("ask", "x", Verdict::Deny));
    play.run("reply +ask=x");
    assert_eq!(play.last_facts(), "replied 1, called c2 deny, c2 denied");
}

#[test]
fn a_grant_lifts_a_ceilings_ask_and_not_its_deny() {
    for (ceiling, expected) in [("*:*:ask", "replied 1, called c2 allow"), ("*:*:deny", "replied 1, called c2 deny, c2 denied")] {
        let mut play = granted();
        let mut log = play.log.clone();
        log[0].event = common::created(posse_session::Kind::Task, "ses_0", None, vec![parse(ceiling)]);
        play.session = Session::fold(play.session.id().clone(), &log);
        play.log = log;
        play.run("reply +ask=x");
        assert_eq!(play.last_facts(), expected, "{ceiling}");
    }
}

#[test]
fn what_was_granted_is_a_thing_and_no_pattern() {
    // The command really was `rm *`: the person allowed that command, not every `rm`.
    let mut play = Play::of("say; step; reply +ask=rm*; yes session; start; finish ok; step");
    play.run("reply +ask=rm-rf");
    assert_eq!(play.last_facts(), "replied 1, called c2 ask, asked c2 ask");
    // A call that touches nothing is granted as such, not for every touch of its tool.
    let mut play = Play::new();
    play.rules.0.push(rule("bare", "*", Verdict::Ask));
    play.run("say; step; reply +bare; yes session; start; finish ok; step; reply +bare");
    assert_eq!(play.last_facts(), "replied 1, called c2 allow");
    let touches = vec![Touch::new("bare", "/etc/passwd")];
    play.run("start; finish ok; step");
    let mut wanted = common::wanted("c9", "bare", "{}");
    wanted.look = Ok(posse_session::Look { touches, ..Default::default() });
    let reply = posse_session::Report::Reply {
        step: 2,
        parts: Vec::new(),
        calls: vec![wanted],
        usage: Default::default(),
        finish: posse_session::Finish::Calls,
    };
    play.decide(Command::Report(reply));
    assert_eq!(play.last_facts(), "replied 1, called c9 ask, asked c9 bare");
}

#[test]
fn pathological_patterns_are_fast() {
    let input = "a".repeat(20_000);
    let started = Instant::now();
    for pattern in ["*a".repeat(50) + "b", "a*".repeat(50) + "b", "*".repeat(500) + "b", "*a*a*a*a*a*a*a*a*b *".into()] {
        assert!(!wildcard(&input, &pattern));
    }
    assert!(wildcard(&input, &"*a".repeat(5_000)));
    assert!(started.elapsed() < Duration::from_secs(2), "took {:?}", started.elapsed());
}
