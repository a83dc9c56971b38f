//! Both real codecs on both sides, in virtual time: one end of an exchange dies at every byte that it sends, alone or after
//! the other, in all four pairings of protocols. Each request has at most one answer, none is sent again after a byte of one
//! came, another exchange gets its own bytes and no others, and every count comes to rest. All of it again with steps that change
//! both bodies on their way.

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
    self, DATA, END, HEADERS, OK, Raw, SETTINGS, Shared, WHOLE, field, frame, head, setting, settle,
};
use crate::body_steps::upper_case;
use crate::testing::{Meeting, Stage, on_stage};

const ALL: [(Speaks, Speaks); 4] = [
    (Speaks::Http1, Speaks::Http1),
    (Speaks::Http1, Speaks::Http2),
    (Speaks::Http2, Speaks::Http1),
    (Speaks::Http2, Speaks::Http2),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Http1,
    Http2,
}

/// Who is the first to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    Endpoint,
    /// The client leaves while the endpoint is silent, which then ends.
    Client,
    /// Its stream does, or its connection where that is the same.
    Stream,
}

/// What came of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    status: u16,
    answers: usize,
    body: Vec<u8>,
    is_whole: bool,
    is_over: bool,
}

/// A client of either protocol with one request after another.
struct Asker {
    stream: DuplexStream,
    speaks: Speaks,
    codec: Codec,
    input: Vec<u8>,
    came: Vec<Came>,
}

impl Asker {
    fn new(stage: &Stage, speaks: Speaks) -> Self {
        let (stream, codec) = (stage.client().stream, Codec::new(Config::default(), 0));
        Self { stream, speaks, codec, input: Vec::new(), came: Vec::new() }
    }

    /// The bytes of a request.
    fn request(&mut self, is_safe: bool) -> Vec<u8> {
        self.came.push(Came::default());
        let (method, body) = if is_safe { ("GET", "") } else { ("POST", "hi") };
        if self.speaks == Speaks::Http1 {
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
        self.codec.wrote(bytes.len());
        bytes
    }

    async fn say(&mut self, bytes: &[u8]) {
        // Fairway may have closed.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads until every request is over.
    async fn finish(&mut self) {
        while !self.came.iter().all(|came| came.is_over) {
            let count =
                timeout(Duration::from_secs(600), self.stream.read_buf(&mut self.input)).await.unwrap();
            let is_closed = count.unwrap_or(0) == 0;
            match self.speaks {
                Speaks::Http1 => self.take_text(is_closed),
                Speaks::Http2 => self.take_frames(),
            }
            if is_closed {
                self.came.iter_mut().for_each(|came| came.is_over = true);
            }
        }
    }

    fn take_text(&mut self, is_closed: bool) {
        let came = &mut self.came[0];
        let Some(head) = wire::head(&self.input).unwrap() else { return };
        came.status = head.start.split(' ').nth(1).unwrap().parse().unwrap();
        let rest = &self.input[head.length..];
        let body = match wire::framing(&head.fields).unwrap() {
            Some(wire::Framing::Length(length)) => {
                (rest.len() >= length).then(|| (rest[..length].to_vec(), length))
            }
            Some(wire::Framing::Chunked) => wire::chunked(rest).unwrap().map(|one| (one.content, one.length)),
            _ => Some((Vec::new(), 0)),
        };
        came.answers = 1;
        if let Some((body, length)) = body {
            (came.body, came.is_whole, came.is_over) = (body, true, true);
            assert_eq!(rest.len(), length, "nothing follows");
        } else if is_closed {
            came.body = rest.to_vec();
        }
    }

    fn take_frames(&mut self) {
        let (mut used, mut head) = (0, Head::new());
        loop {
            let (count, event) = self.codec.receive(0, &self.input[used..], &mut head);
            used += count;
            let of = |stream: u32| usize::try_from(stream / 2).unwrap();
            match event {
                Event::Head { stream, end, .. } => {
                    let came = &mut self.came[of(stream)];
                    (came.status, came.answers) = (head.status(), came.answers + 1);
                    (came.is_whole, came.is_over) = (end, end);
                }
                Event::Data { stream, bytes, end } => {
                    let came = &mut self.came[of(stream)];
                    came.body.extend_from_slice(bytes);
                    (came.is_whole, came.is_over) = (end, end);
                }
                Event::Trailers { stream } => {
                    let came = &mut self.came[of(stream)];
                    (came.is_whole, came.is_over) = (true, true);
                }
                Event::Reset { stream, .. } => self.came[of(stream)].is_over = true,
                Event::Closed(fault) => panic!("the proxy broke a rule: {fault:?}"),
                Event::NeedMore | Event::Wait(_) => break,
                _ => {}
            }
        }
        self.input.drain(..used);
    }
}

/// What an endpoint says, and where its answer's head ends.
fn answer(speaks: Speaks, id: u32) -> (Vec<u8>, usize) {
    if speaks == Speaks::Http1 {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = format!("{head}6\r\nhello \r\n5\r\nworld\r\n0\r\na: b\r\n\r\n");
        return (text.into_bytes(), head.len());
    }
    let head = head(id, 0, &[]);
    let length = head.len();
    let body = [frame(DATA, 0, id, b"hello "), frame(DATA, 0, id, b"world")].concat();
    ([head, body, frame(HEADERS, END | WHOLE, id, &field("a", "b"))].concat(), length)
}

/// Waits for a whole request; gives its stream and its body.
async fn asked(speaks: Speaks, raw: &mut Raw) -> Option<(u32, Vec<u8>)> {
    if speaks == Speaks::Http2 {
        return raw.request_with_body().await;
    }
    raw.text_request_with_body().await
}

/// What one play is about.
#[derive(Clone, Copy, Debug)]
struct Play {
    client: Speaks,
    endpoint: Speaks,
    is_safe: bool,
    leaves: Leaves,
    /// Bytes of the answer that the first endpoint says.
    cut: usize,
    /// Whether bodies become upper case, with an exclamation mark.
    changes: bool,
}

impl Play {
    /// The body of an answer that came whole.
    fn body(&self) -> &'static [u8] {
        if self.changes { b"HELLO WORLD!" } else { b"hello world" }
    }

    /// The body of a request as it is there.
    fn asked(&self) -> &'static [u8] {
        match (self.is_safe, self.changes) {
            (true, _) => b"",
            (false, false) => b"hi",
            (false, true) => b"HI!",
        }
    }
}

