//! Invariants for any text as manifests, used by the property tests and the fuzz target. Panics if one is violated. Generates no
//! inputs.

#![allow(clippy::unwrap_used, reason = "a check that panics has failed, which is what it is for")]

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_control::Engine;
use fairway_model::{HostPattern, VirtualHost, WildcardSpan};
use fairway_objects::manifest;
use fairway_objects::options::{Options, WithoutClass};
use fairway_objects::resources::Change;

const NOW: i64 = 1_767_225_600;

const FILE: &str = "any.yaml";

/// An object that must be served whatever surrounds it.
const GOOD: &str = r#"
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: survivor}
spec: {controller: fairway.dev/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: survivor, namespace: survivor}
spec:
  ingressClassName: survivor
  rules:
  - host: survivor.test
    http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: survivor, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: survivor, namespace: survivor}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: survivor, namespace: survivor, labels: {kubernetes.io/service-name: survivor}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.9.9.9]}]
---
"#;

/// The changes from a text in this file. Unreadable parts are omitted.
pub(crate) fn changes(text: &str, file: &str) -> Vec<Change> {
    let file: Arc<str> = file.into();
    let mut changes = Vec::new();
    for section in manifest::sections(text) {
        if let Ok(Some(root)) = manifest::parse(&section) {
            let reading = manifest::read(&root, &file);
            let objects = reading.objects.into_iter().chain(reading.stand_ins);
            changes.extend(objects.map(|(object, source)| Change::Set(object, Some(source))));
        }
    }
    changes
}

fn engine() -> Engine {
    Engine::new(Options { without_class: WithoutClass::Served, ..Options::default() })
}

/// The host of that object.
fn survivor(engine: &Engine) -> Arc<VirtualHost> {
    let host = HostPattern::parse("survivor.test", WildcardSpan::OneLabel).unwrap();
    let hosts = &engine.current().unwrap().translation.config.hosts;
    let mut found = hosts.values().filter(|it| it.key.host == host);
    let only = Arc::clone(found.next().expect("the survivor is served"));
    assert!(found.next().is_none());
    only
}

/// Everything that users can see of the result.
fn visible_result(engine: &Engine) -> (String, BTreeSet<String>) {
    let outcome = engine.current().unwrap();
    let problems = outcome.diagnostics().iter().chain(outcome.problems.iter());
    (format!("{:?}", outcome.digest), problems.map(ToString::to_string).collect())
}

/// Any bytes as manifests.
pub(crate) fn manifest(input: &[u8]) {
    check_input(&String::from_utf8_lossy(input));
}

/// The result does not depend on the steps in which a text arrives, and a valid object is served as if it were alone.
pub(crate) fn check_input(text: &str) {
    let mut alone = engine();
    alone.update(changes(GOOD, FILE), NOW);
    // A directive (`%`) belongs to the document that follows, so an invalid one must not precede the valid object.
    for text in [format!("{GOOD}{text}"), format!("{text}\n...\n{GOOD}")] {
        let all = changes(&text, FILE);
        let (mut at_once, mut again, mut in_steps) = (engine(), engine(), engine());
        at_once.update(all.clone(), NOW);
        again.update(changes(&text, FILE), NOW);
        assert_eq!(visible_result(&at_once), visible_result(&again), "the same text means the same");
        all.into_iter().for_each(|change| _ = in_steps.update(vec![change], NOW));
        if in_steps.current().is_some() {
            assert_eq!(visible_result(&at_once), visible_result(&in_steps), "told step by step");
        }
        let (mine, other) = (survivor(&at_once), survivor(&alone));
        let rules = |host: &VirtualHost| -> Vec<_> {
            let rules = host.routes.iter().flat_map(|route| &route.rules);
            rules.map(|rule| (rule.matches.clone(), rule.action.clone(), rule.phases.clone())).collect()
        };
        assert_eq!(rules(&mine), rules(&other), "the survivor is served as it is alone");
        let backends = |engine: &Engine| {
            let config = &engine.current().unwrap().translation.config;
            let mine = config.backends.values().filter(|it| it.key.to_string().contains("survivor"));
            mine.map(|backend| backend.endpoints.clone()).collect::<Vec<_>>()
        };
        assert_eq!(backends(&at_once), backends(&alone));
    }
}
