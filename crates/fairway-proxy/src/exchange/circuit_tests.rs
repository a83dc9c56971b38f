//! Limits of a backend over all workers of a process, and its retry budget, in virtual time with two workers.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_connection::upstream::CircuitTotals;
use fairway_model::{
    AdaptiveConcurrency, Backend, BackendKey, BackendLimits, BackendProtocol, BackendTraffic, Config, Retry,
    RetryBudget, RetrySource,
};
use fairway_net::clock::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use crate::testing::{
    Client, GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, read_head, run_local,
    serve_ok,
};

const SECOND: Duration = Duration::from_secs(1);

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// One rule over a backend with this many endpoints and these traffic settings.
fn config(endpoints: usize, traffic: BackendTraffic) -> Config {
    let mut config = config_with_phases(endpoints, Vec::new());
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    config
        .backends
        .insert(backend.key.clone(), Arc::new(Backend { traffic: traffic.if_not_empty(), ..backend }));
    config
}

fn limited(requests: u32, connections: u32, pending: u32) -> BackendTraffic {
    let (requests, connections) = (NonZeroU32::new(requests), NonZeroU32::new(connections));
    let limits = BackendLimits { requests, connections, pending, ..BackendLimits::default() };
    BackendTraffic { limits: Some(limits), ..BackendTraffic::default() }
}

/// Responds to each request after `time`.
async fn serve_after(mut stream: DuplexStream, time: Duration) {
    while read_head(&mut stream).await {
        sleep(time).await;
        if stream.write_all(OK_RESPONSE).await.is_err() {
            return;
        }
    }
}

fn slow(_: SocketAddr) -> ScriptedConnect {
    ScriptedConnect::served_by(|stream| serve_after(stream, SECOND))
}

fn quick(_: SocketAddr) -> ScriptedConnect {
    ScriptedConnect::served_by(serve_ok)
}

/// A client whose request is in progress.
async fn start_request(stage: &TestWorker) -> Client {
    let mut client = stage.client();
    client.send(GET_REQUEST).await;
    sleep(millis(1)).await;
    client
}

async fn status(client: &mut Client) -> u16 {
    client.response().await.unwrap().status
}

fn under_way(stage: &TestWorker) -> CircuitTotals {
    stage.worker.circuits.totals()
}

