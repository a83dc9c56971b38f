//! `fairway run` as a process: HTTPRoute rules with fields of Gateway API's experimental channel.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fairway_testkit::manifests::{Manifests, service_with_endpoints};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_port};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, RawResponse, RecordedRequest, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A Gateway, and backends that respond with their names: `one-0` and `one-1` of the Service `one`, `two-0` and `two-1` of `two`.
struct Site {
    manifests: Manifests,
    gateway: SocketAddr,
    // Kept alive so that they respond.
    _backends: Vec<Backend>,
}

impl Site {
    async fn new() -> Self {
        let manifests = Manifests::new();
        let mut backends = Vec::new();
        for (service, names) in [("one", ["one-0", "one-1"]), ("two", ["two-0", "two-1"])] {
            let mut addresses = Vec::new();
            for name in names {
                let backend = Backend::http(move |_| BackendResponse::ok(name)).await;
                addresses.push(backend.address());
                backends.push(backend);
            }
            manifests.put(&format!("{service}.yaml"), service_with_endpoints("a", service, 80, &addresses));
        }
        let port = free_port();
        manifests.put("gateway.yaml", format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: fairway}}\n\
             spec: {{controllerName: fairway.dev/gateway-controller}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge, namespace: a}}\n\
             spec:\n  gatewayClassName: fairway\n  listeners:\n  - {{name: http, port: {port}, protocol: HTTP}}\n"
        ));
        Self { manifests, gateway: SocketAddr::from(([127, 0, 0, 1], port)), _backends: backends }
    }

    /// An HTTPRoute with this name and these rules, which are lists in YAML's flow style.
    fn route(&self, name: &str, rules: &str) {
        self.manifests.put(
            &format!("route-{name}.yaml"),
            format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: a}}\n\
                 spec:\n  parentRefs: [{{name: edge}}]\n  rules:\n{rules}"
            ),
        );
    }

    /// Both Services with these weights and sessions.
    fn split(&self, weights: [u32; 2], sessions: &str) {
        let [one, two] = weights;
        self.route("web", &format!(
            "  - backendRefs: [{{name: one, port: 80, weight: {one}}}, {{name: two, port: 80, weight: {two}}}]\n    \
             sessionPersistence: {sessions}\n"
        ));
    }

    /// One worker: with two, the second may still serve the old configuration when the first one has adopted a change.
    async fn run(&self) -> Fairway {
        let flags = ["--gateway-address", "127.0.0.1", "--workers", "1"];
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &flags).await
    }

    async fn get(&self, path: &str, fields: &[(&str, &str)]) -> RawResponse {
        self.send(Request::get("a.test", path).close(), fields).await
    }

    async fn send(&self, request: Request, fields: &[(&str, &str)]) -> RawResponse {
        let request = fields.iter().fold(request, |request, (name, value)| request.header(name, value));
        Client::connect(self.gateway).await.unwrap().exchange(&request).await.unwrap()
    }

    /// The backends that respond to twenty requests with this header, without duplicates.
    async fn serving_backend(&self, field: (&str, &str)) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..20 {
            let response = self.get("/", &[field]).await;
            assert_eq!(response.status, 200);
            names.push(response.text());
        }
        names.sort();
        names.dedup();
        names
    }
}

