//! Kinds of the Gateway API, which a cluster may have or not, now or later.

use std::time::Duration;

use fairway_objects::object::Kind;
use fairway_testkit::api_server::{ApiServer, Failure, GATEWAY_API, INFERENCE_EXTENSION, POLICIES};
use serde_json::{Value, json};

use super::harness::{
    Harness, about, gateway, gateway_class, http_route, ingress, listed, namespace, secret, texts, within,
};
use crate::source::selection::{Namespaces, Selection, ServeGateways};

const STANDARD: [(&str, &str); 4] =
    [("v1", "gatewayclasses"), ("v1", "gateways"), ("v1", "httproutes"), ("v1", "referencegrants")];

fn with_crds() -> ApiServer {
    let server = ApiServer::new();
    server.define(GATEWAY_API, &STANDARD);
    server.put("gatewayclasses", gateway_class("edge"));
    server.put("gateways", gateway("infra", "edge", &[]));
    server.put("httproutes", http_route("shop", "web"));
    server.put("namespaces", namespace("shop", "prod"));
    server
}

/// What is read of a CRD; its release is an annotation.
fn definition(name: &str, release: Option<&str>) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(release) = release {
        metadata["annotations"] = json!({ "gateway.networking.k8s.io/bundle-version": release });
    }
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}

#[tokio::test(start_paused = true)]
async fn the_first_batch_has_the_objects_of_the_kinds_that_there_are() {
    let mut harness = Harness::start(&with_crds(), Selection::default());
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
    assert!(harness.has(Kind::Ingress, "shop", "web"));
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
async fn crds_that_are_installed_later_are_noticed_and_their_objects_served() {
    let server = ApiServer::new();
    let mut harness = Harness::started(&server).await;
    server.put("gateways", gateway("infra", "edge", &[]));
    assert!(harness.pass(Duration::from_secs(30)).await.is_empty());
    server.define(GATEWAY_API, &STANDARD);
    harness.until("the Gateway", |harness| harness.has(Kind::Gateway, "infra", "edge")).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_cluster_lacks_holds_up_nothing_and_is_served_once_it_is_there() {
    let server = with_crds();
    // The fields that are read are those of an HTTPRoute.
    server.put("udproutes", http_route("shop", "dns"));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::HttpRoute, "shop", "web") && !harness.has(Kind::UdpRoute, "shop", "dns"));
    assert!(harness.condition().problems().next().is_none());
    server.define(GATEWAY_API, &[("v1alpha2", "udproutes")]);
    harness.until("the UDPRoute", |harness| harness.has(Kind::UdpRoute, "shop", "dns")).await;
}

#[tokio::test(start_paused = true)]
async fn objects_go_with_their_crds_but_not_while_a_crd_is_replaced() {
    let server = with_crds();
    let mut harness = Harness::started(&server).await;
    let routes = || ("v1", "httproutes");
    server.undefine(GATEWAY_API, routes());
    server.close_watches();
    assert!(harness.pass(Duration::from_secs(10)).await.is_empty(), "it may be back in a moment");
    server.define(GATEWAY_API, &[routes()]);
    assert!(harness.pass(Duration::from_secs(60)).await.is_empty());
    server.undefine_all(GATEWAY_API);
    server.close_watches();
    harness.until("no route", |harness| !harness.has(Kind::HttpRoute, "shop", "web")).await;
    assert!(!harness.has(Kind::Gateway, "infra", "edge"));
    assert!(!harness.has(Kind::Namespace, "", "shop"), "nothing chooses by labels any more");
    harness.until("no problem", |harness| harness.condition().problems().next().is_none()).await;
}

