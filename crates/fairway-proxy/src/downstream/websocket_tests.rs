//! WebSocket fixtures in virtual time: clients and endpoints of both versions.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fairway_connection::websocket::accept;
use fairway_http::Head;
use fairway_http2::fields::Connect;
use fairway_http2::{Code, Config, Event, Server};
use fairway_model::BackendProtocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::{Http2TestClient, StreamResponse};
use crate::testing::{ScriptedConnect, TestWorker};

pub(super) const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

pub(super) const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// HTTP version of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    H1,
    H2,
}

pub(super) use HttpVersion::{H1, H2};

pub(super) const PAIRINGS: [(HttpVersion, HttpVersion); 4] = [(H1, H1), (H2, H1), (H1, H2), (H2, H2)];

/// What endpoints observed.
#[derive(Default)]
pub(super) struct EndpointLog {
    /// Start line and headers of each request as text.
    pub(super) request_heads: Vec<String>,
    /// How tunnels ended.
    pub(super) tunnel_ends: Vec<&'static str>,
    /// Bytes read from tunnels.
    pub(super) bytes_read: usize,
    /// Bytes written to tunnels.
    pub(super) bytes_written: usize,
}

pub(super) type SharedLog = Rc<RefCell<EndpointLog>>;

/// An HTTP/1 endpoint. The path selects its behaviour.
pub(super) async fn http1_endpoint(mut stream: DuplexStream, log: SharedLog) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let key = header(&head, "sec-websocket-key").unwrap_or_default();
    log.borrow_mut().request_heads.push(head.clone());
    let early = timeout(SHORT_PAUSE, stream.read_u8()).await;
    assert!(early.is_err(), "nothing passes before the endpoint has switched: {early:?}");
    let switch = |proof: &str| {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        )
    };
    let response = match path.as_str() {
        "/no" => "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope".to_owned(),
        "/plain" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".to_owned(),
        "/wrong" => switch(&accept(b"another")),
        "/hang" => return sleep(Duration::from_secs(1000)).await,
        _ => switch(&accept(key.as_bytes())),
    };
    stream.write_all(response.as_bytes()).await.unwrap();
    if path == "/no" || path == "/plain" {
        Box::pin(http1_endpoint(stream, log)).await;
    } else {
        http1_tunnel(stream, &path, &log).await;
    }
}

pub(super) async fn http1_tunnel(mut stream: DuplexStream, path: &str, log: &SharedLog) {
    match path {
        "/reset" => return drop(stream.read_u8().await),
        "/deaf" => return sleep(Duration::from_secs(50)).await,
        "/flood" => {
            while stream.write_all(&[b'x'; 1000]).await.is_ok() {
                log.borrow_mut().bytes_written += 1000;
            }
            return log.borrow_mut().tunnel_ends.push("broken");
        }
        _ => {}
    }
    let mut chunk = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut chunk).await {
            Ok(0) => break,
            Ok(count) => {
                log.borrow_mut().bytes_read += count;
                if stream.write_all(&chunk[..count]).await.is_err() {
                    return log.borrow_mut().tunnel_ends.push("broken");
                }
            }
            Err(_) => return log.borrow_mut().tunnel_ends.push("broken"),
        }
    }
    let written = stream.write_all(b"bye").await;
    let _ = stream.shutdown().await;
    log.borrow_mut().tunnel_ends.push(if written.is_ok() { "end" } else { "broken" });
}

pub(super) fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

/// A stream of an endpoint.
#[derive(Default)]
pub(super) struct Tunnel {
    path: String,
    /// When to respond; `None` once done.
    due: Option<Instant>,
    waits: Vec<u8>,
    is_ended: bool,
}

/// An HTTP/2 endpoint.
pub(super) struct Http2Endpoint {
    codec: Server,
    tunnels: BTreeMap<u32, Tunnel>,
    received: SharedLog,
}

impl Http2Endpoint {
    async fn serve(mut stream: DuplexStream, log: SharedLog, offers: bool, late: Duration) {
        let config = Config { extended_connect: offers, ..Config::default() };
        let mut endpoint = Self { codec: Server::new(config, 0), tunnels: BTreeMap::new(), received: log };
        let mut input = Vec::new();
        sleep(late).await;
        loop {
            let used = endpoint.process_input(&input);
            input.drain(..used);
            endpoint.poll_tunnels();
            let pending = endpoint.codec.pending().to_vec();
            if stream.write_all(&pending).await.is_err() {
                return;
            }
            endpoint.codec.mark_written(pending.len());
            let due = endpoint.tunnels.values().filter_map(|tunnel| tunnel.due).min();
            let wait = due.map_or(Duration::from_secs(9999), |due| due.duration_since(Instant::now()));
            match timeout(wait, stream.read_buf(&mut input)).await {
                Ok(Ok(1..)) | Err(_) => {}
                Ok(_) => return,
            }
        }
    }