/// Name and value of the cookie that a response sets.
fn cookie(response: &RawResponse) -> String {
    response.header("Set-Cookie").unwrap().split(';').next().unwrap().to_owned()
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

#[tokio::test]
async fn a_session_stays_with_its_endpoint_also_when_its_backend_has_no_weight_any_more() {
    let site = Site::new().await;
    let sessions = "{cookie: {name: cart, path: /}}";
    site.split([1, 1], sessions);
    let _fairway = site.run().await;
    let first = site.get("/", &[]).await;
    let line = first.header("Set-Cookie").unwrap().to_owned();
    assert!(line.starts_with("cart=") && line.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{line}");
    let (session, name) = (cookie(&first), first.text());
    assert_eq!(site.serving_backend(("Cookie", &session)).await, std::slice::from_ref(&name));
    let again = site.get("/", &[("Cookie", &session)]).await;
    assert_eq!(again.header("Set-Cookie"), None, "the session continues");
    let (weights, other) = if name.starts_with("one") { ([0, 1], "two") } else { ([1, 0], "one") };
    site.split(weights, sessions);
    eventually("new sessions start on the other backend", WAIT_TIMEOUT, || async {
        site.serving_backend(("X-None", "")).await.iter().all(|name| name.starts_with(other))
    })
    .await;
    assert_eq!(site.serving_backend(("Cookie", &session)).await, [name]);
}

#[tokio::test]
async fn a_header_carries_a_session_as_a_cookie_does() {
    let site = Site::new().await;
    // The form of Gateway API v1.6.
    site.split([1, 1], "{type: Header, sessionName: X-Cart}");
    let _fairway = site.run().await;
    let first = site.get("/", &[]).await;
    assert_eq!(first.header("Set-Cookie"), None);
    let token = first.header("X-Cart").unwrap().to_owned();
    assert_eq!(site.serving_backend(("X-Cart", &token)).await, [first.text()]);
    assert_eq!(site.get("/", &[("X-Cart", &token)]).await.header("X-Cart"), None);
    let unknown = site.get("/", &[("X-Cart", "0123456789abcdef|none")]).await;
    assert!(unknown.header("X-Cart").is_some(), "an invalid session cookie starts a new session");
}

#[tokio::test]
async fn a_session_ends_when_its_time_is_over() {
    let site = Site::new().await;
    let sessions =
        "{absoluteTimeout: 1h, idleTimeout: 10m, sessionName: cart, cookieConfig: {lifetimeType: Permanent}}";
    site.split([1, 1], sessions);
    let _fairway = site.run().await;
    let began = now();
    let first = site.get("/", &[]).await;
    let line = first.header("Set-Cookie").unwrap();
    assert!(line.contains("; Max-Age=3600;"), "{line}");
    let token = cookie(&first);
    let parts: Vec<&str> = token.split('|').collect();
    let [key, backend, since, received] = parts[..] else { panic!("{token}") };
    let time = |text: &str| i64::from_str_radix(text, 16).unwrap();
    assert!((began..=now()).contains(&time(since)) && since == received, "{token}");
    let aged =
        |since: i64, received: i64| format!("{key}|{backend}|{:x}|{:x}", now() - since, now() - received);
    let going_on = site.get("/", &[("Cookie", &aged(1800, 30))]).await;
    assert_eq!(going_on.text(), first.text());
    let renewed = cookie(&going_on);
    assert!(renewed.starts_with(&format!("{key}|{backend}|")), "{renewed}");
    let parts: Vec<&str> = renewed.split('|').collect();
    let age = now() - time(parts[2]);
    assert!((1800..1800 + 60).contains(&age), "the start time is unchanged: {renewed}");
    assert!(now() - time(parts[3]) < 25, "the last use is updated: {renewed}");
    for (since, received) in [(3600, 30), (1800, 600)] {
        let over = cookie(&site.get("/", &[("Cookie", &aged(since, received))]).await);
        let parts: Vec<&str> = over.split('|').collect();
        assert!(now() - time(parts[2]) < 60, "a new session: {over}");
    }
}

/// Allows requests with a token and returns the identity.
fn say(request: &RecordedRequest) -> BackendResponse {
    match request.header("Authorization") {
        Some("Bearer good") => {
            BackendResponse::with_headers(200, &[("X-User", "alice"), ("X-Team", "red")], "")
        }
        Some("Bearer empty") => BackendResponse::status(204, ""),
        _ => BackendResponse::status(401, ""),
    }
}

const ASKED: &str =
    "backendRefs: [{name: web, port: 80}]\n    filters:\n    - type: ExternalAuth\n      externalAuth: ";

#[tokio::test]
async fn a_service_is_called_over_http_with_the_allowed_headers() {
    let site = Site::new().await;
    let (inside, service) =
        (Backend::http(|_| BackendResponse::ok("inside")).await, Backend::http(say).await);
    site.manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[inside.address()]));
    site.manifests.put("auth.yaml", service_with_endpoints("a", "auth", 81, &[service.address()]));
    let filter = "{protocol: HTTP, backendRef: {name: auth, port: 81}, http: {path: /check, allowedHeaders: [X-Asked]}}";
    site.route("web", &format!("  - {ASKED}{filter}\n"));
    let _fairway = site.run().await;
    let secret = [("Cookie", "id=1"), ("X-Asked", "yes"), ("X-User", "mallory"), ("X-Other", "kept")];
    assert_eq!(site.get("/cart?a=b", &secret).await.status, 401);
    assert_eq!(site.get("/cart", &[("Authorization", "Bearer empty")]).await.status, 500, "204 is not 200");
    assert_eq!(inside.request_count(), 0);
    let fields = [&secret[..], &[("Authorization", "Bearer good")]].concat();
    let response = site.send(Request::post("a.test", "/cart?a=b", "goods").close(), &fields).await;
    assert_eq!(response.status, 200);
    let question = service.requests().pop().unwrap();
    assert_eq!((&*question.method, &*question.target), ("POST", "/check/cart?a=b"));
    assert_eq!((question.header("Host"), question.header("X-Asked")), (Some("a.test"), Some("yes")));
    let unasked = ["Cookie", "X-User", "X-Other", "X-Original-URL"].map(|name| question.header(name));
    assert_eq!(unasked, [None; 4]);
    assert!(question.body.is_empty());
    let received = inside.requests().pop().unwrap();
    assert_eq!(received.header_values("X-User"), ["alice"], "the auth service decides");
    assert_eq!((received.header("X-Team"), received.header("X-Other")), (Some("red"), Some("kept")));
    assert_eq!((&*received.body, &*received.target), (&b"goods"[..], "/cart?a=b"));
}

#[tokio::test]
async fn a_rule_with_an_unusable_filter_is_closed_and_no_other_route_opens_it() {
    let site = Site::new().await;
    let inside = Backend::http(|_| BackendResponse::ok("inside")).await;
    site.manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[inside.address()]));
    site.route("open", "  - backendRefs: [{name: web, port: 80}]\n");
    for (name, filter) in [
        ("missing", "{protocol: HTTP, backendRef: {name: nobody, port: 81}}"),
        ("granted", "{protocol: HTTP, backendRef: {name: web, namespace: other, port: 80}}"),
        ("protocol", "{protocol: LDAP, backendRef: {name: web, port: 80}}"),
        ("body", "{protocol: HTTP, forwardBody: {maxSize: 9}, backendRef: {name: web, port: 80}}"),
    ] {
        let matched = format!("matches: [{{path: {{type: PathPrefix, value: /{name}}}}}]");
        site.route(name, &format!("  - {matched}\n    {ASKED}{filter}\n"));
    }
    let rule = "  - matches: [{path: {type: PathPrefix, value: /share}}]\n    backendRefs:\n    - name: web\n      port: 80\n      \
               filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: web, port: 80}}}]\n";
    site.route("share", rule);
    let _fairway = site.run().await;
    assert_eq!(site.get("/", &[]).await.status, 200);
    for path in ["/missing", "/granted", "/protocol", "/body", "/share"] {
        assert_eq!(site.get(path, &[]).await.status, 500, "{path}");
    }
    assert_eq!(inside.request_count(), 1);
}
