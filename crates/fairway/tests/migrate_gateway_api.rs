//! The exact output of `migrate gateway-api` for Ingresses, and that Fairway serves both in the same way. `UPDATE_GOLDEN=1` writes
//! the expected files.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::golden;
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::free_address;

use crate::recorded::case::Case;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// Cases whose `said.txt` lists generated requests that differ: upper case in a prefix, or half a path element.
const CASES: [&str; 10] = [
    "backends",
    "bodies",
    "canary",
    "filters",
    "hosts",
    "passthrough",
    "plain",
    "protection",
    "redirects",
    "rewrites",
];

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gateway-api")
}

/// Exit code, standard output and standard error.
fn migrated(arguments: &[&str], input: Option<&str>) -> (i32, String, String) {
    let mut command = Command::new(BINARY);
    command.args(["migrate", "gateway-api", "--ingress-class-compat"]).args(arguments).current_dir(cases());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    _ = child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The result for a case. The settings of the installation allow snippets.
fn migrated_case(case: &str) -> (i32, String, String) {
    migrated(&[&format!("{case}/in.yaml"), "--configmap", "fairway/settings"], None)
}

#[test]
fn whole_installations() {
    for case in CASES {
        let (code, out, err) = migrated_case(case);
        for (file, text) in [("out.yaml", out), ("said.txt", format!("{err}exit code {code}\n"))] {
            golden::check(cases().join(case).join(file), &text);
        }
    }
}

/// A path that reorders a line, which clients may send.
#[test]
fn no_output_contains_deceptive_characters() {
    let service = serde_json::json!({ "name": "web", "port": { "number": 80 } });
    let path =
        serde_json::json!({ "path": "/a\u{202e}b", "pathType": "Prefix", "backend": { "service": service } });
    let ingress = serde_json::json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "ingressClassName": "nginx", "rules": [{ "host": "a.test", "http": { "paths": [path] } }] },
    });
    let (_, out, err) = migrated(&["-"], Some(&ingress.to_string()));
    assert!(out.contains(r#""value": "/a\U0000202eb""#), "{out}{err}");
    assert!(!out.contains('\u{202e}') && !err.contains('\u{202e}'), "{out}{err}");
}

/// The numbers of generated requests in the report of a case: all, and those that are served in the same way.
fn proof(messages: &str) -> (usize, usize) {
    let line = messages.lines().find(|line| line.contains("generated requests lead to")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    (words[2].parse().unwrap(), words[0].parse().unwrap())
}

#[test]
fn routes_serve_the_same_as_the_ingresses() {
    for case in CASES.into_iter().filter(|case| !["redirects", "rewrites"].contains(case)) {
        let (_, _, messages) = migrated_case(case);
        let (all, same) = proof(&messages);
        assert!(all > 4 && all == same, "{case}: {messages}");
    }
    let (_, _, messages) = migrated(&["redirects/in.yaml"], None);
    // A redirect to a URL with a query is closed.
    let (all, same) = proof(&messages);
    let closed = messages
        .lines()
        .filter(|line| line.contains("//search.test/") && line.ends_with("as routes: closed"));
    assert!(closed.count() == all - same && all > same, "{messages}");
    let (_, _, messages) = migrated(&["rewrites/in.yaml"], None);
    // Paths that prefixes of whole elements do not match.
    let (all, same) = proof(&messages);
    assert!(same * 10 > all * 8, "{messages}");
}

/// If a path were only omitted, a less specific path would serve it.
#[test]
fn a_path_that_loses_its_protection_is_closed_unless_the_loss_is_allowed() {
    let (code, out, messages) = migrated(&["protection/in.yaml"], None);
    assert_eq!(code, 1);
    assert!(out.contains("value: /admin") && !out.contains("name: admin\n    port: 80"), "{out}");
    assert!(messages.contains("its paths are closed and return 500"), "{messages}");
    let (code, out, messages) = migrated(&["protection/in.yaml", "--allow-loss"], None);
    assert_eq!(code, 1);
    assert!(
        out.contains("name: admin") && messages.contains("is served without it (--allow-loss)"),
        "{out}{messages}"
    );
    let (all, same) = proof(&messages);
    assert!(same < all, "an open path is not reported as closed: {messages}");
}

/// Other controllers do not know the kind, and clusters without Fairway's CRDs refuse it.
#[test]
fn a_gateway_of_another_class_has_no_policies_of_fairway() {
    let (code, out, messages) = migrated(&["bodies/in.yaml", "--gateway-class", "other"], None);
    assert!(code == 1 && !out.contains("BackendTrafficPolicy"), "{out}");
    let lost = "proxy-body-size: only a Gateway of class fairway has policies for it";
    assert!(messages.contains(lost), "{messages}");
    let (code, out, messages) = migrated(&["filters/in.yaml", "--gateway-class", "other"], None);
    assert!(
        code == 1 && !out.contains("fairway.dev/") && messages.contains("cannot express rewrite-target"),
        "{out}{messages}"
    );
}

/// The losses of the recorded cases, each converted separately: by reason, with their number.
#[test]
fn the_losses_of_the_recorded_cases_match_the_list() {
    let environment =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/environment.yaml"))
            .unwrap();
    let kept_lines: Vec<_> =
        environment.split("\n---\n").filter(|object| !object.contains("kind: Deployment")).collect();
    let around =
        format!("{}\n---\n{}", kept_lines.join("\n---\n"), ingress_class("nginx", "k8s.io/ingress-nginx"));
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for case in Case::all() {
        let ingresses: Vec<_> = case.ingresses.iter().map(ToString::to_string).collect();
        let input = format!("{around}\n---\n{}", ingresses.join("\n---\n"));
        let settings = ["--configmap", "ingress-nginx/ingress-nginx-controller", "-"];
        let (code, _, messages) = migrated(&settings, Some(&input));
        assert!(code < 2, "{}: {messages}", case.name);
        for line in messages.lines().filter_map(|line| line.strip_prefix("lost: Ingress ")) {
            let (_, reason) = line.split_once(": ").unwrap();
            *reasons.entry(reason.replace("nginx.ingress.kubernetes.io/", "")).or_default() += 1;
        }
    }
    let total: usize = reasons.values().sum();
    let lines = reasons.iter().map(|(reason, count)| format!("{count} {reason}\n"));
    let text: String = std::iter::once(format!("{total} in all\n")).chain(lines).collect();
    golden::check(cases().join("lost-of-recorded.txt"), &text);
}

#[test]
fn the_ingresses_alone_are_enough() {
    let input = fs::read_to_string(cases().join("hosts/in.yaml")).unwrap();
    let (code, out, _) =
        migrated(&["-", "--gateway", "infra/front", "--gateway-class", "other"], Some(&input));
    assert_eq!(code, 0);
    assert!(out.contains("gatewayClassName: other") && out.contains("name: front"), "{out}");
    assert!(out.contains("kind: ReferenceGrant"), "{out}");
}

#[test]
fn input_that_cannot_be_converted_is_reported() {
    for (arguments, input, part) in [
        (&["-"][..], "", "holds no manifest"),
        (
            &["-", "--gateway", "edge"],
            "{apiVersion: v1, kind: Service, metadata: {name: a}}",
            "no Ingress to convert",
        ),
        (&["plain/in.yaml", "--gateway", "edge"], "", "is not a NAMESPACE/NAME"),
        (&["missing"], "", "cannot read missing"),
    ] {
        let (code, out, err) = migrated(arguments, Some(input));
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(part), "{part}: {err}");
    }
}

/// A backend that responds with its name; an echo would show headers in which requests to Ingresses and Gateways differ.
async fn named(name: &'static str) -> Backend {
    Backend::http(move |_| BackendResponse::with_headers(200, &[("X-Service", name)], name)).await
}

const INGRESSES: &str = r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/preserve-trailing-slash: "true"}
spec:
  ingressClassName: fairway
  tls: [{hosts: [shop.test], secretName: cert}]
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /exact, pathType: Exact, backend: {service: {name: other, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: next
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/canary: "true"
    nginx.ingress.kubernetes.io/canary-by-header: x-next
spec:
  ingressClassName: fairway
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: other, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: part
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/upstream-vhost: inside.test}
spec:
  ingressClassName: fairway
  rules:
  - host: part.test
    http:
      paths:
      - {path: /part, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: rest, namespace: shop}
spec:
  ingressClassName: fairway
  rules:
  - http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: other, port: {number: 80}}}}
