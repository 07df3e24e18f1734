//! Addresses: which ones `webfetch` takes, which lie in a private network, and which are the same place.
//!
//! An address decides by its numbers, a name only by what it resolves to: that is judged again in `network.rs`, at the moment
//! of connecting. Opens nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// A longer address is refused by most servers.
const ADDRESS_BYTES_MAX: usize = 8 * 1024;

/// The address a model wrote, in the one spelling that is judged and fetched. An error is for the model.
pub(super) fn parse(written: &str) -> Result<Url, String> {
    let written = written.trim();
    if ADDRESS_BYTES_MAX < written.len() {
        return Err(format!("webfetch: the url has {} bytes; at most {ADDRESS_BYTES_MAX} are taken.", written.len()));
    }
    let mut url = Url::parse(written).map_err(|error| {
        format!(
            "webfetch: `{}` is not a complete url ({error}). Write it with its scheme, as in `https://example.com/page`.",
            short(written)
        )
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("webfetch: only http and https addresses are fetched, not `{}:`.", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("webfetch: the url has a user name or password in it; nothing was sent. Call webfetch again without them.".into());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(format!("webfetch: `{}` names no host.", short(written)));
    }
    url.set_fragment(None);
    Ok(url)
}

fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// `HOST:PORT` if the address itself says that it is in a private network: numbers, or a name that only means this machine.
pub(super) fn private_place(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let is_private = is_this_machine(host) || number(host).is_some_and(|address| !is_public(address));
    is_private.then(|| format!("{host}:{}", url.port_or_known_default().unwrap_or_default()))
}

/// Names that stand for this machine everywhere.
pub(super) fn is_this_machine(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// A host that is written as a number. All spellings (`0x7f.1`, `2130706433`) are the same after parsing.
pub(super) fn number(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether an answer of `from` may lead to `to` without asking again: the same host, and the same port or from http to https.
pub(super) fn is_same_place(from: &Url, to: &Url) -> bool {
    let port = |url: &Url| url.port_or_known_default();
    let same_door = from.scheme() == to.scheme() && port(from) == port(to);
    let now_encrypted = (from.scheme(), port(from), to.scheme(), port(to)) == ("http", Some(80), "https", Some(443));
    let has_user = !to.username().is_empty() || to.password().is_some();
    from.host_str() == to.host_str() && (same_door || now_encrypted) && !has_user
}

/// Whether an address is one of the open internet, as the registries of special addresses say.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        // This network, private, this machine.
        (0 | 10 | 127, _, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            // Carriers' networks, link-local (where clouds keep their credentials), protocol assignments.
            | (100, 64..=127, _)
            | (169, 254, _)
            | (192, 0, 0)
            // Documentation, relays, benchmarks.
            | (192, 0, 2)
            | (192, 88, 99)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            // Multicast, reserved, broadcast.
            | (224..=255, _, _)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Only this part is given out at all. Outside are loopback, link-local, unique-local, multicast, IPv4 in IPv6 and NAT64.
    let is_global = (0x2000..=0x3fff).contains(&a);
    // Teredo and other protocols, documentation, 6to4: an IPv4 address may hide in them.
    let is_special = (a == 0x2001 && (b < 0x200 || b == 0x0db8)) || a == 0x2002 || (a == 0x3fff && b < 0x1000);
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_spelling() {
        for (written, parsed) in [
            (" HTTPS://Example.COM:443/a/../b?q=1#part ", "https://example.com/b?q=1"),
            ("http://example.com", "http://example.com/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://0177.0.0.1/", "http://127.0.0.1/"),
            ("http://127.1/", "http://127.0.0.1/"),
            ("http://127.0.0.1./", "http://127.0.0.1/"),
            ("http://１２７.0.0.1/", "http://127.0.0.1/"),
            ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"),
            ("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
            ("http:\\\\example.com\\x", "http://example.com/x"),
            ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ] {
            assert_eq!(parse(written).map(String::from), Ok(parsed.to_owned()), "{written}");
        }
        for (written, complaint) in [
            ("example.com/page", "is not a complete url"),
            ("", "is not a complete url"),
            ("http://", "is not a complete url"),
            ("file:///etc/passwd", "only http and https"),
            ("javascript:alert(1)", "only http and https"),
            ("https://user@example.com/", "user name or password"),
            ("https://:secret@example.com/", "user name or password"),
            ("https://good.example@127.0.0.1/", "user name or password"),
        ] {
            let words = parse(written).unwrap_err();
            assert!(words.contains(complaint) && !words.contains("secret"), "{written}: {words}");
        }
    }

    #[test]
    fn what_is_not_open_to_everyone_is_private() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "::8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.0.0.1",
            "128.0.0.1",
            "169.253.0.1",
            "169.255.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "192.169.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "3fff:1000::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_private_address_is_known_by_its_spelling() {
        for (url, place) in [
            ("http://127.0.0.1:8080/x", Some("127.0.0.1:8080")),
            ("http://2852039166/latest/meta-data/", Some("169.254.169.254:80")),
            ("https://[::1]/", Some("[::1]:443")),
            ("http://[::ffff:a9fe:a9fe]/", Some("[::ffff:a9fe:a9fe]:80")),
            ("http://localhost:3000/", Some("localhost:3000")),
            ("http://LOCALHOST./", Some("localhost.:80")),
            ("http://app.localhost/", Some("app.localhost:80")),
            ("https://example.com/", None),
            ("https://8.8.8.8/", None),
            ("http://localhost.example.com/", None),
            ("http://notlocalhost/", None),
        ] {
            assert_eq!(private_place(&parse(url).unwrap()).as_deref(), place, "{url}");
        }
    }

    #[test]
    fn only_the_same_host_is_the_same_place() {
        for (from, to, same) in [
            ("http://a.example/x", "http://a.example/y", true),
            ("http://a.example/", "https://a.example/", true),
            ("http://a.example:80/", "http://a.example/", true),
            ("https://a.example/", "http://a.example/", false),
            ("http://a.example:8080/", "https://a.example/", false),
            ("http://a.example/", "http://a.example:8080/", false),
            ("http://a.example/", "http://www.a.example/", false),
            ("http://127.0.0.1:1/", "http://localhost:1/", false),
            ("http://a.example/", "http://user@a.example/", false),
        ] {
            assert_eq!(is_same_place(&Url::parse(from).unwrap(), &Url::parse(to).unwrap()), same, "{from} {to}");
        }
    }
}
