//! Failed requests can be found by their identifier, with the true reason: the real binary, its admin page and `fairway explain
//! --request-id`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A site in which each host fails in one way.
struct Site {
    fairway: Fairway,
    /// Delays its responses.
    held_backend: Backend,
    _manifests: Manifests,
    _backends: Vec<Backend>,
}

/// The annotations of each host, in addition to the Service with the same name.
const HOSTS: [(&str, &[(&str, &str)]); 19] = [
    ("plain", &[]),
    ("empty", &[]),
    ("refusing", &[]),
    ("closing", &[]),
    ("truncated", &[]),
    ("silent", &[("proxy-read-timeout", "1")]),
    ("malformed", &[]),
    ("failing", &[]),
    ("flaky", &[]),
    ("elsewhere", &[("proxy-next-upstream", "error timeout http_503")]),
    ("held", &[]),
    ("small", &[("proxy-body-size", "1k")]),
    ("inner", &[("whitelist-source-range", "10.0.0.0/8")]),
    ("limited", &[("limit-rpm", "1"), ("limit-burst-multiplier", "1")]),
    ("narrow", &[("limit-connections", "1")]),
    ("denied", &[("auth-url", "http://denying.shop.svc.cluster.local/")]),
    ("undecided", &[("auth-url", "http://failing.shop.svc.cluster.local/")]),
    ("unreferenced", &[("auth-type", "basic"), ("auth-secret", "nowhere")]),
    ("unprotected", &[("enable-modsecurity", "true")]),
];

