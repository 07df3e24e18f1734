//! A tiny HTTP server that does exactly what a test says, down to the chunk.
//!
//! Connections are answered from one script, in the order requests arrive; what came in is kept.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// One thing the server does to a connection.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Raw bytes: status line, headers, body.
    Send(Vec<u8>),
    /// One HTTP chunk of a body.
    Chunk(Vec<u8>),
    /// The last chunk; the connection can be used again.
    End,
    Wait(Duration),
    /// Leaves the socket open and says nothing more.
    Hold,
    Close,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) connection: usize,
    /// Lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Vec<Act>>>,
    received: Mutex<Vec<Received>>,
    hung_up: Notify,
}

pub(crate) struct Server {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl Server {
    pub(crate) async fn playing(script: impl IntoIterator<Item = Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { script: Mutex::new(script.into_iter().collect()), ..Shared::default() });
        let for_connections = shared.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, connection, for_connections.clone()));
            }
        });
        Self { url, shared }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Ready when a client closed a connection that the server held open.
    pub(crate) async fn hung_up(&self) {
        self.shared.hung_up.notified().await;
    }
}

async fn serve(mut stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        shared.received.lock().unwrap().push(Received { connection, head, body });
        let acts = shared.script.lock().unwrap().pop_front().expect("the script has an answer");
        for act in acts {
            match act {
                Act::Send(bytes) => stream.write_all(&bytes).await.unwrap(),
                Act::Chunk(bytes) => {
                    let frame = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                    stream.write_all(&frame).await.unwrap();
                }
                Act::End => stream.write_all(b"0\r\n\r\n").await.unwrap(),
                Act::Wait(time) => tokio::time::sleep(time).await,
                Act::Hold => {
                    let gone = stream.read(&mut [0; 64]).await;
                    assert!(matches!(gone, Ok(0) | Err(_)), "the client said more");
                    return shared.hung_up.notify_one();
                }
                Act::Close => return,
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&more[..count]),
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8(bytes).unwrap().to_lowercase();
    let length: usize = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
    let have = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[have..]).await.ok()?;
    Some((head, body))
}
