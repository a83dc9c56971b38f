//! The dashboard over sockets: every page shows what it is for, escaped and without secrets, and only to those who may see it.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fairway_control::admin::dashboard::{
    AskedRequest, Dashboard, FaultCount, Numbers, RecordedRequests, TimeBound, Words,
};
use fairway_control::admin::{Admin, Audience, Healthz, Identity, Pages, Pieces, Readiness, Scrapes};
use fairway_control::{Engine, Freshness, Outcome, View, Viewer};
use fairway_model::{
    Action, AnswerReason, Backend, Certificate, Config, HostKey, HostPattern, Issued, Match, Origin,
    PathForm, PathMatch, Phases, Policy, PrivateKey, Route, Rule, RuleLabels, RuleOrder, Step, VirtualHost,
    WeightedBackend,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::manifest;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{Options, WithoutClass};
use fairway_objects::resources::Change;
use fairway_routing::MatchVerdict;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NOW: i64 = 1_767_225_600;

/// Words that hide nothing: whatever they are given to say may be shown.
struct PlainWords;

impl Words for PlainWords {
    fn matched(&self, of: &Match) -> String {
        format!("{of:?}")
    }

    fn verdict(&self, of: &MatchVerdict) -> String {
        format!("{of:?}")
    }

    fn step(&self, of: Step<'_>) -> String {
        format!("{of:?}")
    }

    fn policy(&self, of: &Policy) -> String {
        format!("{of:?}")
    }

    fn backend(&self, of: &Backend) -> String {
        format!("{:?}, {:?}", of.protocol, of.balancing)
    }

    fn reason(&self, of: AnswerReason) -> String {
        format!("{of:?}")
    }

    fn explain(&self, _: &View, request: &AskedRequest) -> Result<String, String> {
        let AskedRequest { url, method, headers } = request;
        match url.starts_with("http") {
            true => Ok(format!("{method} {url} explained with {headers:?}")),
            false => Err(format!("{url}: only http and https")),
        }
    }
}

/// A dashboard of a data plane that counted these numbers.
pub(crate) fn dashboard() -> Dashboard {
    let numbers = Numbers {
        requests: 4_711,
        by_class: [0, 4_000, 0, 700, 11],
        faults: vec![FaultCount { caused_by: "endpoint", reason: "upstream_timeout", count: 11 }],
        open_connections: 23,
        p50: Some(TimeBound::AtMost(Duration::from_millis(5))),
        p99: Some(TimeBound::Above(Duration::from_secs(10))),
    };
    let count = move || {
        let numbers = numbers.clone();
        Box::pin(async move { Some(numbers) }) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
    };
    Dashboard::new(Box::new(PlainWords), Box::new(count), recorded())
}

/// A data plane that remembers one request.
fn recorded() -> RecordedRequests {
    Arc::new(|query| {
        Box::pin(async move {
            match query.as_deref() {
                Some("status=blue&failed=true") => Err("status=\"blue\": expected a status".to_owned()),
                Some("failed=true" | "id=4bf9") => Ok(REMEMBERED.to_owned()),
                _ => Ok(r#"{"exchanges":[]}"#.to_owned()),
            }
        })
    })
}

const REMEMBERED: &str = r#"{"exchanges":[{"number":"0-1","time":"2026-11-30T00:00:00.000Z","configuration":3,
"client":"203.0.113.7","scheme":"https","version":"HTTP/2.0","method":"GET","host":"a.test","path":"/<cart>",
"has_query":true,"request_id":"4bf9","user_agent":"curl/8","status":502,"reason":"upstream_closed",
"description":"the endpoint closed the connection before its response","caused_by":"endpoint","grpc_status":null,
"request_bytes":10,"response_bytes":0,"sent_bytes":100,"took_us":1234,"waited_us":0,
"rule":{"kind":"Ingress","namespace":"shop","name":"web","field":"spec.rules[0]","service":"web"},
"failed_attempts":[{"endpoint":"10.0.0.1:80","reason":"upstream_closed","status":null,"after_us":900}],
"upstream":{"endpoint":"10.0.0.1:80","status":null,"attempts":1,"hedged":false,"connect_us":0,"header_us":0,"response_us":900}}]}"#;

