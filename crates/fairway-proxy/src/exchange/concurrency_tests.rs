//! Adaptive concurrency: the limit on requests that await a response of a backend follows response times. In virtual time with
//! two workers, over an endpoint that processes a fixed number of requests at a time and queues others.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{AdaptiveConcurrency, Backend, BackendKey, BackendLimits, BackendTraffic, Config};
use fairway_net::clock::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, read_head, run_local,
};

const FULL_METRIC: &str = "fairway_faults_total{reason=\"backend_concurrency_full\"}";

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn config(limits: BackendLimits) -> Config {
    let mut config = config_with_phases(1, Vec::new());
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    let traffic = BackendTraffic { limits: Some(limits), ..BackendTraffic::default() }.if_not_empty();
    config.backends.insert(backend.key.clone(), Arc::new(Backend { traffic, ..backend }));
    config
}

fn adaptive(minimum: u32, maximum: u32, pending: u32) -> BackendLimits {
    let number = |number| NonZeroU32::new(number).unwrap();
    let bounds = AdaptiveConcurrency { minimum: number(minimum), maximum: number(maximum) };
    BackendLimits { concurrency: Some(bounds), pending, ..BackendLimits::default() }
}

fn limit(stage: &TestWorker) -> u32 {
    stage.worker.circuits.moving_limits().into_values().next().unwrap()
}

/// An endpoint: how many requests it processes at a time, how long that takes, and its responses.
struct WorkingEndpoint {
    permits: Semaphore,
    time: Cell<Duration>,
    response: Cell<&'static [u8]>,
}

fn work(permits: usize, time: Duration) -> &'static WorkingEndpoint {
    let (places, time, response) = (Semaphore::new(permits), Cell::new(time), Cell::new(OK_RESPONSE));
    Box::leak(Box::new(WorkingEndpoint { permits: places, time, response }))
}

async fn working(mut stream: DuplexStream, work: &WorkingEndpoint) {
    while read_head(&mut stream).await {
        let permit = work.permits.acquire().await.unwrap();
        sleep(work.time.get()).await;
        drop(permit);
        if stream.write_all(work.response.get()).await.is_err() {
            return;
        }
    }
}

fn stages(limits: BackendLimits, work: &'static WorkingEndpoint) -> [TestWorker; 2] {
    TestWorker::two_workers(&config(limits), move |_: SocketAddr| {
        ScriptedConnect::served_by(move |stream| working(stream, work))
    })
}

/// What clients saw since the last `take`.
#[derive(Default)]
struct ClientCounts {
    served: u32,
    refused: u32,
    longest: Duration,
}

/// Clients that send requests repeatedly, and wait a little when they are refused.
fn clients(stages: &[TestWorker; 2], count: usize) -> &'static RefCell<ClientCounts> {
    let counts: &RefCell<ClientCounts> = Box::leak(Box::default());
    for number in 0..count {
        let mut client = stages[number % 2].client();
        spawn_local(async move {
            loop {
                let began = Instant::now();
                let Some(answer) = client.request(GET_REQUEST).await else { return };
                match answer.status {
                    200 => {
                        let mut counts = counts.borrow_mut();
                        counts.served += 1;
                        counts.longest = counts.longest.max(began.elapsed());
                    }
                    503 => {
                        counts.borrow_mut().refused += 1;
                        sleep(millis(200)).await;
                    }
                    504 => return,
                    other => panic!("{other}"),
                }
            }
        });
    }
    counts
}

/// What clients see during this time, and the lowest and highest limit.
async fn watch(
    stage: &TestWorker,
    counts: &RefCell<ClientCounts>,
    time: Duration,
) -> (ClientCounts, u32, u32) {
    counts.take();
    let (mut least, mut most) = (u32::MAX, 0);
    for _ in 0..time.as_millis() / 50 {
        sleep(millis(50)).await;
        (least, most) = (least.min(limit(stage)), most.max(limit(stage)));
    }
    (counts.take(), least, most)
}

