//! Compressed responses in virtual time, over both protocols on both sides: the client can decode what the endpoint sent as
//! soon as it pauses, and a response that is truncated there does not end normally here.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Client as Codec, Config, Event};
use fairway_model::{
    BackendProtocol, CodingRule, Compression, ContentCoding, Deny, Guard, HeaderEdit, Match, Phases,
    RequestEdit,
};
use fairway_testkit::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{sleep, timeout};

use super::hostile_tests::{
    DATA, FLAG_END_HEADERS, FLAG_END_STREAM, HEADERS, Raw, SETTINGS, SentFrames, field, frame, head,
    run_ready_tasks,
};
use crate::compression::checks::decode;
use crate::testing::{ScriptedConnect, TestWorker, read_head, run_local};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

pub(super) const PAIRS: [(Protocol, Protocol); 4] = [
    (Protocol::Http1, Protocol::Http1),
    (Protocol::Http1, Protocol::Http2),
    (Protocol::Http2, Protocol::Http1),
    (Protocol::Http2, Protocol::Http2),
];

const CODINGS: [ContentCoding; 3] = [ContentCoding::Gzip, ContentCoding::Brotli, ContentCoding::Zstd];

/// A rule that compresses text.
fn rule(coding: ContentCoding, level: u8, min_length: u64) -> CodingRule {
    CodingRule { coding, level, min_length, types: [Arc::from("text/plain")].into() }
}

/// A stage whose rule compresses with all codings, over one endpoint that runs this for each connection.
fn stage<F: Future<Output = ()> + 'static>(
    endpoint: Protocol,
    more: Vec<Phases>,
    play: impl Fn(Raw) -> F + 'static,
) -> TestWorker {
    compressing(CODINGS.map(|coding| rule(coding, 4, 10)).to_vec(), endpoint, more, play)
}

/// The same with these codings.
pub(super) fn compressing_with<F: Future<Output = ()> + 'static>(
    (coding, level): (ContentCoding, u8),
    endpoint: Protocol,
    play: impl Fn(Raw) -> F + 'static,
) -> TestWorker {
    compressing(vec![rule(coding, level, 0)], endpoint, Vec::new(), play)
}

fn compressing<F: Future<Output = ()> + 'static>(
    codings: Vec<CodingRule>,
    endpoint: Protocol,
    more: Vec<Phases>,
    play: impl Fn(Raw) -> F + 'static,
) -> TestWorker {
    let compression = Phases::from(Arc::new(Compression { codings }));
    let protocol = match endpoint {
        Protocol::Http1 => BackendProtocol::Http1,
        Protocol::Http2 => BackendProtocol::H2c,
    };
    let play = Rc::new(play);
    let edit = |rule: &mut fairway_model::Rule| {
        rule.phases = [compression].into_iter().chain(more).collect::<Phases>().shared();
    };
    TestWorker::with_protocol_and_rule(protocol, 1, edit, move |_| {
        let play = Rc::clone(&play);
        ScriptedConnect::served_by(move |stream| async move {
            play(Raw::new(stream, &SentFrames::default())).await;
        })
    })
}

/// What a client received.
#[derive(Debug, Default)]
pub(super) struct ReceivedResponse {
    pub(super) status: u16,
    fields: wire::Fields,
    pub(super) body: Vec<u8>,
    trailers: wire::Fields,
    pub(super) is_whole: bool,
}

impl ReceivedResponse {
    pub(super) fn values_of(&self, name: &str) -> Vec<&str> {
        wire::values(&self.fields, name)
    }
}

/// A client with one request.
pub(super) struct TestClient {
    stream: DuplexStream,
    speaks: Protocol,
    codec: Codec,
    input: Vec<u8>,
    pub(super) received: ReceivedResponse,
    pub(super) is_over: bool,
}

