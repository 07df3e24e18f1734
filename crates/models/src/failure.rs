//! What went wrong, from a status, a body, a header or an event, in a form the loop can act on.
//!
//! Pure: reads what a server said and words it with what the user can do. Never decides about another attempt, and
//! never knows a key: `http.rs` strikes those out of the words and cuts long ones, in this order, because half a key is
//! not recognised any more.

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
    /// One line, however long.
    pub(crate) message: String,
    /// Its own names for the error, if any: type and code, joined by a space.
    pub(crate) kind: String,
    pub(crate) status: Option<u16>,
    /// What it asks us to wait, said in the body instead of a header.
    pub(crate) retry_after: Option<Duration>,
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
                Self { message: if is_page { String::new() } else { one_line(&text) }, ..Self::default() }
            }
        }
    }

    pub(crate) fn from_value(value: &Value) -> Self {
        // Gemini puts its error into a list of one.
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let message = message_in(error).or_else(|| message_in(value)).unwrap_or_else(|| error.to_string());
        let message = [Some(message), said_upstream(error)].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let names = ["type", "code", "status"].into_iter().filter_map(|key| error.get(key));
        let kind: Vec<&str> = names.clone().filter_map(Value::as_str).filter(|name| *name != "error").collect();
        let number = |name: &Value| name.as_u64().or_else(|| name.as_str()?.parse().ok());
        let status = names.filter_map(number).find(|number| (400..600).contains(number)).map(|status| status as u16);
        let retry_after = delay_in(error).or_else(|| delay_worded(&message)).and_then(wait_of);
        Self { message: one_line(&message), kind: kind.join(" "), status, retry_after }
    }

    /// What the server's own names for the error say; `None` when they say nothing to us. Of several the gravest counts:
    /// OpenAI calls a bad key an `invalid_request_error` with the code `invalid_api_key`.
    fn named_failure(&self) -> Option<ModelFailure> {
        let is = |names: &[&str]| self.kind.split(' ').any(|kind| names.iter().any(|name| name.eq_ignore_ascii_case(kind)));
        if is(&["authentication_error", "permission_error", "invalid_api_key", "billing_error", "UNAUTHENTICATED", "PERMISSION_DENIED"])
            || self.mentions(BAD_KEY)
        {
            Some(ModelFailure::Auth)
        } else if is(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
            Some(ModelFailure::RateLimited)
        } else if is(&["overloaded_error", "UNAVAILABLE"]) {
            Some(ModelFailure::Overloaded)
        } else if is(&["api_error", "server_error", "internal_server_error", "timeout_error", "INTERNAL"]) {
            Some(if is_too_long(self) { ModelFailure::TooLong } else { ModelFailure::Server })
        } else if is(&["request_too_large"]) {
            Some(ModelFailure::TooLong)
        } else if is(&["invalid_request_error", "invalid_prompt", "not_found_error", "INVALID_ARGUMENT", "NOT_FOUND"]) {
            Some(if is_too_long(self) { ModelFailure::TooLong } else { ModelFailure::BadRequest })
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
    let message = match found {
        Value::String(text) => Some(text.clone()),
        // FastAPI: a list of what is wrong, each with its place.
        Value::Array(list) => Some(list.iter().filter_map(message_in).collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty()),
        // Mistral puts that list into the message.
        Value::Object(_) => message_in(found),
        _ => None,
    }?;
    Some(match place_in(value) {
        Some(place) => format!("{place}: {message}"),
        None => message,
    })
}

/// Where in the body something is wrong, as FastAPI says it: the name of a field that a server does not know is all it tells.
fn place_in(value: &Value) -> Option<String> {
    let steps = value.get("loc")?.as_array()?.iter().filter(|step| *step != "body");
    let steps: Vec<String> = steps.map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned)).collect();
    (!steps.is_empty()).then(|| steps.join("."))
}

/// What a router's own provider said: OpenRouter's message is only that it said something.
fn said_upstream(error: &Value) -> Option<String> {
    let raw = error.get("metadata")?.get("raw")?;
    let inner = match raw {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| raw.clone()),
        other => other.clone(),
    };
    let message = inner.get("error").and_then(message_in).or_else(|| message_in(&inner))?;
    (!message.trim().is_empty()).then_some(message)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One line, not too long. Secrets must be out of it already.
