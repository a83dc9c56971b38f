//! Lists, watches and selections with a healthy server.

use std::time::Duration;

use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::options::{Defaults, Options};
use fairway_testkit::api_server::{ApiServer, Failure, Listing};
use serde_json::json;

use super::harness::{
    Harness, class, ingress, lists, namespace, secret, selection_of_namespaces, service, slice, texts,
};
use crate::source::collection::Collection;
use crate::source::selection::{Namespaces, Selection};

fn full_server() -> ApiServer {
    let server = ApiServer::new();
    server.put("ingressclasses", class("fairway"));
    server.put("ingresses", ingress("shop", "web", &["tls"]));
    server.put("services", service("shop", "web"));
    server.put("endpointslices", slice("shop", "web"));
    server.put("secrets", secret("shop", "tls"));
    server.put("secrets", secret("shop", "other"));
    server
}

#[tokio::test(start_paused = true)]
async fn the_first_batch_has_everything_once_every_list_is_complete() {
    let server = full_server();
    server.fail(Failure::Broken, lists("services"));
    let mut harness = Harness::start(&server, Selection::default());
    assert!(harness.pass(Duration::from_secs(3)).await.is_empty());
    let condition = harness.condition();
    assert!(!condition.synced_once && !condition.is_synced());
    assert!(
        condition.problems().any(|problem| problem.contains("services in all namespaces")),
        "{condition:#?}"
    );
    server.heal();
    let mut first = texts(&harness.batch().await.changes);
    first.sort();
    let all_objects = [
        "+EndpointSlice shop/web",
        "+Ingress shop/web",
        "+IngressClass fairway",
        "+Secret shop/tls",
        "+Service shop/web",
    ];
    assert_eq!(first, all_objects);
    assert!(harness.condition().is_synced(), "{:#?}", harness.condition());
}

