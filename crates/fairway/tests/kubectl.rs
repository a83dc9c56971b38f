//! `kubectl fairway` as a process: with another process by its admin address, and with pods of a cluster, whose API server
//! forwards ports to that process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_testkit::api_server::{FORWARD_TO, ListeningServer, PRINTED};
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::{Fairway, Program};
use fairway_testkit::wait::free_address;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// Output and exit code of a command.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs `fairway kubectl` outside the runtime that serves its API server.
async fn kubectl(arguments: &[&str]) -> Ran {
    let arguments: Vec<String> = ["kubectl"].iter().chain(arguments).map(ToString::to_string).collect();
    let run = move || Command::new(BINARY).args(arguments).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Ran { code: output.status.code().unwrap(), out, err }
}

/// A process with two hosts, one of them with TLS, and an endpoint without a listener. One Ingress names a missing Service.
struct Serving {
    fairway: Fairway,
    endpoint: SocketAddr,
    _manifests: Manifests,
}

async fn serving() -> Serving {
    let (manifests, endpoint) = (Manifests::new(), free_address());
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("tls.yaml", Authority::new("test").leaf(&["shop.test"]).secret_yaml("shop", "tls"));
    manifests.put("service.yaml", service_with_endpoints("shop", "web", 80, &[endpoint]));
    let ingress = |name, host, service| {
        Ingress::new("shop", name).class(Some("fairway")).route(host, "/", (service, 80))
    };
    manifests.put("web.yaml", ingress("web", "shop.test", "web").tls(Some("tls"), &["shop.test"]).yaml());
    manifests.put("plain.yaml", ingress("plain", "plain.test", "web").yaml());
    manifests.put("lost.yaml", ingress("lost", "lost.test", "gone").yaml());
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    Serving { fairway, endpoint, _manifests: manifests }
}

#[tokio::test]
async fn a_process_is_queried_by_its_admin_address() {
    let serving = serving().await;
    let admin = serving.fairway.admin.to_string();
    let ask = async |arguments: &[&str]| kubectl(&[arguments, &["--admin", &admin]].concat()).await;

    let routes = ask(&["routes", "--host", "shop.test"]).await;
    let lines: Vec<Vec<&str>> = routes.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let headings = ["NAMESPACE", "HOST", "PATH", "MATCH", "OBJECT", "SERVICE", "ENDPOINTS"];
    let row = ["shop", "shop.test", "/", "Prefix", "Ingress/web", "web:80", "1"];
    assert_eq!(lines, [headings, row], "{routes:?}");
    let nothing = ask(&["routes", "--namespace", "other"]).await;
    assert_eq!((nothing.code, &*nothing.out), (0, ""));
    assert!(nothing.err.contains("serves no route in the namespace other; -A shows all"), "{nothing:?}");

    let endpoints = ask(&["endpoints", "web", "-o", "json"]).await;
    let endpoints: Value = serde_json::from_str(&endpoints.out).unwrap();
    assert_eq!(endpoints[0]["addresses"], json!([serving.endpoint]), "{endpoints:#}");
    let yaml = ask(&["endpoints", "web", "-o", "yaml"]).await;
    assert!(yaml.out.contains("service: web\n"), "{yaml:?}");

    let certificates = ask(&["certs", "-o", "json"]).await;
    let certificates: Value = serde_json::from_str(&certificates.out).unwrap();
    let [certificate] = certificates.as_array().unwrap().as_slice() else { panic!("{certificates:#}") };
    assert_eq!((&certificate["secret"], &certificate["hosts"]), (&json!("tls"), &json!(["shop.test"])));
    assert!(certificate["issuer"].is_string() && certificate["daysLeft"].is_i64(), "{certificate:#}");

    let check = ask(&["check", "-n", "shop"]).await;
    assert_eq!(check.code, 1, "{check:?}");
    assert!(check.out.contains("[missing-reference]: Ingress shop/lost"), "{check:?}");
    let clean = ask(&["check", "-n", "other"]).await;
    assert_eq!(clean.code, 0, "{clean:?}");
    assert!(clean.out.starts_with("0 errors, 0 warnings, 0 notes in the namespace other"), "{clean:?}");

    let status = ask(&["status"]).await;
    assert_eq!(status.code, 0, "{status:?}");
    assert!(status.out.contains(env!("CARGO_PKG_VERSION")), "{status:?}");
    assert!(status.out.contains("1 replica serves the configuration"), "{status:?}");
}

