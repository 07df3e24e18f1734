//! `question`: asks the user. The call itself is the ask, so a person has answered before it runs; it only words the answer.
//!
//! No rule and no mode answers it: its touch is one that needs a person. Where nobody can answer, the tool is not offered,
//! which is not decided here.

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, Parameter},
    text::{small, title},
};

const QUESTIONS: Parameter = Parameter::new("questions", &["items"]);
const QUESTION: Parameter = Parameter::new("question", &["text", "prompt"]);
const HEADER: Parameter = Parameter::new("header", &["title"]);
const OPTIONS: Parameter = Parameter::new("options", &["choices", "answers"]);
const LABEL: Parameter = Parameter::new("label", &["value", "name"]);
const DESCRIPTION: Parameter = Parameter::new("description", &["details"]);
const MULTIPLE: Parameter = Parameter::new("multiple", &["multiSelect"]);
const CUSTOM: Parameter = Parameter::new("custom", &[]);

/// More at once is a form, which nobody fills in.
const QUESTIONS_MAX: usize = 4;
/// One option is no choice; more than six are not read.
const OPTIONS_MIN: usize = 2;
const OPTIONS_MAX: usize = 6;
/// A question is read on a screen.
const QUESTION_CHARS_MAX: usize = 2_000;
const LABEL_CHARS_MAX: usize = 200;

pub(crate) struct Ask(ToolSpec);

#[derive(Debug, PartialEq)]
struct Question {
    text: String,
    labels: Vec<String>,
    /// Several options may be chosen.
    multiple: bool,
    /// An answer in own words is as good as an option.
    custom: bool,
}

impl Ask {
    pub(crate) fn new() -> Self {
        Self(ToolSpec {
            name: "question".into(),
            description: "Ask the user and wait for the answer: when a decision is theirs, or when you cannot go on without knowing something that only they know. \
                Ask at most 4 questions at once. Offer 2 to 6 options where you can, your suggestion first; the user may always answer in own words. \
                Do not ask what you can find out yourself, and do not ask for permission to use a tool: that is asked by itself."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "questions": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": QUESTIONS_MAX,
                        "items": {
                            "type": "object",
                            "properties": {
                                "question": {"type": "string", "description": "The whole question, with what one must know to answer it."},
                                "header": {"type": "string", "description": "One or two words for a list."},
                                "options": {
                                    "type": "array",
                                    "description": "2 to 6 answers to choose from; leave it out for a free answer.",
                                    "items": {
                                        "type": "object",
                                        "properties": {
                                            "label": {"type": "string", "description": "The answer in a few words."},
                                            "description": {"type": "string", "description": "What choosing it means."}
                                        },
                                        "required": ["label"]
                                    }
                                },
                                "multiple": {"type": "boolean", "description": "Several options may be chosen. Default false."},
                                "custom": {"type": "boolean", "description": "An answer in own words is allowed. Default true."}
                            },
                            "required": ["question"]
                        }
                    }
                },
                "required": ["questions"]
            }),
        })
    }
}

impl Tool for Ask {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let questions = questions(input)?;
        let title = title(questions.first().map_or("", |question| &question.text));
        Ok(Look { touches: vec![Touch::new("question", title.clone())], repeatable: true, title, ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, _context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let questions = match questions(&call.input) {
                Ok(questions) => questions,
                Err(words) => return Outcome::failed(words),
            };
            let Some(said) = &call.answer else {
                return Outcome::failed(
                    "Nobody answered the question. Go on with what you know, or say in your answer what you need to know.",
                );
            };
            let answers = answers(&questions, said);
            Outcome::Done {
                output: worded(&questions, &answers).into(),
                title: title(&answers.iter().flat_map(Given::chosen).collect::<Vec<_>>().join(", ")),
                metadata: small(json!({"answers": answers.iter().map(Given::chosen).collect::<Vec<_>>()}), ""),
                attachments: Vec::new(),
            }
        })
    }
}

fn questions(input: &Value) -> Result<Vec<Question>, String> {
    let arguments = Arguments::new("question", input)?;
    let expected = "a list of 1 to 4 objects with `question` and, where there is a choice, `options`";
    let value = arguments.find(QUESTIONS).ok_or_else(|| arguments.missing(QUESTIONS, expected))?;
    // Some models send the list as a string of JSON.
    let parsed: Option<Value> = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    let Some(items) = parsed.as_ref().unwrap_or(value).as_array() else { return Err(arguments.wrong(QUESTIONS, expected, value)) };
    if items.is_empty() || QUESTIONS_MAX < items.len() {
        return Err(format!(
            "question: ask 1 to {QUESTIONS_MAX} questions at once; got {}. Call question again with the most important ones.",
            items.len()
        ));
    }
    items
        .iter()
        .enumerate()
        .map(|(place, item)| one(item).map_err(|words| format!("{words} (question {} of the list)", place + 1)))
        .collect()
}

