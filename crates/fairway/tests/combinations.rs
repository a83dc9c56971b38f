//! `fairway run` as a process: one scenario for each family of annotations, over HTTP/1 and HTTP/2, plain and TLS, with one worker
//! and with two. Every request uses a new connection, so that all workers receive some.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::wait::WAIT_TIMEOUT;
use fairway_testkit::{Backend, BackendResponse, Fairway, RecordedRequest};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
/// Number of requests that a limited host accepts in the first minute.
const ALLOWED: usize = 4;

/// The protocol of a client.
#[derive(Clone, Copy, Debug)]
struct Way {
    is_http2: bool,
    is_tls: bool,
    /// Distinguishes the hosts with a limit per client.
    name: &'static str,
}

const WAYS: [Way; 4] = [
    Way { is_http2: false, is_tls: false, name: "http1" },
    Way { is_http2: false, is_tls: true, name: "http1-tls" },
    Way { is_http2: true, is_tls: false, name: "http2" },
    Way { is_http2: true, is_tls: true, name: "http2-tls" },
];

/// The parts of a response that scenarios check.
#[derive(Debug)]
struct SeenResponse {
    status: u16,
    fields: http::HeaderMap,
    body: String,
}

impl SeenResponse {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().unwrap())
    }
}

/// The request.
struct Asking<'f> {
    fairway: &'f Fairway,
    way: Way,
}

impl Asking<'_> {
    /// Sends a request for `/p?q=1` of `name.test` with these headers and returns the response.
    async fn get(&self, name: &str, fields: &[(&str, &str)]) -> SeenResponse {
        let address = if self.way.is_tls { self.fairway.https } else { self.fairway.http };
        let stream = TcpStream::connect(address).await.unwrap();
        let host = format!("{name}.test");
        let reply = async {
            if !self.way.is_tls {
                return self.exchange(stream, &host, fields).await;
            }
            let mut config = unverified_client_config();
            config.alpn_protocols =
                vec![if self.way.is_http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
            let name = ServerName::try_from(host.clone()).unwrap();
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
            self.exchange(stream, &host, fields).await
        };
        timeout(WAIT_TIMEOUT, reply).await.expect("a response")
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: &str,
        fields: &[(&str, &str)],
    ) -> SeenResponse {
        let mut request = Request::get("/p?q=1").header("Host", host);
        if self.way.is_http2 {
            let scheme = if self.way.is_tls { "https" } else { "http" };
            request = Request::get(format!("{scheme}://{host}/p?q=1"));
        }
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let stream = TokioIo::new(stream);
        if self.way.is_http2 {
            let (mut sender, serving) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            let serving = tokio::spawn(serving);
            let received = see_response(sender.send_request(request).await.unwrap()).await;
            serving.abort();
            return received;
        }
        let (mut sender, serving) = http1::handshake(stream).await.unwrap();
        let serving = tokio::spawn(serving);
        let received = see_response(sender.send_request(request).await.unwrap()).await;
        serving.abort();
        received
    }
}

async fn see_response(response: http::Response<Incoming>) -> SeenResponse {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    SeenResponse {
        status: parts.status.as_u16(),
        fields: parts.headers,
        body: String::from_utf8(body).unwrap(),
    }
}

/// Backends `web`, `canary`, `auth` and `pages`, and an Ingress for each scenario.
struct Site {
    manifests: Manifests,
    _backends: Vec<Backend>,
}

impl Site {
    async fn new() -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        let users = "metadata: {name: users, namespace: a}\nstringData: {auth: \"u:{PLAIN}secret\"}\n";
        manifests.put("users.yaml", format!("apiVersion: v1\nkind: Secret\n{users}"));
        let mut backends = Vec::new();
        for (name, count) in [("web", 3), ("canary", 1), ("auth", 1), ("pages", 1), ("broken", 1)] {
            let mut addresses = Vec::new();
            for number in 0..count {
                let backend = Backend::http(move |request| respond(name, number, request)).await;
                addresses.push(backend.address());
                backends.push(backend);
            }
            manifests.put(&format!("{name}.yaml"), service_with_endpoints("a", name, 80, &addresses));
        }
        let site = Self { manifests, _backends: backends };
        site.ingresses();
        site
    }

    fn ingresses(&self) {
        self.ingress(
            "session",
            "session",
            "web",
            &[("affinity", "cookie"), ("session-cookie-name", "route")],
        );
        self.ingress("canary", "canary", "web", &[]);
        let canary = [("canary", "true"), ("canary-by-header", "X-Canary")];
        self.ingress("canary-b", "canary", "canary", &canary);
        self.ingress("basic", "basic", "web", &[("auth-type", "basic"), ("auth-secret", "users")]);
        let queries = [
            ("auth-url", "http://auth.a.svc.cluster.local/check"),
            ("auth-response-headers", "X-User"),
            ("auth-signin", "https://login.test/start"),
        ];
        self.ingress("asked", "asked", "web", &queries);
        let pages = [("custom-http-errors", "503"), ("default-backend", "pages")];
        self.ingress("error", "error", "broken", &pages);
        self.ingress("redirect", "redirect", "web", &[("permanent-redirect", "https://new.test/p?q=1")]);
        for way in WAYS {
            let name = format!("limit-{}", way.name);
            self.ingress(&name, &name, "web", &[("limit-rpm", "1"), ("limit-burst-multiplier", "3")]);
        }
    }

    fn ingress(&self, name: &str, host: &str, service: &str, annotations: &[(&str, &str)]) {
        let ingress = Ingress::new("a", name).class(Some("fairway"));
        let ingress = annotations.iter().fold(ingress, |it, (name, value)| it.annotation(name, value));
        let ingress = ingress.route(&format!("{host}.test"), "/", (service, 80));
        self.manifests.put(&format!("ingress-{name}.yaml"), ingress.yaml());
    }
}

