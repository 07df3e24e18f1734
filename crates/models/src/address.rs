//! Where a provider lives: the address as requests use it, and as people may see it.
//!
//! A base URL may hold a password or a key, so nothing outside this file prints one: words and logs get [`shown_url`].
//! Sends nothing; that is `http.rs`.

use reqwest::Url;

use crate::provider::Api;

/// What stands where something is not shown.
const HIDDEN: &str = "***";

/// Where an address names the version of its API.
const VERSION: &str = "api-version";

/// A URL for words and logs: its user, its password and the values of its query are left out.
pub fn shown_url(text: &str) -> String {
    let text = text.trim();
    match Url::parse(text) {
        Ok(url) if url.has_host() => {
            let shown = shown(&url);
            // The parser adds the slash that nobody wrote.
            shown.strip_suffix('/').filter(|_| !text.ends_with('/')).map(str::to_owned).unwrap_or(shown)
        }
        _ => shown_text(text),
    }
}

/// The same for an address that is known to be one.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    if !url.username().is_empty() || url.password().is_some() {
        // Only an address without a host refuses these, and such a one is not sent to.
        let _ = url.set_password(None);
        let _ = url.set_username(HIDDEN);
    }
    let query = url.query().map(|query| query.split('&').map(shown_pair).collect::<Vec<_>>().join("&"));
    url.set_query(query.as_deref());
    url.into()
}

fn shown_pair(pair: &str) -> String {
    pair.split_once('=').map_or(HIDDEN.to_owned(), |(name, _)| format!("{name}={HIDDEN}"))
}

/// A text that is no URL: a password may hold any letter, so all before the last `@` counts as one.
fn shown_text(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or((String::new(), text), |(scheme, rest)| (format!("{scheme}://"), rest));
    let (user, rest) = rest.rsplit_once('@').map_or((String::new(), rest), |(_, rest)| (format!("{HIDDEN}@"), rest));
    match rest.find(['?', '#']) {
        Some(at) => format!("{scheme}{user}{}{HIDDEN}", &rest[..=at]),
        None => format!("{scheme}{user}{rest}"),
    }
}

/// The password, or the user without one, which then is a token; as it is written and as the server understands it.
pub(crate) fn passwords(url: &Url) -> Vec<String> {
    let token = Some(url.username()).filter(|user| !user.is_empty());
    url.password().or(token).into_iter().flat_map(|password| [password.to_owned(), percent_decoded(password)]).collect()
}

/// The values of the query, in both spellings too. A version of the API is nobody's secret.
pub(crate) fn query_values(url: &Url) -> Vec<String> {
    let pairs = url.query().into_iter().flat_map(|query| query.split('&')).map(|pair| pair.split_once('=').unwrap_or(("", pair)));
    let written = pairs.filter(|(name, _)| *name != VERSION).map(|(_, value)| value.to_owned());
    let understood = url.query_pairs().filter(|(name, _)| name != VERSION).map(|(_, value)| value.into_owned());
    written.chain(understood).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The API's own path after the base URL, doubling nothing. Only Gemini names the model there.
pub(crate) fn join(base_url: &str, api: Api, model: &str) -> Result<Url, String> {
    let mut url = Url::parse(base_url.trim()).map_err(|error| format!("the base URL \"{}\" is no URL ({error})", shown_url(base_url)))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("the base URL \"{}\" must start with http:// or https://", shown_url(base_url)));
    }
    let path = url.path().trim_end_matches('/');
    let path = if is_azure("", url.host_str()) { &azure_path(path, &url, model) } else { path };
    let more = match api {
        Api::Anthropic if path.ends_with("/messages") => "",
        Api::Anthropic if path.ends_with("/v1") => "/messages",
        Api::Anthropic => "/v1/messages",
        Api::OpenAi if path.ends_with("/chat/completions") => "",
        Api::OpenAi if path.is_empty() => "/v1/chat/completions",
        Api::OpenAi => "/chat/completions",
        Api::OpenAiResponses if path.ends_with("/responses") => "",
        Api::OpenAiResponses if path.is_empty() => "/v1/responses",
        Api::OpenAiResponses => "/responses",
        Api::Gemini => &gemini_path(path, model),
    };
    let path = format!("{path}{more}");
    url.set_path(&path);
    if api == Api::Gemini && !url.query_pairs().any(|(name, _)| name == "alt") {
        // Without it the server sends one long JSON list instead of events.
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    Ok(url)
}