#[tokio::test]
async fn explain_prints_the_same_as_fairway_explain() {
    let serving = serving().await;
    let admin = serving.fairway.admin.to_string();
    let request = ["explain", "http://plain.test/cart", "-X", "POST", "--admin", &admin];
    let explained = Command::new(BINARY).args(request).output().unwrap();
    let ran = kubectl(&request).await;
    assert_eq!((ran.code, ran.out), (0, String::from_utf8(explained.stdout).unwrap()));
    let wrong = kubectl(&["explain", "ftp://plain.test/", "--admin", &admin]).await;
    assert!(wrong.code == 2 && wrong.err.contains("only http and https"), "{wrong:?}");
}

/// Sends requests one after the other until one gets no response.
async fn ask_again_and_again(address: SocketAddr) -> std::io::Result<()> {
    loop {
        let mut client = Client::connect(address).await?;
        client.exchange(&Request::get("plain.test", "/").close()).await?;
    }
}

#[tokio::test]
async fn top_measures_the_traffic_between_two_scrapes() {
    let serving = serving().await;
    let admin = serving.fairway.admin.to_string();
    let top = ["top", "--interval", "2", "-o", "json", "--admin", &admin];
    let ran = tokio::select! {
        ran = kubectl(&top) => ran,
        ended = ask_again_and_again(serving.fairway.http) => panic!("no more responses: {ended:?}"),
    };
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    let route =
        json!({ "route": rows[0]["route"], "host": rows[0]["host"], "errors": rows[0]["errorRatio"] });
    assert_eq!(route, json!({ "route": "plain", "host": "plain.test", "errors": 1.0 }), "{ran:?}");
    assert!(rows[0]["requestsPerSecond"].as_f64().unwrap() > 1.0, "{ran:?}");
    assert_eq!(rows.as_array().unwrap().len(), 1, "{ran:?}");
}

#[test]
fn the_file_name_makes_it_a_kubectl_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-fairway");
    std::os::unix::fs::symlink(BINARY, &plugin).unwrap();
    let output = Command::new(&plugin).args(["routes", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("Usage: kubectl fairway routes"), "{help}");
    let output = Command::new(&plugin).args(["status", "--admin", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "a process that does not respond is a problem");
}

#[test]
fn the_document_has_every_command_and_only_flags_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubectl.md");
    let text = std::fs::read_to_string(path).unwrap();
    let help = |arguments: &[&str]| {
        let output = Command::new(BINARY).args(arguments).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // The document also names flags of the access log and of the other form of `check`.
    let mut known = help(&["run"]) + &help(&["check"]);
    for command in ["status", "routes", "certs", "endpoints", "explain", "check", "logs", "dashboard", "top"]
    {
        assert!(text.contains(&format!("\n### {command}\n")), "{command} is not documented");
        known += &help(&["kubectl", command]);
    }
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    for flag in words.filter(|word| word.starts_with("--") && word.contains(|c: char| c != '-')) {
        let others = ["--manifest"];
        assert!(others.contains(&flag) || known.contains(flag), "{flag} does not exist");
    }
}

/// A pod whose ports lead to this address.
fn pod(name: &str, leads_to: SocketAddr, printed: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "edge", "name": name, "creationTimestamp": "2026-11-21T02:48:17Z",
            "labels": { "app.kubernetes.io/name": "fairway", "app.kubernetes.io/instance": "edge" },
            "annotations": { FORWARD_TO: leads_to.to_string(), PRINTED: printed },
        },
        "spec": { "containers": [{ "name": "fairway", "image": "fairway:1", "args": ["run"] }] },
        "status": {
            "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{ "name": "fairway", "restartCount": 0 }],
        },
    })
}

