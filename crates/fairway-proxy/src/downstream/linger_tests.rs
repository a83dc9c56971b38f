//! Connections whose client still sends when they end, in virtual time: the client receives its response, and
//! keeps the connection no longer than in nginx.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::future::pending;
use std::time::Duration;

use fairway_http2::Code;
use fairway_model::{Policy, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use super::http2_tests::Http2TestClient;
use crate::testing::{ScriptedConnect, TestWorker, read_head, run_local};
use crate::worker::StopPhase;

const MEGABYTE_BYTES: usize = 1024 * 1024;
const UPLOAD_BYTES: usize = 3 * MEGABYTE_BYTES;

fn upload(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")
}

fn with_length(length: usize) -> String {
    upload(&format!("Content-Length: {length}"))
}

fn limit_bodies_to_a_megabyte(policy: &mut Policy, _: &mut Settings) {
    policy.max_body = Some(MEGABYTE_BYTES as u64);
}

/// An endpoint that responds before the body arrives and reads no more.
async fn serve_401(mut stream: DuplexStream) {
    read_head(&mut stream).await;
    let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno").await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn stage() -> TestWorker {
    TestWorker::new(1, limit_bodies_to_a_megabyte, |_| ScriptedConnect::served_by(serve_401))
}

/// Sends everything before reading the response, as most clients do; returns the status.
async fn send_all_then_read_status(stage: &TestWorker, head: &str, chunk: &[u8]) -> u16 {
    let mut client = stage.client();
    client.send(head).await;
    for _ in 0..UPLOAD_BYTES / MEGABYTE_BYTES * 16 {
        client.stream.write_all(chunk).await.unwrap_or_else(|error| panic!("{head}: {error}"));
    }
    let status = client.response().await.unwrap_or_else(|| panic!("{head}: no response")).status;
    assert_eq!(client.read_to_end().await, b"", "{head}");
    status
}

/// How long the connection stays open after the client has sent `first` of a body and then sends `more` bytes,
/// one per interval.
async fn connection_lifetime(stage: &TestWorker, first: &str, further: usize, every: Duration) -> Duration {
    let mut client = stage.client();
    let began = Instant::now();
    client.send(first).await;
    assert!(client.response().await.is_some_and(|response| response.status >= 400), "{first}");
    let sending = async {
        for _ in 0..further {
            sleep(every).await;
            if client.stream.write_all(b"x").await.is_err() {
                break;
            }
        }
        pending::<()>().await;
    };
    tokio::select! {
        () = sending => {}
        () = until_open(stage, 0) => {}
    }
    began.elapsed()
}

/// Waits until this many connections are open.
async fn until_open(stage: &TestWorker, connections: u64) {
    while stage.worker.counters.open_connections() > connections {
        sleep(Duration::from_millis(100)).await;
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[track_caller]
fn assert_about(took: Duration, expected: u64) {
    assert!(took >= seconds(expected) && took <= seconds(expected + 1), "{took:?}, not {expected} s");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_all_of_a_refused_body_receives_the_response() {
    run_local(async {
        let stage = stage();
        let (piece, chunk) =
            (vec![b'x'; MEGABYTE_BYTES / 16], format!("10000\r\n{}\r\n", "x".repeat(MEGABYTE_BYTES / 16)));
        let chunked = upload("Transfer-Encoding: chunked");
        let ambiguous = upload("Content-Length: 1\r\nTransfer-Encoding: chunked");
        let expecting = upload("Content-Length: 3145728\r\nExpect: the-moon");
        let malformed = upload("Content-Length: 3145728\r\nNo Field: x");
        for (head, piece, status) in [
            (&with_length(UPLOAD_BYTES), &*piece, 413),
            (&chunked, chunk.as_bytes(), 401),
            (&ambiguous, &*piece, 400),
            (&expecting, &*piece, 417),
            (&malformed, &*piece, 400),
        ] {
            assert_eq!(send_all_then_read_status(&stage, head, piece).await, status, "{head}");
        }
        let unlimited = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_401));
        assert_eq!(send_all_then_read_status(&unlimited, &with_length(UPLOAD_BYTES), &piece).await, 401);
        let reading = |mut stream: DuplexStream| async move {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let limited =
            TestWorker::new(1, limit_bodies_to_a_megabyte, move |_| ScriptedConnect::served_by(reading));
        assert_eq!(
            send_all_then_read_status(&limited, &chunked, chunk.as_bytes()).await,
            413,
            "by its count"
        );
        for stage in [stage, unlimited, limited] {
            until_open(&stage, 0).await;
            stage.check_idle().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_within_a_body_may_pause_five_seconds_and_take_thirty() {
    run_local(async {
        let stage = stage();
        let head = with_length(UPLOAD_BYTES);
        assert_about(connection_lifetime(&stage, &head, 0, seconds(1)).await, 5);
        assert_about(connection_lifetime(&stage, &head, 2, seconds(4)).await, 13);
        assert_about(connection_lifetime(&stage, &head, 100, seconds(4)).await, 30);
        assert_about(connection_lifetime(&stage, &upload("Content-Length: x"), 100, seconds(4)).await, 30);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_complete_request_has_two_seconds() {
    run_local(async {
        let stage = stage();
        let request = format!("{}xx", upload("Content-Length: 2\r\nConnection: close"));
        assert_about(connection_lifetime(&stage, &request, 0, seconds(1)).await, 2);
        assert_about(connection_lifetime(&stage, &request, 100, seconds(1)).await, 2);
        // The rest of the body, and then excess data.
        let head = with_length(MEGABYTE_BYTES + 1);
        let mut client = stage.client();
        client.send(head).await;
        assert_eq!(client.response().await.unwrap().status, 413);
        sleep(seconds(3)).await;
        client.send(vec![b'x'; MEGABYTE_BYTES + 1]).await;
        let began = Instant::now();
        until_open(&stage, 0).await;
        assert_about(began.elapsed(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_client_has_more_than_two_seconds_while_connections_are_scarce() {
    run_local(async {
        let few = |policy: &mut Policy, settings: &mut Settings| {
            limit_bodies_to_a_megabyte(policy, settings);
            settings.downstream.connections_per_worker = Some(2);
        };
        let stage = TestWorker::new(1, few, |_| ScriptedConnect::served_by(serve_401));
        let head = with_length(UPLOAD_BYTES);
        assert_about(connection_lifetime(&stage, &head, 0, seconds(1)).await, 5);
        let other = stage.client();
        tokio::task::yield_now().await;
        let mut client = stage.client();
        client.send(&head).await;
        assert_eq!(client.response().await.unwrap().status, 413);
        let began = Instant::now();
        until_open(&stage, 1).await;
        assert_about(began.elapsed(), 2);
        drop(other);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_within_a_body_does_not_delay_a_drain() {
    run_local(async {
        let stage = stage();
        let mut client = stage.client();
        client.send(with_length(UPLOAD_BYTES)).await;
        assert_eq!(client.response().await.unwrap().status, 413);
        sleep(seconds(3)).await;
        stage.worker.enter_phase(StopPhase::Draining);
        let began = Instant::now();
        until_open(&stage, 0).await;
        assert!(began.elapsed() <= seconds(1), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn over_http2_the_complete_response_precedes_the_no_error_reset_by_a_second() {
    run_local(async {
        let stage = stage();
        let mut browser = Http2TestClient::new(&stage);
        for (length, status) in [(UPLOAD_BYTES, 413), (MEGABYTE_BYTES, 401), (UPLOAD_BYTES, 413)] {
            let fields = [("content-length", &*length.to_string())];
            let id = browser.request_with_headers(b"POST", b"/", &fields, false);
            browser.kept_streams.push(id);
            browser.codec.send_data(id, &[b'x'; 1000], false);
            browser.run_until("the response", |browser| browser.responses[&id].is_finished()).await;
            assert_eq!(
                browser.responses[&id].reset, None,
                "clients that read the reset first drop the response"
            );
            let answered = Instant::now();
            browser.run_until("the reset", |browser| browser.responses[&id].reset.is_some()).await;
            assert_about(answered.elapsed(), 1);
            let response = &browser.responses[&id];
            assert_eq!(
                (response.status, response.is_complete, response.reset),
                (status, true, Some(Code::NoError))
            );
        }
        assert_eq!(browser.goaway_last_stream, None, "the connection stays");
        drop(browser);
        until_open(&stage, 0).await;
        stage.check_idle().unwrap();
    })
    .await;
}

/// A client whose upload was refused but not yet reset.
async fn refused(stage: &TestWorker) -> (Http2TestClient, u32) {
    let mut browser = Http2TestClient::new(stage);
    let id = browser.request_with_headers(b"POST", b"/", &[("content-length", "3145728")], false);
    browser.kept_streams.push(id);
    browser.run_until("the response", |browser| browser.responses[&id].is_finished()).await;
    assert_eq!((browser.responses[&id].status, browser.responses[&id].reset), (413, None));
    (browser, id)
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_cancelled_refused_body_needs_no_reset() {
    run_local(async {
        let stage = stage();
        let (mut browser, id) = refused(&stage).await;
        browser.codec.send_data(id, &[b'x'; 40_000], false);
        browser.codec.reset(id, Code::NoError);
        browser.flush().await;
        sleep(seconds(2)).await;
        let (other, _) = (browser.get("/"), browser.flush().await);
        assert_eq!(browser.response(other).await.status, 401);
        assert_eq!((browser.responses[&id].reset, browser.goaway_last_stream), (None, None));
        drop(browser);
        until_open(&stage, 0).await;
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_refused_body_does_not_keep_the_connection_open() {
    run_local(async {
        let stage = stage();
        let (browser, _) = refused(&stage).await;
        let began = Instant::now();
        drop(browser);
        until_open(&stage, 0).await;
        assert!(began.elapsed() < seconds(1), "the client has gone: {:?}", began.elapsed());
        let (mut browser, id) = refused(&stage).await;
        let began = Instant::now();
        stage.worker.enter_phase(StopPhase::Draining);
        browser.run_until("the reset", |browser| browser.responses[&id].reset.is_some()).await;
        assert_about(began.elapsed(), 1);
        drop(browser);
        until_open(&stage, 0).await;
        stage.check_idle().unwrap();
    })
    .await;
}
