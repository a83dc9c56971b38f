//! Flow control of HTTP/2 clients: uploads, growing windows, and fairness between streams waiting for room.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_http::Head;
use fairway_http2::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::{Http2TestClient, StreamResponse, read_path, wait_until_idle};
use crate::testing::{ScriptedConnect, TestWorker, read_head, run_local};

/// Reads a body of this length slowly, and responds with its sum.
async fn serve_sum(mut stream: DuplexStream, length: usize) {
    assert!(read_head(&mut stream).await);
    let (mut sum, mut left) = (0u64, length);
    let mut chunk = vec![0; 1000];
    while left > 0 {
        let limit = left.min(chunk.len());
        let count = stream.read(&mut chunk[..limit]).await.unwrap();
        if count == 0 {
            return;
        }
        sum += chunk[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
        left -= count;
    }
    let sum = sum.to_string();
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{sum}", sum.len());
    stream.write_all(response.as_bytes()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_upload_larger_than_all_windows_arrives_complete() {
    run_local(async {
        const BODY_BYTES: usize = 900 * 1024;
        let stage = TestWorker::new(
            1,
            |_, _| {},
            |_| ScriptedConnect::served_by(|stream| serve_sum(stream, BODY_BYTES)),
        );
        let mut browser = Http2TestClient::new(&stage);
        let mut head = Head::new();
        head.start_request(b"POST", b"/");
        head.append(b"Host", b"a");
        head.append(b"Content-Length", BODY_BYTES.to_string().as_bytes());
        let id = browser.codec.send_head(&head, b"/", b"http", false).unwrap();
        browser.responses.insert(id, StreamResponse::default());
        let body: Vec<u8> = (0..BODY_BYTES).map(|at| (at % 251) as u8).collect();
        let mut sent = 0;
        while sent < BODY_BYTES {
            browser.run_until("room", |browser| browser.codec.room(id) > 0).await;
            sent += browser.codec.send_data(id, &body[sent..], true);
        }
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(browser.response(id).await.body, sum.to_string().as_bytes());
    })
    .await;
}
/// Uploads this much and returns the largest window growth meanwhile.
async fn upload(stage: &TestWorker, browser: &mut Http2TestClient, length: usize, pause: Duration) -> u64 {
    let length_text = length.to_string();
    let id = browser.request_with_headers(b"POST", b"/", &[("Content-Length", &length_text)], false);
    let (mut sent, mut most) = (0, 0);
    let body = vec![b'x'; length];
    while sent < length {
        browser.run_until("room", |browser| browser.codec.room(id) > 0).await;
        sent += browser.codec.send_data(id, &body[sent..], true);
        sleep(pause).await;
        most = most.max(stage.metric_value("fairway_http2_window_growth_bytes"));
    }
    assert_eq!(browser.response(id).await.status, 200);
    most
}

#[tokio::test(start_paused = true)]
async fn windows_grow_only_for_fast_uploads() {
    run_local(async {
        const LENGTH: usize = 4 * 1024 * 1024;
        let stage =
            TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(|stream| serve_sum(stream, LENGTH)));
        let mut idle = Http2TestClient::new(&stage);
        let length = LENGTH.to_string();
        let waiting = idle.request_with_headers(b"POST", b"/", &[("Content-Length", &length)], false);
        assert_eq!(idle.codec.send_data(waiting, b"begun", false), 5);
        idle.flush().await;
        let mut slow = Http2TestClient::new(&stage);
        assert_eq!(
            upload(&stage, &mut slow, LENGTH, Duration::from_millis(300)).await,
            0,
            "nothing is gained"
        );
        drop(slow);
        let mut fast = Http2TestClient::new(&stage);
        let limit = upload(&stage, &mut fast, LENGTH, Duration::ZERO).await;
        assert_eq!(limit, 1024 * 1024 - 64 * 1024, "up to the largest window of a stream");
        let again = upload(&stage, &mut fast, LENGTH, Duration::ZERO).await;
        assert!(again <= 2 * limit, "what the first had is not forgotten: {again}");
        drop((fast, idle));
        wait_until_idle(&stage).await;
    })
    .await;
}

/// Responds by path: `/endless`, `/never` with a head alone, and otherwise as many bytes as the path says.
async fn serve_sized(mut stream: DuplexStream) {
    while let Some(path) = read_path(&mut stream).await {
        let length = match path.as_str() {
            "/endless" => 1 << 40,
            "/never" => 5,
            path => path.trim_start_matches('/').parse().unwrap(),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut remaining: usize = if path == "/never" { 0 } else { length };
        while remaining > 0 {
            let chunk = remaining.min(1000);
            if stream.write_all(&[b'x'; 1000][..chunk]).await.is_err() {
                return;
            }
            remaining -= chunk;
        }
    }
}

/// A client with unlimited windows.
fn unlimited_client(stage: &TestWorker) -> Http2TestClient {
    let config = Config { stream_window: 1 << 30, connection_window: 1 << 30, ..Config::default() };
    Http2TestClient::with_config(stage, config)
}

#[tokio::test(start_paused = true)]
async fn a_request_behind_queued_replies_is_read_once_they_are_written() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_sized));
        let mut browser = unlimited_client(&stage);
        // More than the pipe to the client and the output buffer hold.
        let large = browser.get("/300000");
        browser.flush().await;
        sleep(Duration::from_secs(1)).await;
        (0..100).for_each(|_| browser.codec.ping(*b"anybody?"));
        let small = browser.get("/3");
        browser.flush().await;
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        assert_eq!(browser.response(small).await.body, b"xxx");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(browser.response(large).await.body.len(), 300_000);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_served_behind_many_idle_ones() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_sized));
        let mut browser = unlimited_client(&stage);
        // A little more than fits, so that all later ones wait for room.
        let large = browser.get("/200000");
        browser.flush().await;
        sleep(Duration::from_secs(1)).await;
        (0..60).for_each(|_| _ = browser.get("/never"));
        let last = browser.get("/3");
        browser.flush().await;
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        while !browser.responses[&last].is_finished() {
            timeout(Duration::from_secs(5), browser.read_some(64 * 1024)).await.expect("it has its turn");
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!((browser.responses[&last].status, &browser.responses[&last].body[..]), (200, &b"xxx"[..]));
        assert_eq!(browser.response(large).await.body.len(), 200_000);
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn endless_responses_take_turns_even_with_a_slow_client() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_sized));
        let mut browser = unlimited_client(&stage);
        let both = [browser.get("/endless"), browser.get("/endless")];
        browser.flush().await;
        let mut before = [0; 2];
        for half_minute in 0..4 {
            for _ in 0..3_000 {
                browser.read_some(4096).await;
                sleep(Duration::from_millis(10)).await;
            }
            let lengths = both.map(|id| browser.responses[&id].body.len());
            let grown = [lengths[0] - before[0], lengths[1] - before[1]];
            // 12 MB in total.
            assert!(grown.iter().all(|grown| *grown > 3_000_000), "{half_minute}: {grown:?}");
            assert!(both.iter().all(|id| browser.responses[id].reset.is_none()), "{half_minute}");
            before = lengths;
        }
        drop(browser);
        wait_until_idle(&stage).await;
    })
    .await;
}
