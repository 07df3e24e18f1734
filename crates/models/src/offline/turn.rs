//! What a conversation says about now: the last question, and the calls made for it with their results.
//!
//! Everything is derived from the messages. Reminders and other machine-made frames are not questions; "go on" means the
//! question before it.

use posse_session::{Block, Message, Role};
use serde_json::Value;

/// A question is read this far; the rest of a pasted file would only add noise.
const QUESTION_BYTES_MAX: usize = 4 * 1024;

#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) question: String,
    /// Replies since the question: steps this turn has used.
    pub(super) steps: usize,
    pub(super) made: Vec<Made>,
    /// The calls made for the question before this one, by the model or by the user.
    pub(super) before: Vec<Made>,
    /// Replies in the whole conversation, for ids.
    pub(super) replies: usize,
}

/// A call made for the question.
#[derive(Debug, PartialEq)]
pub(super) struct Made {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) told: Option<Told>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) error: bool,
}

impl Turn {
    pub(super) fn of(messages: &[Message]) -> Self {
        let mut turn = Self { question: String::new(), steps: 0, made: Vec::new(), before: Vec::new(), replies: 0 };
        for message in messages {
            match message.role {
                Role::Assistant => turn.take_reply(message),
                Role::User => turn.take_results_and_question(message),
            }
        }
        turn
    }

    fn take_reply(&mut self, message: &Message) {
        self.replies += 1;
        self.steps += 1;
        for block in &message.blocks {
            if let Block::Call { id, tool, input } = block {
                let input = serde_json::from_str(input).unwrap_or(Value::Null);
                self.made.push(Made { id: id.clone(), tool: tool.clone(), input, told: None });
            }
        }
    }

    fn take_results_and_question(&mut self, message: &Message) {
        let mut asked = String::new();
        for block in &message.blocks {
            match block {
                Block::Result { id, text, error, .. } => {
                    if let Some(made) = self.made.iter_mut().rev().find(|made| made.id == *id) {
                        made.told = Some(Told { text: text.clone(), error: *error });
                    }
                }
                Block::Text { text } => {
                    let said = without_frames(text);
                    if !said.is_empty() {
                        asked.push_str(&said);
                        asked.push('\n');
                    }
                }
                _ => {}
            }
        }
        let asked = asked.trim();
        if asked.is_empty() || (means_go_on(asked) && !self.question.is_empty()) {
            return;
        }
        self.question = cut(asked, QUESTION_BYTES_MAX).to_string();
        self.steps = 0;
        self.before = std::mem::take(&mut self.made);
    }
}

/// The text without elements a machine put around or into it: `<system-reminder>…</system-reminder>`, `<env>…</env>`.
fn without_frames(text: &str) -> String {
    let mut rest = text.trim();
    let mut kept = String::new();
    while let Some(start) = rest.find('<') {
        let (before, from) = rest.split_at(start);
        let name_length = from[1..].find(|sign: char| !(sign.is_ascii_lowercase() || sign == '-' || sign == '_')).unwrap_or(0);
        let name = &from[1..1 + name_length];
        let close = format!("</{name}>");
        // Only an element at the start of a line is a frame; `Vec<u8>` and `<T>` in a question are not.
        let opens_line = before.trim_end_matches([' ', '\t']).is_empty() || before.trim_end_matches([' ', '\t']).ends_with('\n');
        match from.find(&close) {
            Some(end) if !name.is_empty() && opens_line => {
                kept.push_str(before);
                rest = &from[end + close.len()..];
            }
            _ if opens_line && name.contains("reminder") => {
                kept.push_str(before);
                rest = "";
            }
            _ => {
                kept.push_str(before);
                kept.push('<');
                rest = &from[1..];
            }
        }
    }
    kept.push_str(rest);
    kept.trim().to_string()
}

fn means_go_on(text: &str) -> bool {
    let plain = text.trim_end_matches(['.', '!']).to_lowercase();
    matches!(plain.as_str(), "continue" | "go on" | "go ahead" | "resume" | "again" | "try again" | "keep going" | "please continue")
}

/// The longest start of `text` with at most so many bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(blocks: Vec<Block>) -> Message {
        Message { role: Role::User, blocks }
    }

    fn text(text: &str) -> Block {
        Block::Text { text: text.into() }
    }

    #[test]
    fn the_last_text_is_the_question_and_forgets_earlier_calls() {
        let call = |id: &str| Message {
            role: Role::Assistant,
            blocks: vec![Block::Call { id: id.into(), tool: "grep".into(), input: r#"{"pattern":"a"}"#.into() }],
        };
        let result = |id: &str| Block::Result { id: id.into(), tool: "grep".into(), text: "none".into(), error: false, images: Vec::new() };
        let messages = [
            user(vec![text("Where is a?"), text("<system-reminder>\nwhere is z\n</system-reminder>")]),
            call("offline_0_0"),
            user(vec![result("offline_0_0"), text("and where is b?")]),
            call("offline_1_0"),
            user(vec![result("offline_1_0"), text("<system-reminder>be brief</system-reminder>")]),
        ];
        let made = |id: &str| Made {
            id: id.into(),
            tool: "grep".into(),
            input: serde_json::json!({"pattern": "a"}),
            told: Some(Told { text: "none".into(), error: false }),
        };
        let (made, before) = (vec![made("offline_1_0")], vec![made("offline_0_0")]);
        assert_eq!(Turn::of(&messages), Turn { question: "and where is b?".into(), steps: 1, made, before, replies: 2 });
    }

    #[test]
    fn go_on_keeps_the_question() {
        let messages = [user(vec![text("Where is a?")]), user(vec![text("continue.")])];
        assert_eq!(Turn::of(&messages).question, "Where is a?");
    }

    #[test]
    fn frames_are_dropped_and_generics_kept() {
        for (given, kept) in [
            ("<system-reminder>x</system-reminder>", ""),
            ("<env>\ncwd: /\n</env>\nwhere is main", "where is main"),
            ("where is main\n<system-reminder>x</system-reminder>", "where is main"),
            ("<system-reminder> without an end", ""),
            ("where is Vec<u8> used", "where is Vec<u8> used"),
            ("find <div> in html", "find <div> in html"),
            ("a < b", "a < b"),
            ("<", "<"),
        ] {
            assert_eq!(without_frames(given), kept, "{given}");
        }
    }
}
