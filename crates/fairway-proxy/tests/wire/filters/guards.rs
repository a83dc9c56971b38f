//! Guards: which requests are redirected or refused, and which client address counts.

use std::sync::Arc;

use fairway_model::{
    AccessList, Deny, Guard, HttpsRedirect, Listener, Match, NamedValueMatch, PathMatch, PathRewrite, Phases,
    RealIp, Redirect, RedirectTarget, TextMatch,
};
use fairway_testkit::{Backend, BackendResponse, Request};

use super::{send, send_absolute_form, send_tls, start_with_filters};
use crate::support::{HOST, Setup};

#[tokio::test]
async fn plain_requests_are_redirected_to_https_and_tls_ones_pass() {
    let redirect = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: false };
    let (backend, proxy) = start_with_filters(vec![Phases::from(Guard::HttpsRedirect(redirect))]).await;
    for (host, target, location) in [
        ("Example.com:8080", "/a/b?c=d", "https://Example.com/a/b?c=d"),
        (HOST, "/a/", "https://example.com/a"),
        ("[::1]:80", "/", "https://[::1]"),
        // Exempt paths have rules of their own without this filter; a request's path cannot exempt it.
        (HOST, "/.well-known/acme-challenge/x", "https://example.com/.well-known/acme-challenge/x"),
    ] {
        let response = send(&proxy, Request::get(host, target)).await;
        assert_eq!((response.status, response.header("Location")), (308, Some(location)));
    }
    assert_eq!(backend.connection_count(), 0);
    assert_eq!(send_tls(&proxy, Request::get(HOST, "/a")).await.text(), "/a");
}

#[tokio::test]
async fn a_redirect_to_https_contains_the_port_if_configured() {
    let redirect = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: true };
    let (_backend, proxy) = start_with_filters(vec![Phases::from(Guard::HttpsRedirect(redirect))]).await;
    let response = send(&proxy, Request::get(HOST, "/a/")).await;
    assert_eq!(response.header("Location"), Some("https://example.com:443/a"));
}

#[tokio::test]
async fn a_redirect_to_another_host_drops_one_slash_at_the_end() {
    let target = RedirectTarget::Host("www.example.com".into());
    let (_backend, proxy) =
        start_with_filters(vec![Phases::from(Guard::Redirect(Redirect { status: 308, target }))]).await;
    let response = send(&proxy, Request::get(HOST, "/a//")).await;
    assert_eq!(response.header("Location"), Some("http://www.example.com:80/a/"));
    let response = send_tls(&proxy, Request::get(HOST, "/")).await;
    assert_eq!(response.header("Location"), Some("https://www.example.com:443"));
}

#[tokio::test]
async fn a_redirected_post_keeps_the_connection_and_its_body_is_no_request() {
    let redirect = HttpsRedirect { status: 308, keep_trailing_slash: true, explicit_port: false };
    let (_backend, proxy) = start_with_filters(vec![Phases::from(Guard::HttpsRedirect(redirect))]).await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let request = Request::post(HOST, "/a/", "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.exchange(&request).await.unwrap();
        assert_eq!((response.status, response.header("Location")), (308, Some("https://example.com/a/")));
    }
}

#[tokio::test]
async fn a_redirect_replaces_the_parts_it_names() {
    let parts = |scheme: Option<&str>, host: Option<&str>, port, path, keep_query| RedirectTarget::Parts {
        scheme: scheme.map(Into::into),
        host: host.map(Into::into),
        port,
        path,
        keep_query,
    };
    let full_path = |path: &str| Some(PathRewrite::Full(path.into()));
    let full = full_path("/new");
    for (target, location) in [
        (RedirectTarget::Url("https://other.example/x".into()), "https://other.example/x"),
        (parts(None, Some("other.example"), None, None, true), "http://other.example/a/b?c=d"),
        (parts(Some("https"), None, None, full.clone(), false), "https://example.com/new"),
        (parts(Some("https"), None, Some(8443), full, true), "https://example.com:8443/new?c=d"),
        (parts(None, None, Some(80), None, false), "http://example.com/a/b"),
        (
            parts(None, None, Some(80), full_path(".other.example"), false),
            "http://example.com/.other.example",
        ),
        (parts(None, None, Some(80), full_path(""), false), "http://example.com/"),
        (RedirectTarget::Path("/a/b/".into()), "/a/b/?c=d"),
        (RedirectTarget::Host("www.example.com".into()), "http://www.example.com:80/a/b?c=d"),
    ] {
        let (_backend, proxy) =
            start_with_filters(vec![Phases::from(Guard::Redirect(Redirect { status: 302, target }))]).await;
        let response = send(&proxy, Request::get(HOST, "/a/b?c=d")).await;
        assert_eq!((response.status, response.header("Location")), (302, Some(location)));
    }
}

