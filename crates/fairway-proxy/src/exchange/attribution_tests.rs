//! Attribution of failed and repeated requests to a cause and a version of the configuration, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    AccessList, Action, Backend, BackendProtocol, Config, Endpoint, ErrorPages, Guard, HeaderEdit,
    HeaderField, PathMatch, Phases, ResponseEdit, Route, Rule, VirtualHost, WeightedBackend,
};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::attribution::{Attribution, RequestOutcome};
use crate::options::DrainOptions;
use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, endpoint, read_head,
    run_local, serve_ok,
};
use crate::thread::drain_connections;

/// A request that is never retried.
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";

/// The counts per version, attribution and outcome.
type Counted = Vec<(u64, Attribution, RequestOutcome, u64)>;

/// All counts, oldest version first.
fn counted(stage: &TestWorker) -> Counted {
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

/// Refuses all clients.
fn deny() -> Phases {
    Phases::from(Guard::Access(AccessList { deny: vec!["0.0.0.0/0".parse().unwrap()], allow: Vec::new() }))
}

/// Sets a header of responses.
fn set_header(value: &str) -> Phases {
    let set = vec![HeaderField { name: "X-Mark".into(), value: value.into() }];
    Phases::from(ResponseEdit::Headers(HeaderEdit { set, ..HeaderEdit::default() }))
}

/// The configuration with an edited rule.
fn with_rule(mut config: Config, edit: impl FnOnce(&mut Rule)) -> Config {
    let key = config.hosts.keys().next().unwrap().clone();
    let mut host = VirtualHost::clone(&config.hosts[&key]);
    let mut route = Route::clone(&host.routes[0]);
    edit(&mut route.rules[0]);
    host.routes = vec![Arc::new(route)];
    config.hosts.insert(key, Arc::new(host));
    config
}

/// The configuration with an edited backend.
fn with_backend(mut config: Config, edit: impl FnOnce(&mut Backend)) -> Config {
    let mut backend = Backend::clone(config.backends.values().next().unwrap());
    edit(&mut backend);
    config.backends.insert(backend.key.clone(), Arc::new(backend));
    config
}

/// The configuration with these endpoints.
fn with_endpoints(config: Config, numbers: &[u16]) -> Config {
    let endpoints = numbers.iter().map(|number| Endpoint::at(endpoint(*number))).collect();
    with_backend(config, |backend| backend.endpoints = endpoints)
}

async fn status(stage: &TestWorker, request: impl AsRef<[u8]>) -> u16 {
    stage.client().request(request).await.unwrap().status
}

/// Requests per second, more often than they are compared with older snapshots.
const FLOOD_REQUESTS: u64 = 300;

#[tokio::test(start_paused = true)]
async fn requests_of_a_rule_that_are_too_many_to_compare_fail_on_the_account_of_the_last_one() {
    run_local(async {
        let (open, closed) = (config_with_phases(1, Vec::new()), config_with_phases(1, vec![deny()]));
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(serve_ok));
        stage.publish(&closed);
        for _ in 0..FLOOD_REQUESTS {
            assert_eq!(status(&stage, GET_REQUEST).await, 403);
        }
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, FLOOD_REQUESTS)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_rule_that_are_too_many_to_compare_are_no_changes_account() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(serve_ok));
        stage.publish(&Config { hosts: Config::default().hosts, ..open });
        for _ in 0..FLOOD_REQUESTS {
            assert_eq!(status(&stage, GET_REQUEST).await, 404);
        }
        let found = counted(&stage);
        assert!(
            matches!(
                found[..],
                [
                    (2, Attribution::Client, RequestOutcome::Failed, by_clients),
                    (2, Attribution::ConfigurationChange, RequestOutcome::Failed, by_change),
                ] if by_clients > 0 && by_change > 0 && by_clients + by_change == FLOOD_REQUESTS
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

/// Reads a request, and responds after a second.
async fn slow(mut stream: DuplexStream) {
    read_head(&mut stream).await;
    sleep(Duration::from_secs(1)).await;
    // The proxy may be gone.
    let _ = stream.write_all(OK_RESPONSE).await;
}

#[tokio::test(start_paused = true)]
async fn a_temporary_refusal_attributes_failures_to_its_own_change() {
    run_local(async {
        let (open, closed) = (config_with_phases(1, Vec::new()), config_with_phases(1, vec![deny()]));
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(serve_ok));
        assert_eq!(status(&stage, GET_REQUEST).await, 200);
        stage.publish(&closed);
        for _ in 0..5 {
            assert_eq!(status(&stage, GET_REQUEST).await, 403);
            sleep(Duration::from_millis(10)).await;
        }
        stage.publish(&open);
        assert_eq!(status(&stage, GET_REQUEST).await, 200);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 5)]);
        let requests: Vec<_> =
            stage.worker.counters.generations.counts().iter().map(|it| (it.version, it.requests)).collect();
        assert_eq!(requests, [(1, 1), (2, 5), (3, 1)]);
        for (series, value) in [
            ("fairway_self_inflicted_errors_total{cause=\"configuration_change\"}", 5),
            ("fairway_self_inflicted_errors_total{cause=\"roll\"}", 0),
            ("fairway_attributed_requests_total{attribution=\"configuration_change\",outcome=\"failed\"}", 5),
        ] {
            assert_eq!(stage.metric_value(series), value, "{series}");
        }
        assert_eq!(stage.worker.counters.totals().self_inflicted_last_day, 5);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_ten_seconds_counts_as_intended() {
    run_local(async {
        let stage = TestWorker::with_config(&config_with_phases(1, Vec::new()), |_| {
            ScriptedConnect::served_by(serve_ok)
        });
        stage.publish(&config_with_phases(1, vec![deny()]));
        sleep(Duration::from_millis(9_900)).await;
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        let expected = [failed(2, Attribution::Client, 1), failed(2, Attribution::ConfigurationChange, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_from_before_a_change_is_not_attributed_to_it() {
    run_local(async {
        let closed = |value| config_with_phases(1, vec![deny(), set_header(value)]);
        let stage = TestWorker::with_config(&closed("1"), |_| ScriptedConnect::served_by(serve_ok));
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        stage.publish(&closed("2"));
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        let expected = [failed(1, Attribution::Client, 1), failed(2, Attribution::Client, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_stays_to_blame_behind_changes_of_other_things() {
    run_local(async {
        let closed = config_with_phases(1, vec![deny()]);
        let stage = TestWorker::with_config(&config_with_phases(1, Vec::new()), |_| {
            ScriptedConnect::served_by(serve_ok)
        });
        stage.publish(&closed);
        stage.publish(&with_endpoints(closed.clone(), &[0, 1]));
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
        // More versions than are counted separately: the attribution stays the same, but not the version.
        for number in 2..60 {
            stage.publish(&with_endpoints(closed.clone(), &[0, number]));
        }
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        let self_inflicted =
            stage.metric_value("fairway_self_inflicted_errors_total{cause=\"configuration_change\"}");
        assert_eq!(self_inflicted, 2, "{:?}", counted(&stage));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn failures_after_a_removed_route_are_attributed_to_its_change() {
    run_local(async {
        let only = |path: &str| {
            let path = PathMatch::Exact(path.into());
            with_rule(config_with_phases(1, Vec::new()), |rule| rule.matches[0].path = path)
        };
        let stage = TestWorker::with_config(&only("/a"), |_| ScriptedConnect::served_by(serve_ok));
        let request_for = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status(&stage, request_for("/a")).await, 200);
        assert_eq!(status(&stage, request_for("/c")).await, 404);
        stage.publish(&only("/b"));
        assert_eq!(status(&stage, request_for("/a")).await, 404);
        assert_eq!(status(&stage, request_for("/c")).await, 404);
        let mut without = only("/b");
        without.hosts.clear();
        stage.publish(&without);
        assert_eq!(status(&stage, request_for("/a")).await, 404);
        assert_eq!(status(&stage, request_for("/b")).await, 404);
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
async fn a_new_route_costs_nothing_while_no_working_request_fails() {
    run_local(async {
        let mut nothing = config_with_phases(1, Vec::new());
        nothing.hosts.clear();
        let stage = TestWorker::with_config(&nothing, |_| ScriptedConnect::served_by(serve_ok));
        stage.publish(&config_with_phases(1, vec![deny()]));
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        stage.publish(&with_endpoints(config_with_phases(1, vec![deny()]), &[]));
        assert_eq!(status(&stage, GET_REQUEST).await, 403);
        let expected = [failed(2, Attribution::Client, 1), failed(3, Attribution::Client, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_leave_are_their_own_account_and_a_rule_that_leads_nowhere_is_the_changes() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(serve_ok));
        stage.publish(&with_endpoints(open.clone(), &[]));
        assert_eq!(status(&stage, GET_REQUEST).await, 503);
        stage.publish(&open);
        stage.publish(&with_rule(open.clone(), |rule| {
            rule.action = Action::Forward(vec![WeightedBackend::new("mistyped".into(), 1)]);
        }));
        assert_eq!(status(&stage, GET_REQUEST).await, 503);
        let expected = [failed(2, Attribution::Endpoint, 1), failed(4, Attribution::ConfigurationChange, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_dies_by_itself_costs_no_change() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::Refused);
        assert_eq!(status(&stage, POST).await, 502);
        stage.publish(&with_rule(open, |rule| rule.phases = set_header("1").shared()));
        assert_eq!(status(&stage, POST).await, 502);
        let expected = [failed(1, Attribution::Endpoint, 1), failed(2, Attribution::Endpoint, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

/// Two endpoints, of which the second refuses connections.
fn second_refuses(to: SocketAddr) -> ScriptedConnect {
    if to == endpoint(0) { ScriptedConnect::served_by(serve_ok) } else { ScriptedConnect::Refused }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_repeated_for_an_endpoint_that_a_change_brought_count_for_it() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, second_refuses);
        stage.publish(&with_endpoints(open, &[0, 1]));
        for _ in 0..4 {
            assert_eq!(status(&stage, GET_REQUEST).await, 200);
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
    run_local(async {
        let stage = TestWorker::with_config(&config_with_phases(2, Vec::new()), second_refuses);
        for _ in 0..4 {
            assert_eq!(status(&stage, GET_REQUEST).await, 200);
        }
        let found = counted(&stage);
        let [(1, Attribution::Endpoint, RequestOutcome::Repeated, 1..=4)] = found[..] else {
            panic!("{found:?}");
        };
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_in_flight_to_a_removed_endpoint_counts_for_the_change() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(closing));
        let mut client = stage.client();
        client.send(POST).await;
        sleep(Duration::from_millis(100)).await;
        stage.publish(&with_endpoints(open, &[1]));
        assert_eq!(client.response().await.unwrap().status, 502);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
        let requests = stage.worker.counters.generations.counts()[0].requests;
        assert_eq!(requests, 1, "the first version served it");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_protocol_to_the_same_endpoints_may_cause_failures() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(serve_ok));
        assert_eq!(status(&stage, POST).await, 200);
        stage.publish(&with_backend(open, |backend| backend.protocol = BackendProtocol::H2c));
        assert_eq!(status(&stage, POST).await, 502);
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_hidden_by_an_error_page_still_counts() {
    run_local(async {
        let with_page = |phases: Vec<Phases>| {
            let pages = ErrorPages { statuses: vec![403], backend: Some("c".into()), fields: Vec::new() };
            let mut config = config_with_phases(1, [phases, vec![Phases::from(pages)]].concat());
            let endpoints = vec![Endpoint::at(endpoint(7))];
            let backend = Backend::clone(config.backends.values().next().unwrap());
            let backend = Backend { key: "c".into(), endpoints, ..backend };
            config.backends.insert("c".into(), Arc::new(backend));
            config
        };
        let stage = TestWorker::with_config(&with_page(Vec::new()), |_| ScriptedConnect::served_by(serve_ok));
        stage.publish(&with_page(vec![deny()]));
        assert_eq!(status(&stage, GET_REQUEST).await, 200, "that of the page");
        assert_eq!(counted(&stage), [failed(2, Attribution::ConfigurationChange, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shortage_of_the_process_is_fairways_account() {
    run_local(async {
        // EADDRNOTAVAIL: no port is left.
        let stage =
            TestWorker::with_config(&config_with_phases(1, Vec::new()), |_| ScriptedConnect::Error(99));
        assert_eq!(status(&stage, GET_REQUEST).await, 503);
        assert_eq!(counted(&stage), [failed(1, Attribution::Fairway, 1)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_or_break_rules_count_for_no_one_else() {
    run_local(async {
        let open = config_with_phases(1, Vec::new());
        let stage = TestWorker::with_config(&open, |_| ScriptedConnect::served_by(slow));
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        sleep(Duration::from_millis(100)).await;
        stage.publish(&with_rule(open, |rule| rule.phases = set_header("1").shared()));
        drop(client);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(status(&stage, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n").await, 400);
        let expected = [failed(1, Attribution::Client, 1), failed(2, Attribution::Client, 1)];
        assert_eq!(counted(&stage), expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_cut_by_a_short_drain_count_for_the_roll() {
    run_local(async {
        let stage =
            TestWorker::with_config(&config_with_phases(1, Vec::new()), |_| ScriptedConnect::served_by(slow));
        let (mut served, mut cut) = (stage.client(), stage.client());
        served.send(GET_REQUEST).await;
        sleep(Duration::from_millis(950)).await;
        cut.send(GET_REQUEST).await;
        sleep(Duration::from_millis(10)).await;
        let (worker, began) = (Rc::clone(&stage.worker), Instant::now());
        let options = DrainOptions { delay: Duration::ZERO, timeout: Duration::from_millis(100) };
        let drain = spawn_local(async move { drain_connections(&worker, options).await });
        assert_eq!(served.response().await.unwrap().status, 200, "there was time for it");
        drop(served);
        assert_eq!(cut.response().await, None);
        drain.await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
        assert_eq!(counted(&stage), [failed(1, Attribution::Roll, 1)]);
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"drained\"}"), 1);
        assert_eq!(stage.metric_value("fairway_self_inflicted_errors_total{cause=\"roll\"}"), 1);
        stage.check_idle().unwrap();
    })
    .await;
}
