//! A limit of the fleet in processes that follow a cluster: each knows how many replicas are ready, and lets through its share.

use std::path::Path;

use fairway_testkit::api_server::ListeningServer;
use fairway_testkit::backend::{Answer, Backend};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::process::Fairway;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

fn replica(number: u32) -> Value {
    json!({
        "metadata": { "namespace": "edge", "name": format!("fairway-{number}"), "labels": { "app": "fairway" } },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

/// Three replicas, and an Ingress that lets a client send 60 requests a minute, and 60 more early.
async fn cluster(endpoint: &Backend) -> ListeningServer {
    let server = ListeningServer::start().await;
    let class = json!({ "metadata": { "name": "fairway" }, "spec": { "controller": "fairway.dev/ingress-controller" } });
    server.put("ingressclasses", class);
    (0..3).for_each(|number| server.put("pods", replica(number)));
    let web = |name: &str| json!({ "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": "web" } });
    server.put("services", json!({ "metadata": web("web"), "spec": { "ports": [{ "port": 80 }] } }));
    let endpoints = json!([{ "addresses": [endpoint.address().ip()], "conditions": { "ready": true } }]);
    let ports = json!([{ "name": "", "port": endpoint.address().port(), "protocol": "TCP" }]);
    server.put(
        "endpointslices",
        json!({ "metadata": web("web-1"), "addressType": "IPv4", "endpoints": endpoints, "ports": ports }),
    );
    let annotations = json!({
        "nginx.ingress.kubernetes.io/limit-rpm": "60",
        "nginx.ingress.kubernetes.io/limit-burst-multiplier": "1",
        "fairway.dev/limit-scope": "fleet",
    });
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let paths = json!([{ "path": "/", "pathType": "Prefix", "backend": backend }]);
    server.put(
        "ingresses",
        json!({
            "metadata": { "namespace": "shop", "name": "web", "annotations": annotations },
            "spec": { "ingressClassName": "fairway", "rules": [{ "host": "shop.test", "http": { "paths": paths } }] }
        }),
    );
    server
}

/// How many of 80 requests pass that come at once.
async fn passed(fairway: &Fairway) -> u32 {
    let mut client = Client::connect(fairway.http).await.unwrap();
    let mut passed = 0;
    for _ in 0..80 {
        match client.exchange(&Request::get("shop.test", "/")).await.unwrap().status {
            200 => passed += 1,
            status => assert_eq!(status, 503),
        }
    }
    passed
}

#[tokio::test]
async fn each_of_three_replicas_lets_through_a_third_and_knows_when_there_are_more() {
    let endpoint = Backend::http(|_| Answer::ok("web")).await;
    let server = cluster(&endpoint).await;
    let kubeconfig = server.kubeconfig().display().to_string();
    let start = async |name: &str| {
        let pod = ["--pod-namespace", "edge", "--pod-name", name, "--external-name-allow", "127.0.0.0/8"];
        let own = [&["--kubernetes", "--kubeconfig", &kubeconfig], &pod[..]].concat();
        let fairway = Fairway::start_with(Path::new(BINARY), &own).until_ready().await;
        assert!(fairway.metrics().await.sum("fairway_fleet_replicas", &[]) == 3.0, "before it is ready");
        fairway
    };
    let (one, two) = (start("fairway-0").await, start("fairway-1").await);
    for fairway in [&one, &two] {
        // 20 early and one; another one for each three seconds that the test takes.
        let passed = passed(fairway).await;
        assert!((21..=30).contains(&passed), "{passed}");
    }
    (3..6).for_each(|number| server.put("pods", replica(number)));
    for fairway in [&one, &two] {
        fairway.until_metric("fairway_fleet_replicas", &[], |replicas| replicas == 6.0).await;
    }
}
