//! The dashboard over sockets: every page shows its content, escaped and without secrets, and only to its audience.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairway_control::admin::dashboard::{
    ClientConnections, ConfigDescriber, Connections, CostCount, Dashboard, ExplainedRequest, FaultCount,
    FleetReplicas, GenerationCost, Inspector, InspectorFuture, KnownReplicas, LiveEndpoint, Numbers,
    RecordedRequests, Replica, TimeBound, UnboundAddress,
};
use fairway_control::admin::{
    Admin, Audience, Healthz, Identity, Pages, Readiness, ScrapeLimits, ServedConfig, TextChunks,
};
use fairway_control::generations::Generations;
use fairway_control::{Engine, EngineOutput, Freshness, Publication, View, Viewer};
use fairway_model::{
    Action, Backend, BackendKey, Certificate, Config, FixedResponseReason, HostKey, HostPattern, Issuance,
    Match, Origin, PathForm, PathMatch, Phases, Policy, PortProtocol, PrivateKey, Route, Rule, RuleLabels,
    RuleOrder, RuleStep, VirtualHost, WeightedBackend,
};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use fairway_objects::options::{GatewayOptions, GatewayPlacement, Options, WithoutClass};
use fairway_objects::resources::Change;
use fairway_routing::MatchVerdict;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::checks::changes;

const NOW: i64 = 1_767_225_600;

/// Describes without hiding anything: all its inputs may be shown.
struct PlainWords;

impl ConfigDescriber for PlainWords {
    fn describe_match(&self, matched: &Match) -> String {
        format!("{matched:?}")
    }

    fn describe_verdict(&self, verdict: &MatchVerdict) -> String {
        format!("{verdict:?}")
    }

    fn describe_step(&self, step: RuleStep<'_>) -> String {
        format!("{step:?}")
    }

    fn describe_policy(&self, policy: &Policy) -> String {
        format!("{policy:?}")
    }

    fn describe_backend(&self, backend: &Backend) -> String {
        format!("{:?}, {:?}", backend.protocol, backend.balancing)
    }

    fn describe_reason(&self, reason: FixedResponseReason) -> String {
        format!("{reason:?}")
    }

    fn explain(&self, _: &View, request: &ExplainedRequest) -> Result<String, String> {
        let ExplainedRequest { url, method, headers } = request;
        match url.starts_with("http") {
            true => Ok(format!("{method} {url} explained with {headers:?}")),
            false => Err(format!("{url}: only http and https")),
        }
    }
}

/// A dashboard of a data plane with these numbers.
pub(crate) fn dashboard() -> Dashboard {
    let numbers = Numbers {
        requests: 4_711,
        by_class: [0, 4_000, 0, 700, 11],
        faults: vec![FaultCount { caused_by: "endpoint", reason: "upstream_timeout", count: 11 }],
        open_connections: 23,
        self_inflicted_last_day: 1_234,
        p50: Some(TimeBound::AtMost(Duration::from_millis(5))),
        p99: Some(TimeBound::Above(Duration::from_secs(10))),
    };
    let count = move || {
        let numbers = numbers.clone();
        Box::pin(async move { Some(numbers) }) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
    };
    Dashboard::new(Box::new(PlainWords), Box::new(count), recorded(), Box::new(Busy))
        .with_generations(generations(), Box::new(|| Box::pin(async { costs() })))
}

/// Two configurations: the second one results from a change of an object whose name must be escaped.
fn generations() -> Arc<Generations> {
    let generations = Generations::default();
    let class = Change::Remove(ObjectRef { kind: Kind::IngressClass, key: ObjectKey::new("", "none") });
    let mut engine = Engine::new(Options::default());
    engine.update(vec![class], NOW);
    let mut outcome = engine.current().cloned().unwrap();
    for name in ["first", "<web>"] {
        outcome.changed.named = vec![ObjectRef { kind: Kind::Ingress, key: ObjectKey::new("shop", name) }];
        outcome.changed.omitted = 3;
        let (outcome, heard) = (outcome.clone(), Instant::now());
        let freshness = Freshness::Current;
        generations.record_publication(&Publication {
            outcome,
            received_at: heard,
            written: None,
            freshness,
        });
    }
    generations.record_adoption(1);
    Arc::new(generations)
}

