//! The delegation tool as a model sees it: who is listed, in how many words, and what a wrong name is answered with.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use common::Office;
use posse_session::Tool;
use posse_tools::{Callable, Delegation, Dialect, Standing};
use serde_json::json;

fn agents(count: usize, description: &str) -> Vec<Callable> {
    let agent = |number| Callable {
        name: format!("agent-{number:04}"),
        description: Some(description.to_owned()),
        aliases: Vec::new(),
        standing: Standing::Listed,
    };
    (0..count).map(agent).collect()
}

fn described(agents: impl IntoIterator<Item = Callable>) -> String {
    Delegation::new(Dialect::Posse, agents).spec().description.clone()
}

#[test]
fn the_list_of_agents_has_a_bound_and_descriptions_give_way_first() {
    // How many agents, how long each describes itself, what the line of the first is, how many are left out.
    let long = "word ".repeat(125);
    let words = |letters: usize| long.chars().take(letters).collect::<String>().trim_end().to_owned();
    let rows = [
        (3, format!("- agent-0000: {}…\n", words(600)), 0),
        (40, format!("- agent-0000: {}…\n", words(300)), 0),
        (80, format!("- agent-0000: {}…\n", words(160)), 0),
        (150, format!("- agent-0000: {}…\n", words(80)), 0),
        (800, "- agent-0000\n".to_owned(), 0),
        (3_000, "- agent-0000\n".to_owned(), 1_740),
    ];
    for (count, first, left_out) in rows {
        let text = described(agents(count, &long));
        assert!(text.contains(&first), "{count}: {}", &text[..600]);
        assert_eq!(text.matches("- agent-").count(), count - left_out, "{count}");
        let note = format!("({left_out} more are not listed here; each can be called by its name)");
        assert_eq!(text.contains(&note), 0 < left_out, "{count}");
        assert!(text.len() < 20 * 1024, "{count}: {} bytes", text.len());
        let reversed = agents(count, &long).into_iter().rev();
        assert_eq!(text, described(reversed), "{count}: the same agents, the same bytes");
    }
    assert!(described(agents(1, "  two\n words ")).contains("- agent-0000: two words\n"));
    assert!(described(agents(1, " ")).contains("- agent-0000: Manual only\n"));
}

#[test]
fn a_wrong_name_is_answered_with_some_names_and_one_that_is_not_listed_can_be_called() {
    let tool = Delegation::new(Dialect::Posse, agents(3_000, "d"));
    let office = Office::new();
    let look = |name: &str| {
        tool.look(&json!({"description": "d", "prompt": "p", "subagent_type": name}), &*office.context.workspace)
            .map(|look| look.touches[0].pattern.clone())
    };
    assert_eq!(look("Agent 2999"), Ok("agent-2999".to_owned()));
    let words = look("nobody").unwrap_err();
    assert!(words.starts_with("There is no agent named `nobody`. Agents you can call: agent-0000, "), "{words}");
    assert!(words.ends_with("agent-0029, and 2970 more."), "{words}");
}
