//! `fairway run` as a process: policies of Gateway API that concern request and response bodies.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};

use fairway_testkit::manifests::{Manifests, service_with_endpoints};
use fairway_testkit::wait::free_port;
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, Request};
use hyper::body::{Body, Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A Gateway, with one Service for the paths below `/web`, another for those below `/api`, and both for those below `/both`.
struct Site {
    manifests: Manifests,
    gateway: SocketAddr,
    web: Backend,
    api: Backend,
}

impl Site {
    async fn new(response: impl Fn() -> BackendResponse + Send + Sync + Clone + 'static) -> Self {
        let api_response = response.clone();
        let (web, api) =
            (Backend::http(move |_| response()).await, Backend::http(move |_| api_response()).await);
        let (manifests, port) = (Manifests::new(), free_port());
        manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[web.address()]));
        manifests.put("api.yaml", service_with_endpoints("a", "api", 80, &[api.address()]));
        manifests.put("gateway.yaml", format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: fairway}}\n\
             spec: {{controllerName: fairway.dev/gateway-controller}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge, namespace: a}}\n\
             spec:\n  gatewayClassName: fairway\n  listeners:\n  - {{name: http, port: {port}, protocol: HTTP}}\n"
        ));
        let rule = |path: &str, to: &str| {
            format!("  - matches: [{{path: {{value: {path}}}}}]\n    backendRefs: [{to}]\n")
        };
        let (to_web, to_api) = ("{name: web, port: 80}", "{name: api, port: 80}");
        let rules =
            [rule("/web", to_web), rule("/api", to_api), rule("/both", &format!("{to_web}, {to_api}"))];
        manifests.put(
            "route.yaml",
            format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: web, namespace: a}}\n\
                 spec:\n  parentRefs: [{{name: edge}}]\n  rules:\n{}",
                rules.concat()
            ),
        );
        Self { manifests, gateway: SocketAddr::from(([127, 0, 0, 1], port)), web, api }
    }

    /// Writes a policy of this kind for the target; each line of `spec` is indented by two spaces.
    fn put_policy(&self, kind: &str, target: &str, spec: &str) {
        let group = if target.starts_with("kind: Service") { "\"\"" } else { "gateway.networking.k8s.io" };
        let name = target.rsplit(' ').next().unwrap();
        let policy = format!(
            "apiVersion: fairway.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, namespace: a}}\n\
             spec:\n  targetRefs: [{{group: {group}, {target}}}]\n{spec}"
        );
        self.manifests.put(&format!("policy-{name}.yaml"), policy);
    }

    async fn run(&self) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &["--gateway-address", "127.0.0.1"]).await
    }

    fn explain(&self, path: &str) -> String {
        let url = format!("http://a.test:{}{path}", self.gateway.port());
        let arguments = ["explain", &url, "--gateway-address", "127.0.0.1", "--manifests"];
        let output = Command::new(BINARY).args(arguments).arg(self.manifests.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    async fn send_request(&self, request: &Request) -> fairway_testkit::RawResponse {
        Client::connect(self.gateway).await.unwrap().exchange(request).await.unwrap()
    }

    async fn post_with_length(&self, path: &str, length: usize) -> u16 {
        self.send_request(&Request::post("a.test", path, vec![b'x'; length]).close()).await.status
    }

    async fn post_chunked(&self, path: &str, length: usize) -> u16 {
        let chunks = vec!["x".repeat(length / 4); 4];
        self.send_request(&Request::new("POST", path).header("Host", "a.test").chunks(&chunks).close())
            .await
            .status
    }

    /// Sends a body without a length over HTTP/2.
    async fn post_over_http2(&self, path: &str, length: usize) -> u16 {
        let stream = TokioIo::new(TcpStream::connect(self.gateway).await.unwrap());
        let executor = TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = hyper::Request::post(format!("http://a.test{path}"));
        let body = Streamed(Some(vec![b'x'; length].into()));
        let status = sender.send_request(request.body(body).unwrap()).await.unwrap().status();
        connection.abort();
        status.as_u16()
    }
}

/// A body whose length is not known in advance.
struct Streamed(Option<Bytes>);

impl Body for Streamed {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[tokio::test]
async fn another_service_makes_error_pages() {
    let site = Site::new(|| BackendResponse::status(404, "none")).await;
    let pages = "  errorPages: {statuses: [404], backendRef: {name: api, port: 80}}\n";
    site.put_policy("BackendTrafficPolicy", "kind: Service, name: web", pages);
    let _fairway = site.run().await;
    let request = Request::get("a.test", "/web/x?q=1").header("Accept", "text/html").close();
    assert_eq!(site.send_request(&request).await.status, 404);
    assert_eq!((site.web.request_count(), site.api.request_count()), (1, 1));
    let received = site.api.requests().pop().unwrap();
    assert_eq!(received.target, "/?q=1");
    let headers = ["X-Code", "X-Format", "X-Original-URI", "X-Namespace", "X-Ingress-Name", "X-Service-Name"];
    let headers = headers.map(|name| received.header(name).unwrap_or_default());
    assert_eq!(headers, ["404", "text/html", "/web/x?q=1", "a", "web", "web"]);
    site.send_request(&Request::get("a.test", "/api").close()).await;
    assert_eq!(
        site.api.requests().pop().unwrap().header("X-Code"),
        None,
        "the policy applies to the other Service"
    );
    // Each share follows the policy of its Service.
    for _ in 0..8 {
        site.send_request(&Request::get("a.test", "/both").close()).await;
    }
    let error_pages = site.api.requests().iter().skip(2).filter(|it| it.header("X-Code").is_some()).count();
    assert_eq!(error_pages + 1, site.web.request_count());
}

#[tokio::test]
async fn bodies_above_the_limit_of_a_policy_are_413_over_both_protocols() {
    let site = Site::new(|| BackendResponse::ok("fine")).await;
    site.put_policy("ClientTrafficPolicy", "kind: Gateway, name: edge", "  limits: {requestBody: 64Ki}\n");
    site.put_policy("BackendTrafficPolicy", "kind: Service, name: web", "  limits: {requestBody: 1000}\n");
    let _fairway = site.run().await;
    for (path, limit) in [("/web", 1000), ("/api", 65_536)] {
        assert_eq!(
            [site.post_with_length(path, limit).await, site.post_with_length(path, limit + 1).await],
            [200, 413],
            "{path}"
        );
        assert_eq!(
            [site.post_chunked(path, limit).await, site.post_chunked(path, limit + 4).await],
            [200, 413],
            "{path}"
        );
        assert_eq!(
            [site.post_over_http2(path, limit).await, site.post_over_http2(path, limit + 1).await],
            [200, 413],
            "{path}"
        );
    }
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(site.post_chunked("/both", 2000).await);
    }
    statuses.sort_unstable();
    statuses.dedup();
    assert_eq!(statuses, [200, 413], "each share has the limit of its Service");
    let explained = site.explain("/web");
    for described in ["request bodies: at most 65536 bytes", "body at most 1000 bytes"] {
        assert!(explained.contains(described), "{described}: {explained}");
    }
    let explained = site.explain("/both");
    assert!(explained.contains("request bodies: at most 1000 bytes"), "{explained}");
    let largest_body = |backend: &Backend| backend.requests().iter().map(|it| it.body.len()).max();
    assert_eq!((largest_body(&site.web), largest_body(&site.api)), (Some(1000), Some(65_536)));
}

#[tokio::test]
async fn responses_are_compressed_only_for_the_service_with_the_policy() {
    let text =
        || BackendResponse::with_headers(200, &[("Content-Type", "text/plain")], "compressible ".repeat(200));
    let site = Site::new(text).await;
    let compression = "  compression:\n    codings: [{type: Gzip, level: 6}, {type: Brotli}]\n    \
                       contentTypes: [text/plain]\n";
    site.put_policy("BackendTrafficPolicy", "kind: Service, name: web", compression);
    let _fairway = site.run().await;
    let encoded_response = async |path: &str, accepted: &str| {
        let request = Request::get("a.test", path).header("Accept-Encoding", accepted).close();
        let response = site.send_request(&request).await;
        assert_eq!(response.status, 200);
        (response.header("Content-Encoding").map(str::to_owned), response.body.len())
    };
    let (coding, length) = encoded_response("/web", "br, gzip").await;
    assert_eq!(coding.as_deref(), Some("gzip"), "the first coding of the policy");
    assert!(length < 500, "{length}");
    assert_eq!(encoded_response("/web", "br").await.0.as_deref(), Some("br"));
    assert_eq!(encoded_response("/web", "identity").await, (None, 2600));
    assert_eq!(encoded_response("/api", "br, gzip").await, (None, 2600));
    let mut received = Vec::new();
    for _ in 0..40 {
        received.push(encoded_response("/both", "gzip").await.0);
    }
    received.sort();
    received.dedup();
    assert_eq!(received, [None, Some("gzip".to_owned())], "each share follows the policy of its Service");
    let explained = site.explain("/web");
    assert!(explained.contains("gzip at level 6 from 256 bytes (text/plain)"), "{explained}");
}

#[tokio::test]
async fn request_bodies_are_buffered_as_the_policy_of_the_service_says() {
    let site = Site::new(|| BackendResponse::ok("fine")).await;
    let buffering = "  limits: {requestBody: 4000}\n  buffering: {requests: {memory: 5000}}\n";
    site.put_policy("BackendTrafficPolicy", "kind: Service, name: web", buffering);
    let _fairway = site.run().await;
    assert_eq!([site.post_chunked("/web", 4000).await, site.post_chunked("/api", 4000).await], [200, 200]);
    let length = |backend: &Backend| backend.requests()[0].header("Content-Length").map(str::to_owned);
    assert_eq!(
        (length(&site.web), length(&site.api)),
        (Some("4000".to_owned()), None),
        "one body was buffered"
    );
    assert_eq!([site.post_chunked("/web", 4004).await, site.post_over_http2("/web", 4001).await], [413, 413]);
    assert_eq!(site.web.request_count(), 1, "a body that is too large reaches no endpoint");
    for _ in 0..20 {
        assert_eq!(site.post_over_http2("/both", 4000).await, 200);
    }
    let with_length = site.web.requests().iter().filter(|it| it.header("Content-Length").is_some()).count();
    assert_eq!(with_length, site.web.request_count());
}
