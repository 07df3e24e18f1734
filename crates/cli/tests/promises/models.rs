//! Which models there are and what they cost, servers on this machine, and a doctor who tries keys when asked.

use std::{
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    Done, Seen, World,
    http::{Connection, Request},
};

/// A server that answers by a function of the request, and remembers what it was asked.
pub(crate) struct Site {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
    closing: Arc<AtomicBool>,
}

impl Site {
    /// Status and body; an empty body is never sent, and the client waits in vain.
    pub(crate) fn start(answer: impl Fn(&Request) -> (u16, String) + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, closing) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let site = Site { url, asked: asked.clone(), closing: closing.clone() };
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for socket in listener.incoming() {
                if closing.load(Ordering::SeqCst) {
                    return;
                }
                let (asked, closing, answer) = (asked.clone(), closing.clone(), answer.clone());
                let Ok(socket) = socket else { continue };
                thread::spawn(move || {
                    let closing = || closing.load(Ordering::SeqCst);
                    let Ok(mut connection) = Connection::new(socket, &closing) else { return };
                    let Ok(request) = connection.request() else { return };
                    asked.lock().unwrap().push(format!("{} {}", request.method, request.path));
                    let (status, body) = answer(&request);
                    if body.is_empty() {
                        connection.until_gone();
                        return;
                    }
                    let kind = match body.as_bytes()[0] {
                        b'<' => "text/html",
                        b'e' => "text/event-stream",
                        _ => "application/json",
                    };
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = connection.send(format!("{head}{body}").as_bytes());
                });
            }
        });
        site
    }

    /// Says the same to everybody.
    fn saying(status: u16, body: impl Into<String>) -> Site {
        let body = body.into();
        Site::start(move |_| (status, body.clone()))
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the listener. If nobody listens any more, so much the better.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

/// Addresses where nobody listens, so that what runs on the test's machine is not found.
const NOWHERE: [(&str, &str); 4] = [
    ("OLLAMA_BASE_URL", "http://127.0.0.1:1"),
    ("LLAMACPP_BASE_URL", "http://127.0.0.1:1"),
    ("LMSTUDIO_BASE_URL", "http://127.0.0.1:1"),
    ("VLLM_BASE_URL", "http://127.0.0.1:1"),
];

fn alone() -> World {
    NOWHERE.into_iter().fold(World::with(), |plan, (name, value)| plan.env(name, value)).script(|_: &Seen| "ok")
}

fn row<'a>(rows: &'a Value, model: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row["model"] == model).unwrap_or_else(|| panic!("no {model} in {rows}"))
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no line {start:?} in\n{text}"))
}

