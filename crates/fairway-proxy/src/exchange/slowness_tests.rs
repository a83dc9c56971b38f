//! Endpoints that answer far more slowly than the others are ejected, where the backend says so. In virtual time.

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

use crate::testing::{GET, Meeting, OK, Stage, endpoint, filtered, on_stage, read_head};

const INTERVAL: Duration = Duration::from_secs(10);

fn config(endpoints: usize, panic_threshold: Option<u8>) -> Config {
    let mut config = filtered(endpoints, Vec::new());
    config.settings.upstream.requests_per_connection = 1;
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    let (factor, responses) = (NonZeroU8::new(3).unwrap(), NonZeroU32::new(10).unwrap());
    let latency = Some(LatencyEjection { factor, responses, interval: INTERVAL });
    let health =
        panic_threshold.map(|_| Arc::new(EndpointHealth { panic_threshold, ..EndpointHealth::default() }));
    let traffic = BackendTraffic { latency, health, ..BackendTraffic::default() }.kept();
    config.backends.insert(backend.key.clone(), Arc::new(Backend { traffic, ..backend }));
    config
}

async fn thinking(mut stream: DuplexStream, time: Rc<Cell<u64>>) {
    while read_head(&mut stream).await {
        sleep(Duration::from_millis(time.get())).await;
        if stream.write_all(OK).await.is_err() {
            return;
        }
    }
}

/// Endpoints that take so many milliseconds to answer.
fn stage(config: &Config, times: &[u64]) -> (Stage, Vec<Rc<Cell<u64>>>) {
    let times: Vec<_> = times.iter().map(|time| Rc::new(Cell::new(*time))).collect();
    let script = {
        let times = times.clone();
        move |to: SocketAddr| {
            let time = (0..).zip(&times).find(|(number, _)| endpoint(*number) == to).unwrap().1;
            let time = Rc::clone(time);
            Meeting::with(|stream| thinking(stream, time))
        }
    };
    (Stage::serving(config, script), times)
}

/// How many of so many requests each endpoint got.
async fn asked(stage: &Stage, endpoints: u16, requests: usize) -> Vec<usize> {
    let mut client = stage.client();
    let before = stage.connects().len();
    for _ in 0..requests {
        assert_eq!(client.ask(GET).await.unwrap().status, 200);
    }
    let connects = stage.connects();
    let to = |number| connects[before..].iter().filter(|(_, to)| *to == endpoint(number)).count();
    (0..endpoints).map(to).collect()
}

const EJECTIONS: &str = "fairway_upstream_ejections_total";

#[tokio::test(start_paused = true)]
async fn the_slow_endpoint_and_no_other_is_ejected_after_the_interval_and_is_back_when_it_is_fast() {
    on_stage(async {
        let (stage, times) = stage(&config(4, None), &[20, 200, 30, 25]);
        assert_eq!(asked(&stage, 4, 60).await, [15, 15, 15, 15]);
        assert_eq!(stage.value(EJECTIONS), 0, "the interval is not over");
        sleep(INTERVAL).await;
        asked(&stage, 4, 4).await;
        assert_eq!(stage.value(EJECTIONS), 1);
        assert_eq!(asked(&stage, 4, 30).await[1], 0);
        // One request finds it back, and its share with it.
        sleep(Duration::from_secs(1)).await;
        assert!(asked(&stage, 4, 40).await[1] >= 8);
        asked(&stage, 4, 40).await;
        sleep(INTERVAL).await;
        asked(&stage, 4, 4).await;
        assert_eq!(stage.value(EJECTIONS), 2, "it is slow again");
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(asked(&stage, 4, 9).await[1], 0, "for twice as long");
        times[1].set(25);
        sleep(Duration::from_secs(1)).await;
        asked(&stage, 4, 200).await;
        sleep(INTERVAL).await;
        asked(&stage, 4, 8).await;
        assert_eq!(asked(&stage, 4, 40).await, [10, 10, 10, 10]);
        assert_eq!(stage.value(EJECTIONS), 2);
    })
    .await;
}

/// How many ejections an interval brings.
async fn ejections(times: &[u64], panic_threshold: Option<u8>) -> u64 {
    let count = u16::try_from(times.len()).unwrap();
    let (stage, _) = stage(&config(times.len(), panic_threshold), times);
    asked(&stage, count, 15 * times.len()).await;
    sleep(INTERVAL).await;
    asked(&stage, count, times.len()).await;
    stage.value(EJECTIONS)
}

#[tokio::test(start_paused = true)]
async fn never_the_last_one_and_never_more_than_the_panic_threshold_allows() {
    on_stage(async {
        assert_eq!(ejections(&[100], None).await, 0);
        assert_eq!(ejections(&[20, 100], None).await, 1);
        assert_eq!(ejections(&[100, 100], None).await, 0, "none is slower than the others");
        assert_eq!(ejections(&[20, 100, 20, 90, 20], None).await, 2);
        assert_eq!(ejections(&[20, 100, 20, 90, 20], Some(20)).await, 1);
        assert_eq!(ejections(&[20, 100, 20, 90, 20], Some(10)).await, 0);
        assert_eq!(ejections(&[20, 20, 100, 100, 100], None).await, 0, "most are as slow");
    })
    .await;
}