/// The response of a backend.
fn respond(name: &str, number: usize, request: &RecordedRequest) -> BackendResponse {
    match name {
        "auth" if request.header("Cookie") == Some("login=good") => {
            BackendResponse::with_headers(202, &[("X-User", "alice")], "")
        }
        "auth" => BackendResponse::status(401, ""),
        "broken" => BackendResponse::status(503, "broken"),
        "pages" => {
            BackendResponse::status(200, format!("page of {}", request.header("X-Code").unwrap_or("nothing")))
        }
        _ => {
            let user = request.header("X-User").unwrap_or("-");
            BackendResponse::ok(format!("{name} {number} {user}"))
        }
    }
}

/// A session keeps its endpoint, whichever worker receives the request.
async fn session(asking: Asking<'_>) {
    let first = asking.get("session", &[]).await;
    assert_eq!(first.status, 200);
    let cookie = first.field("set-cookie").expect("a session starts").to_owned();
    assert_eq!(cookie.contains("; Secure"), asking.way.is_tls, "{cookie}");
    let session = cookie.split(';').next().unwrap();
    for _ in 0..6 {
        let again = asking.get("session", &[("Cookie", session)]).await;
        assert_eq!((&again.body, again.field("set-cookie")), (&first.body, None));
    }
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..40 {
        served.insert(asking.get("session", &[]).await.body);
    }
    assert!(served.len() > 1, "other clients get other endpoints");
}

async fn canary(asking: Asking<'_>) {
    for (value, expected) in [("always", "canary"), ("never", "web"), ("other", "web"), ("always", "canary")]
    {
        let received = asking.get("canary", &[("X-Canary", value)]).await;
        assert_eq!((received.status, received.body.split(' ').next()), (200, Some(expected)), "{value}");
    }
}

async fn password(asking: Asking<'_>) {
    for (credentials, status) in [("u:secret", 200), ("u:wrong", 401), ("v:secret", 401), ("u:secret", 200)] {
        let value = format!("Basic {}", STANDARD.encode(credentials));
        assert_eq!(asking.get("basic", &[("Authorization", &value)]).await.status, status, "{credentials}");
    }
    let received = asking.get("basic", &[]).await;
    assert_eq!((received.status, received.field("www-authenticate")), (401, Some("Basic realm=\"\"")));
}

async fn service(asking: Asking<'_>) {
    let received = asking.get("asked", &[("Cookie", "login=good"), ("X-User", "mallory")]).await;
    assert_eq!((received.status, received.body.split(' ').next_back()), (200, Some("alice")));
    let received = asking.get("asked", &[("X-User", "alice")]).await;
    let scheme = if asking.way.is_tls { "https" } else { "http" };
    let page = format!("https://login.test/start?rd={scheme}://asked.test%2Fp%3Fq%3D1");
    assert_eq!((received.status, received.field("location")), (302, Some(&*page)));
}

async fn error_page(asking: Asking<'_>) {
    let received = asking.get("error", &[]).await;
    assert_eq!((received.status, &*received.body), (200, "page of 503"));
}

async fn redirect(asking: Asking<'_>) {
    let received = asking.get("redirect", &[]).await;
    assert_eq!((received.status, received.field("location")), (301, Some("https://new.test/p?q=1")));
}

/// All workers share the counter.
async fn limit(asking: Asking<'_>) {
    let name = format!("limit-{}", asking.way.name);
    let mut statuses = Vec::new();
    for _ in 0..3 * ALLOWED {
        statuses.push(asking.get(&name, &[]).await.status);
    }
    let expected: Vec<u16> = (0..3 * ALLOWED).map(|turn| if turn < ALLOWED { 200 } else { 503 }).collect();
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn annotations_have_the_same_effect_over_every_protocol_with_any_number_of_workers() {
    for workers in ["1", "2"] {
        let site = Site::new().await;
        let arguments = ["--workers", workers, "--access-log", "off"];
        let fairway = Fairway::ready(Path::new(BINARY), site.manifests.path(), &arguments).await;
        for way in WAYS {
            println!("{workers} workers, {}", way.name);
            let asking = || Asking { fairway: &fairway, way };
            session(asking()).await;
            canary(asking()).await;
            password(asking()).await;
            service(asking()).await;
            error_page(asking()).await;
            redirect(asking()).await;
            limit(asking()).await;
        }
    }
}
