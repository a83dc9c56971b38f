//! The end of a connection whose client is still sending, in virtual time: it receives its answer, and holds the
//! connection no longer than nginx lets it.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::future::pending;
use std::time::Duration;

use fairway_http2::Code;
use fairway_model::{Policy, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use super::http2_tests::Browser;
use crate::testing::{Meeting, Stage, on_stage, read_head};
use crate::worker::Phase;

const MEGABYTE: usize = 1024 * 1024;
const UPLOAD: usize = 3 * MEGABYTE;

fn upload(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")
}

fn with_length(length: usize) -> String {
    upload(&format!("Content-Length: {length}"))
}

fn of_a_megabyte(policy: &mut Policy, _: &mut Settings) {
    policy.max_body = Some(MEGABYTE as u64);
}

/// An endpoint that answers before the body is there, and reads no more.
async fn unauthorized(mut stream: DuplexStream) {
    read_head(&mut stream).await;
    let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno").await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn stage() -> Stage {
    Stage::new(1, of_a_megabyte, |_| Meeting::with(unauthorized))
}

/// Sends all of it, as most clients do, before it reads the answer; gives the status.
async fn sent_whole(stage: &Stage, head: &str, piece: &[u8]) -> u16 {
    let mut client = stage.client();
    client.send(head).await;
    for _ in 0..UPLOAD / MEGABYTE * 16 {
        client.stream.write_all(piece).await.unwrap_or_else(|error| panic!("{head}: {error}"));
    }
    let status = client.answer().await.unwrap_or_else(|| panic!("{head}: no answer")).status;
    assert_eq!(client.rest().await, b"", "{head}");
    status
}

/// How long the connection stays when its client has sent this much of a body and sends so many more bytes, one every so
/// often.
async fn kept(stage: &Stage, first: &str, more: usize, every: Duration) -> Duration {
    let mut client = stage.client();
    let began = Instant::now();
    client.send(first).await;
    assert!(client.answer().await.is_some_and(|answer| answer.status >= 400), "{first}");
    let sending = async {
        for _ in 0..more {
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

/// Waits until so many connections are open.
async fn until_open(stage: &Stage, connections: u64) {
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
async fn a_client_that_sends_all_of_a_refused_body_receives_the_answer() {
    on_stage(async {
        let stage = stage();
        let (piece, chunk) =
            (vec![b'x'; MEGABYTE / 16], format!("10000\r\n{}\r\n", "x".repeat(MEGABYTE / 16)));
        let chunked = upload("Transfer-Encoding: chunked");
        let ambiguous = upload("Content-Length: 1\r\nTransfer-Encoding: chunked");
        let expecting = upload("Content-Length: 3145728\r\nExpect: the-moon");
        let malformed = upload("Content-Length: 3145728\r\nNo Field: x");
        for (head, piece, status) in [
            (&with_length(UPLOAD), &*piece, 413),
            (&chunked, chunk.as_bytes(), 401),
            (&ambiguous, &*piece, 400),
            (&expecting, &*piece, 417),
            (&malformed, &*piece, 400),
        ] {
            assert_eq!(sent_whole(&stage, head, piece).await, status, "{head}");
        }
        let unlimited = Stage::new(1, |_, _| {}, |_| Meeting::with(unauthorized));
        assert_eq!(sent_whole(&unlimited, &with_length(UPLOAD), &piece).await, 401);
        let reading = |mut stream: DuplexStream| async move {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let limited = Stage::new(1, of_a_megabyte, move |_| Meeting::with(reading));
        assert_eq!(sent_whole(&limited, &chunked, chunk.as_bytes()).await, 413, "by its count");
        for stage in [stage, unlimited, limited] {
            until_open(&stage, 0).await;
            stage.at_rest().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_in_the_middle_of_a_body_has_five_seconds_for_more_and_thirty_for_all() {
    on_stage(async {
        let stage = stage();
        let head = with_length(UPLOAD);
        assert_about(kept(&stage, &head, 0, seconds(1)).await, 5);
        assert_about(kept(&stage, &head, 2, seconds(4)).await, 13);
        assert_about(kept(&stage, &head, 100, seconds(4)).await, 30);
        assert_about(kept(&stage, &upload("Content-Length: x"), 100, seconds(4)).await, 30);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_owes_nothing_has_two_seconds() {
    on_stage(async {
        let stage = stage();
        let whole = format!("{}xx", upload("Content-Length: 2\r\nConnection: close"));
        assert_about(kept(&stage, &whole, 0, seconds(1)).await, 2);
        assert_about(kept(&stage, &whole, 100, seconds(1)).await, 2);
        // The rest of the body, and then nothing but more.
        let head = with_length(MEGABYTE + 1);
        let mut client = stage.client();
        client.send(head).await;
        assert_eq!(client.answer().await.unwrap().status, 413);
        sleep(seconds(3)).await;
        client.send(vec![b'x'; MEGABYTE + 1]).await;
        let began = Instant::now();
        until_open(&stage, 0).await;
        assert_about(began.elapsed(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_connections_are_scarce_no_client_has_more_than_two_seconds() {
    on_stage(async {
        let few = |policy: &mut Policy, settings: &mut Settings| {
            of_a_megabyte(policy, settings);
            settings.downstream.connections_per_worker = Some(2);
        };
        let stage = Stage::new(1, few, |_| Meeting::with(unauthorized));
        let head = with_length(UPLOAD);
        assert_about(kept(&stage, &head, 0, seconds(1)).await, 5);
        let other = stage.client();
        tokio::task::yield_now().await;
        let mut client = stage.client();
        client.send(&head).await;
        assert_eq!(client.answer().await.unwrap().status, 413);
        let began = Instant::now();
        until_open(&stage, 1).await;
        assert_about(began.elapsed(), 2);
        drop(other);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_in_the_middle_of_a_body_delays_no_drain() {
    on_stage(async {
        let stage = stage();
        let mut client = stage.client();
        client.send(with_length(UPLOAD)).await;
        assert_eq!(client.answer().await.unwrap().status, 413);
        sleep(seconds(3)).await;
        stage.worker.enter(Phase::Draining);
        let began = Instant::now();
        until_open(&stage, 0).await;
        assert!(began.elapsed() <= seconds(1), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn over_http2_the_answer_comes_whole_a_second_before_a_reset_without_error() {
    on_stage(async {
        let stage = stage();
        let mut browser = Browser::new(&stage);
        for (length, status) in [(UPLOAD, 413), (MEGABYTE, 401), (UPLOAD, 413)] {
            let fields = [("content-length", &*length.to_string())];
            let id = browser.ask_with(b"POST", b"/", &fields, false);
            browser.kept.push(id);
            browser.codec.send_data(id, &[b'x'; 1000], false);
            browser.until("the answer", |browser| browser.answers[&id].is_over()).await;
            assert_eq!(browser.answers[&id].reset, None, "clients that read the reset first drop the answer");
            let answered = Instant::now();
            browser.until("the reset", |browser| browser.answers[&id].reset.is_some()).await;
            assert_about(answered.elapsed(), 1);
            let answer = &browser.answers[&id];
            assert_eq!((answer.status, answer.is_whole, answer.reset), (status, true, Some(Code::NoError)));
        }
        assert_eq!(browser.goes_away, None, "the connection stays");
        drop(browser);
        until_open(&stage, 0).await;
        stage.at_rest().unwrap();
    })
    .await;
}

/// A client whose upload was refused and not yet reset.
async fn refused(stage: &Stage) -> (Browser, u32) {
    let mut browser = Browser::new(stage);
    let id = browser.ask_with(b"POST", b"/", &[("content-length", "3145728")], false);
    browser.kept.push(id);
    browser.until("the answer", |browser| browser.answers[&id].is_over()).await;
    assert_eq!((browser.answers[&id].status, browser.answers[&id].reset), (413, None));
    (browser, id)
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_refused_body_that_is_given_up_needs_no_reset() {
    on_stage(async {
        let stage = stage();
        let (mut browser, id) = refused(&stage).await;
        browser.codec.send_data(id, &[b'x'; 40_000], false);
        browser.codec.reset(id, Code::NoError);
        browser.flush().await;
        sleep(seconds(2)).await;
        let (other, _) = (browser.get("/"), browser.flush().await);
        assert_eq!(browser.answered(other).await.status, 401);
        assert_eq!((browser.answers[&id].reset, browser.goes_away), (None, None));
        drop(browser);
        until_open(&stage, 0).await;
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn over_http2_a_refused_body_holds_no_connection() {
    on_stage(async {
        let stage = stage();
        let (browser, _) = refused(&stage).await;
        let began = Instant::now();
        drop(browser);
        until_open(&stage, 0).await;
        assert!(began.elapsed() < seconds(1), "the client has gone: {:?}", began.elapsed());
        let (mut browser, id) = refused(&stage).await;
        let began = Instant::now();
        stage.worker.enter(Phase::Draining);
        browser.until("the reset", |browser| browser.answers[&id].reset.is_some()).await;
        assert_about(began.elapsed(), 1);
        drop(browser);
        until_open(&stage, 0).await;
        stage.at_rest().unwrap();
    })
    .await;
}
