//! Forwarded connections, without sockets and in virtual time.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_connection::upstream::CircuitTotals;
use fairway_model::{
    Backend, BackendKey, BackendLimits, BackendTraffic, Config, HostKey, HostPattern, Listener,
    ListenerProtocol, Origin, Retry, RetrySource, StreamKey, StreamPolicy, StreamRoute, VirtualHost,
    WeightedBackend,
};
use fairway_net::clock::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use super::{StreamPeer, serve};
use crate::listener::ListenerId;
use crate::options::Limits;
use crate::testing::{ScriptedConnect, TestWorker, config_with_phases, endpoint, run_local};
use crate::worker::{OpenConnection, StopPhase};

const PIPE_BYTES: usize = 64 * 1024;

/// First bytes that each client sends.
const FIRST_BYTES: &[u8] = b"hello ";

fn config(endpoints: usize, weight: u32) -> Config {
    let mut config = config_with_phases(endpoints, Vec::new());
    let listener = Listener::new("streams", ListenerProtocol::TlsPassthrough, 443, "streams");
    config.listeners.insert("streams".into(), Arc::new(listener));
    let key = StreamKey { table: "streams".into(), host: HostPattern::Any };
    let backends = vec![WeightedBackend::new("backend".into(), weight)];
    let route = StreamRoute {
        key: key.clone(),
        origin: Origin::default(),
        backends,
        policy: StreamPolicy::default(),
    };
    config.streams.insert(key, Arc::new(route));
    config
}

/// A configuration with an HTTPS listener that passes one host through.
fn host_config() -> Config {
    let mut config = config(1, 1);
    let (table, name): (Arc<str>, _) = ("streams".into(), HostPattern::Exact("a.test".into()));
    let listener = Listener::new("streams", ListenerProtocol::Https, 443, "streams");
    config.listeners.insert("streams".into(), Arc::new(listener));
    let (_, route) = config.streams.remove_with_key(&any_host(&table)).expect("it is there");
    let key = StreamKey { table: table.clone(), host: name.clone() };
    config.streams.insert(key.clone(), Arc::new(StreamRoute { key, ..(*route).clone() }));
    let key = HostKey { table, host: name };
    let host = config.hosts.values().next().expect("it has one");
    let host = VirtualHost { key: key.clone(), ..(**host).clone() };
    config.hosts.insert(key, Arc::new(host));
    config
}

fn any_host(table: &Arc<str>) -> StreamKey {
    StreamKey { table: table.clone(), host: HostPattern::Any }
}

/// A new client and the task that serves it.
fn client(stage: &TestWorker) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = duplex(PIPE_BYTES);
    // `http` is the first one by name.
    let listener = ListenerId { slot: 1, generation: 1 };
    let name = Some("a.test".into());
    let peer = StreamPeer {
        listener,
        client: endpoint(1),
        server: None,
        name,
        last_forwarding_version: Cell::new(0),
        _slot: None,
    };
    (theirs, spawn_local(serve(OpenConnection::new(&stage.worker), peer, ours, FIRST_BYTES.to_vec())))
}

async fn serve_echo(mut stream: DuplexStream) {
    let mut bytes = [0; 1_024];
    loop {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(count) => stream.write_all(&bytes[..count]).await.expect("the proxy reads"),
        }
    }
}

/// Neither reads nor sends.
async fn serve_nothing(stream: DuplexStream) {
    let _open = stream;
    std::future::pending::<()>().await;
}

