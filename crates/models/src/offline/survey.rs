//! What a leader asks of an explorer: one of four surveys, in plain sentences that both ends of `offline/explorer` know.
//!
//! Words a survey as a prompt and reads that prompt back; nothing else may depend on how it is worded. Who is sent is
//! `lead`'s business, what is looked for is `scout`'s.

use super::{
    terms::{Term, of_text},
    words::words,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Layout,
    EntryPoints,
    Definitions,
    TestsAndDocs,
}

impl Field {
    pub(super) const ALL: [Field; 4] = [Field::Layout, Field::EntryPoints, Field::Definitions, Field::TestsAndDocs];

    /// One to three words, for whoever watches the team.
    pub(super) fn title(self) -> &'static str {
        match self {
            Field::Layout => "layout",
            Field::EntryPoints => "entry points",
            Field::Definitions => "definitions",
            Field::TestsAndDocs => "tests and docs",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Field::Layout => "layout and manifests",
            Field::EntryPoints => "entry points",
            Field::Definitions => "definitions",
            Field::TestsAndDocs => "tests and docs",
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Field::Layout => "Wanted: what it is for, its languages, folders, packages and what they depend on.",
            Field::EntryPoints => "Wanted: main functions, binaries, scripts, make targets and containers, or what calls it.",
            Field::Definitions => "Wanted: the lines that define types and functions, and what the files say about themselves.",
            Field::TestsAndDocs => "Wanted: where tests are, how they are run, and which documents there are.",
        }
    }
}

/// A field, and the terms it is about; without terms it is about the whole repository.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Survey {
    pub(super) field: Field,
    pub(super) terms: Vec<Term>,
}

const WHERE: &str = " of this repository";
const ABOUT: &str = " about ";
const THOROUGHNESS: &str = ". Thoroughness: medium.";

impl Survey {
    pub(super) fn heading(&self) -> &'static str {
        match self.field {
            Field::Layout if self.terms.is_empty() => "Layout and manifests",
            Field::Layout => "Files and manifests",
            Field::EntryPoints if self.terms.is_empty() => "Entry points",
            Field::EntryPoints => "Uses",
            Field::Definitions => "Definitions",
            Field::TestsAndDocs => "Tests and docs",
        }
    }

    /// Complete in itself, because an explorer sees nothing else of the conversation.
    pub(super) fn prompt(&self) -> String {
        let terms: Vec<String> = self.terms.iter().map(|term| quoted(&term.shown())).collect();
        let about = if terms.is_empty() { String::new() } else { format!("{ABOUT}{}", terms.join(" and ")) };
        format!(
            "Find the {}{WHERE}{about}{THOROUGHNESS} {} Answer with facts only, one a line: `path:line: what stands there`.",
            self.field.subject(),
            self.field.wanted()
        )
    }

    /// The survey that this prompt asks for, if it is one of ours.
    pub(super) fn of(prompt: &str) -> Option<Self> {
        let rest = prompt.trim_start().strip_prefix("Find the ")?;
        let (field, rest) = Field::ALL.iter().find_map(|field| Some((*field, rest.strip_prefix(field.subject())?)))?;
        let (about, _) = rest.strip_prefix(WHERE)?.split_once(THOROUGHNESS)?;
        let terms = match about.strip_prefix(ABOUT) {
            Some(about) => words(about).iter().filter(|word| word.quoted).map(|word| term(&word.text)).collect(),
            None if about.is_empty() => Vec::new(),
            None => return None,
        };
        Some(Self { field, terms })
    }
}

fn quoted(text: &str) -> String {
    // A question can quote a backtick only inside double quotes, so one of the two always fits.
    if text.contains('`') { format!("\"{text}\"") } else { format!("`{text}`") }
}

/// Plain words were a noun phrase of the question, to be found in any spelling.
fn term(text: &str) -> Term {
    let is_word = |word: &str| word.chars().all(char::is_alphanumeric);
    let several: Vec<&str> = text.split(' ').collect();
    if several.len() > 1 && several.iter().all(|word| is_word(word)) {
        return Term::Phrase(several.into_iter().map(str::to_string).collect());
    }
    of_text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_read_back_as_the_survey_it_was() {
        let name = |text: &str| Term::Name(text.into());
        let phrase = Term::Phrase(vec!["rate".into(), "limits".into()]);
        for field in Field::ALL {
            for terms in [
                vec![],
                vec![name("Session::apply")],
                vec![name("Lane"), name("ledger")],
                vec![phrase.clone()],
                vec![Term::Literal("a `b` (c)".into())],
                vec![Term::Literal("no such. file".into()), name("x")],
            ] {
                let survey = Survey { field, terms };
                assert_eq!(Survey::of(&survey.prompt()), Some(survey.clone()), "{}", survey.prompt());
            }
        }
    }

    #[test]
    fn other_questions_are_no_surveys() {
        for question in [
            "Find the definitions of `Lane`.",
            "Find the entry points",
            "find the layout and manifests of this repository",
            "Find the ",
            "",
        ] {
            assert_eq!(Survey::of(question), None, "{question}");
        }
    }

    #[test]
    fn titles_are_one_to_three_words() {
        assert!(Field::ALL.iter().all(|field| (1..=3).contains(&field.title().split(' ').count())));
    }
}
