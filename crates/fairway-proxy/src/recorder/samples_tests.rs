//! Which requests are sampled for a rule, how many, and for how long.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::sync::Arc;
use std::time::Duration;

use fairway_http::HeadLimits;
use fairway_model::{Route, VirtualHost};
use fairway_net::clock::Instant;
use fairway_routing::{CompiledRule, Snapshot, compile};

use super::samples::{MAX_RULES, SAMPLES_PER_RULE, merge_samples};
use super::{Recorder, SampledRequest, recorded_samples};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::listener::ListenerId;
use crate::metrics::record::{ExchangeRecord, UpstreamRecord};
use crate::options::RecorderOptions;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::{config_with_phases, endpoint};

const HOUR: Duration = Duration::from_secs(3_600);

/// A recorder and a configuration with this many rules.
struct RecorderFixture {
    recorder: Recorder,
    snapshot: Arc<Snapshot>,
}

impl RecorderFixture {
    fn new(retention: Duration, rules: usize) -> Self {
        let mut config = config_with_phases(1, Vec::new());
        let host = VirtualHost::clone(config.hosts.values().next().unwrap());
        let mut route = Route::clone(&host.routes[0]);
        let rule = route.rules[0].clone();
        let numbered = |number: usize| {
            let mut rule = rule.clone();
            rule.origin = rule.origin.at(format!("spec.rules[{number}]"));
            rule
        };
        route.rules = (0..rules).map(numbered).collect();
        let host = VirtualHost { routes: vec![Arc::new(route)], ..host };
        config.hosts.insert(host.key.clone(), Arc::new(host));
        let recorder = Recorder::new(RecorderOptions { exchanges_per_worker: 40, retention });
        Self { recorder, snapshot: compile(&config, None).snapshot }
    }

    fn rule(&self, number: usize) -> &CompiledRule {
        let host = self.snapshot.config().hosts.keys().next().unwrap();
        let table = self.snapshot.table(&host.table).unwrap();
        let covering = self.snapshot.covering(table, "a.test");
        &covering[0].rules()[number]
    }

    /// Records a finished request for `target` served by the rule.
    fn serve(&self, rule: usize, target: &str) {
        let mut record = ExchangeRecord::new(Instant::now(), 10);
        record.status = 200;
        record.served_by.rule = Some(self.rule(rule));
        record.upstream = Some(UpstreamRecord {
            endpoint: endpoint(8080),
            status: 200,
            sent: Duration::ZERO.into(),
            connect: Duration::ZERO.into(),
            header: Duration::ZERO.into(),
            response: Duration::ZERO.into(),
            attempts: 1,
            hedged: false,
        });
        self.recorder.record(&record, &buffers(target), &peer(), 1);
    }

    /// Advances by a second.
    async fn tick(&self) {
        tokio::time::advance(Duration::from_secs(1)).await;
        self.recorder.tick(Instant::now());
    }

    fn samples(&self) -> Vec<SampledRequest> {
        let names = |listener| (listener == peer().listener).then(|| "http".into());
        merge_samples(self.recorder.samples(&names).samples)
    }

    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<_> = self.samples().into_iter().map(|it| it.path).collect();
        paths.sort();
        paths
    }
}

fn peer() -> Peer {
    let listener = ListenerId { slot: 2, generation: 1 };
    let client = "192.0.2.7".parse().unwrap();
    Peer { listener, scheme: Scheme::Http, client, sender: Sender::Client, details: None }
}

fn buffers(target: &str) -> Buffers {
    let mut buffers = Buffers::default();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Request-ID: secret\r\nAuthorization: secret\r\nUser-Agent: secret\r\n\r\n"
    );
    fairway_http::http1::HeadParser::new()
        .request(&mut buffers.request, head.as_bytes(), &HeadLimits::default())
        .unwrap();
    buffers.host.push_str("a.test");
    buffers.addresses.client = Some("203.0.113.7".parse().unwrap());
    buffers
}

#[tokio::test(start_paused = true)]
async fn a_sample_contains_the_request_and_nothing_about_the_client() {
    let fixture = RecorderFixture::new(HOUR, 1);
    fixture.serve(0, "/cart?token=secret");
    assert!(fixture.samples().is_empty(), "samples are taken by the tick, not while a request is served");
    fixture.tick().await;
    let samples = fixture.samples();
    let json = serde_json::to_string(&samples).unwrap();
    assert!(!json.contains("secret") && !json.contains("203.0.113.7"), "{json}");
    let [it] = samples.as_slice() else { panic!("{json}") };
    assert_eq!((&*it.method, &*it.host, &*it.path, it.has_query), ("GET", "a.test", "/cart", true));
    assert_eq!((&*it.scheme, it.status, it.forwarded), ("http", 200, true));
    assert_eq!(it.listener.as_deref(), Some("http"));
    assert_eq!(it.rule.as_ref().unwrap().field, "spec.rules[0]");
}