/// A search for servers has a third of a second, which a busy machine may not have for it: then it is made again.
fn in_time(search: impl Fn() -> Done, is_whole: impl Fn(&Done) -> bool) -> Done {
    let mut done = search();
    for _ in 0..30 {
        if is_whole(&done) {
            break;
        }
        done = search();
    }
    done
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_name_that_nothing_has_is_wrong_usage_and_near_ones_are_named() {
    let world = alone();
    let list = |args: &[&str]| world.command(&[&["models", "list"], args].concat()).env("ANTHROPIC_API_KEY", "k").run();
    for (args, words) in [
        (&["nonsense"] as &[&str], "`posse models list` shows what there is"),
        (&["sonet"], "did you mean `sonnet`?"),
        (&["antropic"], "did you mean `anthropic`?"),
        (&["anthropic", "opsu"], "no model of anthropic that can be used here is called `opsu`; did you mean `opus`?"),
        (&["gpt-5.1"], "`posse models list openai gpt-5.1`"),
        (&["nonsense", "--format", "json"], "is called `nonsense`"),
    ] {
        let done = list(args).expect_code(2);
        assert!(done.err.contains(words) && done.out.is_empty(), "{args:?}: {}{}", done.out, done.err);
    }
}

#[test]
fn a_key_shows_the_newest_models_with_limits_and_prices_and_says_how_many_more() {
    let world = alone();
    let list = |args: &[&str]| world.command(&[&["models", "list"], args].concat()).env("ANTHROPIC_API_KEY", "k").run().expect_code(0);
    let short = list(&[]).out;
    let sonnet = words(line(&short, "anthropic/claude-sonnet-4-5 "));
    assert_eq!(sonnet[1..], ["200k", "64k", "$3", "$15", "$0.3", "tools", "images", "reasoning"], "{short}");
    assert!(short.contains("mock/m1") && short.contains("offline/explorer") && !short.contains("claude-3-haiku"), "{short}");
    let more = line(&short, "  and ");
    assert!(more.contains("more: posse models list anthropic"), "{more}");
    let count = |text: &str| text.lines().filter(|line| line.starts_with("anthropic/")).count();
    let hidden: usize = words(more)[1].parse().unwrap();
    let whole = list(&["anthropic"]).out;
    assert_eq!(count(&whole), count(&short) + hidden);
    assert!(whole.contains("claude-3-haiku-20240307") && !whole.contains("mock/m1"), "{whole}");
    assert_eq!(count(&list(&["--all"]).out), count(&whole));
    let some = list(&["anthropic", "opus", "4-6"]).out;
    assert_eq!((count(&some), some.contains("claude-opus-4-6")), (1, true), "{some}");
    assert!(list(&["m2"]).out.contains("mock/m2"), "a part of a name is enough");

    let rows = list(&["--format", "json"]).json();
    assert_eq!(rows.as_array().unwrap().iter().filter(|row| row["provider"] == "anthropic").count(), count(&whole), "json has everything");
    let expected = json!({"provider": "anthropic", "model": "anthropic/claude-sonnet-4-5", "context": 200_000, "output": 64_000,
        "cost": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}, "tools": true, "images": true, "reasoning": true,
        "released": "2025-09-29", "configured": false, "note": ""});
    assert_eq!(row(&rows, "anthropic/claude-sonnet-4-5"), &expected);
    assert!(world.model.requests().is_empty());
}

#[test]
fn what_the_user_wrote_about_a_model_counts_more_than_the_table() {
    let world = alone();
    let models = json!({"claude-sonnet-4-5": {"context": 5_000, "cost": {"input": 9}}, "mine": {"id": "claude-opus-4-6"}});
    world.configure(&json!({"provider": {"anthropic": {"api_key": "k", "models": models}}}));
    let rows = world.posse(&["models", "list", "--format", "json"]).expect_code(0).json();
    let sonnet = row(&rows, "anthropic/claude-sonnet-4-5");
    assert_eq!((&sonnet["context"], &sonnet["cost"]["input"], &sonnet["configured"]), (&json!(5_000), &json!(9.0), &json!(true)));
    let mine = row(&rows, "anthropic/mine");
    assert_eq!(
        (&mine["context"], &mine["cost"]["input"]),
        (&json!(1_000_000), &json!(5.0)),
        "a made-up name has the facts of what it stands for"
    );
    let short = world.posse(&["models", "list"]).expect_code(0).out;
    assert!(short.lines().nth(1).unwrap().starts_with("anthropic/claude-sonnet-4-5"), "what is configured comes first: {short}");
}

#[test]
fn a_price_that_nobody_knows_is_not_shown_as_free() {
    let world = alone();
    let models = json!({"m1": {}, "gift": {"cost": {"input": 0, "output": 0}}, "claude-sonnet-4-5": {}});
    let at = |url: &str| json!({"api": "openai", "base_url": url, "api_key": "k", "models": models});
    world.configure(&json!({"provider": {"relay": at("https://relay.example/v1"), "mine": at("http://127.0.0.1:1/v1")}}));
    let text = world.posse(&["models", "list"]).expect_code(0).out;
    let prices = |model: &str| words(line(&text, &format!("{model} ")))[3..6].to_vec();
    assert_eq!(prices("relay/m1"), ["?", "?", "?"], "{text}");
    assert_eq!(prices("relay/gift"), ["free", "free", "free"], "{text}");
    assert_eq!(prices("relay/claude-sonnet-4-5"), ["$3", "$15", "$0.3"], "{text}");
    assert_eq!(prices("mine/m1"), ["free", "free", "free"], "a server of the user's own: {text}");
    let rows = world.posse(&["models", "list", "--format", "json"]).expect_code(0).json();
    assert_eq!((&row(&rows, "relay/m1")["cost"], &row(&rows, "mine/m1")["cost"]["input"]), (&Value::Null, &json!(0.0)));
}

