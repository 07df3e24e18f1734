//! What went wrong, from a status, a body, a header or an event, in a form the loop can act on.
//!
//! Pure: reads what a server said and words it with what the user can do. Never decides about another attempt, and
//! never sees a key: `http.rs` strikes those out of the words.

use std::time::{Duration, SystemTime};

use posse_session::{ModelError, ModelFailure};
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Nobody waits longer for a server that asks for it; then it is asked again.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10 * 60);

/// A provider's message is a sentence or two; a stack trace helps nobody.
const MESSAGE_CHARS_MAX: usize = 1000;

/// What a server said about its refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Said {
    pub(crate) message: String,
    /// Its own names for the error, if any: type and code, joined by a space.
    pub(crate) kind: String,
    pub(crate) status: Option<u16>,
}

impl Said {
    /// Reads a body: JSON in one of the usual shapes, else its text.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // A proxy's error page says less than its status.
                let is_page = text.trim_start().starts_with('<');
                Self { message: if is_page { String::new() } else { shorten(&text) }, ..Self::default() }
            }
        }
    }

    pub(crate) fn from_value(value: &Value) -> Self {
        // Gemini puts its error into a list of one.
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let message = message_in(error).or_else(|| message_in(value)).unwrap_or_else(|| error.to_string());
        let names = ["type", "code", "status"].into_iter().filter_map(|key| error.get(key));
        let kind: Vec<&str> = names.clone().filter_map(Value::as_str).filter(|name| *name != "error").collect();
        let number = |name: &Value| name.as_u64().or_else(|| name.as_str()?.parse().ok());
        let status = names.filter_map(number).find(|number| (400..600).contains(number)).map(|status| status as u16);
        Self { message: shorten(&message), kind: kind.join(" "), status }
    }

    /// What the server's own names for the error say; `None` when they say nothing to us. Of several the gravest counts:
    /// OpenAI calls a bad key an `invalid_request_error` with the code `invalid_api_key`.
    fn named_failure(&self) -> Option<ModelFailure> {
        let is = |names: &[&str]| self.kind.split(' ').any(|kind| names.iter().any(|name| name.eq_ignore_ascii_case(kind)));
        if is(&["authentication_error", "permission_error", "invalid_api_key", "billing_error", "UNAUTHENTICATED", "PERMISSION_DENIED"]) {
            Some(ModelFailure::Auth)
        } else if is(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
            Some(ModelFailure::RateLimited)
        } else if is(&["overloaded_error", "UNAVAILABLE"]) {
            Some(ModelFailure::Overloaded)
        } else if is(&["api_error", "server_error", "internal_server_error", "timeout_error", "INTERNAL"]) {
            Some(ModelFailure::Server)
        } else if is(&["invalid_request_error", "not_found_error", "request_too_large", "INVALID_ARGUMENT", "NOT_FOUND"]) {
            Some(if self.mentions(TOO_LONG) { ModelFailure::TooLong } else { ModelFailure::BadRequest })
        } else {
            None
        }
    }

    fn mentions(&self, words: &[&str]) -> bool {
        let all = format!("{} {}", self.kind, self.message).to_ascii_lowercase();
        words.iter().any(|word| all.contains(word))
    }
}

