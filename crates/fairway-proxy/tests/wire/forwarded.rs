//! The headers that describe the client to the endpoint (robustness.md, rule 8; the headers are those of ingress-nginx).

use std::sync::Arc;

use fairway_model::{
    AccessList, ForwardedTrust, Guard, HttpsRedirect, Listener, LocationRewrite, Phases, RealIp, Redirect,
    RedirectTarget, Replacement, UpstreamResponseEdit,
};
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::{Backend, BackendResponse, Client, RecordedRequest, Request};

use crate::support::{HOST, Running, Setup};

/// What the endpoint receives of a request with these headers.
async fn received_by_endpoint(setup: impl Fn(Setup) -> Setup, fields: &[(&str, &str)]) -> RecordedRequest {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy: Running = setup(Setup::to(&[backend.address()])).start();
    let mut client: Client = proxy.client().await;
    let request =
        fields.iter().fold(Request::get(HOST, "/"), |request, (name, value)| request.header(name, value));
    assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    backend.requests().remove(0)
}

fn trusting(setup: Setup) -> Setup {
    setup.settings(|settings| settings.forwarded.ranges = vec!["127.0.0.0/8".parse().unwrap()])
}

fn extending(setup: Setup) -> Setup {
    trusting(setup).settings(|settings| settings.forwarded.append = true)
}

#[track_caller]
fn assert_fields(request: &RecordedRequest, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(request.header_values(name), [*value], "{name}");
    }
}

#[tokio::test]
async fn the_endpoint_gets_headers_about_the_client_and_the_request() {
    let request = received_by_endpoint(|setup| setup, &[]).await;
    assert_fields(
        &request,
        &[
            ("Host", HOST),
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Real-IP", "127.0.0.1"),
            ("X-Forwarded-Host", HOST),
            ("X-Forwarded-Port", "80"),
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-Scheme", "http"),
            ("X-Scheme", "http"),
        ],
    );
    let id = request.header("X-Request-ID").unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
}

#[tokio::test]
async fn forwarded_headers_of_untrusted_peers_are_replaced_and_kept_as_originals() {
    let request = received_by_endpoint(
        |setup| setup,
        &[
            ("X-Forwarded-For", "1.2.3.4"),
            ("X-Forwarded-Host", "evil.example"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Port", "8443"),
            ("X-Forwarded-Scheme", "https"),
            ("X-Scheme", "https"),
            ("X-Real-IP", "1.2.3.4"),
            ("X-Forwarded-Prefix", "/evil"),
            ("Forwarded", "for=1.2.3.4"),
            ("X-Original-Forwarded-Host", "evil"),
        ],
    )
    .await;
    assert_fields(
        &request,
        &[
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Real-IP", "127.0.0.1"),
            ("X-Forwarded-Host", HOST),
            ("X-Forwarded-Port", "80"),
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-Scheme", "http"),
            ("X-Scheme", "http"),
            ("X-Original-Forwarded-For", "1.2.3.4"),
            ("X-Original-Forwarded-Host", "evil.example"),
        ],
    );
    assert_eq!((request.header("Forwarded"), request.header("X-Forwarded-Prefix")), (None, None));
}

/// Headers of proxies and authenticators to backends that Fairway itself does not set.
const CLAIMS: [&str; 27] = [
    "X-Forwarded",
    "X-Forwarded-By",
    "X-Forwarded-Client-Cert",
    "X-Forwarded-User",
    "X-Forwarded-Email",
    "x-forwarded-groups",
    "X-FORWARDED-ACCESS-TOKEN",
    "X-Forwarded-Preferred-Username",
    "X-Forwarded-Ssl",
    "X-Forwarded-Uri",
    "X-Forwarded-Prefix",
    "Forwarded",
    "Forwarded-For",
    "X-Original-URL",
    "X-Original-URI",
    "X-Original-Method",
    "X-Original-Host",
    "X-Rewrite-URL",
    "X-Auth-Request-User",
    "X-Auth-Request-Redirect",
    "X-Sent-From",
    "ssl-client-cert",
    "ssl-client-verify",
    "SSL-Client-Subject-DN",
    "X-SSL-Client-Verify",
    "X-Client-Cert",
    "Client-Cert-Chain",
];

/// Similar names that clients may use.
const OWN: [&str; 6] =
    ["X-Forward", "X-Request-ID", "X-Realm", "X-Authorization", "X-Client-Version", "Client-Hint"];

/// A request with all of these names.
async fn received_names(setup: impl Fn(Setup) -> Setup, names: &[&str]) -> RecordedRequest {
    let fields: Vec<_> = names.iter().map(|name| (*name, "said")).collect();
    received_by_endpoint(setup, &fields).await
}

#[tokio::test]
async fn proxy_headers_of_untrusted_peers_are_dropped() {
    let request = received_names(|setup| setup, &CLAIMS).await;
    for name in CLAIMS {
        assert_eq!(request.header(name), None, "{name}");
    }
    let request = received_names(|setup| setup, &OWN).await;
    for name in OWN {
        assert_eq!(request.header(name), Some("said"), "{name}");
    }
}

#[tokio::test]
async fn proxy_headers_of_trusted_peers_pass() {
    let request = received_names(trusting, &CLAIMS).await;
    for name in CLAIMS {
        assert_eq!(request.header(name), Some("said"), "{name}");
    }
}

/// The trailers with these names that the endpoint receives.
async fn trailers(setup: impl Fn(Setup) -> Setup, names: &[&str]) -> Vec<String> {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy: Running = setup(Setup::to(&[backend.address()])).start();
    let mut client: Client = proxy.client().await;
    let section: String = names.iter().map(|name| format!("{name}: said\r\n")).collect();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}3\r\nabc\r\n0\r\n{section}\r\n")).await.unwrap();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    let requests = backend.requests();
    assert_eq!(requests[0].body, b"abc");
    requests[0].trailers.iter().map(|(name, _)| name.clone()).collect()
}

