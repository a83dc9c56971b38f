//! Support for tests of steps that wait, count, mirror and inspect responses, in virtual time; and tests of attempts and
//! limits.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fairway_model::{
    AuthCache, AuthCookies, AuthService, ConcurrencyLimit, ExternalAuth, Forwarding, Guard, HeaderEdit,
    HeaderField, Phases, RequestEdit, ResponseLimits, ResponseRate, Template, TemplatePart, Timeouts,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::steps_mirror_tests::mirror;
use super::steps_page_tests::pages;
use crate::testing::{GET_REQUEST, OK_RESPONSE, ScriptedConnect, TestWorker, run_local};

pub(super) const POST: &str = "POST /p?q=1 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\nX-User: mallory\r\n\
     Accept: text/html\r\n\r\nbody";
pub(super) const PUT: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
pub(super) const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nplain";
pub(super) const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";

/// Requests that endpoints received: the endpoint's number, and head and body.
pub(super) type ReceivedRequests = Rc<RefCell<Vec<(u16, String)>>>;

/// Responds to every request of a connection, and records it.
pub(super) async fn serve_responses(
    number: u16,
    response: &'static [u8],
    seen: ReceivedRequests,
    mut stream: DuplexStream,
) {
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
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

/// The value of a header in a head.
pub(super) fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// A stage whose endpoints respond as `response` says; if it returns `None`, the endpoint refuses the connect.
pub(super) fn stage(
    endpoints: usize,
    filters: Vec<Phases>,
    response: impl Fn(u16) -> Option<&'static str> + 'static,
) -> (TestWorker, ReceivedRequests) {
    let received = ReceivedRequests::default();
    let script = {
        let received = Rc::clone(&received);
        move |to: SocketAddr| match response(to.port()) {
            Some(response) => {
                let received = Rc::clone(&received);
                ScriptedConnect::served_by(move |stream| {
                    serve_responses(to.port(), response.as_bytes(), received, stream)
                })
            }
            None => ScriptedConnect::Refused,
        }
    };
    (TestWorker::with_phases(endpoints, filters, script), received)
}

pub(super) fn ok() -> &'static str {
    std::str::from_utf8(OK_RESPONSE).unwrap()
}

pub(super) fn service(backend: &str) -> AuthService {
    AuthService::Backend { backend: backend.into(), host: "auth.test".into() }
}

pub(super) fn auth() -> ExternalAuth {
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
        filter: None,
    }
}

/// The same with responses that are cached for a minute, by the value of `Authorization`.
pub(super) fn cached_auth() -> ExternalAuth {
    let key = Template(vec![TemplatePart::Header("authorization".into())]);
    let times = [200, 401].map(|status| (Some(status), Duration::from_secs(60))).into();
    ExternalAuth { kept: Some(AuthCache { key, times }), ..auth() }
}

pub(super) fn auth_phases(auth: ExternalAuth) -> Phases {
    Phases::from(Guard::ExternalAuth(Box::new(auth)))
}

pub(super) fn set(name: &str, value: &str) -> HeaderEdit {
    HeaderEdit { set: vec![HeaderField { name: name.into(), value: value.into() }], ..HeaderEdit::default() }
}

pub(super) async fn never_answering(mut stream: DuplexStream) {
    let mut all = Vec::new();
    // Until the other end goes.
    let _ = stream.read_to_end(&mut all).await;
}

