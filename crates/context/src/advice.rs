//! What those are told who work beside a conversation, and what is left of what they say.
//!
//! Pure words. Each of them begins with the whole conversation, so each is told first that it is not the one who goes on
//! with it.

use posse_session::clip;

/// A suggestion is typed in one breath.
const SUGGESTION_WORDS_MAX: usize = 12;

/// What somebody is doing is one cell of a list.
const DOING_WORDS_MAX: usize = 8;

/// A word longer than any name of a file is no word.
const WORD_BYTES_MAX: usize = 120;

/// A draft is a note beside the user's words, and must not be most of what the model reads.
const DRAFT_BYTES_MAX: usize = 4 * 1024;

const SIDE: &str = "A question beside the work. Answer it from what you have seen so far, shortly and plainly, and say so if it cannot be known from that. \
Call no tools: the work itself goes on elsewhere, and neither your answer nor this question becomes part of it.";

const SUGGEST: &str = "You are not the one who goes on with this conversation. Say what the user is most likely to say next: the next step they would want, \
in their own manner and language, as they would type it, in at most 12 words on one line. Only what follows from the conversation, and nothing that was refused. \
Answer with these words alone, without quotes. If nothing is likely, answer with nothing but a dash. Call no tools.";

const DOING: &str = "You are not the one who goes on with this work. Say what is being done right now, in 3 to 5 words, present tense, beginning with a verb that ends in -ing, \
naming the file or the thing it is about, for example: Reading the retry rules. Answer with these words alone. Call no tools.";

const DRAFT: &str = "While the user was away it was guessed that they would say this, and an answer was drafted ahead, without looking at anything. \
Check whatever in it may have changed or was only assumed, before you use any of it; the user has not seen it:";

/// A question of the user's that is no part of the conversation.
pub fn side_directive(question: &str) -> String {
    format!("{SIDE}\n\n{}", question.trim())
}

pub fn suggestion_directive() -> &'static str {
    SUGGEST
}

/// `before`: what was said of it the last time.
pub fn doing_directive(before: &str) -> String {
    match before.trim() {
        "" => DOING.to_owned(),
        before => format!("{DOING}\n\nThe last time it was: {before}. Say something else if that is no longer so."),
    }
}

/// What the model is told beside words that were foreseen.
pub fn draft_note(draft: &str) -> String {
    format!("{DRAFT}\n\n{}", clip(draft.trim().to_owned(), DRAFT_BYTES_MAX))
}

/// What the user may say next, if somebody has said that: one short line, and no refusal.
pub fn suggestion_in(said: &str) -> Option<String> {
    // Whoever cannot tell says so, in spite of what it was told.
    const EXCUSES: &[&str] = &["i'm sorry", "i am sorry", "i can't", "i cannot", "as an ai", "none", "nothing", "n/a"];
    let line = only_line(said)?;
    let lower = line.to_lowercase();
    let excuse =
        EXCUSES.iter().any(|excuse| lower == *excuse || (excuse.contains(' ') || excuse.contains('\'')) && lower.starts_with(excuse));
    let words = line.split_whitespace().count();
    (!excuse && words <= SUGGESTION_WORDS_MAX && line.len() <= SUGGESTION_WORDS_MAX * WORD_BYTES_MAX).then_some(line)
}

/// What is being done, in a few words.
pub fn doing_in(said: &str) -> Option<String> {
    let line = only_line(said)?;
    let words: Vec<&str> = line.split_whitespace().take(DOING_WORDS_MAX).collect();
    Some(clip(words.join(" ").trim_end_matches(['.', ',', ';', ':']).to_owned(), WORD_BYTES_MAX))
}

/// The only line of an answer, without what some models put around it.
fn only_line(said: &str) -> Option<String> {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let (line, more) = (lines.next()?, lines.next());
    let line = line.trim_matches(['"', '\'', '`', '“', '”', '*']).trim().replace(|letter: char| letter.is_control(), "");
    let says = line.chars().any(char::is_alphanumeric);
    (says && more.is_none()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CC-213: a suggestion is a line that the user could have typed, or nothing.
    #[test]
    fn only_what_a_user_could_have_typed_is_a_suggestion() {
        for (said, expected) in [
            ("run the tests", Some("run the tests")),
            ("  \"commit this\"\n", Some("commit this")),
            ("**now the docs**", Some("now the docs")),
            ("nothing", None),
            ("nothing is tested yet, add tests", Some("nothing is tested yet, add tests")),
            ("", None),
            ("-", None),
            ("—", None),
            ("I'm sorry, I cannot tell.", None),
            ("run the tests\nand commit", None),
            ("one two three four five six seven eight nine ten eleven twelve thirteen", None),
            ("laufen die Tests?", Some("laufen die Tests?")),
        ] {
            assert_eq!(suggestion_in(said).as_deref(), expected, "{said:?}");
        }
        assert_eq!(suggestion_in(&"x".repeat(5_000)), None, "a word of five thousand letters is none");
        assert_eq!(suggestion_in("run\u{1b}[31m it").as_deref(), Some("run[31m it"), "nothing that a terminal would obey");
    }

    /// CC-215.
    #[test]
    fn what_is_being_done_is_a_few_words() {
        assert_eq!(doing_in("Reading the retry rules.").as_deref(), Some("Reading the retry rules"));
        assert_eq!(doing_in("a b c d e f g h i j").as_deref(), Some("a b c d e f g h"));
        assert_eq!(doing_in("Reading\nand more"), None);
        assert_eq!(doing_in(" \n"), None);
    }

    #[test]
    fn a_draft_is_cut_before_it_is_most_of_what_is_read() {
        let note = draft_note(&"word ".repeat(10_000));
        assert!(note.len() < DRAFT_BYTES_MAX + DRAFT.len() + 64, "{}", note.len());
        assert!(note.starts_with(DRAFT));
    }
}
