//! What a backend says of its traffic: how many requests an endpoint may have under way, what is tried again, what ejects
//! an endpoint, and when connects are raced. In virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroU32};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{Backend, BackendKey, BackendTraffic, Config, Ejection, Retry, RetryBy};
use fairway_net::clock::Instant;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::testing::{Client, GET, Meeting, OK, Stage, answering, endpoint, filtered, on_stage, read_head};

const SECOND: Duration = Duration::from_secs(1);

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// One rule over a backend of so many endpoints, with this traffic.
fn config(endpoints: usize, traffic: BackendTraffic) -> Config {
    let mut config = filtered(endpoints, Vec::new());
    let backend = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    config.backends.insert(backend.key.clone(), Arc::new(Backend { traffic: traffic.kept(), ..backend }));
    config
}

fn stage(
    endpoints: usize,
    traffic: BackendTraffic,
    script: impl Fn(SocketAddr) -> Meeting + 'static,
) -> Stage {
    Stage::serving(&config(endpoints, traffic), script)
}

fn within(most: u32) -> BackendTraffic {
    BackendTraffic { in_flight: NonZeroU32::new(most), ..BackendTraffic::default() }
}

/// Answers each request after a while.
async fn thinking(mut stream: DuplexStream, time: Duration) {
    while read_head(&mut stream).await {
        sleep(time).await;
        if stream.write_all(OK).await.is_err() {
            return;
        }
    }
}

/// Reads a request and closes.
async fn closing(mut stream: DuplexStream) {
    read_head(&mut stream).await;
}

/// Clients whose requests are under way.
async fn asking(stage: &Stage, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = stage.client();
        client.send(GET).await;
        clients.push(client);
    }
    sleep(millis(10)).await;
    clients
}

fn connects_to(stage: &Stage, number: u16) -> usize {
    stage.connects().iter().filter(|(_, to)| *to == endpoint(number)).count()
}

const FULL: &str = "fairway_faults_total{reason=\"endpoints_full\"}";

