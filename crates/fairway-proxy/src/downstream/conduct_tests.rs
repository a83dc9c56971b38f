//! Requests that are held while clients take back many, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_http2::Code;
use tokio::time::{Instant, sleep};

use super::http2_tests::{Answer, Browser, comes_to_rest, echoing};
use crate::testing::{Meeting, Stage, on_stage};

const MOMENT: Duration = Duration::from_millis(1);

/// The proxy, whose clients have just taken back as many requests as are many.
async fn flooded() -> Stage {
    let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
    late_resets(&stage, 64).await;
    stage
}

/// A client that asks for this much, and takes it back when the endpoints work on it. Gives how many requests reached them.
async fn late_resets(stage: &Stage, count: usize) -> u64 {
    resets_after(20 * MOMENT, stage, count).await
}

async fn resets_after(pause: Duration, stage: &Stage, count: usize) -> u64 {
    let before = forwarded(stage);
    let mut browser = Browser::new(stage);
    let ids: Vec<u32> = (0..count).map(|_| browser.get("/10000")).collect();
    browser.flush().await;
    sleep(pause).await;
    ids.into_iter().for_each(|id| browser.codec.reset(id, Code::Cancel));
    browser.flush().await;
    sleep(MOMENT).await;
    drop(browser);
    comes_to_rest(stage).await;
    forwarded(stage) - before
}

fn forwarded(stage: &Stage) -> u64 {
    stage.value("fairway_upstream_requests_total")
}

fn held(stage: &Stage) -> u64 {
    stage.value("fairway_http2_held_requests_total")
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_to_take_back_more_reaches_endpoints_with_four_requests() {
    on_stage(async {
        let stage = Stage::new(2, |_, _| {}, |_| Meeting::with(echoing));
        assert_eq!(late_resets(&stage, 100).await, 100, "nobody is suspected before");
        for _ in 0..20 {
            assert_eq!(late_resets(&stage, 100).await, 4);
        }
        assert_eq!(resets_after(9 * MOMENT, &stage, 100).await, 0, "they are left alone for a moment first");
        assert_eq!(held(&stage), 21 * 100);
        assert_eq!(stage.value("fairway_faults_total{reason=\"client_gone\"}"), 22 * 100, "all are counted");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_client_is_served_as_its_requests_are_answered() {
    on_stage(async {
        let stage = flooded().await;
        let mut browser = Browser::new(&stage);
        let began = Instant::now();
        (0..100).for_each(|_| _ = browser.get("/10"));
        browser.until("all answers", |browser| browser.answers.values().all(Answer::is_over)).await;
        let took = began.elapsed();
        // A moment, then 4, 12, 36 and the rest; each round takes the endpoint 10 ms.
        assert!((50 * MOMENT..70 * MOMENT).contains(&took), "{took:?}");
        assert!(browser.answers.values().all(|answer| answer.status == 200));
        assert_eq!(held(&stage), 100);
        // It has shown by now that it wants its answers.
        (0..100).for_each(|_| _ = browser.get("/11"));
        let began = Instant::now();
        browser.until("all answers", |browser| browser.answers.values().all(Answer::is_over)).await;
        assert!(began.elapsed() < 15 * MOMENT, "side by side");
        assert_eq!(held(&stage), 100, "none of these");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_long_by_nature_begin_one_after_the_other() {
    on_stage(async {
        let stage = flooded().await;
        let before = forwarded(&stage);
        let mut browser = Browser::new(&stage);
        (0..20).for_each(|_| _ = browser.get("/10000"));
        browser.flush().await;
        sleep(40 * MOMENT).await;
        assert_eq!(forwarded(&stage) - before, 4);
        sleep(10 * 50 * MOMENT).await;
        assert_eq!(forwarded(&stage) - before, 14);
        sleep(6 * 50 * MOMENT).await;
        assert_eq!(forwarded(&stage) - before, 20);
        browser.until("all answers", |browser| browser.answers.values().all(Answer::is_over)).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_any_more_when_few_are_taken_back() {
    on_stage(async {
        let stage = flooded().await;
        let mut browser = Browser::new(&stage);
        let ids: Vec<u32> = (0..50).map(|_| browser.get("/1000")).collect();
        browser.flush().await;
        sleep(MOMENT).await;
        assert_eq!(held(&stage), 50);
        stage.worker.tick();
        let began = Instant::now();
        browser.until("all answers", |browser| browser.answers.values().all(Answer::is_over)).await;
        assert!(began.elapsed() < 1_100 * MOMENT, "they began with the next look: {:?}", began.elapsed());
        assert!(ids.iter().all(|id| browser.answers[id].status == 200));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_held_and_then_sent_a_body_or_dropped_is_neither_begun_nor_forgotten() {
    on_stage(async {
        let stage = flooded().await;
        let before = forwarded(&stage);
        let mut browser = Browser::new(&stage);
        (0..4).for_each(|_| _ = browser.get("/10000"));
        let upload = browser.ask_with(b"POST", b"/10000", &[("Content-Length", "4")], false);
        assert_eq!(browser.codec.send_data(upload, b"body", true), 4);
        browser.flush().await;
        sleep(11 * MOMENT).await;
        assert_eq!(forwarded(&stage) - before, 4, "a body alone begins nothing");
        sleep(50 * MOMENT).await;
        assert_eq!(forwarded(&stage) - before, 5);
        let held = browser.get("/0");
        browser.flush().await;
        drop(browser);
        comes_to_rest(&stage).await;
        assert_eq!(forwarded(&stage) - before, 5, "{held} was dropped with its connection");
    })
    .await;
}
