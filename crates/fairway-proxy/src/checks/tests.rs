//! Health checks in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, BackendTraffic, Config, Endpoint, EndpointHealth, HealthCheck, Probe};
use fairway_net::clock::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::{CheckStreak, next_due, run};
use crate::publish::Published;
use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, endpoint, published, run_local,
};

const INTERVAL: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(1);

fn http() -> Probe {
    Probe::Http { path: "/health".into(), host: None, statuses: Vec::new() }
}

fn check(probe: Probe) -> HealthCheck {
    let (failures, successes) = (NonZeroU8::new(3).unwrap(), NonZeroU8::new(2).unwrap());
    HealthCheck { probe, interval: INTERVAL, timeout: TIMEOUT, failures, successes }
}

/// A configuration with one rule and this many checked endpoints.
fn config(endpoints: usize, health: EndpointHealth) -> Config {
    let mut config = config_with_phases(endpoints, Vec::new());
    let backend = config.backends.values().next().unwrap();
    let traffic = BackendTraffic { health: Some(Arc::new(health)), ..BackendTraffic::default() };
    let backend = Backend { traffic: traffic.if_not_empty(), ..Backend::clone(backend) };
    config.backends.insert(backend.key.clone(), Arc::new(backend));
    config
}

fn checked(probe: Probe) -> EndpointHealth {
    EndpointHealth { check: Some(Arc::new(check(probe))), slow_start: None, panic_threshold: Some(50) }
}

/// Starts health checks; the sender publishes newer configurations.
fn start_checks(stage: &TestWorker, config: &Config) -> watch::Sender<Arc<Published>> {
    let (updates, seen) = watch::channel(published(config, None));
    spawn_local(run(Rc::clone(&stage.worker), seen));
    updates
}

