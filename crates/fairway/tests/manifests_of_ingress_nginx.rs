//! The real binary in place of ingress-nginx: with the arguments, permissions and settings of its deploy manifests.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use fairway_testkit::api_server::{GATEWAY_API, ListeningServer};
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::process::Program;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_address, free_port};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const NAMESPACE: &str = "ingress-nginx";

/// `args` of the container in `deploy/static/provider/baremetal/deploy.yaml`.
const BARE_METAL: [&str; 8] = [
    "/nginx-ingress-controller",
    "--election-id=ingress-nginx-leader",
    "--controller-class=k8s.io/ingress-nginx",
    "--ingress-class=nginx",
    "--configmap=ingress-nginx/ingress-nginx-controller",
    "--validating-webhook=:8443",
    "--validating-webhook-certificate=/usr/local/certificates/cert",
    "--validating-webhook-key=/usr/local/certificates/key",
];
/// The additional arguments in `deploy/static/provider/cloud/deploy.yaml`.
const PUBLISH_SERVICE: &str = "--publish-service=ingress-nginx/ingress-nginx-controller";

/// The permissions of both manifests.
fn roles() -> [Value; 2] {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let both = [
        rule("", &["services"], &["get", "list", "watch"]),
        rule("networking.k8s.io", &["ingresses"], &["get", "list", "watch"]),
        rule("networking.k8s.io", &["ingresses/status"], &["update"]),
        rule("networking.k8s.io", &["ingressclasses"], &["get", "list", "watch"]),
        rule("", &["events"], &["create", "patch"]),
        rule("discovery.k8s.io", &["endpointslices"], &["list", "watch", "get"]),
    ];
    let everywhere = ["configmaps", "endpoints", "nodes", "pods", "secrets", "namespaces"];
    let cluster = [
        rule("", &everywhere, &["list", "watch"]),
        rule("coordination.k8s.io", &["leases"], &["list", "watch"]),
        rule("", &["nodes"], &["get"]),
    ];
    let mut lease = rule("coordination.k8s.io", &["leases"], &["get", "update"]);
    lease["resourceNames"] = json!(["ingress-nginx-leader"]);
    let rules = [
        rule("", &["namespaces"], &["get"]),
        rule("", &["configmaps", "pods", "secrets", "endpoints"], &["get", "list", "watch"]),
        lease,
        rule("coordination.k8s.io", &["leases"], &["create"]),
    ];
    let (cluster, own) = ([&cluster[..], &both].concat(), [&rules[..], &both].concat());
    [
        json!({ "kind": "ClusterRole", "metadata": {}, "rules": cluster }),
        json!({ "kind": "Role", "metadata": { "namespace": NAMESPACE }, "rules": own }),
    ]
}

/// The objects of the manifests, and an Ingress with an annotation that gives a warning.
async fn cluster() -> ListeningServer {
    let server = cluster_with_gateway_api().await;
    server.undefine_all(GATEWAY_API);
    server
}

/// The same objects in a cluster that also has the CRDs of Gateway API.
async fn cluster_with_gateway_api() -> ListeningServer {
    let server = ListeningServer::start().await;
    roles().iter().for_each(|role| server.grant(role));
    let named = |name: &str| json!({ "namespace": NAMESPACE, "name": name });
    let class = json!({ "metadata": { "name": "nginx" }, "spec": { "controller": "k8s.io/ingress-nginx" } });
    server.put("ingressclasses", class);
    server.put("configmaps", json!({ "metadata": named("ingress-nginx-controller"), "data": null }));
    server.put("pods", json!({ "metadata": named("controller"), "status": { "phase": "Running" } }));
    server.put(
        "services",
        json!({
            "metadata": named("ingress-nginx-controller"),
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }] } }
        }),
    );
    let web = |name: &str| json!({ "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": "web" } });
    server.put("services", json!({ "metadata": web("web"), "spec": { "ports": [{ "port": 80 }] } }));
    let endpoints = json!([{ "addresses": ["192.0.2.1"], "conditions": { "ready": true } }]);
    let ports = json!([{ "name": "", "port": 8080, "protocol": "TCP" }]);
    server.put(
        "endpointslices",
        json!({ "metadata": web("web-1"), "addressType": "IPv4", "endpoints": endpoints, "ports": ports }),
    );
    let annotations = json!({ "nginx.ingress.kubernetes.io/no-such-annotation": "x" });
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let paths = json!([{ "path": "/", "pathType": "Prefix", "backend": backend }]);
    server.put(
        "ingresses",
        json!({
            "metadata": { "namespace": "shop", "name": "web", "annotations": annotations },
            "spec": { "ingressClassName": "nginx", "rules": [{ "host": "shop.test", "http": { "paths": paths } }] }
        }),
    );
    server
}

