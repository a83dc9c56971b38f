//! `fairway run` as a process: what policies for Gateway API protect, and that routes whose protection is unavailable are closed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_testkit::manifests::{Manifests, service_with_endpoints};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_port};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, RecordedRequest, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// The service allows requests with a cookie.
fn say(request: &RecordedRequest) -> BackendResponse {
    match request.header("Cookie") {
        Some("session=good") => BackendResponse::with_headers(200, &[("X-User", "alice")], ""),
        _ => BackendResponse::status(401, ""),
    }
}

/// A Gateway with an HTTPRoute, whose rule for `/open` is named `open`.
struct Site {
    manifests: Manifests,
    backend: Backend,
    gateway: SocketAddr,
    // Kept alive so that it responds.
    _service: Backend,
}

impl Site {
    async fn new() -> Self {
        let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
        let service = Backend::http(say).await;
        let port = free_port();
        let manifests = Manifests::new();
        manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
        manifests.put("auth.yaml", service_with_endpoints("a", "auth", 81, &[service.address()]));
        manifests.put("gateway.yaml", format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: fairway}}\n\
             spec: {{controllerName: fairway.dev/gateway-controller}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge, namespace: a}}\n\
             spec:\n  gatewayClassName: fairway\n  listeners:\n  - {{name: http, port: {port}, protocol: HTTP}}\n"
        ));
        manifests.put(
            "route.yaml",
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web, namespace: a}\n\
             spec:\n  parentRefs: [{name: edge}]\n  rules:\n\
             \x20 - {backendRefs: [{name: web, port: 80}]}\n\
             \x20 - name: open\n    matches: [{path: {type: PathPrefix, value: /open}}]\n\
             \x20   backendRefs: [{name: web, port: 80}]\n",
        );
        let gateway = SocketAddr::from(([127, 0, 0, 1], port));
        Self { manifests, backend, gateway, _service: service }
    }

    fn users(&self) {
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: a}\n\
                      stringData: {alice: \"{PLAIN}secret\"}\n";
        self.manifests.put("users.yaml", secret);
    }

    /// A SecurityPolicy with this name; `spec` is indented by two.
    fn protect(&self, name: &str, kind: &str, target: &str, spec: &str) {
        let targets = format!("[{{group: gateway.networking.k8s.io, kind: {kind}, {target}}}]");
        let policy = format!(
            "apiVersion: fairway.dev/v1alpha1\nkind: SecurityPolicy\nmetadata: {{name: {name}, namespace: a}}\n\
             spec:\n  targetRefs: {targets}\n{spec}"
        );
        self.manifests.put(&format!("policy-{name}.yaml"), policy);
    }

    async fn run(&self) -> Fairway {
        self.run_with(&[]).await
    }

    /// For objects that change: with two workers, the second may still serve the old configuration when the first one has adopted
    /// a change.
    async fn run_with_one_worker(&self) -> Fairway {
        self.run_with(&["--workers", "1"]).await
    }

    async fn run_with(&self, additional: &[&str]) -> Fairway {
        let flags = [&["--gateway-address", "127.0.0.1"], additional].concat();
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &flags).await
    }

    async fn status(&self, path: &str, fields: &[(&str, &str)]) -> u16 {
        let request = Request::get("a.test", path).close();
        let request = fields.iter().fold(request, |request, (name, value)| request.header(name, value));
        Client::connect(self.gateway).await.unwrap().exchange(&request).await.unwrap().status
    }
}

fn password(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}

const PASSWORD: &str = "  basicAuth: {secretRef: {name: users}, format: Map, realm: shop}\n";

#[tokio::test]
async fn a_policy_requires_a_password_and_an_empty_one_does_not() {
    let site = Site::new().await;
    site.users();
    site.protect("login", "Gateway", "name: edge", PASSWORD);
    site.protect("open", "HTTPRoute", "name: web, sectionName: open", "");
    let _fairway = site.run().await;
    assert_eq!(site.status("/", &[]).await, 401);
    assert_eq!(site.status("/", &[("Authorization", &password("alice:wrong"))]).await, 401);
    assert_eq!(site.backend.request_count(), 0);
    assert_eq!(site.status("/", &[("Authorization", &password("alice:secret"))]).await, 200);
    let received = site.backend.requests().pop().unwrap();
    assert_eq!(received.header("Authorization"), None, "endpoints must not get the password");
    assert_eq!(site.status("/open/door", &[]).await, 200);
}