/// Gateway API `HTTPRequestRedirectFilter.port`: without a port, an explicit scheme implies its well-known port; without a
/// scheme, the listener's port is used.
#[tokio::test]
async fn a_redirect_to_a_scheme_leads_to_its_well_known_port_whatever_the_listener_has() {
    for (scheme, port, is_plain_http, over_tls) in [
        (None, None, "http://example.com:8080/", "https://example.com:8443/"),
        (Some("https"), None, "https://example.com/", "https://example.com/"),
        (Some("http"), None, "http://example.com/", "http://example.com/"),
        (Some("https"), Some(8443), "https://example.com:8443/", "https://example.com:8443/"),
        (Some("https"), Some(80), "https://example.com:80/", "https://example.com:80/"),
        (None, Some(443), "http://example.com:443/", "https://example.com/"),
    ] {
        let scheme = scheme.map(Into::into);
        let target = RedirectTarget::Parts { scheme, host: None, port, path: None, keep_query: true };
        let redirect = Phases::from(Guard::Redirect(Redirect { status: 302, target: target.clone() }));
        let mut config = Setup::to(&[]).filter(redirect).config();
        for (name, public_port) in [("http", 8080), ("https", 8443)] {
            let listener = Listener { public_port, ..Listener::clone(&config.listeners[name]) };
            config.listeners.insert(name.into(), Arc::new(listener));
        }
        let proxy = Setup::to(&[]).start_by(&config);
        let clear = send(&proxy, Request::get(HOST, "/")).await;
        assert_eq!(clear.header("Location"), Some(is_plain_http), "{target:?}");
        let secure = send_tls(&proxy, Request::get(HOST, "/")).await;
        assert_eq!(secure.header("Location"), Some(over_tls), "{target:?}");
    }
}

#[tokio::test]
async fn a_redirect_replaces_the_prefix_that_its_rule_matched() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    for (new, asked, location) in [
        ("/new", "/old/a%20b/c?d=e", "http://example.com/new/a%20b/c?d=e"),
        ("/new", "/old", "http://example.com/new"),
        ("/", "/old/a", "http://example.com/a"),
    ] {
        let target = RedirectTarget::Parts {
            scheme: None,
            host: None,
            port: Some(80),
            path: Some(PathRewrite::Prefix(new.into())),
            keep_query: true,
        };
        let mut setup = Setup::to(&[backend.address()])
            .filter(Phases::from(Guard::Redirect(Redirect { status: 301, target })));
        setup.path = PathMatch::Prefix("/old".into());
        let response = send(&setup.start(), Request::get(HOST, asked)).await;
        assert_eq!((response.status, response.header("Location")), (301, Some(location)), "{new} {asked}");
    }
    assert_eq!(backend.request_count(), 0);
}

#[tokio::test]
async fn redirects_of_absolute_targets_without_a_path_stay_on_their_host() {
    let to_https = HttpsRedirect { status: 308, keep_trailing_slash: true, explicit_port: false };
    let (_backend, to_https) = start_with_filters(vec![Phases::from(Guard::HttpsRedirect(to_https))]).await;
    let prefix = Some(PathRewrite::Prefix("/new".into()));
    let parts = |path| RedirectTarget::Parts {
        scheme: Some("https".into()),
        host: None,
        port: None,
        path,
        keep_query: true,
    };
    let (_other, same_path) = start_with_filters(vec![Phases::from(Guard::Redirect(Redirect {
        status: 302,
        target: parts(None),
    }))])
    .await;
    let (_other, new_path) = start_with_filters(vec![Phases::from(Guard::Redirect(Redirect {
        status: 302,
        target: parts(prefix),
    }))])
    .await;
    for (target, location, renamed) in [
        ("http://a.test", "https://a.test/", "https://a.test/new/"),
        ("http://a.test?x", "https://a.test/?x", "https://a.test/new/?x"),
    ] {
        assert_eq!(send_absolute_form(&to_https, target).await.header("Location"), Some(location));
        assert_eq!(send_absolute_form(&same_path, target).await.header("Location"), Some(location));
        assert_eq!(send_absolute_form(&new_path, target).await.header("Location"), Some(renamed));
    }
}

