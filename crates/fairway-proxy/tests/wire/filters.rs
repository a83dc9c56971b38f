//! Filters as a client and an endpoint see them.

use std::sync::Arc;

use fairway_model::{
    AccessList, AnswerEdit, CookieRewrite, Cors, CorsManner, CorsOrigin, Deny, FieldMatch, FieldTemplate,
    Forwarding, Guard, HeaderEdit, HeaderField, HttpsRedirect, Listener, LocationRewrite, Match, PathMatch,
    PathRewrite, Phases, RealIp, ReceivedEdit, Redirect, RedirectTarget, Replacement, RequestEdit, RuleLabel,
    Template, TemplatePart, TextMatch, VirtualHost,
};
use fairway_testkit::{Answer, Backend, Client, RawResponse, Request, certificates, client::TlsOffer};

use crate::support::{HOST, Running, Setup};

async fn behind(filters: Vec<Phases>) -> (Backend, Running) {
    let backend = Backend::http(|request| {
        Answer::with_headers(200, &[("X-Backend", "1"), ("X-Extra", "a")], &request.target)
    })
    .await;
    let mut setup = Setup::to(&[backend.address()]);
    setup.filters = filters;
    let proxy = setup.start();
    (backend, proxy)
}

async fn ask(proxy: &Running, request: Request) -> RawResponse {
    proxy.client().await.exchange(&request).await.unwrap()
}

async fn ask_tls(proxy: &Running, request: Request) -> RawResponse {
    let offer = TlsOffer::new(certificates::trusting_anything(), HOST);
    Client::connect_tls(proxy.https, &offer).await.unwrap().exchange(&request).await.unwrap()
}

fn field(name: &str, value: &str) -> HeaderField {
    HeaderField { name: name.into(), value: value.into() }
}

#[tokio::test]
async fn plain_requests_are_sent_to_https_and_tls_ones_pass() {
    let redirect = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: false };
    let (backend, proxy) = behind(vec![Phases::from(Guard::HttpsRedirect(redirect))]).await;
    for (host, target, location) in [
        ("Example.com:8080", "/a/b?c=d", "https://Example.com/a/b?c=d"),
        (HOST, "/a/", "https://example.com/a"),
        ("[::1]:80", "/", "https://[::1]"),
        // Which paths are exempt is decided by rules, which have no such filter: never by the path of a request.
        (HOST, "/.well-known/acme-challenge/x", "https://example.com/.well-known/acme-challenge/x"),
    ] {
        let answer = ask(&proxy, Request::get(host, target)).await;
        assert_eq!((answer.status, answer.header("Location")), (308, Some(location)));
    }
    assert_eq!(backend.connection_count(), 0);
    assert_eq!(ask_tls(&proxy, Request::get(HOST, "/a")).await.text(), "/a");
}

#[tokio::test]
async fn a_redirect_to_https_writes_the_port_where_it_is_asked_to() {
    let redirect = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: true };
    let (_backend, proxy) = behind(vec![Phases::from(Guard::HttpsRedirect(redirect))]).await;
    let answer = ask(&proxy, Request::get(HOST, "/a/")).await;
    assert_eq!(answer.header("Location"), Some("https://example.com:443/a"));
}

#[tokio::test]
async fn a_redirect_to_another_host_drops_one_slash_at_the_end() {
    let target = RedirectTarget::Host("www.example.com".into());
    let (_backend, proxy) =
        behind(vec![Phases::from(Guard::Redirect(Redirect { status: 308, target }))]).await;
    let answer = ask(&proxy, Request::get(HOST, "/a//")).await;
    assert_eq!(answer.header("Location"), Some("http://www.example.com:80/a/"));
    let answer = ask_tls(&proxy, Request::get(HOST, "/")).await;
    assert_eq!(answer.header("Location"), Some("https://www.example.com:443"));
}

