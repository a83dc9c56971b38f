//! Secrets: only those that are named, each before who names it, and a denial that stays where it is.

use std::time::Duration;

use fairway_translate::Kind;
use serde_json::json;

use super::scene::{Scene, class, ingress, secret, service, texts};
use super::server::Server;

fn shop() -> Server {
    let server = Server::new();
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    server.put("secrets", secret("shop", "tls"));
    server.put("secrets", secret("shop", "unnamed"));
    server
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_nothing_names_is_neither_kept_nor_told() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    assert!(scene.has(Kind::Secret, "shop", "tls") && !scene.has(Kind::Secret, "shop", "unnamed"));
    server.put("secrets", secret("shop", "unnamed"));
    assert!(scene.pass(Duration::from_secs(5)).await.is_empty());
    assert_eq!(server.requests("namespaces/bank/secrets"), 0, "no Ingress there names one");
}

#[tokio::test(start_paused = true)]
async fn an_ingress_comes_with_the_secret_that_it_names_first() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    // In a namespace that is watched already, and in one that is not.
    for (namespace, name) in [("shop", "unnamed"), ("bank", "tls")] {
        server.put("secrets", secret(namespace, name));
        server.put("ingresses", ingress(namespace, "new", &[name]));
        let expected = [format!("+Secret {namespace}/{name}"), format!("+Ingress {namespace}/new")];
        assert_eq!(texts(&scene.changes().await.changes), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_ingress_does_not_wait_for_a_secret_that_does_not_exist() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.put("ingresses", ingress("shop", "new", &["nowhere"]));
    let waited = scene.until("the Ingress", |scene| scene.has(Kind::Ingress, "shop", "new")).await;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    server.put("secrets", secret("shop", "nowhere"));
    assert_eq!(texts(&scene.changes().await.changes), ["+Secret shop/nowhere"]);
}

#[tokio::test(start_paused = true)]
async fn an_ingress_waits_two_seconds_at_most_while_everything_else_flows() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.with(|state| state.broken_lists.insert("secrets".to_owned()));
    server.put("ingresses", ingress("shop", "new", &["unnamed"]));
    server.put("services", service("shop", "other"));
    assert_eq!(texts(&scene.changes().await.changes), ["+Service shop/other"]);
    let waited = scene.until("the Ingress", |scene| scene.has(Kind::Ingress, "shop", "new")).await;
    assert!((1900..2100).contains(&waited.as_millis()), "{waited:?}");
    server.with(|state| state.broken_lists.clear());
    scene.until("the Secret", |scene| scene.has(Kind::Secret, "shop", "unnamed")).await;
}