"#;

/// Protections of hosts, one of each kind.
fn protected(manifests: &Manifests, auth: &Backend) {
    manifests.put("auth.yaml", service_with_endpoints("shop", "auth", 80, &[auth.address()]));
    let users = "apiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: shop}\n\
                 stringData: {auth: \"sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\"}\n";
    manifests.put("users.yaml", users);
}

/// The annotations of an Ingress for the host with this name.
fn guarded_ingress(name: &str, annotations: &[(&str, &str)]) -> String {
    let host = format!("{name}.test");
    let ingress = Ingress::new("shop", name).class(Some("fairway")).route(&host, "/", ("web", 80));
    let ingress = annotations.iter().fold(ingress, |ingress, (name, value)| ingress.annotation(name, value));
    ingress.yaml()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_protection_of_an_ingress_protects_its_route() {
    let web = named("web").await;
    let auth = Backend::http(|request| match request.target.starts_with("/yes") {
        true => BackendResponse::with_headers(200, &[("X-User", "alice")], ""),
        false => BackendResponse::status(401, ""),
    })
    .await;
    let (ingresses, routes) = (Manifests::new(), Manifests::new());
    for manifests in [&ingresses, &routes] {
        manifests.put("web.yaml", service_with_endpoints("shop", "web", 80, &[web.address()]));
        protected(manifests, &auth);
    }
    ingresses.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let service = "http://auth.shop.svc.cluster.local";
    let (yes, no) = (format!("{service}/yes?u=$request_uri"), format!("{service}/no"));
    for (name, annotations) in [
        ("password", &[("auth-type", "basic"), ("auth-secret", "users"), ("auth-realm", "shop")][..]),
        ("yes", &[("auth-url", &yes), ("auth-response-headers", "X-User")]),
        ("no", &[("auth-url", &no)]),
        ("sign-in", &[("auth-url", &no), ("auth-signin", "https://login.test/start")]),
        ("near", &[("whitelist-source-range", "127.0.0.0/8"), ("limit-connections", "50")]),
        ("far", &[("whitelist-source-range", "10.0.0.0/8")]),
        ("often", &[("limit-rpm", "1"), ("limit-burst-multiplier", "1")]),
    ] {
        ingresses.put(&format!("{name}.yaml"), guarded_ingress(name, annotations));
    }
    let http = free_address().port().to_string();
    let source = ingresses.path().to_str().unwrap().to_owned();
    let (code, out, messages) = migrated(&[&source, "--public-http-port", &http], None);
    assert_eq!(code, 0, "{messages}");
    routes.put("routes.yaml", out);
    let class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: fairway}\n\
                 spec: {controllerName: fairway.dev/gateway-controller}\n";
    routes.put("gateway-class.yaml", class);
    let ingress_process = Fairway::ready(Path::new(BINARY), ingresses.path(), &["--workers", "1"]).await;
    let gateway = ["--workers", "1", "--gateway-address", "127.0.0.1"];
    let _another = Fairway::ready(Path::new(BINARY), routes.path(), &gateway).await;
    let another = format!("127.0.0.1:{http}").parse().unwrap();
    let good = "Basic c2hhOnNlY3JldA==";
    for (name, credentials, expected) in [
        ("password", None, 401),
        ("password", Some("Basic c2hhOndyb25n"), 401),
        ("yes", None, 200),
        ("no", None, 401),
        ("sign-in", None, 302),
        ("near", None, 200),
        ("far", None, 403),
        ("often", None, 200),
        ("often", None, 200),
        ("often", None, 503),
    ] {
        let host = format!("{name}.test");
        let mut responses = Vec::new();
        for at in [ingress_process.http, another] {
            let request = Request::get(&host, "/a?b=c").close();
            let request = credentials.iter().fold(request, |it, value| it.header("Authorization", value));
            let response = Client::connect(at).await.unwrap().exchange(&request).await.unwrap();
            let headers =
                ["www-authenticate", "location"].map(|name| response.header(name).map(str::to_owned));
            responses.push((response.status, headers));
        }
        assert_eq!(responses[0], responses[1], "{host}");
        assert_eq!(responses[0].0, expected, "{host}");
    }
    for at in [ingress_process.http, another] {
        let request = Request::get("password.test", "/").close().header("Authorization", good);
        assert_eq!(Client::connect(at).await.unwrap().exchange(&request).await.unwrap().status, 200, "{at}");
    }
}

