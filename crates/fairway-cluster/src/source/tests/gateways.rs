//! Watching the kinds of the Gateway API and of other CRDs, which a cluster may serve from the start, later or never.

use std::time::Duration;

use fairway_objects::gateway_resources::Releases;
use fairway_objects::object::Kind;
use fairway_testkit::api_server::{ApiServer, Failure, GATEWAY_API, INFERENCE_EXTENSION, POLICIES};
use serde_json::{Value, json};

use super::harness::{
    Harness, gateway, gateway_class, http_route, ingress, namespace, requests_for, requests_in, secret,
    selection_of_namespaces, texts,
};
use crate::source::selection::{Namespaces, Selection, ServeGateways};

/// The versions and resources that [`server_with_crds`] defines.
const SERVED_RESOURCES: [(&str, &str); 4] =
    [("v1", "gatewayclasses"), ("v1", "gateways"), ("v1", "httproutes"), ("v1", "referencegrants")];

/// A server with these CRDs, a GatewayClass, a Gateway, an HTTPRoute and its namespace.
fn server_with_crds() -> ApiServer {
    let server = ApiServer::new();
    server.define(GATEWAY_API, &SERVED_RESOURCES);
    server.put("gatewayclasses", gateway_class("edge"));
    server.put("gateways", gateway("infra", "edge", &[]));
    server.put("httproutes", http_route("shop", "web"));
    server.put("namespaces", namespace("shop", "prod"));
    server
}

/// The metadata of a CRD, with the release of its bundle as an annotation.
fn crd_metadata(name: &str, release: Option<&str>) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(release) = release {
        metadata["annotations"] = json!({ "gateway.networking.k8s.io/bundle-version": release });
    }
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}

#[tokio::test(start_paused = true)]
async fn the_first_batch_has_the_objects_of_the_served_kinds() {
    let mut harness = Harness::start(&server_with_crds(), Selection::default());
    let mut first = texts(&harness.batch().await.changes);
    first.sort();
    assert_eq!(
        first,
        ["+Gateway infra/edge", "+GatewayClass edge", "+HTTPRoute shop/web", "+Namespace shop"]
    );
    assert!(harness.condition().is_synced(), "{:#?}", harness.condition());
}

