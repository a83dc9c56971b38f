//! The real codecs on both sides, in virtual time: one end of an exchange dies at every byte that it sends, alone or after the
//! other, in all four pairings of protocols. Each request gets at most one response, none is retried after a byte of one
//! arrived, other exchanges get exactly their own bytes, and every count returns to zero. The same again with steps that change
//! both bodies.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fairway_http::Head;
use fairway_http2::{Client as Codec, Config, Event};
use fairway_model::{BackendProtocol, Rule};
use fairway_testkit::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{sleep, timeout};

use super::hostile_tests::{
    self, DATA, FLAG_END_HEADERS, FLAG_END_STREAM, HEADERS, OK, Raw, SETTINGS, SentFrames, field, frame,
    head, run_ready_tasks, setting,
};
use crate::body_steps::upper_case;
use crate::testing::{ScriptedConnect, TestWorker, run_local};

const ALL: [(Protocol, Protocol); 4] = [
    (Protocol::Http1, Protocol::Http1),
    (Protocol::Http1, Protocol::Http2),
    (Protocol::Http2, Protocol::Http1),
    (Protocol::Http2, Protocol::Http2),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Which side ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstToEnd {
    Endpoint,
    /// The client leaves while the endpoint is silent; then the endpoint ends.
    Client,
    /// Its stream ends, or its connection if that is the same.
    Stream,
}

/// What a client received.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReceivedResponses {
    status: u16,
    responses: usize,
    body: Vec<u8>,
    is_whole: bool,
    is_over: bool,
}

/// A client of either protocol that sends one request after another.
struct TestClient {
    stream: DuplexStream,
    speaks: Protocol,
    codec: Codec,
    input: Vec<u8>,
    received: Vec<ReceivedResponses>,
}

impl TestClient {
    fn new(stage: &TestWorker, speaks: Protocol) -> Self {
        let (stream, codec) = (stage.client().stream, Codec::new(Config::default(), 0));
        Self { stream, speaks, codec, input: Vec::new(), received: Vec::new() }
    }

    /// The bytes of a request.
    fn request(&mut self, is_safe: bool) -> Vec<u8> {
        self.received.push(ReceivedResponses::default());
        let (method, body) = if is_safe { ("GET", "") } else { ("POST", "hi") };
        if self.speaks == Protocol::Http1 {
            let length = if is_safe { "" } else { "Content-Length: 2\r\n" };
            return format!("{method} /x HTTP/1.1\r\nHost: a\r\n{length}\r\n{body}").into_bytes();
        }
        let mut head = Head::new();
        head.start_request(method.as_bytes(), b"/x");
        head.append(b"Host", b"a");
        if !is_safe {
            head.append(b"Content-Length", b"2");
        }
        let id = self.codec.send_head(&head, b"/x", b"http", is_safe).unwrap();
        if !is_safe {
            self.codec.send_data(id, body.as_bytes(), true);
        }
        let bytes = self.codec.pending().to_vec();
        self.codec.mark_written(bytes.len());
        bytes
    }

