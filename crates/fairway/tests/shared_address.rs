//! Gateways at the address of Ingresses, with the real binary: a host moves path by path under load, each rule keeps its
//! protection, and `explain` shows which object serves a request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairway_testkit::certificates::{Authority, unverified_client_config};
use fairway_testkit::client::{Client, Request, TlsOffer};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{Backend, BackendResponse};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const GROUP: &str = "gateway.networking.k8s.io/v1";
const OLD: &str = "2025-01-01T00:00:00Z";

/// Each path of a host with the Service that it leads to.
const PATHS: [(&str, &str); 2] = [("/", "root"), ("/api", "api")];
const HOSTS: usize = 200;
/// Number of hosts that move at the same time.
const TOGETHER: usize = 25;
const CONNECTIONS: usize = 4;

/// A class whose Gateways share the address of Ingresses.
fn class() -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: place, namespace: move}}\ndata: {{address: shared}}\n---\n\
         apiVersion: {GROUP}\nkind: GatewayClass\nmetadata: {{name: shared}}\n\
         spec:\n  controllerName: fairway.dev/gateway-controller\n  \
         parametersRef: {{group: \"\", kind: ConfigMap, name: place, namespace: move}}\n"
    )
}

fn gateway(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: {GROUP}\nkind: Gateway\nmetadata: {{name: {name}, namespace: move, creationTimestamp: \"{OLD}\"}}\n\
         spec:\n  gatewayClassName: shared\n{spec}"
    )
}

/// A route that marks its responses.
fn route(name: &str, gateway: &str, host: &str, path: &str, service: &str) -> String {
    format!(
        "apiVersion: {GROUP}\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: move}}\nspec:\n  \
         parentRefs: [{{name: {gateway}}}]\n  hostnames: [{host}]\n  rules:\n  \
         - matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n    \
         filters: [{{type: ResponseHeaderModifier, responseHeaderModifier: {{set: [{{name: x-by, value: route}}]}}}}]\n    \
         backendRefs: [{{name: {service}, port: 80}}]\n"
    )
}

struct Site {
    manifests: Manifests,
    _backends: Vec<Backend>,
}

impl Site {
    async fn new() -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("gateway-class.yaml", class());
        let mut backends = Vec::new();
        for (_, service) in PATHS {
            let backend = Backend::http(move |_| BackendResponse::ok(service)).await;
            let yaml = service_with_endpoints("move", service, 80, &[backend.address()]);
            manifests.put(&format!("{service}.yaml"), yaml);
            backends.push(backend);
        }
        Self { manifests, _backends: backends }
    }

    async fn run(&self) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &[]).await
    }
}

fn host(number: usize) -> String {
    format!("h{number}.move.test")
}

/// The Ingress of a host with the paths that have not moved; the number identifies the version.
fn put_ingress(manifests: &Manifests, number: usize, generation: usize, stays: impl Fn(&str) -> bool) {
    let file = format!("ingress-{number}.yaml");
    let paths = PATHS.into_iter().filter(|(path, _)| stays(path));
    let rules: String = paths
        .map(|(path, service)| {
            format!(
                "      - {{path: {path}, pathType: Prefix, backend: {{service: {{name: {service}, port: {{number: 80}}}}}}}}\n"
            )
        })
        .collect();
    if rules.is_empty() {
        return manifests.remove(&file);
    }
    manifests.put(
        &file,
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: h{number}, namespace: move, \
             creationTimestamp: \"{OLD}\", generation: {generation}}}\nspec:\n  ingressClassName: fairway\n  rules:\n  \
             - host: {}\n    http:\n      paths:\n{rules}",
            host(number)
        ),
    );
}