/// The end-to-end proof: `fairway compare` between an address of Ingresses and one of a Gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ingress_address_and_a_gateway_address_respond_identically() {
    let (web, other) = (named("web").await, named("other").await);
    let leaf = Authority::new("test").leaf(&["*.test"]);
    let (ingresses, routes) = (Manifests::new(), Manifests::new());
    for manifests in [&ingresses, &routes] {
        manifests.put("web.yaml", service_with_endpoints("shop", "web", 80, &[web.address()]));
        manifests.put("other.yaml", service_with_endpoints("shop", "other", 80, &[other.address()]));
        manifests.put("cert.yaml", leaf.secret_yaml("shop", "cert"));
    }
    ingresses.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    ingresses.put("ingresses.yaml", INGRESSES);
    let [http, https] = [free_address().port(), free_address().port()].map(|port| port.to_string());
    let flags =
        ["--public-http-port", &http, "--public-https-port", &https, "--default-certificate", "shop/cert"];
    let source = ingresses.path().to_str().unwrap().to_owned();
    let (code, out, messages) = migrated(&[&[&*source][..], &flags].concat(), None);
    assert_eq!(code, 0, "{messages}");
    routes.put("routes.yaml", out);
    let class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: fairway}\n\
                 spec: {controllerName: fairway.dev/gateway-controller}\n";
    routes.put("gateway-class.yaml", class);
    let flags_of_ingresses = [&["--workers", "1"][..], &flags].concat();
    let ingress_process = Fairway::ready(Path::new(BINARY), ingresses.path(), &flags_of_ingresses).await;
    let gateway = ["--workers", "1", "--gateway-address", "127.0.0.1"];
    let _another = Fairway::ready(Path::new(BINARY), routes.path(), &gateway).await;
    let from = format!("127.0.0.1:{}:{}", ingress_process.http.port(), ingress_process.https.port());
    let to = format!("127.0.0.1:{http}:{https}");
    // With the Ingresses and with the routes: both describe what the two sides serve.
    for objects in [&ingresses, &routes] {
        let mut command = Command::new(BINARY);
        command.args(["compare", "--yes", "--output", "json", "--from", &from, "--to", &to]);
        command.arg(objects.path()).args(flags.map(str::to_owned));
        let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let report = String::from_utf8(run.stdout).unwrap();
        let stderr = String::from_utf8(run.stderr).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{stderr}"));
        // The 404 for a path without a rule is generated by the Gateway, and no filter adds HSTS to it.
        let is_own = |it: &serde_json::Value| {
            it["part"] == "header strict-transport-security"
                && it["to"].is_null()
                && it["probe"]["host"] == "part.test"
        };
        let differences = report["differences"].as_array().unwrap();
        assert!(differences.iter().all(is_own), "{report}{stderr}");
        assert_eq!(run.status.code(), Some(i32::from(!differences.is_empty())), "{stderr}");
        assert!(report["probes"]["compared"].as_u64().unwrap() > 10, "{report}");
    }
}
