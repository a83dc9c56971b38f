//! Requests held while clients cancel many, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_http2::Code;
use tokio::time::{Instant, sleep};

use super::http2_tests::{Http2TestClient, StreamResponse, serve_echo, wait_until_idle};
use crate::testing::{ScriptedConnect, TestWorker, run_local};

const STEP: Duration = Duration::from_millis(1);

/// A worker whose clients have just cancelled enough requests to trigger holding.
async fn flooded() -> TestWorker {
    let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
    send_and_cancel(&stage, 64).await;
    stage
}

/// Sends this many requests and cancels them while endpoints work on them. Returns how many reached endpoints.
async fn send_and_cancel(stage: &TestWorker, count: usize) -> u64 {
    send_and_cancel_after(20 * STEP, stage, count).await
}

async fn send_and_cancel_after(pause: Duration, stage: &TestWorker, count: usize) -> u64 {
    let before = forwarded_requests(stage);
    let mut browser = Http2TestClient::new(stage);
    let ids: Vec<u32> = (0..count).map(|_| browser.get("/10000")).collect();
    browser.flush().await;
    sleep(pause).await;
    ids.into_iter().for_each(|id| browser.codec.reset(id, Code::Cancel));
    browser.flush().await;
    sleep(STEP).await;
    drop(browser);
    wait_until_idle(stage).await;
    forwarded_requests(stage) - before
}

fn forwarded_requests(stage: &TestWorker) -> u64 {
    stage.metric_value("fairway_upstream_requests_total")
}

fn held_requests(stage: &TestWorker) -> u64 {
    stage.metric_value("fairway_http2_held_requests_total")
}

#[tokio::test(start_paused = true)]
async fn clients_that_keep_cancelling_reach_endpoints_with_four_requests() {
    run_local(async {
        let stage = TestWorker::new(2, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        assert_eq!(send_and_cancel(&stage, 100).await, 100, "no client is suspected before");
        for _ in 0..20 {
            assert_eq!(send_and_cancel(&stage, 100).await, 4);
        }
        assert_eq!(
            send_and_cancel_after(9 * STEP, &stage, 100).await,
            0,
            "they are left alone for a moment first"
        );
        assert_eq!(held_requests(&stage), 21 * 100);
        assert_eq!(
            stage.metric_value("fairway_faults_total{reason=\"client_gone\"}"),
            22 * 100,
            "all are counted"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_client_gains_trust_with_its_responses() {
    run_local(async {
        let stage = flooded().await;
        let mut browser = Http2TestClient::new(&stage);
        let began = Instant::now();
        (0..100).for_each(|_| _ = browser.get("/10"));
        browser
            .run_until("all responses", |browser| browser.responses.values().all(StreamResponse::is_finished))
            .await;
        let took = began.elapsed();
        // The initial hold, then 4, 12, 36 and the rest; each round takes the endpoint 10 ms.
        assert!((50 * STEP..70 * STEP).contains(&took), "{took:?}");
        assert!(browser.responses.values().all(|response| response.status == 200));
        assert_eq!(held_requests(&stage), 100);
        // It has gained trust by now.
        (0..100).for_each(|_| _ = browser.get("/11"));
        let began = Instant::now();
        browser
            .run_until("all responses", |browser| browser.responses.values().all(StreamResponse::is_finished))
            .await;
        assert!(began.elapsed() < 15 * STEP, "side by side");
        assert_eq!(held_requests(&stage), 100, "none of these");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn slow_requests_start_one_after_another() {
    run_local(async {
        let stage = flooded().await;
        let before = forwarded_requests(&stage);
        let mut browser = Http2TestClient::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/10000"));
        browser.flush().await;
        sleep(40 * STEP).await;
        assert_eq!(forwarded_requests(&stage) - before, 4);
        sleep(10 * 50 * STEP).await;
        assert_eq!(forwarded_requests(&stage) - before, 14);
        sleep(6 * 50 * STEP).await;
        assert_eq!(forwarded_requests(&stage) - before, 20);
        browser
            .run_until("all responses", |browser| browser.responses.values().all(StreamResponse::is_finished))
            .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_not_held_once_few_are_cancelled() {
    run_local(async {
        let stage = flooded().await;
        let mut browser = Http2TestClient::new(&stage);
        let ids: Vec<u32> = (0..50).map(|_| browser.get("/1000")).collect();
        browser.flush().await;
        sleep(STEP).await;
        assert_eq!(held_requests(&stage), 50);
        stage.worker.tick();
        let began = Instant::now();
        browser
            .run_until("all responses", |browser| browser.responses.values().all(StreamResponse::is_finished))
            .await;
        assert!(began.elapsed() < 1_100 * STEP, "they began with the next look: {:?}", began.elapsed());
        assert!(ids.iter().all(|id| browser.responses[id].status == 200));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_held_request_is_neither_started_by_its_body_nor_leaked_when_dropped() {
    run_local(async {
        let stage = flooded().await;
        let before = forwarded_requests(&stage);
        let mut browser = Http2TestClient::new(&stage);
        (0..4).for_each(|_| _ = browser.get("/10000"));
        let upload = browser.request_with_headers(b"POST", b"/10000", &[("Content-Length", "4")], false);
        assert_eq!(browser.codec.send_data(upload, b"body", true), 4);
        browser.flush().await;
        sleep(11 * STEP).await;
        assert_eq!(forwarded_requests(&stage) - before, 4, "a body alone begins nothing");
        sleep(50 * STEP).await;
        assert_eq!(forwarded_requests(&stage) - before, 5);
        let request = browser.get("/0");
        browser.flush().await;
        drop(browser);
        wait_until_idle(&stage).await;
        assert_eq!(forwarded_requests(&stage) - before, 5, "{request} was dropped with its connection");
    })
    .await;
}
