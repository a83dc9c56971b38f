//! Explanations of differences by translated objects.

use std::sync::Arc;

use fairway_ingress::{Translation, translate};
use fairway_migrate::SeenKinds;
use fairway_model::Config;
use fairway_objects::object::Object;
use fairway_objects::options::Options;
use fairway_objects::resources::{Change, Resources};
use fairway_routing::{Snapshot, compile};
use serde_json::{Value, json};

use super::*;
use crate::address::Schemes;
use crate::facts::Annotated;
use crate::located::located;
use crate::plan::Plan;
use crate::probe::{ProbeKind, Purpose, Scheme};

/// Translated objects.
struct Served {
    translation: Translation,
    snapshot: Arc<Snapshot>,
    diagnostics: Vec<Diagnostic>,
    annotated: Annotated,
}

fn path(path: &str, path_type: &str, service: &str) -> Value {
    json!({"path": path, "pathType": path_type, "backend": {"service": {"name": service, "port": {"number": 80}}}})
}

fn ingress(name: &str, annotations: &Value, paths: &[Value]) -> Change {
    let mut annotations = annotations.clone();
    annotations["kubernetes.io/ingress.class"] = "fairway".into();
    let object = json!({
        "metadata": {"namespace": "shop", "name": name, "annotations": annotations},
        "spec": {"rules": [{"host": "a.test", "http": {"paths": paths}}]}
    });
    Change::Set(Object::Ingress(Arc::new(serde_json::from_value(object).unwrap())), None)
}

fn service(name: &str) -> Change {
    let object = json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 80}]}
    });
    Change::Set(Object::Service(Arc::new(serde_json::from_value(object).unwrap())), None)
}

fn served(ingresses: Vec<Change>) -> Served {
    let annotated = Annotated::among(&ingresses);
    let mut resources = Resources::default();
    for change in ingresses.into_iter().chain([service("web"), service("other")]) {
        resources.apply(change);
    }
    let translation = translate(&resources, &Options::default(), 0);
    let config: &Config = &translation.config;
    let snapshot = compile(config, None).snapshot;
    let diagnostics = translation.diagnostics.iter().cloned().collect();
    Served { translation, snapshot, diagnostics, annotated }
}

impl Served {
    /// The object, field and reason of a difference.
    fn cause(&self, target: &str, part: &Part, statuses: &[u16]) -> (String, String, String) {
        let objects = Objects {
            snapshot: &self.snapshot,
            translation: &self.translation,
            diagnostics: &self.diagnostics,
            annotated: &self.annotated,
            prefix: "nginx.ingress.kubernetes.io",
            settings: Some("ingress/settings"),
        };
        let probe = Probe::request(Scheme::Http, &"a.test".into(), ProbeKind::Get, target, Purpose::Path);
        let located = located(&self.snapshot, &probe);
        let cause = cause(&objects, &DifferenceContext { probe: &probe, part, statuses, located });
        (cause.object, cause.field, cause.why)
    }
}

fn named(annotation: &str) -> String {
    format!("metadata.annotations[\"nginx.ingress.kubernetes.io/{annotation}\"]")
}

#[test]
fn only_the_annotation_that_affects_the_part_is_named() {
    let annotations = json!({
        "nginx.ingress.kubernetes.io/enable-cors": "true",
        "nginx.ingress.kubernetes.io/permanent-redirect": "https://b.test/",
        "nginx.ingress.kubernetes.io/limit-rps": "5"
    });
    let served = served(vec![ingress("one", &annotations, &[path("/", "Prefix", "web")])]);
    let field = |name: &str| Part::Header(name.to_owned());
    for (part, statuses, wanted) in [
        (field("access-control-allow-origin"), &[][..], "enable-cors"),
        (field("location"), &[], "permanent-redirect"),
        (Part::Status, &[200, 301], "permanent-redirect"),
        (Part::Status, &[200, 503], "limit-rps"),
        (Part::Status, &[200, 204], "enable-cors"),
    ] {
        let (object, at, why) = served.cause("/", &part, statuses);
        assert_eq!((object.as_str(), at), ("Ingress shop/one", named(wanted)), "{part} {statuses:?}");
        assert!(why.contains("its value"), "{why}");
    }
}

#[test]
fn the_diagnostic_of_an_annotation_is_the_reason() {
    let annotations =
        json!({"nginx.ingress.kubernetes.io/configuration-snippet": "more_set_headers \"X-A: b\";"});
    let served = served(vec![ingress("one", &annotations, &[path("/", "Prefix", "web")])]);
    let (object, field, why) = served.cause("/", &Part::Header("x-a".to_owned()), &[]);
    assert_eq!((object.as_str(), field), ("Ingress shop/one", named("configuration-snippet")));
    assert!(why.contains("; "), "{why}");
    assert!(!why.contains("its value"), "{why}");
}