#[tokio::test]
async fn a_service_decides_and_passes_the_user_to_the_endpoint() {
    let site = Site::new().await;
    let spec = "  externalAuth:\n    backendRef: {name: auth, port: 81}\n    path: /check\n    responseHeaders: [X-User]\n";
    site.protect("login", "HTTPRoute", "name: web", spec);
    let _fairway = site.run().await;
    assert_eq!(site.status("/", &[("X-User", "mallory")]).await, 401);
    assert_eq!(site.status("/", &[("Cookie", "session=good"), ("X-User", "mallory")]).await, 200);
    assert_eq!(site.backend.requests().pop().unwrap().header("X-User"), Some("alice"));
}

#[tokio::test]
async fn only_rules_without_available_protection_are_closed() {
    let site = Site::new().await;
    site.protect("login", "HTTPRoute", "name: web", PASSWORD);
    site.protect("open", "HTTPRoute", "name: web, sectionName: open", "");
    let _fairway = site.run_with_one_worker().await;
    let credentials = password("alice:secret");
    let log_in = [("Authorization", &*credentials)];
    assert_eq!(site.status("/", &log_in).await, 503);
    assert_eq!(site.backend.request_count(), 0);
    assert_eq!(site.status("/open", &[]).await, 200);
    let printed = Command::new(BINARY).arg("check").arg(site.manifests.path()).output().unwrap();
    let printed = [printed.stdout, printed.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    let expected = "SecurityPolicy a/login spec.basicAuth.secretRef";
    assert!(
        printed.contains(expected) && printed.contains("cannot tell whether Secret a/users exists"),
        "{printed}"
    );
    site.users();
    eventually("the password is accepted", WAIT_TIMEOUT, || async { site.status("/", &log_in).await == 200 })
        .await;
    assert_eq!(site.status("/", &[]).await, 401);
}

#[tokio::test]
async fn an_unreadable_policy_closes_its_targets_until_it_is_read() {
    let site = Site::new().await;
    let limit = |requests: &str| format!("  rateLimits: [{{requests: {requests}, per: 1h, burst: 1000}}]\n");
    site.protect("limit", "HTTPRoute", "name: web", &limit("'600'"));
    site.protect("open", "HTTPRoute", "name: web, sectionName: open", "");
    let _fairway = site.run_with_one_worker().await;
    assert_eq!([site.status("/", &[]).await, site.status("/open", &[]).await], [503, 503]);
    site.protect("limit", "HTTPRoute", "name: web", &limit("600"));
    eventually("Fairway has read the policy", WAIT_TIMEOUT, || async { site.status("/", &[]).await == 200 })
        .await;
    assert_eq!(site.status("/open", &[]).await, 200);
    // The second file shows when both have been read: this one is read first.
    site.protect("limit", "HTTPRoute", "name: web", &limit("'600'"));
    site.protect("open", "HTTPRoute", "name: web, sectionName: open", "  sourceRange: {deny: [192.0.2.1]}\n");
    eventually("the unknown field", WAIT_TIMEOUT, || async { site.status("/open", &[]).await == 503 }).await;
    assert_eq!(site.status("/", &[]).await, 200, "the last valid policy stays in effect");
}

#[tokio::test]
async fn clients_that_ask_too_often_or_from_elsewhere_are_refused() {
    let site = Site::new().await;
    let limit = "  rateLimits: [{requests: 1, per: 1h, burst: 1, status: 420}]\n";
    site.protect("limit", "HTTPRoute", "name: web", limit);
    site.protect(
        "ranges",
        "HTTPRoute",
        "name: web, sectionName: open",
        "  sourceRanges: {deny: [127.0.0.0/8]}\n",
    );
    let _fairway = site.run().await;
    let statuses = [site.status("/", &[]).await, site.status("/", &[]).await, site.status("/", &[]).await];
    assert_eq!(statuses, [200, 200, 420]);
    assert_eq!(site.status("/open", &[]).await, 403);
}