/// A server for `audience` that shows what `viewer` does.
fn serve(viewer: Viewer, audience: Audience) -> SocketAddr {
    let pages = Pages {
        viewer,
        readiness: Arc::new(|| Readiness::Ready { adopted: 1, freshness: Freshness::Current }),
        healthz: Healthz::Alive,
        adopted: Box::new(|| 1),
        bound: Box::new(|_| false),
        identity: Identity::new("c", "n", "p", "r"),
        metrics: Box::new(|| Box::pin(async { Box::new(iter::empty()) as Pieces })),
        scrapes: Scrapes::default(),
        dashboard: dashboard(),
    };
    let admin = Admin::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
    let address = admin.address().unwrap();
    admin.serve(Arc::new(pages), audience).unwrap();
    address
}

fn serve_outcome(outcome: Outcome) -> SocketAddr {
    let viewer = Viewer::blank();
    viewer.show(outcome);
    serve(viewer, Audience::Operators)
}

/// What comes of manifests.
fn of_manifests(text: &str) -> Outcome {
    let file: Arc<str> = "site.yaml".into();
    let mut changes = Vec::new();
    for section in manifest::sections(text) {
        if let Some(root) = manifest::parse(&section).unwrap() {
            let objects = manifest::read(&root, &file).objects;
            changes.extend(objects.into_iter().map(|(object, source)| Change::Set(object, Some(source))));
        }
    }
    let configmap = Some(ObjectKey::new("edge", "fairway"));
    let mut engine =
        Engine::new(Options { configmap, without_class: WithoutClass::Served, ..Options::default() });
    engine.update(changes, NOW);
    engine.current().unwrap().clone()
}

/// What comes of a configuration that is kept.
fn of_config(config: Config) -> Outcome {
    let mut engine = Engine::new(Options::default());
    engine.restore(config);
    engine.current().unwrap().clone()
}

/// A host of Ingresses with a rule for a path, which an object of this name gave.
fn host(name: &str, path: &str, object: &str) -> Arc<VirtualHost> {
    let origin = Origin::object("Ingress", "shop", object);
    let rule = Rule {
        origin: origin.at("spec.rules[0]"),
        matches: vec![Match { path: PathMatch::Exact(path.into()), ..Match::default() }],
        phases: Phases::none(),
        action: Action::Forward(vec![WeightedBackend::new(format!("shop/{object}:80").as_str().into(), 1)]),
        policy: Policy::default().kept(),
        labels: RuleLabels::default(),
    };
    Arc::new(VirtualHost {
        key: HostKey { table: "ingress".into(), host: HostPattern::Exact(name.into()) },
        order: RuleOrder::Precedence,
        path_form: PathForm::Decoded,
        routes: vec![Arc::new(Route { origin, created: None, hostname_rank: 0, rules: vec![rule] })],
        certificate: Some("shop/tls".into()),
        clients: None,
        suites: None,
        falls_through: false,
    })
}

/// A certificate that expires in so many days.
fn certificate(days: i64) -> Arc<Certificate> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Arc::new(Certificate {
        key: "shop/tls".into(),
        origin: Origin::object("Secret", "shop", "tls"),
        chain: Vec::new(),
        private_key: PrivateKey::from_der(b"hunter2-of-the-key"),
        names: vec!["a.test".into()],
        not_after: i64::try_from(now).unwrap() + days * 86_400 + 60,
        issued: Arc::new(Issued {
            issuer_common_name: "Test CA".to_owned(),
            serial_number: "815".to_owned(),
            ..Issued::default()
        }),
    })
}

fn config(hosts: impl IntoIterator<Item = Arc<VirtualHost>>) -> Config {
    let mut config = Config::default();
    for host in hosts {
        config.hosts.insert(host.key.clone(), host);
    }
    config.certificates.insert("shop/tls".into(), certificate(5));
    config
}

