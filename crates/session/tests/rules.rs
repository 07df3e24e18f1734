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
        misshapen: None,
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

/// A reply with one call that touches all of this.
fn call_touching(play: &mut Play, call: &str, touches: Vec<Touch>) {
    let mut wanted = common::wanted(call, "touch", call);
    wanted.look = Ok(posse_session::Look { touches, ..Default::default() });
    let step = play.session.step().expect("a step").step;
    let (calls, finish) = (vec![wanted], posse_session::Finish::Calls);
    play.decide(Command::Report(posse_session::Report::Reply {
        step,
        parts: Vec::new(),
        calls,
        usage: Default::default(),
        finish,
        misshapen: None,
    }));
}

fn asked_decision(play: &Play) -> Decision {
    let asked = play.log.iter().rev().find_map(|record| match &record.event {
        posse_session::Event::Asked { decision, .. } => Some(decision.clone()),
        _ => None,
    });
    asked.expect("an ask")
}

#[test]
fn an_ask_speaks_of_what_fewest_may_answer() {
    let mut play = Play::of("say; step");
    play.rules = parse("*:*:allow, edit:*:ask, external_directory:*:ask");
    let touches = ["edit", "external_directory", "protected"].map(|key| Touch::new(key, "x")).to_vec();
    call_touching(&mut play, "c1", touches);
    let decision = asked_decision(&play);
    assert_eq!(decision.touch.map(|touch| touch.key).as_deref(), Some("protected"));
    assert_eq!(decision.offers.iter().map(|offer| offer.key.as_str()).collect::<Vec<_>>(), ["protected", "external_directory", "edit"]);
    let mut play = Play::of("say; step; mode accept");
    play.rules = parse("*:*:allow, edit:*:ask, external_directory:*:ask");
    call_touching(&mut play, "c1", vec![Touch::new("edit", "x"), Touch::new("external_directory", "/y/*")]);
    let decision = asked_decision(&play);
    assert_eq!(
        (decision.touch.map(|touch| touch.key), decision.rule.as_deref()),
        (Some("external_directory".into()), Some("external_directory(*)"))
    );
    assert_eq!(play.session.open_asks().count(), 1, "the mode answers edits, not folders");
}

/// What a person is shown is cut; what was cut was not allowed.
#[test]
fn a_wider_yes_settles_only_what_it_covers_whole() {
    let many = |count: usize| (0..count).map(|number| Touch::new("ask", format!("tool{number} x"))).collect::<Vec<_>>();
    let mut play = Play::of("say; step");
    let first = posse_session::Look { touches: many(8), ..Default::default() };
    let second = posse_session::Look { touches: many(9), ..Default::default() };
    let calls =
        [("c1", first), ("c2", second)].map(|(call, look)| posse_session::Wanted { look: Ok(look), ..common::wanted(call, "ask", call) });
    let finish = posse_session::Finish::Calls;
    play.decide(Command::Report(posse_session::Report::Reply {
        step: 0,
        parts: Vec::new(),
        calls: calls.to_vec(),
        usage: Default::default(),
        finish,
        misshapen: None,
    }));
    play.run("yes session");
    assert_eq!(play.last_facts(), "answered c1 yes by user");
    // Names that do not fit are not remembered by their beginning.
    let long = |end: &str| vec![Touch::new("ask", format!("{}{end}", "a".repeat(600)))];
    let mut play = Play::of("say; step");
    call_touching(&mut play, "c1", long("1"));
    assert!(asked_decision(&play).more && asked_decision(&play).offers.is_empty());
    play.run("yes session; start; finish ok; step");
    call_touching(&mut play, "c2", long("2"));
    assert_eq!(play.last_facts(), "replied 1, called c2 ask, asked c2 ask");
}

/// What a person allowed in another session of the tree settles an open ask that it covers whole, and no other.
#[test]
fn an_answer_elsewhere_settles_the_asks_that_it_covers() {
    let rows: [(&[&str], &str, &str); 4] =
        [(&["x"], "x", "answered c1 yes by kernel"), (&["x"], "y", ""), (&["x", "y"], "x", ""), (&["x"], "", "")];
    for (touched, granted, expected) in rows {
        let mut play = Play::of("say; step");
        call_touching(&mut play, "c1", touched.iter().map(|pattern| Touch::new("ask", *pattern)).collect());
        let grant = posse_session::Grant { key: "ask".into(), pattern: granted.into(), exact: true };
        play.grants =
            vec![posse_session::Granted { grant, ask: posse_session::AskId::new("ask_other"), scope: posse_session::Scope::Tree }];
        play.decide(Command::Covered);
        assert_eq!(play.last_facts(), expected, "{touched:?} after a yes to {granted:?}");
    }
}