impl TestClient {
    pub(super) async fn send_request(
        stage: &TestWorker,
        speaks: Protocol,
        method: &str,
        fields: &[(&str, &str)],
    ) -> Self {
        let (stream, mut codec) = (stage.client().stream, Codec::new(Config::default(), 0));
        let mut bytes = Vec::new();
        if speaks == Protocol::Http1 {
            bytes.extend_from_slice(
                format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n").as_bytes(),
            );
            for (name, value) in fields {
                bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        } else {
            let mut head = Head::new();
            head.start_request(method.as_bytes(), b"/");
            head.append(b"Host", b"a");
            fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
            codec.send_head(&head, b"/", b"http", true).unwrap();
        }
        let mut test_client = Self {
            stream,
            speaks,
            codec,
            input: Vec::new(),
            received: ReceivedResponse::default(),
            is_over: false,
        };
        test_client.stream.write_all(&bytes).await.unwrap();
        test_client.flush().await;
        test_client
    }

    /// Sends bytes as they are.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        // Fairway may have closed.
        let _ = self.stream.write_all(bytes).await;
    }

    async fn flush(&mut self) {
        let bytes = self.codec.pending().to_vec();
        // Fairway may have closed.
        if self.speaks == Protocol::Http2 && self.stream.write_all(&bytes).await.is_ok() {
            self.codec.mark_written(bytes.len());
        }
    }

    async fn read(&mut self) {
        self.read_at_most(64 * 1024).await;
    }

    /// Reads once; returns the number of bytes.
    pub(super) async fn read_at_most(&mut self, limit: usize) -> usize {
        let mut chunk = (&mut self.stream).take(limit as u64);
        let count = timeout(Duration::from_secs(600), chunk.read_buf(&mut self.input)).await.unwrap();
        let count = count.unwrap_or(0);
        let is_closed = count == 0;
        match self.speaks {
            Protocol::Http1 => self.take_text(is_closed),
            Protocol::Http2 => self.take_frames(),
        }
        self.is_over |= is_closed;
        self.flush().await;
        count
    }

    pub(super) async fn finish(mut self) -> ReceivedResponse {
        while !self.is_over {
            self.read().await;
        }
        self.received
    }

    fn take_text(&mut self, is_closed: bool) {
        let Some(head) = wire::head(&self.input).unwrap() else { return };
        let rest = &self.input[head.length..];
        self.received.status = head.start.split(' ').nth(1).unwrap().parse().unwrap();
        match wire::framing(&head.fields).unwrap() {
            Some(wire::Framing::Length(length)) => {
                self.received.is_whole = rest.len() >= length;
                self.received.body = rest.to_vec();
            }
            Some(wire::Framing::Chunked) => {
                let decoded = wire::chunked(rest).unwrap();
                self.received.is_whole = decoded.is_some();
                // As many chunks as are there.
                let ended = [rest, b"0\r\n\r\n"].concat();
                if let Some(body) = decoded.or_else(|| wire::chunked(&ended).ok().flatten()) {
                    (self.received.body, self.received.trailers) = (body.content, body.trailers);
                }
            }
            _ => self.received.is_whole = is_closed,
        }
        self.received.fields = head.fields;
    }

    fn take_frames(&mut self) {
        let (mut used, mut head) = (0, Head::new());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = |head: &Head| head.fields().map(|it| (text(it.name), text(it.value))).collect();
        loop {
            let (count, event) = self.codec.receive(0, &self.input[used..], &mut head);
            used += count;
            match event {
                Event::Head { end, .. } => {
                    (self.received.status, self.received.fields) = (head.status(), fields(&head));
                    (self.received.is_whole, self.is_over) = (end, end);
                }
                Event::Data { stream, bytes, end } => {
                    self.received.body.extend_from_slice(bytes);
                    (self.received.is_whole, self.is_over) = (end, end);
                    let count = u32::try_from(bytes.len()).unwrap();
                    self.codec.consume(stream, count);
                }
                Event::Trailers { .. } => {
                    self.received.trailers = fields(&head);
                    (self.received.is_whole, self.is_over) = (true, true);
                }
                Event::Reset { .. } => self.is_over = true,
                Event::Closed(fault) => panic!("the proxy broke a rule: {fault:?}"),
                Event::NeedMore | Event::Wait(_) => break,
                _ => {}
            }
        }
        self.input.drain(..used);
    }
}

/// Compressible text without repetitions.
fn text(length: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|line: usize| format!("line {line} of {}\n", line * line % 977).into_bytes());
    lines.take(length).collect()
}

/// Waits for a request; returns its stream.
pub(super) async fn await_request(endpoint: Protocol, raw: &mut Raw) -> Option<u32> {
    match endpoint {
        Protocol::Http1 => raw.text_request_with_body().await.map(|(stream, _)| stream),
        Protocol::Http2 => raw.request().await,
    }
}

