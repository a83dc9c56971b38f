//! Secrets: only referenced ones are kept, each is sent before the objects that reference it, and a denial affects only its
//! namespace.

use std::time::Duration;

use fairway_objects::object::Kind;
use fairway_testkit::api_server::{ApiServer, Failure};
use serde_json::json;

use super::harness::{Harness, class, ingress, lists, requests_in, secret, service, texts};

fn shop() -> ApiServer {
    let server = ApiServer::new();
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    server.put("secrets", secret("shop", "tls"));
    server.put("secrets", secret("shop", "unnamed"));
    server
}

#[tokio::test(start_paused = true)]
async fn an_unreferenced_secret_is_neither_kept_nor_sent() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::Secret, "shop", "tls") && !harness.has(Kind::Secret, "shop", "unnamed"));
    server.put("secrets", secret("shop", "unnamed"));
    assert!(harness.pass(Duration::from_secs(5)).await.is_empty());
    assert_eq!(server.requests("namespaces/bank/secrets"), 0, "no Ingress there names one");
}

#[tokio::test(start_paused = true)]
async fn an_ingress_is_sent_after_its_secret() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    // In a namespace that is already watched, and in one that is not.
    for (namespace, name) in [("shop", "unnamed"), ("bank", "tls")] {
        server.put("secrets", secret(namespace, name));
        server.put("ingresses", ingress(namespace, "new", &[name]));
        let expected = [format!("+Secret {namespace}/{name}"), format!("+Ingress {namespace}/new")];
        assert_eq!(texts(&harness.changes().await.changes), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_ingress_does_not_wait_for_a_secret_that_does_not_exist() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.put("ingresses", ingress("shop", "new", &["nowhere"]));
    let waited = harness.until("the Ingress", |harness| harness.has(Kind::Ingress, "shop", "new")).await;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    server.put("secrets", secret("shop", "nowhere"));
    assert_eq!(texts(&harness.changes().await.changes), ["+Secret shop/nowhere"]);
}

#[tokio::test(start_paused = true)]
async fn an_ingress_waits_at_most_two_seconds_and_delays_nothing_else() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.fail(Failure::Broken, lists("secrets"));
    server.put("ingresses", ingress("shop", "new", &["unnamed"]));
    server.put("services", service("shop", "other"));
    assert_eq!(texts(&harness.changes().await.changes), ["+Service shop/other"]);
    let waited = harness.until("the Ingress", |harness| harness.has(Kind::Ingress, "shop", "new")).await;
    assert!((1900..2100).contains(&waited.as_millis()), "{waited:?}");
    server.heal();
    harness.until("the Secret", |harness| harness.has(Kind::Secret, "shop", "unnamed")).await;
}

#[tokio::test(start_paused = true)]
async fn an_ingress_that_is_deleted_while_held_is_never_sent() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.fail(Failure::Broken, lists("secrets"));
    server.put("ingresses", ingress("bank", "new", &["tls"]));
    harness.pass(Duration::from_millis(200)).await;
    server.delete("ingresses", "bank", "new");
    let changes = texts(&harness.pass(Duration::from_secs(5)).await);
    assert!(!changes.iter().any(|change| change.starts_with('+')), "{changes:?}");
}

