//! Kubernetes objects that several peers have. Never specific to one of them.

use fairway_lab_measure::results::Settings;
use serde_json::{Value, json};

use super::names::{CERTIFICATE, PROXY, PROXY_LABEL, label};
use super::peer::Placement;
use super::route::Route;

/// The Namespace of a placement.
pub(super) fn namespace(placement: &Placement) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": placement.namespace } })
}

/// A ServiceAccount `proxy` in the placement's namespace.
pub(super) fn account(placement: &Placement, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": placement.namespace },
    })
}

/// The class `lab-PEER`.
pub(super) fn class(peer: &str, controller: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": { "name": class_name(peer) }, "spec": { "controller": controller },
    })
}

/// The name of a peer's class.
pub(super) fn class_name(peer: &str) -> String {
    format!("lab-{}", label(peer))
}

/// A Role in the watched namespace and its binding to a ServiceAccount of the placement.
pub(super) fn role(placement: &Placement, peer: &str, account: &str, rules: &Value) -> [Value; 2] {
    let metadata = json!({ "name": class_name(peer), "namespace": placement.watched });
    let subjects = json!([{ "kind": "ServiceAccount", "name": account, "namespace": placement.namespace }]);
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": metadata, "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": class_name(peer) },
            "subjects": subjects,
        }),
    ]
}

/// A ClusterRole and its binding to a ServiceAccount of the placement.
pub(super) fn cluster_role(placement: &Placement, peer: &str, account: &str, rules: &Value) -> [Value; 2] {
    let name = class_name(peer);
    let subjects = json!([{ "kind": "ServiceAccount", "name": account, "namespace": placement.namespace }]);
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name }, "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": subjects,
        }),
    ]
}

/// The LoadBalancer Service `proxy`: ports 80 and 443 to 8080 and 8443 of the pods.
pub(super) fn service(placement: &Placement, peer: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": PROXY, "namespace": placement.namespace },
        "spec": {
            "type": "LoadBalancer",
            "selector": { PROXY_LABEL: label(peer) },
            "ports": [
                { "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" },
                { "name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP" },
            ],
        },
    })
}

/// The Deployment `proxy` with the pods of the data plane.
pub(super) fn deployment(placement: &Placement, peer: &str, pod: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": PROXY, "namespace": placement.namespace },
        "spec": {
            "replicas": placement.replicas,
            "selector": { "matchLabels": { PROXY_LABEL: label(peer) } },
            "template": { "metadata": { "labels": { PROXY_LABEL: label(peer) } }, "spec": pod },
        },
    })
}

/// The word for settings on command lines.
pub(super) fn word(settings: Settings) -> &'static str {
    match settings {
        Settings::Recommended => "recommended",
        Settings::Defaults => "defaults",
    }
}

/// Settings of an Ingress other than its route.
pub(super) struct IngressShape<'a> {
    /// After the route's name.
    pub(super) suffix: &'a str,
    pub(super) class: String,
    pub(super) annotations: Value,
    pub(super) path: &'a str,
    pub(super) path_type: &'a str,
}

/// An Ingress for the host of a route.
pub(super) fn ingress(route: &Route, shape: &IngressShape<'_>) -> Value {
    let mut spec = json!({
        "ingressClassName": shape.class,
        "rules": [{ "host": route.host, "http": { "paths": [{
            "path": shape.path, "pathType": shape.path_type,
            "backend": { "service": { "name": route.service, "port": { "number": route.port } } },
        }] } }],
    });
    if route.tls {
        spec["tls"] = json!([{ "hosts": [route.host], "secretName": CERTIFICATE }]);
    }
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {
            "name": format!("{}{}", route.name, shape.suffix),
            "namespace": route.namespace,
            "annotations": shape.annotations,
        },
        "spec": spec,
    })
}