fn ended_streams(stage: &TestWorker, reason: &str) -> u64 {
    stage.metric_value(&format!("fairway_streams_ended_total{{reason=\"{reason}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_and_each_direction_ends_independently() {
    run_local(async {
        let stage = TestWorker::with_config(&config(1, 1), |_| ScriptedConnect::served_by(serve_echo));
        let (mut client, serving) = client(&stage);
        client.write_all(b"world").await.unwrap();
        let mut buffer = [0; 11];
        client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"hello world");
        assert_eq!((stage.metric_value("fairway_streams_open"), ended_streams(&stage, "closed")), (1, 0));
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut buffer).await.unwrap(), 0, "the endpoint ends when it has heard of it");
        serving.await.unwrap();
        assert_eq!((stage.metric_value("fairway_streams_open"), ended_streams(&stage, "closed")), (0, 1));
        assert_eq!(stage.metric_value("fairway_stream_received_bytes_total"), 11);
        assert_eq!(stage.metric_value("fairway_stream_sent_bytes_total"), 11);
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_endpoint_is_tried_while_connecting_fails() {
    run_local(async {
        let stage = TestWorker::with_config(&config(3, 1), |address| match address.port() {
            0 => ScriptedConnect::Refused,
            1 => ScriptedConnect::Silence,
            _ => ScriptedConnect::served_by(serve_echo),
        });
        let began = Instant::now();
        let (mut client, _serving) = client(&stage);
        let mut buffer = [0; 6];
        client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, FIRST_BYTES);
        let ports: Vec<_> = stage.connects().iter().map(|(_, address)| address.port()).collect();
        assert_eq!((ports, began.elapsed().as_millis()), (vec![0, 1, 2], 250), "the second one is only late");
        assert_eq!(stage.metric_value("fairway_upstream_retries_total"), 1);
        assert_eq!(stage.metric_value("fairway_upstream_hedges_total{outcome=\"won\"}"), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_an_endpoint_ends() {
    run_local(async {
        for (endpoints, weight, reason) in
            [(2, 1, "connect_failed"), (0, 1, "no_endpoint"), (1, 0, "no_backend")]
        {
            let stage = TestWorker::with_config(&config(endpoints, weight), |_| ScriptedConnect::Refused);
            let (mut client, serving) = client(&stage);
            serving.await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(ended_streams(&stage, reason), 1, "{reason}");
            stage.check_idle().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_idle_for_an_hour_ends_and_any_byte_restarts_the_hour() {
    run_local(async {
        let stage = TestWorker::with_config(&config(1, 1), |_| ScriptedConnect::served_by(serve_echo));
        let (mut client, serving) = client(&stage);
        let mut buffer = [0; 7];
        sleep(Duration::from_secs(3_599)).await;
        client.write_all(b"!").await.unwrap();
        client.read_exact(&mut buffer).await.unwrap();
        let last = Instant::now();
        serving.await.unwrap();
        assert_eq!((last.elapsed().as_secs(), ended_streams(&stage, "idle")), (3_600, 1));
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_side_stops_the_other() {
    run_local(async {
        let written = Rc::new(Cell::new(0));
        let by_endpoint = Rc::clone(&written);
        let stage = TestWorker::with_config(&config(1, 1), move |_| {
            let written = Rc::clone(&by_endpoint);
            ScriptedConnect::served_by(move |mut stream| async move {
                while let Ok(count) = stream.write(&[7; 4_096]).await {
                    written.set(written.get() + count);
                }
            })
        });
        let (mut client, _serving) = client(&stage);
        sleep(Duration::from_secs(60)).await;
        let written_bytes = written.get();
        // Two pipes and the proxy's own buffer.
        assert!((2 * PIPE_BYTES..=3 * PIPE_BYTES + 4_096).contains(&written_bytes), "{written_bytes}");
        let mut all = vec![0; 10 * PIPE_BYTES];
        client.read_exact(&mut all).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 7) && written.get() > written_bytes);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn streams_of_a_name_no_longer_passed_through_get_the_drain_timeout() {
    run_local(async {
        let stage = TestWorker::with_config(&host_config(), |_| ScriptedConnect::served_by(serve_echo));
        let (mut client, serving) = client(&stage);
        let mut buffer = [0; 6];
        client.read_exact(&mut buffer).await.unwrap();
        let mut unrelated = host_config();
        unrelated.settings.workers = Some(3);
        stage.publish(&unrelated);
        sleep(Duration::from_secs(300)).await;
        client.write_all(b"still!").await.unwrap();
        client.read_exact(&mut buffer).await.unwrap();
        let mut without = host_config();
        without.streams.clear();
        stage.publish(&without);
        let gone = Instant::now();
        serving.await.unwrap();
        assert_eq!((gone.elapsed().as_secs(), ended_streams(&stage, "drained")), (240, 1));
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn streams_of_a_removed_listener_get_the_drain_timeout() {
    run_local(async {
        let stage = TestWorker::with_config(&config(1, 1), |_| ScriptedConnect::served_by(serve_echo));
        let (mut client, serving) = client(&stage);
        let mut buffer = [0; 6];
        client.read_exact(&mut buffer).await.unwrap();
        let mut without = config(1, 1);
        without.listeners.remove("streams");
        stage.publish(&without);
        let gone = Instant::now();
        sleep(Duration::from_secs(100)).await;
        client.write_all(b"still!").await.unwrap();
        client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"still!");
        serving.await.unwrap();
        assert_eq!((gone.elapsed().as_secs(), ended_streams(&stage, "drained")), (240, 1));
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_endpoint_is_closed() {
    run_local(async {
        let vanished = Rc::new(Cell::new(false));
        let watched = Rc::clone(&vanished);
        let stage =
            TestWorker::with_config(&config(2, 1), move |_| ScriptedConnect::vanishing(&watched, serve_echo));
        let (mut client, serving) = client(&stage);
        let mut buffer = [0; 6];
        client.read_exact(&mut buffer).await.unwrap();
        vanished.set(true);
        let began = Instant::now();
        client.write_all(b"anybody").await.unwrap();
        serving.await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert_eq!(ended_streams(&stage, "upstream_unreachable"), 1);
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 1);
        stage.check_idle().unwrap();
    })
    .await;
}

/// Reads everything and sends nothing.
async fn serve_reads(mut stream: DuplexStream) {
    let mut bytes = [0; 1_024];
    while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_only_reads_passes_its_probe() {
    run_local(async {
        let refuses = Rc::new(Cell::new(true));
        let refusals = Rc::clone(&refuses);
        let stage = TestWorker::with_config(&config(2, 1), move |address| {
            match address.port() == 0 && refusals.get() {
                true => ScriptedConnect::Refused,
                false => ScriptedConnect::served_by(serve_reads),
            }
        });
        let mut clients = vec![client(&stage)];
        sleep(Duration::from_millis(500)).await;
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 1);
        refuses.set(false);
        for _ in 0..8 {
            sleep(Duration::from_secs(1)).await;
            clients.push(client(&stage));
        }
        sleep(Duration::from_secs(1)).await;
        let of_the_first = stage.connects().iter().filter(|(_, address)| address.port() == 0).count();
        assert_eq!(of_the_first, 5, "one was refused, one was the probe, and then it has its turn");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn datagram_sessions_leave_room_for_connections() {
    run_local(async {
        let limits = Limits { descriptors: Some(64), ..Limits::default() };
        let stage = TestWorker::with_limits(limits, 1, |_, _| {}, |_| ScriptedConnect::Refused);
        let mut sessions = Vec::new();
        while let Some(session) = stage.worker.start_session() {
            stage.worker.counters.datagrams.opened();
            sessions.push(session);
        }
        assert_eq!((sessions.len(), stage.worker.has_room_for_a_client()), (8, true));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_leaving_client_ends_its_upstream_connection() {
    run_local(async {
        let stage = TestWorker::with_config(&config(1, 1), |_| ScriptedConnect::served_by(serve_nothing));
        let (client, serving) = client(&stage);
        sleep(Duration::from_secs(1)).await;
        assert!(!serving.is_finished());
        assert_eq!(stage.metric_value("fairway_streams_open"), 1);
        drop(client);
        // It looks like a client that only ends its direction, and the endpoint sends nothing: the timeout ends
        // it.
        serving.await.unwrap();
        assert_eq!(stage.metric_value("fairway_streams_open"), 0);
        stage.check_idle().unwrap();
    })
    .await;
}

/// The configuration with these traffic settings of the backend.
fn with_traffic(mut config: Config, traffic: BackendTraffic) -> Config {
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    config
        .backends
        .insert(backend.key.clone(), Arc::new(Backend { traffic: traffic.if_not_empty(), ..backend }));
    config
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_endpoint_limit_are_closed_until_one_ends() {
    run_local(async {
        let traffic = BackendTraffic { in_flight: NonZeroU32::new(1), ..BackendTraffic::default() };
        let stage = TestWorker::with_config(&with_traffic(config(2, 1), traffic), |_| {
            ScriptedConnect::served_by(serve_echo)
        });
        let mut buffer = [0; 6];
        let (mut first, mut second) = (client(&stage), client(&stage));
        first.0.read_exact(&mut buffer).await.unwrap();
        second.0.read_exact(&mut buffer).await.unwrap();
        let (mut third, serving) = client(&stage);
        serving.await.unwrap();
        assert_eq!(third.read(&mut buffer).await.unwrap(), 0);
        assert_eq!((ended_streams(&stage, "endpoints_full"), stage.connects().len()), (1, 2));
        let (second, serving) = second;
        drop(second);
        serving.await.unwrap();
        let (mut fourth, _serving) = client(&stage);
        fourth.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, FIRST_BYTES);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_counts_for_all_workers_until_it_ends() {
    run_local(async {
        let limit = NonZeroU32::new(1);
        for (requests, connections, reason) in
            [(limit, None, "backend_requests_full"), (None, limit, "backend_connections_full")]
        {
            let limits = BackendLimits { requests, connections, pending: 9, ..BackendLimits::default() };
            let traffic = BackendTraffic { limits: Some(limits), ..BackendTraffic::default() };
            let stages = TestWorker::two_workers(&with_traffic(config(2, 1), traffic), |_| {
                ScriptedConnect::served_by(serve_echo)
            });
            let (held, serving) = client(&stages[0]);
            sleep(Duration::from_millis(1)).await;
            let (_refused, other) = client(&stages[1]);
            other.await.unwrap();
            assert_eq!(ended_streams(&stages[1], reason), 1, "it does not wait");
            drop(held);
            serving.await.unwrap();
            assert_eq!(stages[0].worker.circuits.totals(), CircuitTotals::default());
            let (mut next, _serving) = client(&stages[1]);
            next.write_all(b"world").await.unwrap();
            let mut buffer = [0; 11];
            next.read_exact(&mut buffer).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_sets_how_many_endpoints_are_tried() {
    run_local(async {
        let once = Retry { tries: 1, ..Retry::default() };
        let pausing = Retry { tries: 2, backoff: Duration::from_secs(1), by: RetrySource::Route, ..once };
        // The time for all connects would have passed.
        let too_long = Retry { backoff: Duration::from_secs(5), ..pausing };
        for (retry, connects, seconds) in [(once, 1, 0), (pausing, 2, 1), (too_long, 1, 0)] {
            let traffic = BackendTraffic { retry: Some(retry), ..BackendTraffic::default() };
            let stage =
                TestWorker::with_config(&with_traffic(config(3, 1), traffic), |_| ScriptedConnect::Refused);
            let began = Instant::now();
            client(&stage).1.await.unwrap();
            assert_eq!((stage.connects().len(), began.elapsed().as_secs()), (connects, seconds));
            stage.check_idle().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_sets_the_idle_timeout_of_its_streams() {
    run_local(async {
        let mut config = config(1, 1);
        let mut listener = Listener::clone(&config.listeners["streams"]);
        listener.clients.idle_timeout = Some(Duration::from_secs(7));
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
        let stage = TestWorker::with_config(&config, |_| ScriptedConnect::served_by(serve_echo));
        let began = Instant::now();
        let (_client, serving) = client(&stage);
        serving.await.unwrap();
        assert_eq!((began.elapsed().as_secs(), ended_streams(&stage, "idle")), (7, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_connecting_leaves_no_state() {
    run_local(async {
        let stage = TestWorker::with_config(&config(2, 1), |_| ScriptedConnect::Silence);
        let (mut client, serving) = client(&stage);
        client.write_all(b"early").await.unwrap();
        // Long enough to try the second endpoint as well.
        sleep(Duration::from_millis(400)).await;
        assert!(!serving.is_finished());
        let left_at = Instant::now();
        drop(client);
        serving.await.unwrap();
        assert!(left_at.elapsed() < Duration::from_millis(10), "{:?}", left_at.elapsed());
        assert_eq!((stage.connects().len(), ended_streams(&stage, "client_gone")), (2, 1));
        assert_eq!(stage.metric_value("fairway_stream_received_bytes_total"), 11);
        stage.check_idle().unwrap();
    })
    .await;
}

/// A configuration with one endpoint for cleartext connections.
fn cleartext_config() -> Config {
    let mut config = config(1, 1);
    let listener = Listener::new("streams", ListenerProtocol::Tcp, 443, "streams");
    config.listeners.insert("streams".into(), Arc::new(listener));
    config
}

#[tokio::test(start_paused = true)]
async fn data_sent_while_connecting_arrives_even_after_a_half_close() {
    run_local(async {
        let stage = TestWorker::with_config(&cleartext_config(), |_| {
            ScriptedConnect::served_after(Duration::from_millis(200), serve_echo)
        });
        let (mut client, serving) = client(&stage);
        client.write_all(b"world").await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"hello world");
        serving.await.unwrap();
        assert_eq!(ended_streams(&stage, "closed"), 1);
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connecting_stream_gets_the_drain_timeout() {
    run_local(async {
        let mut config = config(1, 1);
        let route = StreamRoute::clone(config.streams.values().next().unwrap());
        let policy = StreamPolicy { connect_timeout: Some(Duration::from_secs(3_600)), ..route.policy };
        config.streams.insert(route.key.clone(), Arc::new(StreamRoute { policy, ..route }));
        let stage = TestWorker::with_config(&config, |_| ScriptedConnect::Silence);
        let (_client, serving) = client(&stage);
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        stage.worker.enter_phase(StopPhase::Draining);
        serving.await.unwrap();
        assert_eq!((began.elapsed().as_secs(), ended_streams(&stage, "drained")), (240, 1));
        stage.check_idle().unwrap();
    })
    .await;
}