#[tokio::test]
async fn pods_are_queried_through_the_api_server() {
    let (serving, server) = (serving().await, ListeningServer::start().await);
    let kubeconfig = server.kubeconfig().display().to_string();
    let ask = async |arguments: &[&str]| kubectl(&[arguments, &["--kubeconfig", &kubeconfig]].concat()).await;

    let none = ask(&["status"]).await;
    assert_eq!(none.code, 2);
    assert!(none.err.contains("the current context: there is no pod with the labels"), "{none:?}");

    server.put("pods", pod("a", serving.fairway.admin, ""));
    server.put("pods", pod("b", serving.fairway.admin, ""));
    let status = ask(&["status"]).await;
    assert_eq!(status.code, 0, "{status:?}");
    assert!(status.out.contains("All 2 replicas serve the configuration"), "{status:?}");
    let routes = ask(&["routes", "-A", "--host", "plain.test"]).await;
    assert!(routes.out.contains("plain.test") && routes.out.contains("web:80"), "{routes:?}");
    // The context names no namespace, so the default of kubectl applies.
    let routes = ask(&["routes"]).await;
    assert!(routes.err.contains("in the namespace default; -A shows all namespaces"), "{routes:?}");

    server.put("pods", pod("b", free_address(), ""));
    let status = ask(&["status"]).await;
    assert_eq!(status.code, 1, "{status:?}");
    assert!(status.err.contains("the pod edge/b: no response on port 10254"), "{status:?}");
    assert!(status.out.contains("1 of 2 replicas serve the same; the others do not respond"), "{status:?}");

    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }]);
    server.grant(&json!({ "kind": "ClusterRole", "rules": rules }));
    let refused = ask(&["routes"]).await;
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.err.contains("the verbs get and create on pods/portforward in the namespace edge"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn logs_of_all_pods_are_printed_with_their_names() {
    let server = ListeningServer::start().await;
    let line = |host: &str| json!({ "request": { "host": host }, "took_us": 1 }).to_string();
    let printed =
        format!("{{\"level\":\"INFO\",\"message\":\"m\"}}\n{}\n{}\n", line("a.test"), line("b.test"));
    server.put("pods", pod("one", free_address(), &printed));
    server.put("pods", pod("two", free_address(), &line("a.test")));
    let kubeconfig = server.kubeconfig().display().to_string();
    let ask = async |arguments: &[&str]| kubectl(&[arguments, &["--kubeconfig", &kubeconfig]].concat()).await;

    let all = ask(&["logs"]).await;
    let expected = format!("[one] {}\n[one] {}\n[two] {}\n", line("a.test"), line("b.test"), line("a.test"));
    assert_eq!((all.code, all.out), (0, expected));
    let filtered = ask(&["logs", "--host", "b.test"]).await;
    assert_eq!((filtered.code, filtered.out), (0, format!("[one] {}\n", line("b.test"))));
    let last = ask(&["logs", "--tail", "1", "--pod", "one"]).await;
    assert_eq!((last.code, last.out), (0, format!("[one] {}\n", line("b.test"))));

    server.put(
        "pods",
        pod("two", free_address(), "192.0.2.1 - - [21/Nov/2026:02:48:17 +0000] \"GET / HTTP/1.1\" 200\n"),
    );
    let text = ask(&["logs", "--host", "a.test"]).await;
    assert_eq!(text.code, 1, "{text:?}");
    assert!(text.err.contains("--access-log json"), "{text:?}");
}

#[tokio::test]
async fn the_dashboard_is_forwarded_to_another_pod_when_one_ends() {
    let (serving, server) = (serving().await, ListeningServer::start().await);
    server.put("pods", pod("a", serving.fairway.admin, ""));
    let kubeconfig = server.kubeconfig().display().to_string();
    let dashboard = Program::start(Path::new(BINARY), &["kubectl", "dashboard", "--kubeconfig", &kubeconfig]);
    let line = dashboard.line_with("http://127.0.0.1:").await;
    let address = line.strip_prefix("http://").unwrap().strip_suffix("/dashboard/").unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let ready = async || {
        let mut client = Client::connect(address).await.unwrap();
        client.exchange(&Request::get("localhost", "/readyz").close()).await.unwrap().status
    };
    assert_eq!(ready().await, 200);
    server.put("pods", pod("b", serving.fairway.admin, ""));
    server.delete("pods", "edge", "a");
    assert_eq!(ready().await, 200);
    dashboard.line_with("Forwarding to the pod edge/b.").await;
}
