//! Property: however the bytes are cut, on either side, the endpoint receives the same sequence of requests and the
//! client the same answers. The judge on both ends is the testkit's parser, which shares no code with the proxy.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;

use fairway_testkit::wire;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, yield_now};

use crate::testing::{Meeting, Seen, Stage};

/// A request, and what its answer will be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    method: &'static str,
    target: String,
    body: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    /// With chunks of at most so many bytes.
    Chunks(usize),
}

/// How an endpoint frames its answers.
#[derive(Clone, Copy, Debug)]
enum Answers {
    Length,
    Chunked,
    UntilClose,
}

/// What the endpoint saw of a request.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    method: String,
    target: String,
    body: Vec<u8>,
}

impl Asked {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes =
            format!("{} {} HTTP/1.1\r\nHost: example.com\r\n", self.method, self.target).into_bytes();
        match self.framing {
            Framing::None => bytes.extend(b"\r\n"),
            Framing::Length => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", self.body.len()).bytes());
                bytes.extend(&self.body);
            }
            Framing::Chunks(size) => {
                bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                bytes.extend(chunked(&self.body, size));
            }
        }
        bytes
    }

    fn received(&self) -> Received {
        Received { method: self.method.to_owned(), target: self.target.clone(), body: self.body.clone() }
    }

    fn answer(&self) -> Vec<u8> {
        body_of(&self.received())
    }
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in body.chunks(size.max(1)) {
        bytes.extend(format!("{:X}\r\n", chunk.len()).bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// An answer whose body tells its request, so that a swapped or mixed one shows.
fn body_of(received: &Received) -> Vec<u8> {
    let Received { method, target, body } = received;
    [method.as_bytes(), b" ", target.as_bytes(), b" ", body].concat()
}

fn answer_to(received: &Received, how: Answers) -> Vec<u8> {
    let body = body_of(received);
    match how {
        Answers::Length => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), &body].concat()
        }
        Answers::Chunked => {
            [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &chunked(&body, 7)].concat()
        }
        Answers::UntilClose => [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &body].concat(),
    }
}

/// Writes in pieces of these sizes, again and again, and lets everybody else run between them.
async fn write_in_pieces(stream: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8], sizes: &[usize]) -> bool {
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (piece, behind) = rest.split_at((*size).min(rest.len()));
        if stream.write_all(piece).await.is_err() {
            return false;
        }
        yield_now().await;
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    true
}

/// One request from the front of the bytes, when it is whole.
fn request_in(bytes: &[u8]) -> Option<(Received, usize)> {
    let head = wire::head(bytes).expect("the proxy writes canonical heads")?;
    let mut line = head.start.split(' ');
    let (method, target) = (line.next()?.to_owned(), line.next()?.to_owned());
    let rest = &bytes[head.length..];
    match wire::framing(&head.fields).expect("the proxy writes one framing") {
        None | Some(wire::Framing::None | wire::Framing::Close) => {
            Some((Received { method, target, body: Vec::new() }, head.length))
        }
        Some(wire::Framing::Length(length)) => {
            let body = rest.get(..length)?.to_vec();
            Some((Received { method, target, body }, head.length + length))
        }
        Some(wire::Framing::Chunked) => {
            let body = wire::chunked(rest).expect("the proxy writes canonical chunks")?;
            let length = head.length + body.length;
            Some((Received { method, target, body: body.content }, length))
        }
    }
}

async fn endpoint(
    mut stream: DuplexStream,
    seen: Rc<RefCell<Vec<Received>>>,
    how: Answers,
    sizes: Vec<usize>,
) {
    let mut pending = Vec::new();
    loop {
        if let Some((received, used)) = request_in(&pending) {
            pending.drain(..used);
            let answer = answer_to(&received, how);
            seen.borrow_mut().push(received);
            if !write_in_pieces(&mut stream, &answer, &sizes).await || matches!(how, Answers::UntilClose) {
                return;
            }
        } else if stream.read_buf(&mut pending).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

fn play(asked: &[Asked], how: Answers, from_client: &[usize], from_endpoint: Vec<usize>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let record = Rc::clone(&seen);
        let script =
            move |_| Meeting::with(|stream| endpoint(stream, Rc::clone(&record), how, from_endpoint.clone()));
        let stage = Stage::new(1, |_, _| {}, script);
        let mut client = stage.client();
        let bytes: Vec<u8> = asked.iter().flat_map(Asked::bytes).collect();
        assert!(write_in_pieces(&mut client.stream, &bytes, from_client).await);
        for request in asked {
            let answer = client.answer().await;
            assert_eq!(answer, Some(Seen { status: 200, body: request.answer() }));
        }
        let expected: Vec<Received> = asked.iter().map(Asked::received).collect();
        assert_eq!(*seen.borrow(), expected);
    });
}

fn asked() -> impl Strategy<Value = Asked> {
    let framing =
        prop_oneof![Just(Framing::None), Just(Framing::Length), (1_usize..40).prop_map(Framing::Chunks)];
    let body = prop_oneof![3 => vec(any::<u8>(), 0..60), 1 => vec(any::<u8>(), 0..3000)];
    let method =
        prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("DELETE"), Just("PATCH"), Just("PURGE")];
    (method, "/[a-z0-9]{0,8}(\\?[a-z=&]{0,5})?", body, framing).prop_map(|(method, target, body, framing)| {
        let body = if framing == Framing::None { Vec::new() } else { body };
        Asked { method, target, body, framing }
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(1_usize..4, 1..4), vec(1_usize..200, 1..6), Just(vec![100_000])]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_and_answers_do_not_depend_on_how_their_bytes_are_cut(
        asked in vec(asked(), 1..6),
        how in prop_oneof![Just(Answers::Length), Just(Answers::Chunked), Just(Answers::UntilClose)],
        from_client in sizes(),
        from_endpoint in sizes(),
    ) {
        play(&asked, how, &from_client, from_endpoint);
    }
}