#[tokio::test(start_paused = true)]
async fn one_request_too_many_is_503_and_its_connection_goes_on() {
    on_stage(async {
        let stage = stage(2, within(2), |_| Meeting::with(|stream| thinking(stream, SECOND)));
        let under_way = asking(&stage, 4).await;
        let mut late = stage.client();
        late.send(GET).await;
        let refused = late.answer_text().await;
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("endpoints_full"), "{refused}");
        assert!(refused.contains("\r\nRetry-After: 1\r\n") && !refused.contains("close"), "{refused}");
        assert_eq!(stage.value("fairway_upstream_requests_total"), 4, "no endpoint heard of it");
        for mut client in under_way {
            assert_eq!(client.answer().await.unwrap().status, 200);
        }
        assert_eq!(late.ask(GET).await.unwrap().status, 200);
        assert_eq!(stage.value(FULL), 1);
        assert_eq!(stage.value("fairway_upstream_ejections_total"), 0);
        drop(late);
        sleep(millis(10)).await;
        stage.at_rest().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_full_is_passed_over() {
    on_stage(async {
        let script = |to| match to == endpoint(0) {
            true => Meeting::with(|stream| thinking(stream, 10 * SECOND)),
            false => Meeting::with(answering),
        };
        let stage = stage(2, within(1), script);
        let _under_way = asking(&stage, 1).await;
        let (mut client, began) = (stage.client(), Instant::now());
        for _ in 0..6 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
        assert!(began.elapsed() < SECOND && connects_to(&stage, 0) == 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_ejected_endpoint_is_not_asked_because_the_others_are_full() {
    on_stage(async {
        let script = |to| match to == endpoint(0) {
            true => Meeting::Refused,
            false => Meeting::with(|stream| thinking(stream, millis(500))),
        };
        let stage = stage(2, within(1), script);
        let under_way = asking(&stage, 1).await;
        assert_eq!(stage.value("fairway_upstream_ejections_total"), 1);
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 503);
        assert_eq!((stage.value(FULL), connects_to(&stage, 0)), (1, 1));
        drop(under_way);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_answered_where_the_endpoints_for_another_attempt_are_full() {
    on_stage(async {
        let script = |to| match to == endpoint(0) {
            true => Meeting::with(|stream| thinking(stream, 10 * SECOND)),
            false => Meeting::with(closing),
        };
        let stage = stage(2, within(1), script);
        let _under_way = asking(&stage, 1).await;
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 502);
        assert_eq!((connects_to(&stage, 1), stage.value(FULL)), (1, 0));
        assert_eq!(stage.value("fairway_upstream_retries_total"), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_late_connect_is_not_raced_with_one_to_an_endpoint_without_room() {
    on_stage(async {
        for (traffic, connects) in [(within(1), 2), (BackendTraffic::default(), 3)] {
            let script = |to| match to == endpoint(0) {
                true => Meeting::with(|stream| thinking(stream, 10 * SECOND)),
                false => Meeting::after(millis(600), answering),
            };
            let stage = stage(2, traffic, script);
            let _under_way = asking(&stage, 1).await;
            let _late = asking(&stage, 1).await;
            sleep(SECOND).await;
            assert_eq!(stage.connects().len(), connects);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_says_when_connects_are_raced() {
    on_stage(async {
        for (hedge, answered, won) in [(Duration::ZERO, SECOND, 0), (millis(100), millis(100), 1)] {
            let script = |to| if to == endpoint(0) { Meeting::Silence } else { Meeting::with(answering) };
            let stage = stage(2, BackendTraffic { hedge: Some(hedge), ..BackendTraffic::default() }, script);
            let began = Instant::now();
            assert_eq!(stage.client().ask(GET).await.unwrap().status, 200);
            let late = began.elapsed() - answered;
            assert!(late < millis(3), "{late:?}");
            assert_eq!(stage.value("fairway_upstream_hedges_total{outcome=\"won\"}"), won);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_says_what_is_tried_again_whatever_the_rule_says() {
    on_stage(async {
        let once = Retry { tries: 1, ..Retry::default() };
        let often = Retry { tries: 5, by: RetryBy::Route, backoff: millis(100), ..Retry::default() };
        for (retry, connects, least) in [(None, 3, 0), (Some(once), 1, 0), (Some(often), 5, 400)] {
            let stage = stage(4, BackendTraffic { retry, ..BackendTraffic::default() }, |_| Meeting::Refused);
            let began = Instant::now();
            assert_eq!(stage.client().ask(GET).await.unwrap().status, 502);
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
    on_stage(async {
        let script = |to| if to == endpoint(0) { Meeting::Refused } else { Meeting::with(answering) };
        let stage = stage(2, ejecting(Ejection::Never), script);
        let mut client = stage.client();
        for _ in 0..8 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
        assert_eq!(connects_to(&stage, 0), 8, "each begins there");
        assert_eq!(stage.value("fairway_upstream_ejections_total"), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_says_how_many_failures_eject_and_for_how_long() {
    on_stage(async {
        let (failures, first, longest) = (NonZeroU8::MIN, 5 * SECOND, 12 * SECOND);
        let script = |to| if to == endpoint(0) { Meeting::with(closing) } else { Meeting::with(answering) };
        let stage = stage(2, ejecting(Ejection::After { failures, first, longest }), script);
        let (mut client, began) = (stage.client(), Instant::now());
        while began.elapsed() < 45 * SECOND {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
            sleep(millis(50)).await;
        }
        let asked: Vec<_> = stage.connects().into_iter().filter(|(_, to)| *to == endpoint(0)).collect();
        let pauses = asked.windows(2).map(|pair| pair[1].0.duration_since(pair[0].0).as_secs());
        assert_eq!(pauses.collect::<Vec<_>>(), [5, 10, 12, 12]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_nothing_but_traffic_holds_at_once_and_keeps_pools_and_health() {
    on_stage(async {
        let script = |to| match to == endpoint(0) {
            true => Meeting::Refused,
            false => Meeting::with(|stream| thinking(stream, millis(100))),
        };
        let stage = stage(2, BackendTraffic::default(), script);
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 200);
        assert_eq!((stage.connects().len(), stage.worker.groups.idle_connections()), (2, 1));
        stage.publish(&config(2, within(1)));
        assert_eq!(stage.worker.groups.idle_connections(), 1, "no connection is closed for it");
        let under_way = asking(&stage, 1).await;
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 503, "the limit holds");
        assert_eq!(stage.connects().len(), 2, "the connection is used, and the ejected endpoint is not");
        stage.publish(&config(2, within(2)));
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 200, "there is room for one more");
        assert_eq!(connects_to(&stage, 0), 1);
        drop(under_way);
    })
    .await;
}

/// What an endpoint does.
#[derive(Clone, Copy, Debug)]
enum Conduct {
    /// It answers after so many milliseconds.
    Answers(u64),
    /// Its connects take so many milliseconds.
    IsLate(u64),
    Refuses,
    Closes,
}

/// A client; the times are in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// When it asks.
    asks: u64,
    /// How long after that it leaves, if it has no answer by then.
    leaves: Option<u64>,
}

fn a_call() -> impl Strategy<Value = Call> {
    (0..600_u64, prop::option::of(0..800_u64)).prop_map(|(asks, leaves)| Call { asks, leaves })
}

fn conduct() -> impl Strategy<Value = Conduct> {
    prop_oneof![
        4 => (0..400_u64).prop_map(Conduct::Answers),
        1 => (0..1_500_u64).prop_map(Conduct::IsLate),
        1 => Just(Conduct::Refuses),
        1 => Just(Conduct::Closes),
    ]
}

fn meeting(conduct: Conduct) -> Meeting {
    match conduct {
        Conduct::Answers(time) => Meeting::with(move |stream| thinking(stream, millis(time))),
        Conduct::IsLate(time) => Meeting::after(millis(time), answering),
        Conduct::Refuses => Meeting::Refused,
        Conduct::Closes => Meeting::with(closing),
    }
}

/// Asks once, and leaves in time.
async fn call(stage: Rc<Stage>, call: Call) -> Option<u16> {
    let Call { asks, leaves } = call;
    sleep(millis(asks)).await;
    let mut client = stage.client();
    let asked = client.ask(GET);
    let answer = match leaves {
        Some(leaves) => timeout(millis(leaves), asked).await.ok().flatten(),
        None => asked.await,
    };
    answer.map(|answer| answer.status)
}

/// The most that was ever seen under way with an endpoint.
async fn watch(stage: Rc<Stage>, endpoints: u32, most: Rc<Cell<u32>>) {
    loop {
        let worker = &stage.worker;
        let adopted = worker.adopted();
        let slot = adopted.snapshot().slot(&"backend".into()).unwrap();
        let group = adopted.group(slot, &worker.groups).unwrap();
        let now = (0..endpoints).map(|endpoint| group.member(endpoint).in_flight()).max();
        most.set(most.get().max(now.unwrap_or(0)));
        sleep(millis(1)).await;
    }
}

fn play(limit: u32, conducts: Vec<Conduct>, calls: Vec<Call>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let endpoints = conducts.len();
        let script = move |to: SocketAddr| meeting(conducts[usize::from(to.port())]);
        let stage = Rc::new(stage(endpoints, within(limit), script));
        let most = Rc::new(Cell::new(0));
        let watching = spawn_local(watch(Rc::clone(&stage), endpoints as u32, Rc::clone(&most)));
        let calls: Vec<_> = calls.into_iter().map(|one| spawn_local(call(Rc::clone(&stage), one))).collect();
        for call in calls {
            let status = call.await.unwrap();
            assert!(status.is_none_or(|status| [200, 502, 503, 504].contains(&status)), "{status:?}");
        }
        sleep(60 * SECOND).await;
        watching.abort();
        assert!(most.get() <= limit, "{} of {limit}", most.get());
        stage.at_rest().unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_comes_leaves_or_fails_no_endpoint_has_more_under_way_than_it_may_and_nothing_is_left_behind(
        limit in 1..4_u32,
        conducts in vec(conduct(), 1..4),
        calls in vec(a_call(), 1..24),
    ) {
        play(limit, conducts, calls);
    }
}
