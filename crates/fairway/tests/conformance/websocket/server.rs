//! A WebSocket server: tungstenite over hyper, in HTTP/1 and HTTP/2. It echoes messages and records its verdict on the frames
//! after each handshake.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tungstenite::protocol::frame::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

/// The version and path of a handshake, and the verdict.
pub(super) type Verdict = (Version, String, Vec<String>);

/// A running server.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) verdicts: UnboundedReceiver<Verdict>,
}

impl Server {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, verdicts) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http1().half_close(true);
                    builder.http2().enable_connect_protocol();
                    let service = service_fn(move |request| std::future::ready(respond(request, &sender)));
                    // The verdict says how the connection ended.
                    drop(builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await);
                });
            }
        });
        Self { address, verdicts }
    }
}

fn respond(
    mut request: Request<Incoming>,
    sender: &UnboundedSender<Verdict>,
) -> Result<Response<String>, http::Error> {
    let (version, path) = (request.version(), request.uri().path().to_owned());
    let response = match request.version() {
        Version::HTTP_2 => {
            let protocol = request.extensions().get::<Protocol>();
            let asks =
                request.method() == Method::CONNECT && protocol.is_some_and(|it| it.as_str() == "websocket");
            Response::builder().status(if asks { StatusCode::OK } else { StatusCode::BAD_REQUEST })
        }
        _ => match request.headers().get("sec-websocket-key") {
            None => Response::builder().status(StatusCode::BAD_REQUEST),
            Some(key) => Response::builder()
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .header("connection", "Upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-accept", proof(key.as_bytes())),
        },
    };
    let (sender, upgraded) = (sender.clone(), hyper::upgrade::on(&mut request));
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let verdict = judge(TokioIo::new(upgraded)).await;
        drop(sender.send((version, path, verdict)));
    });
    response.body(String::new())
}

/// RFC 6455 §4.2.2, item 5.4.
pub(super) fn proof(key: &[u8]) -> String {
    let suffix = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, suffix].concat()))
}

/// Received bytes that have not been read, and bytes to be sent.
#[derive(Default)]
struct Memory {
    received: Vec<u8>,
    read: usize,
    is_ended: bool,
    sent: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = &self.received[self.read..];
        if rest.is_empty() && !self.is_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Echoes messages until the connection ends, and returns a description of all that came.
async fn judge(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Vec<String> {
    let config = WebSocketConfig::default();
    let mut socket = WebSocket::from_raw_socket(Memory::default(), Role::Server, Some(config));
    let mut problems = Vec::new();
    loop {
        let over = loop {
            match socket.read() {
                Ok(message) => {
                    problems.push(in_words(&message));
                    if (message.is_text() || message.is_binary())
                        && let Err(error) = socket.send(message)
                    {
                        break Some(error);
                    }
                }
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = over {
            problems.push(error.to_string());
            refuse(&mut socket, &error);
            drop(socket.flush());
            drop(stream.write_all(&std::mem::take(&mut socket.get_mut().sent)).await);
            break;
        }
        drop(socket.flush());
        let memory = socket.get_mut();
        let goes = std::mem::take(&mut memory.sent);
        if stream.write_all(&goes).await.is_err() || stream.flush().await.is_err() {
            problems.push("nobody takes anything".to_owned());
            break;
        }
        memory.received.drain(..std::mem::take(&mut memory.read));
        match stream.read_buf(&mut memory.received).await {
            Ok(0) => memory.is_ended = true,
            Ok(_) => {}
            Err(_) => {
                problems.push("broken".to_owned());
                break;
            }
        }
    }
    // Closing with unread bytes would discard the last bytes sent.
    drop(stream.shutdown().await);
    drop(stream.read_to_end(&mut Vec::new()).await);
    problems
}

/// Sends the reason for the close, as a server should (RFC 6455 §7.1.7).
fn refuse(socket: &mut WebSocket<Memory>, error: &Error) {
    let code = match error {
        Error::Utf8(_) => CloseCode::Invalid,
        Error::Capacity(_) => CloseCode::Size,
        Error::Protocol(_) => CloseCode::Protocol,
        _ => return,
    };
    drop(socket.close(Some(CloseFrame { code, reason: "".into() })));
}

/// Describes a message by its kind, length and a checksum.
fn in_words(message: &Message) -> String {
    let kind = match message {
        Message::Text(_) => "text",
        Message::Binary(_) => "binary",
        Message::Ping(_) => "ping",
        Message::Pong(_) => "pong",
        Message::Close(frame) => return format!("close {frame:?}"),
        Message::Frame(_) => "frame",
    };
    let bytes = message.clone().into_data();
    let sum = bytes.iter().fold(5381u32, |sum, byte| sum.wrapping_mul(33) ^ u32::from(*byte));
    format!("{kind} of {} bytes, sum {sum:08x}", bytes.len())
}