#[tokio::test]
async fn a_redirected_post_keeps_the_connection_and_its_body_is_no_request() {
    let redirect = HttpsRedirect { status: 308, keep_trailing_slash: true, explicit_port: false };
    let (_backend, proxy) = behind(vec![Phases::from(Guard::HttpsRedirect(redirect))]).await;
    let mut client = proxy.client().await;
    for _ in 0..2 {
        let request = Request::post(HOST, "/a/", "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.exchange(&request).await.unwrap();
        assert_eq!((answer.status, answer.header("Location")), (308, Some("https://example.com/a/")));
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
    let whole = |path: &str| Some(PathRewrite::Full(path.into()));
    let full = whole("/new");
    for (target, location) in [
        (RedirectTarget::Url("https://other.example/x".into()), "https://other.example/x"),
        (parts(None, Some("other.example"), None, None, true), "http://other.example/a/b?c=d"),
        (parts(Some("https"), None, None, full.clone(), false), "https://example.com/new"),
        (parts(Some("https"), None, Some(8443), full, true), "https://example.com:8443/new?c=d"),
        (parts(None, None, Some(80), None, false), "http://example.com/a/b"),
        (parts(None, None, Some(80), whole(".other.example"), false), "http://example.com/.other.example"),
        (parts(None, None, Some(80), whole(""), false), "http://example.com/"),
        (RedirectTarget::Path("/a/b/".into()), "/a/b/?c=d"),
        (RedirectTarget::Host("www.example.com".into()), "http://www.example.com:80/a/b?c=d"),
    ] {
        let (_backend, proxy) =
            behind(vec![Phases::from(Guard::Redirect(Redirect { status: 302, target }))]).await;
        let answer = ask(&proxy, Request::get(HOST, "/a/b?c=d")).await;
        assert_eq!((answer.status, answer.header("Location")), (302, Some(location)));
    }
}

/// Gateway API `HTTPRequestRedirectFilter.port`: without a port, a scheme that is given means its well-known port, and the
/// listener's port is meant where none is given.
#[tokio::test]
async fn a_redirect_to_a_scheme_leads_to_its_well_known_port_whatever_the_listener_has() {
    for (scheme, port, in_the_clear, over_tls) in [
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
        let clear = ask(&proxy, Request::get(HOST, "/")).await;
        assert_eq!(clear.header("Location"), Some(in_the_clear), "{target:?}");
        let secure = ask_tls(&proxy, Request::get(HOST, "/")).await;
        assert_eq!(secure.header("Location"), Some(over_tls), "{target:?}");
    }
}

#[tokio::test]
async fn a_redirect_replaces_the_prefix_that_its_rule_matched() {
    let backend = Backend::http(|_| Answer::ok("")).await;
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
        let answer = ask(&setup.start(), Request::get(HOST, asked)).await;
        assert_eq!((answer.status, answer.header("Location")), (301, Some(location)), "{new} {asked}");
    }
    assert_eq!(backend.request_count(), 0);
}

#[tokio::test]
async fn cookies_and_redirects_of_the_endpoint_get_the_names_that_the_client_knows() {
    let replacement = |from: &str, to: &str| Replacement { from: from.into(), to: to.into() };
    let cookies = CookieRewrite {
        domain: Some(replacement("inner.test", "outer.test")),
        path: Some(replacement("/", "/app/")),
    };
    let backend = Backend::http(|request| match &*request.target {
        "/cookies" => Answer::with_headers(
            200,
            &[
                ("Set-Cookie", "a=b; Path=/; Domain=inner.test"),
                ("Set-Cookie", "c=d"),
                ("X-Cookie", "Path=/"),
            ],
            "",
        ),
        "/refresh" => Answer::with_headers(200, &[("Refresh", "3; URL=http://inner.test/x")], ""),
        "/elsewhere" => Answer::with_headers(302, &[("Location", "http://third.test/x")], ""),
        _ => Answer::with_headers(302, &[("Location", "http://inner.test/x?y")], ""),
    })
    .await;
    for (to, absolute, location) in [
        ("https://outer.test/", true, "https://outer.test/x?y"),
        ("/sub/", true, "http://example.com/sub/x?y"),
        ("/sub/", false, "/sub/x?y"),
    ] {
        let url = replacement("http://inner.test/", to);
        let mut setup = Setup::to(&[backend.address()]);
        setup.filters = vec![
            Phases::from(ReceivedEdit::Cookies(cookies.clone())),
            Phases::from(ReceivedEdit::Location(LocationRewrite { url, absolute })),
        ];
        let proxy = setup.start();
        let answer = ask(&proxy, Request::get(HOST, "/")).await;
        assert_eq!((answer.status, answer.header("Location")), (302, Some(location)));
        let answer = ask(&proxy, Request::get(HOST, "/elsewhere")).await;
        assert_eq!(answer.header("Location"), Some("http://third.test/x"));
        let answer = ask(&proxy, Request::get(HOST, "/refresh")).await;
        assert_eq!(answer.header("Refresh"), Some(&*format!("3; URL={to}x")));
        let answer = ask(&proxy, Request::get(HOST, "/cookies")).await;
        assert_eq!(answer.header_values("Set-Cookie"), ["a=b; Path=/app/; Domain=outer.test", "c=d"]);
        assert_eq!(answer.header("X-Cookie"), Some("Path=/"));
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
        let (backend, proxy) = behind(vec![filter.clone()]).await;
        assert_eq!(ask(&proxy, Request::get(HOST, "/")).await.status, status, "{filter:?}");
        assert_eq!(backend.request_count(), usize::from(status == 200));
        // A stranger cannot talk itself in or out.
        let spoofed = Request::get(HOST, "/").header("X-Forwarded-For", "10.1.1.1");
        assert_eq!(ask(&proxy, spoofed).await.status, status, "{filter:?}");
    }
}

#[tokio::test]
async fn requests_are_refused_by_what_they_are() {
    let regex = |name: &str, pattern: &str| {
        vec![FieldMatch { name: name.into(), value: TextMatch::Regex(pattern.into()) }]
    };
    let path = |pattern: &str| PathMatch::Regex { pattern: pattern.into(), ignore_case: false };
    let when = vec![
        Match { method: Some("PUT".into()), ..Match::default() },
        Match { path: path(r"/\.git"), ..Match::default() },
        Match { headers: regex("user-agent", ".*bot.*"), query: regex("all", ".*"), ..Match::default() },
    ];
    let (backend, proxy) = behind(vec![Phases::from(Guard::Deny(Deny { status: 418, when }))]).await;
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
        assert_eq!(ask(&proxy, request).await.status, status, "{described}");
    }
    assert_eq!(backend.request_count(), 3);
}