impl Site {
    async fn new() -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        let fine = Backend::http(|_| BackendResponse::ok("fine")).await;
        let mut backends = Vec::new();
        let scripted = [
            ("closing", BackendResponse::ThenReset(Vec::new())),
            (
                "truncated",
                BackendResponse::ThenClose(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_vec()),
            ),
            ("silent", BackendResponse::Silence),
            ("malformed", BackendResponse::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_vec())),
            ("failing", BackendResponse::status(500, "broken")),
            ("denying", BackendResponse::status(403, "no")),
        ];
        for (name, answer) in scripted {
            let backend = Backend::http(move |_| answer.clone()).await;
            manifests
                .put(&format!("{name}.yaml"), service_with_endpoints("shop", name, 80, &[backend.address()]));
            backends.push(backend);
        }
        let slow = Backend::http(|_| BackendResponse::ok("held").hold()).await;
        let busy = [
            Backend::http(|_| BackendResponse::status(503, "")).await,
            Backend::http(|_| BackendResponse::status(503, "")).await,
        ];
        let several = [
            ("refusing", vec![free_address()]),
            ("flaky", vec![free_address(), fine.address()]),
            ("elsewhere", busy.iter().map(Backend::address).collect()),
            ("held", vec![slow.address()]),
            ("narrow", vec![slow.address()]),
        ];
        for (name, endpoints) in several {
            manifests.put(&format!("{name}.yaml"), service_with_endpoints("shop", name, 80, &endpoints));
        }
        manifests.put("empty.yaml", service("shop", "empty", 80));
        for name in
            ["plain", "small", "inner", "limited", "denied", "undecided", "unreferenced", "unprotected"]
        {
            manifests
                .put(&format!("{name}.yaml"), service_with_endpoints("shop", name, 80, &[fine.address()]));
        }
        for (name, annotations) in HOSTS {
            let plain = Ingress::new("shop", name).class(Some("fairway"));
            let ingress =
                annotations.iter().fold(plain, |ingress, (name, value)| ingress.annotation(name, value));
            let ingress = ingress.route(&format!("{name}.test"), "/", (name, 80));
            manifests.put(&format!("{name}-ingress.yaml"), ingress.yaml());
        }
        let flags = ["--workers", "2", "--body-idle", "1", "--connect-hedge", "0"];
        let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
        backends.push(fine);
        backends.extend(busy);
        Self { fairway, held_backend: slow, _manifests: manifests, _backends: backends }
    }

    /// Sends a request to the host with this name and returns the status of the response, if there is one.
    async fn send(&self, name: &str, id: &str, request: &Request) -> Option<u16> {
        let host = format!("{name}.test");
        let request = request.clone().header("Host", &host).header("X-Request-ID", id).close();
        let mut client = Client::connect(self.fairway.http).await.unwrap();
        client.exchange(&request).await.ok().map(|response| response.status)
    }

    /// The content of the admin page for the query, once it is not empty.
    async fn recorded(&self, query: &str) -> Vec<Value> {
        let look = async {
            loop {
                let page = self.fairway.admin(&format!("/requests?{query}")).await.unwrap();
                assert_eq!(page.status, 200, "{}", page.text());
                match page.json()["exchanges"].as_array() {
                    Some(found) if !found.is_empty() => return found.clone(),
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, look)
            .await
            .unwrap_or_else(|_| panic!("nothing is recorded for {query}"))
    }

    fn explain(&self, id: &str) -> (Option<i32>, String, String) {
        let admin = self.fairway.admin.to_string();
        let output =
            Command::new(BINARY).args(["explain", "--request-id", id, "--admin", &admin]).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

fn get() -> Request {
    Request::new("GET", "/")
}

fn post(bytes: usize) -> Request {
    Request::new("POST", "/").body(vec![b'x'; bytes])
}

/// A request and the expected record.
struct Case {
    host: &'static str,
    request: Request,
    status: u16,
    reason: Option<&'static str>,
    caused_by: Option<&'static str>,
}

fn case(
    host: &'static str,
    request: Request,
    status: u16,
    reason: &'static str,
    caused_by: &'static str,
) -> Case {
    Case { host, request, status, reason: Some(reason), caused_by: Some(caused_by) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_failure_is_found_by_its_id_with_the_true_reason() {
    let site = Site::new().await;
    let cases = [
        case("nowhere", get(), 404, "no_route", "client"),
        case("empty", get(), 503, "no_endpoint", "endpoint"),
        case("refusing", get(), 502, "connect_failed", "endpoint"),
        case("closing", post(3), 502, "upstream_closed", "endpoint"),
        case("truncated", get(), 200, "upstream_truncated", "endpoint"),
        case("silent", post(3), 504, "upstream_timeout", "endpoint"),
        case("malformed", post(3), 502, "upstream_malformed", "endpoint"),
        Case { host: "failing", request: get(), status: 500, reason: None, caused_by: None },
        case("small", post(2_000), 413, "body_too_large", "client"),
        case("inner", get(), 403, "access_denied", "client"),
        case("denied", get(), 403, "denied", "client"),
        case("undecided", get(), 500, "undecided", "service"),
        case("unreferenced", get(), 503, "missing_reference", "configuration"),
        case("unprotected", get(), 503, "protection_unavailable", "configuration"),
        case("plain", Request::new("TRACE", "/"), 405, "method_not_allowed", "client"),
        case("plain", Request::new("CONNECT", "plain.test:80"), 501, "unsupported", "client"),
    ];
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let id = format!("case-{number}");
        site.send(case.host, &id, &case.request).await;
        let found = site.recorded(&format!("id={id}")).await;
        let it = &found[0];
        let (reason, by) = (it["reason"].as_str(), it["caused_by"].as_str());
        if found.len() != 1
            || (it["status"].as_u64(), reason, by) != (Some(case.status.into()), case.reason, case.caused_by)
        {
            wrong.push(format!("{}: {found:#?}", case.host));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_ended_by_clients_and_limits_are_found_by_id() {
    let site = Site::new().await;
    for _ in 0..5 {
        site.send("limited", "limited", &get()).await;
    }
    let limited = site.recorded("id=limited&failed").await;
    assert_eq!(limited[0]["reason"], "too_many_requests", "{limited:#?}");

    let mut leaving = Client::connect(site.fairway.http).await.unwrap();
    leaving.send("GET / HTTP/1.1\r\nHost: held.test\r\nX-Request-ID: leaving\r\n\r\n").await.unwrap();
    site.held_backend.wait_until("the request is there", |held| held.request_count() == 1).await;
    leaving.reset().unwrap();
    let departed = site.recorded("id=leaving").await;
    assert_eq!(
        (&departed[0]["reason"], &departed[0]["status"]),
        (&"client_gone".into(), &499.into()),
        "{departed:#?}"
    );

    let mut first = Client::connect(site.fairway.http).await.unwrap();
    first.send("GET / HTTP/1.1\r\nHost: narrow.test\r\nX-Request-ID: first\r\n\r\n").await.unwrap();
    site.held_backend.wait_until("the first one is there", |held| held.request_count() == 2).await;
    site.send("narrow", "second", &get()).await;
    let second = site.recorded("id=second").await;
    assert_eq!(second[0]["reason"], "too_much_under_way", "{second:#?}");

    let mut slow = Client::connect(site.fairway.http).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: plain.test\r\nX-Request-ID: slow\r\nContent-Length: 9\r\n\r\nx";
    slow.send(head).await.unwrap();
    let slow = site.recorded("id=slow").await;
    assert_eq!(slow[0]["reason"], "client_timeout", "{slow:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_has_its_attempts() {
    let site = Site::new().await;
    let mut repeated = Vec::new();
    for number in 0..8 {
        assert_eq!(site.send("flaky", &format!("flaky-{number}"), &get()).await, Some(200));
        let found = site.recorded(&format!("id=flaky-{number}")).await;
        repeated
            .extend(found.into_iter().filter(|it| it["failed_attempts"][0]["reason"] == "connect_failed"));
    }
    let once = repeated.first().expect("one request tried the endpoint that refuses connections");
    assert_eq!((&once["status"], &once["upstream"]["attempts"]), (&200.into(), &2.into()), "{once:#?}");

    assert_eq!(site.send("elsewhere", "elsewhere", &get()).await, Some(503));
    let found = site.recorded("id=elsewhere").await;
    assert_eq!(found[0]["failed_attempts"][0]["status"], 503, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_a_request_by_id_and_reports_an_unknown_id() {
    let site = Site::new().await;
    let request = Request::new("POST", "/cart?token=secret")
        .body("secret")
        .header("Authorization", "Bearer secret")
        .header("Cookie", "session=secret");
    site.send("closing", "one of mine", &request).await;
    site.recorded("id=one%20of%20mine").await;
    let (code, out, err) = site.explain("one of mine");
    assert_eq!(code, Some(0), "{err}");
    for part in [
        "POST http://closing.test/cart?...",
        "rule         Ingress shop/closing spec.rules[0]",
        "upstream_closed after ",
        "outcome      status 502, reason upstream_closed",
        "because      the endpoint closed the connection before its response (caused by: endpoint)",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    assert!(!out.contains("secret"), "{out}");
    let (code, out, err) = site.explain("nobody's");
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("no request with X-Request-ID \"nobody's\" is recorded here"), "{err}");
}

#[tokio::test]
async fn an_invalid_query_is_400_and_the_probe_port_has_no_requests_page() {
    let manifests = Manifests::new();
    let probe: SocketAddr = free_address();
    let flags = ["--workers", "1", "--probe", &probe.to_string()];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let page = fairway.admin("/requests?colour=red").await.unwrap();
    assert_eq!((page.status, page.text().contains("unknown parameter \"colour\"")), (400, true));
    let mut client = Client::connect(probe).await.unwrap();
    let page = client.exchange(&Request::get("127.0.0.1", "/requests").close()).await.unwrap();
    assert_eq!(page.status, 404);
}

#[tokio::test]
async fn a_disabled_recorder_keeps_nothing() {
    let manifests = Manifests::new();
    let flags = ["--workers", "1", "--recorder-exchanges", "0"];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    let request = Request::get("a.test", "/").header("X-Request-ID", "x").close();
    assert_eq!(client.exchange(&request).await.unwrap().status, 404);
    let page = fairway.admin("/requests").await.unwrap();
    assert_eq!(page.json()["exchanges"], Value::Array(Vec::new()));
}
