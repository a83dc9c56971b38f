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

use super::{Streak, next, run};
use crate::publish::Published;
use crate::testing::{GET, Meeting, OK, Stage, endpoint, filtered, on_stage, published};

const INTERVAL: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(1);

fn http() -> Probe {
    Probe::Http { path: "/health".into(), host: None, statuses: Vec::new() }
}

fn check(probe: Probe) -> HealthCheck {
    let (failures, successes) = (NonZeroU8::new(3).unwrap(), NonZeroU8::new(2).unwrap());
    HealthCheck { probe, interval: INTERVAL, timeout: TIMEOUT, failures, successes }
}

/// One rule over so many endpoints, which are checked.
fn config(endpoints: usize, health: EndpointHealth) -> Config {
    let mut config = filtered(endpoints, Vec::new());
    let backend = config.backends.values().next().unwrap();
    let traffic = BackendTraffic { health: Some(Arc::new(health)), ..BackendTraffic::default() };
    let backend = Backend { traffic: traffic.kept(), ..Backend::clone(backend) };
    config.backends.insert(backend.key.clone(), Arc::new(backend));
    config
}

fn checked(probe: Probe) -> EndpointHealth {
    EndpointHealth { check: Some(Arc::new(check(probe))), slow_start: None, panic_threshold: Some(50) }
}

/// Checks by this configuration; the other end publishes newer ones.
fn begin(stage: &Stage, config: &Config) -> watch::Sender<Arc<Published>> {
    let (updates, seen) = watch::channel(published(config, None));
    spawn_local(run(Rc::clone(&stage.worker), seen));
    updates
}

