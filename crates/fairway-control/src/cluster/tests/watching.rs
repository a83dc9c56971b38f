//! Lists, watches and selections while nothing is wrong with the server.

use std::time::Duration;

use fairway_translate::{Kind, ObjectKey, Options};
use serde_json::json;

use super::scene::{Scene, class, ingress, listed, namespace, secret, service, slice, texts};
use super::server::{Listing, Server};
use crate::cluster::collection::{Collection, Watched};
use crate::cluster::selection::{Namespaces, Selection};

fn full_server() -> Server {
    let server = Server::new();
    server.put("ingressclasses", class("fairway"));
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    server.put("services", service("shop", "web"));
    server.put("endpointslices", slice("shop", "web"));
    server.put("secrets", secret("shop", "tls"));
    server.put("secrets", secret("shop", "other"));
    server
}

#[tokio::test(start_paused = true)]
async fn the_first_batch_has_everything_and_comes_when_every_list_is_there() {
    let server = full_server();
    server.with(|state| state.broken_lists.insert("services".to_owned()));
    let mut scene = Scene::start(&server, Selection::default());
    assert!(scene.pass(Duration::from_secs(3)).await.is_empty());
    let condition = scene.condition();
    assert!(!condition.told && !condition.is_synced());
    assert!(
        condition.problems().any(|problem| problem.contains("services in all namespaces")),
        "{condition:#?}"
    );
    server.with(|state| state.broken_lists.clear());
    let mut first = texts(&scene.batch().await.changes);
    first.sort();
    let whole = [
        "+EndpointSlice shop/web",
        "+Ingress shop/web",
        "+IngressClass fairway",
        "+Secret shop/tls",
        "+Service shop/web",
    ];
    assert_eq!(first, whole);
    assert!(scene.condition().is_synced(), "{:#?}", scene.condition());
}

