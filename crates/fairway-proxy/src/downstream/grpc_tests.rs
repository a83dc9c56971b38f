//! gRPC calls of HTTP/2 clients in virtual time, with scripted HTTP/1 endpoints.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{Forwarding, Phases};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::{Instant, advance, sleep, timeout};

use super::http2_tests::{Http2TestClient, StreamResponse, wait_until_idle};
use crate::testing::{ScriptedConnect, TestWorker, run_local};

const GRPC_CONTENT_TYPE: (&str, &str) = ("content-type", "application/grpc+proto");

/// The value of a header.
fn header_value<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(std::str::from_utf8(&field.1).unwrap())
}

#[track_caller]
fn assert_trailers_only(response: &StreamResponse, status: &str, message: &str) {
    assert_eq!((response.status, response.reset, response.body.len()), (200, None, 0));
    assert!(response.trailers.is_empty(), "one head and nothing behind it: {:?}", response.trailers);
    let value_of = |name| header_value(&response.headers, name);
    assert_eq!((value_of("grpc-status"), value_of("grpc-message")), (Some(status), Some(message)));
    assert_eq!((value_of("content-type"), value_of("content-length")), (Some("application/grpc"), None));
}

/// Sends these bytes after a complete request without a body, then nothing; records the request.
fn serve_bytes(
    response: &'static [u8],
    seen: &Rc<RefCell<String>>,
) -> impl Fn() -> ScriptedConnect + 'static {
    let requests = Rc::clone(seen);
    move || {
        let seen = Rc::clone(&requests);
        ScriptedConnect::served_by(move |mut stream| async move {
            while !seen.borrow().ends_with("\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                seen.borrow_mut().push(char::from(byte));
            }
            stream.write_all(response).await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            seen.borrow_mut().push_str("THE END");
        })
    }
}