/// The whole response to a request with further lines in its head.
async fn response(to: SocketAddr, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let host = if more.starts_with("Host:") { "" } else { "Host: localhost\r\n" };
    let request = format!("GET {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The same as people read it.
async fn shown(to: SocketAddr, path: &str) -> String {
    let text = response(to, path, "").await;
    [("&#x2f;", "/"), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&amp;", "&")]
        .into_iter()
        .fold(text, |text, (escaped, plain)| text.replace(escaped, plain))
}

const SITE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: fairway, namespace: edge}
data: {proxy-set-headers: edge/headers}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: headers, namespace: edge}
data: {X-Key: "hunter2-of-the-map"}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.9.9.9]}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    fairway.dev/request-headers: '{"set": {"Authorization": "hunter2-of-the-annotation"}}'
spec:
  rules: [{host: a.test, http: {paths: [{path: /cart, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: other
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/auth-url: "http://alice:hunter2@auth.test/"}
spec:
  rules: [{host: b.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: fairway}
spec: {controllerName: fairway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: fairway
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: blog, namespace: shop}
spec:
  parentRefs: [{name: edge}]
  hostnames: [blog.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
"#;

/// Pages of [`SITE`], and what is on them.
const PAGES: &[(&str, &[&str])] = &[
    ("/dashboard/", &["ready: every worker", "4711", "more than 10 s", "upstream_timeout", "/config"]),
    ("/dashboard/hosts", &["a.test", "b.test", "/cart", "shop/web:80", "Ingress shop/web", "site.yaml:"]),
    ("/dashboard/host?table=ingress&host=a.test", &["Host a.test", "/cart", "Which rule counts"]),
    (
        "/dashboard/rule?table=ingress&host=a.test&route=0&rule=1",
        &[
            "Ingress shop/web",
            "/cart",
            "Wins",
            "request",
            "Authorization",
            "<hidden>",
            "10.9.9.9:8080",
            "Http1",
        ],
    ),
    ("/dashboard/rule?object=Ingress/shop/web", &["1 to 2 of 2", "a.test", "/cart", "shop/web:80"]),
    ("/dashboard/rule?object=Ingress%2Fshop%2Fother", &["b.test", "Diagnostics of the object"]),
    ("/dashboard/certificates", &["None expires within 14 days", "Nothing found"]),
    (
        "/dashboard/gateways",
        &["GatewayClass fairway", "HTTPRoute shop/blog", "Accepted", "parent Gateway edge"],
    ),
    ("/dashboard/gateways?kind=HTTPRoute", &["1 to 1 of 1", "HTTPRoute shop/blog"]),
    ("/dashboard/diagnostics", &["Ingress shop/other", "site.yaml:", "What happens now"]),
    ("/dashboard/diagnostics?object=Ingress/shop/none", &["Nothing found"]),
    (
        "/dashboard/requests",
        &["GET https://a.test/<cart>?...", "upstream_closed", "Ingress shop/web", "1.2 ms", "10.0.0.1:80"],
    ),
    ("/dashboard/requests?id=4bf9", &["X-Request-ID 4bf9", "caused by: endpoint"]),
    ("/dashboard/requests?id=none&all=true", &["This replica remembers no such request"]),
    ("/dashboard/explain", &["URL", "Fairway sends nothing"]),
    (
        "/dashboard/explain?url=http%3A%2F%2Fa.test%2F&method=POST&headers=X-A%3A+b%0D%0AX-C%3A+d",
        &["POST http://a.test/ explained with [\"X-A: b\", \"X-C: d\"]"],
    ),
];

#[tokio::test]
async fn every_page_shows_what_it_is_for_and_no_secret() {
    let address = serve_outcome(of_manifests(SITE));
    for (path, parts) in PAGES {
        let page = shown(address, path).await;
        assert!(page.starts_with("HTTP/1.1 200 "), "{path}: {page}");
        assert!(page.contains("content-type: text/html; charset=utf-8"), "{path}: {page}");
        assert_eq!(page.matches("<h1>").count(), 1, "{path}: {page}");
        for part in *parts {
            assert!(page.contains(part), "{path}: {part}: {page}");
        }
        assert!(!page.contains("hunter2"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_certificate_is_shown_with_who_uses_it_and_without_its_key() {
    let address = serve_outcome(of_config(config([host("a.test", "/", "web")])));
    let page = shown(address, "/dashboard/certificates").await;
    for part in
        ["Secret shop/tls", "5 days left: renew it", "Test CA", "815", "1 expire within 14 days", "a.test"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("hunter2"), "{page}");
}

#[tokio::test]
async fn names_and_paths_of_objects_are_escaped() {
    let outcome = of_config(config([host("a.test", "/<img src=x>", "<script>\"&'")]));
    let origin = Origin::object("Ingress", "shop", "<script>").at("<field>");
    let diagnostic = Diagnostic::new(Severity::Error, "wrong", origin).because("<script>is wrong", "<b>now");
    let viewer = Viewer::blank();
    viewer.show_of(outcome, [diagnostic].into());
    let address = serve(viewer, Audience::Operators);
    for path in [
        "/dashboard/",
        "/dashboard/hosts?q=%3Cscript%3E",
        "/dashboard/hosts",
        "/dashboard/host?table=ingress&host=a.test",
        "/dashboard/rule?table=ingress&host=a.test&route=0&rule=0",
        "/dashboard/diagnostics?object=Ingress/shop/%3Cscript%3E",
        "/dashboard/certificates?q=%3Cscript%3E",
        "/dashboard/gateways?q=%3Cscript%3E",
        "/dashboard/explain?url=%3Cscript%3E",
        "/dashboard/hosts?page=%3Cscript%3E",
    ] {
        let page = response(address, path, "").await;
        for raw in ["<script>", "<img", "<field>", "<b>now"] {
            assert!(!page.contains(raw), "{path}: {raw}: {page}");
        }
        assert!(page.contains("&lt;script&gt;") || path == "/dashboard/", "{path}: {page}");
    }
    let requests = response(address, "/dashboard/requests", "").await;
    assert!(requests.contains("&lt;cart&gt;") && !requests.contains("<cart>"), "{requests}");
}

#[tokio::test]
async fn rules_are_searched_and_listed_in_pages() {
    let hosts =
        (0..250).map(|number| host(&format!("h{number:03}.test"), "/cart", &format!("web-{number:03}")));
    let address = serve_outcome(of_config(config(hosts)));
    let first = shown(address, "/dashboard/hosts").await;
    assert!(first.contains("1 to 100 of 250") && first.contains("h099.test"), "{first}");
    assert!(!first.contains("h100.test") && first.contains("?page=2"), "{first}");
    let last = shown(address, "/dashboard/hosts?q=CART&page=3").await;
    assert!(last.contains("201 to 250 of 250") && last.contains("?q=CART&page=2"), "{last}");
    for one in ["q=h007", "q=web-007", "q=shop%2Fweb-007", "object=Ingress/shop/web-007"] {
        let page = shown(address, &format!("/dashboard/hosts?{one}")).await;
        assert!(page.contains("1 to 1 of 1") && page.contains("h007.test"), "{one}: {page}");
    }
    let none = shown(address, "/dashboard/hosts?q=elsewhere").await;
    assert!(none.contains("Nothing found"), "{none}");
}

#[tokio::test]
async fn a_bad_parameter_is_named() {
    let address = serve_outcome(of_manifests(SITE));
    for (path, status, parameter) in [
        ("/dashboard/hosts?page=0", 400, "page"),
        ("/dashboard/hosts?page=99", 404, "page"),
        ("/dashboard/hosts?object=Ingress", 400, "object"),
        ("/dashboard/host?host=a.test", 400, "table"),
        ("/dashboard/host?table=ingress&host=z.test", 404, "host"),
        ("/dashboard/rule?table=ingress&host=a.test&route=0&rule=x", 400, "rule"),
        ("/dashboard/rule?table=ingress&host=a.test&route=0&rule=9", 404, "rule"),
        ("/dashboard/rule?object=Ingress/shop/none", 404, "object"),
        ("/dashboard/gateways?kind=Pod", 400, "kind"),
        ("/dashboard/diagnostics?severity=bad", 400, "severity"),
        ("/dashboard/explain?url=http%3A%2F%2Fa.test&method=A%20B", 400, "method"),
    ] {
        let page = shown(address, path).await;
        assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {page}");
        assert!(page.contains(&format!("Parameter {parameter}: ")), "{path}: {page}");
    }
    let page = shown(address, "/dashboard/requests?status=blue").await;
    assert!(
        page.starts_with("HTTP/1.1 400 ") && page.contains("status=\"blue\": expected a status"),
        "{page}"
    );
    let page = shown(address, "/dashboard/explain?url=ftp%3A%2F%2Fa.test").await;
    assert!(page.starts_with("HTTP/1.1 400 ") && page.contains("only http and https"), "{page}");
}

#[tokio::test]
async fn every_response_keeps_other_sites_out() {
    let address = serve_outcome(of_manifests(SITE));
    for (path, status) in [
        ("/", 302),
        ("/dashboard", 302),
        ("/dashboard/", 200),
        ("/dashboard/hosts", 200),
        ("/dashboard/style.css", 200),
        ("/dashboard/live.js", 200),
        ("/requests", 200),
        ("/dashboard/none", 404),
    ] {
        let head = response(address, path, "").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        for header in [
            "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
             img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n",
            "x-content-type-options: nosniff\r\n",
            "referrer-policy: no-referrer\r\n",
            "cross-origin-resource-policy: same-origin\r\n",
            "cache-control: no-store\r\n",
        ] {
            assert!(head.contains(header), "{path}: {header}: {head}");
        }
        assert_eq!(head.contains("location: /dashboard/\r\n"), status == 302, "{path}: {head}");
        let foreign = response(address, path, "Host: evil.example\r\n").await;
        assert!(foreign.starts_with("HTTP/1.1 421 "), "{path}: {foreign}");
        let cross_site =
            response(address, path, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n").await;
        assert!(cross_site.starts_with("HTTP/1.1 403 "), "{path}: {cross_site}");
    }
    let opened = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    assert!(response(address, "/dashboard/", opened).await.starts_with("HTTP/1.1 200 "));
    assert!(response(address, "/dashboard/events", opened).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn probes_see_no_dashboard() {
    let viewer = Viewer::blank();
    viewer.show(of_manifests(SITE));
    let address = serve(viewer, Audience::Probes);
    for path in ["/", "/dashboard/", "/dashboard/hosts", "/dashboard/style.css"] {
        assert!(response(address, path, "").await.starts_with("HTTP/1.1 404 "), "{path}");
    }
}

#[tokio::test]
async fn before_anything_is_read_the_first_page_says_so_and_the_others_are_unavailable() {
    let address = serve(Viewer::blank(), Audience::Operators);
    let first = shown(address, "/dashboard/").await;
    assert!(first.starts_with("HTTP/1.1 200 ") && first.contains("Nothing has been read yet"), "{first}");
    let hosts = shown(address, "/dashboard/hosts").await;
    assert!(hosts.starts_with("HTTP/1.1 503 ") && hosts.contains("Nothing is served yet"), "{hosts}");
}

/// A stream of events, with the head of the response and its first event, or a refusal.
async fn stream_of_events(to: SocketAddr) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(b"GET /dashboard/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4_096];
    while !text.contains("\n\n") && !text.contains("HTTP/1.1 503 ") {
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    (stream, text)
}

#[tokio::test]
async fn the_numbers_of_the_first_page_come_as_events_to_eight_at_a_time() {
    let address = serve_outcome(of_manifests(SITE));
    let mut streams = Vec::new();
    for _ in 0..8 {
        let (stream, text) = stream_of_events(address).await;
        assert!(text.contains("content-type: text/event-stream") && text.contains("\"4711\""), "{text}");
        streams.push(stream);
    }
    let (_, ninth) = stream_of_events(address).await;
    assert!(ninth.contains("HTTP/1.1 503 "), "{ninth}");
    drop(streams);
    let again = async {
        loop {
            let (_stream, text) = stream_of_events(address).await;
            if text.contains("data: ") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again).await.expect("clients that leave make room");
}