#[tokio::test(start_paused = true)]
async fn an_ingress_that_is_deleted_while_it_waits_is_never_told() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.with(|state| state.broken_lists.insert("secrets".to_owned()));
    server.put("ingresses", ingress("bank", "new", &["tls"]));
    scene.pass(Duration::from_millis(200)).await;
    server.delete("ingresses", "bank", "new");
    let told = texts(&scene.pass(Duration::from_secs(5)).await);
    assert!(!told.iter().any(|change| change.starts_with('+')), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_earlier_secret_stays_until_the_ingress_that_named_it_is_replaced() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.with(|state| state.broken_lists.insert("secrets".to_owned()));
    server.put("ingresses", ingress("shop", "web", &["unnamed"]));
    let meanwhile = texts(&scene.pass(Duration::from_millis(500)).await);
    assert!(meanwhile.is_empty(), "{meanwhile:?}");
    server.with(|state| state.broken_lists.clear());
    let told = texts(&scene.changes().await.changes);
    assert_eq!(told, ["+Secret shop/unnamed", "+Ingress shop/web", "-Secret shop/tls"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_which_nothing_is_named_any_more_is_not_watched() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    let watched = |scene: &Scene| {
        scene.condition().stores.iter().filter(|it| it.collection.kind.name() == "Secret").count()
    };
    assert_eq!(watched(&scene), 1);
    server.delete("ingresses", "shop", "web");
    let told = texts(&scene.changes().await.changes);
    assert_eq!(told, ["-Ingress shop/web", "-Secret shop/tls"]);
    assert_eq!(watched(&scene), 0);
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    assert_eq!(texts(&scene.changes().await.changes), ["+Secret shop/tls", "+Ingress shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_makes_ingresses_ours_comes_with_their_secrets() {
    let server = Server::new();
    let mut foreign = ingress("shop", "web", &["tls"]);
    foreign["spec"]["ingressClassName"] = json!("edge");
    server.put("ingresses", foreign);
    server.put("secrets", secret("shop", "tls"));
    let mut scene = Scene::started(&server).await;
    assert!(!scene.has(Kind::Secret, "shop", "tls"));
    server.put("ingressclasses", class("edge"));
    assert_eq!(texts(&scene.changes().await.changes), ["+Secret shop/tls", "+IngressClass edge"]);
    server.delete("ingressclasses", "", "edge");
    assert_eq!(texts(&scene.changes().await.changes), ["-IngressClass edge", "-Secret shop/tls"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_secret_is_told_and_comes_back() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.delete("secrets", "shop", "tls");
    assert_eq!(texts(&scene.changes().await.changes), ["-Secret shop/tls"]);
    server.put("secrets", secret("shop", "tls"));
    assert_eq!(texts(&scene.changes().await.changes), ["+Secret shop/tls"]);
}

#[tokio::test(start_paused = true)]
async fn a_denial_of_secrets_in_one_namespace_hurts_that_one_alone() {
    let server = shop();
    server.put("ingresses", ingress("bank", "web", &["tls"]));
    server.put("secrets", secret("bank", "tls"));
    server.with(|state| state.denied.insert(("secrets".to_owned(), "bank".to_owned())));
    let mut scene = Scene::started(&server).await;
    assert!(scene.has(Kind::Secret, "shop", "tls") && scene.has(Kind::Ingress, "shop", "web"));
    assert!(scene.has(Kind::Ingress, "bank", "web") && !scene.has(Kind::Secret, "bank", "tls"));
    let problems: Vec<_> = scene.condition().problems().map(str::to_owned).collect();
    let [problem] = &*problems else { panic!("{problems:?}") };
    assert!(
        problem.starts_with(
            "system:serviceaccount:edge:fairway may not list and watch secrets in namespace bank"
        )
    );
    server.put("secrets", secret("shop", "tls"));
    assert_eq!(texts(&scene.changes().await.changes), ["+Secret shop/tls"]);
    // An Ingress there does not wait for what nobody may see.
    server.put("ingresses", ingress("bank", "two", &["more"]));
    let waited = scene.until("the Ingress", |scene| scene.has(Kind::Ingress, "bank", "two")).await;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    server.put("secrets", secret("bank", "more"));
    server.with(|state| state.denied.clear());
    scene
        .until("the Secrets", |scene| {
            scene.has(Kind::Secret, "bank", "tls") && scene.has(Kind::Secret, "bank", "more")
        })
        .await;
    assert!(scene.condition().is_synced());
}

#[tokio::test(start_paused = true)]
async fn what_was_named_while_a_watch_was_denied_is_asked_for_afterwards() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.with(|state| state.denied.insert(("secrets".to_owned(), "shop".to_owned())));
    server.close_watches();
    scene.pass(Duration::from_secs(10)).await;
    assert!(scene.has(Kind::Secret, "shop", "tls"), "a denial removes nothing");
    server.put("ingresses", ingress("shop", "new", &["unnamed"]));
    scene.until("the Ingress", |scene| scene.has(Kind::Ingress, "shop", "new")).await;
    server.with(|state| state.denied.clear());
    scene.until("its Secret", |scene| scene.has(Kind::Secret, "shop", "unnamed")).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_an_annotation_names_is_watched_like_a_secret() {
    let server = shop();
    let mut scene = Scene::started(&server).await;
    server.put(
        "configmaps",
        json!({ "metadata": { "namespace": "shop", "name": "headers" }, "data": { "x": "y" } }),
    );
    let mut named = ingress("shop", "new", &[]);
    named["metadata"]["annotations"] =
        json!({ "nginx.ingress.kubernetes.io/custom-headers": "shop/headers" });
    server.put("ingresses", named);
    assert_eq!(texts(&scene.changes().await.changes), ["+ConfigMap shop/headers", "+Ingress shop/new"]);
}