    async fn send(&mut self, bytes: &[u8]) {
        // Fairway may have closed.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads until every request is over.
    async fn finish(&mut self) {
        while !self.received.iter().all(|received| received.is_over) {
            let count =
                timeout(Duration::from_secs(600), self.stream.read_buf(&mut self.input)).await.unwrap();
            let is_closed = count.unwrap_or(0) == 0;
            match self.speaks {
                Protocol::Http1 => self.take_text(is_closed),
                Protocol::Http2 => self.take_frames(),
            }
            if is_closed {
                self.received.iter_mut().for_each(|received| received.is_over = true);
            }
        }
    }

    fn take_text(&mut self, is_closed: bool) {
        let received = &mut self.received[0];
        let Some(head) = wire::head(&self.input).unwrap() else { return };
        received.status = head.start.split(' ').nth(1).unwrap().parse().unwrap();
        let rest = &self.input[head.length..];
        let body = match wire::framing(&head.fields).unwrap() {
            Some(wire::Framing::Length(length)) => {
                (rest.len() >= length).then(|| (rest[..length].to_vec(), length))
            }
            Some(wire::Framing::Chunked) => {
                wire::chunked(rest).unwrap().map(|chunk| (chunk.content, chunk.length))
            }
            _ => Some((Vec::new(), 0)),
        };
        received.responses = 1;
        if let Some((body, length)) = body {
            (received.body, received.is_whole, received.is_over) = (body, true, true);
            assert_eq!(rest.len(), length, "nothing follows");
        } else if is_closed {
            received.body = rest.to_vec();
        }
    }

    fn take_frames(&mut self) {
        let (mut used, mut head) = (0, Head::new());
        loop {
            let (count, event) = self.codec.receive(0, &self.input[used..], &mut head);
            used += count;
            let exchange_of = |stream: u32| usize::try_from(stream / 2).unwrap();
            match event {
                Event::Head { stream, end, .. } => {
                    let received = &mut self.received[exchange_of(stream)];
                    (received.status, received.responses) = (head.status(), received.responses + 1);
                    (received.is_whole, received.is_over) = (end, end);
                }
                Event::Data { stream, bytes, end } => {
                    let received = &mut self.received[exchange_of(stream)];
                    received.body.extend_from_slice(bytes);
                    (received.is_whole, received.is_over) = (end, end);
                }
                Event::Trailers { stream } => {
                    let received = &mut self.received[exchange_of(stream)];
                    (received.is_whole, received.is_over) = (true, true);
                }
                Event::Reset { stream, .. } => self.received[exchange_of(stream)].is_over = true,
                Event::Closed(fault) => panic!("the proxy broke a rule: {fault:?}"),
                Event::NeedMore | Event::Wait(_) => break,
                _ => {}
            }
        }
        self.input.drain(..used);
    }
}

/// An endpoint's response, and where its head ends.
fn response(speaks: Protocol, id: u32) -> (Vec<u8>, usize) {
    if speaks == Protocol::Http1 {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = format!("{head}6\r\nhello \r\n5\r\nworld\r\n0\r\na: b\r\n\r\n");
        return (text.into_bytes(), head.len());
    }
    let head = head(id, 0, &[]);
    let length = head.len();
    let body = [frame(DATA, 0, id, b"hello "), frame(DATA, 0, id, b"world")].concat();
    ([head, body, frame(HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, id, &field("a", "b"))].concat(), length)
}

/// Waits for a complete request; returns its stream and its body.
async fn await_request(speaks: Protocol, raw: &mut Raw) -> Option<(u32, Vec<u8>)> {
    if speaks == Protocol::Http2 {
        return raw.request_with_body().await;
    }
    raw.text_request_with_body().await
}

/// The parameters of one run.
#[derive(Clone, Copy, Debug)]
struct Play {
    client: Protocol,
    endpoint: Protocol,
    is_safe: bool,
    leaves: FirstToEnd,
    /// Bytes of the response that the first endpoint sends.
    cut: usize,
    /// Whether steps change the bodies: to upper case, with an exclamation mark.
    changes: bool,
}

impl Play {
    /// The body of a complete response.
    fn body(&self) -> &'static [u8] {
        if self.changes { b"HELLO WORLD!" } else { b"hello world" }
    }

    /// The body of a request as the endpoint receives it.
    fn request_body(&self) -> &'static [u8] {
        match (self.is_safe, self.changes) {
            (true, _) => b"",
            (false, false) => b"hi",
            (false, true) => b"HI!",
        }
    }
}

/// Endpoints of which the first one dies; returns the number of complete requests received.
fn stage(play: Play) -> (TestWorker, Rc<Cell<usize>>) {
    let (requests, number) = (Rc::new(Cell::new(0)), Cell::new(0));
    let (count, sent_frames) = (Rc::clone(&requests), SentFrames::default());
    let protocol = match play.endpoint {
        Protocol::Http1 => BackendProtocol::Http1,
        Protocol::Http2 => BackendProtocol::H2c,
    };
    let edit = move |rule: &mut Rule| {
        if play.changes {
            rule.labels.path = upper_case::PATH.into();
        }
    };
    let stage = TestWorker::with_protocol_and_rule(protocol, 2, edit, move |_| {
        number.set(number.get() + 1);
        let (number, count, sent_frames) = (number.get(), Rc::clone(&count), Rc::clone(&sent_frames));
        ScriptedConnect::served_by(move |stream| async move {
            let mut raw = Raw::new(stream, &sent_frames);
            if play.endpoint == Protocol::Http2 {
                raw.send(frame(SETTINGS, 0, 0, &[])).await;
            }
            while let Some((id, body)) = await_request(play.endpoint, &mut raw).await {
                assert_eq!(body, play.request_body(), "{play:?}");
                count.set(count.get() + 1);
                let (bytes, _) = response(play.endpoint, id);
                if number == 1 {
                    raw.send(&bytes[..play.cut]).await;
                    if play.leaves != FirstToEnd::Endpoint {
                        sleep(Duration::from_millis(50)).await;
                    }
                    return;
                }
                raw.send(&bytes).await;
            }
        })
    });
    (stage, requests)
}