#[tokio::test]
async fn trailers_of_untrusted_peers_carry_no_proxy_headers() {
    let claims: Vec<_> =
        CLAIMS.into_iter().filter(|name| !matches!(*name, "Forwarded" | "X-Forwarded-Prefix")).collect();
    let mut sent =
        vec!["X-Sum", "X_Forwarded_User", "X.Forwarded.User", "X-Forwarded-For", "X-Real-IP", "Proxy"];
    sent.extend(&claims);
    assert_eq!(trailers(|setup| setup, &sent).await, ["X-Sum"]);
    // Those of a trusted peer pass, except those that decide about the request and those in disguise.
    let mut passed = vec!["X-Sum"];
    passed.extend(&claims);
    assert_eq!(trailers(trusting, &sent).await, passed);
}

#[tokio::test]
async fn forwarded_headers_of_trusted_peers_count() {
    let request = received_by_endpoint(
        trusting,
        &[
            ("X-Forwarded-For", "203.0.113.7"),
            ("X-Forwarded-Host", "shop.example"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Port", "8443"),
            ("X-Forwarded-Prefix", "/shop"),
        ],
    )
    .await;
    assert_fields(
        &request,
        &[
            ("X-Forwarded-For", "203.0.113.7"),
            ("X-Real-IP", "203.0.113.7"),
            ("X-Forwarded-Host", "shop.example"),
            ("X-Forwarded-Port", "8443"),
            ("X-Forwarded-Proto", "https"),
            ("X-Scheme", "https"),
            ("X-Forwarded-Prefix", "/shop"),
        ],
    );
}

#[tokio::test]
async fn the_client_is_the_last_untrusted_address() {
    for (said, client) in [
        (vec!["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        (vec!["6.6.6.6, 203.0.113.7, 127.0.0.9"], "203.0.113.7"),
        (vec!["2001:db8::7"], "2001:db8::7"),
        (vec!["nonsense"], "unknown"),
        // Several lines are one list (RFC 9110 §5.3): the trusted peer's line is the last.
        (vec!["6.6.6.6", "203.0.113.7"], "203.0.113.7"),
        (vec!["6.6.6.6, 203.0.113.7", "127.0.0.9"], "203.0.113.7"),
        (vec!["6.6.6.6", "nonsense"], "unknown"),
    ] {
        let fields: Vec<_> = said.iter().map(|value| ("X-Forwarded-For", *value)).collect();
        let request = received_by_endpoint(trusting, &fields).await;
        assert_eq!(request.header_values("X-Real-IP"), [client], "{said:?}");
    }
}

#[tokio::test]
async fn a_chain_is_extended_by_the_peer_when_the_settings_say_so() {
    for (said, chain) in [
        (vec!["203.0.113.7"], "203.0.113.7, 127.0.0.1"),
        (vec!["6.6.6.6", "203.0.113.7"], "6.6.6.6, 203.0.113.7, 127.0.0.1"),
        (vec!["nonsense"], "nonsense, 127.0.0.1"),
        (vec![], "127.0.0.1"),
    ] {
        let fields: Vec<_> = said.iter().map(|value| ("X-Forwarded-For", *value)).collect();
        let request = received_by_endpoint(extending, &fields).await;
        assert_eq!(request.header_values("X-Forwarded-For"), [chain], "{said:?}");
    }
}

#[tokio::test]
async fn a_request_id_is_kept_or_generated_for_each_request() {
    let request = received_by_endpoint(|setup| setup, &[("X-Request-ID", "mine")]).await;
    assert_fields(&request, &[("X-Request-ID", "mine")]);
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let proxy = Setup::to(&[backend.address()]).start();
    let mut client = proxy.client().await;
    for _ in 0..2 {
        client.exchange(&Request::get(HOST, "/")).await.unwrap();
    }
    let requests = backend.requests();
    assert_ne!(requests[0].header("X-Request-ID"), requests[1].header("X-Request-ID"));
}

/// Lists in which 203.0.113.7 is the client.
const READABLE: [&[&str]; 13] = [
    &["203.0.113.7"],
    &["203.0.113.7:51008"],
    &["203.0.113.7:51008, 127.0.0.9"],
    &["203.0.113.7:1", "127.0.0.9:65535"],
    &["127.0.0.9, 203.0.113.7"],
    &["nonsense, 203.0.113.7"],
    &["203.0.113.7,"],
    &["203.0.113.7", ""],
    &[" , 203.0.113.7 ,\t, 127.0.0.9 , "],
    &["203.0.113.7,127.0.0.9,,,"],
    &["::ffff:203.0.113.7"],
    &["[::ffff:203.0.113.7]:443"],
    &["203.0.113.7, ::ffff:127.0.0.9"],
];

/// Lists that do not identify the client.
const UNREADABLE: [&[&str]; 22] = [
    &[""],
    &[","],
    &[" , ,", ""],
    &["unknown"],
    &["_hidden"],
    &["_hidden:80, 127.0.0.9"],
    &["127.0.0.9, unknown"],
    &["127.0.0.9, unknown, 127.0.0.9"],
    &["127.0.0.9", "unknown"],
    &["\"127.0.0.9\""],
    &["for=127.0.0.9"],
    &["127.0.0.9 127.0.0.9"],
    &["127.0.0.09"],
    &["0x7f.0.0.1"],
    &["127.1"],
    &["127.0.0.9:"],
    &["127.0.0.9:0"],
    &["127.0.0.9:65536"],
    &["127.0.0.9:http"],
    &["[127.0.0.9]"],
    &["fe80::1%eth0"],
    &["[fe80::1%1]:443"],
];

/// Which part of the configuration makes the peer trusted.
#[derive(Clone, Copy, Debug)]
enum TrustedBy {
    Settings,
    Listener,
    Rule,
}

const TRUST_SOURCES: [TrustedBy; 3] = [TrustedBy::Settings, TrustedBy::Listener, TrustedBy::Rule];

/// A proxy with a rule over addresses.
fn guarded(backend: &Backend, way: TrustedBy, allow: &[&str], deny: &[&str]) -> Running {
    let ranges = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let list = AccessList { allow: ranges(allow), deny: ranges(deny) };
    let setup = Setup::to(&[backend.address()]).filter(Phases::from(Guard::Access(list)));
    let trusted = ranges(&["127.0.0.0/8"]);
    match way {
        TrustedBy::Settings => setup.settings(|settings| settings.forwarded.ranges = trusted).start(),
        TrustedBy::Rule => setup
            .filter(Phases::from(RealIp { header: "x-forwarded-for".into(), trusted, last_only: false }))
            .start(),
        TrustedBy::Listener => {
            let mut config = setup.config();
            let mut listener = Listener::clone(&config.listeners["http"]);
            listener.clients.forwarded =
                Some(ForwardedTrust { ranges: trusted, ..ForwardedTrust::default() });
            config.listeners.insert(listener.name.clone(), Arc::new(listener));
            setup.start_by(&config)
        }
    }
}

#[tokio::test]
async fn a_trusted_peer_never_counts_as_the_client_that_it_names() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    for way in TRUST_SOURCES {
        let proxies = [
            guarded(&backend, way, &["203.0.113.0/24"], &[]),
            guarded(&backend, way, &["127.0.0.0/8"], &[]),
            guarded(&backend, way, &[], &["203.0.113.0/24"]),
        ];
        let all = READABLE.map(|list| (list, [200, 403, 403])).into_iter();
        for (list, expected) in all.chain(UNREADABLE.map(|list| (list, [403; 3]))) {
            for (proxy, status) in proxies.iter().zip(expected) {
                let request = list
                    .iter()
                    .fold(Request::get(HOST, "/"), |request, value| request.header("X-Forwarded-For", value));
                let response = proxy.client().await.exchange(&request).await.unwrap();
                assert_eq!(response.status, status, "{way:?}: {list:?}");
            }
        }
        for proxy in &proxies {
            let fault = "fairway_faults_total{reason=\"address_unknown\"}";
            proxy.expect_metric(fault, UNREADABLE.len() as u64).await;
        }
    }
}

#[tokio::test]
async fn a_trusted_peer_that_names_no_client_is_the_client() {
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    for way in TRUST_SOURCES {
        let proxy = guarded(&backend, way, &["127.0.0.0/8"], &[]);
        assert_eq!(proxy.client().await.exchange(&Request::get(HOST, "/")).await.unwrap().status, 200);
    }
}

/// The scheme headers of a trusted peer, the status of a request to a host with an https redirect, and the scheme that the
/// endpoint gets without one.
const SCHEMES: [(&[&str], u16, &str); 15] = [
    (&[], 308, "http"),
    (&[""], 308, "http"),
    (&["http"], 308, "http"),
    (&["HTTP"], 308, "http"),
    (&["https"], 200, "https"),
    (&["HTTPS"], 200, "https"),
    (&["https,http"], 200, "https"),
    (&["https, https"], 200, "https"),
    (&["https", "http"], 200, "https"),
    (&["wss"], 200, "https"),
    (&["ws"], 200, "http"),
    (&["http, https"], 200, "http"),
    (&["http, http"], 200, "http"),
    (&["http", "https"], 200, "http"),
    (&["ftp"], 200, "http"),
];

/// If a trusted peer sends anything else, a redirect would loop.
#[tokio::test]
async fn requests_are_redirected_to_https_only_if_the_peer_says_exactly_http() {
    let to_https = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: false };
    let backend =
        Backend::http(|request| BackendResponse::ok(request.header("X-Forwarded-Proto").unwrap())).await;
    let setup = || Setup::to(&[backend.address()]);
    let redirecting = || setup().filter(Phases::from(Guard::HttpsRedirect(to_https.clone())));
    let (believing, plain) = (trusting(redirecting()).start(), trusting(setup()).start());
    let strict = redirecting().start();
    for (said, status, scheme) in SCHEMES {
        let request = said
            .iter()
            .fold(Request::get(HOST, "/"), |request, value| request.header("X-Forwarded-Proto", value));
        let send_request = async |proxy: &Running| proxy.client().await.exchange(&request).await.unwrap();
        assert_eq!(send_request(&believing).await.status, status, "{said:?}");
        assert_eq!(send_request(&plain).await.text(), scheme, "{said:?}");
        assert_eq!(send_request(&strict).await.status, 308, "a stranger says {said:?}");
    }
}

/// A client can be redirected to the forwarded host of a balancer that changes `Host`.
#[tokio::test]
async fn clients_are_sent_to_https_at_the_host_that_a_trusted_peer_names() {
    let to_https = HttpsRedirect { status: 308, keep_trailing_slash: false, explicit_port: false };
    let backend = Backend::http(|_| BackendResponse::ok("never asked")).await;
    let setup =
        || Setup::to(&[backend.address()]).filter(Phases::from(Guard::HttpsRedirect(to_https.clone())));
    let (believing, strict) = (trusting(setup()).start(), setup().start());
    let own_url = format!("https://{HOST}");
    for (said, expected) in [
        ("shop.example", "https://shop.example"),
        ("shop.example:8080", "https://shop.example"),
        ("[2001:db8::1]:80", "https://[2001:db8::1]"),
        ("shop.example, inner.example", "https://shop.example"),
        ("no host/", &*own_url),
        ("", &*own_url),
    ] {
        let request =
            Request::get(HOST, "/").header("X-Forwarded-Proto", "http").header("X-Forwarded-Host", said);
        let location = async |proxy: &Running| {
            let response = proxy.client().await.exchange(&request).await.unwrap();
            response.header("Location").map(str::to_owned)
        };
        assert_eq!(location(&believing).await.as_deref(), Some(expected), "{said:?}");
        assert_eq!(location(&strict).await.as_deref(), Some(&*own_url), "a stranger says {said:?}");
    }
}

#[tokio::test]
async fn the_first_of_several_ports_is_the_requested_one() {
    for (said, port) in [
        ("8443", "8443"),
        ("8443,80", "8443"),
        ("443, 443", "443"),
        ("many", "80"),
        ("0", "80"),
        ("0,8443", "80"),
    ] {
        let request = received_by_endpoint(trusting, &[("X-Forwarded-Port", said)]).await;
        assert_fields(&request, &[("X-Forwarded-Port", port)]);
    }
}

/// The `Location` of each redirect to the client's own URL: a rewritten `Location`, a redirect, and one to another host.
async fn locations(backend: &Backend, request: &Request, over_tls: bool) -> Vec<String> {
    let url = Replacement { from: "/inner/".into(), to: "/".into() };
    let parts = RedirectTarget::Parts { scheme: None, host: None, port: None, path: None, keep_query: true };
    let redirect = |target| Phases::from(Guard::Redirect(Redirect { status: 302, target }));
    let mut found = Vec::new();
    for filter in [
        Phases::from(UpstreamResponseEdit::Location(LocationRewrite { url, absolute: true })),
        redirect(parts),
        redirect(RedirectTarget::Host(HOST.into())),
    ] {
        let mut config = trusting(Setup::to(&[backend.address()]).filter(filter)).config();
        for (name, public_port) in [("http", 8080), ("https", 8443)] {
            let listener = Listener { public_port, ..Listener::clone(&config.listeners[name]) };
            config.listeners.insert(name.into(), Arc::new(listener));
        }
        let proxy = Setup::to(&[]).start_by(&config);
        let mut client = match over_tls {
            true => Client::connect_tls(proxy.https, &TlsOffer::new(unverified_client_config(), HOST))
                .await
                .unwrap(),
            false => proxy.client().await,
        };
        let response = client.exchange(request).await.unwrap();
        found.push(response.header("Location").unwrap().to_owned());
    }
    found
}

/// The port of a connection belongs to its own scheme: `https://example.com:8080/` would lead nowhere.
#[tokio::test]
async fn links_of_a_scheme_that_a_trusted_peer_names_have_the_port_of_that_scheme() {
    let backend = Backend::http(|_| BackendResponse::with_headers(302, &[("Location", "/inner/")], "")).await;
    for (over_tls, scheme, port, expected, told) in [
        (false, None, None, "http://example.com:8080", "8080"),
        (false, Some("http"), None, "http://example.com:8080", "8080"),
        (false, Some("https"), None, "https://example.com:8443", "8080"),
        (false, Some("wss,http"), None, "https://example.com:8443", "8080"),
        (false, Some("ftp"), None, "http://example.com:8080", "8080"),
        (false, Some("https"), Some("0"), "https://example.com:8443", "8080"),
        (false, Some("https"), Some("many"), "https://example.com:8443", "8080"),
        (false, Some("https"), Some("9443"), "https://example.com:9443", "9443"),
        (false, Some("https"), Some("80"), "https://example.com:80", "80"),
        (true, None, None, "https://example.com:8443", "8443"),
        (true, Some("https"), None, "https://example.com:8443", "8443"),
        (true, Some("http"), None, "http://example.com:80", "8443"),
        (true, Some("http"), Some("8080"), "http://example.com:8080", "8080"),
    ] {
        let sent = [("X-Forwarded-Proto", scheme), ("X-Forwarded-Port", port)];
        let sent = sent.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let request =
            sent.fold(Request::get(HOST, "/"), |request, (name, value)| request.header(name, value));
        let url = match expected.strip_prefix("http://").and_then(|rest| rest.strip_suffix(":80")) {
            Some(host) => format!("http://{host}/"),
            None => format!("{expected}/"),
        };
        let found = locations(&backend, &request, over_tls).await;
        assert_eq!(found, [&*url, &*url, expected], "{request:?}");
        let request = backend.requests().pop().unwrap();
        assert_fields(&request, &[("X-Forwarded-Port", told)]);
    }
}

#[tokio::test]
async fn the_first_of_several_hosts_is_the_requested_one() {
    for (said, host) in [
        (vec!["shop.example"], "shop.example"),
        (vec!["shop.example:8443"], "shop.example:8443"),
        (vec!["[2001:db8::1]:443"], "[2001:db8::1]:443"),
        (vec!["shop.example, inner.example"], "shop.example"),
        (vec!["shop.example\t,inner.example"], "shop.example"),
        (vec!["shop.example", "inner.example"], "shop.example"),
        (vec![""], HOST),
        (vec![", inner.example"], HOST),
        (vec!["a b"], HOST),
        (vec!["a/b, inner.example"], HOST),
        (vec!["user@shop.example"], HOST),
        (vec!["shop.example:port"], HOST),
    ] {
        let fields: Vec<_> = said.iter().map(|value| ("X-Forwarded-Host", *value)).collect();
        let request = received_by_endpoint(trusting, &fields).await;
        assert_eq!(request.header_values("X-Forwarded-Host"), [host], "{said:?}");
        assert_eq!(request.header("Host"), Some(HOST), "{said:?}");
    }
}
