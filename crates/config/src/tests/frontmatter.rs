//! Heads as people really write them: every shape of frontmatter-in-the-wild.md loads, and what was guessed is told with
//! its line; hostile heads neither hang nor overflow.

use std::{fmt::Write as _, time::Instant};

use crate::frontmatter::{Document, document};

const KEYS: [&str; 9] = ["name", "description", "tools", "model", "color", "argument_hint", "allowed_tools", "permission", "mode"];

fn read(text: &str) -> Document {
    document(text, &"f.md".into(), &KEYS)
}

/// The whole of a document in a few lines: `line key = json`, the body with its line, and what was tolerated.
fn told(text: &str) -> String {
    let read = read(text);
    let mut told = String::new();
    for entry in read.fields.entries() {
        writeln!(told, "{} {} = {}", entry.origin.line, entry.name, entry.node.to_json()).unwrap();
    }
    writeln!(told, "{} body {:?}", read.body_line, read.body).unwrap();
    for problem in &read.tolerated {
        writeln!(told, "{problem}").unwrap();
    }
    told
}

/// Heads that are not quite heads, which were read as prompts; and a second one, which is text.
#[test]
fn heads_with_unusual_dashes_are_heads() {
    let unusual = "lines of dashes that are not `---` alone; what is between them is read as the head";
    let before = "f.md:1: text before the first `---` (line 2); it is read as the beginning of the text\n";
    let table = [
        ("----\nname: a\n----\nx", format!("2 name = \"a\"\n4 body \"x\"\nf.md:1: {unusual}\n")),
        ("---yaml\nname: a\n---\nx", format!("2 name = \"a\"\n4 body \"x\"\nf.md:1: {unusual}\n")),
        ("  ---\n  name: a\n  ---\nx", format!("2 name = \"a\"\n4 body \"x\"\nf.md:1: {unusual}\n")),
        ("W\n---\n# c\nname: a\n---\nx", format!("4 name = \"a\"\n1 body \"W\\n\\nx\"\n{before}")),
        ("W\n---\ntitle: t\nname: a\n---\nx", format!("3 title = \"t\"\n4 name = \"a\"\n1 body \"W\\n\\nx\"\n{before}")),
        ("W\n---\nNote: t\n---\nx", "1 body \"W\\n---\\nNote: t\\n---\\nx\"\n".to_owned()),
        ("----\nwords\n----\n", "1 body \"----\\nwords\\n----\"\n".to_owned()),
        (
            "---\nname: a\n---\n\n---\nmodel: b\n---\nx",
            "2 name = \"a\"\n5 body \"---\\nmodel: b\\n---\\nx\"\nf.md:5: a second head; it is read as the beginning of the text\n".to_owned(),
        ),
        (
            "---\nname: a\nname: b\n---\n",
            "2 name = \"a\\nname: b\"\n5 body \"\"\nf.md:3: the head is not valid YAML (a key is written twice); it is read key by key\nf.md:2: name: read as plain text up to line 3\n".to_owned(),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(told(text), expected, "{text:?}");
    }
}

#[test]
fn a_good_head_is_read_as_yaml_and_nothing_is_tolerated() {
    let table = [
        ("---\nname: a\ndescription: b\n---\nDo it.\n", "2 name = \"a\"\n3 description = \"b\"\n5 body \"Do it.\"\n"),
        ("---\r\nname: a\r\n---\r\n\r\nOne\r\ntwo", "2 name = \"a\"\n5 body \"One\\ntwo\"\n"),
        ("\u{feff}---\nname: a\n---\nx", "2 name = \"a\"\n4 body \"x\"\n"),
        ("---   \nname: a\n---  \nx", "2 name = \"a\"\n4 body \"x\"\n"),
        ("---\n---\nx", "3 body \"x\"\n"),
        ("---\n# words\nname: a\n...\nx", "3 name = \"a\"\n5 body \"x\"\n"),
        ("", "1 body \"\"\n"),
        ("Just words.\nMore.\n", "1 body \"Just words.\\nMore.\"\n"),
        ("# Title\n\n---\n\nwords\n\n---\n", "1 body \"# Title\\n\\n---\\n\\nwords\\n\\n---\"\n"),
        ("---\nmodel: x\n---\n", "2 model = \"x\"\n4 body \"\"\n"),
        ("---\nname: a\n---", "2 name = \"a\"\n4 body \"\"\n"),
        ("---\ntools:\n  - Read\n  - Bash\n---\n", "2 tools = [\"Read\",\"Bash\"]\n6 body \"\"\n"),
        (
            "---\ncolor: '#ff00aa'\nsteps: 5\nhidden: true\ntop: 0.5\n---\n",
            "2 color = \"#ff00aa\"\n3 steps = 5\n4 hidden = true\n5 top = 0.5\n7 body \"\"\n",
        ),
        (
            "---\npermission:\n  edit: deny\n  bash:\n    \"*\": ask\n    git*: allow\n---\n",
            "2 permission = {\"edit\":\"deny\",\"bash\":{\"*\":\"ask\",\"git*\":\"allow\"}}\n8 body \"\"\n",
        ),
        ("---\ndescription: >\n  one\n  two\nname: on\n---\n", "2 description = \"one two\\n\"\n5 name = \"on\"\n7 body \"\"\n"),
        ("---\n🚀: go\nargument-hint: [a, b]\nx:\n---\n", "2 🚀 = \"go\"\n3 argument-hint = [\"a\",\"b\"]\n4 x = null\n6 body \"\"\n"),
        ("---\n{name: a, b: [c]}\n---\nx", "2 name = \"a\"\n2 b = [\"c\"]\n4 body \"x\"\n"),
        ("---\n  name: a\n  b: c\n---\nx", "2 name = \"a\"\n3 b = \"c\"\n5 body \"x\"\n"),
        ("---\na: &x [1]\nb: *x\n---\n", "2 a = [1]\n3 b = [1]\n5 body \"\"\n"),
    ];
    for (text, expected) in table {
        assert_eq!(told(text), expected, "{text:?}");
    }
}

#[test]
fn every_broken_shape_of_the_wild_loads_and_says_so() {
    let table = [
        // An unquoted `: ` in a description of one line.
        (
            "---\nname: groom\ndescription: Keeps it. Triggers on: 'groom backlog'\ntools: Read\n---\nGo.",
            "2 name = \"groom\"\n3 description = \"Keeps it. Triggers on: 'groom backlog'\"\n4 tools = \"Read\"\n6 body \"Go.\"",
            &["f.md:3: the head is not valid YAML", "f.md:3: description: read as plain text"][..],
        ),
        // A description that goes on at column 0, with blank lines and words that look like keys.
        (
            "---\nname: a\ndescription: Use it.\n\n<example>\nContext: code\nuser: \"hi\"\nname: not this\n</example>\nmodel: opus\n---\nGo.",
            "2 name = \"a\"\n3 description = \"Use it.\\n\\n<example>\\nContext: code\\nuser: \\\"hi\\\"\\nname: not this\\n</example>\"\n10 model = \"opus\"\n12 body \"Go.\"",
            &["f.md:", "f.md:3: description: read as plain text up to line 9"],
        ),
        (
            "---\ndescription: Literal \\n<example>\\nContext: x\\n</example>\n---\n",
            "2 description = \"Literal \\\\n<example>\\\\nContext: x\\\\n</example>\"\n4 body \"\"",
            &["f.md:2: the head is not valid YAML", "f.md:2: description: read as plain text"],
        ),
        (
            "---\ntools: *\nname: a\n---\n",
            "2 tools = \"*\"\n3 name = \"a\"\n5 body \"\"",
            &["f.md:", "f.md:2: tools: read with `*` in quotes"],
        ),
        (
            "---\nargument-hint: [a] | [b]\ndescription: d\n---\n",
            "2 argument-hint = \"[a] | [b]\"\n3 description = \"d\"\n5 body \"\"",
            &["f.md:", "f.md:2: argument-hint: read as plain text"],
        ),
        (
            "---\nargument-hint: [a] text\n---\n",
            "2 argument-hint = \"[a] text\"\n4 body \"\"",
            &["f.md:", "f.md:2: argument-hint: read as plain text"],
        ),
        (
            "---\ndescription: @docs first\n---\n",
            "2 description = \"@docs first\"\n4 body \"\"",
            &["f.md:2: ", "f.md:2: description: read as plain text"],
        ),
        // What is good beside it is still read as YAML, nested too; keys that nobody documents stay.
        (
            "---\nname: a\nreasoningEffort: high\ndescription: a: b\npermission:\n  edit: deny\n---\n",
            "2 name = \"a\"\n3 reasoningEffort = \"high\"\n4 description = \"a: b\"\n5 permission = {\"edit\":\"deny\"}\n8 body \"\"",
            &["f.md:4: ", "f.md:4: description: read as plain text"],
        ),
        ("---\nname: a\nname: b\n---\n", "2 name = \"a\\nname: b\"\n5 body \"\"", &["f.md:3: ", "f.md:2: name: "]),
        (
            "---\ndescription: \"never closed\nname: a\n---\nGo.",
            "2 description = \"\\\"never closed\"\n3 name = \"a\"\n5 body \"Go.\"",
            &["f.md:", "f.md:2: "],
        ),
        ("---\ndescription: |\n a\n\tb\nname: x\n---\n", "2 description = \"a\\nb\"\n5 name = \"x\"\n7 body \"\"", &["f.md:", "f.md:2: "]),
        // Words that look like keys continue a description also where YAML would take them for keys.
        (
            "---\ndescription: Use it.\nContext: code\nuser: hi\nargument-hint: [a] | [b]\n---\n",
            "2 description = \"Use it.\\nContext: code\\nuser: hi\"\n5 argument-hint = \"[a] | [b]\"\n7 body \"\"",
            &["f.md:5: ", "f.md:2: description: read as plain text up to line 4", "f.md:5: argument-hint: read as plain text"],
        ),
        (
            "---\ndescription: a: b\nName: words\nModel: more\nmodel: opus\n---\n",
            "2 description = \"a: b\\nName: words\\nModel: more\"\n5 model = \"opus\"\n7 body \"\"",
            &["f.md:2: ", "f.md:2: description: read as plain text up to line 4"],
        ),
        // Around the head.
        (
            "Here it is:\n\n---\nname: a\n---\nGo.",
            "4 name = \"a\"\n1 body \"Here it is:\\n\\nGo.\"",
            &["f.md:1: text before the first `---` (line 3)"],
        ),
        ("\n\n---\nname: a\n---\nGo.", "4 name = \"a\"\n6 body \"Go.\"", &["f.md:1: blank lines before"]),
        (
            "---\nname: a\ndescription: b\n\nYou are it.\nNote: words\n",
            "2 name = \"a\"\n3 description = \"b\"\n5 body \"You are it.\\nNote: words\"",
            &["f.md:1: the head has no closing `---`; it is taken to end before line 4"],
        ),
        ("---\nJust words\n---\nmore", "1 body \"---\\nJust words\\n---\\nmore\"", &["f.md:1: begins with `---` but no key follows"]),
        (
            "---\n\"Quoted\" words.\n---\nmore",
            "1 body \"---\\n\\\"Quoted\\\" words.\\n---\\nmore\"",
            &["f.md:1: begins with `---` but no key follows"],
        ),
        (
            "---\n# only a comment\n---\nmore",
            "1 body \"---\\n# only a comment\\n---\\nmore\"",
            &["f.md:1: begins with `---` but no key follows"],
        ),
        ("---\nwords\n", "1 body \"---\\nwords\"", &["f.md:1: begins with `---` but no key follows"]),
        // A whole file that is one JSON object.
        (
            "{\n\"description\": \"d\",\n\"template\": \"Do $1\"\n}\n",
            "2 description = \"d\"\n3 body \"Do $1\"",
            &["f.md:1: the text is one JSON object"],
        ),
        (
            "---\nname: a\n---\n{\"name\": \"b\", \"prompt\": \"p\"}",
            "2 name = \"a\"\n4 body \"p\"",
            &["f.md:4: the text is one JSON object"],
        ),
        ("{\"a\": 1}", "1 body \"{\\\"a\\\": 1}\"", &[]),
        ("{{template}}", "1 body \"{{template}}\"", &[]),
    ];
    for (text, expected, tolerated) in table {
        let told = told(text);
        let (document, problems) = told.split_at(told.find("\nf.md").map_or(told.len() - 1, |at| at));
        assert_eq!(document, expected, "{text:?}\n{told}");
        let problems: Vec<&str> = problems.trim().lines().collect();
        assert_eq!(problems.len(), tolerated.len(), "{text:?}\n{told}");
        for (problem, start) in problems.iter().zip(tolerated) {
            assert!(problem.starts_with(start), "{text:?}\n{told}");
        }
    }
}

#[test]
fn hostile_heads_end_soon_and_are_bounded() {
    let bomb = {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..20 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{below}]").unwrap();
        }
        text
    };
    let table = [
        ("a bomb of anchors", bomb),
        ("lists in lists", format!("name: {}", "[".repeat(100_000))),
        ("maps in maps", format!("name: {}", "{a: ".repeat(20_000))),
        ("dashes", format!("name:\n  {}", "- ".repeat(50_000))),
        ("steps to the right", (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("a long line", format!("name: {}", "x".repeat(900_000))),
        ("many keys", (0..50_000).map(|number| format!("k{number}: v\n")).collect()),
        ("one key again and again", "name: a: b\n".repeat(50_000)),
        ("colons", ":".repeat(500_000)),
        ("quotes", "\"".repeat(500_000)),
        ("questions", "? ".repeat(100_000)),
        ("tags", format!("name: {}", "!!a ".repeat(50_000))),
        ("a loop", "name: &a [*a]\n".to_owned()),
        ("many documents", "--- \na: b\n".repeat(20_000)),
    ];
    for (name, head) in table {
        let start = Instant::now();
        let read = read(&format!("---\n{head}\n---\nbody"));
        assert!(start.elapsed().as_secs() < 20, "{name}: {:?}", start.elapsed());
        assert!(read.tolerated.len() <= 20, "{name}");
        assert!(read.tolerated.iter().all(|problem| problem.to_string().len() < 600), "{name}: {:?}", read.tolerated);
    }
}
