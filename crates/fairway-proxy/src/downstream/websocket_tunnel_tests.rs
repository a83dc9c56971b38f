//! What passes through a WebSocket in each of the four pairings of versions, how slow sides stop each other, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::comes_to_rest;
use super::websocket_tests::{Asker, H1, H2, PAIRINGS, SHORT, connect, stage};
use crate::testing::on_stage;
use crate::worker::Phase;

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_and_each_direction_ends_for_itself() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::ask(&stage, client, "/echo", b"early").await;
            asker.answer().await;
            assert_eq!(asker.bytes(5).await, b"early", "{client:?} {endpoint:?}");
            asker.send(b" and late").await;
            assert_eq!(asker.bytes(9).await, b" and late");
            assert_eq!(stage.worker.exchanges(), 1);
            asker.end().await;
            assert_eq!(asker.rest().await, (b"bye".to_vec(), true), "{client:?} {endpoint:?}");
            assert_eq!(seen.borrow().ends, ["end"]);
            drop(asker);
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_endpoints_side_at_once() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/flood").await;
            asker.bytes(1000).await;
            asker.leave().await;
            sleep(SHORT).await;
            assert_eq!(stage.worker.exchanges(), 0, "{client:?} {endpoint:?}");
            assert_eq!(seen.borrow().ends, ["broken"], "{client:?} {endpoint:?}");
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_breaks_off_ends_the_clients_side_at_once() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/reset").await;
            asker.send(b"x").await;
            let began = Instant::now();
            let (bytes, clean) = asker.rest().await;
            assert_eq!(bytes, b"", "{client:?} {endpoint:?}");
            // That the endpoint of HTTP/1 ended cleanly, a reset alone would contradict.
            assert!(clean || (client, endpoint) == (H2, H2), "{client:?} {endpoint:?}");
            assert!(began.elapsed() < Duration::from_secs(1));
            drop(asker);
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_silent_ends_after_the_read_time_out() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/echo").await;
            sleep(Duration::from_secs(50)).await;
            asker.send(b"x").await;
            assert_eq!(asker.bytes(1).await, b"x");
            let began = Instant::now();
            asker.rest().await;
            let took = began.elapsed().as_secs_f64();
            assert!((59.0..62.0).contains(&took), "{client:?} {endpoint:?}: {took}");
            drop(asker);
            comes_to_rest(&stage).await;
            assert_eq!(seen.borrow().ends.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_all_windows_comes_back_whole() {
    const PIECE: usize = 60_000;
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/echo").await;
            for round in 0..50u8 {
                asker.send(&[round; PIECE]).await;
                assert_eq!(asker.bytes(PIECE).await, [round; PIECE], "{client:?} {endpoint:?}");
            }
            assert_eq!(seen.borrow().taken, 50 * PIECE);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_nothing_stops_the_other_side() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/flood").await;
            if let Asker::Http2(browser, _) = &mut asker {
                browser.consumes = false;
            }
            // What a client of HTTP/2 reads it does not give credit for; one of HTTP/1 reads nothing.
            if client == H2 {
                asker.bytes(60_000).await;
            }
            sleep(Duration::from_secs(1)).await;
            let given = seen.borrow().given;
            // Two pipes, or windows, and what one read brings.
            assert!(given <= 320 * 1024, "{client:?} {endpoint:?}: {given}");
            sleep(Duration::from_secs(1)).await;
            assert_eq!(seen.borrow().given, given, "{client:?} {endpoint:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_takes_nothing_stops_its_client_and_no_other() {
    for endpoint in [H1, H2] {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, H2, "/deaf").await;
            let Asker::Http2(browser, id) = &mut asker else { unreachable!() };
            let mut sent = 0;
            for _ in 0..100 {
                while browser.codec.room(*id) > 0 {
                    sent += browser.codec.send_data(*id, &[b'x'; 1000], false);
                }
                browser.flush().await;
                let _ = timeout(Duration::from_millis(1), browser.until("more room", |_| false)).await;
            }
            // The endpoint's pipe or window, what is kept for it, and our own window.
            assert!((60_000..400_000).contains(&sent), "{endpoint:?}: {sent}");
            // Another stream of the same connection goes on.
            let other = connect(browser, "websocket", "/echo", &[("sec-websocket-version", "13")]);
            browser.until("the other", |browser| browser.answers[&other].status == 200).await;
            browser.codec.send_data(other, b"hello", false);
            browser.until("its bytes", |browser| browser.answers[&other].body == b"hello").await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_drains_lets_tunnels_end() {
    for endpoint in [H1, H2] {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, H2, "/echo").await;
            stage.worker.enter(Phase::Draining);
            let Asker::Http2(browser, _) = &mut asker else { unreachable!() };
            browser.until("GOAWAY", |browser| browser.goes_away.is_some()).await;
            sleep(Duration::from_secs(20)).await;
            asker.send(b"still there").await;
            assert_eq!(asker.bytes(11).await, b"still there", "{endpoint:?}");
            asker.end().await;
            assert_eq!(asker.rest().await, (b"bye".to_vec(), true));
            comes_to_rest(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn tunnels_are_counted_as_switches_when_they_end_whatever_is_spoken() {
    for (client, endpoint) in PAIRINGS {
        on_stage(async {
            let (stage, _) = stage(endpoint);
            let mut asker = Asker::opened(&stage, client, "/echo").await;
            let switched = || {
                let lines = stage.metrics();
                let counts = "nginx_ingress_controller_requests{";
                let mut lines = lines.lines().filter(|line| line.starts_with(counts));
                lines.any(|line| line.contains("status=\"101\"") && line.contains("method=\"GET\""))
            };
            assert!(!switched());
            asker.end().await;
            asker.rest().await;
            drop(asker);
            comes_to_rest(&stage).await;
            assert!(switched(), "{client:?} {endpoint:?}");
        })
        .await;
    }
}