/// The rules of whoever goes on count, in both directions; a person's yes stands against an ask, never against a deny.
#[test]
fn a_new_owner_judges_again() {
    let rows = [
        ("reply +ask", "*:*:allow", "answered c1 yes by policy"),
        ("reply +ask", "ask:*:deny", "c1 denied"),
        ("reply +ask", "ask:*:ask", ""),
        ("reply +ask; yes once", "ask:*:ask", ""),
        ("reply +ask; yes once", "ask:*:deny", "c1 denied"),
        ("reply +touch", "touch:*:ask", "asked c1 touch"),
        ("reply +touch", "touch:*:deny", "c1 denied"),
        ("mode bypass; reply +ask", "ask:*:ask", "asked c1 ask, answered c1 yes by policy"),
        ("reply +touch; start", "touch:*:deny", ""),
    ];
    for (script, today, expected) in rows {
        let mut play = Play::of(&format!("say; step; {script}"));
        play.rules = parse(today);
        let open = &play.session.calls()[0];
        let look = posse_session::Look { touches: vec![Touch::new(open.tool.clone(), "x")], ..Default::default() };
        let looks = vec![(open.call.clone(), look)];
        play.decide(Command::Rejudge { looks });
        assert_eq!(play.last_facts(), expected, "{script} under {today}");
    }
}

#[test]
fn odd_characters_do_not_make_an_event_too_large() {
    let mut play = Play::of("say; step");
    let touches = (0..12).map(|number| Touch::new("ask", format!("{number}{}", "\u{1}\"\\".repeat(300)))).collect();
    call_touching(&mut play, "c1", touches);
    for event in &play.facts {
        let bytes = serde_json::to_string(event).expect("json").len();
        assert!(bytes <= posse_session::EVENT_BYTES_MAX, "{} has {bytes} bytes", event.name());
    }
}

/// Looking at a running command again is no loop.
#[test]
fn a_poll_may_be_repeated() {
    for (polls, expected) in [(false, "replied 1, called c4 ask, asked c4 doom_loop"), (true, "replied 1, called c4 allow")] {
        let mut play =
            Play::of("say; step; reply +touch=x; start; finish ok; step; reply +touch=x; start; finish ok; step; reply +touch=x; no; step");
        let look = posse_session::Look { touches: vec![Touch::new("touch", "x")], polls, ..Default::default() };
        let calls = vec![posse_session::Wanted { look: Ok(look), ..common::wanted("c4", "touch", "x") }];
        let (step, finish) = (play.session.step().expect("a step").step, posse_session::Finish::Calls);
        play.decide(Command::Report(posse_session::Report::Reply {
            step,
            parts: Vec::new(),
            calls,
            usage: Default::default(),
            finish,
            misshapen: None,
        }));
        assert_eq!(play.last_facts(), expected);
    }
}

/// Names of agents and skills are matched however they are spelled: no spelling gets around a deny, and none misses an allow.
#[test]
fn agents_and_skills_are_matched_however_they_are_spelled() {
    use Verdict::{Allow, Deny};
    let verdict = |key: &str, name: &str, pattern: &str, action: Verdict| {
        let other = if action == Deny { Allow } else { Deny };
        let rules = Rules(vec![rule(key, "*", other), rule(key, pattern, action)]);
        rules.judge(&Touch::new(key, name)).verdict
    };
    for (key, name, pattern) in [
        ("task", "explore", "Explore"),
        ("task", "code-reviewer", "code_reviewer"),
        ("task", "code-reviewer", "Code Reviewer"),
        ("task", "code-reviewer", "Code*"),
        ("task", "general", "general-purpose"),
        ("task", "general", "General Purpose"),
        ("skill", "pdf", "PDF"),
        ("skill", "kit:pdf-forms", "kit:*"),
    ] {
        assert_eq!(verdict(key, name, pattern, Deny), Deny, "{key} {name} {pattern}");
        assert_eq!(verdict(key, name, pattern, Allow), Allow, "{key} {name} {pattern}");
    }
    assert_eq!(verdict("edit", "a-b", "A_B", Deny), Allow, "files are spelled as they are");
}