#[tokio::test]
async fn what_is_sent_twice_or_at_length_is_not_let_past_a_refusal() {
    let regex = |name: &str| vec![FieldMatch { name: name.into(), value: TextMatch::Regex("bad".into()) }];
    let cookies = TextMatch::Regex(".*role=admin.*debug=1.*".into());
    let when = vec![
        Match { headers: regex("x-kind"), ..Match::default() },
        Match { headers: regex("host"), ..Match::default() },
        Match { query: regex("kind"), ..Match::default() },
        Match { headers: vec![FieldMatch { name: "cookie".into(), value: cookies }], ..Match::default() },
    ];
    let (backend, proxy) = behind(vec![Phases::from(Guard::Deny(Deny { status: 403, when }))]).await;
    let of = |values: &[&str]| {
        values.iter().fold(Request::get(HOST, "/"), |request, value| request.header("X-Kind", value))
    };
    let (longest, too_long) = ("x".repeat(8 * 1024), "x".repeat(8 * 1024 + 1));
    for (request, status) in [
        (of(&["good", "bad"]), 403),
        (of(&["bad", "good"]), 403),
        (of(&["good", "better"]), 200),
        (of(&["good, bad"]), 200),
        (of(&[&longest]), 200),
        (of(&[&too_long]), 403),
        (of(&["good", &too_long]), 403),
        (Request::get("bad", "/"), 403),
        (Request::get(HOST, "/?kind=good&kind=b%61d"), 403),
        (Request::get(HOST, "/?kind=good&other=bad"), 200),
        (Request::get(HOST, "/?x;Kind=bad"), 403),
        (Request::get(HOST, "/").header("Cookie", "role=admin").header("cookie", "debug=1"), 403),
        (Request::get(HOST, "/").header("Cookie", "debug=1").header("cookie", "role=admin"), 200),
        (Request::get(HOST, "/").header("X_Kind", "bad"), 200),
    ] {
        let described: String = format!("{request:?}").chars().take(200).collect();
        assert_eq!(ask(&proxy, request).await.status, status, "{described}");
    }
    assert_eq!(backend.request_count(), 6);
    let seen = backend.requests();
    assert!(
        seen.iter().all(|request| request.header("X_Kind").is_none()),
        "what no rule can name goes nowhere"
    );
}

#[tokio::test]
async fn a_rule_may_believe_what_some_peers_say_of_the_client() {
    let backend = Backend::http(|request| {
        let seen = |name| request.header(name).unwrap_or("-").to_owned();
        Answer::ok([seen("X-Forwarded-For"), seen("X-Real-IP"), seen("CF-Connecting-IP")].join(" "))
    })
    .await;
    let start = |header: &str, trusted: &str| {
        let real_ip = RealIp { header: header.into(), trusted: vec![trusted.parse().unwrap()] };
        let only = AccessList { deny: Vec::new(), allow: vec!["10.0.0.0/8".parse().unwrap()] };
        let setup = Setup::to(&[backend.address()]).filter(Phases::from(Guard::Access(only)));
        setup.filter(Phases::from(real_ip)).start()
    };
    let told = |name: &str, value: &str| Request::get(HOST, "/").header(name, value);
    let believing = start("cf-connecting-ip", "127.0.0.0/8");
    let answer = ask(&believing, told("CF-Connecting-IP", "10.1.1.1")).await;
    assert_eq!((answer.status, &*answer.text()), (200, "10.1.1.1 10.1.1.1 10.1.1.1"));
    for value in ["11.1.1.1", "nobody", "", "10.1.1.1, 11.1.1.1"] {
        assert_eq!(ask(&believing, told("CF-Connecting-IP", value)).await.status, 403, "{value}");
    }
    // Whoever is not believed says nothing to the endpoint either.
    let strict = start("cf-connecting-ip", "10.0.0.0/8");
    assert_eq!(ask(&strict, told("CF-Connecting-IP", "10.1.1.1")).await.status, 403);
    let chain = start("x-forwarded-for", "127.0.0.0/8");
    let answer = ask(&chain, told("X-Forwarded-For", "11.1.1.1, 10.2.2.2, 127.0.0.9")).await;
    assert_eq!((answer.status, &*answer.text()), (200, "10.2.2.2 10.2.2.2 -"));
}

fn cors(origins: Vec<CorsOrigin>) -> Phases {
    Phases::from(Cors {
        origins,
        methods: "GET, PUT".into(),
        headers: "X-A".into(),
        expose: "X-B".into(),
        credentials: true,
        max_age: 600,
        manner: CorsManner::IngressNginx,
    })
}

