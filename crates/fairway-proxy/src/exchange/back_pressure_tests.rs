//! Back-pressure: what one side does not read is not read from the other, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::hostile_tests::{FLAG_END_HEADERS, FLAG_END_STREAM, HEADERS, Raw, SETTINGS, SentFrames, frame};
use super::tests::seconds;
use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, read_head, run_local};

/// An endpoint that sends this forever, and counts what is read of it.
fn without_end(
    interim: &'static [u8],
    taken: &Rc<Cell<usize>>,
) -> impl Fn(std::net::SocketAddr) -> ScriptedConnect + 'static {
    let sent = Rc::clone(taken);
    move |_| {
        let sent = Rc::clone(&sent);
        ScriptedConnect::served_by(move |mut stream| async move {
            read_head(&mut stream).await;
            let many = interim.repeat(100);
            // Ten times what streams and buffers can hold.
            while sent.get() < 10_000_000 && stream.write_all(&many).await.is_ok() {
                sent.set(sent.get() + many.len());
            }
            std::future::pending::<()>().await;
        })
    }
}

/// The statuses that an HTTP/1 client gets that first reads nothing for a while.
async fn statuses(stage: &TestWorker) -> Vec<u16> {
    let mut client = stage.client();
    client.send(GET_REQUEST).await;
    sleep(seconds(10)).await;
    let mut statuses: Vec<u16> = Vec::new();
    while statuses.last().is_none_or(|status| *status < 200) {
        statuses.push(client.response().await.unwrap().status);
    }
    statuses
}

/// The same for an HTTP/2 client.
async fn statuses_of_http2(stage: &TestWorker) -> Vec<u16> {
    let mut raw = Raw::new(stage.client().stream, &SentFrames::default());
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, FLAG_END_STREAM, 0, &[])].concat();
    // `GET http://a/`: fields of the static table, and a literal that enters no table (RFC 7541 §6).
    let request = frame(HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, 1, b"\x82\x86\x84\x01\x01a");
    raw.send([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &request].concat()).await;
    sleep(seconds(10)).await;
    let mut statuses: Vec<u16> = Vec::new();
    while statuses.last().is_none_or(|status| *status < 200) {
        let (kind, _, _, payload) = raw.next().await.unwrap();
        // A literal value of `:status`.
        if kind == HEADERS {
            assert_eq!(payload[..2], [8, 3]);
            statuses.push(std::str::from_utf8(&payload[2..5]).unwrap().parse().unwrap());
        }
    }
    statuses
}

#[tokio::test(start_paused = true)]
async fn endless_interim_responses_are_not_buffered() {
    let hints: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let go_on: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    for (interim, passed_on, is_http2) in
        [(hints, 8, false), (hints, 8, true), (go_on, 0, false), (go_on, 0, true)]
    {
        run_local(async {
            let sent = Rc::new(Cell::new(0));
            let stage = TestWorker::new(1, |_, _| {}, without_end(interim, &sent));
            let received = if is_http2 { statuses_of_http2(&stage).await } else { statuses(&stage).await };
            let expected: Vec<u16> = [vec![103; passed_on], vec![502]].concat();
            assert_eq!(received, expected, "over HTTP/2: {is_http2}");
            assert!(sent.get() < 1_000_000, "{} bytes were taken", sent.get());
            assert_eq!(stage.metric_value("fairway_faults_total{reason=\"upstream_malformed\"}"), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_is_not_read_while_the_client_does_not_read() {
    for framing in ["Content-Length: 10000000", "Transfer-Encoding: chunked"] {
        run_local(async {
            let written = Rc::new(Cell::new(0));
            let counter = Rc::clone(&written);
            let eager = move |_| {
                let counter = Rc::clone(&counter);
                ScriptedConnect::served_by(move |mut stream| async move {
                    read_head(&mut stream).await;
                    stream
                        .write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").as_bytes())
                        .await
                        .unwrap();
                    let chunk =
                        b"3f8\r\n".iter().chain(&[b'a'; 1016]).chain(b"\r\n").copied().collect::<Vec<_>>();
                    while counter.get() < 9_000_000 && stream.write_all(&chunk).await.is_ok() {
                        counter.set(counter.get() + chunk.len());
                    }
                    std::future::pending::<()>().await;
                })
            };
            let stage = TestWorker::new(1, |_, _| {}, eager);
            let mut client = stage.client();
            client.send(GET_REQUEST).await;
            sleep(seconds(10)).await;
            let written_before = written.get();
            assert!((1_000..1_000_000).contains(&written_before), "{written_before} bytes with {framing}");
            let mut buffer = vec![0; 2_000_000];
            client.stream.read_exact(&mut buffer).await.unwrap();
            assert!(written.get() > written_before, "it flows again");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_is_not_read_while_the_endpoint_does_not_read() {
    run_local(async {
        let deaf = |_| {
            ScriptedConnect::served_by(|stream| async move {
                sleep(seconds(3600)).await;
                drop(stream);
            })
        };
        let stage = TestWorker::new(1, |_, _| {}, deaf);
        let mut client = stage.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n").await;
        let mut accepted = 0;
        let flood = async {
            while client.stream.write_all(&[b'a'; 1000]).await.is_ok() {
                accepted += 1000;
            }
        };
        let stopped = tokio::time::timeout(seconds(10), flood).await;
        assert!(stopped.is_err(), "the client stands still");
        assert!((1_000..1_000_000).contains(&accepted), "{accepted} bytes");
    })
    .await;
}
