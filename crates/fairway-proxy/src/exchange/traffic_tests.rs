//! Traffic settings of a backend, in virtual time: requests per endpoint, retries, ejection, and hedged connects.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroU32};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, BackendKey, BackendTraffic, Config, Ejection, Retry, RetrySource};
use fairway_net::clock::Instant;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::testing::{
    Client, GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, endpoint, read_head,
    run_local, serve_ok,
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

fn stage(
    endpoints: usize,
    traffic: BackendTraffic,
    script: impl Fn(SocketAddr) -> ScriptedConnect + 'static,
) -> TestWorker {
    TestWorker::with_config(&config(endpoints, traffic), script)
}

fn within(limit: u32) -> BackendTraffic {
    BackendTraffic { in_flight: NonZeroU32::new(limit), ..BackendTraffic::default() }
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

/// Reads a request and closes.
async fn serve_closing(mut stream: DuplexStream) {
    read_head(&mut stream).await;
}

/// Clients whose requests are in progress.
async fn start_requests(stage: &TestWorker, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        clients.push(client);
    }
    sleep(millis(10)).await;
    clients
}

fn connects_to(stage: &TestWorker, number: u16) -> usize {
    stage.connects().iter().filter(|(_, to)| *to == endpoint(number)).count()
}

const FULL_METRIC: &str = "fairway_faults_total{reason=\"endpoints_full\"}";

#[tokio::test(start_paused = true)]
async fn a_request_beyond_the_limit_is_503_and_its_connection_continues() {
    run_local(async {
        let stage = stage(2, within(2), |_| ScriptedConnect::served_by(|stream| serve_after(stream, SECOND)));
        let under_way = start_requests(&stage, 4).await;
        let mut late = stage.client();
        late.send(GET_REQUEST).await;
        let refused = late.response_text().await;
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("endpoints_full"), "{refused}");
        assert!(refused.contains("\r\nRetry-After: 1\r\n") && !refused.contains("close"), "{refused}");
        assert_eq!(stage.metric_value("fairway_upstream_requests_total"), 4, "no endpoint heard of it");
        for mut client in under_way {
            assert_eq!(client.response().await.unwrap().status, 200);
        }
        assert_eq!(late.request(GET_REQUEST).await.unwrap().status, 200);
        assert_eq!(stage.metric_value(FULL_METRIC), 1);
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 0);
        drop(late);
        sleep(millis(10)).await;
        stage.check_idle().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_endpoint_is_skipped() {
    run_local(async {
        let script = |to| match to == endpoint(0) {
            true => ScriptedConnect::served_by(|stream| serve_after(stream, 10 * SECOND)),
            false => ScriptedConnect::served_by(serve_ok),
        };
        let stage = stage(2, within(1), script);
        let _under_way = start_requests(&stage, 1).await;
        let (mut client, began) = (stage.client(), Instant::now());
        for _ in 0..6 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        assert!(began.elapsed() < SECOND && connects_to(&stage, 0) == 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_ejected_endpoint_is_not_used_even_if_the_others_are_full() {
    run_local(async {
        let script = |to| match to == endpoint(0) {
            true => ScriptedConnect::Refused,
            false => ScriptedConnect::served_by(|stream| serve_after(stream, millis(500))),
        };
        let stage = stage(2, within(1), script);
        let under_way = start_requests(&stage, 1).await;
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 1);
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 503);
        assert_eq!((stage.metric_value(FULL_METRIC), connects_to(&stage, 0)), (1, 1));
        drop(under_way);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_returned_if_the_endpoints_for_another_attempt_are_full() {
    run_local(async {
        let script = |to| match to == endpoint(0) {
            true => ScriptedConnect::served_by(|stream| serve_after(stream, 10 * SECOND)),
            false => ScriptedConnect::served_by(serve_closing),
        };
        let stage = stage(2, within(1), script);
        let _under_way = start_requests(&stage, 1).await;
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 502);
        assert_eq!((connects_to(&stage, 1), stage.metric_value(FULL_METRIC)), (1, 0));
        assert_eq!(stage.metric_value("fairway_upstream_retries_total"), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_late_connect_is_not_raced_with_one_to_an_endpoint_without_room() {
    run_local(async {
        for (traffic, connects) in [(within(1), 2), (BackendTraffic::default(), 3)] {
            let script = |to| match to == endpoint(0) {
                true => ScriptedConnect::served_by(|stream| serve_after(stream, 10 * SECOND)),
                false => ScriptedConnect::served_after(millis(600), serve_ok),
            };
            let stage = stage(2, traffic, script);
            let _under_way = start_requests(&stage, 1).await;
            let _late = start_requests(&stage, 1).await;
            sleep(SECOND).await;
            assert_eq!(stage.connects().len(), connects);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_sets_when_connects_are_hedged() {
    run_local(async {
        for (hedge, answered, won) in [(Duration::ZERO, SECOND, 0), (millis(100), millis(100), 1)] {
            let script = |to| {
                if to == endpoint(0) {
                    ScriptedConnect::Silence
                } else {
                    ScriptedConnect::served_by(serve_ok)
                }
            };
            let stage = stage(2, BackendTraffic { hedge: Some(hedge), ..BackendTraffic::default() }, script);
            let began = Instant::now();
            assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
            let late = began.elapsed() - answered;
            assert!(late < millis(3), "{late:?}");
            assert_eq!(stage.metric_value("fairway_upstream_hedges_total{outcome=\"won\"}"), won);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_overrides_the_retries_of_the_rule() {
    run_local(async {
        let once = Retry { tries: 1, ..Retry::default() };
        let often = Retry { tries: 5, by: RetrySource::Route, backoff: millis(100), ..Retry::default() };
        for (retry, connects, least) in [(None, 3, 0), (Some(once), 1, 0), (Some(often), 5, 400)] {
            let stage =
                stage(4, BackendTraffic { retry, ..BackendTraffic::default() }, |_| ScriptedConnect::Refused);
            let began = Instant::now();
            assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 502);
            let took = u64::try_from(began.elapsed().as_millis()).unwrap();
            assert_eq!(stage.connects().len(), connects);
            assert!((least..=least + least / 4 + 4).contains(&took), "{took} ms");
        }
    })
    .await;
}

fn ejecting(ejection: Ejection) -> BackendTraffic {
    BackendTraffic { ejection: Some(ejection), ..BackendTraffic::default() }
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_backend_that_ejects_none_are_always_used() {
    run_local(async {
        let script = |to| {
            if to == endpoint(0) { ScriptedConnect::Refused } else { ScriptedConnect::served_by(serve_ok) }
        };
        let stage = stage(2, ejecting(Ejection::Never), script);
        let mut client = stage.client();
        for _ in 0..8 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
        }
        assert_eq!(connects_to(&stage, 0), 8, "each begins there");
        assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_sets_the_number_of_failures_and_the_time_of_an_ejection() {
    run_local(async {
        let (failures, first, longest) = (NonZeroU8::MIN, 5 * SECOND, 12 * SECOND);
        let script = |to| {
            if to == endpoint(0) {
                ScriptedConnect::served_by(serve_closing)
            } else {
                ScriptedConnect::served_by(serve_ok)
            }
        };
        let stage = stage(2, ejecting(Ejection::After { failures, first, longest }), script);
        let (mut client, began) = (stage.client(), Instant::now());
        while began.elapsed() < 45 * SECOND {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
            sleep(millis(50)).await;
        }
        let connects: Vec<_> = stage.connects().into_iter().filter(|(_, to)| *to == endpoint(0)).collect();
        let pauses = connects.windows(2).map(|pair| pair[1].0.duration_since(pair[0].0).as_secs());
        assert_eq!(pauses.collect::<Vec<_>>(), [5, 10, 12, 12]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_traffic_settings_applies_at_once_and_keeps_pools_and_health() {
    run_local(async {
        let script = |to| match to == endpoint(0) {
            true => ScriptedConnect::Refused,
            false => ScriptedConnect::served_by(|stream| serve_after(stream, millis(100))),
        };
        let stage = stage(2, BackendTraffic::default(), script);
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        assert_eq!((stage.connects().len(), stage.worker.groups.idle_connections()), (2, 1));
        stage.publish(&config(2, within(1)));
        assert_eq!(stage.worker.groups.idle_connections(), 1, "no connection is closed for it");
        let under_way = start_requests(&stage, 1).await;
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 503, "the limit holds");
        assert_eq!(stage.connects().len(), 2, "the connection is used, and the ejected endpoint is not");
        stage.publish(&config(2, within(2)));
        assert_eq!(
            stage.client().request(GET_REQUEST).await.unwrap().status,
            200,
            "there is room for one more"
        );
        assert_eq!(connects_to(&stage, 0), 1);
        drop(under_way);
    })
    .await;
}

/// The behaviour of an endpoint.
#[derive(Clone, Copy, Debug)]
enum EndpointBehaviour {
    /// It responds after this many milliseconds.
    Answers(u64),
    /// Its connects take this many milliseconds.
    IsLate(u64),
    Refuses,
    Closes,
}

/// A client; the times are in milliseconds.
#[derive(Clone, Copy, Debug)]
struct ClientCall {
    /// When it sends its request.
    queries: u64,
    /// How long after that it leaves, if it has no response by then.
    leaves: Option<u64>,
}

fn a_call() -> impl Strategy<Value = ClientCall> {
    (0..600_u64, prop::option::of(0..800_u64)).prop_map(|(asks, leaves)| ClientCall { queries: asks, leaves })
}

fn endpoint_behaviour() -> impl Strategy<Value = EndpointBehaviour> {
    prop_oneof![
        4 => (0..400_u64).prop_map(EndpointBehaviour::Answers),
        1 => (0..1_500_u64).prop_map(EndpointBehaviour::IsLate),
        1 => Just(EndpointBehaviour::Refuses),
        1 => Just(EndpointBehaviour::Closes),
    ]
}

fn meeting(conduct: EndpointBehaviour) -> ScriptedConnect {
    match conduct {
        EndpointBehaviour::Answers(time) => {
            ScriptedConnect::served_by(move |stream| serve_after(stream, millis(time)))
        }
        EndpointBehaviour::IsLate(time) => ScriptedConnect::served_after(millis(time), serve_ok),
        EndpointBehaviour::Refuses => ScriptedConnect::Refused,
        EndpointBehaviour::Closes => ScriptedConnect::served_by(serve_closing),
    }
}

/// Sends one request, and leaves in time.
async fn call(stage: Rc<TestWorker>, call: ClientCall) -> Option<u16> {
    let ClientCall { queries: asks, leaves } = call;
    sleep(millis(asks)).await;
    let mut client = stage.client();
    let response = client.request(GET_REQUEST);
    let reply = match leaves {
        Some(leaves) => timeout(millis(leaves), response).await.ok().flatten(),
        None => response.await,
    };
    reply.map(|answer| answer.status)
}

/// The highest number of requests in progress seen with an endpoint.
async fn watch(stage: Rc<TestWorker>, endpoints: u32, limit: Rc<Cell<u32>>) {
    loop {
        let worker = &stage.worker;
        let adopted = worker.adopted();
        let slot = adopted.snapshot().slot(&"backend".into()).unwrap();
        let group = adopted.group(slot, &worker.groups).unwrap();
        let now = (0..endpoints).map(|endpoint| group.member(endpoint).in_flight()).max();
        limit.set(limit.get().max(now.unwrap_or(0)));
        sleep(millis(1)).await;
    }
}

fn run_case(limit: u32, conducts: Vec<EndpointBehaviour>, calls: Vec<ClientCall>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let endpoints = conducts.len();
        let script = move |to: SocketAddr| meeting(conducts[usize::from(to.port())]);
        let stage = Rc::new(stage(endpoints, within(limit), script));
        let max = Rc::new(Cell::new(0));
        let watching = spawn_local(watch(Rc::clone(&stage), endpoints as u32, Rc::clone(&max)));
        let calls: Vec<_> =
            calls.into_iter().map(|index| spawn_local(call(Rc::clone(&stage), index))).collect();
        for call in calls {
            let status = call.await.unwrap();
            assert!(status.is_none_or(|status| [200, 502, 503, 504].contains(&status)), "{status:?}");
        }
        sleep(60 * SECOND).await;
        watching.abort();
        assert!(max.get() <= limit, "{} of {limit}", max.get());
        stage.check_idle().unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_comes_leaves_or_fails_no_endpoint_has_more_under_way_than_it_may_and_nothing_is_left_behind(
        limit in 1..4_u32,
        conducts in vec(endpoint_behaviour(), 1..4),
        calls in vec(a_call(), 1..24),
    ) {
        run_case(limit, conducts, calls);
    }
}
