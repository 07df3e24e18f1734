//! One POST and the stream it answers with.
//!
//! Owns everything that is about connections: the address, the headers, the clients, waiting, and wording what the
//! network did. Knows no provider's JSON: events go to a [`Fold`]. Clients are built at the first request and shared by
//! the whole process, so that steps and sessions reuse connections; plain and loopback ones never read a certificate.

mod document;

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime},
};

pub(crate) use document::{Document, document};
use posse_session::{Live, ModelError, ModelFailure, Progress, Reply};
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::timeout;

use crate::{
    address::{self, is_azure},
    body::Body,
    failure::{self, Said, shorten},
    fold::{CUT_WORDS, Fold, Phase, REPLY_BYTES_MAX, broken, is_object, too_large},
    provider::{Api, KnownProvider, ProviderSpec, known_providers},
    secrets::{Secrets, is_secret_header},
    sse::{Event, Parser},
};

/// A host that takes longer to accept a connection will not answer either.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Two hundred subagents may talk at once; that many idle sockets afterwards help nobody.
const IDLE_CONNECTIONS_MAX: usize = 32;

/// An error message is short; the rest of a long body is not read.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;

/// An error whose body does not come is told without it.
const ERROR_BODY_WAIT_MAX: Duration = Duration::from_secs(5);

/// After the finish reason only a usage chunk and `[DONE]` follow, at once or never.
const ENDING_WAIT_MAX: Duration = Duration::from_secs(5);

/// The end of a body follows its last event at once. Seen here, the connection can be used again; a server that keeps
/// the stream open costs this much and a new connection.
const LINGER_MAX: Duration = Duration::from_millis(50);

/// Where requests of one provider go.
pub(crate) struct Endpoint {
    url: Result<Url, String>,
    headers: HeaderMap,
    road: Road,
    /// Never to appear in words.
    secrets: Secrets,
    /// Which key it is that is sent, and what can be done about it.
    key_place: String,
    /// Who answers and where, for the words of a refusal: `mock/m1 at http://127.0.0.1:9000`.
    who: String,
    /// Set when asking is pointless: this provider needs a key, or a part of its address, and has none.
    missing_key: Option<String>,
}

impl Endpoint {
    /// Where this provider answers for the model of that name on the wire.
    pub(crate) fn new(provider: &ProviderSpec, model: &str) -> Self {
        let known = known_providers().iter().find(|known| known.name == provider.name);
        let key = provider.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let url = address::join(&provider.base_url, provider.api, model);
        let usual = known.and_then(|known| known.key_env.first());
        let usual_words = || match usual {
            Some(variable) => format!("the key in {variable}"),
            None => format!("the api_key of provider \"{}\"", provider.name),
        };
        let key_place = provider.key_place.clone().unwrap_or_else(usual_words);
        let needs_key = known.is_some_and(|known| is_its_own(known, url.as_ref().ok()));
        let missing_key = usual
            .filter(|_| needs_key && key.is_none() && provider.headers.is_empty())
            .map(|variable| format!("no key for {}: set {variable}", provider.name));
        let missing_key = missing_part(provider).or(missing_key);
        let private = provider.headers.iter().filter(|(name, _)| is_secret_header(name)).map(|(_, value)| value.clone());
        let values: Vec<String> = key.map(str::to_owned).into_iter().chain(private).collect();
        let secrets = Secrets::of_errors(&values, url.as_ref().ok());
        let road = url.as_ref().map(Road::to).unwrap_or_default();
        let own = own_header(provider, key, url.as_ref().ok());
        // An origin has no password in it.
        let place = url.as_ref().map_or(String::new(), |url| format!(" at {}", url.origin().ascii_serialization()));
        let who = format!("{}/{model}{place}", provider.name);
        Self { road, headers: headers(provider.api, own, &provider.headers), url, secrets, key_place, who, missing_key }
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.url.as_ref().ok()?.host_str()
    }

    /// Sends the body and folds the answer. One attempt; dropping it closes the connection.
    pub(crate) async fn exchange<F: Fold>(&self, body: Body, idle_max: Duration, fold: F, live: &dyn Live) -> Result<Reply, ModelError> {
        let answer = match self.open(body, idle_max).await {
            Ok((response, Shape::Stream)) => read(response, idle_max, fold, live).await,
            Ok((response, Shape::Document)) => read_document(response, idle_max, fold, live).await,
            // What the server said is told already, and what to do stands behind it.
            Err(error) => return Err(ModelError { words: self.secrets.strike(&error.words).into_owned(), ..error }),
        };
        answer.map_err(|error| ModelError { words: self.told(&error.words), ..error })
    }