fn one(item: &Value) -> Result<Question, String> {
    let arguments = Arguments::new("question", item)?;
    let text = arguments.filled_text(QUESTION)?.trim();
    if QUESTION_CHARS_MAX < text.chars().count() {
        return Err(format!(
            "question: a question has at most {QUESTION_CHARS_MAX} characters. Say the rest in your text before the call."
        ));
    }
    arguments.maybe_text(HEADER)?;
    let labels = match arguments.find(OPTIONS) {
        None => Vec::new(),
        Some(Value::Array(options)) => options.iter().map(label).collect::<Result<Vec<_>, _>>()?,
        Some(other) => return Err(arguments.wrong(OPTIONS, "a list of objects with a label", other)),
    };
    if !labels.is_empty() && !(OPTIONS_MIN..=OPTIONS_MAX).contains(&labels.len()) {
        return Err(format!(
            "question: give {OPTIONS_MIN} to {OPTIONS_MAX} options, or none for a free answer; got {}. Call question again with that corrected.",
            labels.len()
        ));
    }
    if let Some((place, twice)) = labels.iter().enumerate().find(|(place, label)| labels[..*place].iter().any(|other| same(other, label))) {
        return Err(format!("question: option {} repeats the label `{twice}`; every option needs its own.", place + 1));
    }
    // Without options there is nothing but own words.
    let custom = arguments.find(CUSTOM).is_none() || arguments.flag(CUSTOM)? || labels.is_empty();
    Ok(Question { text: text.to_owned(), labels, multiple: arguments.flag(MULTIPLE)?, custom })
}

fn label(option: &Value) -> Result<String, String> {
    if let Value::String(label) = option
        && !label.trim().is_empty()
    {
        return Ok(label.trim().chars().take(LABEL_CHARS_MAX).collect());
    }
    let arguments = Arguments::new("question", option)?;
    arguments.maybe_text(DESCRIPTION)?;
    Ok(arguments.filled_text(LABEL)?.trim().chars().take(LABEL_CHARS_MAX).collect())
}

/// What a person said to one question.
#[derive(Debug, PartialEq)]
enum Given {
    Labels(Vec<String>),
    Words(String),
    Nothing,
}

impl Given {
    fn chosen(&self) -> Vec<String> {
        match self {
            Self::Labels(labels) => labels.clone(),
            Self::Words(words) => vec![words.clone()],
            Self::Nothing => Vec::new(),
        }
    }
}

/// Which words answer which question. Several are separated by semicolons or lines; what cannot be told apart answers all
/// of them together and stands at the first.
fn answers(questions: &[Question], said: &str) -> Vec<Given> {
    let said = said.trim();
    if let [question] = questions {
        return vec![given(question, said)];
    }
    for separator in ['\n', ';'] {
        let mut parts: Vec<&str> = said.split(separator).map(|part| part.trim().trim_end_matches(';').trim_end()).collect();
        // An empty line between two answers or a semicolon after the last one is no answer.
        if parts.len() != questions.len() {
            parts.retain(|part| !part.is_empty());
        }
        if parts.len() == questions.len() {
            return questions.iter().zip(parts).map(|(question, part)| given(question, part)).collect();
        }
    }
    let whole = if said.is_empty() { Given::Nothing } else { Given::Words(said.to_owned()) };
    std::iter::once(whole).chain(questions.iter().skip(1).map(|_| Given::Nothing)).collect()
}

/// Numbers and labels become the labels they mean; anything else is the person's own words.
fn given(question: &Question, said: &str) -> Given {
    if said.is_empty() {
        return Given::Nothing;
    }
    if let Some(label) = option(question, said) {
        return Given::Labels(vec![label]);
    }
    let chosen: Option<Vec<String>> = said.split(',').map(str::trim).map(|part| option(question, part)).collect();
    match chosen {
        Some(mut labels) => {
            let mut seen = Vec::new();
            labels.retain(|label| {
                !seen.contains(label) && {
                    seen.push(label.clone());
                    true
                }
            });
            Given::Labels(labels)
        }
        None => Given::Words(said.to_owned()),
    }
}

