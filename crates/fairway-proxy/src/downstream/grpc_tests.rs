//! gRPC calls of HTTP/2 clients in virtual time, on scripted endpoints of HTTP/1.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{Forwarding, Phases};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::{Instant, advance, sleep, timeout};

use super::http2_tests::{Answer, Browser, comes_to_rest};
use crate::testing::{Meeting, Stage, on_stage};

const GRPC: (&str, &str) = ("content-type", "application/grpc+proto");

/// The value of a field.
fn value<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(std::str::from_utf8(&field.1).unwrap())
}

#[track_caller]
fn assert_trailers_only(answer: &Answer, status: &str, message: &str) {
    assert_eq!((answer.status, answer.reset, answer.body.len()), (200, None, 0));
    assert!(answer.trailers.is_empty(), "one head and nothing behind it: {:?}", answer.trailers);
    let of = |name| value(&answer.fields, name);
    assert_eq!((of("grpc-status"), of("grpc-message")), (Some(status), Some(message)));
    assert_eq!((of("content-type"), of("content-length")), (Some("application/grpc"), None));
}

/// Says this when a whole request without a body is there, and then nothing; writes down what it was asked.
fn saying(what: &'static [u8], seen: &Rc<RefCell<String>>) -> impl Fn() -> Meeting + 'static {
    let seen = Rc::clone(seen);
    move || {
        let seen = Rc::clone(&seen);
        Meeting::with(move |mut stream| async move {
            while !seen.borrow().ends_with("\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                seen.borrow_mut().push(char::from(byte));
            }
            stream.write_all(what).await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            seen.borrow_mut().push_str("THE END");
        })
    }
}

async fn silent(mut stream: DuplexStream) {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_passes_with_its_trailers_and_the_endpoint_is_told_that_they_will() {
    on_stage(async {
        let seen = Rc::default();
        let answering = saying(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc+proto\r\nTransfer-Encoding: chunked\r\n\r\n\
            7\r\n\0\0\0\0\x02ab\r\n0\r\ngrpc-status: 5\r\ngrpc-message: none\r\n\r\n",
            &seen,
        );
        let stage = Stage::new(1, |_, _| {}, move |_| answering());
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC, ("te", "trailers")], true);
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"\0\0\0\0\x02ab"[..]));
        let of = |name| value(&answer.trailers, name);
        assert_eq!((of("grpc-status"), of("grpc-message")), (Some("5"), Some("none")));
        assert_eq!(stage.value("fairway_grpc_calls_total{status=\"NOT_FOUND\"}"), 1);
        let seen = seen.borrow();
        assert!(seen.contains("\r\nTE: trailers\r\n") && seen.contains("\r\nConnection: TE\r\n"), "{seen}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_an_answer_without_messages() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::Refused);
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC], true);
        let answer = browser.answered(id).await;
        assert_trailers_only(answer, "14", "502 Bad Gateway: connect_failed");
        assert_eq!(stage.value("fairway_grpc_calls_total{status=\"UNAVAILABLE\"}"), 1);
        assert_eq!(stage.value("fairway_faults_total{reason=\"connect_failed\"}"), 1);
        let id = browser.ask_with(b"POST", b"/a.B/C", &[("content-type", "application/json")], true);
        assert_eq!(browser.answered(id).await.status, 502, "others see HTTP");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoints_answer_that_is_no_grpc_passes_as_it_is() {
    on_stage(async {
        let seen = Rc::default();
        let answer = saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", &seen);
        let stage = Stage::new(1, |_, _| {}, move |_| answer());
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC], true);
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, &answer.body[..]), (404, &b"none"[..]));
        assert_eq!(value(&answer.fields, "grpc-status"), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_a_head_and_for_a_connect() {
    for (name, meeting) in
        [("a head", (|| Meeting::with(silent)) as fn() -> Meeting), ("a connect", || Meeting::Silence)]
    {
        on_stage(async {
            let stage = Stage::new(2, |_, _| {}, move |_| meeting());
            let mut browser = Browser::new(&stage);
            for _ in 0..2 {
                let began = Instant::now();
                let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC, ("grpc-timeout", "300m")], true);
                let answer = browser.answered(id).await;
                assert_trailers_only(answer, "4", "504 Gateway Timeout: deadline_exceeded");
                let took = began.elapsed();
                assert!(
                    took >= Duration::from_millis(300) && took < Duration::from_millis(320),
                    "{name}: {took:?}"
                );
            }
            assert_eq!(stage.value("fairway_grpc_calls_total{status=\"DEADLINE_EXCEEDED\"}"), 2);
            assert_eq!(stage.value("fairway_upstream_ejections_total"), 0, "no endpoint is at fault");
            drop(browser);
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_over_sends_nothing() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| panic!("nothing is connected"));
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC, ("grpc-timeout", "0n")], true);
        assert_trailers_only(browser.answered(id).await, "4", "504 Gateway Timeout: deadline_exceeded");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_within_an_answer_ends_it_with_trailers_and_the_endpoint_is_left() {
    on_stage(async {
        let seen: Rc<RefCell<String>> = Rc::default();
        let answering = saying(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\n\0\0\0\0\0\r\n",
            &seen,
        );
        let stage = Stage::new(1, |_, _| {}, move |_| answering());
        let mut browser = Browser::new(&stage);
        let began = Instant::now();
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC, ("grpc-timeout", "2S")], true);
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, answer.reset, answer.body.len()), (200, None, 5));
        let of = |name| value(&answer.trailers, name);
        assert_eq!((of("grpc-status"), of("grpc-message")), (Some("4"), Some("deadline_exceeded")));
        assert_eq!(began.elapsed().as_secs(), 2);
        sleep(Duration::from_millis(10)).await;
        assert!(seen.borrow().ends_with("THE END"), "its connection was closed");
        assert_eq!(stage.value("fairway_faults_total{reason=\"deadline_exceeded\"}"), 1);
        drop(browser);
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_keeps_the_deadline_itself_is_not_at_fault_either() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    let message = [&head[..], b"5\r\n\0\0\0\0\0\r\n"].concat();
    for said in [Vec::new(), head.to_vec(), message] {
        on_stage(async {
            let over = Rc::new(Notify::new());
            let (answer, their_over) = (said.clone(), Rc::clone(&over));
            let stage = Stage::new(
                1,
                |_, _| {},
                move |_| {
                    let (answer, over) = (answer.clone(), Rc::clone(&their_over));
                    Meeting::with(move |mut stream| async move {
                        stream.read_u8().await.unwrap();
                        stream.write_all(&answer).await.unwrap();
                        // As servers of gRPC do: the stream ends when the call's time is over.
                        over.notified().await;
                    })
                },
            );
            let mut browser = Browser::new(&stage);
            let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC, ("grpc-timeout", "300m")], true);
            browser.flush().await;
            sleep(Duration::from_millis(299)).await;
            // The endpoint is faster than the timer here: it runs between the clock and the timers.
            over.notify_one();
            advance(Duration::from_millis(2)).await;
            let answer = browser.answered(id).await;
            if said.is_empty() {
                assert_trailers_only(answer, "4", "504 Gateway Timeout: deadline_exceeded");
            } else {
                assert_eq!((answer.status, answer.reset), (200, None));
                assert_eq!(value(&answer.trailers, "grpc-status"), Some("4"));
            }
            assert_eq!(stage.value("fairway_grpc_calls_total{status=\"DEADLINE_EXCEEDED\"}"), 1);
            assert_eq!(stage.value("fairway_faults_total{reason=\"deadline_exceeded\"}"), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_endpoint_dies_or_falls_silent_ends_as_unavailable() {
    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (lives, reason) in [(1, "upstream_truncated"), (1000, "upstream_timeout")] {
        on_stage(async {
            let stage = Stage::new(
                1,
                |_, _| {},
                move |_| {
                    Meeting::with(move |mut stream| async move {
                        stream.read_u8().await.unwrap();
                        stream.write_all(&[HEAD, b"5\r\n\0\0\0\0\0\r\n"].concat()).await.unwrap();
                        sleep(Duration::from_secs(lives)).await;
                    })
                },
            );
            let mut browser = Browser::new(&stage);
            let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC], true);
            let answer = browser.answered(id).await;
            assert_eq!((answer.status, answer.reset, answer.body.len()), (200, None, 5));
            let of = |name| value(&answer.trailers, name);
            assert_eq!((of("grpc-status"), of("grpc-message")), (Some("14"), Some(reason)));
            assert_eq!(stage.value("fairway_grpc_calls_total{status=\"UNAVAILABLE\"}"), 1);
            assert_eq!(stage.value(&format!("fairway_faults_total{{reason=\"{reason}\"}}")), 1);
            let id = browser.ask_with(b"POST", b"/a.B/C", &[("content-type", "text/plain")], true);
            let answer = browser.answered(id).await;
            assert_eq!(answer.reset, Some(fairway_http2::Code::Internal), "others see that it breaks off");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_deadline_is_taken_from_what_is_none_and_none_from_other_requests() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(silent));
        let mut browser = Browser::new(&stage);
        for fields in
            [[GRPC, ("grpc-timeout", "1s")], [("content-type", "text/plain"), ("grpc-timeout", "1S")]]
        {
            let began = Instant::now();
            let id = browser.ask_with(b"POST", b"/a.B/C", &fields, true);
            browser.answered(id).await;
            assert_eq!(began.elapsed().as_secs(), 60, "the rule's own time: {fields:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_requests_may_be_slow_as_long_as_it_is_not_idle() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(silent));
        let mut browser = Browser::new(&stage);
        let began = Instant::now();
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC], false);
        browser.kept.push(id);
        for _ in 0..10 {
            assert_eq!(browser.codec.send_data(id, b"\0\0\0\0\0", false), 5);
            // It reads meanwhile: settings are to be acknowledged.
            let no_answer = browser.until("nothing", |_| false);
            assert!(timeout(Duration::from_secs(50), no_answer).await.is_err());
        }
        let answer = browser.answered(id).await;
        assert_eq!((answer.status, value(&answer.fields, "grpc-status")), (200, Some("1")), "a whole answer");
        assert_eq!(began.elapsed().as_secs(), 9 * 50 + 60);
        browser.until("the reset", |browser| browser.answers[&id].reset.is_some()).await;
        let reset = browser.answers[&id].reset;
        assert_eq!(reset, Some(fairway_http2::Code::NoError), "the rest of the request is not wanted");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_client_cancels_counts_as_cancelled() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(silent));
        let mut browser = Browser::new(&stage);
        let id = browser.ask_with(b"POST", b"/a.B/C", &[GRPC], true);
        browser.flush().await;
        sleep(Duration::from_millis(10)).await;
        browser.codec.reset(id, fairway_http2::Code::Cancel);
        browser.flush().await;
        sleep(Duration::from_millis(10)).await;
        assert_eq!(stage.value("fairway_grpc_calls_total{status=\"CANCELLED\"}"), 1);
        assert_eq!(stage.value("fairway_faults_total{reason=\"client_gone\"}"), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_browser_of_http2_gets_its_trailers_in_the_body() {
    on_stage(async {
        let seen = Rc::default();
        let answering = saying(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
            7\r\n\0\0\0\0\x02ab\r\n0\r\nGrpc-Status: 0\r\n\r\n",
            &seen,
        );
        let stage = Stage::filtered(
            1,
            vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })],
            move |_| answering(),
        );
        let mut browser = Browser::new(&stage);
        let fields = [("content-type", "application/grpc-web"), ("x-grpc-web", "1")];
        let id = browser.ask_with(b"POST", b"/a.B/C", &fields, true);
        let answer = browser.answered(id).await;
        assert_eq!(value(&answer.fields, "content-type"), Some("application/grpc-web"));
        assert_eq!(&answer.body[..], b"\0\0\0\0\x02ab\x80\0\0\0\x10grpc-status: 0\r\n");
        assert!(answer.trailers.is_empty());
        assert_eq!(stage.value("fairway_grpc_calls_total{status=\"OK\"}"), 1);
        assert!(!seen.borrow().to_lowercase().contains("grpc-web"), "{}", seen.borrow());
    })
    .await;
}