    /// Everything up to the first byte of an answer.
    async fn open(&self, body: Body, idle_max: Duration) -> Result<(Response, Shape), ModelError> {
        if let Some(words) = &self.missing_key {
            return Err(ModelError::new(ModelFailure::NeedsModel, words));
        }
        let url = self.url.as_ref().map_err(|words| ModelError::new(ModelFailure::BadRequest, words))?;
        tracing::debug!(url = address::shown(url), bytes = body.len(), "request");
        let sent = client(self.road)?.post(url.clone()).headers(self.headers.clone()).body(reqwest::Body::wrap(body)).send();
        let response = match timeout(idle_max, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable_server(url, &error)),
            Err(_) => return Err(ModelError::new(ModelFailure::Idle, idle_words(idle_max))),
        };
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match (content_type.contains("json"), content_type.contains("html")) {
            _ if !response.status().is_success() => Err(self.refusal(response).await),
            (true, _) => Ok((response, Shape::Document)),
            (false, false) => Ok((response, Shape::Stream)),
            (false, true) => Err(self.refusal(response).await),
        }
    }

    /// Words what the server said instead of a stream.
    async fn refusal(&self, mut response: Response) -> ModelError {
        let status = response.status();
        let retry_after = failure::retry_after(response.headers(), SystemTime::now());
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(bytes)) = response.chunk().await
                && body.len() < ERROR_BODY_BYTES_MAX
            {
                body.extend_from_slice(&bytes[..bytes.len().min(ERROR_BODY_BYTES_MAX - body.len())]);
            }
        };
        // Without the whole body its beginning is still worth reading.
        let _ = timeout(ERROR_BODY_WAIT_MAX, read).await;
        let said = Said::from_body(&body);
        if status.is_success() {
            return a_page(&self.told(&said.message));
        }
        let failure = failure::of_status(status.as_u16(), &said);
        let advice = failure::advice(failure, status.as_u16(), &said, &self.key_place);
        let refused = [status_words(status), self.told(&said.message)].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
        // What is said first is still there where a line is cut.
        let refused = format!("{} ({})", refused.join("; "), self.who);
        let words = [refused, advice].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
        ModelError { retry_after: retry_after.or(said.retry_after), ..ModelError::new(failure, words.join("; ")) }
    }

    /// What a server said, without what must stay secret, and then not too long: half a key would not be found any more.
    pub(crate) fn told(&self, words: &str) -> String {
        shorten(&self.secrets.strike(words))
    }
}

/// Reads the stream to its end, or to whatever ends it.
async fn read<F: Fold>(mut response: Response, idle_max: Duration, mut fold: F, live: &dyn Live) -> Result<Reply, ModelError> {
    let mut parser = Parser::default();
    let mut counted = fold.counted();
    let mut has_begun = false;
    loop {
        let wait = match fold.phase() {
            Phase::Open => idle_max,
            Phase::Ending => idle_max.min(ENDING_WAIT_MAX),
            Phase::Over => break,
        };
        let bytes = match timeout(wait, response.chunk()).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => {
                if let Some(event) = last_event(std::mem::take(&mut parser)) {
                    fold.push(&event, &mut |progress| live.show(progress));
                }
                break;
            }
            // The answer itself is whole.
            Ok(Err(_)) | Err(_) if fold.phase() == Phase::Ending => break,
            Ok(Err(error)) => {
                let words = format!("the connection broke in the middle of the answer: {}", innermost(&error));
                return Err(broken(&fold, ModelFailure::Cut, words));
            }
            Err(_) => return Err(broken(&fold, ModelFailure::Idle, idle_words(idle_max))),
        };
        if !has_begun && !is_idle_talk(&bytes) {
            has_begun = true;
            live.show(Progress::Begun);
        }
        let Ok(events) = parser.feed(&bytes) else {
            return Err(broken(&fold, ModelFailure::Malformed, "the server sent an event larger than any answer"));
        };
        if events.is_empty() {
            live.show(Progress::Alive);
        }
        // Text that arrived together is shown together: whoever watches need not keep up with every token of a quick server.
        let mut text = String::new();
        for event in events {
            fold.push(&event, &mut |progress| match progress {
                Progress::Text(piece) => text.push_str(&piece),
                other => {
                    show_text(live, &mut text);
                    live.show(other);
                }
            });
        }
        show_text(live, &mut text);
        // Whoever drops this stream wants to know what it has cost.
        if fold.counted() != counted {
            counted = fold.counted();
            live.show(Progress::Counted(counted));
        }
    }
    let answer = fold.finish();
    if answer.is_ok() {
        let _ = timeout(LINGER_MAX, async { while let Ok(Some(_)) = response.chunk().await {} }).await;
    }
    answer
}