#[test]
fn a_provider_without_a_key_is_shown_only_by_name_and_with_what_to_do() {
    let world = alone();
    assert!(!world.posse(&["models", "list", "--all"]).expect_code(0).out.contains("openai/"));
    let named = world.posse(&["models", "list", "openai", "gpt-5-mini"]).expect_code(0);
    let mini = words(line(&named.out, "openai/gpt-5-mini "));
    assert_eq!(mini[1..4], ["400k", "128k", "$0.25"]);
    assert!(named.out.contains("no key") && named.err.contains("posse auth add openai"), "{named:?}");
}

fn ollama() -> Site {
    Site::start(|request| match (request.path.as_str(), String::from_utf8_lossy(&request.body).contains("qwen")) {
        ("/api/tags", _) => (200, json!({"models": [{"name": "qwen3:8b"}, {"name": "old:1b"}]}).to_string()),
        ("/api/show", true) => (
            200,
            json!({"model_info": {"qwen3.context_length": 40_960}, "capabilities": ["completion", "tools", "thinking"], "parameters": ""})
                .to_string(),
        ),
        ("/api/show", false) => {
            (200, json!({"model_info": {"llama.context_length": 8_192}, "parameters": "stop  \"x\"\nnum_ctx   2048"}).to_string())
        }
        _ => (404, "404 page not found".into()),
    })
}

#[test]
fn servers_on_this_machine_are_found_with_their_models() {
    let sites = [
        ("OLLAMA_BASE_URL", ollama()),
        (
            "LLAMACPP_BASE_URL",
            Site::start(|request| match request.path.as_str() {
                "/v1/models" => (200, json!({"object": "list", "data": [{"id": "gemma.gguf", "owned_by": "llamacpp"}]}).to_string()),
                "/props" => (200, json!({"default_generation_settings": {"n_ctx": 16_384}, "modalities": {"vision": true}}).to_string()),
                _ => (404, "{}".into()),
            }),
        ),
        (
            "LMSTUDIO_BASE_URL",
            Site::start(|request| match request.path.as_str() {
                "/api/v0/models" => (
                    200,
                    json!({"data": [{"id": "phi-4", "type": "llm", "max_context_length": 16_000, "loaded_context_length": 4_096},
                        {"id": "nomic", "type": "embeddings"}]})
                    .to_string(),
                ),
                _ => (404, "{}".into()),
            }),
        ),
        (
            "VLLM_BASE_URL",
            Site::saying(
                200,
                json!({"object": "list", "data": [{"id": "org/big", "owned_by": "vllm", "max_model_len": 32_768}]}).to_string(),
            ),
        ),
    ];
    let world = alone();
    let command = |args: &[&str]| {
        sites.iter().fold(world.command(args), |command, (name, site)| command.env(name, &format!("{}/v1", site.url))).run().expect_code(0)
    };
    // What is described last, and what is asked for last.
    let is_whole = |done: &Done| ["2048", "40960", "16384", "4096", "32768"].iter().all(|size| done.out.contains(size));
    let rows = in_time(|| command(&["models", "list", "--format", "json"]), is_whole).json();
    for (model, context, tools, images) in [
        ("ollama/qwen3:8b", 40_960, json!(true), json!(false)),
        ("ollama/old:1b", 2_048, json!(null), json!(null)),
        ("llamacpp/gemma.gguf", 16_384, json!(null), json!(true)),
        ("lmstudio/phi-4", 4_096, json!(null), json!(false)),
        ("vllm/org/big", 32_768, json!(null), json!(null)),
    ] {
        let row = row(&rows, model);
        assert_eq!((&row["context"], &row["tools"], &row["images"]), (&json!(context), &tools, &images), "{row}");
        assert_eq!(row["cost"]["input"], 0.0);
    }
    assert!(!rows.to_string().contains("nomic"), "it does not converse");
    let is_whole = |done: &Done| done.out.matches("local server").count() == 4;
    let checks = in_time(|| command(&["doctor", "--format", "json"]), is_whole).json();
    let found: Vec<&Value> = checks["checks"].as_array().unwrap().iter().filter(|check| check["check"] == "local server").collect();
    assert_eq!(
        found.iter().map(|check| check["provider"].as_str().unwrap()).collect::<Vec<_>>(),
        ["ollama", "llamacpp", "lmstudio", "vllm"]
    );
    assert!(found[0]["words"].as_str().unwrap().contains("posse run -m ollama/qwen3:8b"), "{}", found[0]);

    let before: usize = sites.iter().map(|(_, site)| site.asked().len()).sum();
    command(&["run", "hi"]);
    assert_eq!(sites.iter().map(|(_, site)| site.asked().len()).sum::<usize>(), before, "a run looks for nobody");
}