/// Endpoints of which the first one dies; gives how many requests were there as a whole.
fn stage(play: Play) -> (Stage, Rc<Cell<usize>>) {
    let (requests, number) = (Rc::new(Cell::new(0)), Cell::new(0));
    let (count, said) = (Rc::clone(&requests), Shared::default());
    let protocol = match play.endpoint {
        Speaks::Http1 => BackendProtocol::Http1,
        Speaks::Http2 => BackendProtocol::H2c,
    };
    let edit = move |rule: &mut Rule| {
        if play.changes {
            rule.labels.path = upper_case::PATH.into();
        }
    };
    let stage = Stage::speaking_ruled(protocol, 2, edit, move |_| {
        number.set(number.get() + 1);
        let (number, count, said) = (number.get(), Rc::clone(&count), Rc::clone(&said));
        Meeting::with(move |stream| async move {
            let mut raw = Raw::new(stream, &said);
            if play.endpoint == Speaks::Http2 {
                raw.say(frame(SETTINGS, 0, 0, &[])).await;
            }
            while let Some((id, body)) = asked(play.endpoint, &mut raw).await {
                assert_eq!(body, play.asked(), "{play:?}");
                count.set(count.get() + 1);
                let (bytes, _) = answer(play.endpoint, id);
                if number == 1 {
                    raw.say(&bytes[..play.cut]).await;
                    if play.leaves != Leaves::Endpoint {
                        sleep(Duration::from_millis(50)).await;
                    }
                    return;
                }
                raw.say(&bytes).await;
            }
        })
    });
    (stage, requests)
}

async fn at_endpoint(play: Play) {
    let (stage, requests) = stage(play);
    let mut asker = Asker::new(&stage, play.client);
    let request = asker.request(play.is_safe);
    asker.say(&request).await;
    if play.leaves == Leaves::Endpoint {
        asker.finish().await;
        let (all, head) = answer(play.endpoint, 1);
        // What shows whose answer begins: a byte of HTTP/1, and the header of a frame.
        let begins = if play.endpoint == Speaks::Http1 { 1 } else { 9 };
        let (status, is_whole, tries) = match play.cut {
            at if at < begins && play.is_safe => (200, true, 2),
            at if at < head => (502, true, 1),
            at => (200, at == all.len(), 1),
        };
        let came = &asker.came[0];
        // A head that nothing follows may not have left.
        let is_as_expected = came.status == status || (came.status == 0 && !is_whole);
        let counts = (came.is_whole, came.answers, requests.get());
        let answers = usize::from(came.status > 0);
        assert!(
            is_as_expected && counts == (is_whole, answers, tries),
            "{play:?}: {came:?} {}",
            requests.get()
        );
        assert!(!is_whole || status != 200 || came.body == play.body(), "{play:?}: {came:?}");
    } else {
        sleep(Duration::from_millis(10)).await;
        if play.leaves == Leaves::Stream && play.client == Speaks::Http2 {
            asker.say(&frame(3, 0, 1, &[0, 0, 0, 8])).await;
        } else {
            drop(asker.stream.shutdown().await);
        }
        sleep(Duration::from_millis(10)).await;
        // What was lent is given back before the endpoint ends.
        assert_eq!(stage.worker.exchanges(), 0, "{play:?}");
        sleep(Duration::from_millis(100)).await;
        assert!(requests.get() <= 1, "{play:?}");
        if play.leaves == Leaves::Stream && play.client == Speaks::Http2 {
            let next = asker.request(play.is_safe);
            asker.came[0].is_over = true;
            asker.say(&next).await;
            asker.finish().await;
            let came = &asker.came[1];
            assert_eq!((came.status, &came.body[..]), (200, play.body()), "{play:?}");
        }
    }
    drop(asker);
    settle().await;
    assert_eq!(stage.at_rest(), Ok(()), "{play:?}");
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
        for leaves in [Leaves::Endpoint, Leaves::Client, Leaves::Stream] {
            for is_safe in [true, false] {
                for cut in 0..=answer(endpoint, 1).0.len() {
                    plays += 1;
                    on_stage(at_endpoint(Play { client, endpoint, is_safe, leaves, cut, changes })).await;
                }
            }
        }
    }
    plays
}

