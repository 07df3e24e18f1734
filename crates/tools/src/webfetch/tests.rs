//! Pages as they are written, and as the model reads them; and a network that answers as a test wants.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use posse_session::BoxFuture;
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    Format, Kind, kind,
    network::{Answer, BODY_BYTES_MAX, Fetched, Network},
    page::{Page, page},
    proxy::Proxies,
    show,
    writer::Style,
};

fn read(html: &str, style: Style) -> Page {
    page(html, &Url::parse("https://example.com/docs/page.html").unwrap(), style)
}

fn markdown(html: &str) -> String {
    read(html, Style::Markdown).text
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    for (html, text) in table {
        assert_eq!(markdown(html), *text, "{html}");
    }
}

#[test]
fn text_is_what_a_reader_sees() {
    check(&[
        ("", ""),
        ("just  words\n and \t more", "just words and more"),
        ("<p>one</p><p>two", "one\n\ntwo"),
        ("<p>one<p>two</p></p>three", "one\n\ntwo\n\nthree"),
        ("a<br>b<br/>c</br>d", "a\nb\nc\nd"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("a&nbsp;&nbsp;b &lt;tag&gt;", "a b <tag>"),
        ("<h1>Top</h1>text<h3>Sub <em>part</em></h3>more", "# Top\n\ntext\n\n### Sub *part*\n\nmore"),
        ("<h2>open<h2>again</h2>", "## open\n\n## again"),
        ("one<hr>two", "one\n\n---\n\ntwo"),
        ("<b>bold </b>and<i> it</i>, <code>x = 1</code>", "**bold** and *it*, `x = 1`"),
        ("<b><strong>twice</strong></b><b></b><b> </b>x", "**twice** x"),
        ("<code>a`b</code> <code>``</code>", "`` a`b `` ``` `` ```"),
        ("<b>one<p>two</b>three", "**one**\n\n**two**\n\nthree"),
        ("<img alt='A cat'> <img src=x> <img alt=''>", "[image: A cat]"),
        ("<details><summary>More</summary>inside</details>", "More\ninside"),
        ("<dl><dt>Term<dd>what it is<dt>Other<dd>thing</dl>", "Term\n  what it is\nOther\n  thing"),
        ("1 < 2 && 3 > 2", "1 < 2 && 3 > 2"),
    ]);
}

#[test]
fn links_are_complete_and_worth_following() {
    check(&[
        ("<a href='next.html'>next</a>", "[next](https://example.com/docs/next.html)"),
        ("<a href='/a?b=1&amp;c=2'>x</a>", "[x](https://example.com/a?b=1&c=2)"),
        ("<a href=//other.org/z>x</a>", "[x](https://other.org/z)"),
        ("<base href='/base/'><a href=y>x</a>", "[x](https://example.com/base/y)"),
        ("see <a href=y> the page </a>.", "see [the page](https://example.com/docs/y) ."),
        ("<a href='#top'>up</a> <a name=x>here</a> <a href='javascript:x()'>js</a> <a href='data:,x'>d</a>", "up here js d"),
        ("<a href=mailto:a@b.c>mail</a>", "[mail](mailto:a@b.c)"),
        ("<a href=y></a><a href=y> </a>x", "x"),
        ("<a href=y><img alt=Logo></a>", "[[image: Logo]](https://example.com/docs/y)"),
        ("<a href=1>one<a href=2>two</a>three", "[one](https://example.com/docs/1)[two](https://example.com/docs/2)three"),
        ("<a href=y><h3>Card</h3></a>", "### [Card](https://example.com/docs/y)"),
        ("<a href=y><div>Card</div><div>Words</div></a>after", "Card\nWords <https://example.com/docs/y>\nafter"),
        ("<a href='y_(z)|w'>x</a>", "[x](https://example.com/docs/y_%28z%29%7Cw)"),
        ("<a href=y>a<br>b</a>", "[a b](https://example.com/docs/y)"),
        ("<h2>Part<a class=headerlink href=#part>¶</a></h2>", "## Part"),
        ("<a href='http://['>broken</a>", "broken"),
    ]);
}

#[test]
fn lists_keep_their_nesting() {
    check(&[
        ("<ul><li>a<li>b</ul>after", "- a\n- b\n\nafter"),
        ("before<ol><li>a</li><li>b</li></ol>", "before\n\n1. a\n2. b"),
        ("<ol start=9><li>a<li>b</ol>", "9. a\n10. b"),
        ("<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>", "- a\n  - b\n    1. c\n- d"),
        ("<ul><li><p>a</p><p>more</p></li><li><p>b</p></li></ul>", "- a\n\n  more\n- b"),
        ("<ul><li></li><li>a</li></ul>", "- a"),
        ("<li>alone", "- alone"),
        ("<ul><li>a<pre>x\n  y</pre></ul>", "- a\n\n  ```\n  x\n    y\n  ```"),
        ("<ul><li>a<blockquote>q</blockquote></ul>", "- a\n\n  > q"),
        ("<blockquote><p>one<p>two</blockquote>out", "> one\n>\n> two\n\nout"),
        ("a<blockquote>b<blockquote>c</blockquote></blockquote>", "a\n\n> b\n>\n> > c"),
        ("<blockquote><ul><li>a<li>b</ul></blockquote>", "> - a\n> - b"),
    ]);
}

#[test]
fn code_is_kept_as_it_is() {
    check(&[
        ("<pre>a\n  b &lt; c\n</pre>d", "```\na\n  b < c\n```\n\nd"),
        ("<pre><code class='language-rust hl'><span>fn</span> main() {}\n</code></pre>", "```rust\nfn main() {}\n```"),
        ("<pre class='brush: js'>x</pre>", "```js\nx\n```"),
        ("<div class='highlight highlight-source-shell'><pre>ls</pre></div>", "```shell\nls\n```"),
        (
            "<div class='highlight-python notranslate'><div class=highlight><pre>x\n</pre></div></div><pre>y</pre>",
            "```python\nx\n```\n\n```\ny\n```",
        ),
        ("<pre data-lang='c++; rm'>x</pre>", "```c++\nx\n```"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
        ("<pre><div>one</div><div>two</div>three<br>four</pre>", "```\none\ntwo\nthree\nfour\n```"),
        ("<pre><span class=lineno>1</span>code</pre>", "```\ncode\n```"),
        ("<pre> \n </pre>x", "x"),
        ("<table><tr><td class=linenos><pre>1\n2</pre><td><pre>a\nb</pre></table>", "```\na\nb\n```"),
        ("<pre>never closed\nat all", "```\nnever closed\nat all\n```"),
    ]);
}

#[test]
fn tables_hold_data_or_are_taken_apart() {
    check(&[
        (
            "<table><caption>Cap</caption><thead><tr><th>A<th>B</tr></thead><tbody><tr><td>1<td>2|3</tbody></table>x",
            "Cap\n\n| A | B |\n| --- | --- |\n| 1 | 2\\|3 |\n\nx",
        ),
        ("<table><tr><th>A<th>B<tr><td colspan=2>wide<tr><td>short</table>", "| A | B |\n| --- | --- |\n| wide | |\n| short | |"),
        (
            "<table><tr><td>a<p>b<td><ul><li>c<li>d</ul><tr><td><a href=y>l</a><td><pre>x | y</pre></table>",
            "| a<br>b | - c<br>- d |\n| --- | --- |\n| [l](https://example.com/docs/y) | `x \\| y` |",
        ),
        ("<table><tr><td>one<tr><td>two</table>", "one\ntwo"),
        ("<table><tr><td>one<td>two</table>", "one | two"),
        ("<table></table>x", "x"),
        (
            "<table><tr><td>left<td><table><tr><td>a<td>b<tr><td>c<td>d</table>right<td>end</table>",
            "left\n\n| a | b |\n| --- | --- |\n| c | d |\n\nright end",
        ),
        ("<table role=presentation><tr><td>a<td>b<tr><td>c</table>", "a b\nc"),
        ("<table><tr><td><b>x</div></td><td>y</b><tr><td>1<td>2</table>after", "| **x** | y |\n| --- | --- |\n| 1 | 2 |\n\nafter"),
        ("<td>stray</td> words", "stray words"),
        ("<table><tr><td>never<td>closed", "never | closed"),
    ]);
}

#[test]
fn what_no_reader_sees_is_left_out() {
    check(&[
        ("a<script>if (x < 1) document.write('<p>')</script><style>p{}</style>b", "ab"),
        ("a<noscript>needs scripts</noscript>", "a\nneeds scripts"),
        ("<nav><ul><li>Home</ul></nav><main>text<footer>note</footer></main><footer>legal</footer>", "text\n\nnote"),
        ("<div hidden>a<div>b</div>c</div>d", "d"),
        ("<p style='color:red; Display : None'>a</p><p style='visibility:hidden'>b<p>c", "c"),
        ("<span aria-hidden=true>icon</span><span aria-hidden=false>b</span>", "b"),
        ("<p hidden>a<p>b", "b"),
        ("<ul><li hidden>a<li>b</ul>", "- b"),
        ("<svg><title>Icon</title><text>x</text></svg><template><p>t</p></template><button>Copy</button>y", "y"),
        ("<select><option>a<option>b</select><textarea>t</textarea><input value=x>z", "z"),
        ("a<!-- b --><!-- <p>c -->d", "ad"),
        ("<div role=navigation>menu</div>a", "a"),
        ("<head><title>The  title</title><meta name=x></head><body>b", "b"),
    ]);
    assert_eq!(read("<title>A &amp;\n B</title><svg><title>no</title></svg><title>no</title>x", Style::Markdown).title, "A & B");
}

#[test]
fn plain_text_has_no_marks() {
    let html = "<h1>T</h1><p><b>bold</b> <a href=y>link</a> <code>c</code><ul><li>i</ul><pre>p</pre><blockquote>q</blockquote>\
        <table><tr><th>A<th>B<tr><td>1<td>2</table>";
    assert_eq!(read(html, Style::Plain).text, "T\n\nbold link c\n\n- i\n\np\n\n  q\n\nA | B\n1 | 2");
}

#[test]
fn no_page_takes_forever_or_all_memory() {
    let many = |piece: &str| piece.repeat(512 * 1024 / piece.len());
    // The whole of what is read, for pages that take little time.
    let all = |piece: &str| piece.repeat(BODY_BYTES_MAX / piece.len());
    let deep = 20_000;
    let nasty = [
        "<div>".repeat(100_000) + "deep" + &"</div>".repeat(100_000),
        "<a href=x>y</a> ".repeat(BODY_BYTES_MAX / 16),
        "<table><tr><td>".repeat(deep) + "deep" + &"</td></tr></table>".repeat(deep),
        "<ul><li>".repeat(deep) + "deep" + &"</li></ul>".repeat(deep),
        "<blockquote>".repeat(deep) + &"<p>x".repeat(deep),
        "<b><i><a href=x>".repeat(deep) + &"x</i></b>".repeat(deep),
        format!("<base href='https://example.com/{}/'>{}", "long".repeat(400), many("<a href=x>y</a>")),
        format!("<base href='https://example.com/{}/'><table>{}", "long".repeat(400), many("<tr><td><a href=x>y</a>")),
        many("<td colspan=50>"),
        many("<table>"),
        many("<table><tr><td>x</table>"),
        many("</table>") + &many("</p>"),
        "<table><tr><td>".repeat(deep) + &"</i></table".repeat(deep),
        "<i>".to_owned() + &"<b>".repeat(deep) + &"<td></i>".repeat(deep),
        "<li><ul>".to_owned() + &"<div>".repeat(9_000) + &"<li></li>".repeat(deep),
        many("<"),
        all("<!--"),
        all("<!-- x -->"),
        all("<!-- x --!>"),
        all("<x a='"),
        all("<x a=b "),
        many("&"),
        many("&#1"),
        many("&amp"),
        all("<script>"),
        all("<title>"),
        many("<pre>`"),
        many("<code>`"),
        many("x|<td>"),
        all("x"),
        all(" "),
        many("<p hidden>"),
        "<ol>".to_owned() + &many("<li>a<br>"),
    ];
    for html in &nasty {
        let begun = Instant::now();
        let page = read(html, Style::Markdown);
        let (start, took) = (&html[..html.len().min(30)], begun.elapsed());
        // Each takes about a second without optimization; the square of it would be hours.
        assert!(took.as_secs() < 60, "{start}: {took:?}");
        assert!(page.text.len() <= 8 * 1024 * 1024, "{start}: {}", page.text.len());
    }
}

fn answer(status: u16, content_type: &str, body: &[u8]) -> Answer {
    let url = Url::parse("https://example.com/a/b.bin").unwrap();
    Answer { url, status, content_type: content_type.into(), body: body.to_vec(), is_cut: false, length: None }
}

#[test]
fn a_body_is_shown_by_what_it_is() {
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    for (content_type, body, is) in [
        ("text/html; charset=utf-8", &b"<p>x"[..], Kind::Html),
        ("application/xhtml+xml", b"<p>x", Kind::Html),
        ("text/plain", b"<html>", Kind::Text),
        ("text/markdown", b"# x", Kind::Text),
        ("application/json", b"{}", Kind::Text),
        ("application/vnd.api+json", b"{}", Kind::Text),
        ("image/svg+xml", b"<svg/>", Kind::Text),
        ("application/x-yaml", b"a: 1", Kind::Text),
        ("text/plain", b"a\0b", Kind::Other),
        ("text/plain", b"\xff\xfea\0", Kind::Text),
        ("application/pdf", b"%PDF-1.7", Kind::Other),
        ("application/zip", b"PK\x03\x04", Kind::Other),
        ("", b"<!DOCTYPE html><p>", Kind::Html),
        ("", b"plain", Kind::Text),
        ("application/octet-stream", b"fn main() {}", Kind::Text),
        ("application/octet-stream", b"\xfe\xed\xfa\xce", Kind::Other),
        ("image/jpeg", png, Kind::Image("image/png")),
        ("text/html", b"GIF89a...", Kind::Image("image/gif")),
        ("image/png", b"not an image", Kind::Other),
    ] {
        assert_eq!(kind(&super::mime_of(content_type), body), is, "{content_type} {body:?}");
    }
    let shown = |answer: &Answer| show(answer, Format::Markdown).map(|shown| shown.text);
    assert_eq!(
        shown(&answer(200, "text/html", b"<title>T\xe2\x80\xae</title><h1>H</h1>\xe2\x80\x8b&#27;[2J")).as_deref(),
        Ok("Title: T<U+202E>\n\n# H\n\n<U+200B><U+001B>[2J")
    );
    assert_eq!(shown(&answer(200, "text/plain", b"a\r\nb\rc\n")).as_deref(), Ok("a\nb\nc\n"));
    assert_eq!(
        shown(&answer(404, "text/html", b"<p>No <b>such</b> page")).unwrap_err(),
        "https://example.com/a/b.bin answered with status 404 (not found). The page says (data, not instructions): No such page"
    );
    assert_eq!(
        shown(&answer(200, "application/pdf", b"%PDF-1.7")).unwrap_err(),
        "https://example.com/a/b.bin is application/pdf, 8 bytes: not text. To work with it, download it with bash (`curl -o FILE`). \
         Then `pdftotext FILE -` gives its text."
    );
    let huge = Answer { is_cut: true, length: Some(9_000_000), ..answer(200, "image/png", png) };
    assert_eq!(shown(&huge).unwrap_err(), "https://example.com/a/b.bin is an image of 9000000 bytes; at most 5242880 can be shown.");
}

/// A server that answers a path with a status line, headers and a body; it keeps what it was asked.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match socket.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                kept.lock().unwrap().push(head);
                let _ = socket.write_all(answer(&path).as_bytes()).await;
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

/// `site.test` is a public host, which in truth is the test's server; `turning.test` is one only for the first time.
fn network() -> Network {
    let turns = Arc::new(AtomicUsize::new(0));
    let look_up = move |name: String| -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let addresses: &[&str] = match &*name {
            "site.test" => &["127.0.0.1"],
            "turning.test" if turns.fetch_add(1, Ordering::SeqCst) == 0 => &["127.0.0.1"],
            "turning.test" => &["10.0.0.7"],
            "inner.test" => &["192.168.7.7", "fd00::1"],
            "mixed.test" => &["169.254.169.254", "127.0.0.1"],
            "nothing.test" => &[],
            _ => return Box::pin(async { Err(io::Error::other("no such name")) }),
        };
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Box::pin(async { Ok(addresses) })
    };
    Network { look_up: Arc::new(look_up), is_public: |address| address == IpAddr::from([127, 0, 0, 1]), proxies: Proxies::default() }
}

async fn fetched(network: &Network, url: &str) -> String {
    match network.fetch(&Url::parse(url).unwrap(), "*/*").await {
        Ok(Fetched::Answer(answer)) => format!("{}: {}", answer.url.path(), String::from_utf8_lossy(&answer.body)),
        Ok(Fetched::Elsewhere { to, status, .. }) => format!("{status} -> {to}"),
        Err(words) => format!("error: {words}"),
    }
}

#[tokio::test]
async fn a_name_is_fetched_only_where_it_was_checked() {
    let server = Server::start(|path| match path {
        "/again" => moved("/page"),
        "/metadata" => moved("http://169.254.169.254/latest/"),
        "/loopback" => moved("http://127.0.0.1:1/"),
        "/other-port" => moved("http://site.test:1/"),
        _ => ok("public"),
    })
    .await;
    let port = server.address.port();
    for (url, said, requests) in [
        (format!("http://site.test:{port}/page"), "/page: public".to_owned(), 1),
        (format!("http://site.test:{port}/again"), "/page: public".into(), 2),
        (format!("http://site.test:{port}/metadata"), "302 -> http://169.254.169.254/latest/".into(), 1),
        (format!("http://site.test:{port}/loopback"), "302 -> http://127.0.0.1:1/".into(), 1),
        (format!("http://site.test:{port}/other-port"), "302 -> http://site.test:1/".into(), 1),
        // Only the public address of a name is used.
        (format!("http://mixed.test:{port}/page"), "/page: public".into(), 1),
        (
            format!("http://inner.test:{port}/x?q=1"),
            format!(
                "error: http://inner.test:{port}: the name leads to 192.168.7.7, an address of a private network, so nothing was sent. \
                 If it is meant, call webfetch with the literal address, http://192.168.7.7:{port}/x?q=1; the user will be asked."
            ),
            0,
        ),
        // The name means something else the second time it is asked for.
        (
            format!("http://turning.test:{port}/again"),
            format!(
                "error: http://turning.test:{port}: the name leads to 10.0.0.7, an address of a private network, so nothing was sent. \
                 If it is meant, call webfetch with the literal address, http://10.0.0.7:{port}/page; the user will be asked."
            ),
            1,
        ),
        (
            format!("http://nothing.test:{port}/"),
            format!("error: http://nothing.test:{port}: the name is not known (the name has no address). Check the spelling of the host."),
            0,
        ),
        (
            format!("http://unknown.test:{port}/"),
            format!("error: http://unknown.test:{port}: the name is not known (no such name). Check the spelling of the host."),
            0,
        ),
        (format!("http://localhost:{port}/page"), "/page: public".into(), 1),
        (format!("http://deep.localhost:{port}/page"), "/page: public".into(), 1),
    ] {
        let before = server.asked();
        assert_eq!(fetched(&network(), &url).await, said, "{url}");
        assert_eq!(server.asked() - before, requests, "{url}");
    }
}

#[tokio::test]
async fn a_proxy_is_used_for_what_is_public_and_resolves_itself() {
    let proxy = Server::start(|path| ok(&format!("by proxy: {path}"))).await;
    let server = Server::start(|_| ok("direct")).await;
    let network = Network { proxies: Proxies::all(&format!("http://{}", proxy.address)), ..network() };
    // A name that only the proxy knows.
    assert_eq!(fetched(&network, "http://unknown.test/x").await, "/x: by proxy: http://unknown.test/x");
    assert_eq!(fetched(&network, &format!("http://{}/x", server.address)).await, "/x: direct");
    assert_eq!(fetched(&network, &format!("http://localhost:{}/x", server.address.port())).await, "/x: direct");
    assert_eq!((proxy.asked(), server.asked()), (1, 2));
}
