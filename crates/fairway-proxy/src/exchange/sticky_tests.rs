//! Session affinity, canary weights, and fallbacks without endpoints, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Action, Backend, BackendKey, Config, CookieRewrite, Endpoint, ErrorPages, Fallback, Match,
    NamedValueMatch, Phases, Replacement, Route, Rule, SameSite, SecureCookie, SessionCarrier, SessionCookie,
    SessionHash, SessionKey, SessionLifetime, SessionPart, SessionStart, Stickiness, StickyFailure,
    TextMatch, UpstreamResponseEdit, VirtualHost, WeightedBackend,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use crate::testing::{Client, ScriptedConnect, TestWorker, config_with_phases, endpoint, run_local};

/// Responds to every request with the endpoint's number and the request's `X-Code`.
async fn answering(number: u16, mut stream: DuplexStream) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
            let code = text.lines().find_map(|line| line.strip_prefix("X-Code: ")).unwrap_or("-");
            let body = format!("{number} {code}");
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// A stage, and the endpoints that currently refuse connections.
struct StickyStage {
    stage: TestWorker,
    down: Rc<RefCell<BTreeSet<u16>>>,
}

impl StickyStage {
    /// Each request uses a new connection to its endpoint.
    fn from_config(config: &Config) -> Self {
        let down = Rc::new(RefCell::new(BTreeSet::new()));
        let theirs = Rc::clone(&down);
        let stage = TestWorker::with_config(config, move |to| match theirs.borrow().contains(&to.port()) {
            true => ScriptedConnect::Refused,
            false => ScriptedConnect::served_by(move |stream| answering(to.port(), stream)),
        });
        Self { stage, down }
    }

    /// The endpoint that serves a request of a new client, and the cookie that it sets.
    async fn request(&self, fields: &str) -> (u16, Option<String>) {
        send_request(&mut self.stage.client(), "/", fields).await
    }

    /// The endpoints of these sessions, all of which must continue.
    async fn owners(&self, sessions: &[String]) -> Vec<u16> {
        let mut owners = Vec::new();
        for session in sessions {
            let (owner, cookie) = self.request(&format!("Cookie: {session}\r\n")).await;
            assert_eq!(cookie, None, "{session} goes on");
            owners.push(owner);
        }
        owners
    }

    /// New sessions, with their endpoints.
    async fn sessions(&self, count: usize) -> (Vec<String>, Vec<u16>) {
        let (mut sessions, mut owners) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (owner, cookie) = self.request("").await;
            sessions.push(value(&cookie.expect("a session begins")).to_owned());
            owners.push(owner);
        }
        (sessions, owners)
    }
}

async fn send_request(client: &mut Client, target: &str, fields: &str) -> (u16, Option<String>) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).await;
    let text = client.response_text().await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let cookies: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("Set-Cookie: ")).collect();
    assert!(cookies.len() < 2 && head.starts_with("HTTP/1.1 200 "), "{text}");
    let number = body.split(' ').next().unwrap().parse().unwrap();
    (number, cookies.first().map(|&cookie| cookie.to_owned()))
}

/// The name and value of a cookie.
fn value(cookie: &str) -> &str {
    cookie.split(';').next().unwrap()
}

fn cookie() -> SessionCookie {
    SessionCookie {
        name: "route".into(),
        backend: "b1".into(),
        stickiness: Stickiness::Balanced,
        path: None,
        domain: None,
        expires: None,
        max_age: None,
        secure: SecureCookie::OverTls,
        same_site: SameSite::Absent,
        on_failure: StickyFailure::Returns,
        begins: SessionStart::Here,
        carrier: SessionCarrier::Cookie,
        lifetime: SessionLifetime::default(),
    }
}

fn persistent() -> SessionCookie {
    SessionCookie { stickiness: Stickiness::Persistent, ..cookie() }
}

/// One backend with this many endpoints and this key.
fn keyed(endpoints: usize, key: SessionKey) -> Config {
    let mut config = config_with_phases(endpoints, Vec::new());
    config.settings.upstream.requests_per_connection = 1;
    let backend =
        Backend { session: Some(key), ..Backend::clone(&config.backends[&BackendKey::from("backend")]) };
    config.backends.insert(backend.key.clone(), Arc::new(backend));
    config
}

