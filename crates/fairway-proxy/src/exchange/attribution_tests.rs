//! On whose account requests fail or are repeated, and for which version of the configuration that counts, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    AccessList, Action, AnswerEdit, Backend, BackendProtocol, Config, Endpoint, ErrorPages, Guard,
    HeaderEdit, HeaderField, PathMatch, Phases, Route, Rule, VirtualHost, WeightedBackend,
};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::attribution::{Attribution, RequestOutcome};
use crate::options::DrainOptions;
use crate::testing::{GET, Meeting, OK, Stage, answering, endpoint, filtered, on_stage, read_head};
use crate::thread::leave;

/// A request that is never sent twice.
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";

/// What counts for a version: how many requests of which kind.
type Counted = Vec<(u64, Attribution, RequestOutcome, u64)>;

/// Everything that is counted, the oldest version first.
fn counted(stage: &Stage) -> Counted {
    let mut found = Vec::new();
    for counts in stage.worker.counters.generations.counts() {
        for outcome in RequestOutcome::ALL {
            for attribution in Attribution::ALL {
                let count = counts.costs.count(attribution, outcome);
                if count > 0 {
                    found.push((counts.version, attribution, outcome, count));
                }
            }
        }
    }
    found
}

fn failed(version: u64, attribution: Attribution, count: u64) -> (u64, Attribution, RequestOutcome, u64) {
    (version, attribution, RequestOutcome::Failed, count)
}

/// Refuses everybody.
fn deny() -> Phases {
    Phases::from(Guard::Access(AccessList { deny: vec!["0.0.0.0/0".parse().unwrap()], allow: Vec::new() }))
}

/// Sets a header of responses.
fn mark(value: &str) -> Phases {
    let set = vec![HeaderField { name: "X-Mark".into(), value: value.into() }];
    Phases::from(AnswerEdit::Headers(HeaderEdit { set, ..HeaderEdit::default() }))
}

/// The same configuration with another rule.
fn ruled(mut config: Config, edit: impl FnOnce(&mut Rule)) -> Config {
    let key = config.hosts.keys().next().unwrap().clone();
    let mut host = VirtualHost::clone(&config.hosts[&key]);
    let mut route = Route::clone(&host.routes[0]);
    edit(&mut route.rules[0]);
    host.routes = vec![Arc::new(route)];
    config.hosts.insert(key, Arc::new(host));
    config
}

/// The same configuration with another backend.
fn backed(mut config: Config, edit: impl FnOnce(&mut Backend)) -> Config {
    let mut backend = Backend::clone(config.backends.values().next().unwrap());
    edit(&mut backend);
    config.backends.insert(backend.key.clone(), Arc::new(backend));
    config
}

/// The same configuration with these endpoints.
fn over(config: Config, numbers: &[u16]) -> Config {
    let endpoints = numbers.iter().map(|number| Endpoint::at(endpoint(*number))).collect();
    backed(config, |backend| backend.endpoints = endpoints)
}

async fn status(stage: &Stage, request: impl AsRef<[u8]>) -> u16 {
    stage.client().ask(request).await.unwrap().status
}

/// How often requests are made in one second, which is more often than they are compared with older snapshots.
const FLOOD: u64 = 300;

#[tokio::test(start_paused = true)]
async fn requests_of_a_rule_that_are_too_many_to_compare_fail_on_the_account_of_the_last_one() {
    on_stage(async {
        let (open, closed) = (filtered(1, Vec::new()), filtered(1, vec![deny()]));
        let stage = Stage::serving(&open, |_| Meeting::with(answering));
        stage.publish(&closed);
        for _ in 0..FLOOD {
            assert_eq!(status(&stage, GET).await, 403);
        }
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, FLOOD)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_rule_that_are_too_many_to_compare_are_no_changes_account() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, |_| Meeting::with(answering));
        stage.publish(&Config { hosts: Config::default().hosts, ..open });
        for _ in 0..FLOOD {
            assert_eq!(status(&stage, GET).await, 404);
        }
        let found = counted(&stage);
        assert!(
            matches!(
                found[..],
                [
                    (2, Attribution::Client, RequestOutcome::Failed, by_clients),
                    (2, Attribution::ConfigurationChange, RequestOutcome::Failed, by_change),
                ] if by_clients > 0 && by_change > 0 && by_clients + by_change == FLOOD
            ),
            "{found:?}"
        );
    })
    .await;
}

/// Reads a request, and closes the connection a while later.
async fn closing(mut stream: DuplexStream) {
    read_head(&mut stream).await;
    sleep(Duration::from_millis(200)).await;
}

