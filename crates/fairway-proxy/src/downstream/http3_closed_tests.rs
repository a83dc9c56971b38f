//! Connections of HTTP/3 clients that are closed: their tasks rest, their places are free, and QUIC still answers for them.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{Policy, Settings};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use super::http2_tests::{comes_to_rest, echoing};
use super::http3_browser::{Browser, QUIC_IDLE, Windows};
use super::http3_client::open_with;
use super::http3_tests::{A_MOMENT, EXCESSIVE_LOAD, NO_ERROR, events};
use crate::testing::{Meeting, Stage, on_stage};
use crate::worker::Phase;

/// A connection that is served in a task of its own, how often that was polled, and whether it is over.
fn counted(stage: &Stage) -> (Browser, Rc<Cell<usize>>, JoinHandle<()>) {
    let (browser, serving) = Browser::unserved(stage, Windows::default());
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

/// Wakes of a connection that was closed: for the close, for the last of its timers, and once more for each that was moved.
const MAX_WAKES_AFTER_THE_END: usize = 8;

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_client_closed_is_woken_a_few_times_and_never_again() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        for requests in [0, 1, 20] {
            let (mut browser, polls, task) = counted(&stage);
            (0..requests).for_each(|_| _ = browser.get("/5000000"));
            browser.go_on_for(A_MOMENT).await;
            let before = polls.get();
            browser.close();
            sleep(Duration::from_secs(100)).await;
            assert!(task.is_finished());
            let after = polls.get() - before;
            assert!((1..=MAX_WAKES_AFTER_THE_END).contains(&after), "{after} after {requests} requests");
        }
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_for_an_error_is_woken_a_few_times_and_never_again() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        for requests in [0, 20] {
            let (mut browser, polls, task) = counted(&stage);
            (0..requests).for_each(|_| _ = browser.get("/5000000"));
            browser.go_on_for(A_MOMENT).await;
            let before = polls.get();
            // SETTINGS on the stream of a request.
            browser.send_raw(&[4, 0]);
            browser.pump();
            // The client hears nothing of it, and says nothing.
            sleep(Duration::from_secs(100)).await;
            assert!(task.is_finished());
            let after = polls.get() - before;
            assert!((1..=MAX_WAKES_AFTER_THE_END).contains(&after), "{after} after {requests} requests");
        }
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_lost_is_woken_a_few_times_and_never_again() {
    on_stage(async {
        let patient = |policy: &mut Policy, settings: &mut Settings| {
            policy.timeouts.read = Duration::from_secs(36_000);
            settings.downstream.idle_timeout = Duration::from_secs(3600);
        };
        let stage = Stage::new(1, patient, |_| Meeting::with(echoing));
        for requests in [0, 20] {
            let (mut browser, polls, task) = counted(&stage);
            (0..requests).for_each(|_| _ = browser.get("/50000000"));
            browser.go_on_for(A_MOMENT).await;
            browser.cut();
            sleep(QUIC_IDLE - Duration::from_secs(10)).await;
            assert!(!task.is_finished());
            let before = polls.get();
            sleep(Duration::from_secs(100)).await;
            assert!(task.is_finished());
            let after = polls.get() - before;
            assert!((1..=MAX_WAKES_AFTER_THE_END).contains(&after), "{after} after {requests} requests");
        }
        comes_to_rest(&stage).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_leaves_its_place_and_is_answered_for_as_long_as_quic_wants() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let (mut browser, _, task) = counted(&stage);
        browser.get("/5000");
        browser.go_on_for(A_MOMENT).await;
        browser.be_deaf(true);
        browser.send_raw(&[4, 0]);
        browser.pump();
        // The worker's turn.
        sleep(Duration::from_millis(1)).await;
        stage.at_rest().unwrap();
        assert!(!task.is_finished());
        // The client knows nothing of the end, and is told again.
        browser.be_deaf(false);
        browser.quic.ping();
        assert_eq!(browser.closed().await, 0x105);
        sleep(Duration::from_secs(2)).await;
        assert!(task.is_finished());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_drains_waits_for_those_that_are_closed() {
    on_stage(async {
        let stage = Stage::new(1, |_, _| {}, |_| Meeting::with(echoing));
        let (mut browser, _, task) = counted(&stage);
        let id = browser.get("/0");
        assert_eq!(browser.answered(id).await.status, 200);
        stage.worker.enter(Phase::Draining);
        assert_eq!(browser.closed().await, NO_ERROR);
        assert!(!task.is_finished() && stage.value("fairway_connections_open") == 1);
        sleep(Duration::from_secs(2)).await;
        assert!(task.is_finished());
        comes_to_rest(&stage).await;
    })
    .await;
}

/// Whether the table's insertions are acknowledged is up to the client; what waits for it is not.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_what_its_encoder_is_told_is_let_go() {
    on_stage(async {
        let stage = Stage::new(
            1,
            |_, settings| settings.downstream.requests_per_connection = 1_000_000,
            |_| Meeting::with(echoing),
        );
        // Room for a response, and for few instructions.
        let mut browser = Browser::with(&stage, Windows { client: 200, ..Windows::default() });
        browser.hears_decoder = false;
        // A table of 4,096 bytes, with `:authority: a.b` as its first entry (RFC 9204 §4.3).
        open_with(&mut browser.quic, &[2, 0x3f, 0xe1, 0x1f, 0xc0, 3, b'a', b'.', b'b']);
        let mut asked = 0;
        while browser.lost.is_none() {
            // GET https:/ at that authority: its section is to be acknowledged.
            let id = browser.ask_with_block(&[2, 0, 0xd1, 0xd7, 0xc1, 0x80]);
            browser
                .until("an answer", |browser| browser.lost.is_some() || browser.answers[&id].is_over())
                .await;
            asked += 1;
            assert!(asked < 5_000, "what waits is not bounded");
        }
        assert_eq!(browser.closed().await, EXCESSIVE_LOAD);
        assert_eq!(events(&stage, "connection_fault", "decoder_stream_unread"), 1);
        assert!(asked > 1_000, "{asked} sections of honest clients that are slow");
        comes_to_rest(&stage).await;
    })
    .await;
}