#[tokio::test]
async fn preflights_of_allowed_origins_are_answered_here() {
    let (backend, proxy) = behind(vec![cors(vec![CorsOrigin::Exact("https://app.example".into())])]).await;
    let preflight = |origin: &str| Request::new("OPTIONS", "/").header("Host", HOST).header("Origin", origin);
    let answer = ask(&proxy, preflight("https://app.example")).await;
    assert_eq!(answer.status, 204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", "https://app.example"),
        ("Access-Control-Allow-Methods", "GET, PUT"),
        ("Access-Control-Allow-Headers", "X-A"),
        ("Access-Control-Expose-Headers", "X-B"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Max-Age", "600"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
    assert_eq!(backend.request_count(), 0);
    let answer = ask(&proxy, preflight("https://evil.example")).await;
    assert_eq!((answer.status, answer.header("Access-Control-Allow-Origin")), (200, None));
}

#[tokio::test]
async fn other_answers_carry_the_headers_for_allowed_origins_only() {
    let one_label = CorsOrigin::OneLabel { before: "https://".into(), after: ".example.org".into() };
    let (_backend, proxy) = behind(vec![cors(vec![one_label])]).await;
    for (origin, allowed) in [
        ("https://a.example.org", true),
        ("https://A.Example.ORG", true),
        ("https://a.b.example.org", false),
        ("https://.example.org", false),
        ("https://a.example.org.evil", false),
        ("http://a.example.org", false),
        ("null", false),
    ] {
        let answer = ask(&proxy, Request::get(HOST, "/").header("Origin", origin)).await;
        let expected = allowed.then_some(origin);
        assert_eq!(answer.header("Access-Control-Allow-Origin"), expected, "{origin}");
    }
    let (_backend, open) = behind(vec![cors(vec![CorsOrigin::Any])]).await;
    let answer = ask(&open, Request::get(HOST, "/").header("Origin", "https://a")).await;
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
}

#[tokio::test]
async fn what_an_endpoint_says_of_other_origins_is_replaced() {
    let said = [
        ("Access-Control-Allow-Origin", "https://b.test"),
        ("access-control-max-age", "5"),
        ("access-control-allow-origin", "https://c.test"),
        ("Access-Control-Allow-Private-Network", "true"),
    ];
    let backend = Backend::http(move |_| Answer::with_headers(200, &said, "")).await;
    let exact = CorsOrigin::Exact("https://a.test".into());
    for (origin, answered) in [(CorsOrigin::Any, "*"), (exact, "https://a.test")] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.filters = vec![cors(vec![origin])];
        let proxy = setup.start();
        let answer = ask(&proxy, Request::get(HOST, "/").header("Origin", "https://a.test")).await;
        for (name, value) in [
            ("Access-Control-Allow-Origin", answered),
            ("Access-Control-Max-Age", "600"),
            ("Access-Control-Allow-Methods", "GET, PUT"),
            // None of those that an answer here has.
            ("Access-Control-Allow-Private-Network", "true"),
        ] {
            assert_eq!(answer.header_values(name), [value], "{name}");
        }
    }
}

/// As Gateway API asks for it.
fn gateway_cors(origins: &[CorsOrigin], methods: &str, headers: &str, credentials: bool) -> Phases {
    Phases::from(Cors {
        origins: origins.into(),
        methods: methods.into(),
        headers: headers.into(),
        expose: "X-B, X-C".into(),
        credentials,
        max_age: 3600,
        manner: CorsManner::GatewayApi,
    })
}

fn preflight(origin: &str) -> Request {
    Request::new("OPTIONS", "/")
        .header("Host", HOST)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "PUT")
        .header("Access-Control-Request-Headers", "x-1, x-2")
}

