//! Tests of latency ejection, in virtual time. A backend that enables it ejects endpoints that respond far more
//! slowly than its other endpoints.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroU32};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, BackendKey, BackendTraffic, Config, EndpointHealth, LatencyEjection};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, endpoint, read_head, run_local,
};

/// Interval in which the responses of endpoints are measured and compared.
const EJECTION_INTERVAL: Duration = Duration::from_secs(10);

/// A backend that ejects endpoints with more than 3 times the median latency, if they sent 10 responses in an
/// interval. Each request uses a new connection, so that the tests can count requests by connects.
fn config(endpoint_count: usize, panic_threshold: Option<u8>) -> Config {
    let mut config = config_with_phases(endpoint_count, Vec::new());
    config.settings.upstream.requests_per_connection = 1;
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    let (factor, responses) = (NonZeroU8::new(3).unwrap(), NonZeroU32::new(10).unwrap());
    let latency = Some(LatencyEjection { factor, responses, interval: EJECTION_INTERVAL });
    let health =
        panic_threshold.map(|_| Arc::new(EndpointHealth { panic_threshold, ..EndpointHealth::default() }));
    let traffic = BackendTraffic { latency, health, ..BackendTraffic::default() }.if_not_empty();
    config.backends.insert(backend.key.clone(), Arc::new(Backend { traffic, ..backend }));
    config
}

/// Serves a connection of an endpoint, which responds after `latency` milliseconds. Tests can change the latency.
async fn respond_after_latency(mut stream: DuplexStream, latency: Rc<Cell<u64>>) {
    while read_head(&mut stream).await {
        sleep(Duration::from_millis(latency.get())).await;
        if stream.write_all(OK_RESPONSE).await.is_err() {
            return;
        }
    }
}

/// A worker with one endpoint for each latency, in milliseconds, and the latencies, for tests to change.
fn start_worker(config: &Config, latencies: &[u64]) -> (TestWorker, Vec<Rc<Cell<u64>>>) {
    let latencies: Vec<_> = latencies.iter().map(|latency| Rc::new(Cell::new(*latency))).collect();
    let script = {
        let latencies = latencies.clone();
        move |to: SocketAddr| {
            let latency = (0..).zip(&latencies).find(|(number, _)| endpoint(*number) == to).unwrap().1;
            let latency = Rc::clone(latency);
            ScriptedConnect::served_by(|stream| respond_after_latency(stream, latency))
        }
    };
    (TestWorker::with_config(config, script), latencies)
}

/// Sends requests one after the other. Returns how many each endpoint received.
async fn requests_per_endpoint(worker: &TestWorker, endpoint_count: u16, request_count: usize) -> Vec<usize> {
    let mut client = worker.client();
    let connects_before = worker.connects().len();
    for _ in 0..request_count {
        assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200);
    }
    let connects = worker.connects();
    let new_connects = &connects[connects_before..];
    let connects_to = |number| new_connects.iter().filter(|(_, to)| *to == endpoint(number)).count();
    (0..endpoint_count).map(connects_to).collect()
}

const EJECTIONS_METRIC: &str = "fairway_upstream_ejections_total";

#[tokio::test(start_paused = true)]
async fn only_the_slow_endpoint_is_ejected_after_the_interval_and_it_returns_when_it_is_fast() {
    run_local(async {
        let (worker, latencies) = start_worker(&config(4, None), &[20, 200, 30, 25]);
        assert_eq!(requests_per_endpoint(&worker, 4, 60).await, [15, 15, 15, 15]);
        assert_eq!(
            worker.metric_value(EJECTIONS_METRIC),
            0,
            "no endpoint is ejected before the interval ends"
        );
        sleep(EJECTION_INTERVAL).await;
        requests_per_endpoint(&worker, 4, 4).await;
        assert_eq!(worker.metric_value(EJECTIONS_METRIC), 1, "the slow endpoint is ejected");
        assert_eq!(requests_per_endpoint(&worker, 4, 30).await[1], 0, "an ejected endpoint gets no requests");
        // The first ejection has ended. A first request probes the endpoint, so its share can be less than 10 of 40.
        sleep(Duration::from_secs(1)).await;
        let returned_share = requests_per_endpoint(&worker, 4, 40).await[1];
        assert!(returned_share >= 8, "the endpoint gets its share again, not {returned_share} of 40");
        requests_per_endpoint(&worker, 4, 40).await;
        sleep(EJECTION_INTERVAL).await;
        requests_per_endpoint(&worker, 4, 4).await;
        assert_eq!(
            worker.metric_value(EJECTIONS_METRIC),
            2,
            "the endpoint is still slow, and so is ejected again"
        );
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(requests_per_endpoint(&worker, 4, 9).await[1], 0, "the second ejection lasts longer");
        latencies[1].set(25);
        sleep(Duration::from_secs(1)).await;
        requests_per_endpoint(&worker, 4, 200).await;
        sleep(EJECTION_INTERVAL).await;
        requests_per_endpoint(&worker, 4, 8).await;
        assert_eq!(requests_per_endpoint(&worker, 4, 40).await, [10, 10, 10, 10]);
        assert_eq!(worker.metric_value(EJECTIONS_METRIC), 2, "the endpoint is fast now, and so stays");
    })
    .await;
}

/// The number of ejections among endpoints with these latencies, in milliseconds, after one interval.
async fn ejections(latencies: &[u64], panic_threshold: Option<u8>) -> u64 {
    let endpoint_count = u16::try_from(latencies.len()).unwrap();
    let (worker, _) = start_worker(&config(latencies.len(), panic_threshold), latencies);
    // Each endpoint gets 15 requests, more than the 10 responses that an ejection needs.
    requests_per_endpoint(&worker, endpoint_count, 15 * latencies.len()).await;
    sleep(EJECTION_INTERVAL).await;
    // The responses after the interval start the comparison.
    requests_per_endpoint(&worker, endpoint_count, latencies.len()).await;
    worker.metric_value(EJECTIONS_METRIC)
}

#[tokio::test(start_paused = true)]
async fn ejections_leave_one_endpoint_and_respect_the_panic_threshold() {
    run_local(async {
        assert_eq!(ejections(&[100], None).await, 0, "the only endpoint stays");
        assert_eq!(ejections(&[20, 100], None).await, 1, "the slower of two endpoints is ejected");
        assert_eq!(ejections(&[100, 100], None).await, 0, "no endpoint is slower than the other");
        assert_eq!(ejections(&[20, 100, 20, 90, 20], None).await, 2, "both slow endpoints are ejected");
        assert_eq!(ejections(&[20, 100, 20, 90, 20], Some(20)).await, 1, "20 percent of five allow one");
        assert_eq!(ejections(&[20, 100, 20, 90, 20], Some(10)).await, 0, "10 percent of five allow none");
        assert_eq!(ejections(&[20, 20, 100, 100, 100], None).await, 0, "most endpoints are as slow");
    })
    .await;
}
