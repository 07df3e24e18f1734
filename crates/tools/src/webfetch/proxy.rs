//! Which proxy of the user's environment an address goes through.
//!
//! Decided here and not by the client, because the road must be known: without a proxy every name is checked where it leads,
//! with one the proxy resolves it, so what it can reach is its owner's decision. Private addresses never go through one.

use std::net::IpAddr;

use reqwest::Url;

use super::address::{number, private_place};

#[derive(Debug, Clone, Default)]
pub(super) struct Proxies {
    http: Option<String>,
    https: Option<String>,
    /// Hosts that are reached without one.
    without: Vec<String>,
}

impl Proxies {
    pub(super) fn of_environment() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            let value = variable(&name.to_ascii_lowercase()).or_else(|| variable(&name.to_ascii_uppercase()));
            value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let all = either("all_proxy");
        let without = either("no_proxy").unwrap_or_default();
        Self {
            http: either("http_proxy").or_else(|| all.clone()),
            https: either("https_proxy").or(all),
            without: without.split([',', ' ']).map(|host| host.trim().to_ascii_lowercase()).filter(|host| !host.is_empty()).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn all(address: &str) -> Self {
        Self::of(|name| (name == "all_proxy").then(|| address.to_owned()))
    }

    /// The proxy for an address; an error is for the model.
    pub(super) fn of_address(&self, url: &Url) -> Result<Option<Url>, String> {
        let written = if url.scheme() == "https" { &self.https } else { &self.http };
        let (Some(written), None) = (written, private_place(url)) else { return Ok(None) };
        if self.without.iter().any(|host| is_exempt(url, host)) {
            return Ok(None);
        }
        let complete = if written.contains("://") { written.clone() } else { format!("http://{written}") };
        match Url::parse(&complete) {
            Ok(proxy) if matches!(proxy.scheme(), "http" | "https") => Ok(Some(proxy)),
            // The words must not hold a password.
            _ => Err("webfetch: the proxy that the environment names is not an http or https proxy, and no other kind is supported. \
                Tell the user."
                .into()),
        }
    }
}

/// Whether an entry of `NO_PROXY` means this address: `*`, a name and all below it, an address, a network.
fn is_exempt(url: &Url, entry: &str) -> bool {
    let host = url.host_str().unwrap_or_default();
    let entry = match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.parse::<u16>().is_ok() => {
            if port.parse().ok() != url.port_or_known_default() {
                return false;
            }
            name
        }
        _ => entry,
    };
    if entry == "*" {
        return true;
    }
    match (number(host), entry.split_once('/')) {
        (Some(address), Some((network, bits))) => is_in_network(address, network, bits),
        (Some(address), None) => number(entry) == Some(address),
        (None, _) => {
            let name = entry.trim_start_matches('*').trim_start_matches('.');
            host == name || host.strip_suffix(name).is_some_and(|above| !name.is_empty() && above.ends_with('.'))
        }
    }
}

fn is_in_network(address: IpAddr, network: &str, bits: &str) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let (Ok(network), Ok(bits)) = (network.parse(), bits.parse::<u32>()) else { return false };
    let ((address, width), (network, network_width)) = (number(address), number(network));
    width == network_width && bits <= width && (bits == 0 || (address ^ network) >> (width - bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_proxy() {
        let proxies = |variables: &[(&str, &str)]| {
            Proxies::of(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        let both = proxies(&[
            ("HTTPS_PROXY", "http://p:1"),
            ("http_proxy", "q:2"),
            ("NO_PROXY", "a.example, .b.example,10.9.0.0/16,8.8.8.8,c.example:444,*.d.example"),
        ]);
        let all = proxies(&[("ALL_PROXY", "http://r:3"), ("HTTP_PROXY", "")]);
        for (proxies, url, proxy) in [
            (&both, "https://x.example/", Some("http://p:1/")),
            (&both, "http://x.example/", Some("http://q:2/")),
            (&both, "https://a.example/", None),
            (&both, "https://www.a.example/", None),
            (&both, "https://nota.example/", Some("http://p:1/")),
            (&both, "https://b.example/", None),
            (&both, "https://x.d.example/", None),
            (&both, "https://8.8.8.8/", None),
            (&both, "https://8.8.4.4/", Some("http://p:1/")),
            (&both, "https://c.example/", Some("http://p:1/")),
            (&both, "https://c.example:444/", None),
            // Private ones never.
            (&both, "http://10.1.2.3/", None),
            (&both, "http://localhost/", None),
            (&all, "https://x.example/", Some("http://r:3/")),
            (&all, "http://x.example/", Some("http://r:3/")),
            (&proxies(&[]), "https://x.example/", None),
            (&proxies(&[("ALL_PROXY", "http://r:3"), ("NO_PROXY", "*")]), "https://x.example/", None),
        ] {
            let found = proxies.of_address(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(found.as_ref().map(Url::as_str), proxy, "{url}");
        }
        for (network, inside) in
            [("1.2.0.0/16", true), ("1.2.3.4/32", true), ("0.0.0.0/0", true), ("1.3.0.0/16", false), ("1.2.3.4/33", false), ("::/0", false)]
        {
            let (start, bits) = network.split_once('/').unwrap();
            assert_eq!(is_in_network("1.2.3.4".parse().unwrap(), start, bits), inside, "{network}");
        }
        let socks =
            proxies(&[("ALL_PROXY", "socks5://user:secret@r:3")]).of_address(&Url::parse("http://x.example/").unwrap()).unwrap_err();
        assert!(socks.contains("is not an http or https proxy") && !socks.contains("secret"), "{socks}");
    }
}
