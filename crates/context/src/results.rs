//! What the model reads as the result of a call, and as the notice of a task.

use posse_session::{How, Outcome, Part, Text};

const LOST: &str = "The process that ran this call died before its result was recorded. It may have happened in whole, in part or not at all. \
It was not run again. Look at the state of things before you decide what to do.";

/// A result as its block carries it.
pub(crate) struct Worded {
    pub(crate) text: String,
    pub(crate) error: bool,
    /// Mime type and base64 data.
    pub(crate) images: Vec<(String, String)>,
}

impl Worded {
    fn plain(text: String, error: bool) -> Self {
        Self { text, error, images: Vec::new() }
    }
}

pub(crate) fn outcome(outcome: &Outcome) -> Worded {
    match outcome {
        Outcome::Done { output, attachments, .. } => Worded { text: or(output, "(no output)"), error: false, images: images(attachments) },
        Outcome::Failed { error } => Worded::plain(or(error, "The call failed."), true),
        Outcome::Denied { why } => Worded::plain(or(why, "The call was denied."), true),
        Outcome::Cancelled { partial } if partial.is_blank() => {
            Worded::plain("The call was cancelled before it did anything.".into(), true)
        }
        Outcome::Cancelled { partial } => Worded::plain(format!("{}\n(cancelled here)", words(partial)), true),
        Outcome::Lost { partial } if partial.is_blank() => Worded::plain(LOST.into(), true),
        Outcome::Lost { partial } => Worded::plain(format!("{LOST}\nWhat it had printed:\n{}", words(partial)), true),
    }
}

/// A call whose end is in no record: a fork's, or one that a crash of an older version left.
pub(crate) fn missing(split: bool) -> Worded {
    if !split {
        return Worded::plain("No result of this call is recorded here.".into(), true);
    }

    Worded::plain("The conversation was split here while this call ran: its result is not part of this one.".into(), false)
}

pub(crate) fn task(how: How, result: &Text) -> Worded {
    let text = or(result, "(the task ended without a word)");
    match how {
        How::Completed | How::Limit => Worded::plain(text, false),
        How::Failed | How::Stopped => Worded::plain(text, true),
    }
}

fn images(attachments: &[Part]) -> Vec<(String, String)> {
    let image = |part: &Part| match part {
        Part::File { mime, data: Some(data), .. } if mime.starts_with("image/") => Some((mime.clone(), words(data))),
        _ => None,
    };
    attachments.iter().filter_map(image).collect()
}

fn or(text: &Text, blank: &str) -> String {
    if text.is_blank() { blank.to_owned() } else { words(text) }
}

/// The words of a text. One that could not be read back is said to be missing, so that no blob can brick a session.
pub(crate) fn words(text: &Text) -> String {
    match text {
        Text::Inline(words) => words.clone(),
        Text::Stored { bytes, .. } => format!("({bytes} bytes of text that could not be read back)"),
    }
}
