//! The start of an id, as somebody typed it: with its kind or without, in capitals or not. Says which ids it means.
//!
//! Every command that takes an id matches it here. Knows nothing of what the ids are of, nor where they are kept.

use std::collections::HashSet;

use crate::ClientError;

/// More matches than this are not listed: the start was too short to mean anything.
const MATCHES_MAX: usize = 10;

pub struct Start<'a> {
    typed: &'a str,
    prefix: &'static str,
    letters: String,
}

impl<'a> Start<'a> {
    /// `prefix` is that of the kind: `SessionId::PREFIX`.
    pub fn new(typed: &'a str, prefix: &'static str) -> Self {
        Self { typed, prefix, letters: typed.strip_prefix(prefix).unwrap_or(typed).to_ascii_uppercase() }
    }

    pub fn typed(&self) -> &'a str {
        self.typed
    }

    /// Without the kind, in capitals.
    pub fn letters(&self) -> &str {
        &self.letters
    }

    /// Nothing is the start of nothing; the kind alone is the start of all of its kind.
    pub fn matches(&self, id: &str) -> bool {
        let whole = id.strip_prefix(self.prefix).unwrap_or(id).to_ascii_uppercase();
        !self.typed.is_empty() && whole.starts_with(&self.letters)
    }

    /// What is meant among those whose ids match; an id may come more than once and then means the first. `None`: nothing.
    pub fn only<T>(&self, all: impl IntoIterator<Item = T>, id: impl Fn(&T) -> &str) -> Result<Option<T>, ClientError> {
        let (mut found, mut known): (Vec<T>, HashSet<String>) = Default::default();
        for one in all {
            if id(&one) == self.typed {
                return Ok(Some(one));
            }
            if self.matches(id(&one)) && known.insert(id(&one).to_owned()) {
                found.push(one);
            }
        }
        // The kind alone says of none that it is meant, even of the only one: it may be what is left of an unset variable.
        let needed = if self.letters.is_empty() { 1 } else { 2 };
        if found.len() < needed {
            return Ok(found.pop());
        }
        let mut matches: Vec<String> = found.iter().take(MATCHES_MAX).map(|one| id(one).to_owned()).collect();
        matches.extend((MATCHES_MAX < found.len()).then(|| format!("and {} more", found.len() - MATCHES_MAX)));
        Err(ClientError::Ambiguous { prefix: self.typed.to_owned(), matches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_meant_by_its_start_in_any_spelling() {
        let known = ["call_01AB", "call_01AC", "call_01AC", "call_02", "call_01"];
        let meant = |typed: &str| match Start::new(typed, "call_").only(known, |id| id) {
            Ok(found) => found.unwrap_or("nothing").to_owned(),
            Err(error) => error.to_string(),
        };
        for (typed, expected) in [
            ("call_01AB", "call_01AB"),
            ("01ab", "call_01AB"),
            ("01AC", "call_01AC"),
            ("call_02", "call_02"),
            ("0", "0 could be any of these: call_01AB, call_01AC, call_02, call_01"),
            ("call_01", "call_01"),
            ("01a", "01a could be any of these: call_01AB, call_01AC"),
            ("call_", "call_ could be any of these: call_01AB, call_01AC, call_02, call_01"),
            ("", "nothing"),
            ("call_03", "nothing"),
            ("ask_01", "nothing"),
        ] {
            assert_eq!(meant(typed), expected, "{typed}");
        }
        let only = Start::new("call_", "call_").only(["call_01AB"], |id| id).unwrap_err().to_string();
        assert_eq!(only, "call_ could be any of these: call_01AB");
        assert!(Start::new("call_", "call_").only([], |id: &&str| *id).unwrap().is_none());
        let many: Vec<String> = (0..13).map(|number| format!("call_{number:02}X")).collect();
        let told = Start::new("call_0", "call_").only(&many, |id| id).unwrap_err().to_string();
        assert!(told.ends_with("call_09X"), "{told}");
        let more: Vec<String> = (0..13).map(|number| format!("call_0{number}")).collect();
        let told = Start::new("0", "call_").only(&more, |id| id).unwrap_err().to_string();
        assert!(told.ends_with("call_09, and 3 more"), "{told}");
    }
}
