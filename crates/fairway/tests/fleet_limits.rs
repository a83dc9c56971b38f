//! A fleet limit in processes that follow a cluster: each knows the number of ready replicas, applies its share, and lends it to
//! another replica whose client needs more.

use std::path::Path;
use std::time::{Duration, Instant};

use fairway_testkit::api_server::ListeningServer;
use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::free_port;
use fairway_testkit::process::Fairway;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// The address of the pods: all run on this machine.
fn address(number: u32) -> String {
    format!("127.0.0.{}", number + 2)
}

fn replica(number: u32) -> Value {
    json!({
        "metadata": { "namespace": "edge", "name": format!("fairway-{number}"), "labels": { "app": "fairway" } },
        "status": {
            "phase": "Running", "podIP": address(number), "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

/// Replicas, and an Ingress that limits the requests of clients with this annotation and an equal burst.
async fn cluster(endpoint: &Backend, replicas: u32, [annotation, limit]: [&str; 2]) -> ListeningServer {
    let server = ListeningServer::start().await;
    let class = json!({ "metadata": { "name": "fairway" }, "spec": { "controller": "fairway.dev/ingress-controller" } });
    server.put("ingressclasses", class);
    (0..replicas).for_each(|number| server.put("pods", replica(number)));
    let web = |name: &str| json!({ "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": "web" } });
    server.put("services", json!({ "metadata": web("web"), "spec": { "ports": [{ "port": 80 }] } }));
    let endpoints = json!([{ "addresses": [endpoint.address().ip()], "conditions": { "ready": true } }]);
    let ports = json!([{ "name": "", "port": endpoint.address().port(), "protocol": "TCP" }]);
    server.put(
        "endpointslices",
        json!({ "metadata": web("web-1"), "addressType": "IPv4", "endpoints": endpoints, "ports": ports }),
    );
    let annotations = json!({
        annotation: limit,
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

/// The number of requests that pass out of 80 sent at once.
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
async fn each_of_three_replicas_allows_a_third_and_adapts_to_more_replicas() {
    let endpoint = Backend::http(|_| BackendResponse::ok("web")).await;
    let server = cluster(&endpoint, 3, ["nginx.ingress.kubernetes.io/limit-rpm", "60"]).await;
    let kubeconfig = server.kubeconfig().display().to_string();
    let start = async |name: &str| {
        let pod = ["--pod-namespace", "edge", "--pod-name", name, "--external-name-allow", "127.0.0.0/8"];
        let replica_flags = [&["--kubernetes", "--kubeconfig", &kubeconfig], &pod[..]].concat();
        let fairway = Fairway::start_with(Path::new(BINARY), &replica_flags).until_ready().await;
        assert!(fairway.metrics().await.sum("fairway_fleet_replicas", &[]) == 3.0, "before it is ready");
        fairway
    };
    let (one, two) = (start("fairway-0").await, start("fairway-1").await);
    for fairway in [&one, &two] {
        // 20 from the burst and one more; another one for each three seconds that the test takes.
        let passed = passed(fairway).await;
        assert!((21..=30).contains(&passed), "{passed}");
    }
    (3..6).for_each(|number| server.put("pods", replica(number)));
    for fairway in [&one, &two] {
        fairway.until_metric("fairway_fleet_replicas", &[], |replicas| replicas == 6.0).await;
    }
}

#[tokio::test]
async fn a_replica_uses_borrowed_shares_and_only_replicas_can_borrow() {
    let endpoint = Backend::http(|_| BackendResponse::ok("web")).await;
    let server = cluster(&endpoint, 2, ["nginx.ingress.kubernetes.io/limit-rps", "40"]).await;
    let (kubeconfig, port) = (server.kubeconfig().display().to_string(), free_port());
    let probe = |number| format!("{}:{port}", address(number));
    let start = async |number: u32| {
        let (name, probe) = (format!("fairway-{number}"), probe(number));
        let pod = ["--pod-namespace", "edge", "--pod-name", &name, "--external-name-allow", "127.0.0.0/8"];
        let replica_flags =
            [&["--kubernetes", "--kubeconfig", &kubeconfig, "--probe", &probe], &pod[..]].concat();
        Fairway::start_with(Path::new(BINARY), &replica_flags).until_ready().await
    };
    let (one, two) = (start(0).await, start(1).await);
    for fairway in [&one, &two] {
        fairway.until_metric("fairway_fleet_replicas", &[], |replicas| replicas == 2.0).await;
        // Until both have read the shared key.
        let age = "fairway_tls_ticket_key_age_seconds";
        fairway.until_metric(age, &[("source", "shared")], |age| age > 0.0).await;
    }
    let (mut client, began, mut passed) = (Client::connect(one.http).await.unwrap(), Instant::now(), 0);
    // While its own share alone allows far fewer.
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    while began.elapsed() < Duration::from_secs(6) {
        pace.tick().await;
        passed += u32::from(client.exchange(&Request::get("shop.test", "/")).await.unwrap().status == 200);
    }
    let time = began.elapsed().as_secs_f64();
    let (own, whole) = (20.0 * time + 20.0 + 1.0, 40.0 * time + 40.0 + 2.0);
    assert!(f64::from(passed) > own * 1.25 && f64::from(passed) <= whole, "{passed} of {own} and {whole}");
    assert!(one.metrics().await.sum("fairway_fleet_shares_asked_total", &[("outcome", "lent")]) >= 2.0);
    assert!(two.metrics().await.sum("fairway_fleet_shares_answered_total", &[("outcome", "lent")]) >= 2.0);

    let mut stranger = Client::connect(probe(1).parse().unwrap()).await.unwrap();
    let ask = Request::new("POST", "/leases").header("Host", "a");
    assert_eq!(stranger.exchange(&ask).await.unwrap().status, 405);
    let refused = [("reason", "unsigned")];
    assert_eq!(two.metrics().await.sum("fairway_fleet_messages_refused_total", &refused), 1.0);
}