pub(super) async fn run_ready_tasks() {
    for _ in 0..30 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_headers_set_by_a_filter_arrive() {
    run_local(async {
        let edit = HeaderEdit {
            remove: vec!["X-Forwarded-Port".into()],
            add: vec![HeaderField { name: "X-Forwarded-For".into(), value: "203.0.113.9".into() }],
            ..set("X-Forwarded-Proto", "https")
        };
        let (stage, seen) = stage(1, vec![Phases::from(RequestEdit::Headers(edit))], |_| Some(ok()));
        assert_eq!(stage.client().request(POST).await.unwrap().status, 200);
        let received = seen.borrow();
        let forwarded = &received[0].1;
        assert_eq!(field(forwarded, "X-Forwarded-Proto"), Some("https"), "{forwarded}");
        assert_eq!(field(forwarded, "X-Forwarded-Port"), None, "{forwarded}");
        assert_eq!(field(forwarded, "X-Real-IP"), Some("192.0.2.1"), "{forwarded}");
        assert!(forwarded.contains("X-Forwarded-For: 192.0.2.1\r\n"), "{forwarded}");
        assert!(forwarded.contains("X-Forwarded-For: 203.0.113.9\r\n"), "{forwarded}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_status_is_retried_elsewhere_if_that_is_safe() {
    run_local(async {
        let filters =
            || vec![Phases::from(Forwarding { retry_statuses: vec![503, 429], ..Forwarding::default() })];
        let busy_first = |number| Some(if number == 0 { BUSY } else { ok() });
        let (stage, seen) = stage(2, filters(), busy_first);
        let mut client = stage.client();
        for request in [std::str::from_utf8(GET_REQUEST).unwrap(), PUT] {
            for _ in 0..4 {
                assert_eq!(client.request(request).await.unwrap().status, 200);
            }
        }
        let puts = seen.borrow().iter().filter(|(_, text)| text.starts_with("PUT")).count();
        assert_eq!(puts, 8, "each went to the busy endpoint first: a second attempt takes the other's turn");
        assert!(seen.borrow().iter().all(|(_, text)| !text.starts_with("PUT") || text.ends_with("body")));
        assert_eq!(stage.connects().len(), 2, "a discarded response leaves its connection usable");
        // Not repeatable, or without another endpoint: the client gets the response unchanged.
        let mut posted = Vec::new();
        for _ in 0..2 {
            posted.push(client.request(POST).await.unwrap().status);
        }
        posted.sort_unstable();
        assert_eq!(posted, [200, 503]);
        let (stage, _) = self::stage(1, filters(), |_| Some(BUSY));
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().body, b"busy");
        let (stage, seen) = self::stage(3, filters(), |_| Some(BUSY));
        assert_eq!(stage.client().request(GET_REQUEST).await.unwrap().body, b"busy", "the last one's");
        assert_eq!(seen.borrow().len(), 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_with_every_step_may_be_dropped_wherever_it_waits() {
    for polls in 0..60 {
        run_local(async {
            let limit = ConcurrencyLimit { policy: "p".into(), max: 9, status: 503, exempt: Vec::new() };
            let filters = vec![
                Phases::from(Guard::ConcurrencyLimit(limit)),
                auth_phases(auth()),
                mirror(1024),
                pages(),
                Phases::from(Forwarding { retry_statuses: vec![503], ..Forwarding::default() }),
            ];
            let (stage, _) = stage(2, filters, |number| match number {
                0 => Some(BUSY),
                1 => Some(NOT_FOUND),
                _ => Some(ok()),
            });
            let (mut client, serving) = stage.unserved_client();
            client.send([GET_REQUEST, PUT.as_bytes(), GET_REQUEST].concat()).await;
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
            assert_eq!(stage.check_idle(), Ok(()), "after {polls} polls");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_follows_the_rate_of_its_rule_without_delaying_others() {
    const BODY: usize = 3000;
    let text: &'static str =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n{}", "x".repeat(BODY)).leak();
    run_local(async move {
        // The last one takes longer than the read and write timeouts.
        for (bytes, after, seconds) in [(1000, 0, 2), (1000, 2000, 0), (1_000_000, 0, 0), (10, 0, 299)] {
            let rate = Phases::from(ResponseLimits { head: 0, rate: Some(ResponseRate { bytes, after }) });
            let (stage, _) = stage(1, vec![rate], move |_| Some(text));
            let mut client = stage.client();
            for _ in 0..2 {
                let began = tokio::time::Instant::now();
                let response = client.request(PUT).await.unwrap();
                assert_eq!((response.status, response.body.len()), (200, BODY), "{bytes} {after}");
                let took = began.elapsed();
                let expected = Duration::from_secs(seconds);
                assert!(took >= expected && took < expected + Duration::from_millis(200), "{took:?}");
            }
        }
    })
    .await;
}
