//! `@name` in a prompt: a file, an agent or words; which prompts are an agent's; and which lines are commands.

use std::fs;

use crate::{Line, Mentioned, existing, leading_agent, lines, mentioned, mentions, testing::World};

const FILES: [&str; 8] = ["src/main.rs", "src", "a b.rs", "~/notes.md", "what?", "explore-notes", "both", "node_modules/@types/x.d.ts"];

fn exists(path: &str) -> bool {
    FILES.contains(&path)
}

fn agent(name: &str) -> Option<String> {
    ["explore", "team/reviewer", "both"].into_iter().find(|known| known.eq_ignore_ascii_case(name)).map(str::to_owned)
}

/// `file src/main.rs 10-20`, `agent explore`, with the text that stands for it.
fn found(text: &str) -> Vec<String> {
    let named = |mention: &crate::Mention| {
        let written = &text[mention.at..mention.at + mention.len];
        match &mention.what {
            Mentioned::File { path, lines: None } => format!("{written} = file {path}"),
            Mentioned::File { path, lines: Some((first, last)) } => format!("{written} = file {path} {first}-{last}"),
            Mentioned::Agent { name } => format!("{written} = agent {name}"),
        }
    };
    mentions(text, &exists, &agent).iter().map(named).collect()
}

#[test]
fn a_name_is_a_file_else_an_agent_else_words() {
    let table: [(&str, &[&str]); 26] = [
        ("look at @src/main.rs", &["@src/main.rs = file src/main.rs"]),
        ("@src/main.rs, @src and @nothing", &["@src/main.rs = file src/main.rs", "@src = file src"]),
        ("read @src/main.rs.", &["@src/main.rs = file src/main.rs"]),
        ("(see @src/main.rs)", &["@src/main.rs = file src/main.rs"]),
        ("is it @src/main.rs?!", &["@src/main.rs = file src/main.rs"]),
        ("is it @what?", &["@what? = file what?"]),
        ("is it @what?)", &["@what? = file what?"]),
        ("@src/main.rs#10-20", &["@src/main.rs#10-20 = file src/main.rs 10-20"]),
        ("@src/main.rs#L10-L20.", &["@src/main.rs#L10-L20 = file src/main.rs 10-20"]),
        ("@src/main.rs#7", &["@src/main.rs#7 = file src/main.rs 7-7"]),
        ("@src/main.rs#20-10 @src/main.rs#0", &[]),
        ("@nothing#10-20", &[]),
        ("@~/notes.md", &["@~/notes.md = file ~/notes.md"]),
        ("@\"a b.rs\" now", &["@\"a b.rs\" = file a b.rs"]),
        ("@a b.rs", &[]),
        ("ask @explore to look", &["@explore = agent explore"]),
        ("ask @Explore, please", &["@Explore = agent explore"]),
        ("ask @team/reviewer.", &["@team/reviewer = agent team/reviewer"]),
        ("@both is a file first", &["@both = file both"]),
        // Each once.
        ("@explore and @EXPLORE and @src and @src", &["@explore = agent explore", "@src = file src"]),
        // Not a name.
        ("me@src and x_@src", &[]),
        ("`@src` and `@explore`", &[]),
        ("@ src @, @`src`", &[]),
        ("żółw@explore", &[]),
        ("import @node_modules/@types/x.d.ts", &["@node_modules/@types/x.d.ts = file node_modules/@types/x.d.ts"]),
        ("@scope/package @param", &[]),
    ];
    for (text, expected) in table {
        assert_eq!(found(text), expected, "{text}");
    }
    assert_eq!(found(&"@".repeat(100_000)), [""; 0]);
    assert_eq!(found(&format!("@{}", "x".repeat(100_000))), [""; 0]);
    assert_eq!(mentioned("src/main.rs#3", &exists, &agent), Some(Mentioned::File { path: "src/main.rs".to_owned(), lines: Some((3, 3)) }));
    assert_eq!(mentioned("explore", &exists, &agent), Some(Mentioned::Agent { name: "explore".to_owned() }));
}

#[test]
fn a_prompt_that_starts_with_an_agent_is_that_agents() {
    let table = [
        ("@explore find the tests", Some(("explore", "find the tests"))),
        ("  @Explore\nfind\nthe tests\n", Some(("explore", "find\nthe tests"))),
        ("@team/reviewer look", Some(("team/reviewer", "look"))),
        ("@explore", None),
        ("@explore   ", None),
        ("@explore, find", None),
        ("ask @explore to find", None),
        ("@src look", None),
        ("@both look", None),
        ("@nobody look", None),
        ("", None),
    ];
    for (text, expected) in table {
        let expected = expected.map(|(name, rest)| (name.to_owned(), rest.to_owned()));
        assert_eq!(leading_agent(text, &exists, &agent), expected, "{text:?}");
    }
}

#[test]
fn files_are_looked_for_where_the_user_stands_then_in_the_project_and_at_home() {
    let world = World::new().file("proj/top.md", "").file("proj/sub/here.md", "").file("home/n.md", "").at("proj/sub");
    let places = world.places();
    let table = [
        ("here.md", Some("proj/sub/here.md")),
        ("top.md", Some("proj/top.md")),
        ("../top.md", Some("proj/top.md")),
        ("sub", Some("proj/sub")),
        ("~/n.md", Some("home/n.md")),
        ("n.md", None),
        ("", None),
    ];
    for (path, expected) in table {
        assert_eq!(existing(&places, path), expected.map(|path| world.path(path)), "{path}");
    }
    fs::remove_file(world.path("proj/top.md")).unwrap();
    assert_eq!(existing(&places, "top.md"), None);
}

#[test]
fn a_line_that_begins_with_a_slash_and_a_name_is_a_command() {
    let command = |name: &str, arguments: &str| Line::Command { name: name.to_owned(), arguments: arguments.to_owned() };
    let text = |text: &str| Line::Text(text.to_owned());
    let table = [
        ("/review", vec![command("review", "")]),
        ("/review src/app.ts  now ", vec![command("review", "src/app.ts  now")]),
        ("/a:b-c_d x", vec![command("a:b-c_d", "x")]),
        ("/review\r\n", vec![command("review", "")]),
        ("/one a\n/two b", vec![command("one", "a"), command("two", "b")]),
        ("first\nlines\n\n/one a\n\nbetween\n/two", vec![text("first\nlines"), command("one", "a"), text("between"), command("two", "")]),
        ("/one\n\n\n/two\n   ", vec![command("one", ""), command("two", "")]),
        // Anything else is text, as typed.
        ("  spaced \n\n text\n", vec![text("  spaced \n\n text\n")]),
        ("", vec![text("")]),
        ("/etc/passwd is a file", vec![text("/etc/passwd is a file")]),
        ("/ review", vec![text("/ review")]),
        ("/1st", vec![text("/1st")]),
        ("/review, please", vec![text("/review, please")]),
        ("/review\tx", vec![text("/review\tx")]),
        (" /review", vec![text(" /review")]),
        ("see /review", vec![text("see /review")]),
        ("/żółw", vec![text("/żółw")]),
        ("/dół w", vec![command("dół", "w")]),
        ("/2 of it", vec![text("/2 of it")]),
    ];
    for (prompt, expected) in table {
        assert_eq!(lines(prompt), expected, "{prompt:?}");
    }
}
