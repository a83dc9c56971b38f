//! Closed HTTP/3 connections: their tasks sleep, they no longer count, and QUIC still answers late datagrams.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{Policy, Settings};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use super::http2_tests::{serve_echo, wait_until_idle};
use super::http3_browser::{Http3TestClient, QUIC_IDLE, Windows};
use super::http3_client::open_with;
use super::http3_tests::{EXCESSIVE_LOAD, NO_ERROR, SHORT_PAUSE, event_count};
use crate::testing::{ScriptedConnect, TestWorker, run_local};
use crate::worker::StopPhase;

/// A connection served in its own task, its poll count, and the task.
fn client_with_poll_count(stage: &TestWorker) -> (Http3TestClient, Rc<Cell<usize>>, JoinHandle<()>) {
    let (browser, serving) = Http3TestClient::unserved_client(stage, Windows::default());
    let polls = Rc::new(Cell::new(0));
    let counter = Rc::clone(&polls);
    let task = spawn_local(async move {
        let mut serving = pin!(serving);
        poll_fn(|cx| {
            counter.set(counter.get() + 1);
            // Time stands still while a task wakes itself.
            assert!(counter.get() < 10_000, "it is woken for nothing");
            serving.as_mut().poll(cx)
        })
        .await;
    });
    (browser, polls, task)
}

/// Wakes after a close: for the close, for the last of its timers, and once more for each moved timer.
const MAX_WAKES_AFTER_CLOSE: usize = 8;

#[tokio::test(start_paused = true)]
async fn a_connection_closed_by_the_client_is_soon_never_woken_again() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        for requests in [0, 1, 20] {
            let (mut browser, polls, task) = client_with_poll_count(&stage);
            (0..requests).for_each(|_| _ = browser.get("/5000000"));
            browser.run_for(SHORT_PAUSE).await;
            let before = polls.get();
            browser.close();
            sleep(Duration::from_secs(100)).await;
            assert!(task.is_finished());
            let after = polls.get() - before;
            assert!((1..=MAX_WAKES_AFTER_CLOSE).contains(&after), "{after} after {requests} requests");
        }
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_closed_for_an_error_is_soon_never_woken_again() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        for requests in [0, 20] {
            let (mut browser, polls, task) = client_with_poll_count(&stage);
            (0..requests).for_each(|_| _ = browser.get("/5000000"));
            browser.run_for(SHORT_PAUSE).await;
            let before = polls.get();
            // SETTINGS on a request stream.
            browser.send_raw(&[4, 0]);
            browser.pump();
            // The client does not learn of it and sends nothing.
            sleep(Duration::from_secs(100)).await;
            assert!(task.is_finished());
            let after = polls.get() - before;
            assert!((1..=MAX_WAKES_AFTER_CLOSE).contains(&after), "{after} after {requests} requests");
        }
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_soon_never_woken_again() {
    run_local(async {
        let patient = |policy: &mut Policy, settings: &mut Settings| {
            policy.timeouts.read = Duration::from_secs(36_000);
            settings.downstream.idle_timeout = Duration::from_secs(3600);
        };
        let stage = TestWorker::new(1, patient, |_| ScriptedConnect::served_by(serve_echo));
        for requests in [0, 20] {
            let (mut browser, polls, task) = client_with_poll_count(&stage);
            (0..requests).for_each(|_| _ = browser.get("/50000000"));
            browser.run_for(SHORT_PAUSE).await;
            browser.disconnect();
            sleep(QUIC_IDLE - Duration::from_secs(10)).await;
            assert!(!task.is_finished());
            let before = polls.get();
            sleep(Duration::from_secs(100)).await;
            assert!(task.is_finished());
            let after = polls.get() - before;
            assert!((1..=MAX_WAKES_AFTER_CLOSE).contains(&after), "{after} after {requests} requests");
        }
        wait_until_idle(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_connection_is_not_counted_and_still_answers_late_datagrams() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let (mut browser, _, task) = client_with_poll_count(&stage);
        browser.get("/5000");
        browser.run_for(SHORT_PAUSE).await;
        browser.set_deaf(true);
        browser.send_raw(&[4, 0]);
        browser.pump();
        // Let the worker run.
        sleep(Duration::from_millis(1)).await;
        stage.check_idle().unwrap();
        assert!(!task.is_finished());
        // The client does not know of the close and is told again.
        browser.set_deaf(false);
        browser.quic.ping();
        assert_eq!(browser.closed().await, 0x105);
        sleep(Duration::from_secs(2)).await;
        assert!(task.is_finished());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_draining_worker_waits_for_closed_connections() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_echo));
        let (mut browser, _, task) = client_with_poll_count(&stage);
        let id = browser.get("/0");
        assert_eq!(browser.response(id).await.status, 200);
        stage.worker.enter_phase(StopPhase::Draining);
        assert_eq!(browser.closed().await, NO_ERROR);
        assert!(!task.is_finished() && stage.metric_value("fairway_connections_open") == 1);
        sleep(Duration::from_secs(2)).await;
        assert!(task.is_finished());
        wait_until_idle(&stage).await;
    })
    .await;
}

/// The client decides whether table insertions are acknowledged, but that must not block the close.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_decoder_stream_does_not_block_the_close() {
    run_local(async {
        let stage = TestWorker::new(
            1,
            |_, settings| settings.downstream.requests_per_connection = 1_000_000,
            |_| ScriptedConnect::served_by(serve_echo),
        );
        // Room for a response and a few instructions.
        let mut browser =
            Http3TestClient::with_windows(&stage, Windows { client: 200, ..Windows::default() });
        browser.reads_decoder_stream = false;
        // A table of 4,096 bytes, with `:authority: a.b` as its first entry (RFC 9204 §4.3).
        open_with(&mut browser.quic, &[2, 0x3f, 0xe1, 0x1f, 0xc0, 3, b'a', b'.', b'b']);
        let mut requests = 0;
        while browser.connection_error.is_none() {
            // GET https:/ with that authority: the section requires an acknowledgement.
            let id = browser.request_with_block(&[2, 0, 0xd1, 0xd7, 0xc1, 0x80]);
            browser
                .run_until("a response", |browser| {
                    browser.connection_error.is_some() || browser.responses[&id].is_finished()
                })
                .await;
            requests += 1;
            assert!(requests < 5_000, "what waits is not bounded");
        }
        assert_eq!(browser.closed().await, EXCESSIVE_LOAD);
        assert_eq!(event_count(&stage, "connection_fault", "decoder_stream_unread"), 1);
        assert!(requests > 1_000, "{requests} sections of honest clients that are slow");
        wait_until_idle(&stage).await;
    })
    .await;
}