#[tokio::test]
async fn addresses_pass_or_are_refused() {
    let list = |deny: &[&str], allow: &[&str]| {
        let ranges = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Phases::from(Guard::Access(AccessList { deny: ranges(deny), allow: ranges(allow) }))
    };
    for (filter, status) in [
        (list(&["127.0.0.0/8"], &[]), 403),
        (list(&["10.0.0.0/8"], &[]), 200),
        (list(&[], &["10.0.0.0/8", "::1/128"]), 403),
        (list(&[], &["127.0.0.1/32"]), 200),
        (list(&["127.0.0.1/32"], &["127.0.0.0/8"]), 403),
    ] {
        let (backend, proxy) = start_with_filters(vec![filter.clone()]).await;
        assert_eq!(send(&proxy, Request::get(HOST, "/")).await.status, status, "{filter:?}");
        assert_eq!(backend.request_count(), usize::from(status == 200));
        // An untrusted client cannot change the decision with headers.
        let spoofed = Request::get(HOST, "/").header("X-Forwarded-For", "10.1.1.1");
        assert_eq!(send(&proxy, spoofed).await.status, status, "{filter:?}");
    }
}

#[tokio::test]
async fn a_guard_of_the_root_holds_for_absolute_targets_without_a_path() {
    let nobody = AccessList { deny: vec!["0.0.0.0/0".parse().unwrap()], allow: Vec::new() };
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let mut setup = Setup::to(&[backend.address()]).filter(Phases::from(Guard::Access(nobody)));
    setup.path = PathMatch::Exact("/".into());
    let proxy = setup.start();
    for target in ["http://a.test/", "http://a.test", "http://a.test:80", "http://a.test?x", "http://a.test?"]
    {
        assert_eq!(send_absolute_form(&proxy, target).await.status, 403, "{target}");
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn requests_are_refused_by_method_path_and_headers() {
    let regex = |name: &str, pattern: &str| {
        vec![NamedValueMatch { name: name.into(), value: TextMatch::Regex(pattern.into()) }]
    };
    let path = |pattern: &str| PathMatch::Regex { pattern: pattern.into(), ignore_case: false };
    let when = vec![
        Match { method: Some("PUT".into()), ..Match::default() },
        Match { path: path(r"/\.git"), ..Match::default() },
        Match { headers: regex("user-agent", ".*bot.*"), query: regex("all", ".*"), ..Match::default() },
    ];
    let (backend, proxy) =
        start_with_filters(vec![Phases::from(Guard::Deny(Deny { status: 418, when }))]).await;
    let bot = |target| Request::get(HOST, target).header("User-Agent", "a bot");
    for (request, status) in [
        (Request::get(HOST, "/"), 200),
        (Request::new("PUT", "/").header("Host", HOST), 418),
        (Request::get(HOST, "/.git/config"), 418),
        (Request::get(HOST, "/a/../%2egit/config"), 418),
        (Request::get(HOST, "/a/.git"), 200),
        (bot("/"), 200),
        (bot("/?all"), 418),
    ] {
        let described = format!("{request:?}");
        assert_eq!(send(&proxy, request).await.status, status, "{described}");
    }
    assert_eq!(backend.request_count(), 3);
}

#[tokio::test]
async fn repeated_and_long_values_do_not_bypass_a_refusal() {
    let regex =
        |name: &str| vec![NamedValueMatch { name: name.into(), value: TextMatch::Regex("bad".into()) }];
    let cookies = TextMatch::Regex(".*role=admin.*debug=1.*".into());
    let when = vec![
        Match { headers: regex("x-kind"), ..Match::default() },
        Match { headers: regex("host"), ..Match::default() },
        Match { query: regex("kind"), ..Match::default() },
        Match {
            headers: vec![NamedValueMatch { name: "cookie".into(), value: cookies }],
            ..Match::default()
        },
    ];
    let (backend, proxy) =
        start_with_filters(vec![Phases::from(Guard::Deny(Deny { status: 403, when }))]).await;
    let headers_with = |values: &[&str]| {
        values.iter().fold(Request::get(HOST, "/"), |request, value| request.header("X-Kind", value))
    };
    let (longest, too_long) = ("x".repeat(8 * 1024), "x".repeat(8 * 1024 + 1));
    for (request, status) in [
        (headers_with(&["good", "bad"]), 403),
        (headers_with(&["bad", "good"]), 403),
        (headers_with(&["good", "better"]), 200),
        (headers_with(&["good, bad"]), 200),
        (headers_with(&[&longest]), 200),
        (headers_with(&[&too_long]), 403),
        (headers_with(&["good", &too_long]), 403),
        (Request::get("bad", "/"), 403),
        (Request::get(HOST, "/?kind=good&kind=b%61d"), 403),
        (Request::get(HOST, "/?kind=good&other=bad"), 200),
        (Request::get(HOST, "/?x;Kind=bad"), 403),
        (Request::get(HOST, "/").header("Cookie", "role=admin").header("cookie", "debug=1"), 403),
        (Request::get(HOST, "/").header("Cookie", "debug=1").header("cookie", "role=admin"), 200),
        (Request::get(HOST, "/").header("X_Kind", "bad"), 200),
    ] {
        let described: String = format!("{request:?}").chars().take(200).collect();
        assert_eq!(send(&proxy, request).await.status, status, "{described}");
    }
    assert_eq!(backend.request_count(), 6);
    let requests = backend.requests();
    assert!(
        requests.iter().all(|request| request.header("X_Kind").is_none()),
        "what no rule can name goes nowhere"
    );
}

#[tokio::test]
async fn a_rule_may_trust_some_peers_about_the_client() {
    let backend = Backend::http(|request| {
        let header_of = |name| request.header(name).unwrap_or("-").to_owned();
        BackendResponse::ok(
            [header_of("X-Forwarded-For"), header_of("X-Real-IP"), header_of("CF-Connecting-IP")].join(" "),
        )
    })
    .await;
    let start = |header: &str, trusted: &str| {
        let real_ip =
            RealIp { header: header.into(), trusted: vec![trusted.parse().unwrap()], last_only: false };
        let only = AccessList { deny: Vec::new(), allow: vec!["10.0.0.0/8".parse().unwrap()] };
        let setup = Setup::to(&[backend.address()]).filter(Phases::from(Guard::Access(only)));
        setup.filter(Phases::from(real_ip)).start()
    };
    let request_with = |name: &str, value: &str| Request::get(HOST, "/").header(name, value);
    let believing = start("cf-connecting-ip", "127.0.0.0/8");
    let response = send(&believing, request_with("CF-Connecting-IP", "10.1.1.1")).await;
    assert_eq!((response.status, &*response.text()), (200, "10.1.1.1 10.1.1.1 10.1.1.1"));
    for value in ["11.1.1.1", "nobody", "", "10.1.1.1, 11.1.1.1"] {
        assert_eq!(send(&believing, request_with("CF-Connecting-IP", value)).await.status, 403, "{value}");
    }
    // Headers of untrusted clients do not reach the endpoint either.
    let strict = start("cf-connecting-ip", "10.0.0.0/8");
    assert_eq!(send(&strict, request_with("CF-Connecting-IP", "10.1.1.1")).await.status, 403);
    let chain = start("x-forwarded-for", "127.0.0.0/8");
    let response = send(&chain, request_with("X-Forwarded-For", "11.1.1.1, 10.2.2.2, 127.0.0.9")).await;
    assert_eq!((response.status, &*response.text()), (200, "10.2.2.2 10.2.2.2 -"));
}