#[tokio::test]
async fn gateway_api_has_every_preflight_answered_and_only_allowed_origins_told() {
    let origins = [
        CorsOrigin::Exact("https://www.foo.com".into()),
        CorsOrigin::Wildcard { before: "https://".into(), after: ".bar.com".into() },
        CorsOrigin::Wildcard { before: "http://".into(), after: ":8080".into() },
    ];
    let (backend, proxy) = behind(vec![gateway_cors(&origins, "GET, OPTIONS", "X-1, X-2", true)]).await;
    for (origin, is_allowed) in [
        ("https://www.foo.com", true),
        ("https://www.bar.com", true),
        ("https://xpto.www.bar.com", true),
        ("http://any.where:8080", true),
        ("http://any.where:8081", false),
        ("https://bar.com", false),
        ("https://.bar.com", false),
        ("https://www.bar.com:444", false),
        ("https://foobar.com", false),
        ("null", false),
    ] {
        let answer = ask(&proxy, preflight(origin)).await;
        assert_eq!((answer.status, answer.header("Vary")), (204, Some("Origin")), "{origin}");
        for (name, value) in [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Methods", "GET, OPTIONS"),
            ("Access-Control-Allow-Headers", "X-1, X-2"),
            ("Access-Control-Expose-Headers", "X-B, X-C"),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Max-Age", "3600"),
        ] {
            assert_eq!(answer.header(name), is_allowed.then_some(value), "{origin}");
        }
        assert_eq!(backend.request_count(), 0);
    }
    let answer = ask(&proxy, Request::get(HOST, "/").header("Origin", "https://www.foo.com")).await;
    for (name, value) in [
        ("Access-Control-Allow-Origin", Some("https://www.foo.com")),
        ("Access-Control-Expose-Headers", Some("X-B, X-C")),
        ("Access-Control-Allow-Credentials", Some("true")),
        ("Access-Control-Allow-Methods", None),
        ("Access-Control-Max-Age", None),
        ("Vary", Some("Origin")),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let answer = ask(&proxy, Request::get(HOST, "/").header("Origin", "https://foobar.com")).await;
    assert_eq!((answer.status, answer.header("Access-Control-Allow-Origin")), (200, None));
    // Without the method that is asked for it is a request like any other.
    let request = Request::new("OPTIONS", "/").header("Host", HOST).header("Origin", "https://www.foo.com");
    assert_eq!(ask(&proxy, request).await.status, 200);
    assert_eq!(backend.request_count(), 3);
}

#[tokio::test]
async fn a_star_of_gateway_api_is_what_the_request_says_where_credentials_are_allowed() {
    let (_backend, open) = behind(vec![gateway_cors(&[CorsOrigin::Any], "*", "*", false)]).await;
    let answer = ask(&open, preflight("https://a.test:1")).await;
    let (_backend, trusting) = behind(vec![gateway_cors(&[CorsOrigin::Any], "*", "*", true)]).await;
    let trusted = ask(&trusting, preflight("https://a.test:1")).await;
    for (name, value, literal) in [
        ("Access-Control-Allow-Origin", Some("*"), Some("https://a.test:1")),
        ("Access-Control-Allow-Methods", Some("*"), Some("PUT")),
        ("Access-Control-Allow-Headers", Some("*"), Some("x-1, x-2")),
        ("Access-Control-Allow-Credentials", None, Some("true")),
        ("Vary", None, Some("Origin")),
    ] {
        assert_eq!((answer.header(name), trusted.header(name)), (value, literal), "{name}");
    }
    let request = Request::new("OPTIONS", "/").header("Host", HOST).header("Origin", "https://a.test");
    let unasked = request.header("Access-Control-Request-Method", "GET");
    assert_eq!(ask(&trusting, unasked).await.header("Access-Control-Allow-Headers"), None);
}

#[tokio::test]
async fn headers_are_removed_set_and_added_in_both_directions() {
    let edit = |remove: &str, set: HeaderField, add: HeaderField| HeaderEdit {
        remove: vec![remove.into()],
        set: vec![set],
        add: vec![add],
    };
    let (backend, proxy) = behind(vec![
        Phases::from(RequestEdit::Headers(edit("x-gone", field("X-Set", "new"), field("X-Add", "two")))),
        Phases::from(AnswerEdit::Headers(edit("x-backend", field("X-Set", "back"), field("X-Extra", "b")))),
        Phases::from(RequestEdit::Host("inner.example".into())),
    ])
    .await;
    let request =
        Request::get(HOST, "/").header("X-Gone", "1").header("X-Set", "old").header("x-set", "older");
    let answer = ask(&proxy, request.header("X-Add", "one")).await;
    assert_eq!((answer.header("X-Backend"), answer.header("X-Set")), (None, Some("back")));
    assert_eq!(answer.header_values("X-Extra"), ["a", "b"]);
    let got = &backend.requests()[0];
    assert_eq!((got.header("X-Gone"), got.header_values("X-Set")), (None, vec!["new"]));
    assert_eq!((got.header_values("X-Add"), got.header("Host")), (vec!["one", "two"], Some("inner.example")));
}

fn fields(all: &[(&str, Vec<TemplatePart>)]) -> Arc<[FieldTemplate]> {
    let field = |(name, value): &(&str, Vec<TemplatePart>)| FieldTemplate {
        name: (*name).into(),
        value: Template(value.clone()),
    };
    all.iter().map(field).collect()
}

fn text(text: &str) -> TemplatePart {
    TemplatePart::Text(text.into())
}

#[tokio::test]
async fn fields_with_parts_of_the_request_reach_the_endpoint_behind_all_others() {
    let set = fields(&[
        ("X-Fixed", vec![text("1")]),
        ("X-Real-IP", vec![text("in "), TemplatePart::Address]),
        ("X-Gone", Vec::new()),
        ("X-Empty", vec![TemplatePart::Cookie("none".into())]),
        ("X-Host", vec![TemplatePart::HttpHost, text(" "), TemplatePart::Host]),
        ("X-Id", vec![TemplatePart::RequestId]),
        ("X-Target", vec![TemplatePart::Path, TemplatePart::QueryMark, TemplatePart::Query]),
        ("X-Page", vec![TemplatePart::Argument("page".into())]),
        ("X-Told", vec![TemplatePart::Field("x_told_by".into())]),
        (
            "X-Rest",
            vec![TemplatePart::Protocol, text(" "), TemplatePart::Port, text(" "), TemplatePart::Method],
        ),
        (
            "X-Rule",
            vec![
                TemplatePart::Label(RuleLabel::Namespace),
                text("/"),
                TemplatePart::Label(RuleLabel::Ingress),
            ],
        ),
    ]);
    let (backend, proxy) = behind(vec![
        Phases::from(Forwarding { fields: Some(set), ..Forwarding::default() }),
        Phases::from(RequestEdit::Host("inner.example".into())),
    ])
    .await;
    let request = Request::get("Example.com:80", "/a%0Ab?Page=2&x=1")
        .header("X-Gone", "1")
        .header("X-Empty", "1")
        .header("X-Fixed", "2")
        .header("X-Told-By", "one")
        .header("X-Told-By", "two");
    ask(&proxy, request).await;
    let got = &backend.requests()[0];
    for (name, values) in [
        ("X-Fixed", vec!["1"]),
        ("X-Real-IP", vec!["in 127.0.0.1"]),
        ("X-Gone", Vec::new()),
        ("X-Empty", Vec::new()),
        ("X-Host", vec!["Example.com:80 example.com"]),
        ("X-Id", got.header_values("X-Request-ID")),
        // No decoded line feed splits a head.
        ("X-Target", vec!["/a b?Page=2&x=1"]),
        ("X-Page", vec!["2"]),
        ("X-Told", vec!["one, two"]),
        ("X-Rest", vec!["HTTP/1.1 80 GET"]),
        ("X-Rule", vec!["default/test"]),
        ("Host", vec!["inner.example"]),
    ] {
        assert_eq!(got.header_values(name), values, "{name}");
    }
    assert_eq!(got.header("X-Id").map(str::len), Some(32));
}

#[tokio::test]
async fn fields_with_parts_of_the_request_are_in_every_answer_and_rules_go_before() {
    let set = || {
        Phases::from(AnswerEdit::Fields(fields(&[
            ("X-Set", vec![text("all")]),
            ("X-Extra", vec![TemplatePart::Path]),
            ("X-Backend", Vec::new()),
            ("X-Id", vec![TemplatePart::RequestId]),
        ])))
    };
    let own = HeaderEdit { set: vec![field("X-Set", "own")], ..HeaderEdit::default() };
    let (backend, proxy) = behind(vec![set(), Phases::from(AnswerEdit::Headers(own))]).await;
    let answer = ask(&proxy, Request::get(HOST, "/a?b")).await;
    assert_eq!((answer.header("X-Set"), answer.header("X-Backend")), (Some("own"), None));
    assert_eq!(answer.header_values("X-Extra"), ["/a"]);
    assert_eq!(answer.header("X-Id"), backend.requests()[0].header("X-Request-ID"));
    // The body is another buffer's.
    let refused = Phases::from(Guard::Access(AccessList {
        deny: vec!["127.0.0.0/8".parse().unwrap()],
        allow: Vec::new(),
    }));
    let (_backend, closed) = behind(vec![set(), refused]).await;
    let answer = ask(&closed, Request::get(HOST, "/c")).await;
    assert_eq!((answer.status, answer.header("X-Extra")), (403, Some("/c")));
    assert!(answer.text().starts_with("403 Forbidden"), "{}", answer.text());
    assert_eq!(answer.header("X-Id").map(str::len), Some(32), "a number of its own");
}

#[tokio::test]
async fn hidden_fields_are_those_of_endpoints_alone() {
    let hidden = || Phases::from(ReceivedEdit::Hide(["x-backend", "x-extra"].map(Into::into).into()));
    let own = HeaderEdit { set: vec![field("X-Extra", "own")], ..HeaderEdit::default() };
    let (_backend, proxy) = behind(vec![hidden(), Phases::from(AnswerEdit::Headers(own))]).await;
    let answer = ask(&proxy, Request::get(HOST, "/")).await;
    assert_eq!((answer.header("X-Backend"), answer.header("X-Extra")), (None, Some("own")));
}

#[tokio::test]
async fn header_edits_apply_to_answers_that_the_proxy_makes() {
    let edit = HeaderEdit { set: vec![field("X-Frame-Options", "DENY")], ..HeaderEdit::default() };
    let mut setup = Setup::to(&[]);
    setup.filters = vec![Phases::from(AnswerEdit::Headers(edit))];
    let proxy = setup.start();
    let answer = ask(&proxy, Request::get(HOST, "/")).await;
    assert_eq!((answer.status, answer.header("X-Frame-Options")), (503, Some("DENY")));
}

#[tokio::test]
async fn strict_transport_security_is_for_tls_only() {
    let (_backend, proxy) =
        behind(vec![Phases::from(AnswerEdit::StrictTransportSecurity("max-age=31536000".into()))]).await;
    assert_eq!(ask(&proxy, Request::get(HOST, "/")).await.header("Strict-Transport-Security"), None);
    let secured = ask_tls(&proxy, Request::get(HOST, "/")).await;
    assert_eq!(secured.header("Strict-Transport-Security"), Some("max-age=31536000"));
}

#[tokio::test]
async fn rewritten_paths_reach_the_endpoint_with_their_query() {
    let regex = |pattern: &str, replacement: &str| PathRewrite::Regex {
        pattern: pattern.into(),
        replacement: replacement.into(),
        ignore_case: true,
    };
    for (rewrite, target, forwarded) in [
        (PathRewrite::Full("/new".into()), "/api/a?b=c", "/new?b=c"),
        (PathRewrite::Prefix("/v2".into()), "/api/a?b=c", "/v2/a?b=c"),
        (regex("/api(/|$)(.*)", "/$2"), "/api/a/b?c=d", "/a/b?c=d"),
        (regex("/api/(.*)", "/$1?x=y"), "/api/a?b=c", "/a?x=y&b=c"),
        (regex("/other/(.*)", "/$1"), "/api/a?b=c", "/api/a?b=c"),
    ] {
        let backend = Backend::http(|request| Answer::ok(&request.target)).await;
        let mut setup = Setup::to(&[backend.address()])
            .filter(Phases::from(Forwarding { path: Some(rewrite.clone()), ..Forwarding::default() }));
        setup.path = PathMatch::Prefix("/api".into());
        let proxy = setup.start();
        assert_eq!(ask(&proxy, Request::get(HOST, target)).await.text(), forwarded, "{rewrite:?}");
    }
}

#[tokio::test]
async fn a_part_of_the_path_is_the_prefix_that_the_endpoint_gets() {
    let backend =
        Backend::http(|request| Answer::ok(request.header("X-Forwarded-Prefix").unwrap_or("none"))).await;
    let of_path = |replacement: &str| PathRewrite::Regex {
        pattern: "/(t[0-9]+)(/|$)(.*)".into(),
        replacement: replacement.into(),
        ignore_case: true,
    };
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(Forwarding { path: Some(of_path("/$3")), ..Forwarding::default() }))
        .filter(Phases::from(RequestEdit::ForwardedPrefix(of_path("/$1"))))
        .start();
    for (target, prefix) in
        [("/t7/a?b=c", "/t7"), ("/T8%0d%0a", "none"), ("/t9/%0d%0ax", "/t9"), ("/a", "none")]
    {
        let request = Request::get(HOST, target).header("X-Forwarded-Prefix", "/of-a-stranger");
        assert_eq!(ask(&proxy, request).await.text(), prefix, "{target}");
    }
}