#[tokio::test(start_paused = true)]
async fn samples_outlive_exchanges_and_are_all_different() {
    let fixture = RecorderFixture::new(HOUR, 2);
    fixture.serve(1, "/rare");
    fixture.tick().await;
    for _ in 0..100 {
        fixture.serve(0, "/often");
    }
    fixture.tick().await;
    assert_eq!(fixture.paths(), ["/often", "/rare"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_has_few_samples_spread_over_time() {
    let fixture = RecorderFixture::new(HOUR, 1);
    for number in 0..20 {
        fixture.serve(0, &format!("/{number}"));
        fixture.tick().await;
    }
    let first: Vec<_> = (0..SAMPLES_PER_RULE).map(|number| format!("/{number}")).collect();
    assert_eq!(fixture.paths(), first, "samples of the same period do not replace each other");
    tokio::time::advance(HOUR / 8).await;
    fixture.serve(0, "/later");
    fixture.serve(0, "/later/too");
    fixture.tick().await;
    let paths = fixture.paths();
    assert_eq!(paths.len(), SAMPLES_PER_RULE);
    let later: Vec<_> = paths.iter().filter(|path| path.starts_with("/later")).collect();
    assert_eq!(later.len(), 1, "{paths:?}");
    assert!(!paths.contains(&"/0".to_owned()), "the oldest was not replaced: {paths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sample_is_kept_for_an_hour_or_the_shorter_retention_of_exchanges() {
    for (keep, expected) in [(Duration::from_secs(60), 60), (HOUR, 3_600), (HOUR * 24, 3_600)] {
        let fixture = RecorderFixture::new(keep, 1);
        fixture.serve(0, "/");
        fixture.recorder.tick(Instant::now());
        tokio::time::advance(Duration::from_secs(expected)).await;
        assert_eq!(fixture.paths(), ["/"], "{keep:?}");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(fixture.paths(), [""; 0], "{keep:?}, before it is dropped");
        for _ in 0..8 {
            fixture.tick().await;
        }
        fixture.serve(0, "/new");
        fixture.tick().await;
        assert_eq!(fixture.paths(), ["/new"], "{keep:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_rule_is_evicted() {
    let rules = MAX_RULES + 20;
    let fixture = RecorderFixture::new(HOUR, rules);
    for number in 0..rules {
        fixture.serve(number, "/");
        // A tick reads the ten latest exchanges, a quarter of the 40 that are recorded.
        if number % 10 == 9 {
            fixture.tick().await;
        }
    }
    fixture.tick().await;
    let samples = fixture.samples();
    assert_eq!(samples.len(), MAX_RULES);
    let has = |number: usize| {
        let field = format!("spec.rules[{number}]");
        samples.iter().any(|it| it.rule.as_ref().is_some_and(|rule| rule.field == field))
    };
    assert!(has(rules - 1) && !has(0));
}

#[tokio::test(start_paused = true)]
async fn unrouted_requests_are_sampled_and_malformed_ones_are_not() {
    let fixture = RecorderFixture::new(HOUR, 1);
    for (fault, target) in [(Fault::NoRoute, "/nowhere"), (Fault::Overloaded, "/shed")] {
        let mut record = ExchangeRecord::new(Instant::now(), 10);
        (record.fault, record.status) = (Some(fault), fault.status());
        fixture.recorder.record(&record, &buffers(target), &peer(), 1);
    }
    fixture.tick().await;
    assert_eq!(fixture.paths(), ["/nowhere"]);
    assert_eq!(fixture.samples()[0].rule, None);
    fixture.recorder.clear();
    assert_eq!(fixture.paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn each_request_of_several_workers_is_listed_once() {
    let fixture = RecorderFixture::new(HOUR, 1);
    let other = Recorder::new(RecorderOptions { exchanges_per_worker: 40, retention: HOUR });
    fixture.serve(0, "/");
    fixture.tick().await;
    let mut record = ExchangeRecord::new(Instant::now(), 10);
    record.status = 503;
    record.served_by.rule = Some(fixture.rule(0));
    other.record(&record, &buffers("/"), &peer(), 1);
    other.tick(Instant::now());
    let names = |_| None;
    let both = [&fixture.recorder, &other].map(|recorder| recorder.samples(&names));
    let options = RecorderOptions { exchanges_per_worker: 40, retention: HOUR * 2 };
    let merged = recorded_samples(both.into(), options);
    let statuses: Vec<_> = merged.samples.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [503], "two samples of a request are merged into the latest");
    assert_eq!((merged.workers, merged.exchanges), (2, 40));
    assert_eq!((merged.exchange_seconds, merged.sample_seconds), (7_200, 3_600));
    assert_eq!((merged.oldest_seconds, merged.complete_seconds), (Some(1), None));
}

#[tokio::test(start_paused = true)]
async fn reports_since_when_every_exchange_is_recorded() {
    let fixture = RecorderFixture::new(HOUR, 1);
    for number in 0..25 {
        fixture.serve(0, &format!("/{number}"));
        fixture.tick().await;
    }
    let options = RecorderOptions { exchanges_per_worker: 40, retention: HOUR };
    let samples = recorded_samples(vec![fixture.recorder.samples(&|_| None)], options);
    assert_eq!(
        (samples.oldest_seconds, samples.complete_seconds),
        (Some(10), Some(10)),
        "complete for the ten latest exchanges, a quarter of the 40 that are recorded"
    );
}