struct Controller {
    program: Program,
    probe: SocketAddr,
    _certificate: tempfile::TempDir,
}

impl Controller {
    /// Starts the binary with `arguments` and what a test needs: free ports, a certificate, the API server, messages in JSON.
    fn start(arguments: &[&str], server: &ListeningServer) -> Self {
        let certificate = tempfile::tempdir().unwrap();
        let leaf = Authority::new("webhook").leaf(&["ingress-nginx-controller-admission.ingress-nginx.svc"]);
        let (file, key) = leaf.write_to(certificate.path()).unwrap();
        let probe = free_address();
        let environment = ["POD_NAME=controller", &format!("POD_NAMESPACE={NAMESPACE}"), BINARY];
        let mut all: Vec<String> = environment.iter().chain(arguments).map(|&it| it.to_owned()).collect();
        all.extend([
            format!("--kubeconfig={}", server.kubeconfig().display()),
            format!("--http-port={}", free_port()),
            format!("--https-port={}", free_port()),
            format!("--validating-webhook=127.0.0.1:{}", free_port()),
            format!("--validating-webhook-certificate={}", file.display()),
            format!("--validating-webhook-key={}", key.display()),
            format!("--probe={probe}"),
            format!("--admin={}", free_address()),
            "--log-format=json".to_owned(),
        ]);
        let program = Program::start(Path::new("/usr/bin/env"), &all);
        Self { program, probe, _certificate: certificate }
    }

    /// Waits like the kubelet does, with the probes of the manifests.
    async fn until_ready(&self) {
        let probe = self.probe;
        eventually("/healthz answers 200", WAIT_TIMEOUT * 6, || async move {
            let Ok(mut client) = Client::connect(probe).await else { return false };
            let request = Request::get(&probe.to_string(), "/healthz").close();
            client.exchange(&request).await.is_ok_and(|response| response.status == 200)
        })
        .await;
    }

    /// The messages of a level so far, sorted.
    fn messages(&self, level: &str) -> Vec<String> {
        let lines = self.program.lines();
        let read = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut messages: Vec<_> = read
            .filter(|line| line["level"] == level)
            .map(|line| line["message"].as_str().unwrap().to_owned())
            .collect();
        messages.sort();
        messages
    }
}

/// Waits for an Event in the core API and returns its message.
async fn event(server: &ListeningServer) -> String {
    let find = || server.objects("events").into_iter().find(|it| it["involvedObject"]["name"] == "web");
    eventually("an Event about the Ingress", WAIT_TIMEOUT, || async { find().is_some() }).await;
    let event = find().unwrap();
    assert_eq!(event["reportingComponent"], "fairway.dev/ingress-controller");
    event["message"].as_str().unwrap().to_owned()
}

/// The refused requests, except for those that are made in any cluster and not needed here: the release of the CRDs of Gateway
/// API, and a Secret for session ticket keys.
fn refused(server: &ListeningServer) -> BTreeSet<String> {
    let optional = ["\"customresourcedefinitions\"", "cannot create resource \"secrets\""];
    server.denied_requests().into_iter().filter(|it| !optional.iter().any(|part| it.contains(part))).collect()
}

