//! `fairway compare` against two running controllers: no differences between identical ones, each planted difference with the
//! object that explains it, and a clear error for input that cannot be compared.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairway_echo::{EchoOptions, EchoServer, Identity};
use fairway_testkit::backend::{Backend, BackendResponse, ScriptStep};
use fairway_testkit::certificates::{Authority, Leaf};
use fairway_testkit::manifests::{
    Ingress, Manifests, config_map, endpoint_slices, ingress_class, service_with_endpoints,
};
use fairway_testkit::process::{Fairway, Program};
use fairway_testkit::wait::{WAIT_TIMEOUT, free_address};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// `user:` and a hash, in the format of ingress-nginx.
const PASSWORDS: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: basic, namespace: shop}\ndata: {auth: \
                         dXNlcjokNiRXWE1wQndvVGVHbmlwNzhiJFQ1eVpLOUNqLy5GR2lBbTFLdkFvejVtYlMucEM5cWtHTjlsR2M0UEV4R0xoZHVaUE5h\
                         VWRzSzlWR21iYkpZZ1BNd2pZYUU4Qk02Z1NxbUZFSEk3UW8wCg==}\n";

/// The result of a run of the command.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn report(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

async fn echo(service: &str) -> SocketAddr {
    let identity =
        Identity { namespace: "shop".to_owned(), service: service.to_owned(), ..Identity::default() };
    let options =
        EchoOptions { listen: vec!["127.0.0.1:0".parse().unwrap()], identity, ..EchoOptions::default() };
    let server = EchoServer::bind(options).await.unwrap();
    let address = server.addresses()[0];
    tokio::spawn(server.run(std::future::pending()));
    address
}

fn ingress(name: &str) -> Ingress {
    Ingress::new("shop", name).class(Some("fairway"))
}

/// The backends, and the manifests that all sides share.
struct Site {
    web: SocketAddr,
    other_address: SocketAddr,
    leaf: Leaf,
}

impl Site {
    async fn new() -> Self {
        let leaf = Authority::new("test").leaf(&["*.test", "*.wild.test"]);
        Self { web: echo("web").await, other_address: echo("other").await, leaf }
    }

    fn manifests(&self) -> Manifests {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("web.yaml", service_with_endpoints("shop", "web", 80, &[self.web]));
        manifests.put("other.yaml", service_with_endpoints("shop", "other", 80, &[self.other_address]));
        manifests.put("own-service.yaml", service_with_endpoints("shop", "own", 80, &[self.web]));
        manifests.put("cert.yaml", self.leaf.secret_yaml("shop", "cert"));
        manifests.put("basic.yaml", PASSWORDS);
        manifests
    }
}

async fn serving(manifests: &Manifests, arguments: &[&str]) -> Fairway {
    Fairway::ready(Path::new(BINARY), manifests.path(), &[&["--workers", "1"], arguments].concat()).await
}

fn address(fairway: &Fairway) -> String {
    format!("127.0.0.1:{}:{}", fairway.http.port(), fairway.https.port())
}

fn arguments(objects: &Path, from: &str, to: &str, flags: &[&str]) -> Vec<String> {
    let mut all: Vec<String> =
        ["compare", "--pause", "0.1", "--from", from, "--to", to].map(str::to_owned).into();
    all.push(objects.display().to_string());
    all.extend(flags.iter().map(|&argument| argument.to_owned()));
    all
}

