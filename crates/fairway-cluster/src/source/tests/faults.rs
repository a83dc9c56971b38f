//! An API server that restarts, vanishes, loses its history, stalls, denies requests or is too old.

use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::Kind;
use fairway_testkit::api_server::{ApiServer, Failure, Network};

use super::harness::{Harness, ingress, lists, requests_for, requests_in, secret, service, slice, texts};
use crate::source::probe::Reachability;
use crate::source::read_once;
use crate::source::selection::Selection;
use crate::testing::client;

fn shop() -> ApiServer {
    let server = ApiServer::new();
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    server.put("services", service("shop", "web"));
    server.put("endpointslices", slice("shop", "web"));
    server.put("secrets", secret("shop", "tls"));
    server
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_removes_nothing() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    let before = harness.objects.clone();
    for resource in ["ingresses", "services", "endpointslices", "secrets", "ingressclasses"] {
        server.fail(Failure::Broken, lists(resource));
    }
    server.forget_history();
    assert!(harness.pass(Duration::from_secs(60)).await.is_empty());
    assert_eq!(harness.objects, before);
    assert!(!harness.condition().is_synced());
    server.heal();
    harness.until("being in step", |harness| harness.condition().is_synced()).await;
    assert_eq!(harness.objects, before);
}

#[tokio::test(start_paused = true)]
async fn after_a_410_only_differences_are_sent() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.stall_watches();
    server.put("services", service("shop", "new"));
    server.put("endpointslices", slice("shop", "web"));
    server.delete("ingresses", "shop", "web");
    server.forget_history();
    let mut changes = texts(&harness.pass(Duration::from_secs(10)).await);
    changes.sort();
    assert_eq!(
        changes,
        ["+EndpointSlice shop/web", "+Service shop/new", "-Ingress shop/web", "-Secret shop/tls"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_watch_resumes_without_a_list() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    let lists = server.requests("sendInitialEvents");
    for _ in 0..5 {
        server.close_watches();
        server.put("services", service("shop", "web"));
        harness
            .until("the change", |harness| harness.names(Kind::Service) == harness.server.names("services"))
            .await;
    }
    assert_eq!(server.requests("sendInitialEvents"), lists);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stalls_is_noticed() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.stall_watches();
    server.put("services", service("shop", "new"));
    let silent = harness.until("the change", |harness| harness.has(Kind::Service, "shop", "new")).await;
    assert!(silent < Duration::from_secs(102), "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_partition_it_is_synced_within_five_seconds() {
    for outage in [Network::Silent, Network::Refusing] {
        let server = shop();
        let mut harness = Harness::started(&server).await;
        let before = harness.objects.clone();
        server.set_network(outage);
        if outage == Network::Refusing {
            server.close_watches();
        }
        server.put("services", service("shop", "new"));
        harness.pass(Duration::from_secs(60)).await;
        assert!(matches!(harness.condition().reach, Reachability::Unreachable { .. }));
        assert_eq!(harness.objects, before);
        server.set_network(Network::Up);
        let healed =
            harness.until("being in step", |harness| harness.has(Kind::Service, "shop", "new")).await;
        assert!(healed < Duration::from_secs(5), "{healed:?}");
        harness.until("a true condition", |harness| harness.condition().is_synced()).await;
        assert_eq!(harness.condition().reach, Reachability::Reachable);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_later_is_waited_for() {
    let server = shop();
    server.set_network(Network::Refusing);
    let mut harness = Harness::start(&server, Selection::default());
    assert!(harness.pass(Duration::from_secs(30)).await.is_empty());
    assert!(harness.condition().problems().any(|problem| problem.contains("connection refused")));
    server.set_network(Network::Up);
    let waited = harness.until("the first batch", |harness| harness.condition().synced_once).await;
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(harness.condition().refusal, None);
}

#[tokio::test(start_paused = true)]
async fn a_denied_kind_is_named_and_the_others_are_served() {
    let server = shop();
    server.fail(Failure::Forbidden, requests_for("ingressclasses"));
    let mut harness = Harness::start(&server, Selection::default());
    let first = harness.batch().await;
    assert!(harness.has(Kind::Ingress, "shop", "web") && harness.has(Kind::Secret, "shop", "tls"));
    let [found] = &*first.diagnostics else { panic!("{:?}", first.diagnostics) };
    assert_eq!(found.code, "no-permission");
    assert!(found.problem.contains("list and watch on ingressclasses.networking.k8s.io"), "{found}");
    server.heal();
    harness.until("being in step", |harness| harness.condition().is_synced()).await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_named_with_its_version() {
    let server = shop();
    server.fail(Failure::NoSuchResource, requests_for("endpointslices"));
    let mut harness = Harness::start(&server, Selection::default());
    let first = harness.batch().await;
    assert!(harness.has(Kind::Ingress, "shop", "web"));
    let [found] = &*first.diagnostics else { panic!("{:?}", first.diagnostics) };
    assert_eq!(found.code, "no-such-api");
    assert!(found.problem.contains("endpointslices of discovery.k8s.io/v1; Kubernetes 1.21"), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_watch_reads_everything_once() {
    let server = shop();
    server.put("ingresses", ingress("bank", "web", &["tls", "nowhere"]));
    server.fail(Failure::Forbidden, requests_in("secrets", "bank"));
    let (changes, diagnostics) =
        read_once(&client(&server, Arc::default()), &Selection::default()).await.unwrap();
    let mut changes = texts(&changes);
    changes.sort();
    let all_objects = [
        "+EndpointSlice shop/web",
        "+Ingress bank/web",
        "+Ingress shop/web",
        "+Secret shop/tls",
        "+Service shop/web",
    ];
    assert_eq!(changes, all_objects);
    let [found] = &*diagnostics else { panic!("{diagnostics:?}") };
    assert_eq!(found.code, "no-permission");
    server.fail(Failure::Forbidden, requests_for("ingresses"));
    let refused =
        read_once(&client(&server, Arc::default()), &Selection::default()).await.unwrap_err().to_string();
    assert!(refused.contains("list and watch on ingresses.networking.k8s.io"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_temporary_denial_while_a_server_starts_is_ignored() {
    let server = shop();
    server.fail(Failure::Forbidden, requests_for("ingresses"));
    let mut harness = Harness::start(&server, Selection::default());
    assert!(harness.pass(Duration::from_millis(500)).await.is_empty());
    server.heal();
    harness.batch().await;
    assert!(harness.has(Kind::Ingress, "shop", "web"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_old_is_refused_in_one_sentence() {
    let server = shop();
    server.set_minor_version(20);
    let mut harness = Harness::start(&server, Selection::default());
    assert!(harness.pass(Duration::from_secs(20)).await.is_empty());
    let problems: Vec<_> = harness.condition().problems().map(str::to_owned).collect();
    let [problem] = &*problems else { panic!("{problems:?}") };
    assert!(problem.contains("v1.20.0") && problem.contains("1.21 or newer is needed"), "{problem}");
    assert_eq!(server.requests("ingresses"), 0);
    server.set_minor_version(21);
    harness.batch().await;
    assert!(harness.condition().is_synced());
}