#[test]
fn settings_and_rules_explain_parts_without_an_annotation() {
    let served = served(vec![ingress(
        "one",
        &json!({}),
        &[path("/a", "Exact", "web"), path("/b", "Prefix", "other")],
    )]);
    let (object, field, _) = served.cause("/b", &Part::Header("strict-transport-security".to_owned()), &[]);
    assert_eq!((object.as_str(), field.as_str()), ("ConfigMap ingress/settings", "data[\"hsts\"]"));
    let (object, field, why) = served.cause("/b/c", &Part::Received("service"), &[]);
    let second = "spec.rules[0].http.paths[1].backend";
    assert_eq!((object.as_str(), field.as_str()), ("Ingress shop/one", second));
    assert!(why.contains("Service shop/other:80"), "{why}");
    let (object, field, why) = served.cause("/a/", &Part::Status, &[200, 404]);
    assert_eq!((object.as_str(), field.as_str()), ("Ingress shop/one", "spec.rules[0].http.paths[0]"));
    assert!(why.contains("closest"), "{why}");
}

#[test]
fn a_closed_path_is_explained_by_the_annotation_that_closed_it() {
    let annotations = json!({
        "nginx.ingress.kubernetes.io/enable-modsecurity": "true",
        "nginx.ingress.kubernetes.io/limit-rps": "5"
    });
    let served = served(vec![ingress("one", &annotations, &[path("/", "Prefix", "web")])]);
    let (object, field, _) = served.cause("/", &Part::Status, &[200, 503]);
    assert_eq!((object.as_str(), field), ("Ingress shop/one", named("enable-modsecurity")));
}

#[test]
fn a_secret_outside_the_input_is_not_reported_as_missing() {
    let annotations = json!({
        "nginx.ingress.kubernetes.io/auth-type": "basic",
        "nginx.ingress.kubernetes.io/auth-secret": "users"
    });
    let objects = vec![ingress("one", &annotations, &[path("/", "Prefix", "web")])];
    let seen_kinds = SeenKinds::among(&objects);
    let mut served = served(objects);
    seen_kinds.soften_unknown_references(&mut served.diagnostics);
    let (object, field, why) = served.cause("/", &Part::Status, &[200, 503]);
    assert_eq!((object.as_str(), field), ("Ingress shop/one", named("auth-secret")));
    let unknown = "cannot tell whether Secret shop/users exists: the input has no Secrets";
    assert!(why.starts_with(unknown), "{why}");
}

#[test]
fn a_canary_of_another_ingress_explains_the_responses_of_its_backend() {
    let canary = json!({
        "nginx.ingress.kubernetes.io/canary": "true",
        "nginx.ingress.kubernetes.io/canary-weight": "10"
    });
    let served = served(vec![
        ingress("one", &json!({}), &[path("/", "Prefix", "web")]),
        ingress("two", &canary, &[path("/", "Prefix", "other")]),
    ]);
    let (object, field, _) = served.cause("/", &Part::Body, &[]);
    assert_eq!((object.as_str(), field), ("Ingress shop/two", named("canary")));
}

#[test]
fn log_lines_are_probed_on_the_hosts_whose_rule_leads_to_their_upstream() {
    let served = served(vec![ingress(
        "one",
        &json!({}),
        &[path("/a", "Prefix", "web"), path("/b", "Prefix", "other")],
    )]);
    let mut plan = Plan::from_snapshot(&served.snapshot, Schemes::Http, 1000);
    let before = plan.probes.len();
    let line = |target: &str, upstream: &str| {
        format!("1.1.1.1 - - [1] \"GET {target} HTTP/1.1\" 200 1 \"-\" \"-\" 1 1 [{upstream}] [] - - - - x\n")
    };
    let log = [
        line("/a/1", "shop-web-80"),
        line("/b/1", "shop-web-80"),
        line("/a/1?x=1", "shop-web-80"),
        line("/a/1?x=2", "shop-web-80"),
        line("/a/1?x=3", "shop-web-80"),
        "{\"host\": \"a.test\", \"method\": \"HEAD\", \"uri\": \"/b/2\", \"status\": 200}\n".to_owned(),
        "{\"host\": \"b.test\", \"method\": \"HEAD\", \"uri\": \"/b/2\", \"status\": 200}\n".to_owned(),
    ];
    plan.add_log(log.concat().as_bytes(), &served.snapshot).unwrap();
    let added: Vec<_> = plan.probes[before..].iter().map(Probe::to_string).collect();
    let expected = [
        "GET http://a.test/a/1",
        "GET http://a.test/a/1?x=1",
        "GET http://a.test/a/1?x=2",
        "HEAD http://a.test/b/2",
    ];
    assert_eq!(added, expected);
    assert_eq!(plan.skipped.iter().map(|it| it.count).sum::<usize>(), 3, "{:?}", plan.skipped);
    let mut bounded = Plan::from_snapshot(&served.snapshot, Schemes::Http, 2);
    bounded.add_log(log.concat().as_bytes(), &served.snapshot).unwrap();
    assert_eq!(bounded.probes.len(), 2);
}
