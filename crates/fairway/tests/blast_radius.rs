//! `fairway check --against`: its predictions match the effects of changes. Each planted change is predicted from the requests
//! that a running process has recorded, then made, and the same requests are sent again.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_port};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const CONTROLLER: &str = "fairway.dev/ingress-controller";
const GROUP: &str = "gateway.networking.k8s.io/v1";
/// A host that exists once a change has been read.
const MARKER: &str = "marker.test";

/// Backends that respond with their name and the requested path.
struct Backends(BTreeMap<&'static str, Backend>);

/// Services with their namespaces. The second `web` has the same name.
const SERVICES: [(&str, &str); 7] = [
    ("shop", "web"),
    ("shop", "cart"),
    ("shop", "next"),
    ("shop", "api"),
    ("shop", "split"),
    ("team", "other"),
    ("shop", "web2"),
];

impl Backends {
    async fn new() -> Self {
        let mut backends = BTreeMap::new();
        for (_, name) in SERVICES {
            let shown = name.trim_end_matches('2');
            let backend = Backend::http(move |request| {
                let path = request.target.split('?').next().unwrap_or_default();
                BackendResponse::with_headers(200, &[("X-Backend", shown), ("X-Path", path)], "")
            });
            backends.insert(name, backend.await);
        }
        Self(backends)
    }

    fn address(&self, name: &str) -> SocketAddr {
        self.0[name].address()
    }
}

/// A request that is sent before and after the change.
#[derive(Clone, Copy)]
struct Sent {
    host: &'static str,
    method: &'static str,
    target: &'static str,
    header: Option<(&'static str, &'static str)>,
}

fn get(host: &'static str, target: &'static str) -> Sent {
    Sent { host, method: "GET", target, header: None }
}

/// The requests that are sent for every change.
fn requests() -> Vec<Sent> {
    vec![
        get("shop.test", "/"),
        get("shop.test", "/shop/1"),
        get("shop.test", "/shopping?q=1"),
        get("shop.test", "/cart"),
        get("shop.test", "/cart/1"),
        get("shop.test", "/cart/2?token=secret"),
        Sent { method: "POST", ..get("shop.test", "/cart") },
        get("api.test", "/v1/users"),
        get("api.test", "/v1"),
        get("api.test", "/v2"),
        get("other.test", "/"),
        get("nowhere.test", "/"),
        get("routes.test", "/"),
        Sent { method: "POST", ..get("routes.test", "/orders") },
        Sent { header: Some(("X-Canary", "always")), ..get("shop.test", "/beta") },
    ]
}

/// The response as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    status: u16,
    backend: Option<String>,
    path: Option<String>,
    location: Option<String>,
}

/// A site and the process that serves it.
struct Site {
    manifests: Manifests,
    backends: Backends,
    fairway: Fairway,
    gateway: SocketAddr,
}

fn ingress(namespace: &str, name: &str) -> Ingress {
    Ingress::new(namespace, name).class(Some("fairway"))
}

fn web() -> Ingress {
    ingress("shop", "web").route("shop.test", "/", ("web", 80)).route("shop.test", "/cart", ("cart", 80))
}

fn api(host: &str, rewrite: &str) -> Ingress {
    ingress("shop", "api").annotation("use-regex", "true").annotation("rewrite-target", rewrite).typed_route(
        host,
        "/v1(/|$)(.*)",
        "ImplementationSpecific",
        ("api", 80),
    )
}

fn split(weight: &str) -> Ingress {
    ingress("shop", "split-canary").annotation("canary", "true").annotation("canary-weight", weight).route(
        "split.test",
        "/",
        ("next", 80),
    )
}

fn default(service: &str) -> Ingress {
    ingress("shop", "default").default_backend((service, 80))
}

