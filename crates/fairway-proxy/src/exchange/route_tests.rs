//! Exchanges of Gateway API routes, in virtual time: shares with filters of their own, timeouts, and configured retries.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Action, Forwarding, HeaderEdit, HeaderField, Mirror, MirrorTarget, PathRewrite, Phases, Redirect,
    RedirectTarget, RequestEdit, ResponseEdit, RetrySource, RouteFilters, Rule, WeightedBackend,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, run_local};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
const PUT: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
const AT_ONCE: Duration = Duration::ZERO;

/// Requests that endpoints received: the endpoint's number, and head and body.
type ReceivedRequests = Rc<RefCell<Vec<(u16, String)>>>;
/// The response of an endpoint to its n-th request, and how long it takes.
type Responses = Rc<dyn Fn(u16, usize) -> (Duration, &'static str)>;

async fn serve_responses(
    number: u16,
    responses: Responses,
    seen: ReceivedRequests,
    mut stream: DuplexStream,
) {
    while let Some(request) = read(&mut stream).await {
        let before = seen.borrow().iter().filter(|(other, _)| *other == number).count();
        seen.borrow_mut().push((number, request));
        let (after, response) = responses(number, before);
        sleep(after).await;
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut DuplexStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.ok()?);
    }
    let mut request = String::from_utf8(bytes).unwrap();
    let mut body = vec![0; field(&request, "content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    request.push_str(&String::from_utf8(body).unwrap());
    Some(request)
}

/// The value of a header in a head.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// A stage whose rule `edit` changes.
fn stage(
    endpoints: usize,
    edit: impl FnOnce(&mut Rule),
    responses: impl Fn(u16, usize) -> (Duration, &'static str) + 'static,
) -> (TestWorker, ReceivedRequests) {
    let received = ReceivedRequests::default();
    let responses: Responses = Rc::new(responses);
    let script = {
        let received = Rc::clone(&received);
        move |to: SocketAddr| {
            let (responses, seen) = (Rc::clone(&responses), Rc::clone(&received));
            ScriptedConnect::served_by(move |stream| serve_responses(to.port(), responses, seen, stream))
        }
    };
    (TestWorker::with_rule(endpoints, edit, script), received)
}

fn set(name: &str, value: &str) -> HeaderEdit {
    HeaderEdit { set: vec![HeaderField { name: name.into(), value: value.into() }], ..HeaderEdit::default() }
}

fn share(backend: &str, filters: RouteFilters) -> WeightedBackend {
    WeightedBackend { filters: Some(Box::new(filters)), ..WeightedBackend::new(backend.into(), 1) }
}

/// Sets a request header.
fn set_request_header(name: &str, value: &str) -> RequestEdit {
    RequestEdit::Headers(set(name, value))
}

/// Sets a response header.
fn set_response_header(name: &str, value: &str) -> Phases {
    ResponseEdit::Headers(set(name, value)).into()
}

fn mirror(backend: &str) -> Mirror {
    Mirror {
        backend: backend.into(),
        numerator: 1,
        denominator: 1,
        max_body: 1024,
        target: MirrorTarget::Forwarded,
        host: None,
    }
}

async fn run_ready_tasks() {
    for _ in 0..30 {
        yield_now().await;
    }
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The number of requests that an endpoint received.
fn request_count(received: &ReceivedRequests, number: u16) -> usize {
    received.borrow().iter().filter(|(other, _)| *other == number).count()
}

#[tokio::test(start_paused = true)]
async fn each_share_has_its_own_filters_after_those_of_the_rule() {
    run_local(async {
        let value_of = |name: &str| {
            let (request, response) = (vec![set_request_header("X-Share", name)], vec![set("X-By", name)]);
            share(name, RouteFilters { request, reply: response, ..RouteFilters::default() })
        };
        let edit = |rule: &mut Rule| {
            let request = vec![set_request_header("X-Share", "rule"), set_request_header("X-Rule", "yes")];
            rule.phases = Phases { request, ..set_response_header("X-Seen", "yes") }.shared();
            rule.action =
                Action::Forward(vec![value_of("a"), value_of("b"), WeightedBackend::new("c".into(), 1)]);
        };
        let (stage, seen) = stage(1, edit, |_, _| (AT_ONCE, OK));
        let mut client = stage.client();
        let mut endpoints = Vec::new();
        for _ in 0..60 {
            client.send(GET_REQUEST).await;
            let text = client.response_text().await;
            assert_eq!(field(&text, "X-Seen"), Some("yes"), "{text}");
            endpoints.push(field(&text, "X-By").map(str::to_owned));
        }
        for ((number, request), by) in seen.borrow().iter().zip(endpoints) {
            let (share, by_share) = match number {
                100 => ("a", Some("a")),
                101 => ("b", Some("b")),
                _ => ("rule", None),
            };
            assert_eq!(field(request, "X-Share"), Some(share), "{request}");
            assert_eq!((field(request, "X-Rule"), by.as_deref()), (Some("yes"), by_share), "{request}");
        }
        assert!([100, 101, 102].iter().all(|number| request_count(&seen, *number) > 0));
        assert_eq!(request_count(&seen, 0), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_share_rewrites_and_copies_its_own_requests() {
    run_local(async {
        let edit = |rule: &mut Rule| {
            rule.phases = Phases::from(mirror("b")).shared();
            let filters = RouteFilters {
                request: vec![set_request_header("X-Share", "a"), RequestEdit::Host("inner.test".into())],
                path: Some(PathRewrite::Full("/new".into())),
                mirrors: vec![mirror("c")],
                ..RouteFilters::default()
            };
            rule.action = Action::Forward(vec![share("a", filters)]);
        };
        let (stage, seen) = stage(1, edit, |_, _| (AT_ONCE, OK));
        assert_eq!(stage.client().request(PUT).await.unwrap().status, 200);
        run_ready_tasks().await;
        let received = seen.borrow();
        let request_at = |number: u16| &received.iter().find(|(to, _)| *to == number).unwrap().1;
        for (number, line, host, share) in [
            (100, "PUT /new HTTP/1.1\r\n", "inner.test", Some("a")),
            (101, "PUT / HTTP/1.1\r\n", "a", None),
            (102, "PUT /new HTTP/1.1\r\n", "inner.test", Some("a")),
        ] {
            let request = request_at(number);
            assert!(request.starts_with(line) && request.ends_with("\r\n\r\nbody"), "{number}: {request}");
            assert_eq!((field(request, "Host"), field(request, "X-Share")), (Some(host), share), "{number}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_share_redirects_its_own_requests() {
    run_local(async {
        let target = RedirectTarget::Url("https://b.test/".into());
        let redirect = Some(Redirect { status: 307, target });
        let filters = RouteFilters { redirect, ..RouteFilters::default() };
        let edit = |rule: &mut Rule| {
            rule.phases = set_response_header("X-Seen", "yes").shared();
            rule.action = Action::Forward(vec![share("a", filters)]);
        };
        let (stage, seen) = stage(1, edit, |_, _| (AT_ONCE, OK));
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        let text = client.response_text().await;
        assert!(text.starts_with("HTTP/1.1 307 "), "{text}");
        assert_eq!(
            (field(&text, "Location"), field(&text, "X-Seen")),
            (Some("https://b.test/"), Some("yes"))
        );
        assert_eq!(seen.borrow().len(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_share_is_500_and_a_share_without_endpoints_503() {
    run_local(async {
        let edited =
            RouteFilters { request: vec![set_request_header("X-Share", "gone")], ..RouteFilters::default() };
        for (other, status, reason) in [
            (WeightedBackend::invalid("gone".into(), 1), 500, "no_backend"),
            (share("gone", edited), 503, "no_endpoint"),
        ] {
            let edit = |rule: &mut Rule| {
                rule.phases = set_response_header("X-Seen", "yes").shared();
                rule.action = Action::Forward(vec![WeightedBackend::new("a".into(), 1), other]);
            };
            let (stage, seen) = stage(1, edit, |_, _| (AT_ONCE, OK));
            let mut client = stage.client();
            let mut failed = 0;
            for _ in 0..40 {
                client.send(GET_REQUEST).await;
                let text = client.response_text().await;
                assert_eq!(field(&text, "X-Seen"), Some("yes"), "{text}");
                match text.starts_with(&format!("HTTP/1.1 {status} ")) {
                    true => failed += 1,
                    false => assert!(text.starts_with("HTTP/1.1 200 "), "{text}"),
                }
            }
            assert!((5..35).contains(&failed), "{failed} of 40");
            assert_eq!(request_count(&seen, 100), 40 - failed);
            let counted = stage.metric_value(&format!("fairway_faults_total{{reason=\"{reason}\"}}"));
            assert_eq!(counted, failed as u64);
        }
        let edit = |rule: &mut Rule| {
            rule.action = Action::Forward(vec![WeightedBackend::invalid("gone".into(), 1)]);
        };
        let (stage, _) = stage(1, edit, |_, _| (AT_ONCE, OK));
        let call =
            "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n";
        let mut client = stage.client();
        client.send(call).await;
        assert_eq!(field(&client.response_text().await, "grpc-status"), Some("14"), "UNAVAILABLE");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn several_mirrors_get_copies_or_a_fraction_of_them() {
    run_local(async {
        let part = Mirror { numerator: 1, denominator: 4, ..mirror("c") };
        let mirrors = vec![mirror("a"), mirror("b"), part];
        let copying = Phases::from(Forwarding { mirrors, ..Forwarding::default() });
        let edit = |rule: &mut Rule| rule.phases = copying.shared();
        let (stage, seen) = stage(1, edit, |_, _| (AT_ONCE, OK));
        let mut client = stage.client();
        for _ in 0..200 {
            assert_eq!(client.request(PUT).await.unwrap().status, 200);
            run_ready_tasks().await;
        }
        assert_eq!([0, 100, 101].map(|number| request_count(&seen, number)), [200; 3]);
        assert!((20..80).contains(&request_count(&seen, 102)), "{} of 200", request_count(&seen, 102));
        assert!(seen.borrow().iter().all(|(_, text)| text.ends_with("\r\n\r\nbody")));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_has_the_time_that_its_rule_gives_it() {
    run_local(async {
        for (limit, after, status) in [(Some(500), 1000, 504), (Some(500), 400, 200), (None, 1000, 200)] {
            let edit =
                |rule: &mut Rule| Arc::make_mut(&mut rule.policy).timeouts.request = limit.map(milliseconds);
            let (stage, seen) = stage(2, edit, move |_, _| (milliseconds(after), OK));
            let mut client = stage.client();
            for _ in 0..2 {
                let began = Instant::now();
                assert_eq!(client.request(GET_REQUEST).await.unwrap().status, status);
                let expected = milliseconds(limit.unwrap_or(after).min(after));
                let took = began.elapsed();
                assert!(took >= expected && took < expected + milliseconds(20), "{took:?}");
            }
            let counted = stage.metric_value("fairway_faults_total{reason=\"request_timeout\"}");
            assert_eq!((counted, seen.borrow().len()), (if status == 504 { 2 } else { 0 }, 2));
            drop(client);
            run_ready_tasks().await;
            assert_eq!(stage.check_idle(), Ok(()));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_that_does_not_end_in_time_is_cut() {
    run_local(async {
        for whole in [true, false] {
            let edit = |rule: &mut Rule| {
                let timeouts = &mut Arc::make_mut(&mut rule.policy).timeouts;
                let limit = if whole { &mut timeouts.request } else { &mut timeouts.backend_request };
                *limit = Some(milliseconds(500));
            };
            let (stage, _) = stage(1, edit, |_, _| (AT_ONCE, HALF));
            let mut client = stage.client();
            let began = Instant::now();
            client.send(GET_REQUEST).await;
            let rest = client.read_to_end().await;
            assert!(rest.ends_with(b"\r\n\r\nok"), "{rest:?}");
            assert!(began.elapsed() >= milliseconds(500) && began.elapsed() < milliseconds(600));
            run_ready_tasks().await;
            assert_eq!(stage.check_idle(), Ok(()));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_time_within_that_of_the_exchange() {
    run_local(async {
        for (whole, tries, took_ms, requests, reason) in [
            (None, 1, 500, 1, "upstream_timeout"),
            (None, 3, 1500, 3, "upstream_timeout"),
            (Some(800), 3, 800, 2, "request_timeout"),
        ] {
            let edit = |rule: &mut Rule| {
                let policy = Arc::make_mut(&mut rule.policy);
                policy.timeouts.request = whole.map(milliseconds);
                policy.timeouts.backend_request = Some(milliseconds(500));
                (policy.retry.tries, policy.retry.by) = (tries, RetrySource::Route);
                policy.retry.connect_total = Duration::MAX;
            };
            let (stage, seen) = stage(1, edit, |_, _| (milliseconds(1000), OK));
            let mut client = stage.client();
            let began = Instant::now();
            assert_eq!(client.request(PUT).await.unwrap().status, 504);
            let (took, expected) = (began.elapsed(), milliseconds(took_ms));
            assert!(took >= expected && took < expected + milliseconds(20), "{took:?}");
            assert_eq!(seen.borrow().len(), requests);
            assert!(seen.borrow().iter().all(|(_, text)| text.ends_with("body")));
            assert_eq!(stage.metric_value(&format!("fairway_faults_total{{reason=\"{reason}\"}}")), 1);
        }
        // The second attempt has its full timeout.
        let edit = |rule: &mut Rule| {
            let policy = Arc::make_mut(&mut rule.policy);
            policy.timeouts.backend_request = Some(milliseconds(500));
            policy.retry.by = RetrySource::Route;
        };
        let slow_once = |_, before| (milliseconds(if before == 0 { 1000 } else { 400 }), OK);
        let (stage, seen) = stage(1, edit, slow_once);
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        assert_eq!(seen.borrow().len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_has_the_time_that_its_client_gave_it_whatever_a_filter_tells_the_endpoint() {
    const DEADLINE_EXCEEDED: &str = "grpc-status: 4\r\n";
    const UNAVAILABLE: &str = "grpc-status: 14\r\n";
    let edit = |remove: &[&str], set: &[&str]| HeaderEdit {
        remove: remove.iter().map(|name| (*name).into()).collect(),
        set: set
            .iter()
            .map(|value| HeaderField { name: "grpc-timeout".into(), value: (*value).into() })
            .collect(),
        ..HeaderEdit::default()
    };
    // `grpc-timeout` of the client, what the endpoint gets, when the call ends, the attempts, and the reason.
    for (request_headers, edit, took_ms, requests, status) in [
        ("grpc-timeout: 600m\r\n", edit(&[], &[]), 600, 2, DEADLINE_EXCEEDED),
        ("grpc-timeout: 600m\r\n", edit(&["grpc-timeout"], &[]), 600, 2, DEADLINE_EXCEEDED),
        ("grpc-timeout: 600m\r\n", edit(&[], &["30S"]), 600, 2, DEADLINE_EXCEEDED),
        ("grpc-timeout: 600m\r\n", edit(&[], &["100m"]), 600, 2, DEADLINE_EXCEEDED),
        ("grpc-timeout: 30S\r\n", edit(&[], &["600m"]), 2000, 4, UNAVAILABLE),
        ("", edit(&[], &["600m"]), 2000, 4, UNAVAILABLE),
    ] {
        run_local(async {
            let rule = |rule: &mut Rule| {
                rule.phases = Phases::from(RequestEdit::Headers(edit.clone())).shared();
                let policy = Arc::make_mut(&mut rule.policy);
                policy.timeouts.backend_request = Some(milliseconds(500));
                (policy.retry.tries, policy.retry.by) = (4, RetrySource::Route);
                policy.retry.connect_total = Duration::MAX;
            };
            let (stage, seen) = stage(1, rule, |_, _| (milliseconds(1000), OK));
            let mut client = stage.client();
            let began = Instant::now();
            let call = "PUT /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\
                 Content-Length: 4\r\n";
            client.send(format!("{call}{request_headers}\r\nbody")).await;
            let response = client.response_text().await;
            let (took, expected) = (began.elapsed(), milliseconds(took_ms));
            assert!(
                took >= expected && took < expected + milliseconds(20),
                "{took:?} {request_headers} {edit:?}"
            );
            assert_eq!(seen.borrow().len(), requests, "{request_headers} {edit:?}");
            assert!(response.contains(status), "{response}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_sets_how_often_a_response_is_retried() {
    run_local(async {
        let retrying = |tries: u8, by: RetrySource| {
            move |rule: &mut Rule| {
                rule.phases =
                    Phases::from(Forwarding { retry_statuses: vec![500], ..Forwarding::default() }).shared();
                let policy = Arc::make_mut(&mut rule.policy);
                (policy.retry.tries, policy.retry.by) = (tries, by);
            }
        };
        let third = |_, before: usize| (AT_ONCE, if before % 3 == 2 { OK } else { FAILED });
        for (tries, by, status, requests) in [
            (3, RetrySource::Route, 200, 3),
            (2, RetrySource::Route, 500, 2),
            (1, RetrySource::Route, 500, 1),
            // There is no other endpoint.
            (3, RetrySource::Proxy, 500, 1),
        ] {
            let (stage, seen) = stage(1, retrying(tries, by), third);
            assert_eq!(stage.client().request(PUT).await.unwrap().status, status, "{tries} {by:?}");
            assert_eq!(seen.borrow().len(), requests, "{tries} {by:?}");
            assert_eq!(stage.connects().len(), 1, "a discarded response leaves its connection usable");
        }
        let (stage, seen) = stage(1, retrying(3, RetrySource::Route), third);
        let mut client = stage.client();
        for _ in 0..100 {
            assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200, "no budget ends it");
        }
        assert_eq!(client.request(POST).await.unwrap().status, 500, "the endpoint has seen it");
        assert_eq!(seen.borrow().len(), 301);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_route_has_failed_connects_tried_again_on_the_only_endpoint() {
    run_local(async {
        let refused = Rc::new(RefCell::new(2));
        let received = ReceivedRequests::default();
        let script = {
            let (refused, seen) = (Rc::clone(&refused), Rc::clone(&received));
            move |to: SocketAddr| {
                if *refused.borrow() > 0 {
                    *refused.borrow_mut() -= 1;
                    return ScriptedConnect::Refused;
                }
                let received = Rc::clone(&seen);
                ScriptedConnect::served_by(move |stream| {
                    serve_responses(to.port(), Rc::new(|_, _| (AT_ONCE, OK)), received, stream)
                })
            }
        };
        let edit = |rule: &mut Rule| {
            let policy = Arc::make_mut(&mut rule.policy);
            policy.retry.tries = 3;
            policy.retry.by = RetrySource::Route;
            policy.retry.backoff = milliseconds(50);
        };
        let stage = TestWorker::with_rule(1, edit, script);
        let began = Instant::now();
        assert_eq!(stage.client().request(POST).await.unwrap().status, 200);
        assert!(began.elapsed() >= milliseconds(100), "{:?}", began.elapsed());
        assert_eq!((stage.connects().len(), received.borrow().len()), (3, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_waits_for_the_backoff_and_no_longer_than_anybody_does() {
    run_local(async {
        let waiting = |backoff: u64, limit: Option<u64>| {
            move |rule: &mut Rule| {
                rule.phases =
                    Phases::from(Forwarding { retry_statuses: vec![500], ..Forwarding::default() }).shared();
                let policy = Arc::make_mut(&mut rule.policy);
                policy.retry.by = RetrySource::Route;
                policy.retry.backoff = milliseconds(backoff);
                policy.timeouts.request = limit.map(milliseconds);
            }
        };
        let second = |_, before: usize| (AT_ONCE, if before == 1 { OK } else { FAILED });
        let (stage, _) = stage(1, waiting(100, None), second);
        let began = Instant::now();
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 200);
        let took = began.elapsed();
        assert!(took >= milliseconds(100) && took < milliseconds(130), "{took:?}");
        let (stage, seen) = self::stage(1, waiting(1000, Some(300)), second);
        let began = Instant::now();
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 504);
        assert!(began.elapsed() < milliseconds(320), "{:?}", began.elapsed());
        assert_eq!(seen.borrow().len(), 1);
        let (stage, seen) = self::stage(1, waiting(10_000, None), second);
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        while seen.borrow().is_empty() {
            yield_now().await;
        }
        run_ready_tasks().await;
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()), "nobody waits for an answer any more");
        assert_eq!(seen.borrow().len(), 1);
    })
    .await;
}
