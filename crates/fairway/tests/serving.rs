//! `fairway run` as a process: ready only when it serves, follows its directory, stops on signals.

use std::path::Path;

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, config_map, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

const CLASS: &str = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: fairway}\n\
                     spec: {controller: fairway.dev/ingress-controller}\n";

fn redirect(to: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: web\n  annotations:\n    \
         nginx.ingress.kubernetes.io/temporal-redirect: {to}\nspec:\n  ingressClassName: fairway\n  rules:\n  - host: a.test\n    \
         http:\n      paths:\n      - path: /\n        pathType: Prefix\n        backend: {{service: {{name: web, port: {{number: 80}}}}}}\n"
    )
}

async fn location(fairway: &Fairway) -> String {
    let mut client = Client::connect(fairway.http).await.unwrap();
    let response = client.exchange(&Request::get("a.test", "/").close()).await.unwrap();
    response.header("location").unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_changed_file_changes_the_response_without_a_restart() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", CLASS);
    manifests.put("web.yaml", redirect("https://one.test/"));
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &["--workers", "2"]).await;
    assert!(location(&fairway).await.contains("https://one.test/"));
    manifests.put("web.yaml", redirect("https://two.test/"));
    eventually("the new response", WAIT_TIMEOUT, || async {
        location(&fairway).await.contains("https://two.test/")
    })
    .await;
    manifests.overwrite("web.yaml", "apiVersion: [half");
    fairway.until_metric("fairway_diagnostics", &[("severity", "error")], |count| count >= 1.0).await;
    assert!(location(&fairway).await.contains("https://two.test/"), "Fairway serves the last valid version");
}

#[tokio::test]
async fn the_admin_server_serves_only_its_pages() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", CLASS);
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    for (path, status, part) in [
        ("/", 302, "/dashboard/"),
        ("/dashboard/", 200, "/metrics"),
        ("/requests", 200, "exchanges"),
        ("/healthz", 200, "ok"),
        ("/readyz", 200, "ready"),
        ("/servingz", 200, "ready"),
        ("/metrics", 200, "fairway_config_version 1"),
        ("/config", 200, "\"listeners\""),
        ("/other", 404, "no such page"),
    ] {
        let response = fairway.admin(path).await.unwrap();
        assert_eq!(response.status, status, "{path}");
        assert!(response.text().contains(part), "{path}: {}", response.text());
    }
    let mut client = Client::connect(fairway.admin).await.unwrap();
    let response = client.exchange(&Request::post("admin", "/", "").close()).await.unwrap();
    assert_eq!(response.status, 405);
}

#[tokio::test]
async fn the_first_signal_drains_and_the_second_ends_the_process() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", CLASS);
    let binary = Path::new(BINARY);
    let mut draining = Fairway::ready(binary, manifests.path(), &["--drain-delay", "0"]).await;
    draining.program().terminate().unwrap();
    assert_eq!(draining.program().exit_within(WAIT_TIMEOUT).await.code(), Some(0));

    let mut hurried = Fairway::ready(binary, manifests.path(), &["--drain-delay", "600"]).await;
    hurried.program().terminate().unwrap();
    eventually("draining", WAIT_TIMEOUT, || async {
        hurried.admin("/readyz").await.is_ok_and(|it| it.status == 503)
    })
    .await;
    hurried.program().terminate().unwrap();
    assert_eq!(hurried.program().exit_within(WAIT_TIMEOUT).await.code(), Some(1));
}

#[tokio::test]
async fn the_log_contains_requests_right_before_the_end() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", CLASS);
    manifests.put("web.yaml", redirect("https://one.test/"));
    let arguments = ["--drain-delay", "0", "--access-log", "json"];
    let mut fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &arguments).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    client.exchange(&Request::get("a.test", "/last").close()).await.unwrap();
    fairway.program().terminate().unwrap();
    assert_eq!(fairway.program().exit_within(WAIT_TIMEOUT).await.code(), Some(0));
    fairway.line_with("/last").await;
}

#[tokio::test]
async fn the_forwarded_path_is_that_of_the_flag_and_first_that_of_the_settings() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", CLASS);
    let backend = Backend::http(|request| BackendResponse::ok(&request.target)).await;
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
    let ingress = Ingress::new("a", "web").class(Some("fairway"));
    manifests.put("web.yaml", ingress.route("a.test", "/", ("web", 80)).yaml());
    let flags = ["--forwarded-path", "normalised", "--configmap", "a/settings"];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let (sent, normalised) = ("/a/./b/../c%2fd%7e?q=%2e", "/a/c%2Fd~?q=%2e");
    let forwarded = || async {
        let mut client = Client::connect(fairway.http).await.unwrap();
        client.exchange(&Request::get("a.test", sent).close()).await.unwrap().text()
    };
    assert_eq!(forwarded().await, normalised);
    manifests.put("settings.yaml", config_map("a", "settings", &[("forwarded-path", "received")]));
    eventually("the path as received", WAIT_TIMEOUT, || async { forwarded().await == sent }).await;
}