async fn at_endpoint(play: Play) {
    let (stage, requests) = stage(play);
    let mut test_client = TestClient::new(&stage, play.client);
    let request = test_client.request(play.is_safe);
    test_client.send(&request).await;
    if play.leaves == FirstToEnd::Endpoint {
        test_client.finish().await;
        let (all, head) = response(play.endpoint, 1);
        // What identifies the beginning of a response: one byte of HTTP/1, or a frame header.
        let begins = if play.endpoint == Protocol::Http1 { 1 } else { 9 };
        let (status, is_whole, tries) = match play.cut {
            at if at < begins && play.is_safe => (200, true, 2),
            at if at < head => (502, true, 1),
            at => (200, at == all.len(), 1),
        };
        let received = &test_client.received[0];
        // A head without following data may not have been sent.
        let is_as_expected = received.status == status || (received.status == 0 && !is_whole);
        let counts = (received.is_whole, received.responses, requests.get());
        let responses = usize::from(received.status > 0);
        assert!(
            is_as_expected && counts == (is_whole, responses, tries),
            "{play:?}: {received:?} {}",
            requests.get()
        );
        assert!(!is_whole || status != 200 || received.body == play.body(), "{play:?}: {received:?}");
    } else {
        sleep(Duration::from_millis(10)).await;
        if play.leaves == FirstToEnd::Stream && play.client == Protocol::Http2 {
            test_client.send(&frame(3, 0, 1, &[0, 0, 0, 8])).await;
        } else {
            drop(test_client.stream.shutdown().await);
        }
        sleep(Duration::from_millis(10)).await;
        // The lease is returned before the endpoint ends.
        assert_eq!(stage.worker.exchanges(), 0, "{play:?}");
        sleep(Duration::from_millis(100)).await;
        assert!(requests.get() <= 1, "{play:?}");
        if play.leaves == FirstToEnd::Stream && play.client == Protocol::Http2 {
            let next = test_client.request(play.is_safe);
            test_client.received[0].is_over = true;
            test_client.send(&next).await;
            test_client.finish().await;
            let received = &test_client.received[1];
            assert_eq!((received.status, &received.body[..]), (200, play.body()), "{play:?}");
        }
    }
    drop(test_client);
    run_ready_tasks().await;
    assert_eq!(stage.check_idle(), Ok(()), "{play:?}");
}

#[tokio::test(start_paused = true)]
async fn endpoints_die_at_every_byte() {
    assert!(endpoints_die(false).await > 1000);
}

#[tokio::test(start_paused = true)]
async fn endpoints_die_at_every_byte_while_bodies_are_changed() {
    assert!(endpoints_die(true).await > 1000);
}

async fn endpoints_die(changes: bool) -> usize {
    let mut plays = 0;
    for (client, endpoint) in ALL {
        for leaves in [FirstToEnd::Endpoint, FirstToEnd::Client, FirstToEnd::Stream] {
            for is_safe in [true, false] {
                for cut in 0..=response(endpoint, 1).0.len() {
                    plays += 1;
                    run_local(at_endpoint(Play { client, endpoint, is_safe, leaves, cut, changes })).await;
                }
            }
        }
    }
    plays
}

/// A client that ends after `cut` bytes of its request, next to one that gets a response.
async fn at_client(client: Protocol, endpoint: Protocol, cut: usize, changes: bool) -> bool {
    let length = response(endpoint, 1).0.len();
    let play = Play { client, endpoint, is_safe: false, leaves: FirstToEnd::Endpoint, cut: length, changes };
    let (stage, requests) = stage(play);
    let mut test_client = TestClient::new(&stage, client);
    let request = test_client.request(false);
    test_client.send(&request[..cut.min(request.len())]).await;
    sleep(Duration::from_millis(5)).await;
    drop(test_client);
    sleep(Duration::from_millis(5)).await;
    assert!(requests.get() <= usize::from(cut == request.len()), "{client:?} {endpoint:?} {cut}");
    assert_eq!(stage.check_idle(), Ok(()), "{client:?} {endpoint:?} {cut}");
    let mut other = TestClient::new(&stage, client);
    let next = other.request(false);
    other.send(&next).await;
    other.finish().await;
    assert_eq!(other.received[0].body, play.body(), "{client:?} {endpoint:?} {cut}");
    cut < request.len()
}