#[tokio::test(start_paused = true)]
async fn under_load_the_capacity_of_the_backend_is_admitted_and_other_requests_are_503() {
    run_local(async {
        let work = work(10, millis(50));
        let stages = stages(adaptive(2, 1000, 0), work);
        let counts = clients(&stages, 80);
        sleep(seconds(5)).await;
        let (before, least, most) = watch(&stages[0], counts, seconds(10)).await;
        assert!(10 <= least && most <= 20, "from {least} to {most}");
        assert!((1_950..=2_010).contains(&before.served), "{} of 2000", before.served);
        assert!(before.longest <= millis(110), "{:?}", before.longest);
        let refused = stages.each_ref().map(|stage| stage.metric_value(FULL_METRIC));
        assert!(before.refused > 500 && refused.iter().all(|count| *count > 300), "{refused:?}");

        work.permits.acquire_many(5).await.unwrap().forget();
        sleep(seconds(3)).await;
        let (weaker, least, most) = watch(&stages[0], counts, seconds(10)).await;
        assert!(5 <= least && most <= 10, "from {least} to {most}");
        assert!((970..=1_010).contains(&weaker.served), "{} of 1000", weaker.served);

        work.permits.add_permits(5);
        sleep(seconds(3)).await;
        let (again, least, most) = watch(&stages[0], counts, seconds(10)).await;
        // Responses of the previous interval let a growing limit overshoot for a moment.
        assert!(10 <= least && most <= 25, "from {least} to {most}");
        assert!((1_950..=2_010).contains(&again.served), "{} of 2000", again.served);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_permanently_slower_backend_has_its_limit_lowered_until_that_does_not_help() {
    run_local(async {
        let work = work(10, millis(50));
        let stages = stages(adaptive(2, 1000, 0), work);
        let counts = clients(&stages, 80);
        sleep(seconds(5)).await;
        work.time.set(millis(150));
        let (_, least, _) = watch(&stages[0], counts, seconds(5)).await;
        assert!(least < 9, "it fell to {least}");
        sleep(seconds(5)).await;
        let (slower, _, most) = watch(&stages[0], counts, seconds(15)).await;
        assert!(most <= 20, "it came back to {most}");
        assert!((950..=1_000).contains(&slower.served), "{} of 1000", slower.served);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn idle_clients_and_few_slow_responses_change_nothing() {
    run_local(async {
        let work = work(100, millis(20));
        let stages = stages(adaptive(10, 1000, 0), work);
        let counts = clients(&stages, 60);
        sleep(seconds(3)).await;
        let reached = limit(&stages[0]);
        assert!((60..=180).contains(&reached), "{reached}");
        assert_eq!(watch(&stages[0], counts, seconds(2)).await.0.refused, 0, "all have room");
        let quiet = self::stages(adaptive(10, 1000, 0), work);
        let _seen = clients(&quiet, 4);
        for (time, minutes) in [(100, 1), (3_000, 5)] {
            work.time.set(millis(time));
            sleep(seconds(minutes * 60)).await;
            assert_eq!(limit(&quiet[0]), 10, "responses take {time} ms");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_adaptive_limit_and_none_is_refused() {
    run_local(async {
        let work = work(10, millis(50));
        let stages = stages(adaptive(5, 1000, 100), work);
        let counts = clients(&stages, 60);
        let (seen, _, most) = watch(&stages[0], counts, seconds(20)).await;
        assert_eq!(seen.refused, 0);
        assert!(seen.served > 3_800 && most <= 20, "{} of 4000, limit {most}", seen.served);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_with_another_limit_or_none_has_no_limit_that_moves() {
    run_local(async {
        for limits in [BackendLimits::default(), BackendLimits { retries: Some(1), ..adaptive(1, 1, 0) }] {
            let limits = BackendLimits { concurrency: None, ..limits };
            let stages = stages(limits, work(1, millis(100)));
            let (seen, _) = (clients(&stages, 30), sleep(seconds(10)).await);
            assert_eq!((seen.borrow().refused, stages[0].worker.circuits.moving_limits().len()), (0, 0));
            assert_eq!(stages[0].worker.circuits.totals().awaiting, 0);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_that_has_begun_does_not_count_however_long_it_takes() {
    run_local(async {
        let work = work(100, millis(1));
        work.response.set(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
        let stages = stages(adaptive(1, 1, 0), work);
        let mut clients = Vec::new();
        for number in 0..20 {
            let mut client = stages[number % 2].client();
            client.send(GET_REQUEST).await;
            let mut head = vec![0; 16];
            client.stream.read_exact(&mut head).await.unwrap();
            assert!(head.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&head));
            clients.push(client);
        }
        let under_way = stages[0].worker.circuits.totals();
        assert_eq!((under_way.requests, under_way.awaiting), (20, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_backend_do_not_move_the_limit() {
    run_local(async {
        let work = work(1_000, millis(50));
        work.response.set(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        let stages = stages(adaptive(10, 1000, 0), work);
        let _seen = clients(&stages, 80);
        sleep(seconds(5)).await;
        assert_eq!(limit(&stages[0]), 10);
    })
    .await;
}

/// Repeatedly starts `count` clients that leave after this time without a response.
async fn run_impatient_clients(stage: &TestWorker, count: usize, after: Duration) {
    for _ in 0..10 {
        let mut clients: Vec<_> = (0..count).map(|_| stage.client()).collect();
        for client in &mut clients {
            client.send(GET_REQUEST).await;
        }
        sleep(after).await;
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_after_a_long_wait_lower_the_limit_and_others_do_not() {
    run_local(async {
        let work = work(100, millis(20));
        let stages = stages(adaptive(4, 1000, 0), work);
        let counts = clients(&stages, 30);
        sleep(seconds(3)).await;
        let reached = limit(&stages[0]);
        assert!(reached >= 30 && counts.borrow().served > 1_000, "{reached}");
        work.time.set(seconds(1_000));
        run_impatient_clients(&stages[0], 100, millis(5)).await;
        assert_eq!(limit(&stages[0]), reached);
        run_impatient_clients(&stages[0], 100, millis(500)).await;
        assert!(limit(&stages[0]) <= reached / 2, "{} of {reached}", limit(&stages[0]));
        sleep(seconds(1)).await;
        let under_way = stages[0].worker.circuits.totals();
        assert!(under_way.awaiting <= 30 && under_way.requests == under_way.awaiting, "{under_way:?}");
    })
    .await;
}