pub(crate) fn shorten(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// How servers say that a conversation is longer than the model takes, in lower case.
const TOO_LONG: &[&str] = &[
    // OpenAI, Azure, DeepSeek, vLLM, OpenRouter, Mistral, Fireworks.
    "context_length",
    "context length",
    "context window",
    "input tokens exceed",
    // llama.cpp, its first sentence since 2025 and the one before.
    "context size",
    "context shift is disabled",
    // LM Studio.
    "when context the overflows",
    // Anthropic; and when the answer no longer fits behind it.
    "context limit",
    "prompt is too long",
    "prompt too long",
    // Amazon Bedrock.
    "input is too long",
    // Gemini.
    "input token count",
    "exceeds the maximum number of tokens",
    // xAI.
    "maximum prompt length",
    // Groq, Cerebras, Ollama.
    "reduce the length of the messages",
    "reduce the length of your prompt",
    "please reduce the length",
    // vLLM.
    "longer than the maximum model length",
    "max_model_len",
    // Moonshot.
    "exceeded model token limit",
    // GitHub's relay.
    "prompt token count",
    // Together and others on top of text-generation-inference.
    "tokens + `max_new_tokens` must be",
    "too many tokens",
    // A relay that takes only so many bytes.
    "request entity too large",
    "request_too_large",
];

/// A limit on tokens over time sounds alike, but waiting helps against it.
const RATE: &[&str] =
    &["per minute", "per min ", "per-minute", "per day", "(tpm)", "rate limit", "rate_limit", "please wait", "try again in"];

/// A limit on the answer alone: a shorter conversation changes nothing.
const ANSWER_LIMIT: &[&str] = &["completion tokens", "maximum allowed number of output tokens", "max_tokens is too large"];

/// Whether the server says that the conversation is longer than the model takes, in any server's words.
pub(crate) fn is_too_long(said: &Said) -> bool {
    let is_other_limit = said.mentions(RATE) || (said.mentions(ANSWER_LIMIT) && !said.mentions(&["context length", "context_length"]));
    said.mentions(TOO_LONG) && !is_other_limit
}

/// Gemini says with a 400 that it does not know the key.
const BAD_KEY: &[&str] = &["api key not valid", "api_key_invalid", "api key expired"];

/// Paying is the only cure, so waiting is not one.
const NO_CREDIT: &[&str] =
    &["insufficient_quota", "credit balance", "insufficient balance", "insufficient credits", "more credits", "billing_hard_limit"];

/// Whether it is about money, by the status or by the words: Anthropic says it with a 400.
pub(crate) fn is_about_money(status: u16, said: &Said) -> bool {
    status == 402 || (matches!(status, 400 | 403 | 429) && said.mentions(NO_CREDIT))
}

pub(crate) fn of_status(status: u16, said: &Said) -> ModelFailure {
    match status {
        _ if is_about_money(status, said) => ModelFailure::Auth,
        401 | 403 => ModelFailure::Auth,
        400 if said.mentions(BAD_KEY) => ModelFailure::Auth,
        429 => ModelFailure::RateLimited,
        // A request above a limit per minute, as Groq says it.
        413 if said.mentions(RATE) => ModelFailure::RateLimited,
        413 => ModelFailure::TooLong,
        // llama.cpp says it with a status of 500.
        400 | 422 | 500 if is_too_long(said) => ModelFailure::TooLong,
        // The same request would find the same server.
        500 if said.mentions(SET_UP) => ModelFailure::BadRequest,
        503 | 529 => ModelFailure::Overloaded,
        408 | 409 | 500..=599 => ModelFailure::Server,
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
        (None, None) if is_too_long(&said) => ModelFailure::TooLong,
        (None, None) if said.mentions(&["api_error", "server_error", "internal"]) => ModelFailure::Server,
        (None, None) => ModelFailure::Cut,
    };
    let kind = if said.kind.is_empty() { String::new() } else { format!(" ({})", said.kind) };
    ModelError { retry_after: said.retry_after, ..ModelError::new(failure, format!("the provider broke off: {}{kind}", said.message)) }
}

/// Servers that were started without what a request with tools needs, each in its words: llama.cpp, vLLM, Ollama,
/// OpenRouter.
const SET_UP: &[&str] = &["requires --jinja", "--enable-auto-tool-choice", "does not support tools", "support tool use"];

/// What to do about a server that cannot take tools the way it runs.
fn set_up_advice(said: &Said) -> &'static str {
    if said.mentions(&["--enable-auto-tool-choice"]) {
        "start vLLM with --enable-auto-tool-choice and --tool-call-parser (its documentation names the parser of each model)"
    } else if said.mentions(&["requires --jinja"]) {
        "start llama-server with --jinja"
    } else {
        "this model cannot call tools; choose one that can, or run an agent without tools"
    }
}

