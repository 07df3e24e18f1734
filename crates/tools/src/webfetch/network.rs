//! One GET, along the redirects of the same place, to a bounded body.
//!
//! Names are resolved here, and the connection goes to an address that was checked, so a name cannot mean one thing when it
//! is judged and another when it is used. Knows nothing of what is in a body. Time and the stop are the caller's.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use posse_session::BoxFuture;
use reqwest::{
    Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION},
};

use super::{
    address::{is_public, is_same_place, is_this_machine, private_place},
    proxy::Proxies,
};

/// What is read of an answer; no model reads more.
pub(super) const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;

/// Sites need two or three; more is a loop or a trap.
const REDIRECTS_MAX: usize = 5;

/// A host that takes longer to accept a connection will not answer either.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// What names stand for; the system's resolver, or a table in tests.
pub(super) type LookUp = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// How addresses are reached.
#[derive(Clone)]
pub(super) struct Network {
    pub(super) look_up: LookUp,
    pub(super) is_public: fn(IpAddr) -> bool,
    pub(super) proxies: Proxies,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Fetched {
    Answer(Answer),
    /// The server sends us to another place, which was not judged.
    Elsewhere {
        from: Url,
        to: String,
        status: u16,
    },
}

#[derive(Debug)]
pub(super) struct Answer {
    /// Where it came from in the end.
    pub(super) url: Url,
    pub(super) status: u16,
    /// As the server wrote it; may be empty.
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
    /// There was more than is read.
    pub(super) is_cut: bool,
    /// What the server said how long it is.
    pub(super) length: Option<u64>,
}

impl Network {
    pub(super) fn of_this_machine() -> Self {
        let look_up = |name: String| -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
        };
        Self { look_up: Arc::new(look_up), is_public, proxies: Proxies::of_environment() }
    }

    /// Errors are for the model.
    pub(super) async fn fetch(&self, url: &Url, accept: &str) -> Result<Fetched, String> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send(&url, accept).await?;
            let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Ok(Fetched::Answer(read(response, url).await?)) };
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            let mut next = url.join(&location).map_err(|_| format!("{url} redirects to `{location}`, which is not an address."))?;
            next.set_fragment(None);
            if !is_same_place(&url, &next) {
                return Ok(Fetched::Elsewhere { from: url, to: next.into(), status: response.status().as_u16() });
            }
            url = next;
        }
        Err(format!("{url}: redirected more than {REDIRECTS_MAX} times; this is probably a loop. Try another address."))
    }

    async fn send(&self, url: &Url, accept: &str) -> Result<Response, String> {
        let proxy = self.proxies.of_address(url)?;
        let client = self.client(url, proxy).map_err(|error| format!("{url}: TLS cannot start: {}.", innermost(&error)))?;
        // Nothing here unpacks, so nothing is to be packed.
        let request =
            client.get(url.clone()).header(ACCEPT, accept).header(ACCEPT_ENCODING, "identity").header(ACCEPT_LANGUAGE, "en, *;q=0.5");
        request.send().await.map_err(|error| unreachable(url, &error))
    }

    /// A client for one request: it keeps no connection, so none outlives what was judged.
    fn client(&self, url: &Url, proxy: Option<Url>) -> reqwest::Result<Client> {
        // An error only says that someone installed one before us, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let is_encrypted = url.scheme() == "https" || proxy.as_ref().is_some_and(|proxy| proxy.scheme() == "https");
        let builder = Client::builder()
            .user_agent(concat!("posse/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_MAX)
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            // The environment's proxies are ours to choose from: see `proxy.rs`.
            .no_proxy();
        let builder = if is_encrypted { builder } else { builder.tls_certs_only([]) };
        match proxy {
            // It resolves names itself; ours would only judge the proxy's own.
            Some(proxy) => builder.proxy(reqwest::Proxy::all(proxy)?).build(),
            None => builder.dns_resolver(Guard { look_up: self.look_up.clone(), is_public: self.is_public }).build(),
        }
    }
}

/// Reads up to the bound.
async fn read(mut response: Response, url: Url) -> Result<Answer, String> {
    let header = |name: HeaderName| {
        response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
    };
    let (content_type, packed, length) = (header(CONTENT_TYPE), header(CONTENT_ENCODING), header(CONTENT_LENGTH).trim().parse().ok());
    let packed = packed.trim();
    if !packed.is_empty() && !packed.eq_ignore_ascii_case("identity") {
        return Err(format!("{url} answered with {packed} data although it was asked not to. Use bash with `curl --compressed`."));
    }
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(piece) = response.chunk().await.map_err(|error| broken(&url, &body, &error))? {
        let room = BODY_BYTES_MAX - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if room < piece.len() {
            is_cut = true;
            break;
        }
    }
    Ok(Answer { url, status, content_type, body, is_cut, length })
}

/// Resolves names to addresses that may be connected to, and no others.
struct Guard {
    look_up: LookUp,
    is_public: fn(IpAddr) -> bool,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (look_up, is_public, name) = (self.look_up.clone(), self.is_public, name.as_str().to_owned());
        Box::pin(async move {
            // Only an address that was judged as this machine gets here: a redirect to it is another place.
            if is_this_machine(&name) {
                return Ok(sockets(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
            }
            let found = look_up(name.clone()).await?;
            let first = found.first().copied();
            let public: Vec<IpAddr> = found.into_iter().filter(|address| is_public(*address)).collect();
            match (public.is_empty(), first) {
                (true, Some(address)) => Err(PrivateName { address }.into()),
                (true, None) => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into()),
                (false, _) => Ok(sockets(public)),
            }
        })
    }
}

fn sockets(addresses: Vec<IpAddr>) -> Addrs {
    // The port is the one of the URL.
    Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)))
}

