//! Guards that ask another service or check a password, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    AnyGuard, AuthCache, AuthService, BasicAuth, ErrorPages, ExternalAuth, Guard, PathMatch, Phases, RealIp,
    RequestEdit, ResponseEdit, RetrySource, Rule, Template, TemplatePart, Timeouts, Users, VirtualHost,
};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use super::steps_tests::{
    BUSY, POST, PUT, ReceivedRequests, auth, auth_phases, cached_auth, field, never_answering, ok,
    run_ready_tasks, service, set, stage,
};
use crate::testing::{
    GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, read_head, run_local,
};

#[tokio::test(start_paused = true)]
async fn an_admitted_request_carries_the_headers_of_the_auth_response() {
    run_local(async {
        let edit = Phases::from(RequestEdit::Headers(set("X-After", "yes")));
        let (stage, seen) = stage(1, vec![auth_phases(auth()), edit], |number| match number {
            100 => Some("HTTP/1.1 204 No Content\r\nX-User: alice\r\nContent-Length: 0\r\n\r\n"),
            _ => Some(ok()),
        });
        let mut client = stage.client();
        for _ in 0..2 {
            assert_eq!(client.request(POST).await.unwrap().status, 200);
        }
        let received = seen.borrow();
        let auth_requests = &received[0].1;
        assert!(auth_requests.starts_with("GET /verify?x=1 HTTP/1.1\r\n"), "{auth_requests}");
        assert!(auth_requests.ends_with("\r\n\r\n"), "without a body: {auth_requests}");
        for (name, value) in [
            ("Host", "auth.test"),
            ("X-User", "mallory"),
            ("X-Original-URL", "http://shop.test/p?q=1"),
            ("X-Original-Method", "POST"),
            ("X-Auth-Request-Redirect", "/p?q=1"),
            ("X-Real-IP", "192.0.2.1"),
        ] {
            assert_eq!(field(auth_requests, name), Some(value), "{name} in {auth_requests}");
        }
        let (to, forwarded) = &received[1];
        assert_eq!(*to, 0);
        assert!(forwarded.ends_with("\r\n\r\nbody"), "{forwarded}");
        let value_of = |name| field(forwarded, name);
        assert_eq!(
            (value_of("X-User"), value_of("X-Groups"), value_of("X-After")),
            (Some("alice"), None, Some("yes"))
        );
        assert_eq!(value_of("Content-Length"), Some("4"), "no answer changes the length: {forwarded}");
        assert_eq!(received.len(), 4);
        assert_eq!(stage.connects().len(), 2, "one connection each, used again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_gets_the_challenge_and_an_undecided_one_500() {
    let write_certificate_unauthorized =
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 3\r\n\r\nno!";
    for (response, status) in [
        (Some(write_certificate_unauthorized), 401),
        (Some("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), 403),
        (Some("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"), 500),
        (Some(BUSY), 500),
        (None, 500),
    ] {
        run_local(async {
            let (stage, seen) = stage(1, vec![auth_phases(auth())], move |number| match number {
                100 => response,
                _ => Some(ok()),
            });
            let mut client = stage.client();
            client.send(POST).await;
            let text = client.response_text().await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert_eq!(field(&text, "WWW-Authenticate").is_some(), status == 401, "{text}");
            assert!(seen.borrow().iter().all(|(to, _)| *to == 100), "the backend hears nothing");
            run_ready_tasks().await;
            assert!(client.request(GET_REQUEST).await.is_some(), "the connection stays");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_a_page_becomes_404() {
    run_local(async {
        let pages = ErrorPages { statuses: vec![500, 503], backend: None, fields: Vec::new() };
        let hsts = Phases::from(ResponseEdit::StrictTransportSecurity("max-age=1".into()));
        let (stage, seen) = stage(1, vec![Phases::from(pages), hsts], |_| Some(BUSY));
        let mut client = stage.client();
        for _ in 0..2 {
            client.send(PUT).await;
            let text = client.response_text().await;
            assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
            assert!(!text.contains("busy"), "{text}");
        }
        assert_eq!(seen.borrow().len(), 2);
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cached_auth_response_applies_to_its_key_until_it_expires() {
    for (response, status) in [
        ("HTTP/1.1 200 OK\r\nX-User: alice\r\nX-Other: x\r\nContent-Length: 0\r\n\r\n", 200),
        ("HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n", 401),
    ] {
        run_local(async {
            let (stage, seen) = stage(1, vec![auth_phases(cached_auth())], move |number| match number {
                100 => Some(response),
                _ => Some(ok()),
            });
            let mut client = stage.client();
            let get = |user: &str| {
                format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {user}\r\nX-User: m\r\n\r\n")
            };
            let auth_requests = || seen.borrow().iter().filter(|(to, _)| *to == 100).count();
            for _ in 0..3 {
                client.send(get("one")).await;
                let text = client.response_text().await;
                assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
                assert_eq!(field(&text, "WWW-Authenticate"), (status == 401).then_some("Bearer"), "{text}");
            }
            assert_eq!(auth_requests(), 1);
            client.send(get("two")).await;
            client.response_text().await;
            assert_eq!(auth_requests(), 2, "another key");
            client.send(get("one").replace("Host: a", "Host: b")).await;
            client.response_text().await;
            assert_eq!(auth_requests(), 3, "another host");
            sleep(Duration::from_secs(60)).await;
            let mut client = stage.client();
            client.send(get("one")).await;
            client.response_text().await;
            assert_eq!(auth_requests(), 4, "its time is over");
            let received = seen.borrow();
            let forwarded: Vec<_> = received.iter().filter(|(to, _)| *to == 0).collect();
            assert_eq!(forwarded.len(), if status == 200 { 6 } else { 0 });
            let messages =
                |head: &str| (field(head, "X-User").map(str::to_owned), field(head, "X-Other").is_some());
            let alice = || (Some("alice".to_owned()), false);
            assert!(forwarded.iter().all(|(_, head)| messages(head) == alice()), "{forwarded:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_key_do_not_run_into_each_other() {
    run_local(async {
        let parts = ["x_user", "x_token"].map(|name| TemplatePart::Header(name.into()));
        let times = vec![(None, Duration::from_secs(60))];
        let auth = ExternalAuth { kept: Some(AuthCache { key: Template(parts.into()), times }), ..auth() };
        let (stage, seen) = stage(1, vec![auth_phases(auth)], |_| Some(ok()));
        let mut client = stage.client();
        for (user, token, questions) in [("ab", "c", 1), ("a", "bc", 2), ("ab", "c", 2), ("", "abc", 3)] {
            let get = format!("GET / HTTP/1.1\r\nHost: a\r\nX-User: {user}\r\nX-Token: {token}\r\n\r\n");
            assert_eq!(client.request(&get).await.unwrap().status, 200);
            let auth_requests = seen.borrow().iter().filter(|(to, _)| *to == 100).count();
            assert_eq!(auth_requests, questions, "{user} {token}");
        }
    })
    .await;
}

// oauth2-proxy splits a large session into `_oauth2_proxy_0` and `_oauth2_proxy_1`: a key of `$cookie__oauth2_proxy` is empty then, as it is
// for a client that has no session.
#[tokio::test(start_paused = true)]
async fn an_auth_response_is_not_cached_for_a_request_without_the_values_of_its_key() {
    run_local(async {
        let key = Template(vec![
            TemplatePart::Host,
            TemplatePart::BasicUser,
            TemplatePart::Header("authorization".into()),
            TemplatePart::Cookie("session".into()),
        ]);
        let times = vec![(None, Duration::from_secs(60))];
        let auth = ExternalAuth { kept: Some(AuthCache { key, times }), ..auth() };
        let (stage, seen) = stage(1, vec![auth_phases(auth)], |_| Some(ok()));
        let mut client = stage.client();
        for (fields, auth_requests) in [
            ("Cookie: session_0=a; session_1=b\r\n", 1),
            ("", 2),
            ("Authorization:\r\nCookie: session=\r\n", 3),
            ("Cookie: session=a\r\n", 4),
            ("Cookie: session=a\r\n", 4),
            ("Authorization: Bearer a\r\n", 5),
            ("Authorization: Bearer a\r\n", 5),
        ] {
            let get = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            assert_eq!(client.request(&get).await.unwrap().status, 200);
            assert_eq!(
                seen.borrow().iter().filter(|(to, _)| *to == 100).count(),
                auth_requests,
                "{fields:?}"
            );
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_of_addresses_caches_nothing_for_unknown_addresses() {
    run_local(async {
        let key = Template([TemplatePart::Address].into());
        let times = vec![(None, Duration::from_secs(60))];
        let auth = ExternalAuth { kept: Some(AuthCache { key, times }), ..auth() };
        let trusted = vec!["192.0.2.0/24".parse().unwrap()];
        let real_ip = Phases::from(RealIp { header: "x-forwarded-for".into(), trusted, last_only: false });
        let (stage, seen) = stage(1, vec![real_ip, auth_phases(auth)], |_| Some(ok()));
        let mut client = stage.client();
        for (list, auth_requests) in [("203.0.113.7", 1), ("203.0.113.7", 1), ("unknown", 2), ("unknown", 3)]
        {
            let get = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {list}\r\n\r\n");
            assert_eq!(client.request(&get).await.unwrap().status, 200);
            assert_eq!(seen.borrow().iter().filter(|(to, _)| *to == 100).count(), auth_requests, "{list}");
        }
        let received = seen.borrow();
        let questions: Vec<_> = received.iter().filter(|(to, _)| *to == 100).collect();
        assert_eq!(field(&questions[2].1, "X-Real-IP"), Some("unknown"), "{questions:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn single_use_auth_responses_and_other_statuses_are_not_cached() {
    for (fields, questions) in [
        ("Set-Cookie: a=b\r\n", 2),
        ("Cache-Control: max-age=60, No-Store\r\n", 2),
        ("Cache-Control: private\r\n", 2),
        ("Cache-Control: max-age=0\r\n", 2),
        ("Cache-Control: max-age=x\r\n", 2),
        ("Cache-Control: max-age=1\r\n", 1),
        ("X-Accel-Expires: 0\r\n", 2),
        ("X-Accel-Expires: 5\r\nCache-Control: no-cache\r\n", 1),
        ("Vary: Cookie\r\n", 2),
        ("Expires: Thu, 01 Dec 2044 16:00:00 GMT\r\n", 2),
        ("", 1),
    ] {
        for status in [200, 204] {
            let response = format!("HTTP/1.1 {status} OK\r\n{fields}Content-Length: 0\r\n\r\n");
            let response: &'static str = response.leak();
            let questions = match (status, fields.contains("=1") || fields.contains(": 5")) {
                // The lifetime in the response applies to every status.
                (204, false) => 2,
                _ => questions,
            };
            run_local(async {
                let (stage, seen) = stage(1, vec![auth_phases(cached_auth())], move |number| match number {
                    100 => Some(response),
                    _ => Some(ok()),
                });
                let mut client = stage.client();
                for _ in 0..2 {
                    let get = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\n\r\n";
                    assert_eq!(client.request(get).await.unwrap().status, 200);
                }
                let auth_requests = seen.borrow().iter().filter(|(to, _)| *to == 100).count();
                assert_eq!(auth_requests, questions, "{status} {fields:?}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_subrequest_ends_with_its_own_timeout() {
    run_local(async {
        let stage = TestWorker::with_phases(1, vec![auth_phases(auth())], |_| {
            ScriptedConnect::served_by(never_answering)
        });
        let began = tokio::time::Instant::now();
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 500);
        assert_eq!(began.elapsed().as_secs(), 7);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_the_question() {
    run_local(async {
        let stage = TestWorker::with_phases(1, vec![auth_phases(auth())], |_| {
            ScriptedConnect::served_by(never_answering)
        });
        let mut client = stage.client();
        client.send(GET_REQUEST).await;
        run_ready_tasks().await;
        drop(client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
        assert_eq!(stage.connects().len(), 1, "the backend was not asked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_does_not_wait_for_its_password() {
    run_local(async {
        // Cost 14: it takes longer than the test.
        let hash = "$2y$14$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
        let users = Users::new([("user".into(), hash.into())]);
        let basic = BasicAuth { policy: "p".into(), realm: "".into(), users };
        let any = AnyGuard { basic: Some(basic.clone()), ..AnyGuard::default() };
        for filter in [Phases::from(Guard::BasicAuth(basic)), Phases::from(Guard::Any(Box::new(any)))] {
            let (stage, seen) = stage(1, vec![filter], |_| Some(ok()));
            let mut client = stage.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n").await;
            run_ready_tasks().await;
            assert!(stage.check_idle().is_err(), "it waits");
            drop(client);
            run_ready_tasks().await;
            assert_eq!(stage.check_idle(), Ok(()));
            assert!(seen.borrow().is_empty(), "the backend was not asked");
        }
    })
    .await;
}

/// Responds to each request after `after`.
async fn thinking(number: u16, after: Duration, received: ReceivedRequests, mut stream: DuplexStream) {
    while read_head(&mut stream).await {
        received.borrow_mut().push((number, String::new()));
        sleep(after).await;
        if stream.write_all(OK_RESPONSE).await.is_err() {
            return;
        }
    }
}

/// A service that takes this long, and endpoints that take 10 ms to connect to and respond at once.
fn behind_a_slow_service(
    after: Duration,
    seen: &ReceivedRequests,
) -> impl Fn(SocketAddr) -> ScriptedConnect + 'static {
    let received = Rc::clone(seen);
    move |to: SocketAddr| {
        let (number, seen) = (to.port(), Rc::clone(&received));
        match number {
            100 => ScriptedConnect::served_by(move |stream| thinking(number, after, seen, stream)),
            _ => ScriptedConnect::served_after(Duration::from_millis(10), move |stream| {
                thinking(number, Duration::ZERO, seen, stream)
            }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_guard_takes_is_not_the_endpoints() {
    let (seconds, milliseconds) = (Duration::from_secs, Duration::from_millis);
    // Longer than the limit of all connects, and longer than that of an attempt.
    for (after, attempt) in [(seconds(20), None), (milliseconds(800), Some(milliseconds(500)))] {
        run_local(async {
            let patient = ExternalAuth { timeouts: Timeouts::default(), ..auth() };
            let edit = |rule: &mut Rule| {
                rule.phases = auth_phases(patient).shared();
                Arc::make_mut(&mut rule.policy).timeouts.backend_request = attempt;
            };
            let received = ReceivedRequests::default();
            let stage = TestWorker::with_rule(2, edit, behind_a_slow_service(after, &received));
            let mut client = stage.client();
            for _ in 0..2 {
                assert_eq!(client.request(GET_REQUEST).await.unwrap().status, 200, "{after:?}");
            }
            assert_eq!(stage.metric_value("fairway_upstream_ejections_total"), 0, "{after:?}");
            let auth_requests: Vec<_> = received.borrow().iter().map(|(number, _)| *number).collect();
            assert_eq!(auth_requests, [100, 0, 100, 1], "each request was sent once");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_request_ends_while_its_guards_are_waited_for() {
    // Cost 14: it takes longer than the test.
    let hash = "$2y$14$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
    let users = Users::new([("user".into(), hash.into())]);
    let basic = BasicAuth { policy: "p".into(), realm: "".into(), users };
    let any = AnyGuard { basic: Some(basic.clone()), ..AnyGuard::default() };
    for filter in
        [auth_phases(auth()), Phases::from(Guard::BasicAuth(basic)), Phases::from(Guard::Any(Box::new(any)))]
    {
        run_local(async {
            let limit = Duration::from_millis(300);
            let edit = |rule: &mut Rule| {
                rule.phases = filter.shared();
                Arc::make_mut(&mut rule.policy).timeouts.request = Some(limit);
            };
            let stage = TestWorker::with_rule(1, edit, |_| ScriptedConnect::served_by(never_answering));
            let began = tokio::time::Instant::now();
            let get = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n";
            assert_eq!(stage.client().request(get).await.unwrap().status, 504);
            let took = began.elapsed();
            assert!(took >= limit && took < limit + Duration::from_millis(20), "{took:?}");
            run_ready_tasks().await;
            assert_eq!(stage.metric_value("fairway_faults_total{reason=\"request_timeout\"}"), 1);
            assert_eq!(stage.check_idle(), Ok(()));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_subrequest_to_the_same_host_has_the_deadline_of_its_request_and_of_its_own_rule() {
    let milliseconds = Duration::from_millis;
    for (outer, own, status, after) in [(Some(300), None, 504, 300), (None, Some(150), 500, 150)] {
        run_local(async {
            let question = ExternalAuth { service: AuthService::OwnHost { scheme: None }, ..auth() };
            let mut config = config_with_phases(1, vec![auth_phases(question)]);
            let key = config.hosts.keys().next().unwrap().clone();
            let mut host = VirtualHost::clone(&config.hosts[&key]);
            let rules = &mut Arc::make_mut(&mut host.routes[0]).rules;
            let mut decider = rules[0].clone();
            decider.phases = Phases::none();
            decider.matches[0].path = PathMatch::Exact("/verify".into());
            let policy = Arc::make_mut(&mut decider.policy);
            policy.timeouts.request = own.map(milliseconds);
            policy.timeouts.backend_request = Some(milliseconds(200));
            (policy.retry.tries, policy.retry.by) = (9, RetrySource::Route);
            policy.retry.connect_total = Duration::MAX;
            Arc::make_mut(&mut rules[0].policy).timeouts.request = outer.map(milliseconds);
            rules.push(decider);
            config.hosts.insert(key, Arc::new(host));
            let stage = TestWorker::with_config(&config, |_| ScriptedConnect::served_by(never_answering));
            let began = tokio::time::Instant::now();
            assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, status);
            let (took, expected) = (began.elapsed(), milliseconds(after));
            assert!(took >= expected && took < expected + milliseconds(20), "{took:?}");
            run_ready_tasks().await;
            assert_eq!(stage.check_idle(), Ok(()));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_call_expires_during_a_subrequest() {
    run_local(async {
        let stage = TestWorker::with_phases(1, vec![auth_phases(auth())], |_| {
            ScriptedConnect::served_by(never_answering)
        });
        let mut client = stage.client();
        let call = "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\
             grpc-timeout: 300m\r\nContent-Length: 0\r\n\r\n";
        client.send(call).await;
        let text = client.response_text().await;
        assert_eq!(field(&text, "grpc-status"), Some("4"), "DEADLINE_EXCEEDED: {text}");
        run_ready_tasks().await;
        assert_eq!(stage.metric_value("fairway_faults_total{reason=\"deadline_exceeded\"}"), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn services_are_queried_in_order_and_the_first_refusal_counts() {
    run_local(async {
        let second = ExternalAuth { service: service("b"), ..auth() };
        let filters = vec![auth_phases(auth()), auth_phases(second)];
        let (stage, seen) = stage(1, filters, |number| match number {
            101 => Some("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
            _ => Some(ok()),
        });
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().status, 403);
        assert_eq!(seen.borrow().iter().map(|(to, _)| *to).collect::<Vec<_>>(), [100, 101]);
    })
    .await;
}