/// What the user can do about it, beyond waiting.
pub(crate) fn advice(failure: ModelFailure, status: u16, said: &Said, key_place: &str) -> String {
    match failure {
        ModelFailure::BadRequest if said.mentions(SET_UP) => set_up_advice(said).to_owned(),
        ModelFailure::Auth if is_about_money(status, said) => "check the account's plan and credit".to_owned(),
        ModelFailure::Auth => format!("check {key_place}"),
        ModelFailure::TooLong => "the conversation is longer than this model takes".to_owned(),
        ModelFailure::BadRequest if status == 404 => "check the model's name and the base URL".to_owned(),
        ModelFailure::BadRequest if (300..400).contains(&status) => "the server moved; check the base URL".to_owned(),
        ModelFailure::BadRequest if status == 402 => "check the account's plan and credit".to_owned(),
        // The same request would be refused again.
        ModelFailure::BadRequest => {
            "it refuses this request; try another model with -m, or check what posse.json says of this one".to_owned()
        }
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
    wait_of(seconds)
}

/// A wait that somebody can live with.
fn wait_of(seconds: f64) -> Option<Duration> {
    (!seconds.is_nan()).then(|| Duration::from_secs_f64(seconds.clamp(0.0, RETRY_AFTER_MAX.as_secs_f64())))
}

/// Gemini's `RetryInfo`, in seconds.
fn delay_in(error: &Value) -> Option<f64> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    delay.trim().strip_suffix('s')?.parse().ok()
}