/// Requests all paths of all hosts repeatedly; returns the number of responses and a description of wrong ones.
async fn load(at: SocketAddr, first: usize, stop: Arc<AtomicBool>) -> (usize, BTreeMap<String, usize>) {
    let (mut answered, mut failed) = (0, BTreeMap::<String, usize>::new());
    let mut client = Client::connect(at).await.unwrap();
    // All connections request different hosts at a time: the step and their number have no common divisor.
    for number in (0..).map(|turn| (first + turn * 37) % HOSTS) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for (path, service) in PATHS {
            let target = format!("{path}?x").replace("/api?", "/api/x?");
            let problem = match client.exchange(&Request::get(&host(number), &target)).await {
                Ok(answer) if answer.status == 200 && answer.text() == service => {
                    answered += 1;
                    if answer.header("connection") == Some("close") {
                        client = Client::connect(at).await.unwrap();
                    }
                    continue;
                }
                Ok(answer) => format!("{target}: {} {}", answer.status, answer.text()),
                Err(error) => format!("{target}: {error}"),
            };
            *failed.entry(problem).or_default() += 1;
            client = Client::connect(at).await.unwrap();
        }
    }
    (answered, failed)
}

/// Waits until the path is served by a route, or by an Ingress, on all of these hosts.
async fn until_served_by_route(at: SocketAddr, hosts: &[usize], path: &str, by_route: bool) {
    for number in hosts {
        let name = host(*number);
        eventually(&format!("{name}{path} from the other API"), WAIT_TIMEOUT, || async {
            let mut client = Client::connect(at).await.unwrap();
            let response = client.exchange(&Request::get(&name, path).close()).await.unwrap();
            assert_eq!(response.status, 200, "{name}{path}");
            (response.header("x-by") == Some("route")) == by_route
        })
        .await;
    }
}

