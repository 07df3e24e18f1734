//! Any text as a shell line: the judge must not panic, hang or run out of stack, and an ask must say what it asks for.
#![no_main]

use std::{path::PathBuf, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use posse_session::{Rule, Rules, Verdict};
use posse_tools::{Surroundings, judge_shell};

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let rule = |(pattern, action): (&str, Verdict)| Rule { key: "bash".into(), pattern: pattern.into(), action, origin: String::new() };
    Rules([("*", Verdict::Allow), ("rm *", Verdict::Deny), ("git push*", Verdict::Ask)].map(rule).to_vec())
});

static SURROUNDINGS: LazyLock<Surroundings> = LazyLock::new(|| {
    let root = PathBuf::from("/work/project");
    Surroundings { root: root.clone(), cwd: root, home: PathBuf::from("/home/someone") }
});

fuzz_target!(|line: &str| {
    let found = judge_shell(line, &RULES, &SURROUNDINGS);
    assert_eq!(found.verdict == Verdict::Ask, !found.asking.is_empty());
    // What a comment or an argument adds after a denied command does not lift the deny.
    let denied = judge_shell(&format!("rm x\n{line}"), &RULES, &SURROUNDINGS);
    assert_ne!(denied.verdict, Verdict::Allow, "{}", denied.why);
});
