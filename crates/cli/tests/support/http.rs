//! As much of HTTP/1.1 as a model server needs, over a socket that notices when the other side goes away.
//!
//! Knows nothing of models. Waiting is done in short slices, so that a server that is dropped takes its threads along.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

/// How long a wait goes on before it looks whether it still makes sense.
const SLICE: Duration = Duration::from_millis(20);

pub struct Request {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

pub struct Connection<'a> {
    socket: TcpStream,
    /// Read, but not yet understood.
    buffer: Vec<u8>,
    closing: &'a dyn Fn() -> bool,
}

/// The other side is gone, or the server is being dropped.
#[derive(Debug)]
pub struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Gone {
        Gone
    }
}

impl<'a> Connection<'a> {
    pub fn new(socket: TcpStream, closing: &'a dyn Fn() -> bool) -> io::Result<Connection<'a>> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SLICE))?;
        // A client that no longer reads must not hold a thread for ever.
        socket.set_write_timeout(Some(Duration::from_secs(60)))?;
        Ok(Connection { socket, buffer: Vec::new(), closing })
    }

    /// The next request, or nothing when the client has closed, also in the middle of one.
    pub fn request(&mut self) -> Result<Request, Gone> {
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break self.take(end + 4);
            }
            self.fill()?;
        };
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or("").split(' ');
        let method = first.next().unwrap_or("").to_owned();
        let path = first.next().unwrap_or("").split('?').next().unwrap_or("").trim_end_matches('/').to_owned();
        let headers: Vec<(String, String)> =
            lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        let value = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let body = if value("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            self.chunked_body()?
        } else {
            self.exactly(value("content-length").and_then(|length| length.parse().ok()).unwrap_or(0))?
        };
        Ok(Request { method, path, headers, body })
    }

    fn chunked_body(&mut self) -> Result<Vec<u8>, Gone> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(end) = find(&self.buffer, b"\r\n") {
                    break self.take(end + 2);
                }
                self.fill()?;
            };
            let size = String::from_utf8_lossy(&line)
                .trim()
                .split(';')
                .next()
                .and_then(|size| usize::from_str_radix(size, 16).ok())
                .ok_or(Gone)?;
            body.extend(self.exactly(size)?);
            self.exactly(2)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Gone> {
        while self.buffer.len() < length {
            self.fill()?;
        }
        Ok(self.take(length))
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        self.buffer.drain(..length).collect()
    }

    /// Waits for some bytes.
    fn fill(&mut self) -> Result<(), Gone> {
        let mut bytes = [0; 64 * 1024];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(Gone),
                Ok(length) => {
                    self.buffer.extend(&bytes[..length]);
                    return Ok(());
                }
                Err(error) if is_patience(&error) && !(self.closing)() => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    /// Lets time pass, unless the client closes its socket first.
    pub fn pause(&self, time: Duration) -> Result<(), Gone> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.look(left.min(SLICE))?;
        }
    }

    /// Waits until the client closes its socket.
    pub fn until_gone(&self) -> Gone {
        while self.look(SLICE).is_ok() {}
        Gone
    }

    fn look(&self, time: Duration) -> Result<(), Gone> {
        if (self.closing)() {
            return Err(Gone);
        }
        self.socket.set_read_timeout(Some(time))?;
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_read_timeout(Some(SLICE))?;
        match peeked {
            Ok(0) => Err(Gone),
            // The next request is already here: that is no news, but `peek` returns at once.
            Ok(_) => {
                std::thread::sleep(time);
                Ok(())
            }
            Err(error) if is_patience(&error) => Ok(()),
            Err(_) => Err(Gone),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        Ok(self.socket.write_all(bytes)?)
    }

    pub fn send_chunk(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend(bytes);
        chunk.extend(b"\r\n");
        self.send(&chunk)
    }

    pub fn shut(&self) {
        // It may be shut already; then there is nothing to do.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