#[tokio::test(start_paused = true)]
async fn clients_die_at_every_byte() {
    for ((client, endpoint), changes) in ALL.into_iter().flat_map(|pair| [(pair, false), (pair, true)]) {
        let mut cut = 0;
        let is_more = Cell::new(true);
        while is_more.get() {
            run_local(async { is_more.set(at_client(client, endpoint, cut, changes).await) }).await;
            cut += 1;
        }
        assert!(cut > 40, "{cut}");
    }
}

/// A message with a body of five bytes, as its head says, and optional trailers.
fn of_five_bytes(head: &[u8], with_trailers: bool) -> Vec<u8> {
    let head = frame(HEADERS, FLAG_END_HEADERS, 1, &[head, &field("content-length", "5")].concat());
    match with_trailers {
        true => {
            let trailers = frame(HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, 1, &field("grpc-status", "0"));
            [head, frame(DATA, 0, 1, b"hello"), trailers].concat()
        }
        false => [head, frame(DATA, FLAG_END_STREAM, 1, b"hello")].concat(),
    }
}

/// The frames of the next message: their types, whether they end it, and what they carry.
async fn message(raw: &mut Raw) -> Vec<(u8, bool, Vec<u8>)> {
    let mut frames: Vec<(u8, bool, Vec<u8>)> = Vec::new();
    while !frames.last().is_some_and(|(_, ends, _)| *ends) {
        let (kind, flags, _, payload) = raw.next().await.unwrap();
        match kind {
            HEADERS | DATA => frames.push((kind, flags & FLAG_END_STREAM > 0, payload)),
            SETTINGS if flags & FLAG_END_STREAM == 0 => {
                raw.send(frame(SETTINGS, FLAG_END_STREAM, 0, &[])).await;
            }
            _ => {}
        }
    }
    frames
}

/// A request and its response, both of five bytes, between two ends that speak HTTP/2.
async fn both_messages(with_trailers: bool) -> [Vec<(u8, bool, Vec<u8>)>; 2] {
    let requests = Rc::new(RefCell::new(Vec::new()));
    let theirs = Rc::clone(&requests);
    let (stage, _) = hostile_tests::stage(1, move |_, mut raw| {
        let requests = Rc::clone(&theirs);
        async move {
            raw.send(frame(SETTINGS, 0, 0, &[])).await;
            let request = message(&mut raw).await;
            *requests.borrow_mut() = request;
            raw.send(of_five_bytes(OK, with_trailers)).await;
            raw.read_to_end().await;
        }
    });
    let mut client = Raw::new(stage.client().stream, &SentFrames::default());
    // The body fills the window: what ends it needs none (RFC 9113 §6.9.1).
    let settings = setting(4, 5);
    // `POST http://a/`: fields of the static table, and a literal that enters no table (RFC 7541 §6).
    let request = of_five_bytes(b"\x83\x86\x84\x01\x01a", with_trailers);
    client.send([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &request].concat()).await;
    let response = timeout(Duration::from_secs(20), message(&mut client)).await.unwrap();
    [requests.take(), response]
}

#[tokio::test(start_paused = true)]
async fn trailers_may_follow_a_body_of_known_length_over_http2() {
    run_local(async {
        for frames in both_messages(true).await {
            let kinds: Vec<_> = frames.iter().map(|(kind, ends, _)| (*kind, *ends)).collect();
            assert_eq!(kinds, [(HEADERS, false), (DATA, false), (HEADERS, true)]);
            assert_eq!(frames[1].2, b"hello");
            assert!(frames[2].2.windows(11).any(|name| name == b"grpc-status"), "{frames:?}");
        }
        for frames in both_messages(false).await {
            assert!(frames.iter().skip(1).all(|(kind, ..)| *kind == DATA), "{frames:?}");
            assert_eq!(frames[1].2, b"hello");
        }
    })
    .await;
}