#[tokio::test(start_paused = true)]
async fn the_previous_secret_stays_until_its_ingress_is_replaced() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.fail(Failure::Broken, lists("secrets"));
    server.put("ingresses", ingress("shop", "web", &["unnamed"]));
    let meanwhile = texts(&harness.pass(Duration::from_millis(500)).await);
    assert!(meanwhile.is_empty(), "{meanwhile:?}");
    server.heal();
    let changes = texts(&harness.changes().await.changes);
    assert_eq!(changes, ["+Secret shop/unnamed", "+Ingress shop/web", "-Secret shop/tls"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_references_is_not_watched() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    let watched = |harness: &Harness| {
        harness.condition().stores.iter().filter(|it| it.collection.kind.name() == "Secret").count()
    };
    assert_eq!(watched(&harness), 1);
    server.delete("ingresses", "shop", "web");
    let changes = texts(&harness.changes().await.changes);
    assert_eq!(changes, ["-Ingress shop/web", "-Secret shop/tls"]);
    assert_eq!(watched(&harness), 0);
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    assert_eq!(texts(&harness.changes().await.changes), ["+Secret shop/tls", "+Ingress shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_class_comes_with_the_secrets_of_its_ingresses() {
    let server = ApiServer::new();
    let mut foreign = ingress("shop", "web", &["tls"]);
    foreign["spec"]["ingressClassName"] = json!("edge");
    server.put("ingresses", foreign);
    server.put("secrets", secret("shop", "tls"));
    let mut harness = Harness::started(&server).await;
    assert!(!harness.has(Kind::Secret, "shop", "tls"));
    server.put("ingressclasses", class("edge"));
    assert_eq!(texts(&harness.changes().await.changes), ["+Secret shop/tls", "+IngressClass edge"]);
    server.delete("ingressclasses", "", "edge");
    assert_eq!(texts(&harness.changes().await.changes), ["-IngressClass edge", "-Secret shop/tls"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_secret_is_removed_and_comes_back() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.delete("secrets", "shop", "tls");
    assert_eq!(texts(&harness.changes().await.changes), ["-Secret shop/tls"]);
    server.put("secrets", secret("shop", "tls"));
    assert_eq!(texts(&harness.changes().await.changes), ["+Secret shop/tls"]);
}

#[tokio::test(start_paused = true)]
async fn a_denial_of_secrets_affects_only_its_namespace() {
    let server = shop();
    server.put("ingresses", ingress("bank", "web", &["tls"]));
    server.put("secrets", secret("bank", "tls"));
    server.fail(Failure::Forbidden, requests_in("secrets", "bank"));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::Secret, "shop", "tls") && harness.has(Kind::Ingress, "shop", "web"));
    assert!(harness.has(Kind::Ingress, "bank", "web") && !harness.has(Kind::Secret, "bank", "tls"));
    let problems: Vec<_> = harness.condition().problems().map(str::to_owned).collect();
    let [problem] = &*problems else { panic!("{problems:?}") };
    assert!(
        problem.starts_with(
            "system:serviceaccount:edge:fairway may not list and watch secrets in namespace bank"
        )
    );
    server.put("secrets", secret("shop", "tls"));
    assert_eq!(texts(&harness.changes().await.changes), ["+Secret shop/tls"]);
    // An Ingress there does not wait for objects that may not be read.
    server.put("ingresses", ingress("bank", "two", &["more"]));
    let waited = harness.until("the Ingress", |harness| harness.has(Kind::Ingress, "bank", "two")).await;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    server.put("secrets", secret("bank", "more"));
    server.heal();
    harness
        .until("the Secrets", |harness| {
            harness.has(Kind::Secret, "bank", "tls") && harness.has(Kind::Secret, "bank", "more")
        })
        .await;
    assert!(harness.condition().is_synced());
}

#[tokio::test(start_paused = true)]
async fn objects_referenced_during_a_denial_are_fetched_afterwards() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.fail(Failure::Forbidden, requests_in("secrets", "shop"));
    server.close_watches();
    harness.pass(Duration::from_secs(10)).await;
    assert!(harness.has(Kind::Secret, "shop", "tls"), "a denial removes nothing");
    server.put("ingresses", ingress("shop", "new", &["unnamed"]));
    harness.until("the Ingress", |harness| harness.has(Kind::Ingress, "shop", "new")).await;
    server.heal();
    harness.until("its Secret", |harness| harness.has(Kind::Secret, "shop", "unnamed")).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_in_an_annotation_is_watched_like_a_secret() {
    let server = shop();
    let mut harness = Harness::started(&server).await;
    server.put(
        "configmaps",
        json!({ "metadata": { "namespace": "shop", "name": "headers" }, "data": { "x": "y" } }),
    );
    let mut named = ingress("shop", "new", &[]);
    named["metadata"]["annotations"] =
        json!({ "nginx.ingress.kubernetes.io/custom-headers": "shop/headers" });
    server.put("ingresses", named);
    assert_eq!(texts(&harness.changes().await.changes), ["+ConfigMap shop/headers", "+Ingress shop/new"]);
}