/// Whether the address is one of this machine. What is no address is nowhere.
pub fn is_on_this_machine(base_url: &str) -> bool {
    Url::parse(base_url.trim()).is_ok_and(|url| is_loopback(&url))
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_name = host == "localhost" || host.ends_with(".localhost");
    is_name || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether this is Azure's OpenAI service, which has its own place for keys and paths.
pub(crate) fn is_azure(provider: &str, host: Option<&str>) -> bool {
    provider == "azure" || host.is_some_and(|host| host.ends_with(".azure.com"))
}

/// Azure's resource alone is no base: its newer door is `/openai/v1`; with an `api-version` in the query it is the older
/// one, with the deployment in the path. A longer path is the user's own word.
fn azure_path(path: &str, url: &Url, deployment: &str) -> String {
    let dated = url.query_pairs().any(|(name, value)| name == VERSION && value.starts_with(|first: char| first.is_ascii_digit()));
    match path {
        "" | "/openai" if dated => format!("/openai/deployments/{deployment}"),
        "" | "/openai" => "/openai/v1".to_owned(),
        other => other.to_owned(),
    }
}

/// `/v1beta/models/MODEL:streamGenerateContent`, less what the base already has. Vertex has its version in the middle.
fn gemini_path(base: &str, model: &str) -> String {
    const METHOD: &str = ":streamGenerateContent";
    if base.ends_with(METHOD) {
        return String::new();
    }
    let is_version = |segment: &str| segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    let version = if base.split('/').any(is_version) { "" } else { "/v1beta" };
    // Google lists its models with their folder, and users copy that.
    let folder = if model.starts_with("models/") || model.starts_with("tunedModels/") { "" } else { "models/" };
    format!("{version}/{folder}{model}{METHOD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_it_keeps_secret() {
        for (url, shown) in [
            ("http://h:1", "http://h:1"),
            ("http://h:1/", "http://h:1/"),
            (" https://h/v1 ", "https://h/v1"),
            ("http://user:pw@h:1/v1", "http://***@h:1/v1"),
            ("http://:pw@h", "http://***@h"),
            ("http://sk-token@h", "http://***@h"),
            ("http://user:p@ss@h/v1", "http://***@h/v1"),
            ("https://h/v1?key=abc&x=%20#part", "https://h/v1?key=***&x=***"),
            ("https://h/v1?abc", "https://h/v1?***"),
            ("https://h/@scope/v1", "https://h/@scope/v1"),
            // No URLs, and still with a secret in them.
            ("user:pw@h:1", "***@h:1"),
            ("http://user:p/w@h", "http://***@h"),
            ("http://user:p?w@h", "http://***@h"),
            ("http://user:p#w@h:99999999/v1?key=abc", "http://***@h:99999999/v1?***"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("h?key=abc", "h?***"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }

    #[test]
    fn this_machine_is_known_by_every_name_of_it() {
        for (url, is_here) in [
            ("http://127.0.0.1:9000", true),
            ("http://127.7.7.7", true),
            ("https://LOCALHOST/v1", true),
            ("http://a.localhost", true),
            ("http://[::1]:1", true),
            ("http://10.0.0.7", false),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("http://127.0.0.1@example.com", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(is_on_this_machine(url), is_here, "{url}");
        }
    }

    #[test]
    fn the_secrets_of_an_address_are_found_in_every_spelling() {
        let url = Url::parse("http://u:p%40ss%zz@h/?key=a%2Bb&plain&x=c+d").unwrap();
        assert_eq!(passwords(&url), ["p%40ss%zz", "p@ss%zz"]);
        assert_eq!(query_values(&url), ["a%2Bb", "plain", "c+d", "a+b", "", "c d"]);
        assert_eq!(passwords(&Url::parse("http://token@h").unwrap()), ["token", "token"]);
    }

    #[test]
    fn an_unusable_base_url_is_told_without_its_password() {
        for (base, words) in [
            ("http://u:hunter2/x@h", "the base URL \"http://***@h\" is no URL (invalid port number)"),
            ("u:hunter2@h", "the base URL \"***@h\" must start with http:// or https://"),
            ("ftp://u:hunter2@h", "the base URL \"ftp://***@h\" must start with http:// or https://"),
        ] {
            assert_eq!(join(base, Api::OpenAi, "m"), Err(words.to_owned()));
        }
    }

    #[test]
    fn the_api_path_is_appended_once() {
        for (api, base, expected) in [
            (Api::Anthropic, "http://h:1", "http://h:1/v1/messages"),
            (Api::Anthropic, "http://h:1/", "http://h:1/v1/messages"),
            (Api::Anthropic, "http://h:1/v1", "http://h:1/v1/messages"),
            (Api::Anthropic, "http://h:1/v1/", "http://h:1/v1/messages"),
            (Api::Anthropic, "http://h/relay", "http://h/relay/v1/messages"),
            (Api::Anthropic, "http://h/relay/v1/messages", "http://h/relay/v1/messages"),
            (Api::OpenAi, "http://h:1", "http://h:1/v1/chat/completions"),
            (Api::OpenAi, "http://h:1/v1", "http://h:1/v1/chat/completions"),
            (Api::OpenAi, "http://h/api/v1/", "http://h/api/v1/chat/completions"),
            (Api::OpenAi, "https://h/openai?api-version=1", "https://h/openai/chat/completions?api-version=1"),
            (Api::OpenAi, "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/chat/completions"),
            (Api::OpenAi, "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1/chat/completions"),
            (
                Api::OpenAi,
                "https://r.openai.azure.com?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/g-1/chat/completions?api-version=2024-10-21",
            ),
            (
                Api::OpenAi,
                "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
            (Api::OpenAiResponses, "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/responses"),
            (Api::OpenAiResponses, "http://h:1", "http://h:1/v1/responses"),
            (Api::OpenAiResponses, "http://h:1/v1/", "http://h:1/v1/responses"),
            (Api::OpenAiResponses, "https://h/openai/v1?api-version=preview", "https://h/openai/v1/responses?api-version=preview"),
            (Api::OpenAiResponses, "http://h/v1/responses", "http://h/v1/responses"),
            (Api::Gemini, "http://h:1", "http://h:1/v1beta/models/g-1:streamGenerateContent?alt=sse"),
            (Api::Gemini, "http://h:1/v1beta/", "http://h:1/v1beta/models/g-1:streamGenerateContent?alt=sse"),
            (Api::Gemini, "http://h/relay?k=1", "http://h/relay/v1beta/models/g-1:streamGenerateContent?k=1&alt=sse"),
            (
                Api::Gemini,
                "https://h/v1/projects/p/locations/l/publishers/google",
                "https://h/v1/projects/p/locations/l/publishers/google/models/g-1:streamGenerateContent?alt=sse",
            ),
            (Api::Gemini, "https://h/v1/x:streamGenerateContent?alt=sse", "https://h/v1/x:streamGenerateContent?alt=sse"),
        ] {
            assert_eq!(join(base, api, "g-1").map(String::from), Ok(expected.to_owned()), "{base}");
        }
        assert!(join("127.0.0.1:9000", Api::OpenAi, "m").is_err());
        assert!(join("ftp://h", Api::OpenAi, "m").is_err());
    }

    #[test]
    fn a_models_name_stays_in_its_place() {
        for (model, expected) in [
            ("models/g-1", "http://h/v1beta/models/g-1:streamGenerateContent?alt=sse"),
            ("tunedModels/mine", "http://h/v1beta/tunedModels/mine:streamGenerateContent?alt=sse"),
            ("g?key=1#x", "http://h/v1beta/models/g%3Fkey=1%23x:streamGenerateContent?alt=sse"),
        ] {
            assert_eq!(join("http://h", Api::Gemini, model).map(String::from), Ok(expected.to_owned()), "{model}");
        }
    }
}