/// An HTTPRoute with one rule that has these matches and filters.
fn http_route(matches: &str, filters: &str) -> String {
    format!(
        "apiVersion: {GROUP}\nkind: HTTPRoute\nmetadata: {{name: routes, namespace: shop}}\nspec:\n  \
         parentRefs: [{{name: edge}}]\n  hostnames: [routes.test]\n  rules:\n  \
         - matches: [{{{matches}}}]\n    filters: [{filters}]\n    backendRefs: [{{name: web, port: 80}}]\n"
    )
}

fn gateway(port: u16) -> String {
    format!(
        "apiVersion: {GROUP}\nkind: GatewayClass\nmetadata: {{name: fairway}}\n\
         spec: {{controllerName: fairway.dev/gateway-controller}}\n---\n\
         apiVersion: {GROUP}\nkind: Gateway\nmetadata: {{name: edge, namespace: shop}}\nspec:\n  \
         gatewayClassName: fairway\n  listeners: [{{name: http, port: {port}, protocol: HTTP}}]\n"
    )
}

const ANY_PATH: &str = "path: {type: PathPrefix, value: /}";

impl Site {
    async fn new(flags: &[&str]) -> Self {
        let (manifests, backends) = (Manifests::new(), Backends::new().await);
        let port = free_port();
        manifests.put("class.yaml", ingress_class("fairway", CONTROLLER));
        for (namespace, name) in SERVICES {
            let yaml = service_with_endpoints(namespace, name, 80, &[backends.address(name)]);
            manifests.put(&format!("service-{name}.yaml"), yaml);
        }
        let authority = Authority::new("test");
        manifests.put("tls.yaml", authority.leaf(&["shop.test"]).secret_yaml("shop", "tls"));
        for (file, ingress) in [
            ("web.yaml", web()),
            ("api.yaml", api("api.test", "/$2")),
            ("split.yaml", ingress("shop", "split").route("split.test", "/", ("split", 80))),
            ("split-canary.yaml", split("50")),
            ("default.yaml", default("web")),
            ("other.yaml", ingress("team", "other").route("other.test", "/", ("other", 80))),
        ] {
            manifests.put(file, ingress.yaml());
        }
        manifests.put("gateway.yaml", gateway(port));
        manifests.put("routes.yaml", http_route(ANY_PATH, ""));
        let arguments = [&["--workers", "1", "--gateway-address", "127.0.0.1"][..], flags].concat();
        let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &arguments).await;
        let gateway = SocketAddr::new([127, 0, 0, 1].into(), port);
        Self { manifests, backends, fairway, gateway }
    }

    /// Sends a request and returns the response.
    async fn send(&self, sent: &Sent, id: &str) -> Outcome {
        let address = if sent.host == "routes.test" { self.gateway } else { self.fairway.http };
        let mut request = Request::new(sent.method, sent.target)
            .header("Host", sent.host)
            .header("X-Request-ID", id)
            .header("Authorization", "Bearer secret");
        if let Some((name, value)) = sent.header {
            request = request.header(name, value);
        }
        let mut client = Client::connect(address).await.unwrap();
        let response = client.exchange(&request.close()).await.unwrap();
        let header = |name| response.header(name).map(str::to_owned);
        Outcome {
            status: response.status,
            backend: header("X-Backend"),
            path: header("X-Path"),
            location: header("Location"),
        }
    }

    async fn send_all(&self, requests: &[Sent], round: &str) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for (number, sent) in requests.iter().enumerate() {
            outcomes.push(self.send(sent, &format!("{round}-{number}")).await);
        }
        outcomes
    }

    /// The objects of the rules that served these requests, once all are recorded.
    async fn recorded(&self, count: usize, round: &str) -> Vec<String> {
        let page = async || {
            let page = self.fairway.admin("/requests?limit=250").await.unwrap();
            page.json()["exchanges"].as_array().unwrap().clone()
        };
        eventually("all requests are recorded", WAIT_TIMEOUT, || async { page().await.len() >= count }).await;
        let exchanges = page().await;
        let object = |number: usize| {
            let id = format!("{round}-{number}");
            let it = exchanges.iter().find(|it| it["request_id"] == *id).unwrap();
            object(&it["rule"])
        };
        (0..count).map(object).collect()
    }

    /// Makes a change and waits until it is served.
    async fn apply(&self, plant: &Plant) {
        change(&self.manifests, plant);
        // The class may be gone: this Ingress has its own class and is read after the change.
        let class = ingress_class("marker", CONTROLLER);
        let marker = Ingress::new("shop", "marker").class(Some("marker")).route(MARKER, "/", ("api", 80));
        self.manifests.put("zz-marker.yaml", format!("{class}---\n{}", marker.yaml()));
        let is_served =
            || async { self.send(&get(MARKER, "/"), "marker").await.backend.as_deref() == Some("api") };
        eventually("Fairway serves the change", WAIT_TIMEOUT, is_served).await;
    }

    /// Output and exit code of `check --against` for the manifests in `directory`.
    fn check(&self, directory: &Path, additional: &[&str]) -> (i32, Value, String) {
        let against = self.fairway.admin.to_string();
        let arguments = ["check", directory.to_str().unwrap(), "--against", &against, "--output", "json"];
        let (code, out, err) = run(&[&arguments[..], additional].concat());
        (code, serde_json::from_str(&out).unwrap_or(Value::Null), err)
    }
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(BINARY).args(arguments).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

