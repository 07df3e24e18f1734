//! Model servers on this machine: where to look for them, and how they are shown.
//!
//! Looked for only by `models list` and `doctor`, when a person asked; a run never does. One that the user has elsewhere is
//! asked only by name: a list must not tell the network that it was made. What a server says is understood in
//! `posse_models`. An untrusted project's settings are not among those that come in here.

use std::time::Duration;

use posse_config::Config;
use posse_models::{LocalKind, LocalServer, find_local, is_on_this_machine, shown_url};
use tokio::task::JoinSet;

use crate::build::{self, env};

/// A server on this machine answers in a few milliseconds; nobody waits longer for a list.
const FIND_MAX: Duration = Duration::from_millis(300);

/// What was looked for.
#[derive(Default)]
pub(crate) struct Search {
    /// Every server that answers.
    pub(crate) found: Vec<LocalServer>,
    /// Servers elsewhere that nobody asked for by name, with their addresses as they may be shown.
    pub(crate) unasked: Vec<(LocalKind, String)>,
}

/// Every kind of server, at the address that the user gave it or at its usual one.
pub(crate) async fn search(config: &Config, is_named: impl Fn(&str) -> bool) -> Search {
    let (mut search, mut looking) = (Search::default(), JoinSet::new());
    for (at, kind) in LocalKind::ALL.into_iter().enumerate() {
        let base_url = address(config, kind);
        if is_on_this_machine(&base_url) || is_named(kind.provider()) {
            looking.spawn(async move { (at, find_local(kind, &base_url, FIND_MAX).await) });
        } else {
            search.unasked.push((kind, shown_url(&base_url)));
        }
    }
    let mut found = Vec::new();
    while let Some(looked) = looking.join_next().await {
        if let Ok((at, Some(server))) = looked {
            found.push((at, server));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    search.found = found.into_iter().map(|(_, server)| server).collect();
    search
}

/// The file first, then the environment, then where such servers usually are.
fn address(config: &Config, kind: LocalKind) -> String {
    let configured = config.providers.iter().find(|provider| provider.name == kind.provider());
    let configured = configured.and_then(|provider| provider.base_url.clone());
    let known = build::known().into_iter().find(|known| known.name == kind.provider());
    let from_env = known.as_ref().and_then(|known| env(known.base_url_env)).filter(|url| !url.is_empty());
    configured.or(from_env).or_else(|| known.map(|known| known.base_url.to_owned())).unwrap_or_default()
}

/// What `OLLAMA_HOST` means as a base URL. Ollama's own programs read it too, and there it may lack anything but the host.
pub(crate) fn ollama_base_url(host: &str) -> Option<String> {
    let host = host.trim().trim_end_matches('/');
    if host.is_empty() {
        return None;
    }
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (place, path) = rest.split_once('/').map_or((rest, ""), |(place, path)| (place, path));
    // A name in brackets has colons of its own.
    let (name, port) = match place.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => {
            (name, port)
        }
        _ => (place, ""),
    };
    let port = match (port, scheme) {
        ("", "https") => "443",
        ("", "http") if host.contains("://") => "80",
        ("", _) => "11434",
        (port, _) => port,
    };
    // To listen everywhere is for servers; a client goes to this machine.
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
    let path = if path.is_empty() { "/v1".to_owned() } else { format!("/{path}/v1") };
    Some(format!("{scheme}://{name}:{port}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_variable_means_what_ollama_means_by_it() {
        for (host, expected) in [
            ("", None),
            ("127.0.0.1:9999", Some("http://127.0.0.1:9999/v1")),
            ("0.0.0.0", Some("http://127.0.0.1:11434/v1")),
            (":4000", Some("http://127.0.0.1:4000/v1")),
            ("box.local", Some("http://box.local:11434/v1")),
            ("http://box.local", Some("http://box.local:80/v1")),
            ("https://box.local/", Some("https://box.local:443/v1")),
            ("https://box.local:1/relay", Some("https://box.local:1/relay/v1")),
            ("[::1]:7", Some("http://[::1]:7/v1")),
            ("[::]", Some("http://127.0.0.1:11434/v1")),
        ] {
            assert_eq!(ollama_base_url(host).as_deref(), expected, "{host}");
        }
    }
}