#[tokio::test(start_paused = true)]
async fn an_event_is_sent_at_once_and_only_once() {
    let server = full_server();
    let mut harness = Harness::started(&server).await;
    server.put("services", service("shop", "new"));
    let before = tokio::time::Instant::now();
    assert_eq!(texts(&harness.batch().await.changes), ["+Service shop/new"]);
    assert!(before.elapsed() < Duration::from_millis(5));
    server.delete("services", "shop", "new");
    assert_eq!(texts(&harness.batch().await.changes), ["-Service shop/new"]);
    assert!(harness.pass(Duration::from_secs(600)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pages_are_used_if_a_server_does_not_stream_lists() {
    let refusing = [422, 500].map(|status| (36, Listing::RefusesStreams(status)));
    for (minor, listing) in refusing.into_iter().chain([(36, Listing::NeverComplete), (25, Listing::Streams)])
    {
        let server = full_server();
        for number in 0..1200 {
            server.put("services", service("shop", &format!("s{number}")));
        }
        server.set_minor_version(minor);
        server.set_listing(listing);
        let mut harness = Harness::started(&server).await;
        assert_eq!(harness.names(Kind::Service), server.names("services"));
        assert_eq!(server.requests("/services?&limit=500"), 3);
        server.put("services", service("shop", "late"));
        assert_eq!(texts(&harness.batch().await.changes), ["+Service shop/late"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_that_succeeds_removes() {
    let server = full_server();
    let mut harness = Harness::started(&server).await;
    // The deletion is missed: the watches are closed, and their history is gone.
    server.close_watches();
    server.delete("endpointslices", "shop", "web");
    server.forget_history();
    assert_eq!(texts(&harness.changes().await.changes), ["-EndpointSlice shop/web"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_listed_namespaces_are_requested() {
    let server = full_server();
    server.put("ingresses", ingress("bank", "web", &["tls"]));
    server.put("services", service("edge", "fairway"));
    server.put("services", service("edge", "other"));
    let services = vec![ObjectKey::new("edge", "fairway")];
    let mut harness = Harness::start(&server, Selection { services, ..selection_of_namespaces(&["shop"]) });
    harness.batch().await;
    assert!(harness.has(Kind::Ingress, "shop", "web") && !harness.has(Kind::Ingress, "bank", "web"));
    assert!(harness.has(Kind::Service, "edge", "fairway") && !harness.has(Kind::Service, "edge", "other"));
    assert_eq!(server.requests("namespaces/bank/"), 0);
    server.put("services", service("edge", "fairway"));
    assert_eq!(texts(&harness.batch().await.changes), ["+Service edge/fairway"]);
}

#[tokio::test(start_paused = true)]
async fn labelled_namespaces_come_and_go_with_their_objects() {
    let server = full_server();
    server.put("ingresses", ingress("bank", "web", &["tls"]));
    server.put("secrets", secret("bank", "tls"));
    server.put("namespaces", namespace("shop", "yes"));
    server.put("namespaces", namespace("bank", "no"));
    let namespaces = Namespaces::Labelled("edge=yes".into());
    let mut harness = Harness::start(&server, Selection { namespaces, ..Selection::default() });
    harness.batch().await;
    assert!(harness.has(Kind::Secret, "shop", "tls") && !harness.has(Kind::Ingress, "bank", "web"));
    server.put("namespaces", namespace("bank", "yes"));
    harness.until("the second namespace", |harness| harness.has(Kind::Secret, "bank", "tls")).await;
    assert!(harness.has(Kind::Ingress, "bank", "web"));
    server.put("namespaces", namespace("shop", "no"));
    harness.until("the end of the first", |harness| !harness.has(Kind::Secret, "shop", "tls")).await;
    for kind in [Kind::Ingress, Kind::Service, Kind::EndpointSlice, Kind::Secret] {
        assert!(!harness.has(kind, "shop", "web"), "{kind:?}");
    }
    assert!(harness.has(Kind::Ingress, "bank", "web"));
    let watched: Vec<_> = harness.condition().stores.into_iter().map(|store| store.collection).collect();
    assert!(!watched.contains(&Collection::within(Kind::Service, &"shop".into())), "{watched:?}");
    server.put("ingresses", ingress("shop", "unseen", &[]));
    assert!(harness.pass(Duration::from_secs(30)).await.is_empty());
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
        defaults: Defaults { certificate: Some(ObjectKey::new("edge", "default")), backend: None },
        ..Options::default()
    };
    let mut harness = Harness::start(&server, Selection { options, ..Selection::default() });
    harness.batch().await;
    assert!(
        harness.has(Kind::ConfigMap, "edge", "settings") && !harness.has(Kind::ConfigMap, "edge", "else")
    );
    assert!(harness.has(Kind::Secret, "edge", "default"));
    // An Ingress that also references the default certificate does not remove it when it goes, nor does its watch.
    server.put("secrets", secret("edge", "other"));
    server.put("ingresses", ingress("edge", "admin", &["default", "other"]));
    harness.until("the Ingress", |harness| harness.has(Kind::Ingress, "edge", "admin")).await;
    server.put("secrets", secret("edge", "default"));
    assert_eq!(texts(&harness.pass(Duration::from_secs(1)).await), ["+Secret edge/default"]);
    server.delete("ingresses", "edge", "admin");
    harness.until("its end", |harness| !harness.has(Kind::Ingress, "edge", "admin")).await;
    assert!(harness.has(Kind::Secret, "edge", "default"));
    server.delete("secrets", "edge", "default");
    harness.until("the end of the Secret", |harness| !harness.has(Kind::Secret, "edge", "default")).await;
}

#[tokio::test(start_paused = true)]
async fn the_config_maps_of_tcp_and_udp_services_are_watched_by_their_names() {
    let server = full_server();
    let map = |name: &str, port: &str| json!({ "metadata": { "namespace": "edge", "name": name }, "data": { port: "db/pg:5432" } });
    for (name, port) in [("tcp", "5432"), ("udp", "53"), ("else", "9000")] {
        server.put("configmaps", map(name, port));
    }
    let mut options = Options::default();
    options.listeners.service_maps.tcp = Some(ObjectKey::new("edge", "tcp"));
    options.listeners.service_maps.udp = Some(ObjectKey::new("edge", "udp"));
    let mut harness = Harness::start(&server, Selection { options, ..Selection::default() });
    harness.batch().await;
    let has = |harness: &Harness, name| harness.has(Kind::ConfigMap, "edge", name);
    assert!(has(&harness, "tcp") && has(&harness, "udp") && !has(&harness, "else"));
    server.put("configmaps", map("tcp", "5433"));
    assert_eq!(texts(&harness.changes().await.changes), ["+ConfigMap edge/tcp"]);
    server.delete("configmaps", "edge", "udp");
    harness.until("its end", |harness| !has(harness, "udp")).await;
}

#[tokio::test(start_paused = true)]
async fn config_maps_in_the_settings_are_sent_first_and_followed() {
    let server = full_server();
    let map = |namespace: &str, name: &str, data: &[(&str, &str)]| {
        let data: serde_json::Map<_, _> =
            data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({ "metadata": { "namespace": namespace, "name": name }, "data": data })
    };
    server.put("configmaps", map("edge", "settings", &[("add-headers", "edge/one")]));
    for (namespace, name) in [("edge", "one"), ("edge", "else"), ("other", "two")] {
        server.put("configmaps", map(namespace, name, &[("X-A", "1")]));
    }
    let options = Options { configmap: Some(ObjectKey::new("edge", "settings")), ..Options::default() };
    let mut harness = Harness::start(&server, Selection { options, ..Selection::default() });
    harness.batch().await;
    assert!(harness.has(Kind::ConfigMap, "edge", "settings") && harness.has(Kind::ConfigMap, "edge", "one"));
    assert!(!harness.has(Kind::ConfigMap, "edge", "else"), "nothing names it");
    server.put("configmaps", map("edge", "one", &[("X-A", "2")]));
    assert_eq!(texts(&harness.changes().await.changes), ["+ConfigMap edge/one"]);
    server.put("configmaps", map("edge", "settings", &[("proxy-set-headers", "other/two")]));
    let changes = texts(&harness.changes().await.changes);
    assert_eq!(changes[..2], ["+ConfigMap other/two", "+ConfigMap edge/settings"], "{changes:?}");
    harness.until("the end of the first", |harness| !harness.has(Kind::ConfigMap, "edge", "one")).await;
    server.put("configmaps", map("other", "two", &[("X-A", "3")]));
    assert_eq!(texts(&harness.changes().await.changes), ["+ConfigMap other/two"]);
    server.delete("configmaps", "edge", "settings");
    harness.until("its end", |harness| !harness.has(Kind::ConfigMap, "edge", "settings")).await;
    harness.until("the end of the other", |harness| !harness.has(Kind::ConfigMap, "other", "two")).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_the_change_time_of_its_slice() {
    let server = full_server();
    let dated = |at: &str| {
        let mut dated = slice("shop", "web");
        dated["metadata"]["annotations"] = json!({ "endpoints.kubernetes.io/last-change-trigger-time": at });
        dated
    };
    server.put("endpointslices", dated("2026-01-01T00:00:00Z"));
    let mut harness = Harness::start(&server, Selection::default());
    assert_eq!(
        harness.batch().await.written,
        None,
        "what is old when it is first seen came neither fast nor slowly"
    );
    server.put("endpointslices", dated("2026-01-02T00:00:00Z"));
    server.put("endpointslices", dated("2026-01-03T00:00:00Z"));
    let seconds =
        harness.batch().await.written.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(seconds, 1_767_312_000);
}