    fn process_input(&mut self, input: &[u8]) -> usize {
        let (mut used, mut head) = (0, Head::new());
        loop {
            let (count, event) = self.codec.receive(0, &input[used..], &mut head);
            used += count;
            match event {
                Event::NeedMore | Event::Wait(_) => return used,
                Event::Head { stream, protocol, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let path = text(head.target());
                    let mut request_line = format!("{} {path}", text(head.method_bytes()));
                    if let Some(protocol) = protocol {
                        request_line += &format!(" {}", text(head.text(protocol)));
                    }
                    for field in head.fields() {
                        request_line += &format!("\n{}: {}", text(field.name), text(field.value));
                    }
                    self.received.borrow_mut().request_heads.push(request_line);
                    let due = Some(Instant::now() + SHORT_PAUSE);
                    self.tunnels.insert(stream, Tunnel { path, due, ..Tunnel::default() });
                }
                Event::Data { stream, bytes, end } => {
                    let Some(tunnel) = self.tunnels.get_mut(&stream) else { continue };
                    assert!(tunnel.due.is_none(), "nothing passes before the endpoint has agreed: {bytes:?}");
                    tunnel.is_ended |= end;
                    if tunnel.path != "/deaf" {
                        self.received.borrow_mut().bytes_read += bytes.len();
                        tunnel.waits.extend_from_slice(bytes);
                        self.codec.consume(stream, bytes.len() as u32);
                    }
                }
                Event::Reset { stream, code, .. } => {
                    let end = if code == Code::Cancel { "broken" } else { "another code" };
                    self.received.borrow_mut().tunnel_ends.push(end);
                    self.tunnels.remove(&stream);
                    self.codec.release(stream);
                }
                Event::Closed(fault) => panic!("the proxy broke a rule: {fault:?}"),
                _ => {}
            }
        }
    }

    /// Sends due responses and echoes data.
    fn poll_tunnels(&mut self) {
        let Self { codec, tunnels, received: seen } = self;
        tunnels.retain(|id, tunnel| {
            if tunnel.due.is_some_and(|due| due > Instant::now()) || tunnel.path == "/hang" {
                return true;
            }
            if tunnel.due.take().is_some() && !open(codec, *id, &tunnel.path) {
                return false;
            }
            while tunnel.path == "/flood" && codec.room(*id) > 0 {
                seen.borrow_mut().bytes_written += codec.send_data(*id, &[b'x'; 1000], false);
            }
            if tunnel.path == "/reset" && !tunnel.waits.is_empty() {
                codec.reset(*id, Code::Cancel);
                codec.release(*id);
                return false;
            }
            let sent = codec.send_data(*id, &tunnel.waits, false);
            tunnel.waits.drain(..sent);
            let is_over = tunnel.is_ended && tunnel.waits.is_empty();
            if is_over {
                codec.send_data(*id, b"bye", true);
                seen.borrow_mut().tunnel_ends.push("end");
                codec.release(*id);
            }
            !is_over
        });
    }
}

/// Responds to a request; returns whether it opened a tunnel.
pub(super) fn open(codec: &mut Server, id: u32, path: &str) -> bool {
    let mut response = Head::new();
    let mut refuse = |status, body: &[u8]| {
        response.start_response(status);
        response.append(b"content-length", b"4");
        codec.send_head(id, &response, false);
        codec.send_data(id, body, true);
        codec.release(id);
        false
    };
    match path {
        "/no" => return refuse(403, b"nope"),
        "/page" => return refuse(200, b"page"),
        _ => {}
    }
    response.start_response(200);
    response.append(b"sec-websocket-protocol", b"chat");
    // Meaningless here.
    response.append(b"content-length", b"7");
    codec.send_head(id, &response, false);
    true
}

/// A worker whose endpoint has this version; an HTTP/2 endpoint may offer WebSocket, with a delay.
pub(super) fn stage_with(spoken: HttpVersion, offers: bool, late: Duration) -> (TestWorker, SharedLog) {
    let log = SharedLog::default();
    let shared = Rc::clone(&log);
    let protocol = if spoken == H2 { BackendProtocol::H2c } else { BackendProtocol::Http1 };
    let stage = TestWorker::with_protocol(protocol, 1, move |_| {
        let log = Rc::clone(&shared);
        match spoken {
            H1 => ScriptedConnect::served_by(|stream| http1_endpoint(stream, log)),
            H2 => ScriptedConnect::served_by(move |stream| Http2Endpoint::serve(stream, log, offers, late)),
        }
    });
    (stage, log)
}

pub(super) fn stage(spoken: HttpVersion) -> (TestWorker, SharedLog) {
    stage_with(spoken, true, Duration::ZERO)
}

/// A client that requested a WebSocket.
pub(super) enum WebSocketClient {
    Http1(DuplexStream, Vec<u8>),
    Http2(Box<Http2TestClient>, u32),
}

