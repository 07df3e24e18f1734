//! A scripted model server on loopback: Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini, streaming.
//!
//! The script is a function of the request, so a retried step gets the same answer. Every request is kept; a transcript
//! that a real provider would refuse is answered 400 and remembered as an error of the test.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    answer::{Answer, Form},
    http::{Connection, Gone, Request},
    seen::Seen,
};

type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

pub struct ModelServer {
    pub url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    books: Mutex<Books>,
    changed: Condvar,
    closing: AtomicBool,
}

/// What the server has seen so far.
#[derive(Default)]
pub struct Books {
    /// Those that were answered by the script.
    pub requests: Vec<Arc<Seen>>,
    /// What a real provider would have refused, and scripts that panicked.
    pub errors: Vec<String>,
    pub in_flight: usize,
    pub max_in_flight: usize,
    /// Clients that went away before their answer was whole.
    pub disconnects: usize,
    next_id: usize,
}

impl ModelServer {
    pub fn start<A: Into<Answer>>(script: impl Fn(&Seen) -> A + Send + Sync + 'static) -> ModelServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let script: Box<Script> = Box::new(move |seen| script(seen).into());
        let shared = Arc::new(Shared { script, books: Mutex::default(), changed: Condvar::new(), closing: AtomicBool::new(false) });
        let serving = shared.clone();
        thread::spawn(move || serve(&listener, &serving));
        ModelServer { url: format!("http://{address}"), address, shared }
    }

    pub fn requests(&self) -> Vec<Arc<Seen>> {
        self.shared.books().requests.clone()
    }

    /// The last request; there must be one.
    pub fn last(&self) -> Arc<Seen> {
        self.shared.books().requests.last().expect("the model was never called").clone()
    }

    pub fn in_flight(&self) -> usize {
        self.shared.books().in_flight
    }

    pub fn max_in_flight(&self) -> usize {
        self.shared.books().max_in_flight
    }

    pub fn disconnects(&self) -> usize {
        self.shared.books().disconnects
    }

    /// The errors so far, which are then forgotten: for a test that wanted them.
    pub fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.books().errors)
    }

    /// Waits until the books say so; false when they did not in time.
    pub fn wait_until(&self, within: Duration, holds: impl Fn(&Books) -> bool) -> bool {
        let end = Instant::now() + within;
        let mut books = self.shared.books();
        while !holds(&books) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            books = self.shared.changed.wait_timeout(books, left).unwrap().0;
        }
        true
    }

    pub fn wait_for_requests(&self, count: usize) -> bool {
        self.wait_until(Duration::from_secs(20), |books| books.requests.len() >= count)
    }

    pub fn wait_for_disconnects(&self, count: usize) -> bool {
        self.wait_until(Duration::from_secs(20), |books| books.disconnects >= count)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // Wakes the listener. If nobody listens any more, so much the better.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Books) -> T) -> T {
        let result = change(&mut self.books());
        self.changed.notify_all();
        result
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.is_closing() {
            return;
        }
        let shared = shared.clone();
        let Ok(socket) = socket else { continue };
        thread::spawn(move || converse(socket, &shared));
    }
}

/// One connection, request after request.
fn converse(socket: TcpStream, shared: &Shared) {
    let closing = || shared.is_closing();
    let Ok(mut connection) = Connection::new(socket, &closing) else { return };
    while let Ok(request) = connection.request() {
        if respond(&mut connection, request, shared).is_err() {
            connection.shut();
            return;
        }
    }
}

fn respond(connection: &mut Connection, request: Request, shared: &Shared) -> Result<(), Gone> {
    if request.method == "GET" {
        return plain(connection, 200, &json!({"object": "list", "data": [{"id": "m1", "object": "model", "type": "model"}]}), &[]);
    }
    if request.path.ends_with("/count_tokens") {
        return plain(connection, 200, &json!({"input_tokens": request.body.len() / 4}), &[]);
    }
    let seen = Seen::read(&request.path, request.headers, request.body);
    match seen.and_then(|seen| seen.refuse().map_or(Ok(seen), Err)) {
        Ok(seen) => answer(connection, seen, shared),
        Err(why) => {
            shared.change(|books| books.errors.push(why.clone()));
            plain(connection, 400, &json!({"type": "error", "error": {"type": "invalid_request_error", "message": why}}), &[])
        }
    }
}