/// The object of a rule; empty without a rule, or for a built-in rule.
fn object(rule: &Value) -> String {
    match rule["kind"].as_str() {
        None | Some("" | "Default") => String::new(),
        Some(kind) => {
            format!("{kind} {}/{}", rule["namespace"].as_str().unwrap(), rule["name"].as_str().unwrap())
        }
    }
}

/// A change: files to write and files to remove.
struct Plant {
    name: &'static str,
    /// Expected numbers of requests that are handled differently and that are undecided; `None` accepts any number.
    predicted: (Option<u64>, u64),
    put: Vec<(&'static str, String)>,
    remove: Vec<&'static str>,
    /// Additional requests.
    more_requests: Vec<Sent>,
}

impl Plant {
    fn new(name: &'static str, otherwise: u64, put: Vec<(&'static str, String)>) -> Self {
        Self { name, predicted: (Some(otherwise), 0), put, remove: Vec::new(), more_requests: Vec::new() }
    }

    fn undecided(self, count: u64) -> Self {
        Self { predicted: (self.predicted.0, count), ..self }
    }
}

fn change(manifests: &Manifests, plant: &Plant) {
    plant.put.iter().for_each(|(file, yaml)| drop(manifests.put(file, yaml)));
    // A missing file may be in the process of being replaced; an empty file takes effect at once.
    plant.remove.iter().for_each(|file| drop(manifests.put(file, "# Nothing.\n")));
}

/// A copy of the manifests with the change.
fn changed(site: &Site, plant: &Plant) -> Manifests {
    let copy = Manifests::new();
    for entry in fs::read_dir(site.manifests.path()).unwrap() {
        let path = entry.unwrap().path();
        copy.put(path.file_name().unwrap().to_str().unwrap(), fs::read_to_string(&path).unwrap());
    }
    change(&copy, plant);
    copy
}