impl WebSocketClient {
    /// Requests a WebSocket and sends `early` without waiting for the response.
    pub(super) async fn connect(stage: &TestWorker, spoken: HttpVersion, path: &str, early: &[u8]) -> Self {
        match spoken {
            H1 => {
                let mut stream = stage.client().stream;
                let handshake = format!(
                    "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
                );
                stream.write_all(&[handshake.as_bytes(), early].concat()).await.unwrap();
                Self::Http1(stream, Vec::new())
            }
            H2 => {
                let mut browser = Box::new(Http2TestClient::new(stage));
                let fields = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")];
                let id = connect(&mut browser, "websocket", path, &fields);
                browser.codec.send_data(id, early, false);
                browser.flush().await;
                Self::Http2(browser, id)
            }
        }
    }

    /// Status and headers of the response.
    pub(super) async fn response(&mut self) -> (u16, String) {
        match self {
            Self::Http1(stream, came) => {
                while !came.windows(4).any(|part| part == b"\r\n\r\n") {
                    assert!(stream.read_buf(came).await.unwrap() > 0, "a response");
                }
                let end = came.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
                let head = String::from_utf8(came.drain(..end).collect()).unwrap();
                (head[9..12].parse().unwrap(), head)
            }
            Self::Http2(browser, id) => {
                let id = *id;
                browser.run_until("a response", |browser| browser.responses[&id].status > 0).await;
                let StreamResponse { status, headers, .. } = &browser.responses[&id];
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let lines = headers.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value)));
                (*status, lines.collect())
            }
        }
    }

    /// Connects and expects the tunnel to open.
    pub(super) async fn open(stage: &TestWorker, spoken: HttpVersion, path: &str) -> Self {
        let mut client = Self::connect(stage, spoken, path, b"").await;
        assert_eq!(client.response().await.0, if spoken == H1 { 101 } else { 200 });
        client
    }

    pub(super) async fn send(&mut self, mut bytes: &[u8]) {
        match self {
            Self::Http1(stream, _) => stream.write_all(bytes).await.unwrap(),
            Self::Http2(browser, id) => {
                let id = *id;
                while !bytes.is_empty() {
                    browser.run_until("room", |browser| browser.codec.room(id) > 0).await;
                    bytes = &bytes[browser.codec.send_data(id, bytes, false)..];
                }
                browser.flush().await;
            }
        }
    }

    /// Reads this many bytes.
    pub(super) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        match self {
            Self::Http1(stream, came) => {
                while came.len() < count {
                    assert!(stream.read_buf(came).await.unwrap() > 0, "{count} bytes: {}", came.len());
                }
                came.drain(..count).collect()
            }
            Self::Http2(browser, id) => {
                let id = *id;
                browser.run_until("bytes", |browser| browser.responses[&id].body.len() >= count).await;
                browser.responses.get_mut(&id).unwrap().body.drain(..count).collect()
            }
        }
    }

    /// Ends its direction.
    pub(super) async fn end(&mut self) {
        match self {
            Self::Http1(stream, _) => stream.shutdown().await.unwrap(),
            Self::Http2(browser, id) => {
                browser.codec.send_data(*id, b"", true);
                browser.flush().await;
            }
        }
    }

    /// Reads to the end of the other direction; returns the data and whether the end was clean.
    pub(super) async fn read_to_end(&mut self) -> (Vec<u8>, bool) {
        match self {
            Self::Http1(stream, came) => {
                let clean = stream.read_to_end(came).await.is_ok();
                (std::mem::take(came), clean)
            }
            Self::Http2(browser, id) => {
                let id = *id;
                browser.run_until("the end", |browser| browser.responses[&id].is_finished()).await;
                let response = browser.responses.get_mut(&id).unwrap();
                (std::mem::take(&mut response.body), response.reset.is_none())
            }
        }
    }

    /// Abandons the tunnel: a reset, or an end of the connection.
    pub(super) async fn abandon(self) {
        if let Self::Http2(mut browser, id) = self {
            browser.codec.reset(id, Code::Cancel);
            browser.flush().await;
            // The connection stays.
            sleep(SHORT_PAUSE).await;
        }
    }
}

/// Header names and values.
pub(super) type Fields = &'static [(&'static str, &'static str)];

/// Sends an extended CONNECT.
pub(super) fn connect(
    browser: &mut Http2TestClient,
    protocol: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> u32 {
    let mut head = Head::new();
    head.start_request(b"CONNECT", path.as_bytes());
    head.append(b"Host", b"a");
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    let connect = Connect { protocol: protocol.as_bytes(), scheme: b"http", path: path.as_bytes() };
    let id = browser.codec.send_connect(&head, &connect).unwrap();
    browser.responses.insert(id, StreamResponse::default());
    browser.kept_streams.push(id);
    id
}