#[tokio::test]
async fn the_path_is_forwarded_normalised_or_as_it_came() {
    use fairway_model::ForwardedPath::{AsReceived, Normalised};
    let backend = Backend::http(|request| Answer::ok(&request.target)).await;
    for (form, forwarded) in [(Normalised, "/a/c%2Fd~?q=%2e"), (AsReceived, "/a/./b/../c%2fd%7e?q=%2e")] {
        let proxy = Setup::to(&[backend.address()]).policy(|policy| policy.forwarded_path = form).start();
        let answer = ask(&proxy, Request::get(HOST, "/a/./b/../c%2fd%7e?q=%2e")).await;
        assert_eq!(answer.text(), forwarded, "{form:?}");
    }
}

/// An Ingress matches the decoded path, as nginx does: an escaped slash that takes part in that must not come back behind it.
#[tokio::test]
async fn a_normalised_path_never_leads_past_the_rule_that_matched() {
    use fairway_model::PathForm::{Decoded, Normalised};
    for (target, of_ingress, of_route) in [
        ("/public/a%2Fb", Some("/public/a%2Fb"), Some("/public/a%2Fb")),
        ("/public/%5c%3B;c%7e?%2F..", Some("/public/%5C%3B;c~?%2F.."), Some("/public/%5C%3B;c~?%2F..")),
        ("/admin%2F..%2Fpublic", Some("/public"), None),
        ("/admin%2F%2e%2E%2Fpublic?a=%2F", Some("/public?a=%2F"), None),
        ("/admin%2f..%2fpublic/%3Fx%25%5C/", Some("/public/%3Fx%25%5C/"), None),
        ("/admin/..%2Fpublic", Some("/public"), None),
        ("/%2Fpublic", Some("/public"), None),
        ("/public%2F%2Fa", Some("/public/a"), None),
        ("/public%2F.%2Fa%2Fb", Some("/public/a/b"), None),
        ("/admin/%2e%2e/public//a", Some("/public/a"), Some("/public/a")),
        ("/public/..;/admin", Some("/public/..;/admin"), Some("/public/..;/admin")),
        ("/public/%252e%252e/admin", Some("/public/%252e%252e/admin"), Some("/public/%252e%252e/admin")),
        ("/public/..%5Cadmin", Some("/public/..%5Cadmin"), Some("/public/..%5Cadmin")),
        ("/public/%2e%2e/admin", None, None),
        ("/public/..%2Fadmin", None, Some("/public/..%2Fadmin")),
    ] {
        let backend = Backend::http(|request| Answer::ok(&request.target)).await;
        let mut setup = Setup::to(&[backend.address()])
            .policy(|policy| policy.forwarded_path = fairway_model::ForwardedPath::Normalised);
        setup.path = PathMatch::Prefix("/public".into());
        for (form, forwarded) in [(Decoded, of_ingress), (Normalised, of_route)] {
            let mut config = setup.config();
            config.hosts = config
                .hosts
                .iter()
                .map(|(key, host)| {
                    let host = VirtualHost { path_form: form, ..VirtualHost::clone(host) };
                    (key.clone(), Arc::new(host))
                })
                .collect();
            let answer = ask(&setup.start_by(&config), Request::get(HOST, target)).await;
            let found = (answer.status == 200).then(|| answer.text());
            assert_eq!(found.as_deref(), forwarded, "{target} {form:?}");
        }
        let nul = ask(&setup.start(), Request::get(HOST, "/public/%00")).await;
        assert_eq!(nul.status, 400);
    }
}