/// Changes of Ingresses.
fn plants_of_ingresses(backends: &Backends) -> Vec<Plant> {
    let planted =
        |name, otherwise, file, ingress: Ingress| Plant::new(name, otherwise, vec![(file, ingress.yaml())]);
    let only_root = ingress("shop", "web").route("shop.test", "/", ("web", 80));
    let narrowed = ingress("shop", "web").route("shop.test", "/shop", ("web", 80)).route(
        "shop.test",
        "/cart",
        ("cart", 80),
    );
    let exact_cart = ingress("shop", "web").route("shop.test", "/", ("web", 80)).typed_route(
        "shop.test",
        "/cart",
        "Exact",
        ("cart", 80),
    );
    let moved = ingress("shop", "web").route("shop.test", "/", ("next", 80)).route(
        "shop.test",
        "/cart",
        ("cart", 80),
    );
    let exact = ingress("shop", "exact").typed_route("shop.test", "/cart/1", "Exact", ("next", 80));
    let regex = ingress("shop", "regex").annotation("use-regex", "true").typed_route(
        "shop.test",
        "/car[st]/[0-9]+",
        "ImplementationSpecific",
        ("next", 80),
    );
    let canary = ingress("shop", "canary")
        .annotation("canary", "true")
        .annotation("canary-by-header", "X-Canary")
        .route("shop.test", "/", ("next", 80));
    let same_service = service_with_endpoints("shop", "web", 80, &[backends.address("web2")]);
    let mut all = vec![
        planted("a path is removed", 4, "web.yaml", only_root),
        planted("a host is renamed", 3, "api.yaml", api("renamed.test", "/$2")),
        planted("a prefix is narrowed", 3, "web.yaml", narrowed),
        planted("a prefix becomes an exact path", 2, "web.yaml", exact_cart),
        planted("another Service", 4, "web.yaml", moved),
        planted("an allow list", 8, "web.yaml", web().annotation("whitelist-source-range", "10.0.0.0/8")),
        planted("a redirect to https", 8, "web.yaml", web().tls(Some("tls"), &["shop.test"])),
        planted("another rewrite", 2, "api.yaml", api("api.test", "/new/$2")),
        planted("an exact path in front of a prefix", 1, "exact.yaml", exact),
        planted("a regular expression", 2, "regex.yaml", regex),
        planted("another default backend", 1, "default.yaml", default("next")),
        planted("a canary by header", 0, "canary.yaml", canary).undecided(5),
        planted("other timeouts", 0, "web.yaml", web().annotation("proxy-read-timeout", "7")),
        planted("an annotation without effect", 0, "web.yaml", web().annotation("example.com/team", "shop")),
        Plant::new("other endpoints", 0, vec![("service-web.yaml", same_service)]),
        Plant::new("a comment", 0, vec![("web.yaml", format!("# The shop.\n{}", web().yaml()))]),
        Plant {
            predicted: (None, 0),
            more_requests: vec![get("split.test", "/"); 12],
            ..planted("a weight becomes 0", 0, "split-canary.yaml", split("0"))
        },
    ];
    let gone =
        |name, otherwise, file| Plant { remove: vec![file], ..Plant::new(name, otherwise, Vec::new()) };
    all.push(gone("the Ingress of another team goes", 1, "other.yaml"));
    // The name is still served, because the flags name it.
    all.push(gone("the IngressClass goes", 0, "class.yaml"));
    all
}

/// Changes of a Gateway API route.
fn plants_of_routes() -> Vec<Plant> {
    let route = |name, otherwise, matches: &str, filters: &str| {
        Plant::new(name, otherwise, vec![("routes.yaml", http_route(matches, filters))])
    };
    let method = format!("{ANY_PATH}, method: POST");
    let header = format!("{ANY_PATH}, headers: [{{name: X-Beta, value: beta}}]");
    let redirect = "{type: RequestRedirect, requestRedirect: {hostname: new.test, statusCode: 301}}";
    let rewrite =
        "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}";
    let mut redirected = route("a redirect of a route", 2, ANY_PATH, redirect);
    // A rule that redirects has no backends.
    redirected.put[0].1 = redirected.put[0].1.replace("    backendRefs: [{name: web, port: 80}]\n", "");
    vec![
        route("a route asks for a method", 1, &method, ""),
        route("a route asks for a header", 0, &header, "").undecided(2),
        route("a route rewrites", 2, ANY_PATH, rewrite),
        redirected,
    ]
}

/// Number of differing requests per object.
fn count(objects: &[String], is_counted: impl Fn(usize) -> bool) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for (number, object) in objects.iter().enumerate() {
        *counts.entry(object.as_str()).or_default() += u64::from(is_counted(number));
    }
    counts
}

