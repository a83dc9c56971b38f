//! Tests of the walk.

use serde_json::json;

use super::*;

/// The outcome of values, with a flag `known` that is one of Fairway's and one, `usual`, that changes nothing.
fn converted(input: &Value) -> Converted {
    let flag = |name: &str, value: &str| match name {
        "known" => FlagMeaning::Argument(format!("--known={value}")),
        "usual" => FlagMeaning::Nothing,
        _ => FlagMeaning::Lost("unknown".to_owned()),
    };
    convert(input.as_object().unwrap(), &flag)
}

/// The values, without the one that is always there, and the paths of what is lost.
fn check(input: &Value, expected: &Value, lost: &[&str]) {
    let mut it = converted(input);
    let values = it.values.as_object_mut().unwrap();
    if values.get("ingressClass") == Some(&json!({ "compat": true })) {
        values.remove("ingressClass");
    }
    let paths: Vec<_> = it.lost.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!((&it.values, paths), (expected, lost.to_vec()), "{input}");
}

#[test]
fn nothing_is_the_classes_of_ingress_nginx() {
    assert_eq!(converted(&json!({})).values, json!({ "ingressClass": { "compat": true } }));
}

#[test]
fn unknown_paths_are_named_once_at_their_top() {
    check(
        &json!({ "controller": { "hpa": { "a": 1, "b": 2 }, "replicaCount": 3 } }),
        &json!({ "replicas": 3 }),
        &["controller.hpa"],
    );
}

#[test]
fn a_wrong_type_is_named_and_the_rest_goes_on() {
    let input = json!({ "controller": { "replicaCount": "three", "kind": "DaemonSet", "service": [1] }, "rbac": true });
    check(
        &input,
        &json!({ "kind": "DaemonSet" }),
        &["controller.replicaCount", "controller.service", "rbac"],
    );
    let it = converted(&input);
    assert_eq!(it.lost[0].what, "expected a number, found \"three\"");
    assert_eq!(it.lost[1].what, "expected a mapping, found a list");
}

#[test]
fn empty_values_lose_nothing() {
    let input = json!({ "tcp": {}, "dhParam": "", "controller": {
        "extraVolumes": [], "addHeaders": {}, "allowSnippetAnnotations": false,
        "service": { "nodePorts": { "http": "" } },
        "keda": { "enabled": false, "minReplicas": 1 }, "admissionWebhooks": null,
    } });
    check(&input, &json!({}), &[]);
}

#[test]
fn settings_become_text() {
    check(
        &json!({ "controller": { "config": { "use-gzip": true, "keep-alive": 75, "x": "y" } } }),
        &json!({ "settings": { "use-gzip": "true", "keep-alive": "75", "x": "y" } }),
        &[],
    );
    check(&json!({ "controller": { "config": { "a": [] } } }), &json!({}), &["controller.config"]);
}

#[test]
fn flags_are_values_or_arguments_or_lost() {
    let input = json!({ "controller": { "extraArgs": {
        "default-ssl-certificate": "$(POD_NAMESPACE)/tls", "known": "", "usual": "1", "other": 2,
        "watch-namespace": "a, b",
        "update-status": "false", "publish-status-address": "192.0.2.1",
    } } });
    check(
        &input,
        &json!({
            "defaultCertificate": "tls", "extraArgs": ["--known=true"], "watch": { "namespaces": ["a", "b"] },
            "status": { "enabled": false, "publishAddresses": ["192.0.2.1"] },
        }),
        &["controller.extraArgs.other"],
    );
}

#[test]
fn a_class_of_another_name_stays_with_ingress_nginx_until_that_is_removed() {
    let resource = "controller.ingressClassResource.name";
    check(
        &json!({ "controller": { "ingressClass": "in", "ingressClassResource": { "name": "in" } } }),
        &json!({ "ingressClass": { "compat": true, "enabled": false, "name": "in" } }),
        &[resource],
    );
    check(
        &json!({ "controller": { "ingressClassResource": { "name": "in", "controllerValue": "k8s.io/in" } } }),
        &json!({
            "extraArgs": ["--controller-class=fairway.dev/ingress-controller,k8s.io/in"],
            "ingressClass": { "compat": false, "enabled": false, "name": "in" },
        }),
        &[resource],
    );
    check(
        &json!({ "controller": { "ingressClass": "a", "ingressClassResource": { "name": "b" } } }),
        &json!({ "ingressClass": { "compat": true, "enabled": false, "name": "a" } }),
        &[resource, resource],
    );
}

#[test]
fn values_that_fairways_chart_refuses_together_do_not_come_together() {
    check(
        &json!({ "controller": { "kind": "DaemonSet", "autoscaling": { "enabled": true, "minReplicas": 2 } } }),
        &json!({ "kind": "DaemonSet" }),
        &[],
    );
    check(
        &json!({ "controller": { "minAvailable": 2 } }),
        &json!({
            "podDisruptionBudget": { "minAvailable": 2, "maxUnavailable": null },
        }),
        &[],
    );
    check(
        &json!({ "controller": { "metrics": { "serviceMonitor": { "enabled": true } } } }),
        &json!({ "metrics": { "serviceMonitor": { "enabled": false } } }),
        &[],
    );
    check(
        &json!({ "controller": { "hostNetwork": true, "hostPort": { "enabled": true } } }),
        &json!({ "hostNetwork": true, "ports": { "http": 80, "https": 443 } }),
        &["controller.hostNetwork"],
    );
}

#[test]
fn label_selectors_of_ingress_nginx_do_not_choose_pods_of_fairway() {
    let selector = json!({ "matchLabels": { "app.kubernetes.io/name": "ingress-nginx" } });
    check(
        &json!({ "controller": {
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "labelSelector": selector }],
            "affinity": { "podAntiAffinity": { "x": [{ "labelSelector": selector }] } },
        } }),
        &json!({
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone" }],
            "affinity": { "podAntiAffinity": { "x": [{ "labelSelector": selector }] } },
        }),
        &["controller.affinity"],
    );
}

#[test]
fn a_grace_period_is_the_sum_that_fairways_chart_makes() {
    check(
        &json!({ "controller": { "terminationGracePeriodSeconds": 300 } }),
        &json!({ "drain": { "timeout": 270 } }),
        &[],
    );
    let path = "controller.terminationGracePeriodSeconds";
    check(&json!({ "controller": { "terminationGracePeriodSeconds": 5 } }), &json!({}), &[path]);
}

#[test]
fn a_scope_is_a_namespace_or_a_selector() {
    check(
        &json!({ "controller": { "scope": { "enabled": true, "namespace": "shop", "namespaceSelector": "a=b" } } }),
        &json!({ "watch": { "namespaces": ["shop"] } }),
        &[],
    );
    check(
        &json!({ "controller": { "scope": { "enabled": false, "namespace": "shop", "namespaceSelector": "a=b" } } }),
        &json!({ "watch": { "namespaceSelector": "a=b" } }),
        &[],
    );
    check(&json!({ "controller": { "scope": { "enabled": true } } }), &json!({}), &["controller.scope"]);
}

#[test]
fn each_path_has_one_row() {
    let mut paths: Vec<_> = ROWS.iter().map(|(path, _)| *path).collect();
    paths.sort_unstable();
    assert!(paths.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn every_value_that_a_row_names_is_one_of_the_charts_schema() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../charts/fairway/values.schema.json")).unwrap();
    for (of, meaning) in ROWS {
        let Meaning::Is(own, _) = meaning else { continue };
        let value = own.split('.').try_fold(&schema, |schema, key| schema["properties"].get(key));
        assert!(value.is_some(), "{of}: {own}");
    }
}