/// Asks for a target in absolute form, which has the host in it.
async fn ask_absolutely(proxy: &Running, target: &str) -> RawResponse {
    let mut client = proxy.client().await;
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n")).await.unwrap();
    client.read_response().await.unwrap()
}

#[tokio::test]
async fn a_guard_of_the_root_holds_for_absolute_targets_without_a_path() {
    let nobody = AccessList { deny: vec!["0.0.0.0/0".parse().unwrap()], allow: Vec::new() };
    let backend = Backend::http(|_| Answer::ok("")).await;
    let mut setup = Setup::to(&[backend.address()]).filter(Phases::from(Guard::Access(nobody)));
    setup.path = PathMatch::Exact("/".into());
    let proxy = setup.start();
    for target in ["http://a.test/", "http://a.test", "http://a.test:80", "http://a.test?x", "http://a.test?"]
    {
        assert_eq!(ask_absolutely(&proxy, target).await.status, 403, "{target}");
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn redirects_of_absolute_targets_without_a_path_stay_on_their_host() {
    let to_https = HttpsRedirect { status: 308, keep_trailing_slash: true, explicit_port: false };
    let (_backend, to_https) = behind(vec![Phases::from(Guard::HttpsRedirect(to_https))]).await;
    let prefix = Some(PathRewrite::Prefix("/new".into()));
    let parts = |path| RedirectTarget::Parts {
        scheme: Some("https".into()),
        host: None,
        port: None,
        path,
        keep_query: true,
    };
    let (_other, same_path) =
        behind(vec![Phases::from(Guard::Redirect(Redirect { status: 302, target: parts(None) }))]).await;
    let (_other, new_path) =
        behind(vec![Phases::from(Guard::Redirect(Redirect { status: 302, target: parts(prefix) }))]).await;
    for (target, location, renamed) in [
        ("http://a.test", "https://a.test/", "https://a.test/new/"),
        ("http://a.test?x", "https://a.test/?x", "https://a.test/new/?x"),
    ] {
        assert_eq!(ask_absolutely(&to_https, target).await.header("Location"), Some(location));
        assert_eq!(ask_absolutely(&same_path, target).await.header("Location"), Some(location));
        assert_eq!(ask_absolutely(&new_path, target).await.header("Location"), Some(renamed));
    }
}

#[tokio::test]
async fn absolute_targets_without_a_path_are_rewritten_as_the_root() {
    let regex =
        PathRewrite::Regex { pattern: "/(.*)".into(), replacement: "/app/$1".into(), ignore_case: true };
    for (rewrite, target, forwarded) in [
        (Some(regex.clone()), "http://a.test", "/app/"),
        (Some(regex), "http://a.test?x", "/app/?x"),
        (None, "http://a.test?x", "/?x"),
    ] {
        let backend = Backend::http(|request| Answer::ok(&request.target)).await;
        let mut setup = Setup::to(&[backend.address()])
            .policy(|policy| policy.forwarded_path = fairway_model::ForwardedPath::Normalised);
        setup
            .filters
            .extend(rewrite.map(|path| Forwarding { path: Some(path), ..Forwarding::default() }.into()));
        let proxy = setup.start();
        assert_eq!(ask_absolutely(&proxy, target).await.text(), forwarded, "{target}");
    }
}

#[tokio::test]
async fn connection_cannot_take_what_a_filter_sets() {
    let edit = |name: &str| HeaderEdit { set: vec![field(name, "ours")], ..HeaderEdit::default() };
    let headers = [("Connection", "X-Frame-Options, X-Hop"), ("X-Frame-Options", "theirs"), ("X-Hop", "1")];
    let backend = Backend::http(move |_| Answer::with_headers(200, &headers, "")).await;
    let proxy = Setup::to(&[backend.address()])
        .filter(Phases::from(RequestEdit::Headers(edit("X-Custom"))))
        .filter(Phases::from(AnswerEdit::Headers(edit("X-Frame-Options"))))
        .start();
    let request = Request::get(HOST, "/")
        .header("Connection", "X-Custom, X-Hop")
        .header("X-Custom", "theirs")
        .header("X-Hop", "1");
    let answer = ask(&proxy, request).await;
    let got = &backend.requests()[0];
    assert_eq!((got.header_values("X-Custom"), got.header("X-Hop")), (vec!["ours"], None));
    assert_eq!((answer.header_values("X-Frame-Options"), answer.header("X-Hop")), (vec!["ours"], None));
}

#[tokio::test]
async fn a_claim_that_a_filter_sets_reaches_the_endpoint_in_place_of_the_clients() {
    let edit = HeaderEdit {
        set: vec![field("X-Forwarded-User", "ours"), field("X-Forwarded-Prefix", "/ours")],
        ..HeaderEdit::default()
    };
    let (backend, proxy) = behind(vec![Phases::from(RequestEdit::Headers(edit))]).await;
    let request =
        Request::get(HOST, "/").header("X-Forwarded-User", "root").header("X-Forwarded-Prefix", "/theirs");
    ask(&proxy, request).await;
    let got = &backend.requests()[0];
    assert_eq!(got.header_values("X-Forwarded-User"), ["ours"]);
    assert_eq!(got.header_values("X-Forwarded-Prefix"), ["/ours"]);
}

#[tokio::test]
async fn header_edits_cannot_change_where_a_message_ends() {
    let set: Vec<HeaderField> = [
        ("Content-Length", "3"),
        ("Transfer-Encoding", "gzip"),
        ("Connection", "X-End"),
        ("Upgrade", "h2c"),
        ("Trailer", "X-End"),
    ]
    .into_iter()
    .map(|(name, value)| field(name, value))
    .collect();
    let mut edit = HeaderEdit { set: set.clone(), add: set, remove: vec!["host".into()] };
    edit.set.push(field("X-End", "1"));
    let (backend, proxy) = behind(vec![
        Phases::from(RequestEdit::Headers(edit.clone())),
        Phases::from(AnswerEdit::Headers(edit)),
    ])
    .await;
    let mut client = proxy.client().await;
    for request in [Request::get(HOST, "/a"), Request::post(HOST, "/abcdef", "body")] {
        let answer = client.exchange(&request).await.unwrap();
        assert!(answer.text().starts_with("/a"), "{answer:?}");
        assert_eq!(answer.header_values("Content-Length"), [answer.text().len().to_string()]);
        for name in ["Transfer-Encoding", "Connection", "Upgrade", "Trailer"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
        assert_eq!(answer.header("X-End"), Some("1"));
    }
    for (got, length) in backend.requests().iter().zip([vec![], vec!["4"]]) {
        assert_eq!((got.header_values("Content-Length"), got.header("Host")), (length, Some(HOST)));
        for name in ["Transfer-Encoding", "Connection", "Upgrade", "Trailer"] {
            assert_eq!(got.header(name), None, "{name}");
        }
    }
}