#[test]
fn what_is_not_such_a_server_or_does_not_answer_is_not_listed_and_costs_no_time() {
    let others = [
        Site::saying(200, json!({"hello": "world"}).to_string()),
        Site::saying(200, "<html>a page</html>"),
        Site::saying(200, json!({"object": "list", "data": [{"id": "gpt-x", "owned_by": "openai"}], "models": 7}).to_string()),
        Site::saying(200, json!({"object": "list", "data": []}).to_string()),
        // Accepts, and says nothing.
        Site::saying(200, ""),
    ];
    let world = alone();
    for site in &others {
        let begun = Instant::now();
        let command =
            NOWHERE.iter().fold(world.command(&["models", "list", "--format", "json"]), |command, (name, _)| command.env(name, &site.url));
        let rows = command.run().expect_code(0).json();
        let took = begun.elapsed();
        let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["provider"].as_str().unwrap()).collect();
        assert_eq!(names, ["mock", "mock", "offline"], "{:?}", site.asked());
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert!(!site.asked().is_empty());
    }
}

#[test]
fn ollamas_own_variable_leads_a_run_and_the_list_to_its_server() {
    let world = alone();
    let host = world.model.url.trim_start_matches("http://").to_owned();
    let run =
        world.command(&["run", "-m", "ollama/qwen3:8b", "hi"]).without("OLLAMA_BASE_URL").env("OLLAMA_HOST", &host).run().expect_code(0);
    assert_eq!((run.out.as_str(), world.model.last().path.as_str()), ("ok\n", "/v1/chat/completions"));
    let site = ollama();
    let host = site.url.trim_start_matches("http://");
    let search = || world.command(&["models", "list", "ollama"]).without("OLLAMA_BASE_URL").env("OLLAMA_HOST", host).run().expect_code(0);
    let list = in_time(search, |done| done.out.contains("40k")).out;
    assert!(list.contains("ollama/qwen3:8b") && list.contains("40k"), "{list}");
}

/// What leaves this machine goes through the proxy, so the proxy knows who was asked.
#[test]
fn a_server_elsewhere_is_asked_only_by_its_name() {
    let world = alone();
    let proxy = Site::saying(404, "nothing here");
    let command = |args: &[&str]| {
        let command = world.command(args).without("OLLAMA_BASE_URL").env("OLLAMA_HOST", "box.invalid");
        command.env("HTTP_PROXY", &proxy.url).env("http_proxy", &proxy.url).run().expect_code(0)
    };
    let list = command(&["models", "list"]);
    assert!(list.err.contains("ollama at http://box.invalid:11434/v1 is not on this machine"), "{}", list.err);
    assert!(list.err.contains("posse models list ollama"), "{}", list.err);
    let doctor = command(&["doctor"]).out;
    assert!(doctor.contains("was not asked; `posse doctor --try ollama` asks it"), "{doctor}");
    assert_eq!(proxy.asked().len(), 0, "{:?}", proxy.asked());
    let asked = in_time(|| command(&["models", "list", "ollama"]), |_| !proxy.asked().is_empty());
    assert!(!proxy.asked().is_empty(), "{}", asked.err);
}

const KEY: &str = "sk-tried-0123456789abcdef";

/// `posse doctor --try mock` against a site; the finding of the try.
fn tried(site_url: &str, code: i32) -> String {
    let world = alone();
    let models = json!({"m1": {}});
    world.configure(&json!({"provider": {"mock": {"api": "anthropic", "base_url": site_url, "api_key": KEY, "models": models}}}));
    let done = world.posse(&["doctor", "--try", "mock", "--format", "json"]).expect_code(code);
    assert!(!done.out.contains("0123456789") && !done.err.contains("0123456789"), "{done:?}");
    finding(&done, "try")["words"].as_str().unwrap().to_owned()
}

