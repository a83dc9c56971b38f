//! Connections that are forwarded as they come, without sockets and in virtual time.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_connection::upstream::UnderWay;
use fairway_model::{
    Backend, BackendKey, BackendLimits, BackendTraffic, Config, HostKey, HostPattern, Listener,
    ListenerProtocol, Origin, Retry, RetryBy, StreamKey, StreamPolicy, StreamRoute, VirtualHost,
    WeightedBackend,
};
use fairway_net::clock::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use super::{StreamPeer, serve};
use crate::listener::ListenerId;
use crate::options::Limits;
use crate::testing::{Meeting, Stage, endpoint, filtered, on_stage};
use crate::worker::{Open, Phase};

const PIPE: usize = 64 * 1024;

/// What is ahead of everything else that a client sends.
const AHEAD: &[u8] = b"hello ";

fn config(endpoints: usize, weight: u32) -> Config {
    let mut config = filtered(endpoints, Vec::new());
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

/// The same by a listener of HTTPS, one host of which is passed through.
fn host_config() -> Config {
    let mut config = config(1, 1);
    let (table, name): (Arc<str>, _) = ("streams".into(), HostPattern::Exact("a.test".into()));
    let listener = Listener::new("streams", ListenerProtocol::Https, 443, "streams");
    config.listeners.insert("streams".into(), Arc::new(listener));
    let (_, route) = config.streams.remove_with_key(&any(&table)).expect("it is there");
    let key = StreamKey { table: table.clone(), host: name.clone() };
    config.streams.insert(key.clone(), Arc::new(StreamRoute { key, ..(*route).clone() }));
    let key = HostKey { table, host: name };
    let host = config.hosts.values().next().expect("it has one");
    let host = VirtualHost { key: key.clone(), ..(**host).clone() };
    config.hosts.insert(key, Arc::new(host));
    config
}

fn any(table: &Arc<str>) -> StreamKey {
    StreamKey { table: table.clone(), host: HostPattern::Any }
}

/// A client that has just connected, and what serves it.
fn client(stage: &Stage) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = duplex(PIPE);
    // `http` is the first one by name.
    let listener = ListenerId { slot: 1, generation: 1 };
    let name = Some("a.test".into());
    let peer = StreamPeer {
        listener,
        client: endpoint(1),
        server: None,
        name,
        forwarded_by: Cell::new(0),
        _place: None,
    };
    (theirs, spawn_local(serve(Open::new(&stage.worker), peer, ours, AHEAD.to_vec())))
}

async fn echoing(mut stream: DuplexStream) {
    let mut bytes = [0; 1_024];
    loop {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(count) => stream.write_all(&bytes[..count]).await.expect("the proxy reads"),
        }
    }
}

/// Reads nothing and says nothing.
async fn idling(stream: DuplexStream) {
    let _open = stream;
    std::future::pending::<()>().await;
}

