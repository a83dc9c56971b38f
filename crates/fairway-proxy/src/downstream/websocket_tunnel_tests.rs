//! Data, flow control and ends of WebSocket tunnels in each of the four pairings of versions.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::http2_tests::wait_until_idle;
use super::websocket_tests::{H1, H2, PAIRINGS, SHORT_PAUSE, WebSocketClient, connect, stage};
use crate::testing::run_local;
use crate::worker::StopPhase;

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_and_each_direction_ends_independently() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = WebSocketClient::connect(&stage, client, "/echo", b"early").await;
            asker.response().await;
            assert_eq!(asker.bytes(5).await, b"early", "{client:?} {endpoint:?}");
            asker.send(b" and late").await;
            assert_eq!(asker.bytes(9).await, b" and late");
            assert_eq!(stage.worker.exchanges(), 1);
            asker.end().await;
            assert_eq!(asker.read_to_end().await, (b"bye".to_vec(), true), "{client:?} {endpoint:?}");
            assert_eq!(seen.borrow().tunnel_ends, ["end"]);
            drop(asker);
            wait_until_idle(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leaving_client_closes_the_endpoint_at_once() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, client, "/flood").await;
            asker.bytes(1000).await;
            asker.abandon().await;
            sleep(SHORT_PAUSE).await;
            assert_eq!(stage.worker.exchanges(), 0, "{client:?} {endpoint:?}");
            assert_eq!(seen.borrow().tunnel_ends, ["broken"], "{client:?} {endpoint:?}");
            wait_until_idle(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_endpoint_closes_the_client_at_once() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, _) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, client, "/reset").await;
            asker.send(b"x").await;
            let began = Instant::now();
            let (bytes, clean) = asker.read_to_end().await;
            assert_eq!(bytes, b"", "{client:?} {endpoint:?}");
            // Only a reset would contradict a clean end of the HTTP/1 endpoint.
            assert!(clean || (client, endpoint) == (H2, H2), "{client:?} {endpoint:?}");
            assert!(began.elapsed() < Duration::from_secs(1));
            drop(asker);
            wait_until_idle(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_websocket_ends_after_the_read_timeout() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, client, "/echo").await;
            sleep(Duration::from_secs(50)).await;
            asker.send(b"x").await;
            assert_eq!(asker.bytes(1).await, b"x");
            let began = Instant::now();
            asker.read_to_end().await;
            let took = began.elapsed().as_secs_f64();
            assert!((59.0..62.0).contains(&took), "{client:?} {endpoint:?}: {took}");
            drop(asker);
            wait_until_idle(&stage).await;
            assert_eq!(seen.borrow().tunnel_ends.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn data_beyond_all_windows_is_echoed_completely() {
    const PIECE: usize = 60_000;
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, client, "/echo").await;
            for round in 0..50u8 {
                asker.send(&[round; PIECE]).await;
                assert_eq!(asker.bytes(PIECE).await, [round; PIECE], "{client:?} {endpoint:?}");
            }
            assert_eq!(seen.borrow().bytes_read, 50 * PIECE);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_side_stops_the_other() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, seen) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, client, "/flood").await;
            if let WebSocketClient::Http2(browser, _) = &mut asker {
                browser.consumes = false;
            }
            // An HTTP/2 client does not credit what it reads; an HTTP/1 client reads nothing.
            if client == H2 {
                asker.bytes(60_000).await;
            }
            sleep(Duration::from_secs(1)).await;
            let written = seen.borrow().bytes_written;
            // Two pipes or windows, and one read.
            assert!(written <= 320 * 1024, "{client:?} {endpoint:?}: {written}");
            sleep(Duration::from_secs(1)).await;
            assert_eq!(seen.borrow().bytes_written, written, "{client:?} {endpoint:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_endpoint_stops_only_its_client() {
    for endpoint in [H1, H2] {
        run_local(async {
            let (stage, _) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, H2, "/deaf").await;
            let WebSocketClient::Http2(browser, id) = &mut asker else { unreachable!() };
            let mut sent = 0;
            for _ in 0..100 {
                while browser.codec.room(*id) > 0 {
                    sent += browser.codec.send_data(*id, &[b'x'; 1000], false);
                }
                browser.flush().await;
                let _ = timeout(Duration::from_millis(1), browser.run_until("more room", |_| false)).await;
            }
            // The endpoint's pipe or window, data queued for it, and our own window.
            assert!((60_000..400_000).contains(&sent), "{endpoint:?}: {sent}");
            // Another stream of the same connection continues.
            let other = connect(browser, "websocket", "/echo", &[("sec-websocket-version", "13")]);
            browser.run_until("the other", |browser| browser.responses[&other].status == 200).await;
            browser.codec.send_data(other, b"hello", false);
            browser.run_until("its bytes", |browser| browser.responses[&other].body == b"hello").await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_draining_worker_lets_tunnels_end() {
    for endpoint in [H1, H2] {
        run_local(async {
            let (stage, _) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, H2, "/echo").await;
            stage.worker.enter_phase(StopPhase::Draining);
            let WebSocketClient::Http2(browser, _) = &mut asker else { unreachable!() };
            browser.run_until("GOAWAY", |browser| browser.goaway_last_stream.is_some()).await;
            sleep(Duration::from_secs(20)).await;
            asker.send(b"still there").await;
            assert_eq!(asker.bytes(11).await, b"still there", "{endpoint:?}");
            asker.end().await;
            assert_eq!(asker.read_to_end().await, (b"bye".to_vec(), true));
            wait_until_idle(&stage).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn tunnels_are_counted_as_switches_in_every_version() {
    for (client, endpoint) in PAIRINGS {
        run_local(async {
            let (stage, _) = stage(endpoint);
            let mut asker = WebSocketClient::open(&stage, client, "/echo").await;
            let switched = || {
                let lines = stage.metrics();
                let counts = "nginx_ingress_controller_requests{";
                let mut lines = lines.lines().filter(|line| line.starts_with(counts));
                lines.any(|line| line.contains("status=\"101\"") && line.contains("method=\"GET\""))
            };
            assert!(!switched());
            asker.end().await;
            asker.read_to_end().await;
            drop(asker);
            wait_until_idle(&stage).await;
            assert!(switched(), "{client:?} {endpoint:?}");
        })
        .await;
    }
}