/// Responds to checks with this status, and to everything else with 200.
async fn serve_checks_with(mut stream: DuplexStream, status: u16) {
    let mut bytes = Vec::new();
    loop {
        while let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            let head: Vec<u8> = bytes.drain(..end + 4).collect();
            let response = match head.starts_with(b"GET /health ") {
                true => format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into_bytes(),
                false => OK_RESPONSE.to_vec(),
            };
            if stream.write_all(&response).await.is_err() {
                return;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

fn healthy() -> ScriptedConnect {
    ScriptedConnect::served_by(|stream| serve_checks_with(stream, 200))
}

/// How many of 100 sequential requests, each on a new connection, each endpoint answered.
async fn responses_by_endpoint(stage: &TestWorker, endpoints: u16) -> Vec<usize> {
    let mut client = stage.client();
    let before = stage.connects().len();
    for _ in 0..100 {
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
    }
    let connects = stage.connects();
    let to = |number| connects[before..].iter().filter(|(_, to)| *to == endpoint(number)).count();
    (0..endpoints).map(to).collect()
}

/// A worker whose upstream connections carry one request each.
fn stage(config: &Config, script: impl Fn(SocketAddr) -> ScriptedConnect + 'static) -> TestWorker {
    let mut config = config.clone();
    config.settings.upstream.requests_per_connection = 1;
    TestWorker::with_config(&config, script)
}

#[tokio::test(start_paused = true)]
async fn a_silent_endpoint_without_traffic_is_out_within_interval_times_threshold() {
    run_local(async {
        let config = config(3, checked(http()));
        let stage = stage(&config, |to| if to == endpoint(0) { ScriptedConnect::Silence } else { healthy() });
        let _updates = start_checks(&stage, &config);
        sleep(INTERVAL * 3).await;
        assert_eq!(stage.worker.checks.failing(), 1);
        let began = Instant::now();
        assert_eq!(responses_by_endpoint(&stage, 3).await[0], 0, "no request waits for it");
        assert!(began.elapsed() < TIMEOUT);
        assert!(stage.metric_value("fairway_health_checks_total{result=\"passed\"}") >= 4);
        assert_eq!(stage.metric_value("fairway_health_checks_total{result=\"failed\"}"), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_returns_after_enough_consecutive_successes() {
    run_local(async {
        let is_ill = Rc::new(Cell::new(true));
        let script = {
            let is_ill = Rc::clone(&is_ill);
            move |to| match to == endpoint(0) {
                true => {
                    let status = if is_ill.get() { 503 } else { 200 };
                    ScriptedConnect::served_by(move |stream| serve_checks_with(stream, status))
                }
                false => healthy(),
            }
        };
        let config = config(2, checked(Probe::Tcp));
        let http = self::config(2, checked(http()));
        let stage = stage(&http, script);
        let updates = start_checks(&stage, &http);
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 1, "its status is none that is expected");
        assert_eq!(responses_by_endpoint(&stage, 2).await[0], 0);
        is_ill.set(false);
        // The kept connection still gets the old response.
        updates.send_replace(published(&config, None));
        stage.publish(&config);
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 0, "a connect is enough now");
        assert!(responses_by_endpoint(&stage, 2).await[0] > 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn checks_are_ignored_if_more_fail_than_the_threshold_allows() {
    run_local(async {
        let script = |to: SocketAddr| match to.port() < 2 {
            true => ScriptedConnect::served_by(|stream| serve_checks_with(stream, 500)),
            false => healthy(),
        };
        for (threshold, shares) in [(50, [true, true, true]), (70, [false, false, true])] {
            let config = config(3, EndpointHealth { panic_threshold: Some(threshold), ..checked(http()) });
            let stage = stage(&config, script);
            let _updates = start_checks(&stage, &config);
            sleep(INTERVAL * 4).await;
            assert_eq!(stage.worker.checks.failing(), 2);
            let endpoints = responses_by_endpoint(&stage, 3).await;
            assert_eq!(
                [endpoints[0] > 0, endpoints[1] > 0, endpoints[2] > 0],
                shares,
                "{threshold} %: {endpoints:?}"
            );
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn checks_follow_the_endpoints_of_the_snapshot_and_end_with_them() {
    run_local(async {
        let first = config(2, checked(http()));
        let stage = stage(&first, |_| ScriptedConnect::Refused);
        let updates = start_checks(&stage, &first);
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 2);
        let mut second = config(3, checked(http()));
        let backend = second.backends.values().next().unwrap();
        let endpoints = vec![Endpoint::at(endpoint(2))];
        let backend = Backend { endpoints, ..Backend::clone(backend) };
        second.backends.insert(backend.key.clone(), Arc::new(backend));
        let before = Arc::clone(&updates.borrow().snapshot);
        updates.send_replace(published(&second, Some(&before)));
        sleep(INTERVAL * 4).await;
        let connects = stage.connects().len();
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 1, "of those that are left");
        let later = stage.connects();
        assert!(later.len() > connects && later[connects..].iter().all(|(_, to)| *to == endpoint(2)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_for_the_next_check_and_an_endpoint_that_sends_no_http_fails() {
    run_local(async {
        let garbage = |mut stream: DuplexStream| async move {
            let mut buffer = [0; 512];
            while stream.read(&mut buffer).await.unwrap_or(0) > 0 {
                _ = stream.write_all(b"SSH-2.0-nothing\r\n").await;
            }
        };
        let config = config(2, checked(http()));
        let script =
            move |to| if to == endpoint(0) { ScriptedConnect::served_by(garbage) } else { healthy() };
        let stage = stage(&config, script);
        let _updates = start_checks(&stage, &config);
        sleep(INTERVAL * 10).await;
        assert_eq!(stage.worker.checks.failing(), 1);
        let connects = stage.connects();
        assert_eq!(connects.iter().filter(|(_, to)| *to == endpoint(1)).count(), 1);
        assert!(connects.len() > 5, "a connection that failed is not used again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_closes_during_a_check_is_no_failure() {
    run_local(async {
        // Each connection answers one request and closes at the next.
        let once = |mut stream: DuplexStream| async move {
            let mut buffer = [0; 512];
            _ = stream.read(&mut buffer).await;
            _ = stream.write_all(OK_RESPONSE).await;
            _ = stream.read(&mut buffer).await;
        };
        let mut check = check(http());
        check.failures = NonZeroU8::MIN;
        let health = EndpointHealth { check: Some(Arc::new(check)), ..checked(Probe::Tcp) };
        let config = config(2, health);
        let stage = stage(&config, move |_| ScriptedConnect::served_by(once));
        let _updates = start_checks(&stage, &config);
        sleep(INTERVAL * 10).await;
        assert_eq!(stage.metric_value("fairway_health_checks_total{result=\"failed\"}"), 0);
        assert!(stage.connects().len() > 10, "they ended");
    })
    .await;
}

/// Serves gRPC's health protocol over HTTP/2, reporting `serving` for the service `a.B`.
async fn grpc(stream: DuplexStream, serving: bool) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        spawn_local(async move {
            let mut body = request.into_parts().1;
            let mut message = Vec::new();
            while let Some(Ok(bytes)) = body.data().await {
                message.extend_from_slice(&bytes);
            }
            assert_eq!(message, b"\0\0\0\0\x05\x0a\x03a.B");
            let head = http::Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            let mut send = respond.send_response(head, false).unwrap();
            let status = if serving { 1 } else { 2 };
            send.send_data(vec![0, 0, 0, 0, 2, 0x08, status].into(), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
            send.send_trailers(trailers).unwrap();
        });
    }
}

#[tokio::test(start_paused = true)]
async fn grpc_checks_use_the_health_protocol_regardless_of_the_request_protocol() {
    run_local(async {
        let config = config(3, checked(Probe::Grpc { service: "a.B".into() }));
        let script =
            |to: SocketAddr| ScriptedConnect::served_by(move |stream| grpc(stream, to != endpoint(0)));
        let stage = stage(&config, script);
        let _updates = start_checks(&stage, &config);
        sleep(INTERVAL * 6).await;
        assert_eq!(stage.worker.checks.failing(), 1, "the one that says that it does not serve");
        assert_eq!(stage.connects().len(), 3, "each connection is kept");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_endpoint_ramps_up_to_its_share() {
    run_local(async {
        let slow = EndpointHealth { slow_start: Some(Duration::from_secs(60)), ..EndpointHealth::default() };
        let responses = |count| {
            let mut config = config(count, slow.clone());
            config.settings.upstream.requests_per_connection = 1;
            config
        };
        let stage = stage(&responses(1), |_| healthy());
        assert_eq!(responses_by_endpoint(&stage, 1).await, [100]);
        stage.publish(&responses(2));
        let early = responses_by_endpoint(&stage, 2).await;
        sleep(Duration::from_secs(30)).await;
        let half = responses_by_endpoint(&stage, 2).await;
        sleep(Duration::from_secs(30)).await;
        let full_share = responses_by_endpoint(&stage, 2).await;
        assert!(early[1] < 15 && (10..45).contains(&half[1]), "{early:?} {half:?}");
        assert_eq!(full_share, [50, 50]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_takes_its_whole_interval_delays_no_verdict() {
    run_local(async {
        let check = HealthCheck { timeout: INTERVAL, ..check(http()) };
        let config = config(2, EndpointHealth { check: Some(Arc::new(check)), ..checked(Probe::Tcp) });
        let stage = stage(&config, |to| if to == endpoint(0) { ScriptedConnect::Silence } else { healthy() });
        let _updates = start_checks(&stage, &config);
        // One clock tick per check.
        sleep(INTERVAL * 3 + Duration::from_millis(10)).await;
        assert_eq!(stage.worker.checks.failing(), 1);
    })
    .await;
}

#[test]
fn only_consecutive_results_count() {
    let check = check(http());
    let mut streak = CheckStreak::default();
    let mut after = |passed, is_out| streak.record(passed, is_out, &check);
    assert_eq!([false, false, true, false, false].map(|passed| after(passed, false)), [None; 5]);
    assert_eq!(after(false, false), Some(true));
    assert_eq!([true, false, true].map(|passed| after(passed, true)), [None; 3]);
    assert_eq!(after(true, true), Some(false));
}

#[test]
fn missed_checks_are_skipped() {
    let now = Instant::now();
    assert_eq!(next_due(now, INTERVAL, now + TIMEOUT), now + INTERVAL);
    assert_eq!(next_due(now, INTERVAL, now + INTERVAL * 3), now + INTERVAL * 3);
}