/// A Pod that is ready.
fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": "llama" } },
        "status": { "podIP": "10.0.0.1", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn pool(namespace: &str, name: &str) -> Value {
    let spec =
        json!({ "selector": { "matchLabels": { "app": "llama" } }, "targetPorts": [{ "number": 8000 }] });
    json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn pods_are_watched_where_there_are_pools_and_as_long_as_there_are() {
    let server = with_crds();
    server.define(INFERENCE_EXTENSION, &[("v1", "inferencepools")]);
    server.put("pods", pod("shop", "web-1"));
    server.put("pods", pod("models", "llama-1"));
    server.put("inferencepools", pool("models", "llama"));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::InferencePool, "models", "llama"));
    assert!(harness.has(Kind::Pod, "models", "llama-1"), "the first batch has them");
    assert!(!harness.has(Kind::Pod, "shop", "web-1"));
    server.put("inferencepools", pool("models", "other"));
    server.delete("inferencepools", "models", "llama");
    harness.until("one pool", |harness| !harness.has(Kind::InferencePool, "models", "llama")).await;
    assert!(harness.has(Kind::Pod, "models", "llama-1"), "another pool may have it");
    server.delete("inferencepools", "models", "other");
    harness.until("no Pod", |harness| !harness.has(Kind::Pod, "models", "llama-1")).await;
    assert!(harness.has(Kind::HttpRoute, "shop", "web"));
    server.put("inferencepools", pool("shop", "late"));
    harness.until("its Pods", |harness| harness.has(Kind::Pod, "shop", "web-1")).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_read_in_the_version_that_there_is_and_stays_with_it() {
    let server = ApiServer::new();
    server.define(GATEWAY_API, &[("v1beta1", "referencegrants")]);
    let mut harness = Harness::started(&server).await;
    let version = |harness: &Harness| {
        let condition = harness.condition();
        let grants =
            condition.stores.iter().find(|it| it.collection.kind.kind() == Some(Kind::ReferenceGrant));
        grants.map(|it| it.collection.version)
    };
    assert_eq!(version(&harness), Some("v1beta1"));
    server.define(GATEWAY_API, &[("v1", "referencegrants")]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(version(&harness), Some("v1beta1"), "a watch that works is not replaced");
    server.undefine(GATEWAY_API, ("v1beta1", "referencegrants"));
    harness.until("the other version", |harness| version(harness) == Some("v1")).await;
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
    server.fail(Failure::Forbidden, within("referencegrants", ""));
    server.close_watches();
    server.delete("referencegrants", "shop", "gone");
    assert!(harness.pass(Duration::from_secs(60)).await.is_empty(), "a list that fails removes nothing");
    let condition = harness.condition();
    let versions =
        condition.stores.iter().filter(|it| it.collection.kind.kind() == Some(Kind::ReferenceGrant));
    assert_eq!(versions.map(|it| it.collection.version).collect::<Vec<_>>(), ["v1"]);
    server.heal();
    let changes = texts(&harness.pass(Duration::from_secs(60)).await);
    assert_eq!(changes, ["+ReferenceGrant shop/kept", "-ReferenceGrant shop/gone"]);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_comes_with_the_secrets_that_it_names_in_whichever_namespace() {
    let server = with_crds();
    server.put("secrets", secret("infra", "a"));
    server.put("secrets", secret("certs", "b"));
    server.put("secrets", secret("certs", "unnamed"));
    let mut harness = Harness::started(&server).await;
    server.put("gateways", gateway("infra", "edge", &["a", "certs/b"]));
    let mut changes = texts(&harness.changes().await.changes);
    assert_eq!(changes.pop().as_deref(), Some("+Gateway infra/edge"), "after what it names");
    changes.sort();
    assert_eq!(changes, ["+Secret certs/b", "+Secret infra/a"]);
    server.delete("gateways", "infra", "edge");
    harness.until("forgotten", |harness| !harness.has(Kind::Secret, "certs", "b")).await;
    assert!(!harness.has(Kind::Secret, "certs", "unnamed"));
}

#[tokio::test(start_paused = true)]
async fn a_policy_comes_with_the_secrets_that_it_names_and_goes_with_its_crd() {
    let server = with_crds();
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
async fn only_what_is_in_the_selected_namespaces_is_watched() {
    let server = with_crds();
    server.put("httproutes", http_route("bank", "web"));
    let mut harness = Harness::start(&server, listed(&["shop"]));
    harness.batch().await;
    assert!(harness.has(Kind::HttpRoute, "shop", "web") && !harness.has(Kind::HttpRoute, "bank", "web"));
    assert!(harness.has(Kind::GatewayClass, "", "edge"), "classes have no namespace");
    assert_eq!(server.requests("/v1/httproutes?"), 0, "never in all namespaces");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_selected_later_brings_its_routes() {
    let server = with_crds();
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
    harness.until("deselected", |harness| !harness.has(Kind::HttpRoute, "shop", "web")).await;
    assert!(harness.has(Kind::Namespace, "", "shop"), "Gateways may choose by its labels");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_read_is_named_and_holds_up_nothing() {
    let server = with_crds();
    server.fail(Failure::Forbidden, within("httproutes", ""));
    let mut harness = Harness::started(&server).await;
    assert!(harness.has(Kind::Gateway, "infra", "edge") && !harness.has(Kind::HttpRoute, "shop", "web"));
    let named = |harness: &Harness| {
        let condition = harness.condition();
        condition.problems().any(|it| it.contains("list and watch on httproutes.gateway.networking.k8s.io"))
    };
    harness.until("the missing permission", named).await;
}

#[tokio::test(start_paused = true)]
async fn who_serves_no_gateways_asks_for_none() {
    let server = with_crds();
    let selection = Selection { gateways: ServeGateways::No, ..Selection::default() };
    let mut harness = Harness::start(&server, selection);
    harness.batch().await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(server.requests("gateway.networking.k8s.io"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_releases_of_crds_are_told_after_the_objects_and_again_when_they_are_others() {
    let server = with_crds();
    let (classes, routes) =
        ("gatewayclasses.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io");
    server.put("customresourcedefinitions", definition(classes, Some("v1.6.3")));
    server.put("customresourcedefinitions", definition(routes, None));
    let mut harness = Harness::start(&server, Selection::default());
    let first = harness.batch().await;
    assert!(first.changes.iter().any(|change| change.reference().kind == Kind::GatewayClass));
    harness.until("the releases", |harness| !harness.releases.is_empty()).await;
    let of =
        |releases: &fairway_objects::gateway_resources::Releases, name: &str| releases.get(name).cloned();
    assert_eq!(of(&harness.releases[0], classes), Some(Some("v1.6.3".to_owned())));
    assert_eq!(of(&harness.releases[0], routes), Some(None), "it has no annotation");
    harness.pass(Duration::from_secs(180)).await;
    assert_eq!(harness.releases.len(), 1, "only differences are told");
    server.put("customresourcedefinitions", definition(routes, Some("v1.7.0")));
    harness.until("the next one", |harness| harness.releases.len() == 2).await;
    assert_eq!(of(&harness.releases[1], routes), Some(Some("v1.7.0".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_nobody_says_of_which_release_crds_are() {
    let server = with_crds();
    server.put("customresourcedefinitions", definition("gateways.gateway.networking.k8s.io", Some("v1.7.0")));
    server.fail(Failure::Forbidden, about("customresourcedefinitions"));
    let mut harness = Harness::started(&server).await;
    harness.pass(Duration::from_secs(180)).await;
    assert!(harness.releases.is_empty());
    assert!(harness.condition().problems().next().is_none(), "nothing else suffers");
}