/// The head of a response with text.
pub(super) fn response_head(endpoint: Protocol, stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[("content-type", "text/plain")], fields].concat();
    if endpoint == Protocol::Http2 {
        return head(stream, 0, &fields);
    }
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let chunked = if lines.contains("content-length") { "" } else { "transfer-encoding: chunked\r\n" };
    format!("HTTP/1.1 200 OK\r\n{lines}{chunked}\r\n").into_bytes()
}

/// A piece of the response body.
pub(super) fn body_piece(endpoint: Protocol, stream: u32, data: &[u8]) -> Vec<u8> {
    match endpoint {
        Protocol::Http1 => [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat(),
        Protocol::Http2 => data.chunks(16_000).flat_map(|data| frame(DATA, 0, stream, data)).collect(),
    }
}

/// The end of the response, with trailers.
pub(super) fn response_end(endpoint: Protocol, stream: u32) -> Vec<u8> {
    match endpoint {
        Protocol::Http1 => b"0\r\nx-sum: b\r\nrepr-digest: c\r\n\r\n".to_vec(),
        Protocol::Http2 => {
            let trailers = [field("x-sum", "b"), field("repr-digest", "c")].concat();
            frame(HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, stream, &trailers)
        }
    }
}

pub(super) async fn greet(endpoint: Protocol, raw: &mut Raw) {
    if endpoint == Protocol::Http2 {
        raw.send(frame(SETTINGS, 0, 0, &[])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_pairings_of_protocols_decode_to_what_the_endpoint_sent() {
    for (client, endpoint) in PAIRS {
        for coding in CODINGS {
            run_local(async {
                let body = text(50_000);
                let sent = body.clone();
                let stage = stage(endpoint, Vec::new(), move |mut raw| {
                    let body = sent.clone();
                    async move {
                        greet(endpoint, &mut raw).await;
                        while let Some(id) = await_request(endpoint, &mut raw).await {
                            raw.send(response_head(endpoint, id, &[("etag", "\"a\""), ("vary", "Origin")]))
                                .await;
                            raw.send(body_piece(endpoint, id, &body)).await;
                            raw.send(response_end(endpoint, id)).await;
                        }
                    }
                });
                let accepts = [("accept-encoding", coding.name())];
                let received = TestClient::send_request(&stage, client, "GET", &accepts).await.finish().await;
                let context = format!("{client:?} {endpoint:?} {coding:?}");
                assert!(received.status == 200 && received.is_whole, "{context}: {received:?}");
                assert_eq!(received.values_of("content-encoding"), [coding.name()], "{context}");
                assert_eq!(received.values_of("content-length"), [""; 0], "{context}");
                assert_eq!(received.values_of("vary"), ["Origin, Accept-Encoding"], "{context}");
                assert_eq!(received.values_of("etag"), ["W/\"a\""], "{context}");
                assert_eq!(wire::values(&received.trailers, "x-sum"), ["b"], "{context}");
                assert_eq!(wire::values(&received.trailers, "repr-digest"), [""; 0], "{context}");
                assert!(received.body.len() < body.len() / 2, "{context}: {} bytes", received.body.len());
                for (side, bytes) in [("endpoint", body.len()), ("client", received.body.len())] {
                    let labels = format!("coding=\"{}\",side=\"{side}\"", coding.name());
                    let counted = stage.metric_value(&format!("fairway_compression_bytes_total{{{labels}}}"));
                    assert_eq!(counted, bytes as u64, "{context}: {side}");
                }
                assert!(decode(coding, &received.body) == (body, true), "{context}");
                run_ready_tasks().await;
                assert_eq!(stage.check_idle(), Ok(()), "{context}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_breaks_off_does_not_end_well() {
    for (client, endpoint) in PAIRS {
        for (coding, has_length) in CODINGS.into_iter().flat_map(|coding| [(coding, false), (coding, true)]) {
            run_local(async {
                let stage = stage(endpoint, Vec::new(), move |mut raw| async move {
                    greet(endpoint, &mut raw).await;
                    let Some(id) = await_request(endpoint, &mut raw).await else { return };
                    let length = [("content-length", "60000")];
                    raw.send(response_head(endpoint, id, if has_length { &length } else { &[] })).await;
                    let text = text(50_000);
                    let is_plain = has_length && endpoint == Protocol::Http1;
                    raw.send(if is_plain { text } else { body_piece(endpoint, id, &text) }).await;
                });
                let accepts = [("accept-encoding", coding.name())];
                let received = TestClient::send_request(&stage, client, "GET", &accepts).await.finish().await;
                let context = format!("{client:?} {endpoint:?} {coding:?} {has_length}");
                assert!(!received.is_whole, "{context}: {received:?}");
                let (decoded, is_whole) = decode(coding, &received.body);
                assert!(!is_whole && text(50_000).starts_with(&decoded), "{context}");
                run_ready_tasks().await;
                assert_eq!(stage.check_idle(), Ok(()), "{context}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn available_bytes_arrive_when_the_endpoint_pauses() {
    for (client, endpoint) in PAIRS {
        for coding in CODINGS {
            run_local(async {
                let stage = stage(endpoint, Vec::new(), move |mut raw| async move {
                    greet(endpoint, &mut raw).await;
                    let Some(id) = await_request(endpoint, &mut raw).await else { return };
                    raw.send(response_head(endpoint, id, &[])).await;
                    for number in 0..5 {
                        raw.send(body_piece(endpoint, id, format!("piece {number};").as_bytes())).await;
                        sleep(Duration::from_secs(10)).await;
                    }
                    raw.send(response_end(endpoint, id)).await;
                    std::future::pending::<()>().await;
                });
                let accepts = [("accept-encoding", coding.name())];
                let began = tokio::time::Instant::now();
                let mut test_client = TestClient::send_request(&stage, client, "GET", &accepts).await;
                let mut expected = String::new();
                for number in 0..5 {
                    expected += &format!("piece {number};");
                    while decode(coding, &test_client.received.body).0 != expected.as_bytes() {
                        assert!(!test_client.is_over, "{client:?} {endpoint:?} {coding:?}: {expected}");
                        test_client.read().await;
                    }
                    let late = began.elapsed() - Duration::from_secs(10 * number);
                    assert!(late < Duration::from_secs(1), "{client:?} {endpoint:?} {coding:?}: {late:?}");
                }
                let received = test_client.finish().await;
                assert!(received.is_whole && decode(coding, &received.body) == (expected.into_bytes(), true));
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_is_not_read_while_the_client_does_not_read() {
    for (client, endpoint) in [(Protocol::Http1, Protocol::Http1), (Protocol::Http2, Protocol::Http1)] {
        for coding in CODINGS {
            run_local(async {
                let sent = Rc::new(Cell::new(0));
                let count = Rc::clone(&sent);
                let stage = stage(endpoint, Vec::new(), move |mut raw| {
                    let count = Rc::clone(&count);
                    async move {
                        let Some(id) = await_request(endpoint, &mut raw).await else { return };
                        raw.send(response_head(endpoint, id, &[])).await;
                        let mut random = fastrand::Rng::with_seed(1);
                        while count.get() < 4_000_000 {
                            // It cannot be compressed.
                            let noise: Vec<u8> = (0..10_000).map(|_| random.u8(..)).collect();
                            raw.send(body_piece(endpoint, id, &noise)).await;
                            count.set(count.get() + noise.len());
                        }
                        raw.send(response_end(endpoint, id)).await;
                        std::future::pending::<()>().await;
                    }
                });
                let accepts = [("accept-encoding", coding.name())];
                let test_client = TestClient::send_request(&stage, client, "GET", &accepts).await;
                sleep(Duration::from_secs(10)).await;
                let context = format!("{client:?} {coding:?}");
                assert!((10_000..1_000_000).contains(&sent.get()), "{context}: {} bytes", sent.get());
                let received = test_client.finish().await;
                let (decoded, is_whole) = decode(coding, &received.body);
                assert!(
                    received.is_whole && is_whole && decoded.len() == 4_000_000,
                    "{context}: it flows again"
                );
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_exchange() {
    for (client, endpoint) in PAIRS {
        run_local(async {
            let stage = stage(endpoint, Vec::new(), move |mut raw| async move {
                greet(endpoint, &mut raw).await;
                let Some(id) = await_request(endpoint, &mut raw).await else { return };
                raw.send(response_head(endpoint, id, &[])).await;
                raw.send(body_piece(endpoint, id, &text(50_000))).await;
                std::future::pending::<()>().await;
            });
            let mut test_client =
                TestClient::send_request(&stage, client, "GET", &[("accept-encoding", "br")]).await;
            while test_client.received.body.is_empty() {
                test_client.read().await;
            }
            drop(test_client);
            sleep(Duration::from_millis(10)).await;
            assert_eq!(stage.worker.exchanges(), 0, "{client:?} {endpoint:?}");
        })
        .await;
    }
}

/// What a client of HTTP/1 gets from an endpoint that sends this.
async fn response_of(
    more: Vec<Phases>,
    method: &str,
    fields: &[(&str, &str)],
    says: impl Into<String>,
) -> ReceivedResponse {
    response_for(Protocol::Http1, more, method, fields, says).await
}

/// What a client of this protocol gets.
async fn response_for(
    client: Protocol,
    more: Vec<Phases>,
    method: &str,
    fields: &[(&str, &str)],
    says: impl Into<String>,
) -> ReceivedResponse {
    let says = says.into();
    let received = Rc::new(RefCell::new(ReceivedResponse::default()));
    run_local(async {
        let stage = stage(Protocol::Http1, more, move |mut raw| {
            let says = says.clone();
            async move {
                while read_head(&mut raw.stream).await {
                    raw.send(&says).await;
                }
            }
        });
        *received.borrow_mut() =
            TestClient::send_request(&stage, client, method, fields).await.finish().await;
    })
    .await;
    received.take()
}

const HELLO: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nETag: \"a\"\r\n\r\nhello, hello";

#[tokio::test(start_paused = true)]
async fn other_clients_get_the_original_response_with_vary() {
    let cross = [("Accept-Encoding", "gzip"), ("Sec-Fetch-Site", "cross-site"), ("Cookie", "a=b")];
    for (fields, coding) in [
        (&[][..], ""),
        (&[("Accept-Encoding", "deflate, gzip;q=0")], ""),
        (&[("Accept-Encoding", "identity;q=0, *;q=0")], ""),
        (&cross, ""),
        (&cross[..2], "gzip"),
        (&cross[..1], "gzip"),
    ] {
        let received = response_of(Vec::new(), "GET", fields, HELLO).await;
        assert_eq!(received.values_of("vary"), ["Accept-Encoding"], "{fields:?}");
        assert_eq!(received.values_of("content-encoding").concat(), coding, "{fields:?}");
        if coding.is_empty() {
            assert_eq!(
                (received.values_of("content-length"), received.values_of("etag")),
                (vec!["12"], vec!["\"a\""])
            );
            assert_eq!(received.body, b"hello, hello");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn responses_that_are_not_to_be_compressed_stay_as_they_are() {
    const ACCEPTS: [(&str, &str); 1] = [("Accept-Encoding", "br, gzip, zstd")];
    for says in [
        "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n",
        "HTTP/1.1 206 Partial\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello, hello",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\ntoo short",
        "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 12\r\n\r\nhello, hello",
        "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, hello",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: no-transform\r\nContent-Length: 12\r\n\r\n\
         hello, hello",
    ] {
        let received = response_of(Vec::new(), "GET", &ACCEPTS, says).await;
        assert_eq!(
            (received.values_of("vary"), received.values_of("content-encoding")),
            (vec![], vec![]),
            "{says}"
        );
        let body = says.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(received.body, body.as_bytes(), "{says}");
    }
    let coded = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: deflate\r\nContent-Length: 12\r\n\r\n\
                 hello, hello";
    let received = response_of(Vec::new(), "GET", &ACCEPTS, coded).await;
    assert_eq!(
        (received.values_of("vary"), received.values_of("content-encoding")),
        (vec![], vec!["deflate"])
    );
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_response_to_head_is_that_of_one_to_get() {
    let begin = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"a\"\r\n";
    for (fields, length, expected) in [
        (
            &[("Accept-Encoding", "gzip")][..],
            "Content-Length: 12\r\n",
            (vec!["gzip"], vec![], vec!["W/\"a\""]),
        ),
        (&[("Accept-Encoding", "gzip")], "", (vec!["gzip"], vec![], vec!["W/\"a\""])),
        (&[], "Content-Length: 12\r\n", (vec![], vec!["12"], vec!["\"a\""])),
    ] {
        for client in [Protocol::Http1, Protocol::Http2] {
            let says = format!("{begin}{length}\r\n");
            let received = response_for(client, Vec::new(), "HEAD", fields, says).await;
            let context = format!("{client:?} {fields:?} {length:?}");
            let found = (
                received.values_of("content-encoding"),
                received.values_of("content-length"),
                received.values_of("etag"),
            );
            assert_eq!(found, expected, "{context}");
            assert_eq!(
                (received.values_of("vary"), received.values_of("transfer-encoding")),
                (vec!["Accept-Encoding"], vec![])
            );
            assert!(received.body.is_empty(), "{context}");
        }
    }
    for length in ["0", "9"] {
        let says = format!("{begin}Content-Length: {length}\r\n\r\n");
        let received = response_of(Vec::new(), "HEAD", &[("Accept-Encoding", "gzip")], says).await;
        let found =
            (received.values_of("vary"), received.values_of("content-length"), received.values_of("etag"));
        assert_eq!(found, (vec![], vec![length], vec!["\"a\""]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_304_names_the_validator_that_the_client_has() {
    for (known, etag, (expected, vary)) in [
        // `ETag`s of a compressed response, of an uncompressed one, and of both.
        ("W/\"a\"", "\"a\"", ("W/\"a\"", &["Accept-Encoding"][..])),
        ("\"a\"", "\"a\"", ("\"a\"", &[])),
        ("\"a\", W/\"a\"", "\"a\"", ("W/\"a\"", &["Accept-Encoding"])),
        ("W/\"b\" ,W/\"a\"", "\"a\"", ("W/\"a\"", &["Accept-Encoding"])),
        ("W/\"a, b\"", "\"a, b\"", ("W/\"a, b\"", &["Accept-Encoding"])),
        ("W/\"aa\", W/\"\"", "\"a\"", ("\"a\"", &[])),
        ("*", "\"a\"", ("\"a\"", &[])),
        ("W/\"a\"", "W/\"a\"", ("W/\"a\"", &[])),
    ] {
        let says = format!("HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n");
        let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", known)];
        let received = response_of(Vec::new(), "GET", &fields, says).await;
        assert_eq!((received.status, received.values_of("etag")), (304, vec![expected]), "{known}");
        assert_eq!(received.values_of("vary"), vary, "{known}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_strong_validator_in_trailers_goes() {
    for (etag, expected) in [("\"a\"", &[][..]), ("W/\"a\"", &["W/\"a\""])] {
        let says = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
             c\r\nhello, hello\r\n0\r\nETag: {etag}\r\nX-Sum: b\r\n\r\n"
        );
        let received = response_of(Vec::new(), "GET", &[("Accept-Encoding", "gzip")], says.clone()).await;
        assert_eq!(received.values_of("content-encoding"), ["gzip"]);
        assert_eq!(wire::values(&received.trailers, "etag"), expected);
        assert_eq!(wire::values(&received.trailers, "x-sum"), ["b"]);
        let received = response_of(Vec::new(), "GET", &[], says).await;
        assert_eq!(wire::values(&received.trailers, "etag"), [etag], "of a response as it came");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_fairways_own_are_not_compressed() {
    let deny = Deny { status: 403, when: vec![Match::default()] };
    let received =
        response_of(vec![Guard::Deny(deny).into()], "GET", &[("Accept-Encoding", "gzip")], HELLO).await;
    assert_eq!(received.status, 403);
    assert_eq!((received.values_of("vary"), received.values_of("content-encoding")), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn the_accept_encoding_of_endpoints_does_not_affect_the_coding_for_clients() {
    let edit = HeaderEdit { remove: vec!["accept-encoding".into()], ..HeaderEdit::default() };
    let edits = vec![RequestEdit::Headers(edit).into()];
    let received = response_of(edits, "GET", &[("Accept-Encoding", "gzip")], HELLO).await;
    assert_eq!(received.values_of("content-encoding"), ["gzip"]);
    assert_eq!(decode(ContentCoding::Gzip, &received.body), (b"hello, hello".to_vec(), true));
}
