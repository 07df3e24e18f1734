//! What a recording leaves out of a conversation: secrets, in whatever was said.
//!
//! Only texts that somebody wrote are changed. Names of models and tools, roles and ids stay, whatever they look like:
//! they hold a recording together. What a secret is, `secrets.rs` says.

use posse_session::{Block, Head, ReplyPart};
use serde_json::Value;

use super::lines::{Came, Line, Piece, rewrite_texts};
use crate::secrets::Secrets;

pub(super) fn clean(line: &mut Line, secrets: &Secrets) {
    if secrets.is_empty() {
        return;
    }
    match line {
        Line::Head { head, .. } => clean_head(head, secrets),
        Line::Message { message, .. } => message.blocks.iter_mut().for_each(|block| clean_block(block, secrets)),
        Line::Exchange(exchange) => {
            clean_live(&mut exchange.live, secrets);
            match &mut exchange.came {
                Came::Reply(reply) => reply.parts.iter_mut().for_each(|part| clean_part(part, secrets)),
                Came::Error(failed) => {
                    clean_text(&mut failed.words, secrets);
                    clean_text(&mut failed.partial, secrets);
                }
                Came::Dropped(_) => {}
            }
        }
        Line::PosseRecording(_) | Line::Model { .. } | Line::Named { .. } | Line::Unknown => {}
    }
}

fn clean_head(head: &mut Head, secrets: &Secrets) {
    head.system.iter_mut().for_each(|text| clean_text(text, secrets));
    for tool in &mut head.tools {
        clean_text(&mut tool.description, secrets);
        clean_value(&mut tool.schema, secrets);
    }
    head.params.options.iter_mut().chain(&mut head.answer).for_each(|value| clean_value(value, secrets));
}

fn clean_block(block: &mut Block, secrets: &Secrets) {
    match block {
        Block::Text { text } | Block::Reasoning { text, .. } | Block::Result { text, .. } => clean_text(text, secrets),
        Block::Call { input, .. } => clean_text(input, secrets),
        Block::Opaque { raw, .. } => clean_value(raw, secrets),
        Block::Image { .. } => {}
    }
}

fn clean_part(part: &mut ReplyPart, secrets: &Secrets) {
    match part {
        ReplyPart::Text(text) | ReplyPart::Reasoning { text, .. } => clean_text(text, secrets),
        ReplyPart::Call { input, .. } => clean_text(input, secrets),
        ReplyPart::Opaque { raw, .. } => clean_value(raw, secrets),
    }
}

fn clean_text(text: &mut String, secrets: &Secrets) {
    if let std::borrow::Cow::Owned(clean) = secrets.strike(text) {
        *text = clean;
    }
}

fn clean_value(value: &mut Value, secrets: &Secrets) {
    rewrite_texts(value, &mut |text| secrets.strike(text).into_owned());
}

/// A key may come in several pieces, so all that were said are one text here, and all that were thought are another.
fn clean_live(live: &mut Vec<Piece>, secrets: &Secrets) {
    let kinds: [fn(&mut Piece) -> Option<&mut String>; 2] = [Piece::said, Piece::thought];
    for words_of in kinds {
        let whole: String = live.iter_mut().filter_map(words_of).map(|words| words.as_str()).collect();
        let places = secrets.places_in(&whole);
        if places.is_empty() {
            continue;
        }
        let mut at = 0;
        for words in live.iter_mut().filter_map(words_of) {
            let stretch = at..at + words.len();
            at = stretch.end;
            *words = secrets.without(&whole, stretch, &places);
        }
        // What a key took whole is shown to nobody.
        live.retain_mut(|piece| words_of(piece).is_none_or(|words| !words.is_empty()));
    }
}