/// A client that ends after so many bytes of its request, beside one that is answered.
async fn at_client(client: Speaks, endpoint: Speaks, cut: usize, changes: bool) -> bool {
    let whole = answer(endpoint, 1).0.len();
    let play = Play { client, endpoint, is_safe: false, leaves: Leaves::Endpoint, cut: whole, changes };
    let (stage, requests) = stage(play);
    let mut asker = Asker::new(&stage, client);
    let request = asker.request(false);
    asker.say(&request[..cut.min(request.len())]).await;
    sleep(Duration::from_millis(5)).await;
    drop(asker);
    sleep(Duration::from_millis(5)).await;
    assert!(requests.get() <= usize::from(cut == request.len()), "{client:?} {endpoint:?} {cut}");
    assert_eq!(stage.at_rest(), Ok(()), "{client:?} {endpoint:?} {cut}");
    let mut other = Asker::new(&stage, client);
    let next = other.request(false);
    other.say(&next).await;
    other.finish().await;
    assert_eq!(other.came[0].body, play.body(), "{client:?} {endpoint:?} {cut}");
    cut < request.len()
}

#[tokio::test(start_paused = true)]
async fn clients_die_at_every_byte() {
    for ((client, endpoint), changes) in ALL.into_iter().flat_map(|pair| [(pair, false), (pair, true)]) {
        let mut cut = 0;
        let is_more = Cell::new(true);
        while is_more.get() {
            on_stage(async { is_more.set(at_client(client, endpoint, cut, changes).await) }).await;
            cut += 1;
        }
        assert!(cut > 40, "{cut}");
    }
}

/// A message whose body has five bytes, as its head says; perhaps with trailers.
fn of_five_bytes(head: &[u8], with_trailers: bool) -> Vec<u8> {
    let head = frame(HEADERS, WHOLE, 1, &[head, &field("content-length", "5")].concat());
    match with_trailers {
        true => {
            let trailers = frame(HEADERS, END | WHOLE, 1, &field("grpc-status", "0"));
            [head, frame(DATA, 0, 1, b"hello"), trailers].concat()
        }
        false => [head, frame(DATA, END, 1, b"hello")].concat(),
    }
}

/// The frames of the next message: their types, whether they end it, and what they carry.
async fn message(raw: &mut Raw) -> Vec<(u8, bool, Vec<u8>)> {
    let mut frames: Vec<(u8, bool, Vec<u8>)> = Vec::new();
    while !frames.last().is_some_and(|(_, ends, _)| *ends) {
        let (kind, flags, _, payload) = raw.next().await.unwrap();
        match kind {
            HEADERS | DATA => frames.push((kind, flags & END > 0, payload)),
            SETTINGS if flags & END == 0 => raw.say(frame(SETTINGS, END, 0, &[])).await,
            _ => {}
        }
    }
    frames
}

/// A request and its answer, both of five bytes, between two ends that speak HTTP/2.
async fn both_messages(with_trailers: bool) -> [Vec<(u8, bool, Vec<u8>)>; 2] {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let theirs = Rc::clone(&asked);
    let (stage, _) = hostile_tests::stage(1, move |_, mut raw| {
        let asked = Rc::clone(&theirs);
        async move {
            raw.say(frame(SETTINGS, 0, 0, &[])).await;
            let request = message(&mut raw).await;
            *asked.borrow_mut() = request;
            raw.say(of_five_bytes(OK, with_trailers)).await;
            raw.rest().await;
        }
    });
    let mut client = Raw::new(stage.client().stream, &Shared::default());
    // The body fills the window: what ends it needs none (RFC 9113 §6.9.1).
    let settings = setting(4, 5);
    // `POST http://a/`: fields of the static table, and a literal that enters no table (RFC 7541 §6).
    let request = of_five_bytes(b"\x83\x86\x84\x01\x01a", with_trailers);
    client.say([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &request].concat()).await;
    let answer = timeout(Duration::from_secs(20), message(&mut client)).await.unwrap();
    [asked.take(), answer]
}

#[tokio::test(start_paused = true)]
async fn trailers_may_follow_a_body_of_known_length_over_http2() {
    on_stage(async {
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