/// Predicts a change, makes it, compares the two, and returns the deviations.
async fn check_plant(plant: &Plant, site: &Site) -> Result<(), String> {
    let requests = [requests(), plant.more_requests.clone()].concat();
    let before = site.send_all(&requests, "before").await;
    let objects = site.recorded(requests.len(), "before").await;
    let (code, json, err) = site.check(changed(site, plant).path(), &[]);
    if code == 2 {
        return Err(format!("check ends with 2: {err}"));
    }
    let report = &json["against"];
    site.apply(plant).await;
    let after = site.send_all(&requests, "after").await;
    let actual = count(&objects, |number| before[number] != after[number]);
    let all = count(&objects, |_| true);
    let (mut otherwise, mut undecided) = (BTreeMap::new(), BTreeMap::new());
    for route in report["routes"].as_array().unwrap() {
        let number = |name: &str| route[name].as_u64().unwrap();
        *otherwise.entry(object(route)).or_default() += number("otherwise");
        *undecided.entry(object(route)).or_default() += number("undecided");
    }
    let mut wrong = Vec::new();
    for (object, all) in &all {
        let [predicted, open] =
            [&otherwise, &undecided].map(|counts| counts.get(*object).copied().unwrap_or(0));
        let actual = actual[object];
        if actual < predicted || actual > predicted + open {
            wrong.push(format!(
                "{object:?}: {predicted} of {all} predicted, {open} undecided, {actual} changed"
            ));
        }
    }
    let total = |name: &str| report["totals"][name].as_u64().unwrap();
    let (expected, expected_undecided) = plant.predicted;
    if expected.is_some_and(|expected| expected != total("otherwise"))
        || total("undecided") != expected_undecided
    {
        wrong.push(format!("expected {:?}, not {}", plant.predicted, report["totals"]));
    }
    if report["requests"].as_u64() != Some(requests.len() as u64) || report.to_string().contains("secret") {
        wrong.push("requests are missing, or say too much".to_owned());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("{}\n{report:#}\n{before:#?}\n{after:#?}", wrong.join("\n"))),
    }
}