/// The last event of a body that ended in good order. Some servers leave out the blank line behind it, or even the end of
/// its line; if its JSON is whole, so is the event.
pub(crate) fn last_event(parser: Parser) -> Option<Event> {
    parser.end().filter(|event| event.data.trim() == "[DONE]" || is_object(&event.data))
}

/// Whether nothing came but comments: servers send them while a request waits to be read.
fn is_idle_talk(bytes: &[u8]) -> bool {
    bytes.split(|byte| matches!(byte, b'\n' | b'\r')).all(|line| line.trim_ascii().is_empty() || line.starts_with(b":"))
}

fn show_text(live: &dyn Live, text: &mut String) {
    if !text.is_empty() {
        live.show(Progress::Text(std::mem::take(text)));
    }
}

/// Reads an answer that is one document: asked for as such, or from a server that cannot stream.
async fn read_document<F: Fold>(mut response: Response, idle_max: Duration, mut fold: F, live: &dyn Live) -> Result<Reply, ModelError> {
    let (mut body, mut has_begun) = (Vec::new(), false);
    loop {
        match timeout(idle_max, response.chunk()).await {
            Ok(Ok(Some(bytes))) if body.len() + bytes.len() <= REPLY_BYTES_MAX => body.extend_from_slice(&bytes),
            Ok(Ok(Some(_))) => return Err(too_large()),
            Ok(Ok(None)) => break,
            Ok(Err(error)) => {
                let words = format!("the connection broke in the middle of the answer: {}", innermost(&error));
                return Err(ModelError::new(ModelFailure::Cut, words));
            }
            Err(_) => return Err(ModelError::new(ModelFailure::Idle, idle_words(idle_max))),
        }
        // Blanks keep a connection open while the answer is made.
        let begins = !has_begun && !body.trim_ascii().is_empty();
        has_begun |= begins;
        live.show(if begins { Progress::Begun } else { Progress::Alive });
    }
    for event in events_of(&body)? {
        fold.push(&event, &mut |progress| live.show(progress));
    }
    if fold.phase() == Phase::Open {
        return Err(broken(&fold, ModelFailure::Malformed, "the server answered with one JSON document instead of a stream"));
    }
    fold.finish()
}

/// The document as the one event of a stream. A stream under the wrong name is still one.
fn events_of(body: &[u8]) -> Result<Vec<Event>, ModelError> {
    match serde_json::from_slice::<serde_json::Value>(body) {
        // An error that nobody gave a status.
        Ok(value) if failure::is_error(&value) => Err(failure::in_stream(&value)),
        Ok(value) => Ok(vec![Event { name: String::new(), data: value.to_string() }]),
        Err(_) if [&b"data:"[..], b"event:", b":"].iter().any(|start| body.trim_ascii_start().starts_with(start)) => {
            let mut parser = Parser::default();
            let mut events = parser.feed(body).map_err(|_| too_large())?;
            events.extend(last_event(parser));
            Ok(events)
        }
        Err(error) if error.is_eof() => Err(ModelError::new(ModelFailure::Cut, CUT_WORDS)),
        Err(_) => Err(a_page(&Said::from_body(body).message)),
    }
}

/// A good status with something that is no answer at all.
fn a_page(message: &str) -> ModelError {
    let words = format!("the server answered with a page instead of a stream; check the base URL. {message}");
    ModelError::new(ModelFailure::BadRequest, words.trim_end())
}

fn idle_words(idle_max: Duration) -> String {
    format!("the server sent nothing for {idle_max:?} (limits.stream_idle)")
}

/// Words why there is no connection, and what to look at.
fn unreachable_server(url: &Url, error: &reqwest::Error) -> ModelError {
    let server = url.origin().ascii_serialization();
    let cause = innermost(error);
    let chain = chain_of(error).join(": ").to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| chain.contains(word));
    // A connection that broke later had carried the request.
    let may_be_billed = !error.is_connect() && !error.is_timeout() && !error.is_builder();
    let words = if error.is_timeout() {
        format!("{server} does not accept the connection (timed out); is the server running?")
    } else if has(&["dns error", "lookup address"]) {
        format!("DNS does not know {}: {cause}; check the base URL and the network", url.host_str().unwrap_or_default())
    } else if has(&["connection refused"]) {
        format!("connection refused by {server}; is the server running?")
    } else if has(&["certificate", "corrupt message", "handshake", "tls"]) {
        format!("TLS with {server} failed: {cause}; check the base URL, the clock and the certificates")
    } else if error.is_connect() {
        format!("cannot connect to {server}: {cause}")
    } else {
        format!("{server} broke the connection before it answered: {cause}")
    };
    ModelError { may_be_billed, ..ModelError::new(ModelFailure::Network, words) }
}