fn with_cookie(endpoints: usize, cookie: &SessionCookie) -> Config {
    keyed(endpoints, SessionKey::Cookie(Arc::new(cookie.clone())))
}

fn keyed_by(endpoints: usize, parts: &[SessionPart], spread: Option<u16>) -> Config {
    let spread = spread.and_then(NonZeroU16::new);
    keyed(endpoints, SessionKey::Hash(SessionHash { parts: parts.to_vec(), spread }))
}

fn ports_of(numbers: std::ops::Range<u16>) -> BTreeSet<u16> {
    numbers.collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_begins_with_a_cookie_and_stays_where_it_is() {
    run_local(async {
        for cookie in [cookie(), persistent()] {
            let play = StickyStage::from_config(&with_cookie(5, &cookie));
            let (sessions, owners) = play.sessions(60).await;
            assert_eq!(owners.iter().copied().collect::<BTreeSet<_>>(), ports_of(0..5), "all get some");
            for _ in 0..3 {
                assert_eq!(play.owners(&sessions).await, owners);
            }
            let distinct: BTreeSet<_> = sessions.iter().collect();
            let expected = if cookie.stickiness == Stickiness::Persistent { 5 } else { 60 };
            assert_eq!(distinct.len(), expected, "a session has a name of its own, or that of its endpoint");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_began_elsewhere_stays_where_it_is_and_none_begins() {
    run_local(async {
        for cookie in [cookie(), persistent()] {
            let play = StickyStage::from_config(&with_cookie(5, &cookie));
            let (sessions, owners) = play.sessions(40).await;
            for on_failure in [StickyFailure::Returns, StickyFailure::Moves] {
                let elsewhere =
                    SessionCookie { begins: SessionStart::Elsewhere, on_failure, ..cookie.clone() };
                let other = StickyStage::from_config(&with_cookie(5, &elsewhere));
                assert_eq!(other.owners(&sessions).await, owners);
                let mut served = BTreeSet::new();
                for _ in 0..10 {
                    let (owner, set_cookie) = other.request("").await;
                    assert_eq!(set_cookie, None);
                    served.insert(owner);
                }
                assert_eq!(served, ports_of(0..5), "the others take turns");
                other.down.borrow_mut().insert(owners[0]);
                let (owner, set_cookie) = other.request(&format!("Cookie: {}\r\n", sessions[0])).await;
                assert!(
                    owner != owners[0] && set_cookie.is_none(),
                    "it does not move from here: {set_cookie:?}"
                );
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn workers_agree_about_every_session() {
    run_local(async {
        for config in [with_cookie(7, &cookie()), with_cookie(7, &persistent())] {
            let (one, other) = (StickyStage::from_config(&config), StickyStage::from_config(&config));
            let (sessions, owners) = one.sessions(40).await;
            assert_eq!(other.owners(&sessions).await, owners);
        }
        let config = keyed_by(7, &[SessionPart::Header("x-user".into())], None);
        let (one, other) = (StickyStage::from_config(&config), StickyStage::from_config(&config));
        for user in 0..40 {
            let fields = format!("X-User: {user}\r\n");
            assert_eq!(one.request(&fields).await, other.request(&fields).await);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sessions_of_endpoints_that_stay_survive_that_others_come_and_go() {
    run_local(async {
        for cookie in [cookie(), persistent()] {
            let play = StickyStage::from_config(&with_cookie(5, &cookie));
            let (sessions, before) = play.sessions(200).await;
            play.stage.publish(&with_cookie(7, &cookie));
            let during = play.owners(&sessions).await;
            let moved: Vec<_> =
                before.iter().zip(&during).filter(|(old, new)| old != new).map(|(_, new)| *new).collect();
            assert!(
                moved.iter().all(|new| ports_of(5..7).contains(new)),
                "to the new endpoints alone: {moved:?}"
            );
            match cookie.stickiness {
                Stickiness::Persistent => assert!(moved.is_empty(), "{moved:?}"),
                // Two sevenths of 200 are 57.
                Stickiness::Balanced => assert!((35..80).contains(&moved.len()), "{}", moved.len()),
            }
            play.stage.publish(&with_cookie(5, &cookie));
            assert_eq!(play.owners(&sessions).await, before);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_removed_endpoint_continues_elsewhere() {
    run_local(async {
        for cookie in [cookie(), persistent()] {
            let play = StickyStage::from_config(&with_cookie(5, &cookie));
            let (sessions, owners) = play.sessions(50).await;
            play.stage.publish(&with_cookie(4, &cookie));
            for (session, owner) in sessions.iter().zip(&owners) {
                let (now, set_cookie) = play.request(&format!("Cookie: {session}\r\n")).await;
                if *owner < 4 {
                    assert_eq!((now, set_cookie), (*owner, None));
                    continue;
                }
                assert!(now < 4);
                assert_eq!(
                    set_cookie.is_some(),
                    cookie.stickiness == Stickiness::Persistent,
                    "{set_cookie:?}"
                );
                let session = set_cookie.as_deref().map_or(&**session, value).to_owned();
                assert_eq!(play.owners(&[session]).await, [now]);
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_returns_to_a_failed_endpoint_or_moves_as_its_cookie_says() {
    run_local(async {
        for plain in [cookie(), persistent()] {
            for on_failure in [StickyFailure::Returns, StickyFailure::Moves] {
                let play =
                    StickyStage::from_config(&with_cookie(4, &SessionCookie { on_failure, ..plain.clone() }));
                let (sessions, owners) = play.sessions(1).await;
                play.down.borrow_mut().insert(owners[0]);
                let (other, set_cookie) = play.request(&format!("Cookie: {}\r\n", sessions[0])).await;
                assert_ne!(other, owners[0]);
                play.down.borrow_mut().clear();
                let after = match on_failure {
                    StickyFailure::Returns => {
                        assert_eq!(set_cookie, None);
                        (sessions[0].clone(), owners[0])
                    }
                    StickyFailure::Moves => (value(&set_cookie.expect("it moved")).to_owned(), other),
                };
                // Long enough for the endpoint to be tried again.
                sleep(Duration::from_secs(10)).await;
                for _ in 0..5 {
                    assert_eq!(
                        play.owners(std::slice::from_ref(&after.0)).await,
                        [after.1],
                        "{on_failure:?}"
                    );
                }
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_cookie_has_the_attributes_that_it_is_given() {
    run_local(async {
        let play = StickyStage::from_config(&with_cookie(1, &cookie()));
        let plain = play.request("").await.1.unwrap();
        let (session, attributes) = plain.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; HttpOnly");
        let (key, backend) = session.strip_prefix("route=").unwrap().split_once('|').unwrap();
        assert!(key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert_eq!(backend, "b1");
        let all = SessionCookie {
            path: Some("/p".into()),
            domain: Some("test".into()),
            expires: Some(-1_000_000_000_000),
            max_age: Some(300),
            secure: SecureCookie::Always,
            same_site: SameSite::NoneIfKnown,
            ..cookie()
        };
        let play = StickyStage::from_config(&with_cookie(1, &all));
        let set_cookie = play.request("").await.1.unwrap();
        let (_, attributes) = set_cookie.split_once("; Expires=").unwrap();
        let (date, attributes) = attributes.split_once("; ").unwrap();
        assert!(date.ends_with(" GMT"), "{date}");
        assert_eq!(attributes, "Max-Age=300; Domain=test; Path=/p; Secure; HttpOnly; SameSite=None");
        let set_cookie = play.request("User-Agent: CPU iPhone OS 12\r\n").await.1.unwrap();
        assert!(set_cookie.ends_with("; HttpOnly"), "{set_cookie}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn any_text_is_a_session_and_the_last_part_of_its_cookie_names_no_endpoint() {
    run_local(async {
        let play = StickyStage::from_config(&with_cookie(5, &cookie()));
        let of_nginx = "route=1700000000.123.45.678|8b1a9953c4611296a827abf8c47804d7".to_owned();
        let owner = play.owners(std::slice::from_ref(&of_nginx)).await;
        for same in ["route=1700000000.123.45.678", "a=b; route=1700000000.123.45.678|x; c=d"] {
            assert_eq!(play.owners(&[same.to_owned()]).await, owner);
        }
        assert!(play.request("Cookie: route=\r\n").await.1.is_some(), "nothing is no session");
        let play = StickyStage::from_config(&with_cookie(5, &persistent()));
        assert!(play.request(&format!("Cookie: {of_nginx}\r\n")).await.1.is_some(), "it names none of these");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_with_equal_hashed_values_belong_together() {
    use SessionPart::{Cookie, Header, Host, Path, Query, Target, Text};
    run_local(async {
        for (part, request_of) in [
            (
                Header("x-user".into()),
                (|n| ("/".into(), format!("X-User: {n}\r\n"))) as fn(u32) -> (String, String),
            ),
            (Cookie("id".into()), |n| ("/".into(), format!("Cookie: a=b; id={n}\r\n"))),
            (Query("q".into()), |n| (format!("/?x=1&q={n}"), String::new())),
            (Target, |n| (format!("/{n}?x=1"), String::new())),
            (Path, |n| (format!("/{n}"), String::new())),
        ] {
            let play = StickyStage::from_config(&keyed_by(5, &[Text("v".into()), part.clone()], None));
            let mut owners = BTreeSet::new();
            for number in 0..60 {
                let (target, fields) = request_of(number);
                let mut owner = None;
                for _ in 0..3 {
                    let (now, set_cookie) = send_request(&mut play.stage.client(), &target, &fields).await;
                    assert_eq!(set_cookie, None);
                    assert_eq!(*owner.get_or_insert(now), now, "{part:?} {number}");
                }
                owners.extend(owner);
            }
            assert_eq!(owners, ports_of(0..5), "{part:?}");
        }
        let play = StickyStage::from_config(&keyed_by(5, &[Path], None));
        let mut client = play.stage.client();
        let first = send_request(&mut client, "/a/b?x=1", "").await;
        assert_eq!(
            send_request(&mut client, "/a//./b?y=2", "").await,
            first,
            "the path is normalised and has no query"
        );
        let play = StickyStage::from_config(&keyed_by(5, &[Host], None));
        let first = play.request("X-User: 1\r\n").await;
        assert_eq!(play.request("X-User: 2\r\n").await, first);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_hash_may_have_several_endpoints() {
    run_local(async {
        let header = [SessionPart::Header("x-user".into())];
        let play = StickyStage::from_config(&keyed_by(6, &header, Some(2)));
        let owners = async |user: &str| {
            let mut owners = BTreeSet::new();
            for _ in 0..40 {
                owners.insert(play.request(&format!("X-User: {user}\r\n")).await.0);
            }
            owners
        };
        let mut pairs = Vec::new();
        for user in ["1", "2", "3", "4", "5", "6", "7", "8"] {
            let pair = owners(user).await;
            assert_eq!(pair.len(), 2, "{pair:?}");
            pairs.push(pair);
        }
        assert!(pairs.iter().collect::<BTreeSet<_>>().len() > 2, "{pairs:?}");
        assert_eq!(owners("1").await, pairs[0]);
        play.down.borrow_mut().extend(pairs[0].first());
        let remaining = owners("1").await;
        assert!(
            remaining.len() == 2 && remaining.contains(pairs[0].last().unwrap()),
            "{remaining:?} after {:?}",
            pairs[0]
        );
        let play = StickyStage::from_config(&keyed_by(2, &header, Some(9)));
        assert_eq!(
            [play.request("").await.0, play.request("").await.0].len(),
            2,
            "more than there are is all of them"
        );
    })
    .await;
}

/// A rule that forwards requests with these conditions to `to`.
fn rule(like: &Rule, route_match: Match, to: &[(&str, u32)]) -> Rule {
    let share = |(backend, weight): &(&str, u32)| WeightedBackend::new((*backend).into(), *weight);
    Rule {
        matches: vec![route_match],
        action: Action::Forward(to.iter().map(share).collect()),
        ..like.clone()
    }
}

fn exact(name: &str, value: &str) -> Vec<NamedValueMatch> {
    vec![NamedValueMatch { name: name.into(), value: TextMatch::Exact(value.into()) }]
}

/// Backend `backend` with endpoint 0, and `canary` with endpoint 1; the rules are made from the only one.
fn canary_config(filters: Vec<Phases>, rules: impl Fn(&Rule) -> Vec<Rule>) -> Config {
    let mut config = config_with_phases(1, filters);
    config.settings.upstream.requests_per_connection = u64::MAX;
    config.settings.downstream.requests_per_connection = u64::MAX;
    let (key, host) = config.hosts.iter().next().unwrap();
    let (key, mut host) = (key.clone(), VirtualHost::clone(host));
    let mut route = Route::clone(&host.routes[0]);
    route.rules = rules(&route.rules[0]);
    host.routes = vec![Arc::new(route)];
    config.hosts.insert(key, Arc::new(host));
    add_backend(&mut config, "canary", &[1]);
    config
}

fn add_backend(config: &mut Config, name: &str, endpoints: &[u16]) {
    let address = |number: &u16| Endpoint::at(endpoint(*number));
    let endpoints = endpoints.iter().map(address).collect();
    let like = Backend::clone(&config.backends[&BackendKey::from("backend")]);
    config.backends.insert(name.into(), Arc::new(Backend { key: name.into(), endpoints, ..like }));
}

#[tokio::test(start_paused = true)]
async fn a_canary_of_a_tenth_gets_a_tenth_of_the_requests() {
    run_local(async {
        let play = StickyStage::from_config(&canary_config(Vec::new(), |like| {
            vec![rule(like, Match::default(), &[("backend", 90), ("canary", 10)])]
        }));
        let mut client = play.stage.client();
        let mut counts = [0; 2];
        for _ in 0..20_000 {
            counts[usize::from(send_request(&mut client, "/", "").await.0)] += 1;
        }
        assert!((1_800..=2_200).contains(&counts[1]), "{counts:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn sessions_come_before_headers_headers_before_cookies_and_cookies_before_chance() {
    run_local(async {
        let route_match = |rank, headers, cookies| Match { rank, headers, cookies, ..Match::default() };
        let session =
            vec![NamedValueMatch { name: "route".into(), value: TextMatch::Regex(r"[^|]*\|b2".into()) }];
        let play = StickyStage::from_config(&canary_config(Vec::new(), |like| {
            vec![
                rule(like, route_match(0, Vec::new(), Vec::new()), &[("backend", 1)]),
                rule(like, route_match(1, Vec::new(), exact("beta", "never")), &[("backend", 1)]),
                rule(like, route_match(2, Vec::new(), exact("beta", "always")), &[("canary", 1)]),
                rule(like, route_match(3, exact("x-canary", "never"), Vec::new()), &[("backend", 1)]),
                rule(like, route_match(4, exact("x-canary", "always"), Vec::new()), &[("canary", 1)]),
                rule(like, route_match(5, Vec::new(), session.clone()), &[("canary", 1)]),
            ]
        }));
        for (fields, expected) in [
            ("", 0),
            ("X-Canary: always\r\n", 1),
            ("X-Canary: never\r\nCookie: beta=always\r\n", 0),
            ("X-Canary: always\r\nCookie: beta=never\r\n", 1),
            ("X-Canary: z\r\nCookie: beta=always\r\n", 1),
            ("Cookie: beta=maybe\r\n", 0),
            ("Cookie: a=b\r\nCookie: beta=always\r\n", 1),
            ("X-Canary: never\r\nCookie: route=1|b2\r\n", 1),
            ("Cookie: route=1|b1\r\n", 0),
        ] {
            assert_eq!(play.request(fields).await.0, expected, "{fields}");
        }
    })
    .await;
}

/// The response to a request for `/`.
async fn text(play: &StickyStage) -> String {
    let mut client = play.stage.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Code: of the client\r\n\r\n").await;
    client.response_text().await
}

#[tokio::test(start_paused = true)]
async fn another_backend_serves_while_there_are_no_endpoints() {
    run_local(async {
        let to = |backend: &str, fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            Phases::from(Fallback { backend: backend.into(), fields })
        };
        let filters = vec![to("nothing", &[("X-Code", "1")]), to("pages", &[("X-Code", "503")])];
        let with_endpoints = |endpoints: &[u16], pages: &[u16]| {
            let mut config = config_with_phases(1, filters.clone());
            for (name, endpoints) in [("backend", endpoints), ("nothing", &[]), ("pages", pages)] {
                add_backend(&mut config, name, endpoints);
            }
            config
        };
        let play = StickyStage::from_config(&with_endpoints(&[0], &[9]));
        for (config, expected) in [
            (with_endpoints(&[0], &[9]), "0 of the client"),
            (with_endpoints(&[], &[9]), "9 503"),
            (with_endpoints(&[3], &[9]), "3 of the client"),
        ] {
            play.stage.publish(&config);
            let text = text(&play).await;
            assert!(text.ends_with(&format!("\r\n\r\n{expected}")), "{expected}: {text}");
        }
        play.stage.publish(&with_endpoints(&[], &[]));
        assert!(text(&play).await.starts_with("HTTP/1.1 503 "));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_canary_without_endpoints_gets_no_requests() {
    run_local(async {
        let back = Phases::from(Fallback { backend: "backend".into(), fields: Vec::new() });
        let mut config = canary_config(vec![back], |like| {
            vec![rule(like, Match::default(), &[("backend", 1), ("canary", 1)])]
        });
        let play = StickyStage::from_config(&config);
        let mut responders = BTreeSet::new();
        for _ in 0..40 {
            responders.insert(play.request("").await.0);
        }
        assert_eq!(responders, ports_of(0..2));
        add_backend(&mut config, "canary", &[]);
        play.stage.publish(&config);
        for _ in 0..40 {
            assert_eq!(play.request("").await.0, 0);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_session_starts_with_a_response_replaced_by_a_page() {
    const BUSY: &str = "HTTP/1.1 503 No\r\nSet-Cookie: own=1\r\nContent-Length: 4\r\n\r\nbusy";
    const PAGE: &str = "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\npage";
    run_local(async {
        // A page; no endpoint for it; no backend for it.
        for (backend, is_page_up, start) in [
            (Some("pages"), true, "HTTP/1.1 404 "),
            (Some("pages"), false, "HTTP/1.1 502 "),
            (None, true, "HTTP/1.1 404 "),
        ] {
            let pages =
                ErrorPages { statuses: vec![503], backend: backend.map(Into::into), fields: Vec::new() };
            let mut config = config_with_phases(2, vec![Phases::from(pages)]);
            add_backend(&mut config, "pages", &[9]);
            let backend = Backend {
                session: Some(SessionKey::Cookie(Arc::new(cookie()))),
                ..Backend::clone(&config.backends[&BackendKey::from("backend")])
            };
            config.backends.insert(backend.key.clone(), Arc::new(backend));
            let stage = TestWorker::with_config(&config, move |to| match (to.port(), is_page_up) {
                (9, false) => ScriptedConnect::Refused,
                (9, true) => ScriptedConnect::served_by(|stream| always(PAGE, stream)),
                _ => ScriptedConnect::served_by(|stream| always(BUSY, stream)),
            });
            let cookies = async |fields: &str| {
                let mut client = stage.client();
                client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).await;
                let text = client.response_text().await;
                assert!(text.starts_with(start) && !text.contains("busy"), "{text}");
                let cookies = text.lines().filter_map(|line| line.strip_prefix("Set-Cookie: "));
                cookies.map(str::to_owned).collect::<Vec<_>>()
            };
            let set = cookies("").await;
            assert!(matches!(&set[..], [one] if one.starts_with("route=")), "{start} {set:?}");
            let again = cookies(&format!("Cookie: {}\r\n", value(&set[0]))).await;
            assert!(again.is_empty(), "{start} the session goes on: {again:?}");
        }
    })
    .await;
}

/// nginx only rewrites cookies of the upstream.
#[tokio::test(start_paused = true)]
async fn the_path_of_a_session_stays_where_paths_of_cookies_are_rewritten() {
    const OWN: &str = "HTTP/1.1 200 OK\r\nSet-Cookie: own=1; Path=/\r\nContent-Length: 0\r\n\r\n";
    run_local(async {
        let path = Some(Replacement { from: "/".into(), to: "/app/".into() });
        let mut config = config_with_phases(
            1,
            vec![Phases::from(UpstreamResponseEdit::Cookies(CookieRewrite { domain: None, path }))],
        );
        let key = BackendKey::from("backend");
        let session = Some(SessionKey::Cookie(Arc::new(cookie())));
        let backend = Backend { session, ..Backend::clone(&config.backends[&key]) };
        config.backends.insert(key, Arc::new(backend));
        let stage =
            TestWorker::with_config(&config, |_| ScriptedConnect::served_by(|stream| always(OWN, stream)));
        let mut client = stage.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let text = client.response_text().await;
        assert!(text.contains("Set-Cookie: own=1; Path=/app/\r\n"), "{text}");
        assert!(text.contains("Set-Cookie: route=") && text.contains("; Path=/; HttpOnly\r\n"), "{text}");
    })
    .await;
}

/// Responds to every request with this.
async fn always(response: &'static str, mut stream: DuplexStream) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