fn option(question: &Question, said: &str) -> Option<String> {
    let by_label = question.labels.iter().find(|label| same(label, said));
    let by_number = || {
        let number: usize = said.trim_end_matches(['.', ')']).trim_start_matches(['#', '(']).parse().ok()?;
        question.labels.get(number.checked_sub(1)?)
    };
    by_label.or_else(by_number).cloned()
}

fn same(one: &str, other: &str) -> bool {
    one.trim().to_lowercase() == other.trim().to_lowercase()
}

fn worded(questions: &[Question], answers: &[Given]) -> String {
    let mut lines = vec!["The user answered.".to_owned()];
    for (question, answer) in questions.iter().zip(answers) {
        let answer = match answer {
            Given::Nothing => "(no answer)".to_owned(),
            Given::Labels(labels) if 1 < labels.len() && !question.multiple => {
                format!("{} (several, although one was asked for)", labels.join(", "))
            }
            Given::Labels(labels) => labels.join(", "),
            Given::Words(words) if !question.custom => format!("{words} (in own words, none of the options)"),
            Given::Words(words) => words.clone(),
        };
        lines.push(format!("Question: {}\nAnswer: {answer}", question.text));
    }
    let all_in_one =
        1 < answers.len() && matches!(answers[0], Given::Words(_)) && answers[1..].iter().all(|answer| *answer == Given::Nothing);
    if all_in_one {
        lines.push("(The user gave one answer to all questions together.)".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(options: &[&[&str]], multiple: bool) -> Vec<Question> {
        let question = |(place, labels): (usize, &&[&str])| Question {
            text: format!("Q{}?", place + 1),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            multiple,
            custom: true,
        };
        options.iter().enumerate().map(question).collect()
    }

    #[test]
    fn numbers_and_labels_mean_the_options() {
        const THREE: &[&str] = &["SQLite", "PostgreSQL", "Both, side by side"];
        for (said, answer) in [
            ("1", "SQLite"),
            (" 2. ", "PostgreSQL"),
            ("(3)", "Both, side by side"),
            ("#1", "SQLite"),
            ("postgresql", "PostgreSQL"),
            ("Both, side by side", "Both, side by side"),
            ("1, sqlite, 2", "SQLite, PostgreSQL"),
            ("0", "0"),
            ("4", "4"),
            ("1 or 2, you choose", "1 or 2, you choose"),
            ("none; use a file\nplease", "none; use a file\nplease"),
            ("", "(no answer)"),
        ] {
            let questions = asked(&[THREE], true);
            assert_eq!(
                worded(&questions, &answers(&questions, said)),
                format!("The user answered.\nQuestion: Q1?\nAnswer: {answer}"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn several_questions_are_answered_in_their_order() {
        let options: &[&[&str]] = &[&["yes", "no"], &[], &["a", "b", "c"]];
        let label = |label: &str| Given::Labels(vec![label.into()]);
        let words = |words: &str| Given::Words(words.into());
        for (said, given) in [
            ("1; Ada; 3", [label("yes"), words("Ada"), label("c")]),
            (
                "no\nAda Lovelace; the first\n1,2",
                [label("no"), words("Ada Lovelace; the first"), Given::Labels(vec!["a".into(), "b".into()])],
            ),
            ("1;\n2;\n3;", [label("yes"), words("2"), label("c")]),
            ("yes;;c", [label("yes"), Given::Nothing, label("c")]),
            ("yes\n\nAda\n\nb\n", [label("yes"), words("Ada"), label("b")]),
            ("do what you like", [words("do what you like"), Given::Nothing, Given::Nothing]),
            ("", [Given::Nothing, Given::Nothing, Given::Nothing]),
        ] {
            assert_eq!(answers(&asked(options, true), said), given, "{said:?}");
        }
    }

    #[test]
    fn an_answer_that_was_not_offered_is_said_to_be_one() {
        let mut questions = asked(&[&["a", "b"], &["c", "d"]], false);
        questions[1].custom = false;
        let said = |text: &str| worded(&questions, &answers(&questions, text));
        assert_eq!(
            said("1,2;neither"),
            "The user answered.\nQuestion: Q1?\nAnswer: a, b (several, although one was asked for)\nQuestion: Q2?\nAnswer: neither (in own words, none of the options)"
        );
        assert_eq!(
            said("whatever"),
            "The user answered.\nQuestion: Q1?\nAnswer: whatever\nQuestion: Q2?\nAnswer: (no answer)\n(The user gave one answer to all questions together.)"
        );
    }
}