/// Reads a request, and answers after a second.
async fn slow(mut stream: DuplexStream) {
    read_head(&mut stream).await;
    sleep(Duration::from_secs(1)).await;
    // The proxy may be gone.
    let _ = stream.write_all(OK).await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_refuses_for_a_moment_costs_its_own_change_what_fails_in_between() {
    on_stage(async {
        let (open, closed) = (filtered(1, Vec::new()), filtered(1, vec![deny()]));
        let stage = Stage::serving(&open, |_| Meeting::with(answering));
        assert_eq!(status(&stage, GET).await, 200);
        stage.publish(&closed);
        for _ in 0..5 {
            assert_eq!(status(&stage, GET).await, 403);
            sleep(Duration::from_millis(10)).await;
        }
        stage.publish(&open);
        assert_eq!(status(&stage, GET).await, 200);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 5)]);
        let requests: Vec<_> =
            stage.worker.counters.generations.counts().iter().map(|it| (it.version, it.requests)).collect();
        assert_eq!(requests, [(1, 1), (2, 5), (3, 1)]);
        for (series, value) in [
            ("fairway_self_inflicted_errors_total{cause=\"configuration_change\"}", 5),
            ("fairway_self_inflicted_errors_total{cause=\"roll\"}", 0),
            ("fairway_attributed_requests_total{attribution=\"configuration_change\",outcome=\"failed\"}", 5),
        ] {
            assert_eq!(stage.value(series), value, "{series}");
        }
        assert_eq!(stage.worker.counters.totals().self_inflicted_last_day, 5);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_is_what_was_meant_after_ten_seconds() {
    on_stage(async {
        let stage = Stage::serving(&filtered(1, Vec::new()), |_| Meeting::with(answering));
        stage.publish(&filtered(1, vec![deny()]));
        sleep(Duration::from_millis(9_900)).await;
        assert_eq!(status(&stage, GET).await, 403);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(status(&stage, GET).await, 403);
        let expected = [failed(2, Attribution::Client, 1), failed(2, Attribution::ConfigurationChange, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_before_a_change_fails_on_nobody_elses_account_after_it() {
    on_stage(async {
        let closed = |value| filtered(1, vec![deny(), mark(value)]);
        let stage = Stage::serving(&closed("1"), |_| Meeting::with(answering));
        assert_eq!(status(&stage, GET).await, 403);
        stage.publish(&closed("2"));
        assert_eq!(status(&stage, GET).await, 403);
        let expected = [failed(1, Attribution::Client, 1), failed(2, Attribution::Client, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_stays_to_blame_behind_changes_of_other_things() {
    on_stage(async {
        let closed = filtered(1, vec![deny()]);
        let stage = Stage::serving(&filtered(1, Vec::new()), |_| Meeting::with(answering));
        stage.publish(&closed);
        stage.publish(&over(closed.clone(), &[0, 1]));
        assert_eq!(status(&stage, GET).await, 403);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
        // More than are kept apart: the account stays the same, though not the version.
        for number in 2..60 {
            stage.publish(&over(closed.clone(), &[0, number]));
        }
        assert_eq!(status(&stage, GET).await, 403);
        let own = stage.value("fairway_self_inflicted_errors_total{cause=\"configuration_change\"}");
        assert_eq!(own, 2, "{:?}", counted(&stage));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_route_that_goes_costs_its_change_what_nobody_serves_any_more() {
    on_stage(async {
        let only = |path: &str| {
            let path = PathMatch::Exact(path.into());
            ruled(filtered(1, Vec::new()), |rule| rule.matches[0].path = path)
        };
        let stage = Stage::serving(&only("/a"), |_| Meeting::with(answering));
        let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status(&stage, ask("/a")).await, 200);
        assert_eq!(status(&stage, ask("/c")).await, 404);
        stage.publish(&only("/b"));
        assert_eq!(status(&stage, ask("/a")).await, 404);
        assert_eq!(status(&stage, ask("/c")).await, 404);
        let mut without = only("/b");
        without.hosts.clear();
        stage.publish(&without);
        assert_eq!(status(&stage, ask("/a")).await, 404);
        assert_eq!(status(&stage, ask("/b")).await, 404);
        let expected = [
            failed(1, Attribution::Client, 1),
            failed(2, Attribution::Client, 1),
            failed(2, Attribution::ConfigurationChange, 2),
            failed(3, Attribution::ConfigurationChange, 1),
        ];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_route_costs_nothing_while_nothing_that_worked_before_fails() {
    on_stage(async {
        let mut nothing = filtered(1, Vec::new());
        nothing.hosts.clear();
        let stage = Stage::serving(&nothing, |_| Meeting::with(answering));
        stage.publish(&filtered(1, vec![deny()]));
        assert_eq!(status(&stage, GET).await, 403);
        stage.publish(&over(filtered(1, vec![deny()]), &[]));
        assert_eq!(status(&stage, GET).await, 403);
        let expected = [failed(2, Attribution::Client, 1), failed(3, Attribution::Client, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_leave_are_their_own_account_and_a_rule_that_leads_nowhere_is_the_changes() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, |_| Meeting::with(answering));
        stage.publish(&over(open.clone(), &[]));
        assert_eq!(status(&stage, GET).await, 503);
        stage.publish(&open);
        stage.publish(&ruled(open.clone(), |rule| {
            rule.action = Action::Forward(vec![WeightedBackend::new("mistyped".into(), 1)]);
        }));
        assert_eq!(status(&stage, GET).await, 503);
        let expected = [failed(2, Attribution::Endpoint, 1), failed(4, Attribution::ConfigurationChange, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_dies_by_itself_costs_no_change() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, |_| Meeting::Refused);
        assert_eq!(status(&stage, POST).await, 502);
        stage.publish(&ruled(open, |rule| rule.phases = mark("1").kept()));
        assert_eq!(status(&stage, POST).await, 502);
        let expected = [failed(1, Attribution::Endpoint, 1), failed(2, Attribution::Endpoint, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

/// Of two endpoints the second one refuses.
fn half(to: SocketAddr) -> Meeting {
    if to == endpoint(0) { Meeting::with(answering) } else { Meeting::Refused }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_repeated_for_an_endpoint_that_a_change_brought_count_for_it() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, half);
        stage.publish(&over(open, &[0, 1]));
        for _ in 0..4 {
            assert_eq!(status(&stage, GET).await, 200);
        }
        let found = counted(&stage);
        let [(2, Attribution::ConfigurationChange, RequestOutcome::Repeated, 1..=4)] = found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(stage.worker.counters.totals().self_inflicted_last_day, 0, "all of them ended well");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_repeated_for_an_endpoint_that_was_there_before_count_for_the_endpoint() {
    on_stage(async {
        let stage = Stage::serving(&filtered(2, Vec::new()), half);
        for _ in 0..4 {
            assert_eq!(status(&stage, GET).await, 200);
        }
        let found = counted(&stage);
        let [(1, Attribution::Endpoint, RequestOutcome::Repeated, 1..=4)] = found[..] else {
            panic!("{found:?}");
        };
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_endpoint_a_change_removes_while_it_is_under_way_counts_for_the_change() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, |_| Meeting::with(closing));
        let mut client = stage.client();
        client.send(POST).await;
        sleep(Duration::from_millis(100)).await;
        stage.publish(&over(open, &[1]));
        assert_eq!(client.answer().await.unwrap().status, 502);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
        let requests = stage.worker.counters.generations.counts()[0].requests;
        assert_eq!(requests, 1, "the first version served it");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_protocol_for_the_same_endpoints_is_a_change_that_may_cost_something() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, |_| Meeting::with(answering));
        assert_eq!(status(&stage, POST).await, 200);
        stage.publish(&backed(open, |backend| backend.protocol = BackendProtocol::H2c));
        assert_eq!(status(&stage, POST).await, 502);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_page_hides_has_failed_all_the_same() {
    on_stage(async {
        let with_page = |phases: Vec<Phases>| {
            let pages = ErrorPages { statuses: vec![403], backend: Some("c".into()), fields: Vec::new() };
            let mut config = filtered(1, [phases, vec![Phases::from(pages)]].concat());
            let endpoints = vec![Endpoint::at(endpoint(7))];
            let backend = Backend::clone(config.backends.values().next().unwrap());
            let backend = Backend { key: "c".into(), endpoints, ..backend };
            config.backends.insert("c".into(), Arc::new(backend));
            config
        };
        let stage = Stage::serving(&with_page(Vec::new()), |_| Meeting::with(answering));
        stage.publish(&with_page(vec![deny()]));
        assert_eq!(status(&stage, GET).await, 200, "that of the page");
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shortage_of_the_process_is_fairways_account() {
    on_stage(async {
        // EADDRNOTAVAIL: no port is left.
        let stage = Stage::serving(&filtered(1, Vec::new()), |_| Meeting::Error(99));
        assert_eq!(status(&stage, GET).await, 503);
        assert_eq!(counted(&stage), [failed(1, Attribution::Fairway, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_or_break_rules_cost_nobody_anything() {
    on_stage(async {
        let open = filtered(1, Vec::new());
        let stage = Stage::serving(&open, |_| Meeting::with(slow));
        let mut client = stage.client();
        client.send(GET).await;
        sleep(Duration::from_millis(100)).await;
        stage.publish(&ruled(open, |rule| rule.phases = mark("1").kept()));
        drop(client);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(status(&stage, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n").await, 400);
        let expected = [failed(1, Attribution::Client, 1), failed(2, Attribution::Client, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_drain_that_is_too_short_cuts_is_the_rolls_account() {
    on_stage(async {
        let stage = Stage::serving(&filtered(1, Vec::new()), |_| Meeting::with(slow));
        let (mut served, mut cut) = (stage.client(), stage.client());
        served.send(GET).await;
        sleep(Duration::from_millis(950)).await;
        cut.send(GET).await;
        sleep(Duration::from_millis(10)).await;
        let (worker, began) = (Rc::clone(&stage.worker), Instant::now());
        let options = DrainOptions { delay: Duration::ZERO, timeout: Duration::from_millis(100) };
        let left = spawn_local(async move { leave(&worker, options).await });
        assert_eq!(served.answer().await.unwrap().status, 200, "there was time for it");
        drop(served);
        assert_eq!(cut.answer().await, None);
        left.await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
        assert_eq!(counted(&stage), [failed(1, Attribution::Roll, 1)]);
        assert_eq!(stage.value("fairway_faults_total{reason=\"drained\"}"), 1);
        assert_eq!(stage.value("fairway_self_inflicted_errors_total{cause=\"roll\"}"), 1);
        stage.at_rest().unwrap();
    })
    .await;
}
