//! Property: however the bytes are split, on either side, the endpoint receives the same requests and the client the same
//! responses. The testkit's parser checks both ends; it shares no code with the proxy.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;

use fairway_testkit::wire;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, yield_now};

use crate::testing::{ScriptedConnect, TestResponse, TestWorker};

/// A request, and the content of its response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestRequest {
    method: &'static str,
    target: String,
    body: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length,
    /// With chunks of at most this many bytes.
    Chunks(usize),
}

/// How an endpoint frames its responses.
#[derive(Clone, Copy, Debug)]
enum ResponseFraming {
    Length,
    Chunked,
    UntilClose,
}

/// A request as the endpoint received it.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    method: String,
    target: String,
    body: Vec<u8>,
}

impl TestRequest {
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

    fn response(&self) -> Vec<u8> {
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

/// A response body that identifies its request, so that swapped or mixed responses are detected.
fn body_of(received: &Received) -> Vec<u8> {
    let Received { method, target, body } = received;
    [method.as_bytes(), b" ", target.as_bytes(), b" ", body].concat()
}

fn response_to(received: &Received, how: ResponseFraming) -> Vec<u8> {
    let body = body_of(received);
    match how {
        ResponseFraming::Length => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), &body].concat()
        }
        ResponseFraming::Chunked => {
            [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &chunked(&body, 7)].concat()
        }
        ResponseFraming::UntilClose => [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &body].concat(),
    }
}

/// Writes in pieces of these sizes, repeatedly, and lets other tasks run between them.
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

/// The first request in the bytes, if it is complete, and its length.
fn parse_request(bytes: &[u8]) -> Option<(Received, usize)> {
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
    how: ResponseFraming,
    sizes: Vec<usize>,
) {
    let mut pending = Vec::new();
    loop {
        if let Some((received, used)) = parse_request(&pending) {
            pending.drain(..used);
            let response = response_to(&received, how);
            seen.borrow_mut().push(received);
            if !write_in_pieces(&mut stream, &response, &sizes).await
                || matches!(how, ResponseFraming::UntilClose)
            {
                return;
            }
        } else if stream.read_buf(&mut pending).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

fn run_case(
    requests: &[TestRequest],
    how: ResponseFraming,
    from_client: &[usize],
    from_endpoint: Vec<usize>,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let received = Rc::new(RefCell::new(Vec::new()));
        let record = Rc::clone(&received);
        let script = move |_| {
            ScriptedConnect::served_by(|stream| {
                endpoint(stream, Rc::clone(&record), how, from_endpoint.clone())
            })
        };
        let stage = TestWorker::new(1, |_, _| {}, script);
        let mut client = stage.client();
        let bytes: Vec<u8> = requests.iter().flat_map(TestRequest::bytes).collect();
        assert!(write_in_pieces(&mut client.stream, &bytes, from_client).await);
        for request in requests {
            let response = client.response().await;
            assert_eq!(response, Some(TestResponse { status: 200, body: request.response() }));
        }
        let expected: Vec<Received> = requests.iter().map(TestRequest::received).collect();
        assert_eq!(*received.borrow(), expected);
    });
}

fn any_request() -> impl Strategy<Value = TestRequest> {
    let framing =
        prop_oneof![Just(Framing::None), Just(Framing::Length), (1_usize..40).prop_map(Framing::Chunks)];
    let body = prop_oneof![3 => vec(any::<u8>(), 0..60), 1 => vec(any::<u8>(), 0..3000)];
    let method =
        prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("DELETE"), Just("PATCH"), Just("PURGE")];
    (method, "/[a-z0-9]{0,8}(\\?[a-z=&]{0,5})?", body, framing).prop_map(|(method, target, body, framing)| {
        let body = if framing == Framing::None { Vec::new() } else { body };
        TestRequest { method, target, body, framing }
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(1_usize..4, 1..4), vec(1_usize..200, 1..6), Just(vec![100_000])]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_and_answers_do_not_depend_on_how_their_bytes_are_cut(
        requests in vec(any_request(), 1..6),
        how in prop_oneof![Just(ResponseFraming::Length), Just(ResponseFraming::Chunked), Just(ResponseFraming::UntilClose)],
        from_client in sizes(),
        from_endpoint in sizes(),
    ) {
        run_case(&requests, how, &from_client, from_endpoint);
    }
}