/// Runs the command to its end, while the backends of this process keep running.
async fn compared(objects: &Path, from: &str, to: &str, flags: &[&str]) -> Ended {
    let arguments = arguments(objects, from, to, flags);
    let output = tokio::task::spawn_blocking(move || Command::new(BINARY).args(arguments).output().unwrap());
    let output = output.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// A site with everything that could look different although it is the same.
async fn everything(manifests: &Manifests) -> Backend {
    let count = AtomicUsize::new(0);
    let restless = Backend::http(move |_| {
        let count = count.fetch_add(1, Ordering::Relaxed).to_string();
        let cookie = format!("token={count}; Path=/");
        BackendResponse::with_headers(200, &[("X-Count", &count), ("Set-Cookie", &cookie)], &count)
    })
    .await;
    manifests.put("restless.yaml", service_with_endpoints("shop", "restless", 80, &[restless.address()]));
    let twins = [echo("twins").await, echo("twins").await];
    manifests.put("twins.yaml", service_with_endpoints("shop", "twins", 80, &twins));
    let web = ("web", 80);
    let all = [
        ingress("plain").route("plain.test", "/", web).route("plain.test", "/cart", web).typed_route(
            "plain.test",
            "/only",
            "Exact",
            web,
        ),
        ingress("secure").tls(Some("cert"), &["secure.test"]).route("secure.test", "/", web),
        ingress("wild").route("*.wild.test", "/deep/", web),
        ingress("cors")
            .annotation("enable-cors", "true")
            .annotation("cors-allow-origin", "https://*.shop.test")
            .route("cors.test", "/", web),
        ingress("regex").annotation("use-regex", "true").annotation("rewrite-target", "/$2").typed_route(
            "regex.test",
            "/api(/|$)(.*)",
            "ImplementationSpecific",
            web,
        ),
        ingress("split").route("split.test", "/", web),
        ingress("split-next")
            .annotation("canary", "true")
            .annotation("canary-weight", "50")
            .annotation("canary-by-header", "X-Canary")
            .annotation("canary-by-cookie", "beta")
            .route("split.test", "/", ("other", 80)),
        ingress("sticky").annotation("affinity", "cookie").route("sticky.test", "/", ("twins", 80)),
        ingress("basic").annotation("auth-type", "basic").annotation("auth-secret", "basic").route(
            "basic.test",
            "/",
            web,
        ),
        ingress("moved").annotation("permanent-redirect", "https://else.test/").route("moved.test", "/", web),
        ingress("www").annotation("from-to-www-redirect", "true").route("www.names.test", "/", web),
        ingress("limited").annotation("limit-rps", "1").route("limited.test", "/", web),
        ingress("closed").annotation("enable-modsecurity", "true").route("closed.test", "/", web),
        ingress("restless").route("restless.test", "/", ("restless", 80)),
        ingress("gone").route("gone.test", "/", ("nothing", 80)),
        ingress("rest").default_backend(web),
    ];
    for (number, ingress) in all.iter().enumerate() {
        manifests.put(&format!("ingress-{number}.yaml"), ingress.yaml());
    }
    restless
}

#[tokio::test]
async fn two_equal_installations_have_no_difference() {
    let site = Site::new().await;
    let manifests = site.manifests();
    let _restless = everything(&manifests).await;
    let (from, to) = tokio::join!(serving(&manifests, &[]), serving(&manifests, &[]));
    let line = |request: &str, upstream: &str| {
        format!(
            "10.0.0.9 - - [21/Nov/2026:10:00:00 +0000] \"{request} HTTP/1.1\" 200 512 \"-\" \"curl/8.0\" 80 0.002 \
             [{upstream}] [] 10.1.0.1:8080 512 0.002 200 8a9b\n"
        )
    };
    let log = [
        line("GET /cart?from=log", "shop-web-80"),
        line("GET /cart?from=log", "shop-web-80"),
        line("POST /cart", "shop-web-80"),
        line("GET /x", "shop-unknown-80"),
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("access.log");
    std::fs::write(&file, log.concat()).unwrap();
    let flags = ["--yes", "--output", "json", "--access-log", file.to_str().unwrap()];
    let ended = compared(manifests.path(), &address(&from), &address(&to), &flags).await;
    let report = ended.report();
    assert_eq!(report["differences"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let count = |name: &str| report["probes"][name].as_u64().unwrap();
    assert!(count("planned") > 120, "{report:#}");
    assert_eq!(
        [count("compared"), count("identical"), count("different")],
        [count("planned"), count("planned"), 0]
    );
    for part in
        ["body", "header x-count", "value of the cookie token", "header x-request-id received by the backend"]
    {
        assert!(report["left_out"].get(part).is_some(), "{part} in {:#}", report["left_out"]);
    }
    let skipped: Vec<_> =
        report["skipped"].as_array().unwrap().iter().map(|it| it["why"].as_str().unwrap()).collect();
    for why in ["method other than", "no host in the objects", "the same as another line"] {
        assert!(skipped.iter().any(|skipped| skipped.contains(why)), "{why} in {skipped:?}");
    }
    assert_eq!(report.get("partial"), None);
    assert_eq!(report["changed"], Value::Array(Vec::new()));
}

/// The Ingresses of the ingress-nginx recording: every supported annotation, in many combinations.
async fn recorded(manifests: &Manifests, leaf: &Leaf) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    manifests.put("class.yaml", ingress_class("nginx", "k8s.io/ingress-nginx"));
    let environment = std::fs::read_to_string(folder.join("environment.yaml")).unwrap();
    let left_out = |object: &&str| !object.contains("kind: Deployment") && !object.contains("name: cert,");
    let kept_manifests: Vec<_> = environment.split("\n---\n").filter(left_out).collect();
    manifests.put("environment.yaml", kept_manifests.join("\n---\n"));
    manifests.put("certificate.yaml", leaf.secret_yaml("demo", "cert"));
    for service in ["main", "other", "canary", "errors", "auth"] {
        let slices = endpoint_slices("demo", service, &[echo(service).await]);
        manifests.put(&format!("endpoints-{service}.yaml"), slices);
    }
    for case in std::fs::read_dir(folder.join("cases")).unwrap().map(Result::unwrap) {
        let case_of: Value = serde_json::from_slice(&std::fs::read(case.path()).unwrap()).unwrap();
        let ingresses = case_of["ingresses"].as_array().unwrap().iter().map(Value::to_string);
        let name = case.file_name().into_string().unwrap().replace(".json", ".yaml");
        manifests.put(&name, ingresses.collect::<Vec<_>>().join("\n---\n"));
    }
}

#[tokio::test]
async fn two_identical_controllers_have_no_differences_for_any_recorded_ingress() {
    let manifests = Manifests::new();
    recorded(&manifests, &Authority::new("test").leaf(&["*.test"])).await;
    let flags = ["--ingress-class-compat", "--configmap", "ingress-nginx/ingress-nginx-controller"];
    let (from, to) = tokio::join!(serving(&manifests, &flags), serving(&manifests, &flags));
    let arguments = [&["--yes", "--output", "json", "--timeout", "30"][..], &flags].concat();
    let ended = compared(manifests.path(), &address(&from), &address(&to), &arguments).await;
    let report = ended.report();
    assert_eq!(report["differences"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(report["probes"]["identical"].as_u64() > Some(800), "{:#}", report["probes"]);
}

/// An Ingress that differs between the sides.
struct Planted {
    name: &'static str,
    /// Annotations on the first side.
    from: &'static [(&'static str, &'static str)],
    /// Annotations on the second side.
    changed_to: &'static [(&'static str, &'static str)],
    /// The start or end of the part that must differ.
    part: &'static str,
    /// The annotation that must be named.
    annotation: &'static str,
}

const fn planted(
    name: &'static str,
    from: &'static [(&'static str, &'static str)],
    to: &'static [(&'static str, &'static str)],
    part: &'static str,
    annotation: &'static str,
) -> Planted {
    Planted { name, from, changed_to: to, part, annotation }
}

const COOKIE: (&str, &str) = ("affinity", "cookie");
const REWRITTEN: (&str, &str) = ("rewrite-target", "/n");
const CORS: (&str, &str) = ("enable-cors", "true");

/// All hosts have TLS except the one whose name starts with `plain`.
const PLANTED: &[Planted] = &[
    planted("permanent", &[], &[("permanent-redirect", "https://e.test/")], "status", "permanent-redirect"),
    planted("temporal", &[], &[("temporal-redirect", "https://e.test/")], "status", "temporal-redirect"),
    planted(
        "target",
        &[("permanent-redirect", "https://d.test/")],
        &[("permanent-redirect", "https://e.test/")],
        "header location",
        "permanent-redirect",
    ),
    planted("in-clear", &[], &[("ssl-redirect", "false")], "status", "ssl-redirect"),
    planted("plain-forced", &[], &[("force-ssl-redirect", "true")], "status", "force-ssl-redirect"),
    planted("cors", &[], &[CORS], "header access-control-allow-origin", "enable-cors"),
    planted(
        "cors-origin",
        &[CORS],
        &[CORS, ("cors-allow-origin", "https://shop.test")],
        "header access-control-allow-origin",
        "cors-allow-origin",
    ),
    planted(
        "cors-age",
        &[CORS],
        &[CORS, ("cors-max-age", "7")],
        "header access-control-max-age",
        "cors-max-age",
    ),
    planted(
        "answer-field",
        &[],
        &[("fairway.dev/response-headers", r#"{"set": {"X-A": "b"}}"#)],
        "header x-a",
        "fairway.dev/response-headers",
    ),
    planted(
        "request-field",
        &[],
        &[("fairway.dev/request-headers", r#"{"set": {"X-Team": "b"}}"#)],
        "header x-team received by the backend",
        "fairway.dev/request-headers",
    ),
    planted("rewrite", &[], &[("rewrite-target", "/new")], "path received by the backend", "rewrite-target"),
    planted("vhost", &[], &[("upstream-vhost", "v.test")], "host received by the backend", "upstream-vhost"),
    planted(
        "prefix",
        &[REWRITTEN],
        &[REWRITTEN, ("x-forwarded-prefix", "/p")],
        "header x-forwarded-prefix received by the backend",
        "x-forwarded-prefix",
    ),
    planted("sticky", &[], &[COOKIE], "of the cookie INGRESSCOOKIE", "affinity"),
    planted(
        "cookie-name",
        &[COOKIE],
        &[COOKIE, ("session-cookie-name", "route")],
        "of the cookie route",
        "session-cookie-name",
    ),
    planted("passwords", &[], &[("auth-type", "basic"), ("auth-secret", "basic")], "status", "auth-type"),
    planted(
        "asked",
        &[],
        &[("auth-url", "http://web.shop.svc.cluster.local/status/401")],
        "status",
        "auth-url",
    ),
    planted(
        "allowed",
        &[],
        &[("whitelist-source-range", "192.0.2.0/24")],
        "status",
        "whitelist-source-range",
    ),
    planted("denied", &[], &[("denylist-source-range", "127.0.0.0/8")], "status", "denylist-source-range"),
    planted(
        "own-deny",
        &[],
        &[("fairway.dev/deny", r#"{"when": [{"headers": {"X-Bad": "yes"}}]}"#)],
        "status",
        "fairway.dev/deny",
    ),
    planted("app-root", &[], &[("app-root", "/start")], "status", "app-root"),
    planted("firewall", &[], &[("enable-modsecurity", "true")], "status", "enable-modsecurity"),
];

/// The expected report for a host.
struct Expected {
    host: String,
    part: &'static str,
    object: String,
    field: String,
}

fn plant_annotations(web: SocketAddr, from: &Manifests, to: &Manifests, expected: &mut Vec<Expected>) {
    for it in PLANTED {
        let host = format!("{}.test", it.name);
        for (manifests, annotations) in [(from, it.from), (to, it.changed_to)] {
            // A separate Service, because its load balancing affects all Ingresses that use it.
            manifests.put(
                &format!("{}-service.yaml", it.name),
                service_with_endpoints("shop", it.name, 80, &[web]),
            );
            let mut ingress = ingress(it.name).route(&host, "/", (it.name, 80));
            if !it.name.starts_with("plain") {
                ingress = ingress.tls(Some("cert"), &[&host]);
            }
            for (name, value) in annotations {
                ingress = ingress.annotation(name, value);
            }
            manifests.put(&format!("{}.yaml", it.name), ingress.yaml());
        }
        let name = match it.annotation.contains('/') {
            true => it.annotation.to_owned(),
            false => format!("nginx.ingress.kubernetes.io/{}", it.annotation),
        };
        let field = format!("metadata.annotations[\"{name}\"]");
        expected.push(Expected { host, part: it.part, object: format!("Ingress shop/{}", it.name), field });
    }
}

/// Differences in paths, backends, canaries and certificates.
fn plant_structure(from: &Manifests, to: &Manifests, expected: &mut Vec<Expected>) {
    let (web, other) = (("web", 80), ("other", 80));
    let mut expect = |host: &str, part, object: &str, field: &str| {
        expected.push(Expected {
            host: host.to_owned(),
            part,
            object: object.to_owned(),
            field: field.to_owned(),
        });
    };
    let path = "spec.rules[0].http.paths[0]";
    from.put("type.yaml", ingress("type").typed_route("type.test", "/a", "Prefix", web).yaml());
    to.put("type.yaml", ingress("type").typed_route("type.test", "/a", "Exact", web).yaml());
    expect("type.test", "status", "Ingress shop/type", path);

    from.put("backend.yaml", ingress("backend").route("backend.test", "/", web).yaml());
    to.put("backend.yaml", ingress("backend").route("backend.test", "/", other).yaml());
    expect(
        "backend.test",
        "service received by the backend",
        "Ingress shop/backend",
        &format!("{path}.backend"),
    );

    from.put("extra.yaml", ingress("extra").route("extra.test", "/", web).yaml());
    let two = ingress("extra").route("extra.test", "/", web).route("extra.test", "/more", other);
    to.put("extra.yaml", two.yaml());
    let second = "spec.rules[1].http.paths[0].backend";
    expect("extra.test", "service received by the backend", "Ingress shop/extra", second);

    for manifests in [from, to] {
        // A canary affects every Ingress that uses the Service.
        manifests.put("canary.yaml", ingress("canary").route("canary.test", "/", ("own", 80)).yaml());
        let control = ingress("control").tls(Some("cert"), &["control.test"]).route("control.test", "/", web);
        manifests.put("control.yaml", control.yaml());
        let named = ingress("named").tls(Some("own"), &["named.test"]).route("named.test", "/", web);
        manifests.put("named.yaml", named.yaml());
        let authority = Authority::new("each its own");
        manifests.put("own.yaml", authority.leaf(&["named.test"]).secret_yaml("shop", "own"));
    }
    let canary = ingress("canary-next").annotation("canary", "true").annotation("canary-by-header", "X-Next");
    to.put("canary-next.yaml", canary.route("canary.test", "/", other).yaml());
    let field = "metadata.annotations[\"nginx.ingress.kubernetes.io/canary\"]";
    expect("canary.test", "service received by the backend", "Ingress shop/canary-next", field);
    expect("named.test", "certificate", "Secret shop/own", "data[\"tls.crt\"]");
}

#[tokio::test]
async fn each_planted_difference_is_found_and_explained_by_its_object() {
    let site = Site::new().await;
    let (one, other) = (site.manifests(), site.manifests());
    let mut expected = Vec::new();
    plant_annotations(site.web, &one, &other, &mut expected);
    plant_structure(&one, &other, &mut expected);
    assert!(expected.len() >= 20);
    let (from, to) = tokio::join!(serving(&one, &[]), serving(&other, &[]));
    let flags = ["--yes", "--output", "json"];
    let ended = compared(other.path(), &address(&from), &address(&to), &flags).await;
    let report = ended.report();
    assert_eq!(ended.code, 1, "{}", ended.err);
    let differences = report["differences"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    for it in &expected {
        let host_differences: Vec<_> =
            differences.iter().filter(|found| found["probe"]["host"] == *it.host).collect();
        let explains = |found: &&&Value| {
            let cause = &found["cause"];
            text(&found["part"]).contains(it.part)
                && cause["object"] == *it.object
                && cause["field"] == *it.field
        };
        if !host_differences.iter().any(|found| explains(&found)) {
            let found = host_differences.iter().map(|it| format!("    {} {}", it["part"], it["cause"]));
            let found = found.collect::<Vec<_>>().join("\n");
            wrong.push(format!("{}: {} by {} {}; found\n{found}", it.host, it.part, it.object, it.field));
        }
        for found in host_differences.iter().filter(|found| found["cause"]["object"] != *it.object) {
            wrong.push(format!("{}: blames another object: {} {}", it.host, found["part"], found["cause"]));
        }
    }
    let planted = |host: &str| expected.iter().any(|it| it.host == host);
    for found in differences.iter().filter(|found| !planted(&text(&found["probe"]["host"]))) {
        wrong.push(format!("nothing was planted on {}: {}", found["probe"]["host"], found["part"]));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_setting_explains_a_difference_without_an_annotation() {
    let site = Site::new().await;
    let (one, other) = (site.manifests(), site.manifests());
    for (manifests, hsts) in [(&one, "true"), (&other, "false")] {
        manifests.put("settings.yaml", config_map("shop", "settings", &[("hsts", hsts)]));
        let ingress =
            ingress("secure").tls(Some("cert"), &["secure.test"]).route("secure.test", "/", ("web", 80));
        manifests.put("secure.yaml", ingress.yaml());
    }
    let flags = ["--configmap", "shop/settings"];
    let (from, to) = tokio::join!(serving(&one, &flags), serving(&other, &flags));
    let arguments = ["--yes", "--configmap", "shop/settings"];
    let ended = compared(other.path(), &address(&from), &address(&to), &arguments).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    for part in [
        "ConfigMap shop/settings data[\"hsts\"]",
        "header strict-transport-security: max-age=31536000; includeSubDomains -> none",
        "1 cause",
    ] {
        assert!(ended.out.contains(part), "{part} in {}", ended.out);
    }
    let page = [&arguments[..], &["--output", "html"]].concat();
    let ended = compared(other.path(), &address(&from), &address(&to), &page).await;
    assert!(
        ended.out.starts_with("<!doctype html>") && ended.out.contains("strict-transport-security"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_certificate_that_only_one_side_has_from_a_trusted_authority_is_a_difference() {
    let site = Site::new().await;
    let (one, other) = (site.manifests(), site.manifests());
    let authority = Authority::new("trusted");
    one.put("cert.yaml", authority.leaf(&["secure.test"]).secret_yaml("shop", "cert"));
    for manifests in [&one, &other] {
        let ingress =
            ingress("secure").tls(Some("cert"), &["secure.test"]).route("secure.test", "/", ("web", 80));
        manifests.put("secure.yaml", ingress.yaml());
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let (from, to) = tokio::join!(serving(&one, &[]), serving(&other, &[]));
    let flags = ["--yes", "--ca", file.to_str().unwrap()];
    let ended = compared(other.path(), &address(&from), &address(&to), &flags).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    for part in [
        "Secret shop/cert data[\"tls.crt\"]",
        "trust in the certificate: trusted -> not trusted",
        "names of the certificate: secure.test -> *.test, *.wild.test",
    ] {
        assert!(ended.out.contains(part), "{part} in {}", ended.out);
    }
    std::fs::write(&file, "nothing").unwrap();
    let refused = compared(other.path(), &address(&from), &address(&to), &flags).await;
    assert!(refused.code == 2 && refused.err.contains("--ca: contains no CA certificate"), "{refused:?}");
}

/// A directory with one plain Ingress.
async fn small(site: &Site) -> Manifests {
    let manifests = site.manifests();
    manifests.put("one.yaml", ingress("one").route("one.test", "/", ("web", 80)).yaml());
    manifests
}

#[tokio::test]
async fn without_yes_nothing_is_sent_and_the_plan_is_printed() {
    let site = Site::new().await;
    let manifests = small(&site).await;
    let backend = Backend::http(|_| BackendResponse::ok("")).await;
    let at = format!("127.0.0.1:{0}:{0}", backend.address().port());
    let ended = compared(manifests.path(), &at, &at, &[]).await;
    assert_eq!(ended.code, 2);
    for part in
        ["GET", "OPTIONS", "TLS handshakes", "one.test", "fairway-compare: 1", "300 per second", "--yes"]
    {
        assert!(ended.out.contains(part), "{part} in {}", ended.out);
    }
    assert_eq!(backend.connection_count(), 0);
}

#[tokio::test]
async fn an_address_without_a_controller_exits_with_two_and_one_line() {
    let site = Site::new().await;
    let manifests = small(&site).await;
    let good = serving(&manifests, &[]).await;
    let ssh =
        Backend::scripted([ScriptStep::Send(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()), ScriptStep::ReadHead])
            .await;
    let silent = Backend::http(|_| BackendResponse::Silence).await;
    let (http, https) = (good.http.port(), good.https.port());
    let nowhere = free_address().port();
    let good = address(&good);
    let path = manifests.path().display().to_string();
    for (to, part) in [
        (format!("127.0.0.1:{nowhere}:{https}"), "no connection: connection refused"),
        (format!("127.0.0.1:{}:{https}", ssh.address().port()), "is not HTTP/1.1"),
        (format!("127.0.0.1:{http}:{http}"), "no TLS"),
        (format!("127.0.0.1:{}:{https}", silent.address().port()), "no response within 3 s"),
        ("no-such-host.invalid".to_owned(), "--to no-such-host.invalid: the name"),
    ] {
        let ended = compared(Path::new(&path), &good, &to, &["--yes", "--timeout", "3"]).await;
        assert_eq!(ended.code, 2, "{to}: {ended:?}");
        assert!(ended.err.contains(part) && ended.err.contains("--to"), "{to}: {}", ended.err);
        assert_eq!((ended.err.lines().count(), ended.out.as_str()), (1, ""), "{to}: {ended:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("class.yaml"), ingress_class("a", "fairway.dev/ingress-controller"))
        .unwrap();
    let ended = compared(empty.path(), &good, &good, &["--yes"]).await;
    assert!(
        ended.code == 2 && ended.err.contains("found no Ingress or Gateway API route to compare"),
        "{ended:?}"
    );
    let missing = PathBuf::from("no/such/directory");
    assert_eq!(compared(&missing, &good, &good, &["--yes"]).await.code, 2);
    let log = compared(manifests.path(), &good, &good, &["--yes", "--access-log", "no/such/file"]).await;
    assert!(log.code == 2 && log.err.contains("--access-log no/such/file"), "{log:?}");
}

/// A backend in place of a controller, which responds to this many requests and then stops responding.
async fn tiring(answered: usize) -> Backend {
    let responses_left = Arc::new(AtomicUsize::new(answered));
    Backend::http(move |_| {
        let took =
            responses_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if took.is_ok() { BackendResponse::ok("the same") } else { BackendResponse::Silence }
    })
    .await
}

#[tokio::test]
async fn a_side_that_stops_responding_gives_a_partial_report() {
    let site = Site::new().await;
    let manifests = small(&site).await;
    for number in 0..10 {
        let host = format!("more-{number}.test");
        manifests.put(&format!("{number}.yaml"), ingress(&host[..6]).route(&host, "/", ("web", 80)).yaml());
    }
    let (steady, tired) = (tiring(usize::MAX).await, tiring(30).await);
    let [from, to] = [&steady, &tired].map(|side| format!("127.0.0.1:{}", side.address().port()));
    let flags = ["--yes", "--only", "http", "--timeout", "1", "--output", "json"];
    let ended = compared(manifests.path(), &from, &to, &flags).await;
    assert_eq!(ended.code, 2, "{ended:?}");
    let report = ended.report();
    let why = report["partial"].as_str().unwrap();
    assert!(why.contains("--to") && why.contains("did not respond"), "{why}");
    assert!(report["probes"]["compared"].as_u64() < report["probes"]["planned"].as_u64(), "{report:#}");
}

#[tokio::test]
async fn a_signal_ends_the_comparison_with_a_partial_report() {
    let site = Site::new().await;
    let manifests = small(&site).await;
    let side = tiring(usize::MAX).await;
    let at = format!("127.0.0.1:{}", side.address().port());
    let flags = ["--yes", "--only", "http", "--rate", "1"];
    let mut program = Program::start(Path::new(BINARY), &arguments(manifests.path(), &at, &at, &flags));
    side.wait_until("three probes after the first of each side", |side| side.request_count() > 4).await;
    program.terminate().unwrap();
    assert_eq!(program.exit_within(WAIT_TIMEOUT).await.code(), Some(2));
    program.line_with("PARTIAL: interrupted; 0 of ").await;
}

#[tokio::test]
async fn objects_that_change_meanwhile_are_named() {
    let site = Site::new().await;
    let manifests = small(&site).await;
    let side = tiring(usize::MAX).await;
    let at = format!("127.0.0.1:{}", side.address().port());
    let flags = ["--yes", "--only", "http", "--rate", "10"];
    let mut program = Program::start(Path::new(BINARY), &arguments(manifests.path(), &at, &at, &flags));
    side.wait_until("a probe", |side| side.request_count() > 2).await;
    let other = ingress("one").annotation("app-root", "/start").route("one.test", "/", ("web", 80));
    manifests.put("one.yaml", other.yaml());
    assert_eq!(program.exit_within(WAIT_TIMEOUT).await.code(), Some(0));
    program.line_with("changed while comparing: Ingress shop/one").await;
}

#[tokio::test]
async fn a_side_that_leads_elsewhere_is_named() {
    let site = Site::new().await;
    let manifests = small(&site).await;
    let away =
        Backend::http(|_| BackendResponse::with_headers(302, &[("Location", "https://login.example/")], ""))
            .await;
    let steady = tiring(usize::MAX).await;
    let [from, to] = [&steady, &away].map(|side| format!("127.0.0.1:{}", side.address().port()));
    let ended = compared(manifests.path(), &from, &to, &["--yes", "--only", "http"]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("to login.example, which no object mentions"), "{}", ended.out);
}

#[tokio::test]
async fn a_secret_that_is_not_in_the_input_is_not_reported_as_missing() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("web.yaml", service_with_endpoints("shop", "web", 80, &[free_address()]));
    let protected = ingress("own").annotation("auth-type", "basic").annotation("auth-secret", "users");
    manifests.put("own.yaml", protected.route("own.test", "/", ("web", 80)).yaml());
    let open = tiring(usize::MAX).await;
    let closed = Backend::http(|_| BackendResponse::with_headers(503, &[], "")).await;
    let [from, to] = [&open, &closed].map(|side| format!("127.0.0.1:{}", side.address().port()));
    let ended = compared(manifests.path(), &from, &to, &["--yes", "--only", "http"]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    let unknown = "cannot tell whether Secret shop/users exists: the input has no Secrets";
    assert!(ended.out.contains(unknown) && !ended.out.contains("does not exist"), "{}", ended.out);
}