/// What each layer says, outermost first. The address is left out: it may hold a password.
fn chain_of(error: &reqwest::Error) -> Vec<String> {
    let first: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    std::iter::successors(first, |error| error.source()).map(ToString::to_string).collect()
}

fn innermost(error: &reqwest::Error) -> String {
    chain_of(error).pop().unwrap_or_else(|| "unknown cause".to_owned())
}

/// How the server wants its key.
fn own_header(provider: &ProviderSpec, key: Option<&str>, url: Option<&Url>) -> Option<(String, String)> {
    let key = key?;
    let (name, value) = match provider.api {
        Api::Anthropic => ("x-api-key", key.to_owned()),
        Api::OpenAi | Api::OpenAiResponses if is_azure(&provider.name, url.and_then(Url::host_str)) => ("api-key", key.to_owned()),
        Api::OpenAi | Api::OpenAiResponses => ("authorization", format!("Bearer {key}")),
        // A key in the address would be in every log on the way.
        Api::Gemini => ("x-goog-api-key", key.to_owned()),
    };
    Some((name.to_owned(), value))
}

fn headers(api: Api, own: Option<(String, String)>, extra: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if api == Api::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    for (name, value) in own.iter().chain(extra) {
        match (name.parse::<HeaderName>(), value.trim().parse::<HeaderValue>()) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => tracing::warn!(header = name, "skipped a header that HTTP cannot carry"),
        }
    }
    headers
}

/// What an address still lacks: a `{NAME}` in it that nobody filled in.
fn missing_part(provider: &ProviderSpec) -> Option<String> {
    let name = provider.base_url.split_once('{')?.1.split_once('}')?.0;
    let known = known_providers().iter().find(|known| known.base_url == provider.base_url)?;
    Some(format!("no address for {}: set {name}, or {} to the whole base URL", provider.name, known.base_url_env))
}

/// Whether the address is the provider's own and not a relay that may need no key.
fn is_its_own(known: &KnownProvider, url: Option<&Url>) -> bool {
    let own = Url::parse(known.base_url).ok();
    !known.key_env.is_empty() && own.as_ref().and_then(Url::host_str) == url.and_then(Url::host_str)
}

/// What a good status brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Stream,
    Document,
}

/// How a request travels; each way has its own client, because they cost differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Road {
    /// Stays on this machine: never through a proxy.
    is_loopback: bool,
    /// Needs certificates, and reading them takes longer than all the rest of a start.
    is_encrypted: bool,
}

impl Road {
    fn to(url: &Url) -> Self {
        let is_loopback = address::is_loopback(url);
        Self { is_loopback, is_encrypted: url.scheme() == "https" || (!is_loopback && proxy_is_encrypted()) }
    }
}

fn proxy_is_encrypted() -> bool {
    let names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    names.into_iter().any(|name| std::env::var(name).is_ok_and(|value| value.starts_with("https:")))
}

fn client(road: Road) -> Result<&'static Client, ModelError> {
    static CLIENTS: [OnceLock<Client>; 4] = [const { OnceLock::new() }; 4];
    let slot = &CLIENTS[2 * usize::from(road.is_loopback) + usize::from(road.is_encrypted)];
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    let built = build_client(road).map_err(|error| {
        ModelError::new(ModelFailure::Network, format!("TLS cannot start: {}; are the system's certificates installed?", innermost(&error)))
    })?;
    Ok(slot.get_or_init(|| built))
}

fn build_client(road: Road) -> reqwest::Result<Client> {
    // An error only says that someone installed one before us, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("posse/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_MAX)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .tcp_nodelay(true)
        .http1_only()
        // A key must not follow a redirect to somewhere else.
        .redirect(reqwest::redirect::Policy::none());
    let builder = if road.is_loopback { builder.no_proxy() } else { builder };
    let builder = if road.is_encrypted { builder } else { builder.tls_certs_only([]) };
    builder.build()
}

/// `HTTP 503 Service Unavailable`; a status that has no name has none here.
fn status_words(status: reqwest::StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_roads_cost_certificates_and_loopback_never_meets_a_proxy() {
        for (url, is_loopback, is_encrypted) in [
            ("http://127.0.0.1:9000", true, false),
            ("http://[::1]:9000", true, false),
            ("http://localhost:9000", true, false),
            ("http://10.0.0.7", false, false),
            ("https://127.0.0.1", true, true),
            ("https://api.anthropic.com", false, true),
        ] {
            assert_eq!(Road::to(&Url::parse(url).unwrap()), Road { is_loopback, is_encrypted }, "{url}");
        }
    }
}