fn published(server: &ListeningServer) -> Value {
    server.objects("ingresses")[0]["status"]["loadBalancer"]["ingress"].clone()
}

const NO_EVENTS: &str =
    "cannot create resource \"events\" in API group \"events.k8s.io\" in the namespace \"shop\"";

const NO_PATCH: &str =
    "cannot patch resource \"ingresses/status\" in API group \"networking.k8s.io\" in the namespace \"shop\"";

#[tokio::test]
async fn kinds_of_the_gateway_api_that_may_not_be_read_are_no_error() {
    let server = cluster_with_gateway_api().await;
    let controller =
        Controller::start(&[&[BARE_METAL[0], PUBLISH_SERVICE], &BARE_METAL[1..]].concat(), &server);
    controller.until_ready().await;
    let address = json!([{ "ip": "203.0.113.7" }]);
    eventually("the address is published", WAIT_TIMEOUT, || async { published(&server) == address }).await;
    let warned = || controller.messages("WARN").iter().any(|it| it.contains("gateway.networking.k8s.io"));
    eventually("a warning names the permission", WAIT_TIMEOUT, || async { warned() }).await;
    assert_eq!(controller.messages("ERROR"), [""; 0]);
}

#[tokio::test]
async fn the_manifest_for_clouds_serves_and_writes_status_and_events() {
    let server = cluster().await;
    let controller =
        Controller::start(&[&[BARE_METAL[0], PUBLISH_SERVICE], &BARE_METAL[1..]].concat(), &server);
    controller.until_ready().await;
    let address = json!([{ "ip": "203.0.113.7" }]);
    eventually("the address is published", WAIT_TIMEOUT, || async { published(&server) == address }).await;
    let message = event(&server).await;
    assert!(message.contains("no-such-annotation"), "{message}");
    assert_eq!(server.objects("leases")[0]["spec"]["holderIdentity"], "controller");
    controller.program.terminate().unwrap();
    eventually("the last replica clears the status", WAIT_TIMEOUT, || async { published(&server).is_null() })
        .await;
    assert_eq!(controller.messages("ERROR"), [""; 0]);
    let warnings = controller.messages("WARN");
    assert!(matches!(&warnings[..], [it] if message.ends_with(it)), "{warnings:?} {message}");
    assert_eq!(refused(&server), BTreeSet::from([NO_EVENTS, NO_PATCH].map(str::to_owned)));
}

#[tokio::test]
async fn the_manifest_for_bare_metal_serves_and_writes_the_addresses_of_its_nodes() {
    let server = cluster().await;
    let addresses = json!([
        { "type": "InternalIP", "address": "10.0.0.1" }, { "type": "ExternalIP", "address": "203.0.113.8" },
    ]);
    server.put("nodes", json!({ "metadata": { "name": "node-1" }, "status": { "addresses": addresses } }));
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    server.put(
        "pods",
        json!({
            "metadata": { "namespace": NAMESPACE, "name": "controller" },
            "spec": { "nodeName": "node-1", "containers": [] },
            "status": { "phase": "Running", "conditions": ready },
        }),
    );
    let controller = Controller::start(&BARE_METAL, &server);
    controller.until_ready().await;
    let address = json!([{ "ip": "203.0.113.8" }]);
    eventually("the address is published", WAIT_TIMEOUT * 2, || async { published(&server) == address })
        .await;
    let message = event(&server).await;
    assert_eq!(controller.messages("ERROR"), [""; 0]);
    let own_keys = |it: &String| it.contains("TLS sessions resume only on the replica that began them");
    assert_eq!(controller.messages("INFO").iter().filter(|it| own_keys(it)).count(), 1);
    let warnings = controller.messages("WARN");
    assert!(matches!(&warnings[..], [it] if message.ends_with(it)), "{warnings:?} {message}");
    assert_eq!(refused(&server), BTreeSet::from([NO_EVENTS, NO_PATCH].map(str::to_owned)));
}
