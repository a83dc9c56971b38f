//! Exchanges in virtual time: timeouts with their production values, without real waiting.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, endpoint, read_head,
    run_local, serve_ok,
};

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Within a tick of the timer wheel.
#[track_caller]
pub(super) fn assert_took(began: Instant, expected: Duration) {
    let took = began.elapsed();
    assert!(
        took >= expected && took <= expected + Duration::from_millis(20),
        "{took:?} instead of {expected:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connect_has_one_second_and_all_of_them_have_five() {
    run_local(async {
        let stage = TestWorker::new(8, |policy, _| policy.retry.tries = 8, |_| ScriptedConnect::Silence);
        let began = Instant::now();
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 504);
        assert_took(began, seconds(5));
        let connects = stage.connects();
        let late: Vec<_> = connects.iter().take(3).map(|(at, _)| at.duration_since(began)).collect();
        assert_eq!(
            late.iter().map(Duration::as_millis).map(|ms| (ms + 5) / 250).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        for (_, to) in connects.iter().take(8) {
            assert_eq!(
                connects.iter().take(8).filter(|(_, other)| other == to).count(),
                1,
                "another one each time"
            );
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_requests_fail_everywhere_ejects_no_endpoint() {
    run_local(async {
        let script = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
            })
        };
        let stage = TestWorker::new(4, |policy, _| policy.retry.tries = 3, script);
        let mut client = stage.client();
        for _ in 0..8 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 502);
        }
        assert!(stage.has_metric_line("fairway_upstream_ejections_total 0"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_requests_that_others_serve_is_ejected() {
    run_local(async {
        let script = |to| match to == endpoint(0) {
            true => ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
            }),
            false => ScriptedConnect::served_by(serve_ok),
        };
        let stage = TestWorker::new(3, |_, _| {}, script);
        let mut client = stage.client();
        for _ in 0..9 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        assert!(stage.has_metric_line("fairway_upstream_ejections_total 1"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_endpoint_is_waited_for_sixty_seconds() {
    run_local(async {
        let silent = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                let _ = stream.read_to_end(&mut Vec::new()).await;
            })
        };
        let stage = TestWorker::new(1, |_, _| {}, silent);
        let began = Instant::now();
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
        assert_eq!(stage.client().request(post).await.unwrap().status, 504);
        assert_took(began, seconds(60));
        assert!(stage.has_metric_line("fairway_faults_total{reason=\"upstream_timeout\"} 1"));
        assert!(stage.has_metric_line("fairway_upstream_lost_non_idempotent_total 1"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_may_take_long_while_it_progresses() {
    run_local(async {
        let slow = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").await.unwrap();
                for _ in 0..5 {
                    sleep(seconds(59)).await;
                    stream.write_all(b"a").await.unwrap();
                }
                let _ = stream.read_to_end(&mut Vec::new()).await;
            })
        };
        let stage = TestWorker::new(1, |_, _| {}, slow);
        let mut client = stage.client();
        let began = Instant::now();
        client.send(GET_REQUEST).await;
        let received = client.read_to_end().await;
        assert_took(began, seconds(5 * 59 + 60));
        assert!(received.ends_with(b"\r\n\r\naaaaa"));
        assert!(stage.has_metric_line("fairway_faults_total{reason=\"upstream_timeout\"} 1"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_takes_no_bytes_is_given_up_after_sixty_seconds() {
    run_local(async {
        let deaf = |_| {
            ScriptedConnect::served_by(|stream| async move {
                sleep(seconds(3600)).await;
                drop(stream);
            })
        };
        let stage = TestWorker::new(1, |policy, _| policy.timeouts.read = seconds(7), deaf);
        let mut client = stage.client();
        let began = Instant::now();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
        let (mut reading, mut writing) = tokio::io::split(client.stream);
        let flood = tokio::task::spawn_local(async move {
            let _ = writing.write_all(&vec![b'a'; 1_000_000]).await;
        });
        let mut start = [0; 12];
        reading.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 504");
        assert_took(began, seconds(60));
        flood.abort();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_kept_for_the_configured_time() {
    run_local(async {
        let keep = |_: &mut _, settings: &mut fairway_model::Settings| {
            settings.downstream.idle_timeout = seconds(75);
        };
        let stage = TestWorker::new(1, keep, |_| ScriptedConnect::served_by(serve_ok));
        let mut client = stage.client();
        for _ in 0..3 {
            sleep(seconds(74)).await;
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        let began = Instant::now();
        assert_eq!(client.read_to_end().await, b"");
        assert_took(began, seconds(75));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_head_has_ten_seconds_from_its_first_byte() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_ok));
        let mut client = stage.client();
        sleep(seconds(50)).await;
        let began = Instant::now();
        for byte in b"GET / HTTP" {
            client.send([*byte]).await;
            sleep(Duration::from_millis(900)).await;
        }
        let late = client.read_to_end().await;
        assert!(late.starts_with(b"HTTP/1.1 408 "));
        let took = began.elapsed();
        assert!(took >= seconds(10) && took <= seconds(13), "{took:?}: at most the time to linger more");
        assert!(stage.has_metric_line("fairway_refused_connections_total{reason=\"client_timeout\"} 1"));
    })
    .await;
}

/// Sends a body at this rate per second; returns the status and when it arrived.
async fn body_at(rate: usize, length: usize) -> (u16, Duration) {
    let reading = move |_| {
        ScriptedConnect::served_by(move |mut stream| async move {
            read_head(&mut stream).await;
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).await.is_ok() {
                let _ = stream.write_all(OK_RESPONSE).await;
            }
        })
    };
    let stage = TestWorker::new(1, |_, _| {}, reading);
    let mut client = stage.client();
    let began = Instant::now();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")).await;
    let (mut reading, mut writing) = tokio::io::split(client.stream);
    let drip = tokio::task::spawn_local(async move {
        for _ in 0..length / rate {
            sleep(seconds(1)).await;
            if writing.write_all(&vec![b'a'; rate]).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    });
    let mut start = [0; 12];
    reading.read_exact(&mut start).await.unwrap();
    drip.abort();
    (std::str::from_utf8(&start[9..]).unwrap().parse().unwrap(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_body_must_bring_its_bytes_per_second_after_a_grace() {
    run_local(async {
        let (status, took) = body_at(250, 30_000).await;
        assert_eq!((status, took.as_secs()), (200, 120), "slow is not too slow");
        let (status, took) = body_at(100, 30_000).await;
        assert_eq!(status, 408);
        assert!(took > seconds(5) && took < seconds(15), "{took:?}");
        let (status, took) = body_at(10_000, 30_000).await;
        assert_eq!((status, took.as_secs()), (200, 3));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_waited_for_sixty_seconds() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(answering_after_the_body));
        let mut client = stage.client();
        let began = Instant::now();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc").await;
        assert_eq!(client.response().await.unwrap().status, 408);
        assert_took(began, seconds(60));
    })
    .await;
}

async fn answering_after_the_body(mut stream: tokio::io::DuplexStream) {
    read_head(&mut stream).await;
    let mut body = [0; 10];
    if stream.read_exact(&mut body).await.is_ok() {
        let _ = stream.write_all(OK_RESPONSE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut_after_thirty_seconds() {
    run_local(async {
        let endless = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
                while stream.write_all(b"4\r\naaaa\r\n").await.is_ok() {}
            })
        };
        let stage = TestWorker::new(1, |policy, _| policy.timeouts.read = seconds(3), endless);
        let mut client = stage.client();
        let began = Instant::now();
        client.send(GET_REQUEST).await;
        while !stage.has_metric_line("fairway_faults_total{reason=\"client_stalled\"} 1") {
            sleep(Duration::from_millis(10)).await;
            assert!(began.elapsed() < seconds(60));
        }
        assert_took(began, seconds(30));
    })
    .await;
}

/// Responds once, without an end.
async fn endless(mut stream: tokio::io::DuplexStream) {
    read_head(&mut stream).await;
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let chunk = format!("2000\r\n{}\r\n", "a".repeat(0x2000));
    while stream.write_all(chunk.as_bytes()).await.is_ok() {}
}

/// How long a client keeps its request that reads `bytes` bytes every `every`, of an endless response; an hour means forever.
async fn time_held(bytes: usize, every: Duration) -> Duration {
    let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(endless));
    let mut client = stage.client();
    let began = Instant::now();
    client.send(GET_REQUEST).await;
    let mut chunk = vec![0; bytes];
    while began.elapsed() < seconds(3600) {
        sleep(every).await;
        if stage.has_metric_line("fairway_faults_total{reason=\"client_stalled\"} 1") {
            break;
        }
        // After the connection was closed, the rest is still read.
        let _ = client.stream.read(&mut chunk).await;
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_client_must_take_its_bytes_per_second_after_a_grace() {
    run_local(async {
        assert!(time_held(1, seconds(29)).await <= seconds(2 * 29), "a byte every 29 seconds");
        let took = time_held(100, seconds(1)).await;
        assert!(took > seconds(5) && took < seconds(15), "{took:?} at 100 bytes/s");
        assert!(time_held(250, seconds(1)).await >= seconds(3600), "slow is not too slow");
        assert!(time_held(7000, seconds(28)).await >= seconds(3600), "nor is what comes in bursts");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_fast_may_be_slow_for_a_minute_only() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(endless));
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        let mut much = vec![0; 1_000_000];
        for _ in 0..10 {
            sleep(seconds(1)).await;
            client.stream.read_exact(&mut much).await.unwrap();
        }
        let began = Instant::now();
        while !stage.has_metric_line("fairway_faults_total{reason=\"client_stalled\"} 1") {
            sleep(seconds(1)).await;
            let _ = client.stream.read(&mut [0; 10]).await;
            assert!(began.elapsed() < seconds(600));
        }
        let took = began.elapsed();
        assert!(took > seconds(50) && took < seconds(80), "{took:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_silence_of_an_endpoint_is_no_slowness_of_the_client() {
    run_local(async {
        let slow = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n").await.unwrap();
                for _ in 0..50 {
                    sleep(seconds(20)).await;
                    stream.write_all(b"a").await.unwrap();
                }
            })
        };
        let stage = TestWorker::new(1, |_, _| {}, slow);
        let began = Instant::now();
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().body, [b'a'; 50]);
        assert_took(began, seconds(50 * 20));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn retries_are_a_fifth_of_the_requests_and_ten_a_second() {
    run_local(async {
        let dying = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
            })
        };
        let stage = TestWorker::new(1, |policy, _| policy.retry.tries = 2, dying);
        let mut client = stage.client();
        for _ in 0..100 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 502);
        }
        assert_eq!(stage.connects().len(), 100 + 10 + 20);
        sleep(seconds(1)).await;
        for _ in 0..100 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 502);
        }
        assert_eq!(stage.connects().len(), 2 * (100 + 10 + 20));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_without_a_byte_ends_after_the_read_time_out() {
    run_local(async {
        let switching = |_| {
            ScriptedConnect::served_by(|mut stream| async move {
                read_head(&mut stream).await;
                let switch =
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
                stream.write_all(switch).await.unwrap();
                sleep(seconds(50)).await;
                stream.write_all(b"ping").await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            })
        };
        let stage = TestWorker::new(1, |_, _| {}, switching);
        let mut client = stage.client();
        let began = Instant::now();
        let handshake = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        client.send(handshake).await;
        assert_eq!(client.response().await.unwrap().status, 101);
        assert_eq!(client.read_to_end().await, b"ping");
        assert_took(began, seconds(50 + 60));
    })
    .await;
}

/// A worker without routes.
fn without_routes() -> TestWorker {
    let mut config = config_with_phases(1, Vec::new());
    config.hosts.clear();
    TestWorker::with_config(&config, |_| ScriptedConnect::Refused)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_waits_gets_a_hundred_local_responses() {
    run_local(async {
        let stage = without_routes();
        let mut eager = stage.client();
        eager.send(GET_REQUEST.repeat(150)).await;
        let mut responses = 0;
        while let Some(seen) = eager.response().await {
            assert_eq!(seen.status, 404);
            responses += 1;
        }
        assert_eq!(responses, 100);
        let mut patient = stage.client();
        for _ in 0..150 {
            assert_eq!(patient.request(GET_REQUEST).await.unwrap().status, 404);
        }
        for _ in 0..3 {
            patient.send(GET_REQUEST.repeat(60)).await;
            for _ in 0..60 {
                assert_eq!(patient.response().await.unwrap().status, 404, "it has waited for those before");
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_alternate_with_those_of_other_connections() {
    run_local(async {
        let stage = without_routes();
        let (mut eager, mut other) = (stage.client(), stage.client());
        eager.send(GET_REQUEST.repeat(90)).await;
        assert_eq!(other.request(GET_REQUEST).await.unwrap().status, 404);
        let mut received = Vec::with_capacity(64 * 1024);
        eager.stream.read_buf(&mut received).await.unwrap();
        let responses = received.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
        assert!((1..=32).contains(&responses), "{responses} of 90 were served before the other client's");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn chunks_of_a_byte_that_come_together_go_on_as_one() {
    run_local(async {
        let received = Rc::new(RefCell::new(Vec::new()));
        let theirs = Rc::clone(&received);
        let stage = TestWorker::new(
            1,
            |_, _| (),
            move |_| {
                let received = Rc::clone(&theirs);
                ScriptedConnect::served_by(|mut stream| async move {
                    let mut bytes = Vec::new();
                    while !bytes.ends_with(b"0\r\n\r\n") && stream.read_buf(&mut bytes).await.unwrap() > 0 {}
                    *received.borrow_mut() = bytes;
                    let response = [
                        &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
                        &b"1\r\ny\r\n".repeat(20),
                        b"0\r\n\r\n",
                    ];
                    stream.write_all(&response.concat()).await.unwrap();
                })
            },
        );
        let mut client = stage.client();
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send([&head[..], &b"1\r\nx\r\n".repeat(300), b"0\r\n\r\n"].concat()).await;
        let response = client.response_text().await;
        let body = format!("\r\n\r\n12c\r\n{}\r\n0\r\n\r\n", "x".repeat(300));
        let received_text = String::from_utf8(received.take()).unwrap();
        assert!(received_text.to_lowercase().ends_with(&body), "{received_text}");
        assert!(response.ends_with(&format!("\r\n\r\n14\r\n{}\r\n0\r\n\r\n", "y".repeat(20))), "{response}");
    })
    .await;
}
