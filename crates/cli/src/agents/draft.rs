//! An agent as a model proposes it: read out of the reply, checked, and written as a file that loads back word for word.
//!
//! Pure: which names are taken is an argument, and objections are worded for the model that must put them right.

use serde_json::{Map, Value};

/// A name that long is not a name, and some disks take no longer ones.
const IDENTIFIER_CHARS_MAX: usize = 60;

/// Braces that are tried as the start of the object; a reply with more of them is not one.
const BRACES_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) identifier: String,
    pub(super) when_to_use: String,
    pub(super) system_prompt: String,
}

/// The agent in a reply. `taken` says why a name cannot be used. `Err` has everything that is wrong, for the model.
pub(super) fn read(reply: &str, taken: &dyn Fn(&str) -> Option<String>) -> Result<Draft, String> {
    let fields = object(reply)?;
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(tidied).unwrap_or_default();
    let draft = Draft { identifier: text("identifier"), when_to_use: text("whenToUse"), system_prompt: text("systemPrompt") };
    let mut wrong = Vec::new();
    if !is_identifier(&draft.identifier) {
        wrong.push(format!(
            "`identifier` must be lower-case letters, digits and hyphens, begin with a letter, and have at most {IDENTIFIER_CHARS_MAX} characters."
        ));
    } else if let Some(why) = taken(&draft.identifier) {
        wrong.push(format!("`identifier`: {why} Choose another."));
    }
    for (key, text) in [("whenToUse", &draft.when_to_use), ("systemPrompt", &draft.system_prompt)] {
        if text.is_empty() {
            wrong.push(format!("`{key}` must be a text that is not empty."));
        }
    }
    // A file whose whole text is an object is read as one.
    if serde_json::from_str::<Map<String, Value>>(&draft.system_prompt).is_ok() {
        wrong.push("`systemPrompt` must be prose, not JSON.".to_owned());
    }
    if wrong.is_empty() { Ok(draft) } else { Err(wrong.join(" ")) }
}