/// OpenAI's "Please try again in 1.5s" or "in 250ms", in seconds; inside a stream there is no header for it.
fn delay_worded(message: &str) -> Option<f64> {
    let message = message.to_ascii_lowercase();
    let rest = message.split_once("try again in ")?.1;
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let number: f64 = rest[..end].parse().ok()?;
    let unit = rest[end..].trim_start();
    if unit.starts_with("ms") { Some(number / 1000.0) } else { unit.starts_with('s').then_some(number) }
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
            (
                r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error"}"#,
                "stream_options.include_usage: Extra inputs are not permitted",
                "invalid_request_error",
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long\"}}","provider_name":"Anthropic"}}}"#,
                "Provider returned error: prompt is too long",
                "",
            ),
            (r#"{"error":{"message":"Provider returned error","metadata":{"raw":"no JSON"}}}"#, "Provider returned error: no JSON", ""),
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
            (413, plain.clone(), ModelFailure::TooLong),
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

    /// As the servers word it, each told by status and again inside a stream.
    #[test]
    fn a_conversation_too_long_is_recognised_in_every_servers_words() {
        for (server, status, kind, message) in [
            ("OpenAI", 400, "invalid_request_error context_length_exceeded", "Your input exceeds the context window of this model."),
            (
                "OpenAI before",
                400,
                "invalid_request_error",
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            ),
            ("Azure", 400, "context_length_exceeded", "Input tokens exceed the configured limit of 272000 tokens."),
            ("Anthropic", 400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
            (
                "Anthropic with the answer",
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
            ),
            ("Anthropic by bytes", 413, "request_too_large", "Request exceeds the maximum size"),
            ("llama.cpp", 400, "exceed_context_size_error", "the request exceeds the available context size, try increasing it"),
            ("llama.cpp before", 500, "server_error", "context shift is disabled"),
            (
                "vLLM",
                400,
                "BadRequestError",
                "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).",
            ),
            ("vLLM engine", 400, "BadRequestError", "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
            ("Ollama", 400, "invalid_request_error", "prompt too long; exceeded max context length by 12 tokens"),
            (
                "LM Studio",
                400,
                "",
                "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
            ),
            ("OpenRouter", 400, "", "This endpoint's maximum context length is 128000 tokens. However, you requested about 130000 tokens."),
            ("Groq", 400, "invalid_request_error context_length_exceeded", "Please reduce the length of the messages or completion."),
            ("Cerebras", 400, "", "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"),
            (
                "Mistral",
                400,
                "invalid_request_prompt",
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            ),
            ("xAI", 400, "", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
            (
                "DeepSeek",
                400,
                "invalid_request_error",
                "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (132000 in the messages, 8000 in the completion tokens).",
            ),
            ("Gemini", 400, "INVALID_ARGUMENT", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
            (
                "Moonshot",
                400,
                "invalid_request_error",
                "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
            ),
            ("Fireworks", 400, "invalid_request_error", "The prompt is too long: 140000, model maximum context length: 131071"),
            ("Together", 422, "", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097"),
            ("Bedrock", 400, "ValidationException", "Input is too long for requested model."),
        ] {
            let said = Said { message: message.into(), kind: kind.into(), ..Said::default() };
            assert!(status == 413 || is_too_long(&said), "{server}");
            assert_eq!(of_status(status, &said), ModelFailure::TooLong, "{server}");
            let error = json!({ "error": { "message": message, "type": kind.split(' ').next(), "code": kind.split(' ').nth(1) } });
            assert_eq!(in_stream(&error).failure, ModelFailure::TooLong, "{server} in a stream");
            let with_status = json!({ "error": { "message": message, "code": status } });
            assert_eq!(in_stream(&with_status).failure, ModelFailure::TooLong, "{server} in a stream with a status");
        }
        assert_eq!(of_status(413, &Said::default()), ModelFailure::TooLong, "HTTP 413 without a word");
    }

    #[test]
    fn another_limit_is_not_a_conversation_too_long() {
        for (status, message, failure) in [
            (429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Requested 31000", ModelFailure::RateLimited),
            (429, "This request would exceed your organization's rate limit of 30,000 input tokens per minute", ModelFailure::RateLimited),
            (
                413,
                "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size",
                ModelFailure::RateLimited,
            ),
            (429, "Too many tokens, please wait before trying again.", ModelFailure::RateLimited),
            (
                400,
                "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for this model",
                ModelFailure::BadRequest,
            ),
            (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens", ModelFailure::BadRequest),
            (500, "the context manager raised", ModelFailure::Server),
            (500, "tools param requires --jinja flag", ModelFailure::BadRequest),
        ] {
            let said = Said { message: message.into(), ..Said::default() };
            assert!(!is_too_long(&said), "{message}");
            assert_eq!(of_status(status, &said), failure, "{message}");
        }
    }

    #[test]
    fn a_server_that_runs_without_tools_is_told_how_to_run_with_them() {
        for (message, words) in [
            (
                r#""auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"#,
                "start vLLM with --enable-auto-tool-choice",
            ),
            ("tools param requires --jinja flag", "start llama-server with --jinja"),
            ("registry.ollama.ai/library/gemma:2b does not support tools", "choose one that can"),
            ("No endpoints found that support tool use.", "choose one that can"),
        ] {
            let said = Said { message: message.into(), ..Said::default() };
            let advice = advice(ModelFailure::BadRequest, 400, &said, "the key");
            assert!(advice.contains(words), "{message}: {advice}");
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
    fn a_wait_may_be_said_in_the_body() {
        let gemini = |delay: &str| json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota", "details": [{ "@type": "type.googleapis.com/google.rpc.Help" }, { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay }] } });
        let openai = |words: &str| json!({ "type": "error", "code": "rate_limit_exceeded", "message": words });
        for (error, seconds) in [
            (gemini("36s"), Some(36.0)),
            (gemini("0.25s"), Some(0.25)),
            (gemini("99999s"), Some(600.0)),
            (gemini("soon"), None),
            (openai("Rate limit reached. Please try again in 11.054s. Visit"), Some(11.054)),
            (openai("Please try again in 250ms."), Some(0.25)),
            (openai("Please try again in 1 second"), Some(1.0)),
            (openai("Please try again in a while"), None),
            (openai("Please try again in 3 minutes"), None),
            (openai("Please try again in "), None),
        ] {
            let told = in_stream(&error);
            assert_eq!((told.failure, told.retry_after), (ModelFailure::RateLimited, seconds.map(Duration::from_secs_f64)), "{error}");
            assert_eq!(Said::from_value(&error).retry_after, told.retry_after);
        }
    }

    #[test]
    fn geminis_refusals_are_told_apart() {
        for (message, failure) in [
            ("API key not valid. Please pass a valid API key.", ModelFailure::Auth),
            ("API key expired. Please renew the API key.", ModelFailure::Auth),
            ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", ModelFailure::TooLong),
            ("Function call is missing a thought_signature in functionCall parts.", ModelFailure::BadRequest),
        ] {
            let error = json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": message } });
            assert_eq!(of_status(400, &Said::from_value(&error)), failure, "{message}");
            assert_eq!(in_stream(&error).failure, failure, "{message}");
        }
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
