//! WebSocket in virtual time, with clients and endpoints of both versions: each of the four pairings passes the same bytes, and
//! ends in the same way.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fairway_http2::fields::Connect;
use fairway_http2::frame::{END_HEADERS, Kind, write_frame};
use fairway_http2::{Code, Config, Event, Server};
use fairway_message::Head;
use fairway_model::BackendProtocol;
use fairway_sides::websocket::accept;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::{Answer, Browser, comes_to_rest};
use crate::testing::{Meeting, Stage, on_stage};
use crate::worker::Phase;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

const SHORT: Duration = Duration::from_millis(100);

/// Which version is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    H1,
    H2,
}

use Spoken::{H1, H2};

const PAIRINGS: [(Spoken, Spoken); 4] = [(H1, H1), (H2, H1), (H1, H2), (H2, H2)];

/// What endpoints saw.
#[derive(Default)]
struct Seen {
    /// Start line and fields of each request, as text.
    heads: Vec<String>,
    /// How tunnels ended.
    ends: Vec<&'static str>,
    /// Bytes that were taken out of tunnels.
    taken: usize,
    /// Bytes that were put into tunnels.
    given: usize,
}

type Shared = Rc<RefCell<Seen>>;

/// An endpoint of HTTP/1. What it does, its path says.
async fn http1_endpoint(mut stream: DuplexStream, seen: Shared) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let key = field(&head, "sec-websocket-key").unwrap_or_default();
    seen.borrow_mut().heads.push(head.clone());
    let early = timeout(SHORT, stream.read_u8()).await;
    assert!(early.is_err(), "nothing passes before the endpoint has switched: {early:?}");
    let switch = |proof: &str| {
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        )
    };
    let answer = match path.as_str() {
        "/no" => "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope".to_owned(),
        "/plain" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".to_owned(),
        "/wrong" => switch(&accept(b"another")),
        "/hang" => return sleep(Duration::from_secs(1000)).await,
        _ => switch(&accept(key.as_bytes())),
    };
    stream.write_all(answer.as_bytes()).await.unwrap();
    if path == "/no" || path == "/plain" {
        Box::pin(http1_endpoint(stream, seen)).await;
    } else {
        http1_tunnel(stream, &path, &seen).await;
    }
}

async fn http1_tunnel(mut stream: DuplexStream, path: &str, seen: &Shared) {
    match path {
        "/reset" => return drop(stream.read_u8().await),
        "/deaf" => return sleep(Duration::from_secs(50)).await,
        "/flood" => {
            while stream.write_all(&[b'x'; 1000]).await.is_ok() {
                seen.borrow_mut().given += 1000;
            }
            return seen.borrow_mut().ends.push("broken");
        }
        _ => {}
    }
    let mut piece = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut piece).await {
            Ok(0) => break,
            Ok(count) => {
                seen.borrow_mut().taken += count;
                if stream.write_all(&piece[..count]).await.is_err() {
                    return seen.borrow_mut().ends.push("broken");
                }
            }
            Err(_) => return seen.borrow_mut().ends.push("broken"),
        }
    }
    let said = stream.write_all(b"bye").await;
    let _ = stream.shutdown().await;
    seen.borrow_mut().ends.push(if said.is_ok() { "end" } else { "broken" });
}