fn finding(done: &Done, check: &str) -> Value {
    let all = done.json();
    let found = all["checks"].as_array().unwrap().iter().find(|row| row["check"] == check).cloned();
    found.unwrap_or_else(|| panic!("no {check} in {all}"))
}

#[test]
fn a_try_says_what_is_wrong_and_what_to_do() {
    let error = |kind: &str, words: &str| json!({"type": "error", "error": {"type": kind, "message": words}}).to_string();
    let listing = json!({"data": [{"id": "m1"}, {"id": "m2"}]}).to_string();
    for (status, body, code, expected) in [
        (200, listing, 0, &["works", "2 models", "posse.json"][..]),
        (401, error("authentication_error", &format!("invalid x-api-key {KEY}")), 1, &["refuses", "api_key in", "posse auth add mock"]),
        (400, error("invalid_request_error", "API key not valid"), 1, &["refuses", "posse auth add mock"]),
        (429, error("rate_limit_error", "slow down"), 1, &["rate limited", "slow down", "wait"]),
        (429, error("insufficient_quota", "insufficient_quota"), 1, &["account", "credit"]),
        (404, "<html>nothing</html>".to_owned(), 1, &["wrong base URL", "provider.mock.base_url"]),
        (200, "<html>welcome</html>".to_owned(), 1, &["wrong base URL", "provider.mock.base_url"]),
        (503, error("overloaded_error", "busy"), 1, &["trouble", "busy", "later"]),
    ] {
        let site = Site::saying(status, body);
        let words = tried(&site.url, code);
        assert!(expected.iter().all(|part| words.contains(part)), "{status}: {words}");
        assert_eq!(site.asked()[0], "GET /v1/models");
    }
    let words = tried("http://127.0.0.1:1", 1);
    assert!(words.contains("no connection") && words.contains("provider.mock.base_url"), "{words}");
}

#[test]
fn where_nothing_can_be_listed_one_token_is_asked_for() {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "h"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
    let asked_for = Arc::new(Mutex::new(Value::Null));
    let said = asked_for.clone();
    // A relay that carries conversations and nothing else.
    let relay = Site::start(move |request| match request.method.as_str() {
        "GET" => (404, json!({"error": {"message": "no such route"}}).to_string()),
        _ => {
            *said.lock().unwrap() = serde_json::from_slice(&request.body).unwrap();
            (200, stream.clone())
        }
    });
    assert!(tried(&relay.url, 0).starts_with("works"));
    assert_eq!(relay.asked(), ["GET /v1/models", "POST /v1/messages"]);
    assert_eq!(asked_for.lock().unwrap()["max_tokens"], 1);
}

#[test]
fn without_try_the_doctor_asks_no_provider_and_says_where_keys_are() {
    let site = Site::saying(200, json!({"data": []}).to_string());
    let world = alone();
    world.configure(&json!({"provider": {"mock": {"base_url": site.url, "api_key": KEY, "env": ["MOCK_KEY"], "models": {"m1": {}}}}}));
    let done = world.command(&["doctor", "--format", "json"]).env("MOCK_KEY", "k2").env("GOOGLE_API_KEY", "k3").run().expect_code(0);
    let keys = done.json();
    let keys: Vec<(&str, &str)> = keys["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["check"] == "key")
        .map(|check| (check["provider"].as_str().unwrap(), check["words"].as_str().unwrap()))
        .collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_eq!(keys[0], ("gemini", "from GOOGLE_API_KEY"));
    assert!(
        keys[1].1.contains("api_key in") && keys[1].1.contains("posse.json:") && keys[1].1.ends_with("shadowed by it: MOCK_KEY"),
        "{keys:?}"
    );
    assert!(site.asked().is_empty());
    let nobody = alone();
    nobody.configure(&json!({}));
    let done = nobody.posse(&["doctor", "--try", "--format", "json"]).expect_code(0);
    assert!(finding(&done, "try")["words"].as_str().unwrap().contains("nothing was tried"));
    let slip = nobody.posse(&["doctor", "--try", "antropic"]).expect_code(2);
    assert!(slip.err.contains("did you mean `anthropic`?"), "{}", slip.err);
    let missing = nobody.posse(&["doctor", "--try", "anthropic"]).expect_code(1);
    assert!(missing.out.contains("posse auth add anthropic"), "{}", missing.out);
}