/// A name that leads into a private network.
#[derive(Debug)]
struct PrivateName {
    address: IpAddr,
}

impl fmt::Display for PrivateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is a private address", self.address)
    }
}

impl std::error::Error for PrivateName {}

/// Words why there is no answer, and what to do.
fn unreachable(url: &Url, error: &reqwest::Error) -> String {
    let place = url.origin().ascii_serialization();
    if let Some(PrivateName { address }) = layers(error).find_map(|layer| layer.downcast_ref::<PrivateName>()) {
        let mut literal = url.clone();
        let spelled = literal.set_ip_host(*address).map(|()| literal.to_string()).unwrap_or_default();
        return format!(
            "{place}: the name leads to {address}, an address of a private network, so nothing was sent. \
             If it is meant, call webfetch with the literal address, {spelled}; the user will be asked."
        );
    }
    let (cause, chain) = (innermost(error), layers(error).map(ToString::to_string).collect::<Vec<_>>().join(": ").to_ascii_lowercase());
    let has = |words: &[&str]| words.iter().any(|word| chain.contains(word));
    if error.is_timeout() {
        format!("{place} does not accept the connection (timed out).")
    } else if has(&["dns error", "lookup address", "has no address"]) {
        format!("{place}: the name is not known ({cause}). Check the spelling of the host.")
    } else if has(&["connection refused"]) {
        format!(
            "{place} refuses the connection: {}.",
            if private_place(url).is_some() { "nothing listens there" } else { "no server there" }
        )
    } else if has(&["certificate", "corrupt message", "handshake", "tls"]) {
        format!("{place}: TLS failed: {cause}.")
    } else {
        format!("{place} did not answer: {cause}.")
    }
}

fn broken(url: &Url, body: &[u8], error: &reqwest::Error) -> String {
    format!("{url}: the connection broke after {} bytes: {}. Try again.", body.len(), innermost(error))
}

fn layers(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |layer| layer.source())
}

/// What the deepest layer says. The outermost is left out: it repeats the address.
fn innermost(error: &reqwest::Error) -> String {
    layers(error).last().map_or_else(|| "unknown cause".to_owned(), ToString::to_string)
}