fn answer(connection: &mut Connection, mut seen: Seen, shared: &Shared) -> Result<(), Gone> {
    let seen = shared.change(|books| {
        seen.number = books.requests.len();
        let seen = Arc::new(seen);
        books.requests.push(seen.clone());
        books.in_flight += 1;
        books.max_in_flight = books.max_in_flight.max(books.in_flight);
        seen
    });
    let mut flight = Flight { shared, left: false };
    let scripted = catch_unwind(AssertUnwindSafe(|| (shared.script)(&seen)));
    let Ok(scripted) = scripted else {
        shared.change(|books| books.errors.push(format!("the script panicked at request {}", seen.number)));
        return plain(connection, 500, &json!({"error": {"message": "the script panicked"}}), &[]);
    };
    let sent = send(connection, &scripted, &seen, &mut flight);
    let is_meant = scripted.cut.is_some() || matches!(scripted.form, Form::Bytes(_));
    if sent.is_err() && !is_meant && !shared.is_closing() {
        shared.change(|books| books.disconnects += 1);
    }
    sent
}

/// A request that counts as open.
struct Flight<'a> {
    shared: &'a Shared,
    left: bool,
}

impl Flight<'_> {
    fn leave(&mut self) {
        if !std::mem::replace(&mut self.left, true) {
            self.shared.change(|books| books.in_flight -= 1);
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

fn send(connection: &mut Connection, answer: &Answer, seen: &Seen, flight: &mut Flight) -> Result<(), Gone> {
    connection.pause(answer.delay)?;
    match &answer.form {
        Form::Plain { status, body } => {
            flight.leave();
            plain(connection, *status, body, &answer.headers)
        }
        Form::Bytes(response) => {
            connection.send(response)?;
            Err(Gone)
        }
        Form::Reply(_) | Form::Stream(_) => stream(connection, answer, seen, flight),
    }
}

fn stream(connection: &mut Connection, answer: &Answer, seen: &Seen, flight: &mut Flight) -> Result<(), Gone> {
    let shared = flight.shared;
    let next_id = || {
        shared.change(|books| {
            books.next_id += 1;
            format!("toolu_{:06}", books.next_id)
        })
    };
    let chunks = answer.chunks(seen, &next_id);
    connection.send(&head(200, "text/event-stream", "transfer-encoding: chunked", &answer.headers))?;
    let end = answer.cut.or(answer.stall).unwrap_or(usize::MAX);
    let mut sent = 0;
    for (at, chunk) in chunks.iter().enumerate() {
        // A quick client may send its next request before it has read the last events: it must not be counted twice.
        if at + 2 >= chunks.len() && end == usize::MAX {
            flight.leave();
        }
        let part = &chunk[..chunk.len().min(end - sent)];
        if !part.is_empty() {
            connection.send_chunk(part)?;
        }
        sent += part.len();
        if sent == end {
            break;
        }
        connection.pause(answer.chunk_delay)?;
    }
    if answer.cut.is_some() {
        return Err(Gone);
    }
    if answer.stall.is_some() {
        return Err(connection.until_gone());
    }
    connection.send(b"0\r\n\r\n")
}

fn plain(connection: &mut Connection, status: u16, body: &Value, headers: &[(String, String)]) -> Result<(), Gone> {
    let body = body.to_string();
    let mut response = head(status, "application/json", &format!("content-length: {}", body.len()), headers);
    response.extend(body.into_bytes());
    connection.send(&response)
}

fn head(status: u16, content: &str, length: &str, headers: &[(String, String)]) -> Vec<u8> {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {content}\r\n{length}\r\n{more}\r\n").into_bytes()
}