async fn read_silently(mut stream: DuplexStream) {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_forwarded_with_its_trailers_and_te_header() {
    run_local(async {
        let received = Rc::default();
        let answering = serve_bytes(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc+proto\r\nTransfer-Encoding: chunked\r\n\r\n\
            7\r\n\0\0\0\0\x02ab\r\n0\r\ngrpc-status: 5\r\ngrpc-message: none\r\n\r\n",
            &received,
        );
        let stage = TestWorker::new(1, |_, _| {}, move |_| answering());
        let mut browser = Http2TestClient::new(&stage);
        let id =
            browser.request_with_headers(b"POST", b"/a.B/C", &[GRPC_CONTENT_TYPE, ("te", "trailers")], true);
        let response = browser.response(id).await;
        assert_eq!((response.status, &response.body[..]), (200, &b"\0\0\0\0\x02ab"[..]));
        let value_of = |name| header_value(&response.trailers, name);
        assert_eq!((value_of("grpc-status"), value_of("grpc-message")), (Some("5"), Some("none")));
        assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"NOT_FOUND\"}"), 1);
        let received = received.borrow();
        assert!(
            received.contains("\r\nTE: trailers\r\n") && received.contains("\r\nConnection: TE\r\n"),
            "{received}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_a_response_without_messages() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::Refused);
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.request_with_headers(b"POST", b"/a.B/C", &[GRPC_CONTENT_TYPE], true);
        let response = browser.response(id).await;
        assert_trailers_only(response, "14", "502 Bad Gateway: connect_failed");
        assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"UNAVAILABLE\"}"), 1);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"connect_failed\"}"), 1);
        let id =
            browser.request_with_headers(b"POST", b"/a.B/C", &[("content-type", "application/json")], true);
        assert_eq!(browser.response(id).await.status, 502, "others see HTTP");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoints_response_that_is_not_grpc_passes_unchanged() {
    run_local(async {
        let received = Rc::default();
        let serve = serve_bytes(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", &received);
        let stage = TestWorker::new(1, |_, _| {}, move |_| serve());
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.request_with_headers(b"POST", b"/a.B/C", &[GRPC_CONTENT_TYPE], true);
        let response = browser.response(id).await;
        assert_eq!((response.status, &response.body[..]), (404, &b"none"[..]));
        assert_eq!(header_value(&response.headers, "grpc-status"), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_a_head_and_for_a_connect() {
    for (name, meeting) in [
        ("a head", (|| ScriptedConnect::served_by(read_silently)) as fn() -> ScriptedConnect),
        ("a connect", || ScriptedConnect::Silence),
    ] {
        run_local(async {
            let stage = TestWorker::new(2, |_, _| {}, move |_| meeting());
            let mut browser = Http2TestClient::new(&stage);
            for _ in 0..2 {
                let began = Instant::now();
                let id = browser.request_with_headers(
                    b"POST",
                    b"/a.B/C",
                    &[GRPC_CONTENT_TYPE, ("grpc-timeout", "300m")],
                    true,
                );
                let response = browser.response(id).await;
                assert_trailers_only(response, "4", "504 Gateway Timeout: deadline_exceeded");
                let took = began.elapsed();
                assert!(
                    took >= Duration::from_millis(300) && took < Duration::from_millis(320),
                    "{name}: {took:?}"
                );
            }
            assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"DEADLINE_EXCEEDED\"}"), 2);
            assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 0, "no endpoint is at fault");
            drop(browser);
            wait_until_idle(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_deadline_sends_nothing() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| panic!("nothing is connected"));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.request_with_headers(
            b"POST",
            b"/a.B/C",
            &[GRPC_CONTENT_TYPE, ("grpc-timeout", "0n")],
            true,
        );
        assert_trailers_only(browser.response(id).await, "4", "504 Gateway Timeout: deadline_exceeded");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_during_a_response_ends_it_with_trailers_and_closes_the_endpoints_connection() {
    run_local(async {
        let received: Rc<RefCell<String>> = Rc::default();
        let answering = serve_bytes(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\n\0\0\0\0\0\r\n",
            &received,
        );
        let stage = TestWorker::new(1, |_, _| {}, move |_| answering());
        let mut browser = Http2TestClient::new(&stage);
        let began = Instant::now();
        let id = browser.request_with_headers(
            b"POST",
            b"/a.B/C",
            &[GRPC_CONTENT_TYPE, ("grpc-timeout", "2S")],
            true,
        );
        let response = browser.response(id).await;
        assert_eq!((response.status, response.reset, response.body.len()), (200, None, 5));
        let value_of = |name| header_value(&response.trailers, name);
        assert_eq!(
            (value_of("grpc-status"), value_of("grpc-message")),
            (Some("4"), Some("deadline_exceeded"))
        );
        assert_eq!(began.elapsed().as_secs(), 2);
        sleep(Duration::from_millis(10)).await;
        assert!(received.borrow().ends_with("THE END"), "its connection was closed");
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"deadline_exceeded\"}"), 1);
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_enforces_the_deadline_itself_is_not_at_fault() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    let message = [&head[..], b"5\r\n\0\0\0\0\0\r\n"].concat();
    for said in [Vec::new(), head.to_vec(), message] {
        run_local(async {
            let over = Rc::new(Notify::new());
            let (response, their_over) = (said.clone(), Rc::clone(&over));
            let stage = TestWorker::new(
                1,
                |_, _| {},
                move |_| {
                    let (response, over) = (response.clone(), Rc::clone(&their_over));
                    ScriptedConnect::served_by(move |mut stream| async move {
                        stream.read_u8().await.unwrap();
                        stream.write_all(&response).await.unwrap();
                        // As gRPC servers do: the stream ends at the deadline of the call.
                        over.notified().await;
                    })
                },
            );
            let mut browser = Http2TestClient::new(&stage);
            let id = browser.request_with_headers(
                b"POST",
                b"/a.B/C",
                &[GRPC_CONTENT_TYPE, ("grpc-timeout", "300m")],
                true,
            );
            browser.flush().await;
            sleep(Duration::from_millis(299)).await;
            // The endpoint is faster than the timer: it runs between clock and timers.
            over.notify_one();
            advance(Duration::from_millis(2)).await;
            let response = browser.response(id).await;
            if said.is_empty() {
                assert_trailers_only(response, "4", "504 Gateway Timeout: deadline_exceeded");
            } else {
                assert_eq!((response.status, response.reset), (200, None));
                assert_eq!(header_value(&response.trailers, "grpc-status"), Some("4"));
            }
            assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"DEADLINE_EXCEEDED\"}"), 1);
            assert_eq!(stage.metric_value("fairway_faults_total{reason=\"deadline_exceeded\"}"), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_dead_or_silent_endpoint_ends_as_unavailable() {
    const GRPC_RESPONSE_HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (lives, reason) in [(1, "upstream_truncated"), (1000, "upstream_timeout")] {
        run_local(async {
            let stage = TestWorker::new(
                1,
                |_, _| {},
                move |_| {
                    ScriptedConnect::served_by(move |mut stream| async move {
                        stream.read_u8().await.unwrap();
                        stream
                            .write_all(&[GRPC_RESPONSE_HEAD, b"5\r\n\0\0\0\0\0\r\n"].concat())
                            .await
                            .unwrap();
                        sleep(Duration::from_secs(lives)).await;
                    })
                },
            );
            let mut browser = Http2TestClient::new(&stage);
            let id = browser.request_with_headers(b"POST", b"/a.B/C", &[GRPC_CONTENT_TYPE], true);
            let response = browser.response(id).await;
            assert_eq!((response.status, response.reset, response.body.len()), (200, None, 5));
            let value_of = |name| header_value(&response.trailers, name);
            assert_eq!((value_of("grpc-status"), value_of("grpc-message")), (Some("14"), Some(reason)));
            assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"UNAVAILABLE\"}"), 1);
            assert_eq!(stage.metric_value(&format!("fairway_faults_total{{reason=\"{reason}\"}}")), 1);
            let id =
                browser.request_with_headers(b"POST", b"/a.B/C", &[("content-type", "text/plain")], true);
            let response = browser.response(id).await;
            assert_eq!(response.reset, Some(fairway_http2::Code::Internal), "others see that it breaks off");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_deadlines_and_deadlines_of_other_requests_are_ignored() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(read_silently));
        let mut browser = Http2TestClient::new(&stage);
        for fields in [
            [GRPC_CONTENT_TYPE, ("grpc-timeout", "1s")],
            [("content-type", "text/plain"), ("grpc-timeout", "1S")],
        ] {
            let began = Instant::now();
            let id = browser.request_with_headers(b"POST", b"/a.B/C", &fields, true);
            browser.response(id).await;
            assert_eq!(began.elapsed().as_secs(), 60, "the rule's own time: {fields:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_stream_may_be_slow_while_it_is_not_idle() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(read_silently));
        let mut browser = Http2TestClient::new(&stage);
        let began = Instant::now();
        let id = browser.request_with_headers(b"POST", b"/a.B/C", &[GRPC_CONTENT_TYPE], false);
        browser.kept_streams.push(id);
        for _ in 0..10 {
            assert_eq!(browser.codec.send_data(id, b"\0\0\0\0\0", false), 5);
            // It reads meanwhile, to acknowledge settings.
            let no_answer = browser.run_until("nothing", |_| false);
            assert!(timeout(Duration::from_secs(50), no_answer).await.is_err());
        }
        let response = browser.response(id).await;
        assert_eq!(
            (response.status, header_value(&response.headers, "grpc-status")),
            (200, Some("1")),
            "a complete response"
        );
        assert_eq!(began.elapsed().as_secs(), 9 * 50 + 60);
        browser.run_until("the reset", |browser| browser.responses[&id].reset.is_some()).await;
        let reset = browser.responses[&id].reset;
        assert_eq!(reset, Some(fairway_http2::Code::NoError), "the rest of the request is not wanted");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_by_its_client_counts_as_cancelled() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(read_silently));
        let mut browser = Http2TestClient::new(&stage);
        let id = browser.request_with_headers(b"POST", b"/a.B/C", &[GRPC_CONTENT_TYPE], true);
        browser.flush().await;
        sleep(Duration::from_millis(10)).await;
        browser.codec.reset(id, fairway_http2::Code::Cancel);
        browser.flush().await;
        sleep(Duration::from_millis(10)).await;
        assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"CANCELLED\"}"), 1);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"client_gone\"}"), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_grpc_web_client_over_http2_gets_trailers_in_the_body() {
    run_local(async {
        let received = Rc::default();
        let answering = serve_bytes(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
            7\r\n\0\0\0\0\x02ab\r\n0\r\nGrpc-Status: 0\r\n\r\n",
            &received,
        );
        let stage = TestWorker::with_phases(
            1,
            vec![Phases::from(Forwarding { grpc_web: true, ..Forwarding::default() })],
            move |_| answering(),
        );
        let mut browser = Http2TestClient::new(&stage);
        let fields = [("content-type", "application/grpc-web"), ("x-grpc-web", "1")];
        let id = browser.request_with_headers(b"POST", b"/a.B/C", &fields, true);
        let response = browser.response(id).await;
        assert_eq!(header_value(&response.headers, "content-type"), Some("application/grpc-web"));
        assert_eq!(&response.body[..], b"\0\0\0\0\x02ab\x80\0\0\0\x10grpc-status: 0\r\n");
        assert!(response.trailers.is_empty());
        assert_eq!(stage.metric_value("fairway_grpc_calls_total{status=\"OK\"}"), 1);
        assert!(!received.borrow().to_lowercase().contains("grpc-web"), "{}", received.borrow());
    })
    .await;
}
