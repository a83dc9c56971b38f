//! The costs of configuration changes and of a process that ends are attributed to the right configuration version: the real
//! binary under load, with its `/generations`, metrics and dashboard.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::eventually;
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::WAIT_TIMEOUT;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A site with one Ingress, `shop/web`, for `a.test`.
async fn site(response: impl Fn() -> BackendResponse + Send + Sync + 'static) -> (Manifests, Backend) {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let backend = Backend::http(move |_| response()).await;
    manifests.put("service.yaml", service_with_endpoints("shop", "web", 80, &[backend.address()]));
    manifests.put("ingress.yaml", ingress().yaml());
    (manifests, backend)
}

fn ingress() -> Ingress {
    Ingress::new("shop", "web").class(Some("fairway")).route("a.test", "/", ("web", 80))
}

/// The generations of the admin server, the newest first.
async fn generations(fairway: &Fairway) -> Vec<Value> {
    let Ok(page) = fairway.admin("/generations").await else { return Vec::new() };
    assert_eq!(page.status, 200, "{}", page.text());
    page.json()["generations"].as_array().unwrap().clone()
}

/// Clients that send requests without a pause.
struct Load {
    stop: Arc<AtomicBool>,
    fine: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn start(fairway: &Fairway) -> Self {
        let (stop, fine, refused) = (Arc::default(), Arc::default(), Arc::default());
        let mut load = Self { stop, fine, refused, clients: Vec::new() };
        for _ in 0..4 {
            let mut client = Client::connect(fairway.http).await.unwrap();
            let (stop, fine, refused) =
                (Arc::clone(&load.stop), Arc::clone(&load.fine), Arc::clone(&load.refused));
            load.clients.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match client.exchange(&Request::get("a.test", "/")).await.unwrap().status {
                        200 => fine.fetch_add(1, Ordering::Relaxed),
                        403 => refused.fetch_add(1, Ordering::Relaxed),
                        status => panic!("status {status}"),
                    };
                }
            }));
        }
        load
    }

    /// Waits until more requests have succeeded.
    async fn until_fine(&self) {
        let before = self.fine.load(Ordering::Relaxed) + 100;
        eventually("requests succeed", WAIT_TIMEOUT, || async { self.fine.load(Ordering::Relaxed) > before })
            .await;
    }

    /// The number of refused requests.
    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        self.refused.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reverted_mistake_is_listed_with_its_object_and_its_cost() {
    let (manifests, _backend) = site(|| BackendResponse::ok("fine")).await;
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &["--workers", "2"]).await;
    let load = Load::start(&fairway).await;
    load.until_fine().await;
    manifests.put("ingress.yaml", ingress().annotation("whitelist-source-range", "10.0.0.0/8").yaml());
    eventually("connections are refused", WAIT_TIMEOUT, || async {
        load.refused.load(Ordering::Relaxed) > 0
    })
    .await;
    manifests.put("ingress.yaml", ingress().yaml());
    load.until_fine().await;
    let refused = load.end().await;

    let name = "fairway_self_inflicted_errors_total";
    fairway.until_metric(name, &[("cause", "configuration_change")], |sum| sum == refused as f64).await;
    assert_eq!(fairway.metrics().await.sum(name, &[]), refused as f64);
    let all = generations(&fairway).await;
    let costly: Vec<_> = all.iter().filter(|it| it["self_inflicted_errors"] != 0).collect();
    assert_eq!(costly.len(), 1, "{all:#?}");
    let it = costly[0];
    assert_eq!(it["failed"]["configuration_change"], refused, "{it:#?}");
    assert_eq!(it["origin"], "change", "{it:#?}");
    let object = &it["changes"][0];
    let named = ["kind", "namespace", "name"].map(|part| object[part].as_str().unwrap_or_default());
    assert_eq!(named, ["Ingress", "shop", "web"], "{it:#?}");
    let version = it["version"].as_u64().unwrap();
    let generation = |version: u64| all.iter().find(|it| it["version"] == version).unwrap();
    for fine in [version - 1, version + 1] {
        assert!(
            generation(fine)["requests"].as_u64() > Some(0)
                && generation(fine)["failed"] == serde_json::json!({}),
            "{all:#?}"
        );
    }

    let page = fairway.admin("/dashboard/generations").await.unwrap().text();
    let summary =
        format!("{refused} self-inflicted errors, on the account of 1 of {} configurations", all.len());
    assert!(page.contains(&summary) && page.contains("Ingress shop&#x2f;web"), "{summary}: {page}");
    let recorded = fairway.admin("/requests?failed&limit=1").await.unwrap().json();
    assert_eq!(recorded["exchanges"][0]["attribution"], "configuration_change", "{recorded:#}");
    assert_eq!(recorded["exchanges"][0]["caused_by"], "client", "{recorded:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_cut_by_a_drain_are_reported_before_the_process_exits() {
    let (manifests, backend) = site(|| BackendResponse::ok("late").hold()).await;
    let flags = ["--workers", "2", "--drain-delay", "0", "--drain-timeout", "0.1"];
    let mut fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    client.send(Request::get("a.test", "/").bytes()).await.unwrap();
    backend.wait_until("the request is there", |backend| backend.waiting_count() == 1).await;
    fairway.program().terminate().unwrap();
    client.read_response().await.expect_err("it was cut");
    eventually("Fairway logs the cut requests", WAIT_TIMEOUT, || async {
        generations(&fairway).await.iter().any(|it| it["failed"]["roll"] == 1)
    })
    .await;
    let cut = fairway.metrics().await.sum("fairway_self_inflicted_errors_total", &[("cause", "roll")]);
    assert_eq!(cut, 1.0);
    assert!(fairway.program().exit_within(WAIT_TIMEOUT).await.success());
    let lines = fairway.lines();
    assert!(lines.iter().any(|line| line.contains("longer than --drain-timeout")), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line.contains("GET / HTTP/1.1") && line.ends_with(" drained")),
        "{lines:#?}"
    );
}
