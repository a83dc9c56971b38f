//! Compressed responses in virtual time, over both protocols on both sides: what is decoded is what the endpoint sent, as soon as it
//! pauses, and what breaks off there does not end well here.

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

use super::hostile_tests::{DATA, END, HEADERS, Raw, SETTINGS, Shared, WHOLE, field, frame, head, settle};
use crate::compression::checks::decode;
use crate::testing::{Meeting, Stage, on_stage, read_head};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Http1,
    Http2,
}

pub(super) const PAIRS: [(Speaks, Speaks); 4] = [
    (Speaks::Http1, Speaks::Http1),
    (Speaks::Http1, Speaks::Http2),
    (Speaks::Http2, Speaks::Http1),
    (Speaks::Http2, Speaks::Http2),
];

const CODINGS: [ContentCoding; 3] = [ContentCoding::Gzip, ContentCoding::Brotli, ContentCoding::Zstd];

/// Text gets a coding.
fn rule(coding: ContentCoding, level: u8, min_length: u64) -> CodingRule {
    CodingRule { coding, level, min_length, types: [Arc::from("text/plain")].into() }
}

/// A stage whose rule compresses with all codings, over one endpoint that does this with each connection.
fn stage<F: Future<Output = ()> + 'static>(
    endpoint: Speaks,
    more: Vec<Phases>,
    play: impl Fn(Raw) -> F + 'static,
) -> Stage {
    compressing(CODINGS.map(|coding| rule(coding, 4, 10)).to_vec(), endpoint, more, play)
}

/// The same with one coding.
pub(super) fn compressing_with<F: Future<Output = ()> + 'static>(
    (coding, level): (ContentCoding, u8),
    endpoint: Speaks,
    play: impl Fn(Raw) -> F + 'static,
) -> Stage {
    compressing(vec![rule(coding, level, 0)], endpoint, Vec::new(), play)
}

fn compressing<F: Future<Output = ()> + 'static>(
    codings: Vec<CodingRule>,
    endpoint: Speaks,
    more: Vec<Phases>,
    play: impl Fn(Raw) -> F + 'static,
) -> Stage {
    let compression = Phases::from(Arc::new(Compression { codings }));
    let protocol = match endpoint {
        Speaks::Http1 => BackendProtocol::Http1,
        Speaks::Http2 => BackendProtocol::H2c,
    };
    let play = Rc::new(play);
    let edit = |rule: &mut fairway_model::Rule| {
        rule.phases = [compression].into_iter().chain(more).collect::<Phases>().kept();
    };
    Stage::speaking_ruled(protocol, 1, edit, move |_| {
        let play = Rc::clone(&play);
        Meeting::with(move |stream| async move { play(Raw::new(stream, &Shared::default())).await })
    })
}

/// What came of a request.
#[derive(Debug, Default)]
pub(super) struct Came {
    pub(super) status: u16,
    fields: wire::Fields,
    pub(super) body: Vec<u8>,
    trailers: wire::Fields,
    pub(super) is_whole: bool,
}

impl Came {
    pub(super) fn named(&self, name: &str) -> Vec<&str> {
        wire::values(&self.fields, name)
    }
}

/// A client with one request.
pub(super) struct Asker {
    stream: DuplexStream,
    speaks: Speaks,
    codec: Codec,
    input: Vec<u8>,
    pub(super) came: Came,
    pub(super) is_over: bool,
}

