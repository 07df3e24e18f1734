//! Texts that nobody may see: keys, passwords, tokens in headers. What counts as one, and how it is struck out.
//!
//! One list for the words of errors (`http.rs`) and one for recordings (`record.rs`), both made here. Pure.

use std::{borrow::Cow, ops::Range};

use reqwest::Url;

use crate::address;

/// Shorter than this is a placeholder, and striking it out would make an error unreadable.
const VALUE_BYTES_MIN: usize = 5;

/// A part of a value is struck out only when it is too long for a word that people use; and in a conversation, which must
/// stay what it was, so is a whole value.
const WORD_BYTES_MIN: usize = 8;

/// What stands in the words of an error where a secret stood.
const STRUCK: &str = "[key]";

/// What stands in a recording where a secret stood.
const HIDDEN: &str = "(hidden)";

/// How a header says what kind of token follows.
const SCHEMES: &[&str] = &["bearer", "basic", "token", "apikey", "key"];

/// Headers whose values are known to everybody; struck out of a conversation they would take ordinary words with them.
const PUBLIC_HEADERS: &[&str] =
    &["accept", "anthropic-beta", "anthropic-version", "content-type", "http-referer", "openai-beta", "referer", "user-agent", "x-title"];

/// Whether the value of a header may be a secret.
pub fn is_secret_header(name: &str) -> bool {
    !PUBLIC_HEADERS.iter().any(|public| public.eq_ignore_ascii_case(name.trim()))
}

/// Without `Debug`: it holds keys.
#[derive(Clone)]
pub(crate) struct Secrets {
    texts: Vec<String>,
    mark: &'static str,
}

impl Secrets {
    /// For the words of errors. A server repeats what it was sent in parts, as `sk-1` of `Bearer sk-1`, so every long word
    /// of a value is a secret too: an error may lose a word too many.
    pub(crate) fn of_errors(values: &[String], url: Option<&Url>) -> Self {
        let mut whole: Vec<String> = values.iter().map(|value| value.trim().to_owned()).collect();
        whole.extend(url.map(address::passwords).unwrap_or_default());
        let query_values = url.map(address::query_values).unwrap_or_default();
        let words = whole.iter().chain(&query_values).flat_map(|value| value.split_whitespace());
        let mut texts: Vec<String> = words.filter(|word| WORD_BYTES_MIN <= word.len()).map(str::to_owned).collect();
        texts.extend(whole.into_iter().filter(|value| VALUE_BYTES_MIN <= value.len()));
        Self::new(texts, STRUCK)
    }

    /// For conversations. Of a value only the whole is a secret, and the token after its scheme.
    pub(crate) fn of_conversations(values: &[String], base_urls: &[String]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for value in values.iter().map(|value| value.trim()) {
            texts.push(value.to_owned());
            texts.extend(token_in(value).map(str::to_owned));
        }
        for url in base_urls.iter().filter_map(|url| Url::parse(url.trim()).ok()) {
            texts.extend(address::passwords(&url));
            texts.extend(address::query_values(&url));
        }
        texts.retain(|text| WORD_BYTES_MIN <= text.len());
        Self::new(texts, HIDDEN)
    }

    fn new(mut texts: Vec<String>, mark: &'static str) -> Self {
        // A call's input and a server's body are texts of JSON, where a quote has a sign before it.
        let escaped: Vec<String> = texts.iter().filter_map(|text| in_json(text)).filter(|text| !texts.contains(text)).collect();
        texts.extend(escaped);
        texts.sort_unstable();
        texts.dedup();
        Self { texts, mark }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn strike<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let places = self.places_in(text);
        if places.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.without(text, 0..text.len(), &places)) }
    }

    /// Where secrets stand, in order; those that overlap are one.
    pub(crate) fn places_in(&self, text: &str) -> Vec<Range<usize>> {
        let found = |secret: &String| text.match_indices(secret.as_str()).map(|(at, secret)| at..at + secret.len()).collect::<Vec<_>>();
        let mut all: Vec<Range<usize>> = self.texts.iter().flat_map(found).collect();
        all.sort_unstable_by_key(|place| (place.start, place.end));
        let mut places: Vec<Range<usize>> = Vec::new();
        for place in all {
            match places.last_mut() {
                Some(last) if place.start < last.end => last.end = last.end.max(place.end),
                _ => places.push(place),
            }
        }
        places
    }

    /// A stretch of a text without these places; the mark stands where one begins.
    pub(crate) fn without(&self, text: &str, stretch: Range<usize>, places: &[Range<usize>]) -> String {
        let (mut shown, mut at) = (String::new(), stretch.start);
        for place in places.iter().filter(|place| stretch.start < place.end && place.start < stretch.end) {
            if stretch.start <= place.start {
                shown.push_str(&text[at..place.start]);
                shown.push_str(self.mark);
            }
            at = place.end.min(stretch.end);
        }
        shown.push_str(&text[at..stretch.end]);
        shown
    }
}

fn token_in(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(char::is_whitespace)?;
    SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)).then(|| token.trim())
}

/// As the text stands between the quotes of a JSON string.
fn in_json(text: &str) -> Option<String> {
    let json = serde_json::to_string(text).ok()?;
    Some(json.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(values: [&str; N]) -> Vec<String> {
        values.map(str::to_owned).to_vec()
    }

    #[test]
    fn of_a_header_an_error_loses_every_long_word_and_a_conversation_only_the_token() {
        let values = texts(["Bearer sk-secret-1", "our Application", "short", "abc"]);
        let errors = Secrets::of_errors(&values, None);
        assert_eq!(errors.strike("Bearer sk-secret-1 sk-secret-1 Application short abc"), "[key] [key] [key] [key] abc");
        let conversations = Secrets::of_conversations(&values, &[]);
        let said = "Bearer sk-secret-1, sk-secret-1, our Application, an Application, short, abc";
        assert_eq!(conversations.strike(said), "(hidden), (hidden), (hidden), an Application, short, abc");
    }

    #[test]
    fn the_password_and_the_query_of_an_address_are_secrets_and_its_version_is_not() {
        let urls = texts(["http://me:p%40ss-word@h/v1?key=query-key-1&api-version=2024-10-01-preview", "no address"]);
        let secrets = Secrets::of_conversations(&[], &urls);
        assert_eq!(
            secrets.strike("p@ss-word p%40ss-word query-key-1 2024-10-01-preview me"),
            "(hidden) (hidden) (hidden) 2024-10-01-preview me"
        );
        assert!(Secrets::of_conversations(&texts(["ollama"]), &[]).is_empty());
    }

    #[test]
    fn secrets_that_overlap_leave_no_rest_of_each_other() {
        let secrets = Secrets::of_conversations(&texts(["abcdefgh", "efghijkl", "cdefghij-longer"]), &[]);
        assert_eq!(secrets.strike("xabcdefghijklx, abcdefghij-longer, abcdefghabcdefgh"), "x(hidden)x, (hidden), (hidden)(hidden)");
        assert!(matches!(secrets.strike("nothing"), Cow::Borrowed(_)));
    }

    #[test]
    fn headers_that_everybody_sends_are_no_secrets() {
        assert!(!is_secret_header("Content-Type") && !is_secret_header("X-Title") && is_secret_header("authorization"));
    }
}