fn message_in(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let found = ["message", "detail", "msg", "error_description"].into_iter().find_map(|key| value.get(key))?;
    match found {
        Value::String(text) => Some(text.clone()),
        // FastAPI: a list of what is wrong, each with its place.
        Value::Array(list) => Some(list.iter().filter_map(message_in).collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// One line, not too long.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

const TOO_LONG: &[&str] = &[
    "context_length",
    "context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "input is too long",
    "input token count",
    "too many tokens",
    "maximum prompt length",
];

/// Paying is the only cure, so waiting is not one.
const NO_CREDIT: &[&str] = &["insufficient_quota", "credit balance", "insufficient balance", "billing_hard_limit"];

pub(crate) fn of_status(status: u16, said: &Said) -> ModelFailure {
    match status {
        401 | 403 => ModelFailure::Auth,
        402 | 429 if said.mentions(NO_CREDIT) => ModelFailure::Auth,
        429 => ModelFailure::RateLimited,
        503 | 529 => ModelFailure::Overloaded,
        408 | 409 | 500..=599 => ModelFailure::Server,
        400 | 413 | 422 if said.mentions(TOO_LONG) => ModelFailure::TooLong,
        _ => ModelFailure::BadRequest,
    }
}

/// Whether a document or an event is an error, in any of the usual shapes.
pub(crate) fn is_error(value: &Value) -> bool {
    // Gemini puts its error into a list of one.
    let value = value.get(0).unwrap_or(value);
    value.get("error").is_some_and(|error| !error.is_null()) || value["object"] == "error" || value["type"] == "error"
}

/// An error that came inside a stream, after a good status. Told apart as finely as a status tells it: what stays wrong
/// must not be asked for again.
pub(crate) fn in_stream(value: &Value) -> ModelError {
    let said = Said::from_value(value);
    let failure = match (said.status, said.named_failure()) {
        (Some(status), _) => of_status(status, &said),
        (None, _) if said.mentions(NO_CREDIT) => ModelFailure::Auth,
        (None, Some(failure)) => failure,
        (None, None) if said.mentions(&["overloaded"]) => ModelFailure::Overloaded,
        (None, None) if said.mentions(&["rate_limit", "rate limit"]) => ModelFailure::RateLimited,
        (None, None) if said.mentions(&["api_error", "server_error", "internal"]) => ModelFailure::Server,
        (None, None) if said.mentions(TOO_LONG) => ModelFailure::TooLong,
        (None, None) => ModelFailure::Cut,
    };
    let kind = if said.kind.is_empty() { String::new() } else { format!(" ({})", said.kind) };
    ModelError::new(failure, format!("the provider broke off: {}{kind}", said.message))
}

/// What the user can do about it, beyond waiting.
pub(crate) fn advice(failure: ModelFailure, status: u16, said: &Said, key_place: &str) -> String {
    match failure {
        ModelFailure::Auth if said.mentions(NO_CREDIT) => "check the account's plan and credit".to_owned(),
        ModelFailure::Auth => format!("check {key_place}"),
        ModelFailure::TooLong => "the conversation is longer than this model takes".to_owned(),
        ModelFailure::BadRequest if status == 404 => "check the model's name and the base URL".to_owned(),
        ModelFailure::BadRequest if (300..400).contains(&status) => "the server moved; check the base URL".to_owned(),
        _ => String::new(),
    }
}

/// How long the server asks us to wait.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let field = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = field("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).map(|number| number / 1000.0);
    let seconds = milliseconds.or_else(|| {
        let text = field("retry-after")?;
        let date = || httpdate::parse_http_date(text).ok().map(|at| at.duration_since(now).unwrap_or_default().as_secs_f64());
        text.parse::<f64>().ok().or_else(date)
    })?;
    if seconds.is_nan() {
        return None;
    }
    Some(Duration::from_secs_f64(seconds.clamp(0.0, RETRY_AFTER_MAX.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_usual_error_body_gives_its_message() {
        for (body, message, kind) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "Overloaded", "overloaded_error"),
            (
                r#"{"error":{"message":"Bad key","type":"invalid_request_error","code":"invalid_api_key"}}"#,
                "Bad key",
                "invalid_request_error invalid_api_key",
            ),
            (r#"{"error":"model not found"}"#, "model not found", ""),
            (r#"{"object":"error","message":"no","code":400}"#, "no", ""),
            (r#"[{"error":{"code":400,"message":"too big","status":"INVALID_ARGUMENT"}}]"#, "too big", "INVALID_ARGUMENT"),
            (r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, "field required", ""),
            (r#"{"detail":"Not Found"}"#, "Not Found", ""),
            ("upstream\n  timed out", "upstream timed out", ""),
            ("<html><body>502</body></html>", "", ""),
        ] {
            let said = Said::from_body(body.as_bytes());
            assert_eq!((said.message.as_str(), said.kind.as_str()), (message, kind), "{body}");
        }
    }

    #[test]
    fn a_status_says_what_to_do_next() {
        let plain = Said::default();
        let said = |message: &str| Said { message: message.into(), ..Said::default() };
        for (status, said, failure) in [
            (400, plain.clone(), ModelFailure::BadRequest),
            (400, said("prompt is too long: 210000 tokens > 200000 maximum"), ModelFailure::TooLong),
            (400, said("This model's maximum context length is 8192 tokens"), ModelFailure::TooLong),
            (401, plain.clone(), ModelFailure::Auth),
            (403, plain.clone(), ModelFailure::Auth),
            (404, plain.clone(), ModelFailure::BadRequest),
            (413, plain.clone(), ModelFailure::BadRequest),
            (422, plain.clone(), ModelFailure::BadRequest),
            (429, plain.clone(), ModelFailure::RateLimited),
            (429, said("insufficient_quota"), ModelFailure::Auth),
            (500, plain.clone(), ModelFailure::Server),
            (502, plain.clone(), ModelFailure::Server),
            (503, plain.clone(), ModelFailure::Overloaded),
            (529, plain, ModelFailure::Overloaded),
        ] {
            assert_eq!(of_status(status, &said), failure, "{status} {said:?}");
        }
    }

    #[test]
    fn an_error_inside_a_stream_is_told_by_its_type() {
        for (kind, message, failure) in [
            ("overloaded_error", "x", ModelFailure::Overloaded),
            ("rate_limit_error", "x", ModelFailure::RateLimited),
            ("api_error", "x", ModelFailure::Server),
            ("server_error", "x", ModelFailure::Server),
            ("authentication_error", "x", ModelFailure::Auth),
            ("permission_error", "x", ModelFailure::Auth),
            ("not_found_error", "model: x", ModelFailure::BadRequest),
            ("invalid_request_error", "an internal name is missing", ModelFailure::BadRequest),
            ("invalid_request_error", "prompt is too long: 9 > 8", ModelFailure::TooLong),
            ("insufficient_quota", "x", ModelFailure::Auth),
            ("something", "x", ModelFailure::Cut),
        ] {
            let anthropic = json!({ "type": "error", "error": { "type": kind, "message": message } });
            let openai = json!({ "error": { "type": kind, "code": null, "message": message } });
            for error in [anthropic, openai] {
                assert_eq!(in_stream(&error).failure, failure, "{error}");
            }
        }
        for (error, failure) in [
            (json!({ "type": "invalid_request_error", "code": "invalid_api_key" }), ModelFailure::Auth),
            (json!({ "type": "invalid_request_error", "code": "context_length_exceeded" }), ModelFailure::TooLong),
            (json!({ "type": "rate_limit_error", "code": "insufficient_quota" }), ModelFailure::Auth),
            (json!({ "type": "invalid_request_error", "code": "rate_limit_exceeded" }), ModelFailure::RateLimited),
            (json!({ "code": 400, "message": "no" }), ModelFailure::BadRequest),
            (json!({ "code": "401", "message": "no" }), ModelFailure::Auth),
            (json!({ "code": 402, "message": "insufficient balance" }), ModelFailure::Auth),
            (json!({ "code": 429, "message": "slow down" }), ModelFailure::RateLimited),
            (json!({ "code": 502, "message": "upstream" }), ModelFailure::Server),
        ] {
            assert_eq!(in_stream(&json!({ "error": error })).failure, failure, "{error}");
        }
        assert_eq!(in_stream(&json!([{ "error": { "code": 400, "message": "x" } }])).failure, ModelFailure::BadRequest);
    }

    #[test]
    fn a_wait_is_understood_in_every_form_and_never_absurd() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        for (name, value, expected) in [
            ("retry-after", "7", Some(7.0)),
            ("retry-after", "0.5", Some(0.5)),
            ("retry-after", "-3", Some(0.0)),
            ("retry-after", "99999999999999999999", Some(600.0)),
            ("retry-after", "inf", Some(600.0)),
            ("retry-after", "NaN", None),
            ("retry-after", "soon", None),
            ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT", Some(30.0)),
            ("retry-after", "Wed, 21 Oct 2020 07:28:30 GMT", Some(0.0)),
            ("retry-after", "Wed, 21 Oct 2099 07:28:30 GMT", Some(600.0)),
            ("retry-after-ms", "1500", Some(1.5)),
            ("date", "7", None),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs_f64), "{name}: {value}");
        }
    }
}
