//! Steps that wait, count, copy and look at answers, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_model::{
    AnswerRate, AnyGuard, AuthCookies, AuthService, BasicAuth, ConcurrencyLimit, ErrorPages, ExternalAuth,
    FieldTemplate, Filter, HeaderEdit, HeaderField, KeptAuth, Mirror, MirrorTarget, RateLimit, Template,
    TemplatePart, Timeouts, Users,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::testing::{GET, Meeting, OK, Stage, filtered, on_stage};

const POST: &str = "POST /p?q=1 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\nX-User: mallory\r\n\
     Accept: text/html\r\n\r\nbody";
const PUT: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nplain";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";

/// Requests that endpoints saw: the endpoint's number, and head and body.
type Seen = Rc<RefCell<Vec<(u16, String)>>>;

/// Answers every request of a connection, and writes down what it was.
async fn answering(number: u16, answer: &'static [u8], seen: Seen, mut stream: DuplexStream) {
    loop {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => bytes.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(bytes).unwrap();
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        seen.borrow_mut().push((number, head + &String::from_utf8(body).unwrap()));
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// The value of a field in a head.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// A stage whose endpoints answer as `answer` says; those for which it has none refuse the connect.
fn stage(
    endpoints: usize,
    filters: Vec<Filter>,
    answer: impl Fn(u16) -> Option<&'static str> + 'static,
) -> (Stage, Seen) {
    let seen = Seen::default();
    let script = {
        let seen = Rc::clone(&seen);
        move |to: SocketAddr| match answer(to.port()) {
            Some(answer) => {
                let seen = Rc::clone(&seen);
                Meeting::with(move |stream| answering(to.port(), answer.as_bytes(), seen, stream))
            }
            None => Meeting::Refused,
        }
    };
    (Stage::filtered(endpoints, filters, script), seen)
}

fn ok() -> &'static str {
    std::str::from_utf8(OK).unwrap()
}

fn service(backend: &str) -> AuthService {
    AuthService::Backend { backend: backend.into(), host: "auth.test".into() }
}

fn auth() -> ExternalAuth {
    ExternalAuth {
        service: service("a"),
        method: Some("GET".into()),
        target: Template::text("/verify?x=1"),
        fields: Vec::new(),
        redirect: None,
        sign_in: None,
        cookies: AuthCookies::OfSuccess,
        copied: ["X-User", "X-Groups", "Content-Length"].map(Into::into).into(),
        timeouts: Timeouts { read: Duration::from_secs(7), ..Timeouts::default() },
        kept: None,
    }
}

/// The same with answers that are kept for a minute, by the value of `Authorization`.
fn kept() -> ExternalAuth {
    let key = Template(vec![TemplatePart::Field("authorization".into())]);
    let times = [200, 401].map(|status| (Some(status), Duration::from_secs(60))).into();
    ExternalAuth { kept: Some(KeptAuth { key, times }), ..auth() }
}

fn set(name: &str, value: &str) -> HeaderEdit {
    HeaderEdit { set: vec![HeaderField { name: name.into(), value: value.into() }], ..HeaderEdit::default() }
}

async fn settle() {
    for _ in 0..30 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_pass_goes_on_with_what_the_answer_says_of_its_user() {
    on_stage(async {
        let edit = Filter::RequestHeaders(set("X-After", "yes"));
        let (stage, seen) = stage(1, vec![Filter::ExternalAuth(auth()), edit], |number| match number {
            100 => Some("HTTP/1.1 204 No Content\r\nX-User: alice\r\nContent-Length: 0\r\n\r\n"),
            _ => Some(ok()),
        });
        let mut client = stage.client();
        for _ in 0..2 {
            assert_eq!(client.ask(POST).await.unwrap().status, 200);
        }
        let seen = seen.borrow();
        let asked = &seen[0].1;
        assert!(asked.starts_with("GET /verify?x=1 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.ends_with("\r\n\r\n"), "without a body: {asked}");
        for (name, value) in [
            ("Host", "auth.test"),
            ("X-User", "mallory"),
            ("X-Original-URL", "http://shop.test/p?q=1"),
            ("X-Original-Method", "POST"),
            ("X-Auth-Request-Redirect", "/p?q=1"),
            ("X-Real-IP", "192.0.2.1"),
        ] {
            assert_eq!(field(asked, name), Some(value), "{name} in {asked}");
        }
        let (to, forwarded) = &seen[1];
        assert_eq!(*to, 0);
        assert!(forwarded.ends_with("\r\n\r\nbody"), "{forwarded}");
        let of = |name| field(forwarded, name);
        assert_eq!((of("X-User"), of("X-Groups"), of("X-After")), (Some("alice"), None, Some("yes")));
        assert_eq!(of("Content-Length"), Some("4"), "no answer changes the length: {forwarded}");
        assert_eq!(seen.len(), 4);
        assert_eq!(stage.connects().len(), 2, "one connection each, used again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_may_not_pass_is_refused_with_the_challenge_and_what_is_undecided_with_500() {
    let unauthorized =
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 3\r\n\r\nno!";
    for (answer, status) in [
        (Some(unauthorized), 401),
        (Some("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), 403),
        (Some("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"), 500),
        (Some(BUSY), 500),
        (None, 500),
    ] {
        on_stage(async {
            let (stage, seen) = stage(1, vec![Filter::ExternalAuth(auth())], move |number| match number {
                100 => answer,
                _ => Some(ok()),
            });
            let mut client = stage.client();
            client.send(POST).await;
            let text = client.answer_text().await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert_eq!(field(&text, "WWW-Authenticate").is_some(), status == 401, "{text}");
            assert!(seen.borrow().iter().all(|(to, _)| *to == 100), "the backend hears nothing");
            settle().await;
            assert!(client.ask(GET).await.is_some(), "the connection stays");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_nobody_has_a_page_for_becomes_404() {
    on_stage(async {
        let pages = ErrorPages { statuses: vec![500, 503], backend: None, fields: Vec::new() };
        let hsts = Filter::StrictTransportSecurity("max-age=1".into());
        let (stage, seen) = stage(1, vec![Filter::ErrorPages(pages), hsts], |_| Some(BUSY));
        let mut client = stage.client();
        for _ in 0..2 {
            client.send(PUT).await;
            let text = client.answer_text().await;
            assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
            assert!(!text.contains("busy"), "{text}");
        }
        assert_eq!(seen.borrow().len(), 2);
        drop(client);
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_kept_holds_for_its_time_and_key_only() {
    for (answer, status) in [
        ("HTTP/1.1 200 OK\r\nX-User: alice\r\nX-Other: x\r\nContent-Length: 0\r\n\r\n", 200),
        ("HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n", 401),
    ] {
        on_stage(async {
            let (stage, seen) = stage(1, vec![Filter::ExternalAuth(kept())], move |number| match number {
                100 => Some(answer),
                _ => Some(ok()),
            });
            let mut client = stage.client();
            let get =
                |who: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {who}\r\nX-User: m\r\n\r\n");
            let asked = || seen.borrow().iter().filter(|(to, _)| *to == 100).count();
            for _ in 0..3 {
                client.send(get("one")).await;
                let text = client.answer_text().await;
                assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
                assert_eq!(field(&text, "WWW-Authenticate"), (status == 401).then_some("Bearer"), "{text}");
            }
            assert_eq!(asked(), 1);
            client.send(get("two")).await;
            client.answer_text().await;
            assert_eq!(asked(), 2, "another key");
            client.send(get("one").replace("Host: a", "Host: b")).await;
            client.answer_text().await;
            assert_eq!(asked(), 3, "another host");
            sleep(Duration::from_secs(60)).await;
            let mut client = stage.client();
            client.send(get("one")).await;
            client.answer_text().await;
            assert_eq!(asked(), 4, "its time is over");
            let seen = seen.borrow();
            let forwarded: Vec<_> = seen.iter().filter(|(to, _)| *to == 0).collect();
            assert_eq!(forwarded.len(), if status == 200 { 6 } else { 0 });
            let said =
                |head: &str| (field(head, "X-User").map(str::to_owned), field(head, "X-Other").is_some());
            let alice = || (Some("alice".to_owned()), false);
            assert!(forwarded.iter().all(|(_, head)| said(head) == alice()), "{forwarded:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_key_do_not_run_into_each_other() {
    on_stage(async {
        let parts = ["x_user", "x_token"].map(|name| TemplatePart::Field(name.into()));
        let times = vec![(None, Duration::from_secs(60))];
        let auth = ExternalAuth { kept: Some(KeptAuth { key: Template(parts.into()), times }), ..auth() };
        let (stage, seen) = stage(1, vec![Filter::ExternalAuth(auth)], |_| Some(ok()));
        let mut client = stage.client();
        for (user, token, questions) in [("ab", "c", 1), ("a", "bc", 2), ("ab", "c", 2), ("", "abc", 3)] {
            let get = format!("GET / HTTP/1.1\r\nHost: a\r\nX-User: {user}\r\nX-Token: {token}\r\n\r\n");
            assert_eq!(client.ask(&get).await.unwrap().status, 200);
            let asked = seen.borrow().iter().filter(|(to, _)| *to == 100).count();
            assert_eq!(asked, questions, "{user} {token}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_one_request_or_with_another_status_is_not_kept() {
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
            let answer = format!("HTTP/1.1 {status} OK\r\n{fields}Content-Length: 0\r\n\r\n");
            let answer: &'static str = answer.leak();
            let questions = match (status, fields.contains("=1") || fields.contains(": 5")) {
                // What the answer says itself holds for every status.
                (204, false) => 2,
                _ => questions,
            };
            on_stage(async {
                let (stage, seen) =
                    stage(1, vec![Filter::ExternalAuth(kept())], move |number| match number {
                        100 => Some(answer),
                        _ => Some(ok()),
                    });
                let mut client = stage.client();
                for _ in 0..2 {
                    assert_eq!(client.ask(GET).await.unwrap().status, 200);
                }
                let asked = seen.borrow().iter().filter(|(to, _)| *to == 100).count();
                assert_eq!(asked, questions, "{status} {fields:?}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_ends_with_its_own_time_out() {
    on_stage(async {
        let stage =
            Stage::filtered(1, vec![Filter::ExternalAuth(auth())], |_| Meeting::with(never_answering));
        let began = tokio::time::Instant::now();
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 500);
        assert_eq!(began.elapsed().as_secs(), 7);
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
    })
    .await;
}

async fn never_answering(mut stream: DuplexStream) {
    let mut all = Vec::new();
    // Until the other end goes.
    let _ = stream.read_to_end(&mut all).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_the_question() {
    on_stage(async {
        let stage =
            Stage::filtered(1, vec![Filter::ExternalAuth(auth())], |_| Meeting::with(never_answering));
        let mut client = stage.client();
        client.send(GET).await;
        settle().await;
        drop(client);
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
        assert_eq!(stage.connects().len(), 1, "the backend was not asked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_does_not_wait_for_its_password() {
    on_stage(async {
        // Cost 14: it takes longer than the test.
        let hash = "$2y$14$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
        let users = Users::new([("user".into(), hash.into())]);
        let basic = BasicAuth { policy: "p".into(), realm: "".into(), users };
        let any = AnyGuard { basic: Some(basic.clone()), ..AnyGuard::default() };
        for filter in [Filter::BasicAuth(basic), Filter::AnyGuard(any)] {
            let (stage, seen) = stage(1, vec![filter], |_| Some(ok()));
            let mut client = stage.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n").await;
            settle().await;
            assert!(stage.at_rest().is_err(), "it waits");
            drop(client);
            settle().await;
            assert_eq!(stage.at_rest(), Ok(()));
            assert!(seen.borrow().is_empty(), "the backend was not asked");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_in_their_order_and_the_first_no_counts() {
    on_stage(async {
        let second = ExternalAuth { service: service("b"), ..auth() };
        let filters = vec![Filter::ExternalAuth(auth()), Filter::ExternalAuth(second)];
        let (stage, seen) = stage(1, filters, |number| match number {
            101 => Some("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
            _ => Some(ok()),
        });
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 403);
        assert_eq!(seen.borrow().iter().map(|(to, _)| *to).collect::<Vec<_>>(), [100, 101]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rate_lets_through_its_burst_and_then_one_for_each_interval() {
    on_stage(async {
        let limit = RateLimit {
            policy: "p".into(),
            requests: 2,
            per: Duration::from_secs(1),
            burst: 3,
            status: 429,
            exempt: Vec::new(),
        };
        let (stage, _) = stage(1, vec![Filter::RateLimit(limit.clone())], |_| Some(ok()));
        let mut client = stage.client();
        let mut statuses = async |count| {
            let mut statuses = Vec::new();
            for _ in 0..count {
                statuses.push(client.ask(GET).await.unwrap().status);
            }
            statuses
        };
        assert_eq!(statuses(6).await, [200, 200, 200, 200, 429, 429]);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(statuses(2).await, [200, 429]);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(statuses(5).await, [200, 200, 200, 200, 429]);
        assert_eq!(stage.value("fairway_faults_total{reason=\"too_many_requests\"}"), 4);
        let exempt = RateLimit { exempt: vec!["192.0.2.0/24".parse().unwrap()], ..limit };
        let (stage, _) = self::stage(1, vec![Filter::RateLimit(exempt)], |_| Some(ok()));
        let mut client = stage.client();
        for _ in 0..10 {
            assert_eq!(client.ask(GET).await.unwrap().status, 200);
        }
    })
    .await;
}

/// How many of the requests pass that one client sends for ten seconds, one each `every`, to each of these workers in turn.
async fn passed(workers: &[Stage], every: Duration) -> u32 {
    let mut clients: Vec<_> = workers.iter().map(Stage::client).collect();
    let (began, mut passed) = (tokio::time::Instant::now(), 0);
    for turn in 0_u32.. {
        tokio::time::sleep_until(began + every * turn).await;
        if began.elapsed() >= Duration::from_secs(10) {
            break;
        }
        let client = turn as usize % clients.len();
        match clients[client].ask(GET).await.unwrap().status {
            200 => passed += 1,
            status => assert_eq!(status, 429),
        }
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn rates_hold_over_ten_seconds_however_many_workers_count() {
    on_stage(async {
        // Requests, within how many seconds, and how many more may come early.
        for (requests, seconds, burst) in [(10, 1, 50), (100, 1, 100), (100, 1, 500), (300, 60, 300)] {
            let limit = RateLimit {
                policy: "p".into(),
                requests,
                per: Duration::from_secs(seconds),
                burst,
                status: 429,
                exempt: Vec::new(),
            };
            let mut config = filtered(1, vec![Filter::RateLimit(limit)]);
            config.settings.downstream.requests_per_connection = u64::MAX;
            let script = |_| Meeting::with(crate::testing::answering);
            let due = 10 * requests / u32::try_from(seconds).unwrap();
            // Three and ten times as many requests as may pass.
            for parts in [3, 10] {
                let every = Duration::from_secs(10) / (parts * (due + burst));
                let one = passed(&[Stage::serving(&config, script)], every).await;
                let two = passed(&Stage::two_workers(&config, script), every).await;
                for passed in [one, two] {
                    assert!(
                        passed.abs_diff(burst + due) * 20 <= due,
                        "{passed} of {due} and {burst} early, one each {every:?}"
                    );
                }
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_has_no_more_under_way_than_its_limit() {
    on_stage(async {
        let limit = ConcurrencyLimit { policy: "p".into(), most: 2, status: 503, exempt: Vec::new() };
        let filters = vec![Filter::ConcurrencyLimit(limit)];
        let stage = Stage::filtered(1, filters, |_| Meeting::with(never_answering));
        let (mut one, mut two) = (stage.client(), stage.client());
        one.send(GET).await;
        two.send(GET).await;
        settle().await;
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 503);
        drop(one);
        settle().await;
        let mut three = stage.client();
        three.send(GET).await;
        settle().await;
        assert_eq!(stage.worker.guards.counts.under_way(), 2, "the place of the one that left");
        drop((two, three));
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
    })
    .await;
}

fn mirror(most_body: u64) -> Filter {
    Filter::Mirror(Mirror {
        backend: "b".into(),
        numerator: 1,
        denominator: 1,
        most_body,
        target: MirrorTarget::Forwarded,
        host: None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_mirror_is_asked_for_what_its_rule_says() {
    for (target, most_body, line) in [
        (MirrorTarget::Received("/copy".into()), u64::MAX, "POST /copy/p?q=1 HTTP/1.1\r\n"),
        (MirrorTarget::Received("".into()), 0, "POST /p?q=1 HTTP/1.1\r\n"),
        (MirrorTarget::Fixed("/all".into()), u64::MAX, "POST /all HTTP/1.1\r\n"),
    ] {
        on_stage(async {
            let Filter::Mirror(usual) = mirror(most_body) else { unreachable!("it is one") };
            let filter = Filter::Mirror(Mirror { target, host: Some("copy.test".into()), ..usual });
            let rewrite = Filter::RewritePath(fairway_model::PathRewrite::Full("/new".into()));
            let (stage, seen) = stage(1, vec![rewrite, filter], |_| Some(ok()));
            assert_eq!(stage.client().ask(POST).await.unwrap().status, 200);
            settle().await;
            let seen = seen.borrow();
            let text = |wanted: u16| &seen.iter().find(|(to, _)| *to == wanted).unwrap().1;
            let (own, copy) = (text(0), text(101));
            assert!(own.starts_with("POST /new") && own.ends_with("\r\n\r\nbody"), "{own}");
            assert_eq!(field(own, "Host"), Some("shop.test"));
            assert!(copy.starts_with(line), "{copy}");
            assert_eq!(field(copy, "Host"), Some("copy.test"));
            assert_eq!(field(copy, "X-Forwarded-Host"), Some("shop.test"));
            let body = if most_body == 0 { "" } else { "body" };
            assert!(copy.ends_with(&format!("\r\n\r\n{body}")), "{copy}");
            assert_eq!(field(copy, "Content-Length").is_some(), most_body > 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_gets_the_whole_request_and_its_answer_goes_nowhere() {
    on_stage(async {
        let (stage, seen) = stage(1, vec![mirror(1024)], |number| match number {
            101 => Some(BUSY),
            _ => Some(ok()),
        });
        let mut client = stage.client();
        for request in [POST, std::str::from_utf8(GET).unwrap()] {
            assert_eq!(client.ask(request).await.unwrap().status, 200);
        }
        settle().await;
        let seen = seen.borrow();
        let to = |wanted: u16| -> Vec<&str> {
            seen.iter().filter(|(to, _)| *to == wanted).map(|(_, text)| text.as_str()).collect()
        };
        let (own, copies) = (to(0), to(101));
        assert_eq!((own.len(), copies.len()), (2, 2));
        let without_id = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("X-Request-ID")).map(str::to_owned).collect()
        };
        for (own, copy) in own.iter().zip(&copies) {
            assert_eq!(without_id(own), without_id(copy));
        }
        assert!(copies[0].ends_with("\r\n\r\nbody"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_is_dead_slow_or_too_small_changes_nothing() {
    let large =
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n{}", "x".repeat(300_000));
    for (most_body, mirror_is) in [(u64::MAX, "refused"), (u64::MAX, "deaf"), (1000, "small")] {
        on_stage(async {
            let seen = Seen::default();
            let script = {
                let seen = Rc::clone(&seen);
                move |to: SocketAddr| match (to.port(), mirror_is) {
                    (101, "refused") => Meeting::Refused,
                    (101, "deaf") => Meeting::with(|stream| async move {
                        sleep(Duration::from_secs(1000)).await;
                        drop(stream);
                    }),
                    (number, _) => {
                        let seen = Rc::clone(&seen);
                        Meeting::with(move |stream| answering(number, OK, seen, stream))
                    }
                }
            };
            let stage = Stage::filtered(1, vec![mirror(most_body)], script);
            let mut client = stage.client();
            let began = tokio::time::Instant::now();
            assert_eq!(client.ask(&large).await.unwrap().status, 200, "{mirror_is}");
            assert!(began.elapsed() < Duration::from_secs(1), "{mirror_is}: nothing waits for a mirror");
            assert!(seen.borrow().iter().all(|(to, text)| *to == 0 && text.len() > 300_000), "{mirror_is}");
            drop(client);
            sleep(Duration::from_secs(200)).await;
            assert_eq!(stage.at_rest(), Ok(()), "{mirror_is}");
        })
        .await;
    }
}

fn pages() -> Filter {
    Filter::ErrorPages(ErrorPages {
        statuses: vec![404, 502, 503],
        backend: Some("c".into()),
        fields: vec![("X-Namespace".into(), "shop".into())],
    })
}

const PAGE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nServer: x\r\n\r\npage";

#[tokio::test(start_paused = true)]
async fn another_backend_makes_the_answers_of_some_statuses() {
    on_stage(async {
        let own = Filter::ResponseHeaders(set("X-Frame-Options", "DENY"));
        let of_all = FieldTemplate { name: "X-Of-All".into(), value: Template::text("1") };
        let filters = vec![pages(), own, Filter::AnswerFields([of_all].into())];
        let (stage, seen) = stage(1, filters, |number| match number {
            102 => Some(PAGE),
            _ => Some(NOT_FOUND),
        });
        let mut client = stage.client();
        for _ in 0..2 {
            client.send(POST).await;
            let text = client.answer_text().await;
            assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("\r\n\r\npage"), "{text}");
            assert_eq!(field(&text, "X-Frame-Options"), None, "the rule does not make the page: {text}");
            assert_eq!(field(&text, "X-Of-All"), Some("1"), "{text}");
        }
        let seen = seen.borrow();
        assert_eq!(seen.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 102, 0, 102]);
        let asked = &seen[1].1;
        assert!(asked.starts_with("GET /?q=1 HTTP/1.1\r\n") && asked.ends_with("\r\n\r\n"), "{asked}");
        for (name, value) in [
            ("X-Code", Some("404")),
            ("X-Original-URI", Some("/p?q=1")),
            ("X-Format", Some("text/html")),
            ("X-Namespace", Some("shop")),
            ("Host", Some("shop.test")),
            ("X-Forwarded-For", Some("192.0.2.1")),
            ("X-Forwarded-Host", None),
            ("X-Original-Forwarded-For", None),
        ] {
            assert_eq!(field(asked, name), value, "{name} in {asked}");
        }
        assert_eq!(stage.connects().len(), 2, "answers that were put aside leave their connections usable");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_proxys_own_are_replaced_too_and_once_only() {
    on_stage(async {
        let (stage, seen) = stage(1, vec![pages()], |number| (number == 102).then_some(PAGE));
        let text = {
            let mut client = stage.client();
            client.send(GET).await;
            client.answer_text().await
        };
        assert!(text.ends_with("\r\n\r\npage"), "{text}");
        assert_eq!(field(&seen.borrow()[0].1, "X-Code"), Some("502"));
        // Who makes the pages has failed as well.
        let (stage, _) = self::stage(1, vec![pages()], |_| None);
        assert_eq!(stage.client().ask(GET).await.unwrap().status, 502);
        let (stage, seen) = self::stage(1, vec![pages()], |number| match number {
            102 => Some(BUSY),
            _ => None,
        });
        assert_eq!(stage.client().ask(GET).await.unwrap().body, b"busy");
        assert_eq!(seen.borrow().len(), 1, "the page's own 503 is not replaced again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_read_does_not_become_the_next_request() {
    on_stage(async {
        let access = Filter::Access(fairway_model::AccessList {
            deny: vec!["192.0.2.0/24".parse().unwrap()],
            allow: Vec::new(),
        });
        let pages = ErrorPages { statuses: vec![403], backend: Some("c".into()), fields: Vec::new() };
        let (stage, seen) = stage(1, vec![Filter::ErrorPages(pages), access], |_| Some(PAGE));
        let mut client = stage.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\n").await;
        assert!(client.answer_text().await.ends_with("page"));
        client.send("GET /smuggled HTTP/1.1\r\n\r\n\r").await;
        client.send(GET).await;
        assert!(client.answer_text().await.ends_with("page"));
        assert!(seen.borrow().iter().all(|(_, text)| !text.contains("smuggled")), "{:?}", seen.borrow());
        assert_eq!(seen.borrow().len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_status_is_tried_again_elsewhere_where_that_is_safe() {
    on_stage(async {
        let filters = || vec![Filter::RetryStatuses(vec![503, 429])];
        let busy_first = |number| Some(if number == 0 { BUSY } else { ok() });
        let (stage, seen) = stage(2, filters(), busy_first);
        let mut client = stage.client();
        for request in [std::str::from_utf8(GET).unwrap(), PUT] {
            for _ in 0..4 {
                assert_eq!(client.ask(request).await.unwrap().status, 200);
            }
        }
        let puts = seen.borrow().iter().filter(|(_, text)| text.starts_with("PUT")).count();
        assert_eq!(puts, 8, "each went to the busy endpoint first: a second attempt takes the other's turn");
        assert!(seen.borrow().iter().all(|(_, text)| !text.starts_with("PUT") || text.ends_with("body")));
        assert_eq!(stage.connects().len(), 2, "an answer that was put aside leaves its connection usable");
        // Not repeatable, and nowhere else to go: the client gets the answer as it is.
        let mut posted = Vec::new();
        for _ in 0..2 {
            posted.push(client.ask(POST).await.unwrap().status);
        }
        posted.sort_unstable();
        assert_eq!(posted, [200, 503]);
        let (stage, _) = self::stage(1, filters(), |_| Some(BUSY));
        assert_eq!(stage.client().ask(GET).await.unwrap().body, b"busy");
        let (stage, seen) = self::stage(3, filters(), |_| Some(BUSY));
        assert_eq!(stage.client().ask(GET).await.unwrap().body, b"busy", "the last one's");
        assert_eq!(seen.borrow().len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_with_every_step_may_be_dropped_wherever_it_waits() {
    for polls in 0..60 {
        on_stage(async {
            let limit = ConcurrencyLimit { policy: "p".into(), most: 9, status: 503, exempt: Vec::new() };
            let filters = vec![
                Filter::ConcurrencyLimit(limit),
                Filter::ExternalAuth(auth()),
                mirror(1024),
                pages(),
                Filter::RetryStatuses(vec![503]),
            ];
            let (stage, _) = stage(2, filters, |number| match number {
                0 => Some(BUSY),
                1 => Some(NOT_FOUND),
                _ => Some(ok()),
            });
            let (mut client, serving) = stage.unserved();
            client.send([GET, PUT.as_bytes(), GET].concat()).await;
            {
                let mut serving = pin!(serving);
                for _ in 0..polls {
                    let mut cx = Context::from_waker(Waker::noop());
                    if serving.as_mut().poll(&mut cx) == Poll::Ready(()) {
                        break;
                    }
                    yield_now().await;
                }
            }
            drop(client);
            sleep(Duration::from_secs(200)).await;
            assert_eq!(stage.at_rest(), Ok(()), "after {polls} polls");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_at_the_pace_of_its_rule_and_nobody_is_late_meanwhile() {
    const BODY: usize = 3000;
    let text: &'static str =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n{}", "x".repeat(BODY)).leak();
    on_stage(async move {
        // The last takes longer than the endpoint and the client may be silent.
        for (bytes, after, seconds) in [(1000, 0, 2), (1000, 2000, 0), (1_000_000, 0, 0), (10, 0, 299)] {
            let rate = Filter::AnswerRate(AnswerRate { bytes, after });
            let (stage, _) = stage(1, vec![rate], move |_| Some(text));
            let mut client = stage.client();
            for _ in 0..2 {
                let began = tokio::time::Instant::now();
                let answer = client.ask(PUT).await.unwrap();
                assert_eq!((answer.status, answer.body.len()), (200, BODY), "{bytes} {after}");
                let took = began.elapsed();
                let expected = Duration::from_secs(seconds);
                assert!(took >= expected && took < expected + Duration::from_millis(200), "{took:?}");
            }
        }
    })
    .await;
}