fn field(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

/// A stream of an endpoint.
#[derive(Default)]
struct Tunnel {
    path: String,
    /// When it is answered; none when it was.
    due: Option<Instant>,
    waits: Vec<u8>,
    is_ended: bool,
}

/// An endpoint of HTTP/2.
struct Http2Endpoint {
    codec: Server,
    tunnels: BTreeMap<u32, Tunnel>,
    seen: Shared,
}

impl Http2Endpoint {
    async fn serve(mut stream: DuplexStream, seen: Shared, (offers, late): (bool, Duration)) {
        let config = Config { extended_connect: offers, ..Config::default() };
        let mut endpoint = Self { codec: Server::new(config, 0), tunnels: BTreeMap::new(), seen };
        let mut input = Vec::new();
        sleep(late).await;
        loop {
            let used = endpoint.take(&input);
            input.drain(..used);
            endpoint.act();
            let pending = endpoint.codec.pending().to_vec();
            if stream.write_all(&pending).await.is_err() {
                return;
            }
            endpoint.codec.wrote(pending.len());
            let due = endpoint.tunnels.values().filter_map(|one| one.due).min();
            let wait = due.map_or(Duration::from_secs(9999), |due| due.duration_since(Instant::now()));
            match timeout(wait, stream.read_buf(&mut input)).await {
                Ok(Ok(1..)) | Err(_) => {}
                Ok(_) => return,
            }
        }
    }

    fn take(&mut self, input: &[u8]) -> usize {
        let (mut used, mut head) = (0, Head::new());
        loop {
            let (count, event) = self.codec.receive(0, &input[used..], &mut head);
            used += count;
            match event {
                Event::NeedMore | Event::Wait(_) => return used,
                Event::Head { stream, protocol, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let path = text(head.target());
                    let mut said = format!("{} {path}", text(head.method_bytes()));
                    if let Some(protocol) = protocol {
                        said += &format!(" {}", text(head.text(protocol)));
                    }
                    for field in head.fields() {
                        said += &format!("\n{}: {}", text(field.name), text(field.value));
                    }
                    self.seen.borrow_mut().heads.push(said);
                    let due = Some(Instant::now() + SHORT);
                    self.tunnels.insert(stream, Tunnel { path, due, ..Tunnel::default() });
                }
                Event::Data { stream, bytes, end } => {
                    let Some(tunnel) = self.tunnels.get_mut(&stream) else { continue };
                    assert!(tunnel.due.is_none(), "nothing passes before the endpoint has agreed: {bytes:?}");
                    tunnel.is_ended |= end;
                    if tunnel.path != "/deaf" {
                        self.seen.borrow_mut().taken += bytes.len();
                        tunnel.waits.extend_from_slice(bytes);
                        self.codec.consume(stream, bytes.len() as u32);
                    }
                }
                Event::Reset { stream, code, .. } => {
                    let end = if code == Code::Cancel { "broken" } else { "another code" };
                    self.seen.borrow_mut().ends.push(end);
                    self.tunnels.remove(&stream);
                    self.codec.release(stream);
                }
                Event::Closed(fault) => panic!("the proxy broke a rule: {fault:?}"),
                _ => {}
            }
        }
    }

    /// Answers and echoes.
    fn act(&mut self) {
        let Self { codec, tunnels, seen } = self;
        tunnels.retain(|id, tunnel| {
            if tunnel.due.is_some_and(|due| due > Instant::now()) || tunnel.path == "/hang" {
                return true;
            }
            if tunnel.due.take().is_some() && !open(codec, *id, &tunnel.path) {
                return false;
            }
            while tunnel.path == "/flood" && codec.room(*id) > 0 {
                seen.borrow_mut().given += codec.send_data(*id, &[b'x'; 1000], false);
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
                seen.borrow_mut().ends.push("end");
                codec.release(*id);
            }
            !is_over
        });
    }
}

/// Answers a request; says whether it is a tunnel now.
fn open(codec: &mut Server, id: u32, path: &str) -> bool {
    let mut answer = Head::new();
    let mut refuse = |status, body: &[u8]| {
        answer.start_response(status);
        answer.append(b"content-length", b"4");
        codec.send_head(id, &answer, false);
        codec.send_data(id, body, true);
        codec.release(id);
        false
    };
    match path {
        "/no" => return refuse(403, b"nope"),
        "/page" => return refuse(200, b"page"),
        _ => {}
    }
    answer.start_response(200);
    answer.append(b"sec-websocket-protocol", b"chat");
    // Which means nothing here.
    answer.append(b"content-length", b"7");
    codec.send_head(id, &answer, false);
    true
}

/// A stage whose endpoint speaks this version; one of HTTP/2 offers WebSocket or not, and says so late.
fn stage_with(spoken: Spoken, offers: bool, late: Duration) -> (Stage, Shared) {
    let seen = Shared::default();
    let shared = Rc::clone(&seen);
    let protocol = if spoken == H2 { BackendProtocol::H2c } else { BackendProtocol::Http1 };
    let stage = Stage::speaking(protocol, 1, move |_| {
        let seen = Rc::clone(&shared);
        match spoken {
            H1 => Meeting::with(|stream| http1_endpoint(stream, seen)),
            H2 => Meeting::with(move |stream| Http2Endpoint::serve(stream, seen, (offers, late))),
        }
    });
    (stage, seen)
}

fn stage(spoken: Spoken) -> (Stage, Shared) {
    stage_with(spoken, true, Duration::ZERO)
}

/// A client that asked for a WebSocket.
enum Asker {
    Http1(DuplexStream, Vec<u8>),
    Http2(Box<Browser>, u32),
}

impl Asker {
    /// Asks, and sends `early` without waiting for the answer.
    async fn ask(stage: &Stage, spoken: Spoken, path: &str, early: &[u8]) -> Self {
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
                let mut browser = Box::new(Browser::new(stage));
                let fields = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")];
                let id = connect(&mut browser, "websocket", path, &fields);
                browser.codec.send_data(id, early, false);
                browser.flush().await;
                Self::Http2(browser, id)
            }
        }
    }

    /// The status and the fields of the answer.
    async fn answer(&mut self) -> (u16, String) {
        match self {
            Self::Http1(stream, came) => {
                while !came.windows(4).any(|part| part == b"\r\n\r\n") {
                    assert!(stream.read_buf(came).await.unwrap() > 0, "an answer");
                }
                let end = came.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
                let head = String::from_utf8(came.drain(..end).collect()).unwrap();
                (head[9..12].parse().unwrap(), head)
            }
            Self::Http2(browser, id) => {
                let id = *id;
                browser.until("an answer", |browser| browser.answers[&id].status > 0).await;
                let Answer { status, fields, .. } = &browser.answers[&id];
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let lines = fields.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value)));
                (*status, lines.collect())
            }
        }
    }

    /// The same, of a request that opens one.
    async fn opened(stage: &Stage, spoken: Spoken, path: &str) -> Self {
        let mut client = Self::ask(stage, spoken, path, b"").await;
        assert_eq!(client.answer().await.0, if spoken == H1 { 101 } else { 200 });
        client
    }

    async fn send(&mut self, mut bytes: &[u8]) {
        match self {
            Self::Http1(stream, _) => stream.write_all(bytes).await.unwrap(),
            Self::Http2(browser, id) => {
                let id = *id;
                while !bytes.is_empty() {
                    browser.until("room", |browser| browser.codec.room(id) > 0).await;
                    bytes = &bytes[browser.codec.send_data(id, bytes, false)..];
                }
                browser.flush().await;
            }
        }
    }

    /// What comes, when it is so much.
    async fn bytes(&mut self, count: usize) -> Vec<u8> {
        match self {
            Self::Http1(stream, came) => {
                while came.len() < count {
                    assert!(stream.read_buf(came).await.unwrap() > 0, "{count} bytes: {}", came.len());
                }
                came.drain(..count).collect()
            }
            Self::Http2(browser, id) => {
                let id = *id;
                browser.until("bytes", |browser| browser.answers[&id].body.len() >= count).await;
                browser.answers.get_mut(&id).unwrap().body.drain(..count).collect()
            }
        }
    }

    /// Ends its direction.
    async fn end(&mut self) {
        match self {
            Self::Http1(stream, _) => stream.shutdown().await.unwrap(),
            Self::Http2(browser, id) => {
                browser.codec.send_data(*id, b"", true);
                browser.flush().await;
            }
        }
    }

    /// Waits for the end of the other direction; gives what came before it, and whether it was a clean one.
    async fn rest(&mut self) -> (Vec<u8>, bool) {
        match self {
            Self::Http1(stream, came) => {
                let clean = stream.read_to_end(came).await.is_ok();
                (std::mem::take(came), clean)
            }
            Self::Http2(browser, id) => {
                let id = *id;
                browser.until("the end", |browser| browser.answers[&id].is_over()).await;
                let answer = browser.answers.get_mut(&id).unwrap();
                (std::mem::take(&mut answer.body), answer.reset.is_none())
            }
        }
    }

    /// Gives it up: a reset, or an end of the connection.
    async fn leave(self) {
        if let Self::Http2(mut browser, id) = self {
            browser.codec.reset(id, Code::Cancel);
            browser.flush().await;
            // The connection stays.
            sleep(SHORT).await;
        }
    }
}