/// Their costs, as counted by the data plane.
fn costs() -> Vec<GenerationCost> {
    let cost = |attribution, is_self_inflicted, count| CostCount {
        attribution,
        is_repeated: false,
        is_self_inflicted,
        count,
    };
    let repeated = CostCount { is_repeated: true, ..cost("endpoint", false, 5) };
    let costs = vec![cost("configuration_change", true, 42), cost("client", false, 7), repeated];
    vec![GenerationCost { version: 1, requests: 977, costs }]
}

/// A data plane that uses one endpoint of every backend, and a fleet of three that disagree.
struct Busy;

impl Inspector for Busy {
    fn endpoints(&self, backends: Vec<BackendKey>, limit: usize) -> InspectorFuture<Vec<LiveEndpoint>> {
        assert!(backends.len() <= 20 && limit <= 100, "{} backends, {limit} endpoints", backends.len());
        let endpoint = |backend| LiveEndpoint {
            fails_checks: false,
            backend,
            address: "10.9.9.9:8080".parse().unwrap(),
            carrier: PortProtocol::Tcp,
            workers: 2,
            ejected_by: 1,
            probed_by: 0,
            suspected_by: 0,
            ejected_for: Duration::from_millis(1_500),
            failures: 0,
            under_way: 17,
            idle: 31,
            busy: 18,
            latency: Some(Duration::from_micros(12_340)),
            connect_time: Some(Duration::from_micros(560)),
        };
        let endpoints = backends.into_iter().map(endpoint).collect();
        Box::pin(async { endpoints })
    }

    fn connections(&self) -> InspectorFuture<Option<Connections>> {
        let clients = [("http", "HTTP/1", 5), ("http", "HTTP/2", 2)]
            .map(|(listener, speaks, count)| ClientConnections { listener: listener.into(), speaks, count });
        let unbound = UnboundAddress {
            listener: "https".into(),
            address: "0.0.0.0:443".parse().unwrap(),
            reason: "in use".to_owned(),
        };
        let open = Connections {
            clients: clients.into(),
            greeted: 3,
            orphaned: 1,
            idle: 310,
            busy: 180,
            under_way: 170,
            unbound: vec![unbound],
        };
        Box::pin(async { Some(open) })
    }

    fn replicas(&self) -> InspectorFuture<FleetReplicas> {
        let served = |digest: &str| ServedConfig {
            digest: digest.to_owned(),
            version: 7,
            adopted: true,
            freshness: Freshness::Current,
            ingress: None,
            object: None,
            gateways: None,
        };
        let others = [("fairway-1", Ok(served("0123"))), ("fairway-2", Err("no answer <now>".to_owned()))];
        let replicas = others.map(|(name, served)| Replica { name: name.to_owned(), served });
        let others =
            KnownReplicas { own_name: "fairway-0".to_owned(), replicas: replicas.into(), unasked: 0 };
        Box::pin(async { FleetReplicas::Others(others) })
    }
}

/// A data plane that recorded one request.
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
"description":"the endpoint closed the connection before its response","caused_by":"endpoint","attribution":"configuration_change","grpc_status":null,
"request_bytes":10,"response_bytes":0,"sent_bytes":100,"took_us":1234,"waited_us":0,
"rule":{"kind":"Ingress","namespace":"shop","name":"web","field":"spec.rules[0]","service":"web"},
"failed_attempts":[{"endpoint":"10.0.0.1:80","reason":"upstream_closed","status":null,"after_us":900}],
"upstream":{"endpoint":"10.0.0.1:80","status":null,"attempts":1,"hedged":false,"connect_us":0,"header_us":0,"response_us":900}}]}"#;

/// A server for `audience` that shows the state of `viewer`.
fn serve(viewer: Viewer, audience: Audience) -> SocketAddr {
    let pages = Pages {
        viewer,
        readiness: Arc::new(|| Readiness::Ready { adopted: 1, freshness: Freshness::Current }),
        healthz: Healthz::Alive,
        adopted: Box::new(|| 1),
        bound: Box::new(|_| false),
        answer_replica: Box::new(|_| None),
        identity: Identity::new("c", "n", "p", "r"),
        metrics: Box::new(|| Box::pin(async { Box::new(iter::empty()) as TextChunks })),
        scrapes: ScrapeLimits::default(),
        dashboard: dashboard(),
    };
    let admin = Admin::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
    let address = admin.address().unwrap();
    admin.serve(Arc::new(pages), audience).unwrap();
    address
}

fn serve_outcome(outcome: EngineOutput) -> SocketAddr {
    let viewer = Viewer::blank();
    viewer.set_outcome(outcome);
    serve(viewer, Audience::Operators)
}

