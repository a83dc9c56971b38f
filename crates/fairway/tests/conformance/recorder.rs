//! A backend that records every byte of every connection, in order, and responds to each request that the strict reader finds with
//! `seen METHOD TARGET CONTENT`. It never repairs anything: after something that is not a request, it stops responding.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::conformance::readers::{Message, strict_one};

/// A running backend.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    contents: Arc<Mutex<Kept>>,
}

#[derive(Default)]
pub(crate) struct Kept {
    /// By connection, the bytes up to a protocol change.
    pub(crate) streams: Vec<Vec<u8>>,
    /// Complete requests, in the order of their completion.
    pub(crate) requests: Vec<Message>,
    /// Violations of HTTP/2.
    pub(crate) broken: Vec<String>,
    /// Connections with something that is not an HTTP/1.1 request.
    refused: usize,
}

impl Kept {
    /// Registers a connection and returns its number.
    pub(crate) fn begin_case(&mut self) -> usize {
        self.streams.push(Vec::new());
        self.streams.len() - 1
    }
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        Self::serving(|socket, kept| tokio::spawn(connection(socket, kept))).await
    }

    /// A recorder that speaks HTTP/2 with prior knowledge.
    pub(crate) async fn start_http2() -> Self {
        Self::serving(|socket, kept| {
            tokio::spawn(crate::conformance::recorder_http2::connection(socket, kept))
        })
        .await
    }

    async fn serving(serve: fn(TcpStream, Arc<Mutex<Kept>>) -> JoinHandle<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let recorded: Arc<Mutex<Kept>> = Arc::default();
        let shared = Arc::clone(&recorded);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // Without TCP_NODELAY, a response that waits for the acknowledgement of earlier bytes takes 40 ms.
                socket.set_nodelay(true).unwrap();
                serve(socket, Arc::clone(&shared));
            }
        });
        Self { address, contents: recorded }
    }

    /// The number of bytes of every connection so far.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        self.contents.lock().unwrap().streams.iter().map(Vec::len).collect()
    }

    /// The bytes of every connection after these lengths, because proxies reuse their connections.
    pub(crate) fn streams_behind(&self, lengths: &[usize]) -> Vec<Vec<u8>> {
        let contents = self.contents.lock().unwrap();
        let begins = lengths.iter().copied().chain(std::iter::repeat(0));
        let parts = contents.streams.iter().zip(begins).map(|(stream, begin)| stream[begin..].to_vec());
        parts.filter(|stream| !stream.is_empty()).collect()
    }

    /// The violations of HTTP/2 since the last call.
    pub(crate) fn broken(&self) -> Vec<String> {
        std::mem::take(&mut self.contents.lock().unwrap().broken)
    }

    /// Requests from the `skip`-th on.
    pub(crate) fn requests(&self, skip: usize) -> Vec<Message> {
        self.contents.lock().unwrap().requests[skip..].to_vec()
    }

    /// The number of complete requests, and of connections with something that is not a request.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let contents = self.contents.lock().unwrap();
        (contents.requests.len(), contents.refused)
    }
}

async fn connection(mut socket: TcpStream, contents: Arc<Mutex<Kept>>) {
    let number = contents.lock().unwrap().begin_case();
    let (mut stream, mut at, mut continued) = (Vec::new(), 0, usize::MAX);
    loop {
        let mut chunk = [0; 16 * 1024];
        let Ok(count @ 1..) = socket.read(&mut chunk).await else { return };
        stream.extend_from_slice(&chunk[..count]);
        contents.lock().unwrap().streams[number].extend_from_slice(&chunk[..count]);
        let response = loop {
            match strict_one(&stream[at..]) {
                Ok(Some(message)) => {
                    let head = &stream[at..at + message.end];
                    let is_upgrade = message.target.contains("/switch") && has_upgrade(head);
                    at += message.end;
                    let response = if is_upgrade { SWITCH.to_owned() } else { ok(&message.echoed_text()) };
                    contents.lock().unwrap().requests.push(message);
                    if is_upgrade {
                        break Some(response);
                    }
                    if socket.write_all(response.as_bytes()).await.is_err() {
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
                    contents.lock().unwrap().refused += 1;
                    break Some(
                        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                            .to_owned(),
                    );
                }
            }
        };
        let Some(response) = response else { continue };
        let _ = socket.write_all(response.as_bytes()).await;
        swallow(socket, response == SWITCH).await;
        return;
    }
}

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// After a protocol change every byte is echoed; after an error none is read.
async fn swallow(mut socket: TcpStream, echo: bool) {
    let mut chunk = [0; 16 * 1024];
    while let Ok(count @ 1..) = socket.read(&mut chunk).await {
        if echo && socket.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

fn ok(received: &str) -> String {
    let body = format!("seen {received}\n");
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn has_upgrade(head: &[u8]) -> bool {
    head.to_ascii_lowercase().windows(10).any(|part| part == b"\r\nupgrade:")
}

/// Whether a head is complete and waits for 100 Continue.
fn expects(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return false };
    bytes[..end].to_ascii_lowercase().windows(12).any(|part| part == b"100-continue")
}