#[tokio::test(start_paused = true)]
async fn without_crds_everything_else_is_served_and_no_watch_fails() {
    let server = ApiServer::new();
    server.put("ingresses", ingress("shop", "web", &[]));
    let harness = Harness::started(&server).await;
    assert!(harness.has(Kind::Ingress, "shop", "web"), "expected the Ingress without any CRDs");
    let condition = harness.condition();
    assert!(condition.is_synced() && condition.problems().next().is_none(), "{condition:#?}");
    assert_eq!(
        condition
            .stores
            .iter()
            .filter(|it| it.collection.kind.kind().and_then(Kind::of_gateways).is_some())
            .count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn objects_are_served_once_their_crds_are_installed() {
    let server = ApiServer::new();
    let mut harness = Harness::started(&server).await;
    server.put("gateways", gateway("infra", "edge", &[]));
    assert!(harness.pass(Duration::from_secs(30)).await.is_empty());
    server.define(GATEWAY_API, &SERVED_RESOURCES);
    harness.until("the Gateway", |harness| harness.has(Kind::Gateway, "infra", "edge")).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_delays_nothing_and_is_served_once_installed() {
    let server = server_with_crds();
    // An HTTPRoute has all fields of a UDPRoute that the source reads.
    server.put("udproutes", http_route("shop", "dns"));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::HttpRoute, "shop", "web") && !harness.has(Kind::UdpRoute, "shop", "dns"));
    assert!(harness.condition().problems().next().is_none());
    server.define(GATEWAY_API, &[("v1alpha2", "udproutes")]);
    harness.until("the UDPRoute", |harness| harness.has(Kind::UdpRoute, "shop", "dns")).await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_removed_with_their_crds_but_not_during_a_replacement() {
    let server = server_with_crds();
    let mut harness = Harness::started(&server).await;
    let http_routes = || ("v1", "httproutes");
    server.undefine(GATEWAY_API, http_routes());
    server.close_watches();
    assert!(
        harness.pass(Duration::from_secs(10)).await.is_empty(),
        "expected no removals yet: the CRD may be about to be replaced"
    );
    server.define(GATEWAY_API, &[http_routes()]);
    assert!(harness.pass(Duration::from_secs(60)).await.is_empty());
    server.undefine_all(GATEWAY_API);
    server.close_watches();
    harness.until("no route", |harness| !harness.has(Kind::HttpRoute, "shop", "web")).await;
    assert!(!harness.has(Kind::Gateway, "infra", "edge"));
    assert!(
        !harness.has(Kind::Namespace, "", "shop"),
        "expected no Namespace: only Gateways select by its labels"
    );
    harness.until("no problem", |harness| harness.condition().problems().next().is_none()).await;
}

/// A ready Pod that [`pool`] selects.
fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": "llama" } },
        "status": { "podIP": "10.0.0.1", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

/// An InferencePool that selects every [`pod`] of its namespace.
fn pool(namespace: &str, name: &str) -> Value {
    let spec =
        json!({ "selector": { "matchLabels": { "app": "llama" } }, "targetPorts": [{ "number": 8000 }] });
    json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn pods_are_watched_only_in_namespaces_with_pools() {
    let server = server_with_crds();
    server.define(INFERENCE_EXTENSION, &[("v1", "inferencepools")]);
    server.put("pods", pod("shop", "web-1"));
    server.put("pods", pod("models", "llama-1"));
    server.put("inferencepools", pool("models", "llama"));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::InferencePool, "models", "llama"));
    assert!(harness.has(Kind::Pod, "models", "llama-1"), "expected the Pods of the pool in the first batch");
    assert!(!harness.has(Kind::Pod, "shop", "web-1"));
    server.put("inferencepools", pool("models", "other"));
    server.delete("inferencepools", "models", "llama");
    harness.until("one pool", |harness| !harness.has(Kind::InferencePool, "models", "llama")).await;
    assert!(
        harness.has(Kind::Pod, "models", "llama-1"),
        "expected the Pod as long as the namespace has another pool"
    );
    server.delete("inferencepools", "models", "other");
    harness.until("no Pod", |harness| !harness.has(Kind::Pod, "models", "llama-1")).await;
    assert!(harness.has(Kind::HttpRoute, "shop", "web"));
    server.put("inferencepools", pool("shop", "late"));
    harness.until("its Pods", |harness| harness.has(Kind::Pod, "shop", "web-1")).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_read_in_an_offered_version_and_keeps_it() {
    let server = ApiServer::new();
    server.define(GATEWAY_API, &[("v1beta1", "referencegrants")]);
    let mut harness = Harness::started(&server).await;
    let watched_version = |harness: &Harness| {
        let condition = harness.condition();
        let grants =
            condition.stores.iter().find(|it| it.collection.kind.kind() == Some(Kind::ReferenceGrant));
        grants.map(|it| it.collection.version)
    };
    assert_eq!(watched_version(&harness), Some("v1beta1"));
    server.define(GATEWAY_API, &[("v1", "referencegrants")]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(watched_version(&harness), Some("v1beta1"), "expected the working watch to keep its version");
    server.undefine(GATEWAY_API, ("v1beta1", "referencegrants"));
    harness.until("the other version", |harness| watched_version(harness) == Some("v1")).await;
}

#[tokio::test(start_paused = true)]
async fn objects_stay_until_they_are_listed_in_another_version() {
    let server = ApiServer::new();
    let (old, new) = (("v1beta1", "referencegrants"), ("v1", "referencegrants"));
    server.define(GATEWAY_API, &[old]);
    for name in ["gone", "kept"] {
        let metadata = json!({ "namespace": "shop", "name": name });
        let to = json!({ "group": "", "kind": "Secret" });
        server.put("referencegrants", json!({ "metadata": metadata, "spec": { "from": [], "to": [to] } }));
    }
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::ReferenceGrant, "shop", "kept"));
    server.undefine(GATEWAY_API, old);
    server.define(GATEWAY_API, &[new]);
    server.fail(Failure::Forbidden, requests_in("referencegrants", ""));
    server.close_watches();
    server.delete("referencegrants", "shop", "gone");
    assert!(
        harness.pass(Duration::from_secs(60)).await.is_empty(),
        "expected no removals while the list fails"
    );
    let condition = harness.condition();
    let versions =
        condition.stores.iter().filter(|it| it.collection.kind.kind() == Some(Kind::ReferenceGrant));
    assert_eq!(versions.map(|it| it.collection.version).collect::<Vec<_>>(), ["v1"]);
    server.heal();
    let changes = texts(&harness.pass(Duration::from_secs(60)).await);
    assert_eq!(changes, ["+ReferenceGrant shop/kept", "-ReferenceGrant shop/gone"]);
}

#[tokio::test(start_paused = true)]
async fn the_secrets_of_a_gateway_are_sent_before_it_from_any_namespace() {
    let server = server_with_crds();
    server.put("secrets", secret("infra", "a"));
    server.put("secrets", secret("certs", "b"));
    server.put("secrets", secret("certs", "unnamed"));
    let mut harness = Harness::started(&server).await;
    server.put("gateways", gateway("infra", "edge", &["a", "certs/b"]));
    let mut changes = texts(&harness.changes().await.changes);
    assert_eq!(
        changes.pop().as_deref(),
        Some("+Gateway infra/edge"),
        "expected the Gateway after its Secrets"
    );
    changes.sort();
    assert_eq!(changes, ["+Secret certs/b", "+Secret infra/a"]);
    server.delete("gateways", "infra", "edge");
    harness.until("the removal of its Secrets", |harness| !harness.has(Kind::Secret, "certs", "b")).await;
    assert!(!harness.has(Kind::Secret, "certs", "unnamed"));
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_sent_after_its_secrets_and_removed_with_its_crd() {
    let server = server_with_crds();
    server.define(POLICIES, &[("v1alpha1", "securitypolicies")]);
    server.put("secrets", secret("shop", "users"));
    let mut harness = Harness::started(&server).await;
    let policy = json!({
        "metadata": { "namespace": "shop", "name": "login" },
        "spec": { "basicAuth": { "secretRef": { "name": "users" } } },
    });
    server.put("securitypolicies", policy);
    let changes = texts(&harness.changes().await.changes);
    assert_eq!(changes, ["+Secret shop/users", "+SecurityPolicy shop/login"]);
    server.undefine_all(POLICIES);
    server.close_watches();
    harness.until("no policy", |harness| !harness.has(Kind::SecurityPolicy, "shop", "login")).await;
    harness.until("no Secret", |harness| !harness.has(Kind::Secret, "shop", "users")).await;
}

#[tokio::test(start_paused = true)]
async fn only_selected_namespaces_are_watched() {
    let server = server_with_crds();
    server.put("httproutes", http_route("bank", "web"));
    let mut harness = Harness::start(&server, selection_of_namespaces(&["shop"]));
    harness.batch().await;
    assert!(harness.has(Kind::HttpRoute, "shop", "web") && !harness.has(Kind::HttpRoute, "bank", "web"));
    assert!(
        harness.has(Kind::GatewayClass, "", "edge"),
        "expected cluster-scoped classes whatever the selection"
    );
    assert_eq!(server.requests("/v1/httproutes?"), 0, "expected no request for the routes of all namespaces");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_selected_later_brings_its_routes() {
    let server = server_with_crds();
    let selection =
        Selection { namespaces: Namespaces::Labelled("edge=prod".into()), ..Selection::default() };
    server.put("namespaces", namespace("bank", "test"));
    server.put("httproutes", http_route("bank", "web"));
    let mut harness = Harness::start(&server, selection);
    harness.batch().await;
    harness.until("the route", |harness| harness.has(Kind::HttpRoute, "shop", "web")).await;
    assert!(!harness.has(Kind::HttpRoute, "bank", "web"));
    server.put("namespaces", namespace("bank", "prod"));
    harness.until("the other route", |harness| harness.has(Kind::HttpRoute, "bank", "web")).await;
    server.put("namespaces", namespace("shop", "test"));
    harness.until("the removal of its route", |harness| !harness.has(Kind::HttpRoute, "shop", "web")).await;
    assert!(
        harness.has(Kind::Namespace, "", "shop"),
        "expected the Namespace: Gateways may select by its labels"
    );
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_reported_and_delays_nothing() {
    let server = server_with_crds();
    server.fail(Failure::Forbidden, requests_in("httproutes", ""));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::Gateway, "infra", "edge") && !harness.has(Kind::HttpRoute, "shop", "web"));
    let reports_missing_permission = |harness: &Harness| {
        let condition = harness.condition();
        condition.problems().any(|it| it.contains("list and watch on httproutes.gateway.networking.k8s.io"))
    };
    harness.until("the missing permission", reports_missing_permission).await;
}

#[tokio::test(start_paused = true)]
async fn gateways_are_not_requested_if_they_are_not_served() {
    let server = server_with_crds();
    let selection = Selection { gateways: ServeGateways::No, ..Selection::default() };
    let mut harness = Harness::start(&server, selection);
    harness.batch().await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(server.requests("gateway.networking.k8s.io"), 0);
}

#[tokio::test(start_paused = true)]
async fn crd_releases_are_sent_after_the_objects_and_on_each_change() {
    let server = server_with_crds();
    let (classes, routes) =
        ("gatewayclasses.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io");
    server.put("customresourcedefinitions", crd_metadata(classes, Some("v1.6.3")));
    server.put("customresourcedefinitions", crd_metadata(routes, None));
    let mut harness = Harness::start(&server, Selection::default());
    let first = harness.batch().await;
    assert!(first.changes.iter().any(|change| change.reference().kind == Kind::GatewayClass));
    harness.until("the releases", |harness| !harness.releases.is_empty()).await;
    let release_of = |releases: &Releases, name: &str| releases.get(name).cloned();
    assert_eq!(release_of(&harness.releases[0], classes), Some(Some("v1.6.3".to_owned())));
    assert_eq!(
        release_of(&harness.releases[0], routes),
        Some(None),
        "expected the CRD without a release: it has no annotation"
    );
    harness.pass(Duration::from_secs(180)).await;
    assert_eq!(harness.releases.len(), 1, "expected no further batch while the releases stay the same");
    server.put("customresourcedefinitions", crd_metadata(routes, Some("v1.7.0")));
    harness.until("the changed release", |harness| harness.releases.len() == 2).await;
    assert_eq!(release_of(&harness.releases[1], routes), Some(Some("v1.7.0".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn without_permission_crd_releases_are_unknown() {
    let server = server_with_crds();
    server
        .put("customresourcedefinitions", crd_metadata("gateways.gateway.networking.k8s.io", Some("v1.7.0")));
    server.fail(Failure::Forbidden, requests_for("customresourcedefinitions"));
    let mut harness = Harness::started(&server).await;
    harness.pass(Duration::from_secs(180)).await;
    assert!(harness.releases.is_empty(), "expected no releases without permission");
    assert!(harness.condition().problems().next().is_none(), "expected no problem: releases are optional");
}
