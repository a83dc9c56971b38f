//! A backend that keeps every byte of every connection, in order, and answers each request that the strict reader
//! finds with what it saw: `seen METHOD TARGET CONTENT`. It never repairs: behind something that is no request it
//! answers nothing more.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::conformance::readers::{Message, strict_one};

/// A running backend.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
pub(crate) struct Kept {
    /// By connection, what came until the protocol changed.
    pub(crate) streams: Vec<Vec<u8>>,
    /// Whole requests in the order in which they were whole.
    pub(crate) requests: Vec<Message>,
    /// What broke a rule of HTTP/2.
    pub(crate) broken: Vec<String>,
    /// Connections on which something came that is no request of HTTP/1.1.
    refused: usize,
}

impl Kept {
    /// A connection begins; gives its number.
    pub(crate) fn begin(&mut self) -> usize {
        self.streams.push(Vec::new());
        self.streams.len() - 1
    }
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        Self::serving(|socket, kept| tokio::spawn(connection(socket, kept))).await
    }

    /// One that speaks HTTP/2 with prior knowledge.
    pub(crate) async fn start_http2() -> Self {
        Self::serving(|socket, kept| {
            tokio::spawn(crate::conformance::recorder_http2::connection(socket, kept))
        })
        .await
    }

    async fn serving(serve: fn(TcpStream, Arc<Mutex<Kept>>) -> JoinHandle<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kept: Arc<Mutex<Kept>> = Arc::default();
        let shared = Arc::clone(&kept);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // An answer that waits for an acknowledgement of what was written before takes 40 ms.
                socket.set_nodelay(true).unwrap();
                serve(socket, Arc::clone(&shared));
            }
        });
        Self { address, kept }
    }

    /// How much every connection brought so far.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        self.kept.lock().unwrap().streams.iter().map(Vec::len).collect()
    }

    /// What every connection brought behind these lengths: proxies use their connections again.
    pub(crate) fn streams_behind(&self, lengths: &[usize]) -> Vec<Vec<u8>> {
        let kept = self.kept.lock().unwrap();
        let begins = lengths.iter().copied().chain(std::iter::repeat(0));
        let parts = kept.streams.iter().zip(begins).map(|(stream, begin)| stream[begin..].to_vec());
        parts.filter(|stream| !stream.is_empty()).collect()
    }

    /// What broke a rule of HTTP/2 since it was asked last.
    pub(crate) fn broken(&self) -> Vec<String> {
        std::mem::take(&mut self.kept.lock().unwrap().broken)
    }

    /// Requests from the `skip`-th on.
    pub(crate) fn requests(&self, skip: usize) -> Vec<Message> {
        self.kept.lock().unwrap().requests[skip..].to_vec()
    }

    /// How many requests were whole, and on how many connections something came that is none.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let kept = self.kept.lock().unwrap();
        (kept.requests.len(), kept.refused)
    }
}

async fn connection(mut socket: TcpStream, kept: Arc<Mutex<Kept>>) {
    let number = kept.lock().unwrap().begin();
    let (mut stream, mut at, mut continued) = (Vec::new(), 0, usize::MAX);
    loop {
        let mut piece = [0; 16 * 1024];
        let Ok(count @ 1..) = socket.read(&mut piece).await else { return };
        stream.extend_from_slice(&piece[..count]);
        kept.lock().unwrap().streams[number].extend_from_slice(&piece[..count]);
        let answer = loop {
            match strict_one(&stream[at..]) {
                Ok(Some(message)) => {
                    let head = &stream[at..at + message.end];
                    let is_upgrade = message.target.contains("/switch") && has_upgrade(head);
                    at += message.end;
                    let answer = if is_upgrade { SWITCH.to_owned() } else { ok(&message.seen()) };
                    kept.lock().unwrap().requests.push(message);
                    if is_upgrade {
                        break Some(answer);
                    }
                    if socket.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Ok(None) if continued != at && expects(&stream[at..]) => {
                    continued = at;
                    if socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err() {
                        return;
                    }
                }
                Ok(None) => break None,
                Err(_) => {
                    kept.lock().unwrap().refused += 1;
                    break Some(
                        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                            .to_owned(),
                    );
                }
            }
        };
        let Some(answer) = answer else { continue };
        let _ = socket.write_all(answer.as_bytes()).await;
        swallow(socket, answer == SWITCH).await;
        return;
    }
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Behind a change of the protocol every byte comes back; behind an error none is looked at.
async fn swallow(mut socket: TcpStream, echo: bool) {
    let mut piece = [0; 16 * 1024];
    while let Ok(count @ 1..) = socket.read(&mut piece).await {
        if echo && socket.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

fn ok(seen: &str) -> String {
    let body = format!("seen {seen}\n");
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn has_upgrade(head: &[u8]) -> bool {
    head.to_ascii_lowercase().windows(10).any(|part| part == b"\r\nupgrade:")
}

/// Whether a head is whole and waits to be told to go on.
fn expects(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    bytes[..end].to_ascii_lowercase().windows(12).any(|part| part == b"100-continue")
}