#[tokio::test(start_paused = true)]
async fn an_event_is_told_at_once_and_once() {
    let server = full_server();
    let mut scene = Scene::started(&server).await;
    server.put("services", service("shop", "new"));
    let before = tokio::time::Instant::now();
    assert_eq!(texts(&scene.batch().await.changes), ["+Service shop/new"]);
    assert!(before.elapsed() < Duration::from_millis(5));
    server.delete("services", "shop", "new");
    assert_eq!(texts(&scene.batch().await.changes), ["-Service shop/new"]);
    assert!(scene.pass(Duration::from_secs(600)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_no_lists_as_streams_is_asked_for_pages() {
    let refusing = [422, 500].map(|status| (36, Listing::RefusesStreams(status)));
    for (minor, lists) in refusing.into_iter().chain([(36, Listing::NeverComplete), (25, Listing::Streams)]) {
        let server = full_server();
        for number in 0..1200 {
            server.put("services", service("shop", &format!("s{number}")));
        }
        server.with(|state| (state.minor, state.lists) = (minor, lists));
        let mut scene = Scene::started(&server).await;
        assert_eq!(scene.names(Kind::Service), server.names("services"));
        assert_eq!(server.requests("/services?&limit=500"), 3);
        server.put("services", service("shop", "late"));
        assert_eq!(texts(&scene.batch().await.changes), ["+Service shop/late"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_that_succeeds_removes() {
    let server = full_server();
    let mut scene = Scene::started(&server).await;
    // Nobody sees the deletion: the watches are closed, and their history is gone.
    server.close_watches();
    server.delete("endpointslices", "shop", "web");
    server.forget_history();
    assert_eq!(texts(&scene.changes().await.changes), ["-EndpointSlice shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_listed_namespaces_are_asked_for() {
    let server = full_server();
    server.put("ingresses", ingress("bank", "web", &["tls"]));
    server.put("services", service("edge", "fairway"));
    server.put("services", service("edge", "other"));
    let services = vec![ObjectKey::new("edge", "fairway")];
    let mut scene = Scene::start(&server, Selection { services, ..listed(&["shop"]) });
    scene.batch().await;
    assert!(scene.has(Kind::Ingress, "shop", "web") && !scene.has(Kind::Ingress, "bank", "web"));
    assert!(scene.has(Kind::Service, "edge", "fairway") && !scene.has(Kind::Service, "edge", "other"));
    assert_eq!(server.requests("namespaces/bank/"), 0);
    server.put("services", service("edge", "fairway"));
    assert_eq!(texts(&scene.batch().await.changes), ["+Service edge/fairway"]);
}

#[tokio::test(start_paused = true)]
async fn labelled_namespaces_come_and_go_with_all_that_is_in_them() {
    let server = full_server();
    server.put("ingresses", ingress("bank", "web", &["tls"]));
    server.put("secrets", secret("bank", "tls"));
    server.put("namespaces", namespace("shop", "yes"));
    server.put("namespaces", namespace("bank", "no"));
    let namespaces = Namespaces::Labelled("edge=yes".into());
    let mut scene = Scene::start(&server, Selection { namespaces, ..Selection::default() });
    scene.batch().await;
    assert!(scene.has(Kind::Secret, "shop", "tls") && !scene.has(Kind::Ingress, "bank", "web"));
    server.put("namespaces", namespace("bank", "yes"));
    scene.until("the second namespace", |scene| scene.has(Kind::Secret, "bank", "tls")).await;
    assert!(scene.has(Kind::Ingress, "bank", "web"));
    server.put("namespaces", namespace("shop", "no"));
    scene.until("the end of the first", |scene| !scene.has(Kind::Secret, "shop", "tls")).await;
    for kind in [Kind::Ingress, Kind::Service, Kind::EndpointSlice, Kind::Secret] {
        assert!(!scene.has(kind, "shop", "web"), "{kind:?}");
    }
    assert!(scene.has(Kind::Ingress, "bank", "web"));
    let watched: Vec<_> = scene.condition().stores.into_iter().map(|store| store.collection).collect();
    assert!(!watched.contains(&Collection::within(Watched::Service, &"shop".into())), "{watched:?}");
    server.put("ingresses", ingress("shop", "unseen", &[]));
    assert!(scene.pass(Duration::from_secs(30)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn settings_and_the_default_certificate_are_watched_by_their_names() {
    let server = full_server();
    server.put(
        "configmaps",
        json!({ "metadata": { "namespace": "edge", "name": "settings" }, "data": { "a": "b" } }),
    );
    server.put("configmaps", json!({ "metadata": { "namespace": "edge", "name": "else" } }));
    server.put("secrets", secret("edge", "default"));
    let options = Options {
        configmap: Some(ObjectKey::new("edge", "settings")),
        default_certificate: Some(ObjectKey::new("edge", "default")),
        ..Options::default()
    };
    let mut scene = Scene::start(&server, Selection { options, ..Selection::default() });
    scene.batch().await;
    assert!(scene.has(Kind::ConfigMap, "edge", "settings") && !scene.has(Kind::ConfigMap, "edge", "else"));
    assert!(scene.has(Kind::Secret, "edge", "default"));
    // An Ingress that names the default certificate too, and a watch of what else it names, take nothing along.
    server.put("secrets", secret("edge", "other"));
    server.put("ingresses", ingress("edge", "admin", &["default", "other"]));
    scene.until("the Ingress", |scene| scene.has(Kind::Ingress, "edge", "admin")).await;
    server.put("secrets", secret("edge", "default"));
    assert_eq!(texts(&scene.pass(Duration::from_secs(1)).await), ["+Secret edge/default"]);
    server.delete("ingresses", "edge", "admin");
    scene.until("its end", |scene| !scene.has(Kind::Ingress, "edge", "admin")).await;
    assert!(scene.has(Kind::Secret, "edge", "default"));
    server.delete("secrets", "edge", "default");
    scene.until("the end of the Secret", |scene| !scene.has(Kind::Secret, "edge", "default")).await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_says_when_its_pods_changed_dates_its_batch() {
    let server = full_server();
    let dated = |at: &str| {
        let mut dated = slice("shop", "web");
        dated["metadata"]["annotations"] = json!({ "endpoints.kubernetes.io/last-change-trigger-time": at });
        dated
    };
    server.put("endpointslices", dated("2026-01-01T00:00:00Z"));
    let mut scene = Scene::start(&server, Selection::default());
    assert_eq!(
        scene.batch().await.written,
        None,
        "what is old when it is first seen came neither fast nor slowly"
    );
    server.put("endpointslices", dated("2026-01-02T00:00:00Z"));
    server.put("endpointslices", dated("2026-01-03T00:00:00Z"));
    let seconds =
        scene.batch().await.written.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(seconds, 1_767_312_000);
}