impl Asker {
    pub(super) async fn ask(stage: &Stage, speaks: Speaks, method: &str, fields: &[(&str, &str)]) -> Self {
        let (stream, mut codec) = (stage.client().stream, Codec::new(Config::default(), 0));
        let mut bytes = Vec::new();
        if speaks == Speaks::Http1 {
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
        let mut asker =
            Self { stream, speaks, codec, input: Vec::new(), came: Came::default(), is_over: false };
        asker.stream.write_all(&bytes).await.unwrap();
        asker.flush().await;
        asker
    }

    /// Sends bytes as they are.
    pub(super) async fn say(&mut self, bytes: &[u8]) {
        // Fairway may have closed.
        let _ = self.stream.write_all(bytes).await;
    }

    async fn flush(&mut self) {
        let bytes = self.codec.pending().to_vec();
        // Fairway may have closed.
        if self.speaks == Speaks::Http2 && self.stream.write_all(&bytes).await.is_ok() {
            self.codec.wrote(bytes.len());
        }
    }

    async fn read(&mut self) {
        self.read_at_most(64 * 1024).await;
    }

    /// Reads once; gives how many bytes came.
    pub(super) async fn read_at_most(&mut self, most: usize) -> usize {
        let mut piece = (&mut self.stream).take(most as u64);
        let count = timeout(Duration::from_secs(600), piece.read_buf(&mut self.input)).await.unwrap();
        let count = count.unwrap_or(0);
        let is_closed = count == 0;
        match self.speaks {
            Speaks::Http1 => self.take_text(is_closed),
            Speaks::Http2 => self.take_frames(),
        }
        self.is_over |= is_closed;
        self.flush().await;
        count
    }

    pub(super) async fn finish(mut self) -> Came {
        while !self.is_over {
            self.read().await;
        }
        self.came
    }

    fn take_text(&mut self, is_closed: bool) {
        let Some(head) = wire::head(&self.input).unwrap() else { return };
        let rest = &self.input[head.length..];
        self.came.status = head.start.split(' ').nth(1).unwrap().parse().unwrap();
        match wire::framing(&head.fields).unwrap() {
            Some(wire::Framing::Length(length)) => {
                self.came.is_whole = rest.len() >= length;
                self.came.body = rest.to_vec();
            }
            Some(wire::Framing::Chunked) => {
                let whole = wire::chunked(rest).unwrap();
                self.came.is_whole = whole.is_some();
                // So many chunks as there are.
                let ended = [rest, b"0\r\n\r\n"].concat();
                if let Some(body) = whole.or_else(|| wire::chunked(&ended).ok().flatten()) {
                    (self.came.body, self.came.trailers) = (body.content, body.trailers);
                }
            }
            _ => self.came.is_whole = is_closed,
        }
        self.came.fields = head.fields;
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
                    (self.came.status, self.came.fields) = (head.status(), fields(&head));
                    (self.came.is_whole, self.is_over) = (end, end);
                }
                Event::Data { stream, bytes, end } => {
                    self.came.body.extend_from_slice(bytes);
                    (self.came.is_whole, self.is_over) = (end, end);
                    let count = u32::try_from(bytes.len()).unwrap();
                    self.codec.consume(stream, count);
                }
                Event::Trailers { .. } => {
                    self.came.trailers = fields(&head);
                    (self.came.is_whole, self.is_over) = (true, true);
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

/// Text that can be compressed, of which no part is like another.
fn text(length: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|line: usize| format!("line {line} of {}\n", line * line % 977).into_bytes());
    lines.take(length).collect()
}

/// Waits for a request; gives its stream.
pub(super) async fn asked(endpoint: Speaks, raw: &mut Raw) -> Option<u32> {
    match endpoint {
        Speaks::Http1 => raw.text_request_with_body().await.map(|(stream, _)| stream),
        Speaks::Http2 => raw.request().await,
    }
}

/// The head of a response with text.
pub(super) fn begins(endpoint: Speaks, stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[("content-type", "text/plain")], fields].concat();
    if endpoint == Speaks::Http2 {
        return head(stream, 0, &fields);
    }
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let chunked = if lines.contains("content-length") { "" } else { "transfer-encoding: chunked\r\n" };
    format!("HTTP/1.1 200 OK\r\n{lines}{chunked}\r\n").into_bytes()
}

/// A piece of its body.
pub(super) fn piece(endpoint: Speaks, stream: u32, data: &[u8]) -> Vec<u8> {
    match endpoint {
        Speaks::Http1 => [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat(),
        Speaks::Http2 => data.chunks(16_000).flat_map(|data| frame(DATA, 0, stream, data)).collect(),
    }
}

/// Its end, with trailers.
pub(super) fn ends(endpoint: Speaks, stream: u32) -> Vec<u8> {
    match endpoint {
        Speaks::Http1 => b"0\r\nx-sum: b\r\nrepr-digest: c\r\n\r\n".to_vec(),
        Speaks::Http2 => {
            let trailers = [field("x-sum", "b"), field("repr-digest", "c")].concat();
            frame(HEADERS, END | WHOLE, stream, &trailers)
        }
    }
}

pub(super) async fn greet(endpoint: Speaks, raw: &mut Raw) {
    if endpoint == Speaks::Http2 {
        raw.say(frame(SETTINGS, 0, 0, &[])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_pairings_of_protocols_decode_to_what_the_endpoint_sent() {
    for (client, endpoint) in PAIRS {
        for coding in CODINGS {
            on_stage(async {
                let body = text(50_000);
                let sent = body.clone();
                let stage = stage(endpoint, Vec::new(), move |mut raw| {
                    let body = sent.clone();
                    async move {
                        greet(endpoint, &mut raw).await;
                        while let Some(id) = asked(endpoint, &mut raw).await {
                            raw.say(begins(endpoint, id, &[("etag", "\"a\""), ("vary", "Origin")])).await;
                            raw.say(piece(endpoint, id, &body)).await;
                            raw.say(ends(endpoint, id)).await;
                        }
                    }
                });
                let accepts = [("accept-encoding", coding.name())];
                let came = Asker::ask(&stage, client, "GET", &accepts).await.finish().await;
                let what = format!("{client:?} {endpoint:?} {coding:?}");
                assert!(came.status == 200 && came.is_whole, "{what}: {came:?}");
                assert_eq!(came.named("content-encoding"), [coding.name()], "{what}");
                assert_eq!(came.named("content-length"), [""; 0], "{what}");
                assert_eq!(came.named("vary"), ["Origin, Accept-Encoding"], "{what}");
                assert_eq!(came.named("etag"), ["W/\"a\""], "{what}");
                assert_eq!(wire::values(&came.trailers, "x-sum"), ["b"], "{what}");
                assert_eq!(wire::values(&came.trailers, "repr-digest"), [""; 0], "{what}");
                assert!(came.body.len() < body.len() / 2, "{what}: {} bytes", came.body.len());
                for (side, bytes) in [("endpoint", body.len()), ("client", came.body.len())] {
                    let labels = format!("coding=\"{}\",side=\"{side}\"", coding.name());
                    let counted = stage.value(&format!("fairway_compression_bytes_total{{{labels}}}"));
                    assert_eq!(counted, bytes as u64, "{what}: {side}");
                }
                assert!(decode(coding, &came.body) == (body, true), "{what}");
                settle().await;
                assert_eq!(stage.at_rest(), Ok(()), "{what}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_breaks_off_does_not_end_well() {
    for (client, endpoint) in PAIRS {
        for (coding, has_length) in CODINGS.into_iter().flat_map(|coding| [(coding, false), (coding, true)]) {
            on_stage(async {
                let stage = stage(endpoint, Vec::new(), move |mut raw| async move {
                    greet(endpoint, &mut raw).await;
                    let Some(id) = asked(endpoint, &mut raw).await else { return };
                    let length = [("content-length", "60000")];
                    raw.say(begins(endpoint, id, if has_length { &length } else { &[] })).await;
                    let text = text(50_000);
                    let is_plain = has_length && endpoint == Speaks::Http1;
                    raw.say(if is_plain { text } else { piece(endpoint, id, &text) }).await;
                });
                let accepts = [("accept-encoding", coding.name())];
                let came = Asker::ask(&stage, client, "GET", &accepts).await.finish().await;
                let what = format!("{client:?} {endpoint:?} {coding:?} {has_length}");
                assert!(!came.is_whole, "{what}: {came:?}");
                let (decoded, is_whole) = decode(coding, &came.body);
                assert!(!is_whole && text(50_000).starts_with(&decoded), "{what}");
                settle().await;
                assert_eq!(stage.at_rest(), Ok(()), "{what}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_arrives_when_the_endpoint_pauses() {
    for (client, endpoint) in PAIRS {
        for coding in CODINGS {
            on_stage(async {
                let stage = stage(endpoint, Vec::new(), move |mut raw| async move {
                    greet(endpoint, &mut raw).await;
                    let Some(id) = asked(endpoint, &mut raw).await else { return };
                    raw.say(begins(endpoint, id, &[])).await;
                    for number in 0..5 {
                        raw.say(piece(endpoint, id, format!("piece {number};").as_bytes())).await;
                        sleep(Duration::from_secs(10)).await;
                    }
                    raw.say(ends(endpoint, id)).await;
                    std::future::pending::<()>().await;
                });
                let accepts = [("accept-encoding", coding.name())];
                let began = tokio::time::Instant::now();
                let mut asker = Asker::ask(&stage, client, "GET", &accepts).await;
                let mut expected = String::new();
                for number in 0..5 {
                    expected += &format!("piece {number};");
                    while decode(coding, &asker.came.body).0 != expected.as_bytes() {
                        assert!(!asker.is_over, "{client:?} {endpoint:?} {coding:?}: {expected}");
                        asker.read().await;
                    }
                    let late = began.elapsed() - Duration::from_secs(10 * number);
                    assert!(late < Duration::from_secs(1), "{client:?} {endpoint:?} {coding:?}: {late:?}");
                }
                let came = asker.finish().await;
                assert!(came.is_whole && decode(coding, &came.body) == (expected.into_bytes(), true));
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_does_not_read_is_not_taken_from_the_endpoint() {
    for (client, endpoint) in [(Speaks::Http1, Speaks::Http1), (Speaks::Http2, Speaks::Http1)] {
        for coding in CODINGS {
            on_stage(async {
                let taken = Rc::new(Cell::new(0));
                let count = Rc::clone(&taken);
                let stage = stage(endpoint, Vec::new(), move |mut raw| {
                    let count = Rc::clone(&count);
                    async move {
                        let Some(id) = asked(endpoint, &mut raw).await else { return };
                        raw.say(begins(endpoint, id, &[])).await;
                        let mut random = fastrand::Rng::with_seed(1);
                        while count.get() < 4_000_000 {
                            // It cannot be compressed.
                            let noise: Vec<u8> = (0..10_000).map(|_| random.u8(..)).collect();
                            raw.say(piece(endpoint, id, &noise)).await;
                            count.set(count.get() + noise.len());
                        }
                        raw.say(ends(endpoint, id)).await;
                        std::future::pending::<()>().await;
                    }
                });
                let accepts = [("accept-encoding", coding.name())];
                let asker = Asker::ask(&stage, client, "GET", &accepts).await;
                sleep(Duration::from_secs(10)).await;
                let what = format!("{client:?} {coding:?}");
                assert!((10_000..1_000_000).contains(&taken.get()), "{what}: {} bytes", taken.get());
                let came = asker.finish().await;
                let (decoded, is_whole) = decode(coding, &came.body);
                assert!(came.is_whole && is_whole && decoded.len() == 4_000_000, "{what}: it flows again");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_exchange() {
    for (client, endpoint) in PAIRS {
        on_stage(async {
            let stage = stage(endpoint, Vec::new(), move |mut raw| async move {
                greet(endpoint, &mut raw).await;
                let Some(id) = asked(endpoint, &mut raw).await else { return };
                raw.say(begins(endpoint, id, &[])).await;
                raw.say(piece(endpoint, id, &text(50_000))).await;
                std::future::pending::<()>().await;
            });
            let mut asker = Asker::ask(&stage, client, "GET", &[("accept-encoding", "br")]).await;
            while asker.came.body.is_empty() {
                asker.read().await;
            }
            drop(asker);
            sleep(Duration::from_millis(10)).await;
            assert_eq!(stage.worker.exchanges(), 0, "{client:?} {endpoint:?}");
        })
        .await;
    }
}

/// What a client of HTTP/1 gets of an endpoint that says this.
async fn said(more: Vec<Phases>, method: &str, fields: &[(&str, &str)], says: impl Into<String>) -> Came {
    said_to(Speaks::Http1, more, method, fields, says).await
}

/// What a client of this protocol gets.
async fn said_to(
    client: Speaks,
    more: Vec<Phases>,
    method: &str,
    fields: &[(&str, &str)],
    says: impl Into<String>,
) -> Came {
    let says = says.into();
    let came = Rc::new(RefCell::new(Came::default()));
    on_stage(async {
        let stage = stage(Speaks::Http1, more, move |mut raw| {
            let says = says.clone();
            async move {
                while read_head(&mut raw.stream).await {
                    raw.say(&says).await;
                }
            }
        });
        *came.borrow_mut() = Asker::ask(&stage, client, method, fields).await.finish().await;
    })
    .await;
    came.take()
}

const HELLO: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nETag: \"a\"\r\n\r\nhello, hello";

#[tokio::test(start_paused = true)]
async fn others_get_the_response_as_it_came_and_caches_know() {
    let cross = [("Accept-Encoding", "gzip"), ("Sec-Fetch-Site", "cross-site"), ("Cookie", "a=b")];
    for (fields, coding) in [
        (&[][..], ""),
        (&[("Accept-Encoding", "deflate, gzip;q=0")], ""),
        (&[("Accept-Encoding", "identity;q=0, *;q=0")], ""),
        (&cross, ""),
        (&cross[..2], "gzip"),
        (&cross[..1], "gzip"),
    ] {
        let came = said(Vec::new(), "GET", fields, HELLO).await;
        assert_eq!(came.named("vary"), ["Accept-Encoding"], "{fields:?}");
        assert_eq!(came.named("content-encoding").concat(), coding, "{fields:?}");
        if coding.is_empty() {
            assert_eq!((came.named("content-length"), came.named("etag")), (vec!["12"], vec!["\"a\""]));
            assert_eq!(came.body, b"hello, hello");
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
        let came = said(Vec::new(), "GET", &ACCEPTS, says).await;
        assert_eq!((came.named("vary"), came.named("content-encoding")), (vec![], vec![]), "{says}");
        let body = says.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(came.body, body.as_bytes(), "{says}");
    }
    let coded = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: deflate\r\nContent-Length: 12\r\n\r\n\
                 hello, hello";
    let came = said(Vec::new(), "GET", &ACCEPTS, coded).await;
    assert_eq!((came.named("vary"), came.named("content-encoding")), (vec![], vec!["deflate"]));
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
        for client in [Speaks::Http1, Speaks::Http2] {
            let says = format!("{begin}{length}\r\n");
            let came = said_to(client, Vec::new(), "HEAD", fields, says).await;
            let what = format!("{client:?} {fields:?} {length:?}");
            let found = (came.named("content-encoding"), came.named("content-length"), came.named("etag"));
            assert_eq!(found, expected, "{what}");
            assert_eq!(
                (came.named("vary"), came.named("transfer-encoding")),
                (vec!["Accept-Encoding"], vec![])
            );
            assert!(came.body.is_empty(), "{what}");
        }
    }
    for length in ["0", "9"] {
        let says = format!("{begin}Content-Length: {length}\r\n\r\n");
        let came = said(Vec::new(), "HEAD", &[("Accept-Encoding", "gzip")], says).await;
        let found = (came.named("vary"), came.named("content-length"), came.named("etag"));
        assert_eq!(found, (vec![], vec![length], vec!["\"a\""]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_304_names_the_validator_that_the_client_has() {
    for (known, etag, (expected, vary)) in [
        // Of a compressed response, of one that was not, and of both.
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
        let came = said(Vec::new(), "GET", &fields, says).await;
        assert_eq!((came.status, came.named("etag")), (304, vec![expected]), "{known}");
        assert_eq!(came.named("vary"), vary, "{known}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_strong_validator_in_trailers_goes() {
    for (etag, expected) in [("\"a\"", &[][..]), ("W/\"a\"", &["W/\"a\""])] {
        let says = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
             c\r\nhello, hello\r\n0\r\nETag: {etag}\r\nX-Sum: b\r\n\r\n"
        );
        let came = said(Vec::new(), "GET", &[("Accept-Encoding", "gzip")], says.clone()).await;
        assert_eq!(came.named("content-encoding"), ["gzip"]);
        assert_eq!(wire::values(&came.trailers, "etag"), expected);
        assert_eq!(wire::values(&came.trailers, "x-sum"), ["b"]);
        let came = said(Vec::new(), "GET", &[], says).await;
        assert_eq!(wire::values(&came.trailers, "etag"), [etag], "of a response as it came");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_fairways_own_are_not_compressed() {
    let deny = Deny { status: 403, when: vec![Match::default()] };
    let came = said(vec![Guard::Deny(deny).into()], "GET", &[("Accept-Encoding", "gzip")], HELLO).await;
    assert_eq!(came.status, 403);
    assert_eq!((came.named("vary"), came.named("content-encoding")), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_endpoints_get_does_not_decide_what_the_client_takes() {
    let edit = HeaderEdit { remove: vec!["accept-encoding".into()], ..HeaderEdit::default() };
    let more = vec![RequestEdit::Headers(edit).into()];
    let came = said(more, "GET", &[("Accept-Encoding", "gzip")], HELLO).await;
    assert_eq!(came.named("content-encoding"), ["gzip"]);
    assert_eq!(decode(ContentCoding::Gzip, &came.body), (b"hello, hello".to_vec(), true));
}