/// Waits until these Ingresses are served as written.
async fn until_ingress(fairway: &Fairway, hosts: &[usize], generation: usize) {
    for number in hosts {
        let query = format!("/served?ingress=move/h{number}");
        eventually(&query, WAIT_TIMEOUT, || async {
            let served = fairway.admin(&query).await.unwrap().json();
            served["ingress"]["generation"] == generation
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_hosts_move_path_by_path_to_routes_and_back_and_no_request_fails() {
    let site = Site::new().await;
    let manifests = &site.manifests;
    manifests
        .put("gateway.yaml", gateway("edge", "  listeners:\n  - {name: http, port: 80, protocol: HTTP}\n"));
    (0..HOSTS).for_each(|number| put_ingress(manifests, number, 1, |_| true));
    let fairway = site.run().await;
    let at = fairway.http;
    let stop = Arc::<AtomicBool>::default();
    let loads = (0..CONNECTIONS).map(|first| tokio::spawn(load(at, first, stop.clone())));
    let loads: Vec<_> = loads.collect();
    let all: Vec<usize> = (0..HOSTS).collect();
    let file = |number: &usize, service: &str| format!("route-{number}-{service}.yaml");
    for (step, (path, service)) in PATHS.into_iter().enumerate().rev() {
        for hosts in all.chunks(TOGETHER) {
            for number in hosts {
                let (name, host) = (format!("h{number}-{service}"), host(*number));
                manifests.put(&file(number, service), route(&name, "edge", &host, path, service));
            }
            until_served_by_route(at, hosts, path, true).await;
            // Hosts after it in the list have moved.
            let stays = |other: &str| PATHS[..step].iter().any(|(path, _)| *path == other);
            hosts.iter().for_each(|number| put_ingress(manifests, *number, 2, stays));
        }
    }
    let config = || async { fairway.admin("/config").await.unwrap().json() };
    let has_ingress = |config: &serde_json::Value| config["hosts"].to_string().contains("\"Ingress\"");
    eventually("no Ingress is left", WAIT_TIMEOUT, || async { !has_ingress(&config().await) }).await;
    for (step, (path, service)) in PATHS.into_iter().enumerate() {
        for hosts in all.chunks(TOGETHER) {
            let generation = 10 + step;
            let is_back = |other: &str| PATHS[..=step].iter().any(|(path, _)| *path == other);
            hosts.iter().for_each(|number| put_ingress(manifests, *number, generation, is_back));
            until_ingress(&fairway, hosts, generation).await;
            hosts.iter().for_each(|number| manifests.remove(&file(number, service)));
            until_served_by_route(at, hosts, path, false).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut answered = 0;
    for load in loads {
        let (own, failed) = load.await.unwrap();
        assert_eq!(failed, BTreeMap::new());
        answered += own;
    }
    assert!(answered > HOSTS * PATHS.len() * 4, "the test exercised nothing: {answered}");
}

/// Status and body for a request for `host` on a connection with the server name `name`, whose client has the identity of `offer`.
async fn over_tls(
    at: SocketAddr,
    offer: &TlsOffer,
    host: &str,
    target: &str,
) -> std::io::Result<(u16, String)> {
    let mut client = Client::connect_tls(at, offer).await?;
    let response = client.exchange(&Request::get(host, target).close()).await?;
    Ok((response.status, response.text()))
}

#[tokio::test]
async fn certificates_belong_to_listeners_and_the_routes_behind_them_to_both_apis() {
    let site = Site::new().await;
    let manifests = &site.manifests;
    let authority = Authority::new("shop");
    let leaf = |name: &str, names: &[&str]| {
        let leaf = authority.leaf(names);
        manifests.put(&format!("{name}-tls.yaml"), leaf.secret_yaml("move", &format!("{name}-tls")));
        leaf
    };
    let (of_gateway, of_wild) = (leaf("shop", &["shop.test"]), leaf("wild", &["*.wild.test"]));
    let (of_ingress, of_deep) =
        (leaf("own", &["shop.test", "other.test"]), leaf("deep", &["deep.wild.test"]));
    leaf("mutual", &["mutual.test"]);
    let pem: String = authority.pem().lines().map(|line| format!("    {line}\n")).collect();
    manifests.put(
        "ca.yaml",
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ca, namespace: move}}\ndata:\n  ca.crt: |\n{pem}"),
    );
    let listener = |name: &str, host: &str| {
        format!(
            "  - {{name: {name}, port: 443, protocol: HTTPS, hostname: \"{host}\", tls: {{certificateRefs: [{{name: {name}-tls}}]}}}}\n"
        )
    };
    let listeners =
        format!("  listeners:\n{}{}", listener("shop", "shop.test"), listener("wild", "*.wild.test"));
    manifests.put("gateway.yaml", gateway("edge", &listeners));
    let verified = format!(
        "  tls: {{frontend: {{default: {{validation: {{caCertificateRefs: [{{group: \"\", kind: ConfigMap, name: ca}}]}}}}}}}}\n  \
         listeners:\n{}",
        listener("mutual", "mutual.test")
    );
    manifests.put("mutual.yaml", gateway("mutual", &verified));
    for (gateway, host) in [("edge", "shop.test"), ("mutual", "mutual.test")] {
        manifests.put(&format!("route-{gateway}.yaml"), route(gateway, gateway, host, "/api", "api"));
    }
    let ingress = |name: &str, host: &str, secret: Option<&str>| {
        let ingress = Ingress::new("move", name).class(Some("fairway")).route(host, "/", ("root", 80));
        let ingress = match secret {
            Some(secret) => ingress.tls(Some(secret), &[host]),
            None => ingress.annotation("ssl-redirect", "false"),
        };
        manifests.put(&format!("ingress-{name}.yaml"), ingress.yaml());
    };
    ingress("shop", "shop.test", Some("own-tls"));
    ingress("other", "other.test", Some("own-tls"));
    ingress("deep", "deep.wild.test", Some("deep-tls"));
    ingress("mutual", "mutual.test", None);
    let fairway = site.run().await;
    let at = fairway.https;

    let anybody = |name: &str| TlsOffer::new(unverified_client_config(), name);
    for (name, shown) in [
        ("shop.test", &of_gateway),
        ("other.test", &of_ingress),
        ("deep.wild.test", &of_deep),
        ("any.wild.test", &of_wild),
    ] {
        let client = Client::connect_tls(at, &anybody(name)).await.unwrap();
        assert_eq!(client.tls().unwrap().chain[0], shown.chain_der[0], "{name}");
    }
    let response = |status: u16, body: &str| (status, body.to_owned());
    let response_of =
        async |offer: &TlsOffer, host: &str, target: &str| over_tls(at, offer, host, target).await.unwrap();
    assert_eq!(response_of(&anybody("shop.test"), "shop.test", "/").await, response(200, "root"));
    assert_eq!(response_of(&anybody("shop.test"), "shop.test", "/api").await, response(200, "api"));
    assert_eq!(response_of(&anybody("deep.wild.test"), "deep.wild.test", "/").await, response(200, "root"));
    // Neither API serves a host on a connection that was not verified for it.
    for name in ["shop.test", "other.test"] {
        for target in ["/", "/api"] {
            assert_eq!(response_of(&anybody(name), "mutual.test", target).await.0, 421, "{name} {target}");
        }
    }
    let known = TlsOffer::new(
        authority.leaf(&["client"]).add_client_certificate(unverified_client_config()),
        "mutual.test",
    );
    for (target, body) in [("/", "root"), ("/api", "api")] {
        assert!(over_tls(at, &anybody("mutual.test"), "mutual.test", target).await.is_err(), "{target}");
        assert_eq!(response_of(&known, "mutual.test", target).await, response(200, body));
    }
}

/// A connection keeps its initial listener, while the target of a path may change.
#[tokio::test]
async fn a_connection_that_began_before_its_host_had_a_listener_follows_the_move_and_evades_no_verification()
{
    let site = Site::new().await;
    let manifests = &site.manifests;
    let authority = Authority::new("shop");
    let ingress = |name: &str| {
        let (host, secret) = (format!("{name}.test"), format!("{name}-tls"));
        manifests.put(&format!("{secret}.yaml"), authority.leaf(&[&host]).secret_yaml("move", &secret));
        let ingress = Ingress::new("move", name).class(Some("fairway")).tls(Some(&secret), &[&host]);
        manifests.put(&format!("ingress-{name}.yaml"), ingress.route(&host, "/", ("root", 80)).yaml());
    };
    ["shop", "mutual"].iter().for_each(|name| ingress(name));
    let pem: String = authority.pem().lines().map(|line| format!("    {line}\n")).collect();
    manifests.put(
        "ca.yaml",
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ca, namespace: move}}\ndata:\n  ca.crt: |\n{pem}"),
    );
    let fairway = site.run().await;
    let connect = async |name: &str| {
        let offer = TlsOffer::new(unverified_client_config(), name);
        Client::connect_tls(fairway.https, &offer).await.unwrap()
    };
    let (mut shop, mut mutual) = (connect("shop.test").await, connect("mutual.test").await);
    let response =
        async |client: &mut Client, host: &str| client.exchange(&Request::get(host, "/")).await.unwrap();
    assert_eq!(response(&mut shop, "shop.test").await.text(), "root");
    assert_eq!(response(&mut mutual, "mutual.test").await.text(), "root");

    for (name, tls) in [
        ("shop", ""),
        (
            "mutual",
            "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]}}}}\n",
        ),
    ] {
        let listener = format!(
            "{tls}  listeners:\n  - {{name: l, port: 443, protocol: HTTPS, hostname: {name}.test, tls: {{certificateRefs: [{{name: {name}-tls}}]}}}}\n"
        );
        manifests.put(&format!("gateway-{name}.yaml"), gateway(name, &listener));
        manifests.put(&format!("route-{name}.yaml"), route(name, name, &format!("{name}.test"), "/", "api"));
    }
    let mut last = None;
    while last.as_deref() != Some("api") {
        last = Some(response(&mut shop, "shop.test").await.text());
        assert!(matches!(last.as_deref(), Some("root" | "api")), "{last:?}");
    }
    manifests.remove("ingress-shop.yaml");
    eventually("the Ingress is gone", WAIT_TIMEOUT, || async {
        fairway.admin("/served?ingress=move/shop").await.unwrap().json()["ingress"].is_null()
    })
    .await;
    assert_eq!(response(&mut shop, "shop.test").await.text(), "api");
    let offer = TlsOffer::new(unverified_client_config(), "mutual.test");
    eventually("clients are verified", WAIT_TIMEOUT, || async {
        over_tls(fairway.https, &offer, "mutual.test", "/").await.is_err()
    })
    .await;
    let refused = response(&mut mutual, "mutual.test").await;
    assert_eq!((refused.status, refused.header("connection")), (421, Some("close")));
}

#[tokio::test]
async fn of_both_apis_the_more_specific_path_serves_then_the_route_and_explain_shows_why() {
    let site = Site::new().await;
    let manifests = &site.manifests;
    manifests
        .put("gateway.yaml", gateway("edge", "  listeners:\n  - {name: http, port: 80, protocol: HTTP}\n"));
    let ingress = Ingress::new("move", "shop").class(Some("fairway"));
    let ingress = ingress.route("shop.test", "/", ("root", 80)).route("shop.test", "/api/v1", ("root", 80));
    manifests.put("ingress.yaml", ingress.typed_route("shop.test", "/api", "Exact", ("root", 80)).yaml());
    // Its only path differs, and the 404 does not come from a rule of an Ingress.
    let narrow = Ingress::new("move", "narrow").class(Some("fairway"));
    manifests.put("narrow.yaml", narrow.route("a.wild.test", "/mine", ("root", 80)).yaml());
    manifests.put("route-api.yaml", route("api", "edge", "shop.test", "/api", "api"));
    manifests.put("route-wild.yaml", route("wild", "edge", "\"*.wild.test\"", "/", "api"));
    let fairway = site.run().await;
    let get = async |host: &str, target: &str| {
        let mut client = Client::connect(fairway.http).await.unwrap();
        client.exchange(&Request::get(host, target).close()).await.unwrap().text()
    };
    for (host, target, by) in [
        ("shop.test", "/", "root"),
        ("shop.test", "/api", "root"),
        ("shop.test", "/api/", "api"),
        ("shop.test", "/api/v2", "api"),
        ("shop.test", "/api/v1/x", "root"),
        ("a.wild.test", "/mine", "root"),
        ("a.wild.test", "/", "api"),
        ("b.c.wild.test", "/mine", "api"),
    ] {
        assert_eq!(get(host, target).await, by, "{host}{target}");
    }
    let explain = |url: &str| {
        let mut command = Command::new(BINARY);
        let output = command.args(["explain", url, "--manifests"]).arg(manifests.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (url, parts) in [
        (
            "http://shop.test/api/v1/x",
            ["rule         Ingress move/shop", "lost: the other API has a rule for a longer path"],
        ),
        (
            "http://shop.test/api",
            ["rule         Ingress move/shop", "lost: the other API has a rule for exactly this path"],
        ),
        (
            "http://a.wild.test/",
            [
                "rule         HTTPRoute move/wild",
                "a route takes precedence over an equally specific Ingress rule",
            ],
        ),
    ] {
        let text = explain(url);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    // The serving object changes with the route, and back.
    manifests.put("route-root.yaml", route("root", "edge", "shop.test", "/", "api"));
    eventually("the route", WAIT_TIMEOUT, || async { get("shop.test", "/").await == "api" }).await;
    manifests.remove("route-root.yaml");
    eventually("the Ingress", WAIT_TIMEOUT, || async { get("shop.test", "/").await == "root" }).await;
}