/// Answers checks with this status, and everything else with 200.
async fn ill(mut stream: DuplexStream, status: u16) {
    let mut bytes = Vec::new();
    loop {
        while let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            let head: Vec<u8> = bytes.drain(..end + 4).collect();
            let answer = match head.starts_with(b"GET /health ") {
                true => format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").into_bytes(),
                false => OK.to_vec(),
            };
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

fn well() -> Meeting {
    Meeting::with(|stream| ill(stream, 200))
}

/// To how many of 100 requests, one after the other on new connections to endpoints, each endpoint answered.
async fn asked(stage: &Stage, endpoints: u16) -> Vec<usize> {
    let mut client = stage.client();
    let before = stage.connects().len();
    for _ in 0..100 {
        assert_eq!(client.ask(GET).await.unwrap().status, 200);
    }
    let connects = stage.connects();
    let to = |number| connects[before..].iter().filter(|(_, to)| *to == endpoint(number)).count();
    (0..endpoints).map(to).collect()
}

/// A stage whose connections to endpoints carry one request each.
fn stage(config: &Config, script: impl Fn(SocketAddr) -> Meeting + 'static) -> Stage {
    let mut config = config.clone();
    config.settings.upstream.requests_per_connection = 1;
    Stage::serving(&config, script)
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_traffic_that_swallows_everything_is_out_within_its_interval_times_the_threshold()
{
    on_stage(async {
        let config = config(3, checked(http()));
        let stage = stage(&config, |to| if to == endpoint(0) { Meeting::Silence } else { well() });
        let _updates = begin(&stage, &config);
        sleep(INTERVAL * 3).await;
        assert_eq!(stage.worker.checks.failing(), 1);
        let began = Instant::now();
        assert_eq!(asked(&stage, 3).await[0], 0, "no request waits for it");
        assert!(began.elapsed() < TIMEOUT);
        assert!(stage.value("fairway_health_checks_total{result=\"passed\"}") >= 4);
        assert_eq!(stage.value("fairway_health_checks_total{result=\"failed\"}"), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_comes_back_after_enough_successes_in_a_row() {
    on_stage(async {
        let is_ill = Rc::new(Cell::new(true));
        let script = {
            let is_ill = Rc::clone(&is_ill);
            move |to| match to == endpoint(0) {
                true => {
                    let status = if is_ill.get() { 503 } else { 200 };
                    Meeting::with(move |stream| ill(stream, status))
                }
                false => well(),
            }
        };
        let config = config(2, checked(Probe::Tcp));
        let http = self::config(2, checked(http()));
        let stage = stage(&http, script);
        let updates = begin(&stage, &http);
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 1, "its status is none that is expected");
        assert_eq!(asked(&stage, 2).await[0], 0);
        is_ill.set(false);
        // The kept connection still says what it said.
        updates.send_replace(published(&config, None));
        stage.publish(&config);
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 0, "a connect is enough now");
        assert!(asked(&stage, 2).await[0] > 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn checks_do_not_count_where_more_fail_than_the_threshold_allows() {
    on_stage(async {
        let script = |to: SocketAddr| match to.port() < 2 {
            true => Meeting::with(|stream| ill(stream, 500)),
            false => well(),
        };
        for (threshold, shares) in [(50, [true, true, true]), (70, [false, false, true])] {
            let config = config(3, EndpointHealth { panic_threshold: Some(threshold), ..checked(http()) });
            let stage = stage(&config, script);
            let _updates = begin(&stage, &config);
            sleep(INTERVAL * 4).await;
            assert_eq!(stage.worker.checks.failing(), 2);
            let asked = asked(&stage, 3).await;
            assert_eq!([asked[0] > 0, asked[1] > 0, asked[2] > 0], shares, "{threshold} %: {asked:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn checks_follow_the_endpoints_of_the_snapshot_and_end_with_them() {
    on_stage(async {
        let first = config(2, checked(http()));
        let stage = stage(&first, |_| Meeting::Refused);
        let updates = begin(&stage, &first);
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
        let asked = stage.connects().len();
        sleep(INTERVAL * 4).await;
        assert_eq!(stage.worker.checks.failing(), 1, "of those that are left");
        let later = stage.connects();
        assert!(later.len() > asked && later[asked..].iter().all(|(_, to)| *to == endpoint(2)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_for_the_next_check_and_an_endpoint_that_sends_no_http_fails() {
    on_stage(async {
        let garbage = |mut stream: DuplexStream| async move {
            let mut seen = [0; 512];
            while stream.read(&mut seen).await.unwrap_or(0) > 0 {
                _ = stream.write_all(b"SSH-2.0-nothing\r\n").await;
            }
        };
        let config = config(2, checked(http()));
        let script = move |to| if to == endpoint(0) { Meeting::with(garbage) } else { well() };
        let stage = stage(&config, script);
        let _updates = begin(&stage, &config);
        sleep(INTERVAL * 10).await;
        assert_eq!(stage.worker.checks.failing(), 1);
        let connects = stage.connects();
        assert_eq!(connects.iter().filter(|(_, to)| *to == endpoint(1)).count(), 1);
        assert!(connects.len() > 5, "a connection that failed is not used again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_ends_under_a_check_is_no_failure() {
    on_stage(async {
        // Each answers one request, and closes with the next one.
        let once = |mut stream: DuplexStream| async move {
            let mut seen = [0; 512];
            _ = stream.read(&mut seen).await;
            _ = stream.write_all(OK).await;
            _ = stream.read(&mut seen).await;
        };
        let mut check = check(http());
        check.failures = NonZeroU8::MIN;
        let health = EndpointHealth { check: Some(Arc::new(check)), ..checked(Probe::Tcp) };
        let config = config(2, health);
        let stage = stage(&config, move |_| Meeting::with(once));
        let _updates = begin(&stage, &config);
        sleep(INTERVAL * 10).await;
        assert_eq!(stage.value("fairway_health_checks_total{result=\"failed\"}"), 0);
        assert!(stage.connects().len() > 10, "they ended");
    })
    .await;
}

/// Serves gRPC's health protocol over HTTP/2, and says this of the service `a.B`.
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
async fn grpc_is_asked_by_its_health_protocol_whatever_requests_speak() {
    on_stage(async {
        let config = config(3, checked(Probe::Grpc { service: "a.B".into() }));
        let script = |to: SocketAddr| Meeting::with(move |stream| grpc(stream, to != endpoint(0)));
        let stage = stage(&config, script);
        let _updates = begin(&stage, &config);
        sleep(INTERVAL * 6).await;
        assert_eq!(stage.worker.checks.failing(), 1, "the one that says that it does not serve");
        assert_eq!(stage.connects().len(), 3, "each connection is kept");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_endpoint_gets_more_and_more_until_it_gets_its_share() {
    on_stage(async {
        let slow = EndpointHealth { slow_start: Some(Duration::from_secs(60)), ..EndpointHealth::default() };
        let one = |count| {
            let mut config = config(count, slow.clone());
            config.settings.upstream.requests_per_connection = 1;
            config
        };
        let stage = stage(&one(1), |_| well());
        assert_eq!(asked(&stage, 1).await, [100]);
        stage.publish(&one(2));
        let early = asked(&stage, 2).await;
        sleep(Duration::from_secs(30)).await;
        let half = asked(&stage, 2).await;
        sleep(Duration::from_secs(30)).await;
        let whole = asked(&stage, 2).await;
        assert!(early[1] < 15 && (10..45).contains(&half[1]), "{early:?} {half:?}");
        assert_eq!(whole, [50, 50]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_takes_its_whole_interval_delays_no_verdict() {
    on_stage(async {
        let check = HealthCheck { timeout: INTERVAL, ..check(http()) };
        let config = config(2, EndpointHealth { check: Some(Arc::new(check)), ..checked(Probe::Tcp) });
        let stage = stage(&config, |to| if to == endpoint(0) { Meeting::Silence } else { well() });
        let _updates = begin(&stage, &config);
        // One clock's tick for each check.
        sleep(INTERVAL * 3 + Duration::from_millis(10)).await;
        assert_eq!(stage.worker.checks.failing(), 1);
    })
    .await;
}

#[test]
fn failures_and_successes_count_only_in_a_row() {
    let check = check(http());
    let mut streak = Streak::default();
    let mut after = |passed, is_out| streak.after(passed, is_out, &check);
    assert_eq!([false, false, true, false, false].map(|passed| after(passed, false)), [None; 5]);
    assert_eq!(after(false, false), Some(true));
    assert_eq!([true, false, true].map(|passed| after(passed, true)), [None; 3]);
    assert_eq!(after(true, true), Some(false));
}

#[test]
fn checks_that_were_missed_are_left_out() {
    let now = Instant::now();
    assert_eq!(next(now, INTERVAL, now + TIMEOUT), now + INTERVAL);
    assert_eq!(next(now, INTERVAL, now + INTERVAL * 3), now + INTERVAL * 3);
}