async fn try_all(plants: impl Fn(&Backends) -> Vec<Plant>) {
    let count = plants(&Backends::new().await).len();
    let mut wrong = Vec::new();
    for number in 0..count {
        let site = Site::new(&[]).await;
        let plant = plants(&site.backends).swap_remove(number);
        if let Err(why) = check_plant(&plant, &site).await {
            wrong.push(format!("{}: {why}", plant.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_for_ingresses_match_the_effects() {
    try_all(plants_of_ingresses).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_for_routes_match_the_effects() {
    try_all(|_| plants_of_routes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_stand_for_requests_that_were_forgotten() {
    // Each worker records one exchange.
    let site = Site::new(&["--recorder-exchanges", "4"]).await;
    let samples = async || {
        let page = site.fairway.admin("/requests?sample=route").await.unwrap();
        page.json()["samples"].as_array().unwrap().clone()
    };
    for target in ["/rare", "/cart"] {
        site.send(&get("shop.test", target), "id-of-it").await;
        let has = || async { samples().await.iter().any(|it| it["path"] == target) };
        eventually("a sample is taken", WAIT_TIMEOUT, has).await;
    }
    for _ in 0..8 {
        site.send(&get("other.test", "/"), "often").await;
    }
    let text = serde_json::to_string(&samples().await).unwrap();
    assert!(
        !["127.0.0.1", "secret", "id-of-it"].iter().any(|it| text.contains(it)),
        "neither addresses nor headers: {text}"
    );
    let moved = ingress("shop", "web").route("shop.test", "/", ("next", 80)).route(
        "shop.test",
        "/cart",
        ("cart", 80),
    );
    let plant = Plant::new("another Service", 1, vec![("web.yaml", moved.yaml())]);
    let changed = changed(&site, &plant);
    let (code, json, err) = site.check(changed.path(), &[]);
    assert_ne!(code, 2, "{err}");
    let report = &json["against"];
    assert_eq!(report["totals"]["otherwise"], 1, "{report:#}");
    assert!(report["samples"].as_u64().unwrap() >= 1, "{report:#}");
    let route = &report["routes"][0];
    assert_eq!((&route["host"], &route["path"]), (&"shop.test".into(), &"/".into()), "{report:#}");
    let change = &route["changes"][0];
    assert_eq!(
        (&change["kind"], &change["example"]["after"]),
        (&"backend".into(), &"Service shop/next:80".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_fit_on_a_page_are_compared() {
    let site = Site::new(&["--recorder-exchanges", "4000"]).await;
    let mut client = Client::connect(site.fairway.http).await.unwrap();
    for number in 0..600 {
        let request = Request::get("shop.test", "/").header("X-Request-ID", &number.to_string());
        assert_eq!(client.exchange(&request).await.unwrap().status, 200);
    }
    let is_recorded = || async {
        let page = site.fairway.admin("/requests?id=599").await.unwrap();
        !page.json()["exchanges"].as_array().unwrap().is_empty()
    };
    eventually("the last request is recorded", WAIT_TIMEOUT, is_recorded).await;
    let (code, json, err) = site.check(site.manifests.path(), &[]);
    assert_ne!(code, 2, "{err}");
    assert_eq!(
        (&json["against"]["requests"], &json["against"]["totals"]["same"]),
        (&600.into(), &600.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_is_that_of_check_unless_a_change_is_to_fail() {
    let site = Site::new(&[]).await;
    site.send_all(&requests(), "before").await;
    site.recorded(requests().len(), "before").await;
    let against = site.fairway.admin.to_string();
    let gone = Plant { remove: vec!["other.yaml"], ..Plant::new("gone", 1, Vec::new()) };
    let changed = changed(&site, &gone);
    let directory = changed.path().to_str().unwrap();
    let plain = run(&["check", directory]).0;
    for (more, expected) in [(&[][..], plain), (&["--fail-on-change"], 1)] {
        let (code, out, err) = run(&[&["check", directory, "--against", &against][..], more].concat());
        assert_eq!(code, expected, "{out}{err}");
        for part in [
            "Against 1 replica: 15 requests of the last",
            "1 would have been treated otherwise",
            "Ingress team/other spec.rules[0].http.paths[0] (other.test/)",
            "1 otherwise (backend): Service team/other:80 -> Service shop/web:80; as GET http://other.test/ with 200 at ",
        ] {
            assert!(out.contains(part), "{part:?} is not in\n{out}");
        }
    }
    let same = site.manifests.path().to_str().unwrap();
    let (code, out, _) = run(&["check", same, "--against", &against, "--fail-on-change"]);
    assert_eq!(
        (code, out.contains("\n0 would have been treated otherwise, 0 under other")),
        (plain, true),
        "{out}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_process_is_reported() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", CONTROLLER));
    let directory = manifests.path().to_str().unwrap();
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &["--recorder-exchanges", "0"]).await;
    let off = fairway.admin.to_string();
    // A server that does not know the page, as an older version would.
    let older = Backend::http(|_| BackendResponse::status(404, "no such page here\n")).await;
    let older = older.address().to_string();
    for (against, part) in [
        ("127.0.0.1:1", "the process at 127.0.0.1:1"),
        (&off, "its flight recorder is off (--recorder-exchanges 0)"),
        (&older, "runs an older version of Fairway"),
    ] {
        let (code, out, err) = run(&["check", directory, "--against", against]);
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(err.contains(part) && err.lines().count() == 1, "{err}");
    }
    let (code, _, err) = run(&["check", directory, "--against", "nonsense"]);
    assert!(code == 2 && err.contains("nor kubernetes"), "{err}");
    let (code, _, err) = run(&["check", directory, "--against", &off, "--output", "html"]);
    assert!(code == 2 && err.contains("supports only --output text"), "{err}");
}
