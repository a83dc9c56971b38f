//! Cross-origin requests: preflights, which a guard responds to, and headers of other responses.

use fairway_model::{Cors, CorsMode, CorsOrigin, Phases};
use fairway_testkit::{Backend, BackendResponse, Request};

use super::{send, start_with_filters};
use crate::support::{HOST, Setup};

fn cors(origins: Vec<CorsOrigin>) -> Phases {
    Phases::from(Cors {
        origins,
        methods: "GET, PUT".into(),
        headers: "X-A".into(),
        expose: "X-B".into(),
        credentials: true,
        max_age: 600,
        manner: CorsMode::IngressNginx,
    })
}

#[tokio::test]
async fn preflights_of_allowed_origins_get_local_responses() {
    let (backend, proxy) =
        start_with_filters(vec![cors(vec![CorsOrigin::Exact("https://app.example".into())])]).await;
    let preflight = |origin: &str| Request::new("OPTIONS", "/").header("Host", HOST).header("Origin", origin);
    let response = send(&proxy, preflight("https://app.example")).await;
    assert_eq!(response.status, 204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", "https://app.example"),
        ("Access-Control-Allow-Methods", "GET, PUT"),
        ("Access-Control-Allow-Headers", "X-A"),
        ("Access-Control-Expose-Headers", "X-B"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Max-Age", "600"),
    ] {
        assert_eq!(response.header(name), Some(value));
    }
    assert_eq!(backend.request_count(), 0);
    let response = send(&proxy, preflight("https://evil.example")).await;
    assert_eq!((response.status, response.header("Access-Control-Allow-Origin")), (200, None));
}

#[tokio::test]
async fn other_responses_carry_the_headers_for_allowed_origins_only() {
    let one_label = CorsOrigin::OneLabel { before: "https://".into(), after: ".example.org".into() };
    let (_backend, proxy) = start_with_filters(vec![cors(vec![one_label])]).await;
    for (origin, allowed) in [
        ("https://a.example.org", true),
        ("https://A.Example.ORG", true),
        ("https://a.b.example.org", false),
        ("https://.example.org", false),
        ("https://a.example.org.evil", false),
        ("http://a.example.org", false),
        ("null", false),
    ] {
        let response = send(&proxy, Request::get(HOST, "/").header("Origin", origin)).await;
        let expected = allowed.then_some(origin);
        assert_eq!(response.header("Access-Control-Allow-Origin"), expected, "{origin}");
    }
    let (_backend, open) = start_with_filters(vec![cors(vec![CorsOrigin::Any])]).await;
    let response = send(&open, Request::get(HOST, "/").header("Origin", "https://a")).await;
    assert_eq!(response.header("Access-Control-Allow-Origin"), Some("*"));
}

#[tokio::test]
async fn cors_headers_of_endpoints_are_replaced() {
    let requests = [
        ("Access-Control-Allow-Origin", "https://b.test"),
        ("access-control-max-age", "5"),
        ("access-control-allow-origin", "https://c.test"),
        ("Access-Control-Allow-Private-Network", "true"),
    ];
    let backend = Backend::http(move |_| BackendResponse::with_headers(200, &requests, "")).await;
    let exact = CorsOrigin::Exact("https://a.test".into());
    for (origin, answered) in [(CorsOrigin::Any, "*"), (exact, "https://a.test")] {
        let mut setup = Setup::to(&[backend.address()]);
        setup.filters = vec![cors(vec![origin])];
        let proxy = setup.start();
        let response = send(&proxy, Request::get(HOST, "/").header("Origin", "https://a.test")).await;
        for (name, value) in [
            ("Access-Control-Allow-Origin", answered),
            ("Access-Control-Max-Age", "600"),
            ("Access-Control-Allow-Methods", "GET, PUT"),
            // None of Fairway's own headers.
            ("Access-Control-Allow-Private-Network", "true"),
        ] {
            assert_eq!(response.header_values(name), [value], "{name}");
        }
    }
}

/// The CORS filter of Gateway API.
fn gateway_cors(origins: &[CorsOrigin], methods: &str, headers: &str, credentials: bool) -> Phases {
    Phases::from(Cors {
        origins: origins.into(),
        methods: methods.into(),
        headers: headers.into(),
        expose: "X-B, X-C".into(),
        credentials,
        max_age: 3600,
        manner: CorsMode::GatewayApi,
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
async fn in_gateway_api_every_preflight_gets_a_response_and_only_allowed_origins_get_headers() {
    let origins = [
        CorsOrigin::Exact("https://www.foo.com".into()),
        CorsOrigin::Wildcard { before: "https://".into(), after: ".bar.com".into() },
        CorsOrigin::Wildcard { before: "http://".into(), after: ":8080".into() },
    ];
    let (backend, proxy) =
        start_with_filters(vec![gateway_cors(&origins, "GET, OPTIONS", "X-1, X-2", true)]).await;
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
        let response = send(&proxy, preflight(origin)).await;
        assert_eq!((response.status, response.header("Vary")), (204, Some("Origin")), "{origin}");
        for (name, value) in [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Methods", "GET, OPTIONS"),
            ("Access-Control-Allow-Headers", "X-1, X-2"),
            ("Access-Control-Expose-Headers", "X-B, X-C"),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Max-Age", "3600"),
        ] {
            assert_eq!(response.header(name), is_allowed.then_some(value), "{origin}");
        }
        assert_eq!(backend.request_count(), 0);
    }
    let response = send(&proxy, Request::get(HOST, "/").header("Origin", "https://www.foo.com")).await;
    for (name, value) in [
        ("Access-Control-Allow-Origin", Some("https://www.foo.com")),
        ("Access-Control-Expose-Headers", Some("X-B, X-C")),
        ("Access-Control-Allow-Credentials", Some("true")),
        ("Access-Control-Allow-Methods", None),
        ("Access-Control-Max-Age", None),
        ("Vary", Some("Origin")),
    ] {
        assert_eq!(response.header(name), value, "{name}");
    }
    let response = send(&proxy, Request::get(HOST, "/").header("Origin", "https://foobar.com")).await;
    assert_eq!((response.status, response.header("Access-Control-Allow-Origin")), (200, None));
    // Without a requested method it is an ordinary request.
    let request = Request::new("OPTIONS", "/").header("Host", HOST).header("Origin", "https://www.foo.com");
    assert_eq!(send(&proxy, request).await.status, 200);
    assert_eq!(backend.request_count(), 3);
}

#[tokio::test]
async fn a_wildcard_of_gateway_api_becomes_the_requested_value_with_credentials() {
    let (_backend, open) = start_with_filters(vec![gateway_cors(&[CorsOrigin::Any], "*", "*", false)]).await;
    let response = send(&open, preflight("https://a.test:1")).await;
    let (_backend, trusting) =
        start_with_filters(vec![gateway_cors(&[CorsOrigin::Any], "*", "*", true)]).await;
    let trusted = send(&trusting, preflight("https://a.test:1")).await;
    for (name, value, literal) in [
        ("Access-Control-Allow-Origin", Some("*"), Some("https://a.test:1")),
        ("Access-Control-Allow-Methods", Some("*"), Some("PUT")),
        ("Access-Control-Allow-Headers", Some("*"), Some("x-1, x-2")),
        ("Access-Control-Allow-Credentials", None, Some("true")),
        ("Vary", None, Some("Origin")),
    ] {
        assert_eq!((response.header(name), trusted.header(name)), (value, literal), "{name}");
    }
    let request = Request::new("OPTIONS", "/").header("Host", HOST).header("Origin", "https://a.test");
    let unasked = request.header("Access-Control-Request-Method", "GET");
    assert_eq!(send(&trusting, unasked).await.header("Access-Control-Allow-Headers"), None);
}