fn ended(stage: &Stage, reason: &str) -> u64 {
    stage.value(&format!("fairway_streams_ended_total{{reason=\"{reason}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_and_each_side_ends_its_own_direction() {
    on_stage(async {
        let stage = Stage::serving(&config(1, 1), |_| Meeting::with(echoing));
        let (mut client, serving) = client(&stage);
        client.write_all(b"world").await.unwrap();
        let mut seen = [0; 11];
        client.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"hello world");
        assert_eq!((stage.value("fairway_streams_open"), ended(&stage, "closed")), (1, 0));
        client.shutdown().await.unwrap();
        assert_eq!(client.read(&mut seen).await.unwrap(), 0, "the endpoint ends when it has heard of it");
        serving.await.unwrap();
        assert_eq!((stage.value("fairway_streams_open"), ended(&stage, "closed")), (0, 1));
        assert_eq!(stage.value("fairway_stream_received_bytes_total"), 11);
        assert_eq!(stage.value("fairway_stream_sent_bytes_total"), 11);
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_endpoint_is_tried_while_connecting_fails() {
    on_stage(async {
        let stage = Stage::serving(&config(3, 1), |address| match address.port() {
            0 => Meeting::Refused,
            1 => Meeting::Silence,
            _ => Meeting::with(echoing),
        });
        let began = Instant::now();
        let (mut client, _serving) = client(&stage);
        let mut seen = [0; 6];
        client.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, AHEAD);
        let ports: Vec<_> = stage.connects().iter().map(|(_, address)| address.port()).collect();
        assert_eq!((ports, began.elapsed().as_millis()), (vec![0, 1, 2], 250), "the second one is only late");
        assert_eq!(stage.value("fairway_upstream_retries_total"), 1);
        assert_eq!(stage.value("fairway_upstream_hedges_total{outcome=\"won\"}"), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_an_endpoint_ends() {
    on_stage(async {
        for (endpoints, weight, reason) in
            [(2, 1, "connect_failed"), (0, 1, "no_endpoint"), (1, 0, "no_backend")]
        {
            let stage = Stage::serving(&config(endpoints, weight), |_| Meeting::Refused);
            let (mut client, serving) = client(&stage);
            serving.await.unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(ended(&stage, reason), 1, "{reason}");
            stage.at_rest().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_idle_for_an_hour_ends_and_any_byte_begins_the_hour_anew() {
    on_stage(async {
        let stage = Stage::serving(&config(1, 1), |_| Meeting::with(echoing));
        let (mut client, serving) = client(&stage);
        let mut seen = [0; 7];
        sleep(Duration::from_secs(3_599)).await;
        client.write_all(b"!").await.unwrap();
        client.read_exact(&mut seen).await.unwrap();
        let last = Instant::now();
        serving.await.unwrap();
        assert_eq!((last.elapsed().as_secs(), ended(&stage, "idle")), (3_600, 1));
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_side_that_takes_nothing_stops_the_other() {
    on_stage(async {
        let written = Rc::new(Cell::new(0));
        let by_endpoint = Rc::clone(&written);
        let stage = Stage::serving(&config(1, 1), move |_| {
            let written = Rc::clone(&by_endpoint);
            Meeting::with(move |mut stream| async move {
                while let Ok(count) = stream.write(&[7; 4_096]).await {
                    written.set(written.get() + count);
                }
            })
        });
        let (mut client, _serving) = client(&stage);
        sleep(Duration::from_secs(60)).await;
        let held = written.get();
        // Two pipes, and what the proxy holds itself.
        assert!((2 * PIPE..=3 * PIPE + 4_096).contains(&held), "{held}");
        let mut all = vec![0; 10 * PIPE];
        client.read_exact(&mut all).await.unwrap();
        assert!(all.iter().all(|byte| *byte == 7) && written.get() > held);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_longer_passed_through_leaves_its_streams_the_time_of_a_drain() {
    on_stage(async {
        let stage = Stage::serving(&host_config(), |_| Meeting::with(echoing));
        let (mut client, serving) = client(&stage);
        let mut seen = [0; 6];
        client.read_exact(&mut seen).await.unwrap();
        let mut unrelated = host_config();
        unrelated.settings.workers = Some(3);
        stage.publish(&unrelated);
        sleep(Duration::from_secs(300)).await;
        client.write_all(b"still!").await.unwrap();
        client.read_exact(&mut seen).await.unwrap();
        let mut without = host_config();
        without.streams.clear();
        stage.publish(&without);
        let gone = Instant::now();
        serving.await.unwrap();
        assert_eq!((gone.elapsed().as_secs(), ended(&stage, "drained")), (240, 1));
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_goes_leaves_its_streams_the_time_of_a_drain() {
    on_stage(async {
        let stage = Stage::serving(&config(1, 1), |_| Meeting::with(echoing));
        let (mut client, serving) = client(&stage);
        let mut seen = [0; 6];
        client.read_exact(&mut seen).await.unwrap();
        let mut without = config(1, 1);
        without.listeners.remove("streams");
        stage.publish(&without);
        let gone = Instant::now();
        sleep(Duration::from_secs(100)).await;
        client.write_all(b"still!").await.unwrap();
        client.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, b"still!");
        serving.await.unwrap();
        assert_eq!((gone.elapsed().as_secs(), ended(&stage, "drained")), (240, 1));
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_vanishes_is_given_up() {
    on_stage(async {
        let vanished = Rc::new(Cell::new(false));
        let watched = Rc::clone(&vanished);
        let stage = Stage::serving(&config(2, 1), move |_| Meeting::mortal(&watched, echoing));
        let (mut client, serving) = client(&stage);
        let mut seen = [0; 6];
        client.read_exact(&mut seen).await.unwrap();
        vanished.set(true);
        let began = Instant::now();
        client.write_all(b"anybody").await.unwrap();
        serving.await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert_eq!(ended(&stage, "upstream_unreachable"), 1);
        assert_eq!(stage.value("fairway_upstream_ejections_total"), 1);
        stage.at_rest().unwrap();
    })
    .await;
}

/// Takes everything and says nothing.
async fn reading(mut stream: DuplexStream) {
    let mut bytes = [0; 1_024];
    while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_takes_everything_and_answers_nothing_is_back_after_its_probe() {
    on_stage(async {
        let refuses = Rc::new(Cell::new(true));
        let asked = Rc::clone(&refuses);
        let stage = Stage::serving(&config(2, 1), move |address| match address.port() == 0 && asked.get() {
            true => Meeting::Refused,
            false => Meeting::with(reading),
        });
        let mut clients = vec![client(&stage)];
        sleep(Duration::from_millis(500)).await;
        assert_eq!(stage.value("fairway_upstream_ejections_total"), 1);
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
async fn sessions_of_datagrams_leave_room_for_connections() {
    on_stage(async {
        let limits = Limits { descriptors: Some(64), ..Limits::default() };
        let stage = Stage::within(limits, 1, |_, _| {}, |_| Meeting::Refused);
        let mut sessions = Vec::new();
        while let Some(session) = stage.worker.begin_session() {
            stage.worker.counters.datagrams.opened();
            sessions.push(session);
        }
        assert_eq!((sessions.len(), stage.worker.has_room_for_a_client()), (8, true));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_takes_its_endpoint_with_it() {
    on_stage(async {
        let stage = Stage::serving(&config(1, 1), |_| Meeting::with(idling));
        let (client, serving) = client(&stage);
        sleep(Duration::from_secs(1)).await;
        assert!(!serving.is_finished());
        assert_eq!(stage.value("fairway_streams_open"), 1);
        drop(client);
        // It cannot be told from a client that only ends its direction, and the endpoint says nothing: time ends it.
        serving.await.unwrap();
        assert_eq!(stage.value("fairway_streams_open"), 0);
        stage.at_rest().unwrap();
    })
    .await;
}

/// The same configuration, whose backend has this traffic.
fn with_traffic(mut config: Config, traffic: BackendTraffic) -> Config {
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    config.backends.insert(backend.key.clone(), Arc::new(Backend { traffic: traffic.kept(), ..backend }));
    config
}

#[tokio::test(start_paused = true)]
async fn a_connection_too_many_for_every_endpoint_is_closed_and_one_that_ends_makes_room() {
    on_stage(async {
        let traffic = BackendTraffic { in_flight: NonZeroU32::new(1), ..BackendTraffic::default() };
        let stage = Stage::serving(&with_traffic(config(2, 1), traffic), |_| Meeting::with(echoing));
        let mut seen = [0; 6];
        let (mut first, mut second) = (client(&stage), client(&stage));
        first.0.read_exact(&mut seen).await.unwrap();
        second.0.read_exact(&mut seen).await.unwrap();
        let (mut third, serving) = client(&stage);
        serving.await.unwrap();
        assert_eq!(third.read(&mut seen).await.unwrap(), 0);
        assert_eq!((ended(&stage, "endpoints_full"), stage.connects().len()), (1, 2));
        let (second, serving) = second;
        drop(second);
        serving.await.unwrap();
        let (mut fourth, _serving) = client(&stage);
        fourth.read_exact(&mut seen).await.unwrap();
        assert_eq!(&seen, AHEAD);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_its_places_among_those_of_all_workers_until_it_ends() {
    on_stage(async {
        let one = NonZeroU32::new(1);
        for (requests, connections, reason) in
            [(one, None, "backend_requests_full"), (None, one, "backend_connections_full")]
        {
            let limits = BackendLimits { requests, connections, pending: 9, ..BackendLimits::default() };
            let traffic = BackendTraffic { limits: Some(limits), ..BackendTraffic::default() };
            let stages = Stage::two_workers(&with_traffic(config(2, 1), traffic), |_| Meeting::with(echoing));
            let (held, serving) = client(&stages[0]);
            sleep(Duration::from_millis(1)).await;
            let (_refused, other) = client(&stages[1]);
            other.await.unwrap();
            assert_eq!(ended(&stages[1], reason), 1, "it does not wait");
            drop(held);
            serving.await.unwrap();
            assert_eq!(stages[0].worker.circuits.under_way(), UnderWay::default());
            let (mut next, _serving) = client(&stages[1]);
            next.write_all(b"world").await.unwrap();
            let mut seen = [0; 11];
            next.read_exact(&mut seen).await.unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_says_how_many_endpoints_are_tried() {
    on_stage(async {
        let once = Retry { tries: 1, ..Retry::default() };
        let pausing = Retry { tries: 2, backoff: Duration::from_secs(1), by: RetryBy::Route, ..once };
        // The time for all connects would be over.
        let too_long = Retry { backoff: Duration::from_secs(5), ..pausing };
        for (retry, connects, seconds) in [(once, 1, 0), (pausing, 2, 1), (too_long, 1, 0)] {
            let traffic = BackendTraffic { retry: Some(retry), ..BackendTraffic::default() };
            let stage = Stage::serving(&with_traffic(config(3, 1), traffic), |_| Meeting::Refused);
            let began = Instant::now();
            client(&stage).1.await.unwrap();
            assert_eq!((stage.connects().len(), began.elapsed().as_secs()), (connects, seconds));
            stage.at_rest().unwrap();
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_says_how_long_its_streams_may_be_idle() {
    on_stage(async {
        let mut config = config(1, 1);
        let mut listener = Listener::clone(&config.listeners["streams"]);
        listener.clients.idle_timeout = Some(Duration::from_secs(7));
        config.listeners.insert(listener.name.clone(), Arc::new(listener));
        let stage = Stage::serving(&config, |_| Meeting::with(echoing));
        let began = Instant::now();
        let (_client, serving) = client(&stage);
        serving.await.unwrap();
        assert_eq!((began.elapsed().as_secs(), ended(&stage, "idle")), (7, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_it_has_an_endpoint_leaves_nothing_behind() {
    on_stage(async {
        let stage = Stage::serving(&config(2, 1), |_| Meeting::Silence);
        let (mut client, serving) = client(&stage);
        client.write_all(b"early").await.unwrap();
        // Long enough for the second endpoint to be tried as well.
        sleep(Duration::from_millis(400)).await;
        assert!(!serving.is_finished());
        let left = Instant::now();
        drop(client);
        serving.await.unwrap();
        assert!(left.elapsed() < Duration::from_millis(10), "{:?}", left.elapsed());
        assert_eq!((stage.connects().len(), ended(&stage, "client_gone")), (2, 1));
        assert_eq!(stage.value("fairway_stream_received_bytes_total"), 11);
        stage.at_rest().unwrap();
    })
    .await;
}

/// The configuration of one endpoint, for connections without TLS.
fn in_the_clear() -> Config {
    let mut config = config(1, 1);
    let listener = Listener::new("streams", ListenerProtocol::Tcp, 443, "streams");
    config.listeners.insert("streams".into(), Arc::new(listener));
    config
}

#[tokio::test(start_paused = true)]
async fn what_a_client_sends_before_it_has_an_endpoint_arrives_though_it_has_ended_its_direction() {
    on_stage(async {
        let stage = Stage::serving(&in_the_clear(), |_| Meeting::after(Duration::from_millis(200), echoing));
        let (mut client, serving) = client(&stage);
        client.write_all(b"world").await.unwrap();
        client.shutdown().await.unwrap();
        let mut seen = Vec::new();
        client.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen, b"hello world");
        serving.await.unwrap();
        assert_eq!(ended(&stage, "closed"), 1);
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_an_endpoint_yet_has_the_time_of_a_drain() {
    on_stage(async {
        let mut config = config(1, 1);
        let route = StreamRoute::clone(config.streams.values().next().unwrap());
        let policy = StreamPolicy { connect_timeout: Some(Duration::from_secs(3_600)), ..route.policy };
        config.streams.insert(route.key.clone(), Arc::new(StreamRoute { policy, ..route }));
        let stage = Stage::serving(&config, |_| Meeting::Silence);
        let (_client, serving) = client(&stage);
        sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        stage.worker.enter(Phase::Draining);
        serving.await.unwrap();
        assert_eq!((began.elapsed().as_secs(), ended(&stage, "drained")), (240, 1));
        stage.at_rest().unwrap();
    })
    .await;
}
