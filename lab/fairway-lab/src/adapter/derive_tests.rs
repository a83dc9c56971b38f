//! Tests of `derive`: objects in, desired state out.

use serde_json::{Value, json};

use super::*;

fn ingress(name: &str, annotations: &Value) -> Arc<Ingress> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "site", "annotations": annotations },
            "spec": {
                "ingressClassName": "lab",
                "tls": [{ "hosts": ["a.test"], "secretName": "certificate" }],
                "rules": [{ "host": "a.test", "http": { "paths": [{
                    "path": "/", "pathType": "Prefix",
                    "backend": { "service": { "name": "backend", "port": { "number": 80 } } },
                }] } }],
            },
        }))
        .unwrap(),
    )
}

fn objects(annotations: &Value) -> Objects {
    let service = json!({
        "metadata": { "name": "backend" },
        "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    });
    let slice = json!({
        "metadata": { "name": "backend-1", "labels": { "kubernetes.io/service-name": "backend" } },
        "addressType": "IPv4",
        "ports": [{ "name": "other", "port": 1 }, { "name": "http", "port": 8080 }],
        "endpoints": [
            { "addresses": ["10.0.0.3"], "conditions": { "ready": true } },
            { "addresses": ["10.0.0.2"], "conditions": {} },
            { "addresses": ["10.0.0.4"], "conditions": { "ready": false, "serving": true, "terminating": true } },
        ],
    });
    let secret = json!({
        "metadata": { "name": "certificate" }, "type": "kubernetes.io/tls",
        "data": { "tls.crt": "Y2hhaW4=", "tls.key": "a2V5" },
    });
    Objects {
        ingresses: vec![ingress("one", annotations)],
        services: vec![Arc::new(serde_json::from_value(service).unwrap())],
        slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
        secrets: vec![Arc::new(serde_json::from_value(secret).unwrap())],
    }
}

#[test]
fn endpoints_that_are_not_ready_are_left_out_and_an_unknown_state_is_ready() {
    let desired = derive_desired_state(&objects(&json!({})), "lab");
    let expected: Vec<SocketAddr> = vec!["10.0.0.2:8080".parse().unwrap(), "10.0.0.3:8080".parse().unwrap()];
    assert_eq!(desired.backends["backend-80"], expected);
}

#[test]
fn only_ingresses_of_the_class_are_served() {
    assert_eq!(derive_desired_state(&objects(&json!({})), "another"), DesiredState::default());
}

#[test]
fn a_host_with_a_missing_secret_is_served_without_tls() {
    let mut objects = objects(&json!({}));
    assert_eq!(derive_desired_state(&objects, "lab").certificates["certificate"].chain, "chain");
    objects.secrets.clear();
    let without = derive_desired_state(&objects, "lab");
    assert_eq!(without.hosts["a.test"].certificate, None);
    assert!(without.certificates.is_empty());
}

#[test]
fn annotations_become_rules_exact_paths_first_and_long_prefixes_before_short_ones() {
    let desired = derive_desired_state(
        &objects(&json!({
            CORS: "true", RESPONSE_HEADER: "X-One: two words", REWRITE: "/new",
            REDIRECT: "/old https://b.test/",
        })),
        "lab",
    );
    let host = &desired.hosts["a.test"];
    assert!(host.cors);
    assert_eq!(host.response_headers, [("X-One".to_owned(), "two words".to_owned())]);
    let paths: Vec<_> = host.rules.iter().map(|rule| rule.path.clone()).collect();
    assert_eq!(
        paths,
        [
            PathMatch::Exact("/old".to_owned()),
            PathMatch::Prefix("/new".to_owned()),
            PathMatch::Prefix("/".to_owned()),
        ]
    );
    assert_eq!(host.rules[0].action, Action::Redirect { target: "https://b.test/".to_owned() });
}