/// The first object with one of our keys, wherever it stands: in a fence, after an introduction.
fn object(reply: &str) -> Result<Map<String, Value>, String> {
    let mut why = None;
    for (at, _) in reply.match_indices('{').take(BRACES_MAX) {
        match serde_json::Deserializer::from_str(&reply[at..]).into_iter::<Map<String, Value>>().next() {
            Some(Ok(fields)) if ["identifier", "whenToUse", "systemPrompt"].iter().any(|key| fields.contains_key(*key)) => {
                return Ok(fields);
            }
            Some(Err(error)) => why = why.or(Some(error)),
            _ => {}
        }
    }
    let why = why.map(|error| format!(" (read as JSON: {error})")).unwrap_or_default();
    Err(format!("It holds no JSON object with `identifier`, `whenToUse` and `systemPrompt`{why}."))
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= IDENTIFIER_CHARS_MAX
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

/// As a file gives it back: one way to end a line, nothing blank around it.
fn tidied(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").trim().to_owned()
}

impl Draft {
    /// The file that defines it.
    pub(super) fn markdown(&self) -> String {
        format!("---\ndescription: {}\nmode: subagent\n---\n\n{}\n", quoted(&self.when_to_use), self.system_prompt)
    }
}

/// In double quotes on one line, as JSON and YAML both read it.
fn quoted(text: &str) -> String {
    let escaped = Value::from(text).to_string();
    escaped.chars().map(|letter| if is_unprintable(letter) { format!("\\u{:04x}", u32::from(letter)) } else { letter.into() }).collect()
}

/// What YAML does not take as it is, or takes for the end of a line.
fn is_unprintable(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use posse_config::{Overrides, Places};
    use posse_session::AgentMode;
    use serde_json::json;

    use super::*;

    fn free(_: &str) -> Option<String> {
        None
    }

    fn reply(identifier: &str, when: &str, prompt: &str) -> String {
        json!({"identifier": identifier, "whenToUse": when, "systemPrompt": prompt}).to_string()
    }

    #[test]
    fn the_object_is_found_wherever_a_model_puts_it() {
        let plain = reply("a-b", "Use it", "You {do} it");
        let draft = Draft { identifier: "a-b".into(), when_to_use: "Use it".into(), system_prompt: "You {do} it".into() };
        for text in [
            plain.clone(),
            format!("```json\n{plain}\n```"),
            format!("```\n{plain}\n```\nThat is all."),
            format!("Here {{as asked}} it is: {{\"x\": 1}}\n\n{plain} and {{}}"),
            format!("  {plain}  "),
        ] {
            assert_eq!(read(&text, &free), Ok(draft.clone()), "{text}");
        }
        assert_eq!(read(&reply(" a-b ", "\nUse it ", "You {do} it\r\n"), &free), Ok(draft));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let table = [
            ("", "It holds no JSON object with `identifier`, `whenToUse` and `systemPrompt`."),
            ("no { braces", "(read as JSON: key must be a string at line 1 column 3)."),
            ("{\"identifier\": \"a\", \"systemPrompt\": \"line\nbreak\"}", "(read as JSON: control character"),
            (&reply("A b", "w", "p"), "`identifier` must be lower-case letters"),
            (&reply("1a", "w", "p"), "`identifier` must be"),
            (&reply("../a", "w", "p"), "`identifier` must be"),
            (&reply(&"a".repeat(61), "w", "p"), "`identifier` must be"),
            (&reply("a", " ", ""), "`whenToUse` must be a text that is not empty. `systemPrompt` must be a text that is not empty."),
            (r#"{"identifier": 5, "whenToUse": ["w"], "systemPrompt": null}"#, "`identifier` must be"),
            (&reply("a", "w", r#"{"prompt": "p"}"#), "`systemPrompt` must be prose, not JSON."),
        ];
        for (text, expected) in table {
            let objection = read(text, &free).unwrap_err();
            assert!(objection.contains(expected), "{text}: {objection}");
        }
        let taken = |name: &str| (name == "plan").then(|| "`plan` is taken.".to_owned());
        assert_eq!(read(&reply("plan", "w", "p"), &taken), Err("`identifier`: `plan` is taken. Choose another.".to_owned()));
        assert!(read(&reply("plans", "w", "p"), &taken).is_ok());
    }

    #[test]
    fn what_is_written_loads_back_word_for_word() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, project) = (root.join("home").display().to_string(), root.join("project"));
        let agents = project.join(".posse/agents");
        std::fs::create_dir_all(&agents).unwrap();
        let env = |name: &str| (name == "HOME" || name == "POSSE_HOME").then(|| home.clone());
        let texts = [
            "Use it: when `x` # not - \"y\" isn't 'z'",
            "two\n\nlines\n  and: more",
            "- a list\n- of: things",
            "---\nmode: primary\n---",
            "{\"not\": \"an object\"",
            "back\\slash \\n \\u0041 %d {{x}} $1 !`cmd` @file",
            "> folded | pipe & anchor *alias !tag ? key",
            "żółć 漢字 🦀 \u{2028}\u{85}\u{feff}\u{7f}\u{1}\t tab",
            "true",
            "42",
            "~",
            "a: b: c",
            "Ends with a colon:",
            "<example>\nuser: \"hi\"\n</example>",
        ];
        for (at, text) in texts.iter().enumerate() {
            let draft = read(&reply(&format!("agent-{at}"), text, text), &free).unwrap();
            std::fs::write(agents.join(format!("agent-{at}.md")), draft.markdown()).unwrap();
        }
        let places = Places::find(&project, &env).unwrap();
        let config = posse_config::load(&places, &env, &Overrides::default()).unwrap();
        let loaded = posse_config::agents(&places, &config, None).unwrap();
        // A text that looks like a second head is told of, and is still the text.
        let surprises: Vec<_> = loaded.tolerated.iter().filter(|problem| !problem.words.starts_with("a second head")).collect();
        assert_eq!(surprises, Vec::<&posse_config::Problem>::new());
        for (at, text) in texts.iter().enumerate() {
            let agent = loaded.get(&format!("agent-{at}")).unwrap();
            let expected = (Some(*text), Some(*text), AgentMode::Subagent);
            assert_eq!((agent.description.as_deref(), agent.prompt.as_deref(), agent.mode), expected, "{text}");
        }
    }
}
