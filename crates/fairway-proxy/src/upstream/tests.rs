//! Endpoints over minutes, in virtual time: ejection, probes and idle connections.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::Settings;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use crate::options::Limits;
use crate::testing::{
    Client, GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, endpoint, read_head, run_local, serve_ok,
};

#[tokio::test(start_paused = true)]
async fn a_dead_endpoint_is_probed_after_1_2_4_8_16_30_and_30_seconds() {
    run_local(async {
        let script = |to| {
            if to == endpoint(0) { ScriptedConnect::Refused } else { ScriptedConnect::served_by(serve_ok) }
        };
        let stage = TestWorker::new(2, |_, _| {}, script);
        let mut client = stage.client();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(95) {
            assert_eq!(
                client.request(GET_REQUEST).await.unwrap().status,
                200,
                "a probe that fails costs its client nothing"
            );
            sleep(Duration::from_millis(50)).await;
        }
        let connects: Vec<_> = stage.connects().into_iter().filter(|(_, to)| *to == endpoint(0)).collect();
        let pauses: Vec<u64> = connects
            .windows(2)
            .map(|pair| pair[1].0.duration_since(pair[0].0).as_millis() as u64 / 1000)
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_probe_that_succeeds_brings_the_endpoint_back() {
    run_local(async {
        let began = Instant::now();
        let script = move |to| match to == endpoint(0) && began.elapsed() < Duration::from_secs(2) {
            true => ScriptedConnect::Refused,
            false => ScriptedConnect::served_by(serve_ok),
        };
        let stage = TestWorker::new(2, |_, settings| settings.upstream.requests_per_connection = 1, script);
        let mut client = stage.client();
        let mut ask = async |count| {
            for _ in 0..count {
                assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
            }
        };
        ask(10).await;
        assert_eq!(stage.connects().iter().filter(|(_, to)| *to == endpoint(0)).count(), 1);
        sleep(Duration::from_secs(4)).await;
        let before = stage.connects().len();
        ask(10).await;
        let after: Vec<_> = stage.connects().split_off(before);
        assert_eq!(after.iter().filter(|(_, to)| *to == endpoint(0)).count(), 5, "its full share again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_let_go_after_its_time() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_ok));
        let mut client = stage.client();
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        for (wait, left) in [(59, 1), (2, 0)] {
            sleep(Duration::from_secs(wait)).await;
            stage.worker.tick();
            assert_eq!(stage.worker.groups.idle_connections(), left);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_post_reuses_a_connection_only_within_a_second_of_its_last_response() {
    run_local(async {
        let stage = TestWorker::new(1, |_, _| {}, |_| ScriptedConnect::served_by(serve_ok));
        let mut client = stage.client();
        let post = "POST / HTTP/1.1\r\nHost: a\r\n\r\n";
        for (wait, connects) in [(0, 1), (900, 1), (1100, 2)] {
            sleep(Duration::from_millis(wait)).await;
            assert_eq!(client.request(post).await.unwrap().status, 200);
            assert_eq!(stage.connects().len(), connects, "after {wait} ms");
        }
        sleep(Duration::from_secs(30)).await;
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        assert_eq!(stage.connects().len(), 2, "a GET may use an old one");
    })
    .await;
}

/// The errors of an exhausted system: ENOMEM, ENFILE, EMFILE, EADDRNOTAVAIL, ENOBUFS.
const SHORTAGE_ERRORS: [i32; 5] = [12, 23, 24, 99, 105];

#[tokio::test(start_paused = true)]
async fn a_local_shortage_is_503_and_ejects_no_endpoint() {
    run_local(async {
        for error in SHORTAGE_ERRORS {
            let short = Rc::new(Cell::new(true));
            let script = {
                let short = Rc::clone(&short);
                move |_| {
                    if short.get() {
                        ScriptedConnect::Error(error)
                    } else {
                        ScriptedConnect::served_by(serve_ok)
                    }
                }
            };
            let stage = TestWorker::new(2, |_, _| {}, script);
            for _ in 0..10 {
                let mut client = stage.client();
                assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 503, "{error}");
                assert!(client.response().await.is_none(), "{error}: its own descriptor is given back");
            }
            assert_eq!(stage.connects().len(), 10, "{error}: no other endpoint is tried");
            for line in [
                "fairway_upstream_ejections_total 0",
                "fairway_upstream_retries_total 0",
                "fairway_faults_total{reason=\"local_shortage\"} 10",
            ] {
                assert!(stage.has_metric_line(line), "{error}: {line}");
            }
            short.set(false);
            let mut client = stage.client();
            for _ in 0..2 {
                assert_eq!(
                    client.request(GET_REQUEST).await.unwrap().status,
                    200,
                    "{error}: both endpoints are in use"
                );
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn idle_connections_give_way_to_a_connection_that_the_system_does_not_give() {
    run_local(async {
        let short = Rc::new(Cell::new(true));
        let script = move |to| match to == endpoint(1) && short.replace(false) {
            true => ScriptedConnect::Error(24),
            false => ScriptedConnect::served_by(serve_ok),
        };
        let stage = TestWorker::new(2, |_, _| {}, script);
        let mut client = stage.client();
        for _ in 0..2 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        let endpoints: Vec<_> = stage.connects().into_iter().map(|(_, to)| to).collect();
        assert_eq!(endpoints, [endpoint(0), endpoint(1), endpoint(1)]);
        assert!(stage.has_metric_line("fairway_upstream_idle_connections 1"), "the first one was closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_met_no_endpoint_is_made_again_by_the_next_request() {
    run_local(async {
        let meets = Rc::new(Cell::new(Some(111)));
        let script = {
            let meets = Rc::clone(&meets);
            move |to| match meets.get() {
                Some(error) if to == endpoint(0) => ScriptedConnect::Error(error),
                _ => ScriptedConnect::served_by(serve_ok),
            }
        };
        let stage = TestWorker::new(2, |_, settings| settings.upstream.requests_per_connection = 1, script);
        let mut client = stage.client();
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200, "the refused one is ejected");
        assert!(stage.has_metric_line("fairway_upstream_ejections_total 1"));
        sleep(Duration::from_secs(1)).await;
        meets.set(Some(24));
        while client.request(GET_REQUEST).await.unwrap().status != 503 {}
        meets.set(None);
        let mut client = stage.client();
        let before = stage.connects().len();
        for _ in 0..2 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        assert!(stage.connects()[before..].iter().any(|(_, to)| *to == endpoint(0)), "it is back at once");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn idle_connections_stay_within_the_descriptors_of_the_worker() {
    run_local(async {
        // Three quarters of them are reserved.
        let limits = Limits { descriptors: Some(20), ..Limits::default() };
        let stage = TestWorker::with_limits(limits, 20, |_, _| {}, |_| ScriptedConnect::served_by(serve_ok));
        let mut client = stage.client();
        for _ in 0..40 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
            assert!(stage.worker.groups.idle_connections() <= 5);
        }
    })
    .await;
}

/// Responds to each request after a second, so that all requests are in progress at once.
async fn answering_later(mut stream: DuplexStream) {
    while read_head(&mut stream).await {
        sleep(Duration::from_secs(1)).await;
        if stream.write_all(OK_RESPONSE).await.is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_burst_are_kept_for_the_next_one_and_closed_later() {
    run_local(async {
        const BURST: usize = 400;
        let hour = Duration::from_secs(3600);
        let settings = |_: &mut _, settings: &mut Settings| settings.upstream.idle_timeout = hour;
        let stage = TestWorker::new(1, settings, |_| ScriptedConnect::served_by(answering_later));
        let mut clients: Vec<_> = (0..BURST).map(|_| stage.client()).collect();
        let burst = async |clients: &mut [Client]| {
            for client in &mut *clients {
                client.send(GET_REQUEST).await;
            }
            for client in clients {
                assert_eq!(client.response().await.unwrap().status, 200);
            }
        };
        for _ in 0..3 {
            burst(&mut clients).await;
            assert_eq!(stage.worker.groups.idle_connections(), BURST);
            stage.worker.tick();
            assert_eq!(stage.connects().len(), BURST, "the next burst finds them");
        }
        for _ in 0..150 {
            sleep(Duration::from_secs(1)).await;
            burst(&mut clients[..1]).await;
            stage.worker.tick();
        }
        assert_eq!(stage.worker.groups.idle_connections(), 320, "a minute later nothing needed more");
    })
    .await;
}
