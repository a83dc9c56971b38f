//! Measures the memory of a scrape with many series.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
#![allow(clippy::print_stdout, reason = "the figure is read by whoever runs it")]

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use fairway_http::Method;
use fairway_model::{
    Action, Config, HostKey, HostPattern, Match, Origin, PathForm, Route, Rule, RuleLabels, RuleOrder,
    VirtualHost,
};
use fairway_net::clock::Instant;
use fairway_proxy::metrics::record::{ExchangeRecord, UpstreamRecord};
use fairway_proxy::metrics::{Counters, Gauges, Sample, ScrapeText};
use fairway_routing::{Fields, Matched, Request, compile};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Label sets, as many as a worker keeps.
const SETS: usize = 10_000;

/// Bytes that a scrape may hold per label set, as documented in docs/metrics.md.
const MAX_BYTES_PER_SET: usize = 2_000;

/// Bytes of text held at a time.
const MAX_TEXT_BYTES: usize = 256 * 1024;

const IDENTITY: &str = "controller_class=\"fairway.dev/ingress-controller\",controller_namespace=\"fairway\",\
                        controller_pod=\"fairway-6d5f8b7c9d-x2x7k\"";

/// A request without headers.
struct Nothing;

impl Fields for Nothing {
    fn first(&self, _: &str) -> Option<&[u8]> {
        None
    }
}

fn config() -> Config {
    let labels = RuleLabels {
        namespace: "team-checkout".into(),
        ingress: "checkout-service-public".into(),
        service: "checkout-service".into(),
        service_port: "http".into(),
        path: "/api/v2/checkout".into(),
    };
    let rule = Rule {
        origin: Origin::object("Ingress", "team-checkout", "checkout-service-public"),
        matches: vec![Match::default()],
        phases: Arc::default(),
        action: Action::Forward(Vec::new()),
        policy: Arc::default(),
        labels,
    };
    let host = VirtualHost {
        key: HostKey { table: "ingress".into(), host: HostPattern::Any },
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(Route {
            origin: rule.origin.clone(),
            created: None,
            hostname_rank: 0,
            rules: vec![rule],
        })],
        certificate: None,
        clients: None,
        suites: None,
        falls_through: false,
    };
    let mut config = Config::default();
    config.hosts.insert(host.key.clone(), Arc::new(host));
    config
}

/// Counts an exchange for each label set: labels of one rule with many methods and statuses are as long as those of many rules.
fn observe(counters: &Counters) {
    let snapshot = compile(&config(), None).snapshot;
    let request = Request {
        host: "checkout.shop.example.com",
        method: b"GET",
        normalised: b"/",
        decoded: b"/",
        query: b"",
        fields: &Nothing,
    };
    let Matched::Rule { rule, .. } = snapshot.lookup(snapshot.table("ingress").unwrap(), &request) else {
        panic!("the rule takes everything")
    };
    let methods = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete];
    let host = HostPattern::Any;
    for number in 0..SETS {
        let mut record = ExchangeRecord::new(Instant::now(), 300);
        record.method = methods[number % methods.len()];
        record.status = u16::try_from(100 + number / methods.len()).unwrap();
        record.served_by.rule = Some(rule);
        record.served_by.host = Some(&host);
        let endpoint = "192.0.2.1:8080".parse().unwrap();
        record.upstream = Some(UpstreamRecord::failed(endpoint, 1, Duration::from_millis(7)));
        counters.observe(&record);
    }
}

fn live(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

#[test]
fn a_scrape_holds_the_numbers_of_all_series_and_a_piece_of_their_text() {
    let workers = [Counters::default(), Counters::default(), Counters::default()];
    workers.iter().for_each(observe);
    let region = Region::new(COUNTED);
    let mut limit = 0;
    let mut sum = Sample::default();
    for worker in &workers {
        let sample = worker.sample(Gauges::default());
        limit = limit.max(live(&region));
        sum.merge(sample);
    }
    let mut text = ScrapeText::new(sum, IDENTITY);
    limit = limit.max(live(&region));
    let mut length = 0;
    for piece in text.by_ref() {
        limit = limit.max(live(&region));
        length += piece.len();
    }
    println!("{} bytes of text and {} bytes of memory for each set", length / SETS, limit / SETS);
    assert!(length > SETS * 20_000, "{length} bytes of text are not what ten thousand sets have");
    assert!(limit < SETS * MAX_BYTES_PER_SET + MAX_TEXT_BYTES, "{} bytes for each set", limit / SETS);
    drop(text);
    assert!(live(&region) < MAX_TEXT_BYTES, "nothing stays");
}