/// The result of translating manifests.
fn of_manifests(text: &str) -> EngineOutput {
    let configmap = Some(ObjectKey::new("edge", "fairway"));
    let at = GatewayOptions {
        placement: GatewayPlacement::At(vec![Ipv4Addr::LOCALHOST.into()]),
        ..GatewayOptions::default()
    };
    let options =
        Options { configmap, gateways: at, without_class: WithoutClass::Served, ..Options::default() };
    let mut engine = Engine::new(options);
    engine.update(changes(text, "site.yaml"), NOW);
    engine.current().unwrap().clone()
}

/// The result of restoring a configuration.
fn of_config(config: Config) -> EngineOutput {
    let mut engine = Engine::new(Options::default());
    engine.restore(config);
    engine.current().unwrap().clone()
}

/// A host of Ingresses with a rule for a path, defined by an object of this name.
fn host(name: &str, path: &str, object: &str) -> Arc<VirtualHost> {
    let origin = Origin::object("Ingress", "shop", object);
    let rule = Rule {
        origin: origin.at("spec.rules[0]"),
        matches: vec![Match { path: PathMatch::Exact(path.into()), ..Match::default() }],
        phases: Phases::none(),
        action: Action::Forward(vec![WeightedBackend::new(format!("shop/{object}:80").as_str().into(), 1)]),
        policy: Policy::default().shared(),
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

/// A certificate that expires in this many days.
fn certificate(days: i64) -> Arc<Certificate> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Arc::new(Certificate {
        key: "shop/tls".into(),
        origin: Origin::object("Secret", "shop", "tls"),
        chain: Vec::new(),
        private_key: PrivateKey::from_der(b"hunter2-of-the-key"),
        names: vec!["a.test".into()],
        not_after: i64::try_from(now).unwrap() + days * 86_400 + 60,
        issued: Arc::new(Issuance {
            issuer_common_name: "Test CA".to_owned(),
            serial_number: "815".to_owned(),
            ..Issuance::default()
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

/// The complete response to a request with additional header lines.
async fn response(to: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let host = if headers.starts_with("Host:") { "" } else { "Host: localhost\r\n" };
    let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// The text of a page as displayed.
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
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: db, port: 5432, protocol: TLS, tls: {mode: Passthrough}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: db, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: db}]
  hostnames: [db.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: blog, namespace: shop}
spec:
  parentRefs: [{name: edge}]
  hostnames: [blog.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
"#;

/// Pages of [`SITE`], and texts on them.
const PAGES: &[(&str, &[&str])] = &[
    (
        "/dashboard/",
        &["ready: every worker", "4711", "1234", "more than 10 s", "upstream_timeout", "/config"],
    ),
    (
        "/dashboard/",
        &[
            "1 of 3 serve another configuration than this one",
            "1 did not say what they serve",
            "fairway-0 (this one)",
            "serves another one",
            "no answer <now>",
        ],
    ),
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
            "ejected by 1 of 2 workers for 1.5 s more",
            "12.3 ms",
            "0.6 ms",
            "/dashboard/backend?name=shop%2Fweb%3A80",
        ],
    ),
    (
        "/dashboard/backend?name=shop%2Fweb%3A80",
        &["Backend shop/web:80", "10.9.9.9:8080", "ejected by 1 of 2", "31"],
    ),
    (
        "/dashboard/listeners",
        &["1 to 4 of 4", "HTTPS", "table ingress", "3 hosts", "5 HTTP/1", "2 HTTP/2", "in use"],
    ),
    ("/dashboard/listeners?q=PASSED+db", &["1 to 1 of 1", "TLS, passed through", "1 route of connections"]),
    (
        "/dashboard/streams",
        &["1 to 1 of 1", "db.test", "TLSRoute shop/db", "shop/web:80", "name=shop%2Fweb%3A80"],
    ),
    ("/dashboard/streams?table=elsewhere", &["Nothing found", "value=\"elsewhere\""]),
    (
        "/dashboard/connections",
        &["HTTP/1", "q=http", "<dd>11</dd>", "<dd>310</dd>", "<dd>180</dd>", "<dd>170</dd>"],
    ),
    ("/dashboard/hosts?table=ingress&q=cart", &["1 to 1 of 1", "a.test"]),
    ("/dashboard/hosts?table=none", &["Nothing found"]),
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
    (
        "/dashboard/requests?id=4bf9",
        &["X-Request-ID 4bf9", "caused by: endpoint", "on the account of: configuration_change"],
    ),
    ("/dashboard/requests?id=none&all=true", &["This replica remembers no such request"]),
    (
        "/dashboard/generations",
        &[
            "42 self-inflicted errors, on the account of 1 of 2 configurations",
            "Ingress shop/<web>",
            "and 3 more",
            "977",
            "this change: 42",
            "clients: 7",
            "endpoints: 5",
            "1 to 2 of 2",
            "The first one of this process",
        ],
    ),
    ("/dashboard/explain", &["URL", "Fairway sends nothing"]),
    (
        "/dashboard/explain?url=http%3A%2F%2Fa.test%2F&method=POST&headers=X-A%3A+b%0D%0AX-C%3A+d",
        &["POST http://a.test/ explained with [\"X-A: b\", \"X-C: d\"]"],
    ),
];

#[tokio::test]
async fn every_page_shows_its_content_and_no_secret() {
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
async fn a_certificate_is_shown_with_its_users_and_without_its_key() {
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
    viewer.set_outcome_and_source(outcome, [diagnostic].into());
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
        "/dashboard/listeners?q=%3Cscript%3E",
        "/dashboard/streams?table=%3Cscript%3E",
        "/dashboard/backend?name=%3Cscript%3E",
        "/dashboard/hosts?page=%3Cscript%3E",
    ] {
        let page = response(address, path, "").await;
        for raw in ["<script>", "<img", "<field>", "<b>now", "<now>"] {
            assert!(!page.contains(raw), "{path}: {raw}: {page}");
        }
        assert!(page.contains("&lt;script&gt;") || path == "/dashboard/", "{path}: {page}");
    }
    let requests = response(address, "/dashboard/requests", "").await;
    assert!(requests.contains("&lt;cart&gt;") && !requests.contains("<cart>"), "{requests}");
    let changes = response(address, "/dashboard/generations", "").await;
    assert!(changes.contains("&lt;web&gt;") && !changes.contains("<web>"), "{changes}");
}

#[tokio::test]
async fn configurations_and_their_costs_are_available_as_json() {
    let address = serve_outcome(of_manifests(SITE));
    let response = response(address, "/generations", "").await;
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: application/json"), "{head}");
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    let newest = &json["generations"][0];
    for (pointer, expected) in [
        ("/version", serde_json::json!(1)),
        ("/origin", "change".into()),
        ("/changes/0/kind", "Ingress".into()),
        ("/changes/0/namespace", "shop".into()),
        ("/changes/0/name", "<web>".into()),
        ("/more_changes", 3.into()),
        ("/requests", 977.into()),
        ("/self_inflicted_errors", 42.into()),
        ("/failed/client", 7.into()),
        ("/repeated/endpoint", 5.into()),
    ] {
        assert_eq!(newest.pointer(pointer), Some(&expected), "{pointer}: {newest}");
    }
    assert!(newest["adopted_after_ms"].is_u64() && newest["published"].is_string(), "{newest}");
    let first = &json["generations"][1];
    assert_eq!((&first["origin"], &first["requests"]), (&"first".into(), &0.into()), "{first}");
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
        ("/dashboard/backend", 400, "name"),
        ("/dashboard/backend?name=shop%2Fnone", 404, "name"),
        ("/dashboard/listeners?page=0", 400, "page"),
        ("/dashboard/streams?page=9", 404, "page"),
        ("/dashboard/connections?page=x", 400, "page"),
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
        ("/dashboard/icon.svg", 200),
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
    viewer.set_outcome(of_manifests(SITE));
    let address = serve(viewer, Audience::Probes);
    for path in ["/", "/dashboard/", "/dashboard/hosts", "/dashboard/style.css", "/generations"] {
        assert!(response(address, path, "").await.starts_with("HTTP/1.1 404 "), "{path}");
    }
}

#[tokio::test]
async fn without_a_configuration_only_the_first_page_is_available() {
    let address = serve(Viewer::blank(), Audience::Operators);
    let first = shown(address, "/dashboard/").await;
    assert!(first.starts_with("HTTP/1.1 200 ") && first.contains("Nothing has been read yet"), "{first}");
    let hosts = shown(address, "/dashboard/hosts").await;
    assert!(hosts.starts_with("HTTP/1.1 503 ") && hosts.contains("Nothing is served yet"), "{hosts}");
}

/// An event stream, with the response head and its first event, or a refusal.
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
async fn events_update_the_first_page_for_eight_clients_at_a_time() {
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