/// Names and values.
type Fields = &'static [(&'static str, &'static str)];

/// Asks for another protocol.
fn connect(browser: &mut Browser, protocol: &str, path: &str, fields: &[(&str, &str)]) -> u32 {
    let mut head = Head::new();
    head.start_request(b"CONNECT", path.as_bytes());
    head.append(b"Host", b"a");
    fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
    let connect = Connect { protocol: protocol.as_bytes(), scheme: b"http", path: path.as_bytes() };
    let id = browser.codec.send_connect(&head, &connect).unwrap();
    browser.answers.insert(id, Answer::default());
    browser.kept.push(id);
    id
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_and_each_direction_ends_for_itself() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::ask(&stage, client, "/echo", b"early").await;
            asker.answer().await;
            assert_eq!(asker.bytes(5).await, b"early", "{client:?} {endpoint:?}");
            asker.send(b" and late").await;
            assert_eq!(asker.bytes(9).await, b" and late");
            assert_eq!(stage.worker.exchanges(), 1);
            asker.end().await;
            assert_eq!(asker.rest().await, (b"bye".to_vec(), true), "{client:?} {endpoint:?}");
            assert_eq!(seen.borrow().ends, ["end"]);
            drop(asker);
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_side_has_the_handshake_of_its_version() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            for _ in 0..2 {
                let mut asker = Asker::ask(&stage, client, "/echo?a=b", b"").await;
                let (status, answer) = asker.answer().await;
                let what = format!("{client:?} {endpoint:?}: {answer}");
                assert_eq!(field(&answer, "sec-websocket-protocol").as_deref(), Some("chat"), "{what}");
                assert_eq!(field(&answer, "content-length"), None, "{what}");
                let proof = field(&answer, "sec-websocket-accept");
                match client {
                    H1 => assert_eq!((status, proof), (101, Some(accept(KEY.as_bytes()))), "{what}"),
                    H2 => assert_eq!((status, proof), (200, None), "{what}"),
                }
                assert_eq!(field(&answer, "upgrade").is_some(), client == H1, "{what}");
            }
            let heads = seen.borrow().heads.clone();
            let key = |at: usize| field(&heads[at], "sec-websocket-key");
            assert_eq!(field(&heads[0], "sec-websocket-version").as_deref(), Some("13"));
            assert_eq!(field(&heads[0], "sec-websocket-protocol").as_deref(), Some("chat"));
            match endpoint {
                H1 => {
                    assert!(heads[0].starts_with("GET /echo?a=b HTTP/1.1\r\n"), "{}", heads[0]);
                    assert_eq!(field(&heads[0], "upgrade").as_deref(), Some("websocket"));
                    assert_eq!(field(&heads[0], "connection").as_deref(), Some("upgrade"));
                    assert_eq!(key(0).unwrap().len(), 24, "16 bytes");
                    assert_eq!(key(0) == key(1), client == H1, "a key of ours is used once");
                }
                H2 => {
                    assert!(heads[0].starts_with("CONNECT /echo?a=b websocket\n"), "{}", heads[0]);
                    assert_eq!((key(0), field(&heads[0], "host").as_deref()), (None, Some("a")));
                    assert_eq!(field(&heads[0], "upgrade"), None);
                }
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_answer_like_any_other() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::ask(&stage, client, "/no", b"early").await;
            assert_eq!(asker.answer().await.0, 403, "{client:?} {endpoint:?}");
            assert_eq!(asker.bytes(4).await, b"nope");
            drop(asker);
            comes_to_rest(&stage).await;
            assert_eq!(seen.borrow().taken, 0, "what came too early went nowhere");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http2_is_not_told_that_a_page_is_a_websocket() {
    for (path, reason) in [("/plain", "upstream_no_websocket"), ("/wrong", "upstream_malformed")] {
        on_stage(async {
            let (stage, _) = stage(H1);
            let mut asker = Asker::ask(&stage, H2, path, b"early").await;
            assert_eq!(asker.answer().await.0, 502, "{path}");
            let body = String::from_utf8(asker.rest().await.0).unwrap();
            assert!(body.contains(reason), "{body}");
            drop(asker);
            comes_to_rest(&stage).await;
            // A client of HTTP/1 sees for itself.
            let mut asker = Asker::ask(&stage, H1, path, b"").await;
            assert_eq!(asker.answer().await.0, if path == "/plain" { 200 } else { 101 });
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_http2_that_does_not_offer_it_is_not_asked() {
    for client in [H1, H2] {
        on_stage(async {
            let (stage, seen) = stage_with(H2, false, Duration::ZERO);
            for round in 1..3 {
                let mut asker = Asker::ask(&stage, client, "/echo", b"").await;
                assert_eq!(asker.answer().await.0, 502, "{client:?}");
                let reason = "fairway_faults_total{reason=\"upstream_no_websocket\"}";
                assert_eq!(stage.value(reason), round, "{client:?}");
            }
            assert_eq!(seen.borrow().heads.len(), 0, "it got no request");
            assert_eq!(
                stage.connects().len(),
                1,
                "its connection is as good as before, and nothing is tried again"
            );
            let mut browser = Browser::new(&stage);
            let id = browser.ask_with(b"GET", b"/page", &[], true);
            assert_eq!(browser.answered(id).await.body, b"page");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_endpoint_offers_is_waited_for() {
    for client in [H1, H2] {
        on_stage(async {
            let late = Duration::from_secs(2);
            let (stage, _) = stage_with(H2, true, late);
            let began = Instant::now();
            let mut asker = Asker::ask(&stage, client, "/echo", b"early").await;
            asker.answer().await;
            assert!(began.elapsed() >= late);
            assert_eq!(asker.bytes(5).await, b"early");
            // Never is too late, and a client that leaves does not wait.
            let (stage, _) = stage_with(H2, true, Duration::from_secs(5000));
            let mut asker = Asker::ask(&stage, client, "/echo", b"").await;
            assert_eq!(asker.answer().await.0, 504, "{client:?}");
            let asker = Asker::ask(&stage, client, "/echo", b"").await;
            sleep(SHORT).await;
            asker.leave().await;
            sleep(SHORT).await;
            assert_eq!(stage.worker.exchanges(), 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_handshake_is_refused() {
    on_stage(async {
        let (stage, seen) = stage(H1);
        const VERSION: (&str, &str) = ("sec-websocket-version", "13");
        let cases: [(&str, Fields, u16, &str); 6] = [
            ("connect-udp", &[VERSION], 501, "unsupported"),
            ("h2c", &[VERSION], 501, "unsupported"),
            ("websocket", &[], 426, "websocket_version"),
            ("websocket", &[("sec-websocket-version", "8")], 426, "websocket_version"),
            ("websocket", &[VERSION, VERSION], 426, "websocket_version"),
            ("websocket", &[VERSION, ("expect", "magic")], 417, "expectation"),
        ];
        for (protocol, fields, status, reason) in cases {
            let mut browser = Browser::new(&stage);
            let id = connect(&mut browser, protocol, "/echo", fields);
            let answer = browser.answered(id).await;
            let body = String::from_utf8_lossy(&answer.body);
            assert!(answer.status == status && body.contains(reason), "{protocol} {fields:?}: {body}");
            if status == 426 {
                assert!(answer.fields.contains(&(b"sec-websocket-version".to_vec(), b"13".to_vec())));
            }
        }
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"CONNECT", b"a:1", &[], false);
        assert_eq!(browser.answered(id).await.status, 501);
        assert_eq!(seen.borrow().heads.len(), 0, "no endpoint was asked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_with_a_body_is_refused_and_one_with_an_empty_body_is_not() {
    on_stage(async {
        let (stage, _) = stage(H1);
        for (length, found) in [("5", &b"unsupported"[..]), ("0", b"echoed")] {
            let fields = [
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":path", "/echo"),
                (":authority", "a"),
                ("sec-websocket-version", "13"),
                ("content-length", length),
            ];
            let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
            let lines = fields.iter().map(|(name, value)| [vec![0], literal(name), literal(value)].concat());
            let block = lines.collect::<Vec<_>>().concat();
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            write_frame(Kind::Settings, 0, 0, &[], &mut bytes);
            write_frame(Kind::Headers, END_HEADERS, 1, &block, &mut bytes);
            write_frame(Kind::Data, 0, 1, b"echoed", &mut bytes);
            let mut stream = stage.client().stream;
            stream.write_all(&bytes).await.unwrap();
            let mut came = Vec::new();
            while !came.windows(found.len()).any(|part| part == found) {
                assert!(stream.read_buf(&mut came).await.unwrap() > 0, "{length}: {came:?}");
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_endpoints_side_at_once() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/flood").await;
            asker.bytes(1000).await;
            asker.leave().await;
            sleep(SHORT).await;
            assert_eq!(stage.worker.exchanges(), 0, "{client:?} {endpoint:?}");
            assert_eq!(seen.borrow().ends, ["broken"], "{client:?} {endpoint:?}");
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_breaks_off_ends_the_clients_side_at_once() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/reset").await;
            asker.send(b"x").await;
            let began = Instant::now();
            let (bytes, clean) = asker.rest().await;
            assert_eq!(bytes, b"", "{client:?} {endpoint:?}");
            // That the endpoint of HTTP/1 ended cleanly, a reset alone would contradict.
            assert!(clean || (client, endpoint) == (H2, H2), "{client:?} {endpoint:?}");
            assert!(began.elapsed() < Duration::from_secs(1));
            drop(asker);
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_silent_ends_after_the_read_time_out() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/echo").await;
            sleep(Duration::from_secs(50)).await;
            asker.send(b"x").await;
            assert_eq!(asker.bytes(1).await, b"x");
            let began = Instant::now();
            asker.rest().await;
            let took = began.elapsed().as_secs_f64();
            assert!((59.0..62.0).contains(&took), "{client:?} {endpoint:?}: {took}");
            drop(asker);
            comes_to_rest(&stage).await;
            assert_eq!(seen.borrow().ends.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_all_windows_comes_back_whole() {
    const PIECE: usize = 60_000;
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/echo").await;
            for round in 0..50u8 {
                asker.send(&[round; PIECE]).await;
                assert_eq!(asker.bytes(PIECE).await, [round; PIECE], "{client:?} {endpoint:?}");
            }
            assert_eq!(seen.borrow().taken, 50 * PIECE);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_nothing_stops_the_other_side() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/flood").await;
            if let Asker::Http2(browser, _) = &mut asker {
                browser.consumes = false;
            }
            // What a client of HTTP/2 reads it does not give credit for; one of HTTP/1 reads nothing.
            if client == H2 {
                asker.bytes(60_000).await;
            }
            sleep(Duration::from_secs(1)).await;
            let given = seen.borrow().given;
            // Two pipes, or windows, and what one read brings.
            assert!(given <= 320 * 1024, "{client:?} {endpoint:?}: {given}");
            sleep(Duration::from_secs(1)).await;
            assert_eq!(seen.borrow().given, given, "{client:?} {endpoint:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_takes_nothing_stops_its_client_and_no_other() {
    for endpoint in [H1, H2] {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, H2, "/deaf").await;
            let Asker::Http2(browser, id) = &mut asker else { unreachable!() };
            let mut sent = 0;
            for _ in 0..100 {
                while browser.codec.room(*id) > 0 {
                    sent += browser.codec.send_data(*id, &[b'x'; 1000], false);
                }
                browser.flush().await;
                let _ = timeout(Duration::from_millis(1), browser.until("more room", |_| false)).await;
            }
            // The endpoint's pipe or window, what is kept for it, and our own window.
            assert!((60_000..400_000).contains(&sent), "{endpoint:?}: {sent}");
            // Another stream of the same connection goes on.
            let other = connect(browser, "websocket", "/echo", &[("sec-websocket-version", "13")]);
            browser.until("the other", |browser| browser.answers[&other].status == 200).await;
            browser.codec.send_data(other, b"hello", false);
            browser.until("its bytes", |browser| browser.answers[&other].body == b"hello").await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_drains_lets_tunnels_end() {
    for endpoint in [H1, H2] {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, H2, "/echo").await;
            stage.worker.enter(Phase::Draining);
            let Asker::Http2(browser, _) = &mut asker else { unreachable!() };
            browser.until("GOAWAY", |browser| browser.goes_away.is_some()).await;
            sleep(Duration::from_secs(20)).await;
            asker.send(b"still there").await;
            assert_eq!(asker.bytes(11).await, b"still there", "{endpoint:?}");
            asker.end().await;
            assert_eq!(asker.rest().await, (b"bye".to_vec(), true));
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn tunnels_are_counted_as_switches_when_they_end_whatever_is_spoken() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/echo").await;
            let switched = || {
                let lines = stage.metrics();
                let counts = "nginx_ingress_controller_requests{";
                let mut lines = lines.lines().filter(|line| line.starts_with(counts));
                lines.any(|line| line.contains("status=\"101\"") && line.contains("method=\"GET\""))
            };
            assert!(!switched());
            asker.end().await;
            asker.rest().await;
            drop(asker);
            comes_to_rest(&stage).await;
            assert!(switched(), "{client:?} {endpoint:?}");
        })
        .await;
    }
}