async fn come_to_rest(stages: &[TestWorker]) {
    sleep(millis(1)).await;
    stages.iter().for_each(|stage| stage.check_idle().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_request_beyond_the_limit_is_503_at_once_on_any_worker() {
    run_local(async {
        let stages = TestWorker::two_workers(&config(2, limited(3, 0, 0)), slow);
        let mut clients = vec![
            start_request(&stages[0]).await,
            start_request(&stages[0]).await,
            start_request(&stages[1]).await,
        ];
        for stage in &stages {
            let began = Instant::now();
            let refused = start_request(stage).await.response_text().await;
            assert!(
                refused.starts_with("HTTP/1.1 503 ") && refused.contains("backend_requests_full"),
                "{refused}"
            );
            assert!(refused.contains("\r\nRetry-After: 1\r\n") && began.elapsed() < millis(5), "{refused}");
            assert_eq!(stage.metric_value("fairway_faults_total{reason=\"backend_requests_full\"}"), 1);
        }
        for client in &mut clients {
            assert_eq!(status(client).await, 200);
        }
        assert_eq!(
            stages[0].connects().len() + stages[1].connects().len(),
            3,
            "no endpoint heard of the others"
        );
        assert_eq!(
            clients[2].request(GET_REQUEST).await.unwrap().status,
            200,
            "those that are over make room"
        );
        drop(clients);
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_wait_in_order_up_to_the_limit_and_the_next_one_is_503() {
    run_local(async {
        let stages = TestWorker::two_workers(&config(1, limited(1, 0, 2)), slow);
        let began = Instant::now();
        let mut first = start_request(&stages[0]).await;
        let (mut second, mut third) = (start_request(&stages[1]).await, start_request(&stages[0]).await);
        assert_eq!((under_way(&stages[0]).requests, under_way(&stages[0]).pending), (1, 2));
        let refused = start_request(&stages[1]).await.response_text().await;
        assert!(refused.contains("backend_pending_full"), "{refused}");
        for (client, seconds) in [(&mut first, 1), (&mut second, 2), (&mut third, 3)] {
            assert_eq!(status(client).await, 200);
            assert_eq!(began.elapsed().as_secs(), seconds);
        }
        drop((first, second, third));
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_as_long_as_connecting_may_take() {
    run_local(async {
        let long = |_: SocketAddr| ScriptedConnect::served_by(|stream| serve_after(stream, SECOND * 50));
        let stages = TestWorker::two_workers(&config(1, limited(1, 0, 9)), long);
        let (_first, began) = (start_request(&stages[0]).await, Instant::now());
        let refused = start_request(&stages[1]).await.response_text().await;
        assert!(refused.contains("backend_requests_full"), "{refused}");
        assert!((5_000..5_020).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        assert_eq!(under_way(&stages[0]).pending, 0);
    })
    .await;
}

/// Counts the open connections.
struct ConnectionCounter {
    now: Cell<u32>,
    highest: Cell<u32>,
}

/// Serves until the proxy closes the connection, and counts it.
async fn counted(mut stream: DuplexStream, time: Duration, opened: &ConnectionCounter) {
    while read_head(&mut stream).await {
        tokio::select! {
            biased;
            _ = stream.read_u8() => break,
            () = sleep(time) => {}
        }
        if stream.write_all(OK_RESPONSE).await.is_err() {
            break;
        }
    }
    opened.now.set(opened.now.get() - 1);
}

/// An endpoint whose connections are counted.
fn counting(
    opened: &'static ConnectionCounter,
    time: Duration,
) -> impl Fn(SocketAddr) -> ScriptedConnect + Copy {
    move |_| {
        opened.now.set(opened.now.get() + 1);
        opened.highest.set(opened.highest.get().max(opened.now.get()));
        ScriptedConnect::served_by(move |stream| counted(stream, time, opened))
    }
}

fn opened() -> &'static ConnectionCounter {
    Box::leak(Box::new(ConnectionCounter { now: Cell::new(0), highest: Cell::new(0) }))
}

#[tokio::test(start_paused = true)]
async fn idle_connections_of_a_worker_give_way_to_requests_of_another_without_anybody_being_refused() {
    run_local(async {
        let opened = opened();
        let stages = TestWorker::two_workers(&config(3, limited(0, 3, 0)), counting(opened, millis(10)));
        for _ in 0..3 {
            let mut clients = Vec::new();
            for stage in [&stages[0], &stages[1]] {
                for _ in 0..3 {
                    clients.push(start_request(stage).await);
                }
                for client in &mut clients {
                    assert_eq!(status(client).await, 200);
                }
                clients.clear();
            }
        }
        assert_eq!(under_way(&stages[0]).connections, 3, "they are idle");
        assert!(opened.highest.get() <= 3, "{} connections", opened.highest.get());
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn where_all_connections_are_in_use_a_request_waits_if_it_may() {
    run_local(async {
        let opened = opened();
        let stages = TestWorker::two_workers(&config(2, limited(0, 2, 2)), counting(opened, SECOND));
        let began = Instant::now();
        let mut clients = Vec::new();
        for stage in [&stages[0], &stages[0], &stages[0], &stages[1]] {
            clients.push(start_request(stage).await);
        }
        let refused = start_request(&stages[1]).await.response_text().await;
        assert!(refused.contains("backend_pending_full"), "{refused}");
        for client in &mut clients {
            assert_eq!(status(client).await, 200);
        }
        assert_eq!(began.elapsed().as_secs(), 2);
        assert_eq!(opened.highest.get(), 2);
        let first = stages[0].connects().len();
        assert_eq!(
            (first, stages[1].connects().len()),
            (2, 1),
            "one goes on over a connection of its worker"
        );
        drop(clients);
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_a_request_without_a_connection_is_503() {
    run_local(async {
        let stages = TestWorker::two_workers(&config(1, limited(0, 1, 0)), slow);
        let mut first = start_request(&stages[0]).await;
        let refused = start_request(&stages[1]).await.response_text().await;
        assert!(refused.contains("backend_connections_full"), "{refused}");
        assert_eq!(status(&mut first).await, 200);
        drop(first);
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_carries_several_requests_counts_once() {
    run_local(async {
        let mut config = config(1, limited(0, 1, 0));
        let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
        let backend = Backend { protocol: BackendProtocol::H2c, ..backend };
        config.backends.insert(backend.key.clone(), Arc::new(backend));
        let h2 = |_: SocketAddr| {
            ScriptedConnect::served_by(|stream| async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    tokio::task::spawn_local(async move {
                        sleep(SECOND).await;
                        _ = respond.send_response(http::Response::new(()), true);
                    });
                }
            })
        };
        let stages = TestWorker::two_workers(&config, h2);
        let mut clients = vec![
            start_request(&stages[0]).await,
            start_request(&stages[0]).await,
            start_request(&stages[0]).await,
        ];
        assert_eq!(
            under_way(&stages[0]),
            CircuitTotals { requests: 3, connections: 1, ..CircuitTotals::default() }
        );
        let refused = start_request(&stages[1]).await.response_text().await;
        assert!(refused.contains("backend_connections_full"), "{refused}");
        for client in &mut clients {
            assert_eq!(status(client).await, 200);
        }
        assert_eq!(
            start_request(&stages[1]).await.response().await.unwrap().status,
            200,
            "it is idle, and gives way"
        );
        drop(clients);
        come_to_rest(&stages).await;
    })
    .await;
}

/// Asks for a WebSocket.
const HANDSHAKE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn switching(_: SocketAddr) -> ScriptedConnect {
    ScriptedConnect::served_by(|mut stream| async move {
        read_head(&mut stream).await;
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(switch).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
}

#[tokio::test(start_paused = true)]
async fn a_websocket_has_its_place_until_it_ends() {
    run_local(async {
        let stages = TestWorker::two_workers(&config(1, limited(1, 1, 0)), switching);
        let mut client = stages[0].client();
        client.send(HANDSHAKE).await;
        assert_eq!(status(&mut client).await, 101);
        sleep(SECOND * 10).await;
        assert_eq!(stages[1].client().request(GET_REQUEST).await.unwrap().status, 503);
        drop(client);
        come_to_rest(&stages).await;
        assert_eq!(under_way(&stages[0]), CircuitTotals::default(), "its connection is gone, too");
        let mut next = stages[1].client();
        next.send(HANDSHAKE).await;
        assert_eq!(status(&mut next).await, 101);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_makes_room_whether_its_request_waits_or_not() {
    run_local(async {
        let stages = TestWorker::two_workers(&config(1, limited(1, 1, 1)), slow);
        let first = start_request(&stages[0]).await;
        let waiting = start_request(&stages[1]).await;
        assert_eq!(under_way(&stages[0]).pending, 1);
        drop(waiting);
        sleep(millis(1)).await;
        assert_eq!(under_way(&stages[0]).pending, 0);
        let mut next = start_request(&stages[1]).await;
        let began = Instant::now();
        drop(first);
        assert_eq!(status(&mut next).await, 200);
        assert!(began.elapsed() < SECOND * 2, "it did not wait for a response that nobody gets");
        drop(next);
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_or_takes_too_long_makes_room() {
    run_local(async {
        let mut dead = config(1, limited(1, 1, 0));
        dead.settings.upstream.requests_per_connection = 1;
        type Script = fn(SocketAddr) -> ScriptedConnect;
        let cases: [(Script, u16); 5] = [
            (|_| ScriptedConnect::Refused, 502),
            (|_| ScriptedConnect::Silence, 504),
            (
                |_| ScriptedConnect::served_by(|mut stream| async move { _ = read_head(&mut stream).await }),
                502,
            ),
            (|_| ScriptedConnect::served_by(|stream| serve_after(stream, SECOND * 100)), 504),
            (quick, 200),
        ];
        for (script, expected) in cases {
            let stages = TestWorker::two_workers(&dead, script);
            for stage in [&stages[0], &stages[1], &stages[0]] {
                assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, expected);
                sleep(millis(1)).await;
            }
            come_to_rest(&stages).await;
            assert_eq!(under_way(&stages[0]), CircuitTotals::default(), "{expected}");
        }
    })
    .await;
}

/// An endpoint whose every other connection closes after the request head; the others respond after a while.
fn every_other(connects: &'static Cell<u32>) -> impl Fn(SocketAddr) -> ScriptedConnect + Copy {
    move |_| {
        connects.set(connects.get() + 1);
        match connects.get() % 2 {
            1 => ScriptedConnect::served_by(|mut stream| async move { _ = read_head(&mut stream).await }),
            _ => ScriptedConnect::served_by(|stream| serve_after(stream, SECOND)),
        }
    }
}

fn counter() -> &'static Cell<u32> {
    Box::leak(Box::new(Cell::new(0)))
}

const REFUSED_RETRIES_METRIC: &str = "fairway_upstream_retries_refused_total";

#[tokio::test(start_paused = true)]
async fn as_many_requests_are_tried_again_as_may_and_another_one_fails() {
    run_local(async {
        let limits = BackendLimits { retries: Some(1), ..BackendLimits::default() };
        let retry = Retry { tries: 3, by: RetrySource::Route, ..Retry::default() };
        let traffic =
            BackendTraffic { limits: Some(limits), retry: Some(retry), ..BackendTraffic::default() };
        let mut config = config(4, traffic);
        config.settings.upstream.requests_per_connection = 1;
        let stages = TestWorker::two_workers(&config, every_other(counter()));
        let mut first = start_request(&stages[0]).await;
        assert_eq!(under_way(&stages[1]).retries, 1);
        assert_eq!(stages[1].client().request(GET_REQUEST).await.unwrap().status, 502);
        assert_eq!(stages[1].metric_value(&format!("{REFUSED_RETRIES_METRIC}{{reason=\"limit\"}}")), 1);
        assert_eq!(status(&mut first).await, 200);
        drop(first);
        come_to_rest(&stages).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_has_its_own_budget_for_retries_also_where_the_route_needs_none() {
    run_local(async {
        let retry_budget = Some(RetryBudget { percent: 0, per_second: 2 });
        let retry = Some(Retry { tries: 2, by: RetrySource::Route, ..Retry::default() });
        let mut config = config(2, BackendTraffic { retry_budget, retry, ..BackendTraffic::default() });
        config.settings.upstream.requests_per_connection = 1;
        let stage = TestWorker::with_config(&config, |_| {
            ScriptedConnect::served_by(|mut stream| async move { _ = read_head(&mut stream).await })
        });
        let mut client = stage.client();
        for made in [2, 4, 5, 6] {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 502);
            assert_eq!(stage.connects().len(), made);
        }
        assert_eq!(stage.metric_value(&format!("{REFUSED_RETRIES_METRIC}{{reason=\"budget\"}}")), 2);
        let mut other = config.clone();
        let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
        let balancing = fairway_model::Balancing::Random;
        other.backends.insert(backend.key.clone(), Arc::new(Backend { balancing, ..backend }));
        stage.publish(&other);
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 502);
        assert_eq!(stage.connects().len(), 7, "a change of something else gives no new budget");
        sleep(SECOND).await;
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 502);
        assert_eq!(stage.connects().len(), 9);
    })
    .await;
}

/// Clients of two workers connect, wait and leave in an order that the seed determines.
async fn run_seed(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (requests, connections, pending) = (random.u32(0..4), random.u32(1..4), random.u32(0..4));
    let most_awaiting = random.u32(1..4);
    let opened = opened();
    let mut traffic = limited(requests, connections, pending);
    if let Some(limits) = &mut traffic.limits {
        let maximum = NonZeroU32::new(most_awaiting).unwrap();
        limits.concurrency = Some(AdaptiveConcurrency { minimum: NonZeroU32::MIN, maximum });
    }
    let config = config(random.usize(1..4), traffic);
    let stages = TestWorker::two_workers(&config, counting(opened, millis(20)));
    let mut clients = Vec::new();
    for _ in 0..200 {
        match random.u32(..10) {
            0..6 => {
                let mut client = stages[random.usize(..2)].client();
                client.send(GET_REQUEST).await;
                clients.push(client);
            }
            6..8 if !clients.is_empty() => drop(clients.swap_remove(random.usize(..clients.len()))),
            _ => sleep(millis(random.u64(..30))).await,
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let now = under_way(&stages[0]);
        assert!(requests == 0 || now.requests <= requests.into(), "seed {seed}: {now:?}");
        assert!(now.awaiting <= most_awaiting.into(), "seed {seed}: {now:?}");
        assert!(
            now.connections <= connections.into() && now.pending <= pending.into(),
            "seed {seed}: {now:?}"
        );
        assert!(opened.now.get() <= connections, "seed {seed}: {} connections", opened.now.get());
    }
    for mut client in clients {
        let response = client.response().await.unwrap();
        assert!([200, 503].contains(&response.status), "seed {seed}: {}", response.status);
    }
    sleep(millis(1)).await;
    for stage in &stages {
        stage.check_idle().unwrap_or_else(|left| panic!("seed {seed}: {left}"));
        let response = stage.client().request(GET_REQUEST).await.unwrap();
        assert_eq!(response.status, 200, "seed {seed}: there is room again");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_are_never_exceeded_and_all_permits_return() {
    for seed in 0..100 {
        run_local(run_seed(seed)).await;
    }
}
