//! Services through which Ingresses affect each other, as in ingress-nginx, and what `fairway.dev/compat: strict` would change.
//! Based on the diagnostics: Ingresses with the same Service and the same settings do not affect each other.

use std::collections::{BTreeMap, BTreeSet};

use fairway_ingress::KEPT_APART;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::Compat;
use k8s_openapi::api::networking::v1::{Ingress, IngressServiceBackend};
use serde::Serialize;

/// A Service and port through which Ingresses affect each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedService {
    /// `Service NAMESPACE/NAME port PORT`, the port as the Ingresses write it.
    pub service: String,
    /// The Ingresses that name it and share their settings, `NAMESPACE/NAME`.
    pub ingresses: BTreeSet<String>,
    /// Effects that `fairway.dev/compat: strict` would end.
    pub ended_by_strict: BTreeSet<Effect>,
}

/// The effect of other Ingresses with the same Service on an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Effect {
    /// The affected Ingress, `NAMESPACE/NAME`.
    pub on: String,
    /// What is shared, by which Ingress, and the consequence.
    pub what: String,
}

/// Finds the shared Services. `usual` applies to Ingresses without the annotation.
pub(crate) fn shared_services<'i>(
    ingresses: impl Iterator<Item = (&'i ObjectKey, &'i Ingress)>,
    usual: Compat,
    diagnostics: &[Diagnostic],
) -> Vec<SharedService> {
    let mut effects: BTreeMap<String, BTreeSet<Effect>> = BTreeMap::new();
    for (service, effect) in diagnostics.iter().filter_map(effect) {
        effects.entry(service).or_default().insert(effect);
    }
    let mut sharing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, ingress) in ingresses.filter(|(_, ingress)| shares_settings(ingress, usual)) {
        for service in services_of(key, ingress).filter(|service| effects.contains_key(service)) {
            sharing.entry(service).or_default().insert(key.to_string());
        }
    }
    let shared = effects.into_iter().map(|(service, ended_by_strict)| {
        let ingresses = sharing.remove(&service).unwrap_or_default();
        SharedService { service, ingresses, ended_by_strict }
    });
    shared.collect()
}

/// The Service and the effect of a diagnostic that `strict` would avoid.
fn effect(diagnostic: &Diagnostic) -> Option<(String, Effect)> {
    let consequence = diagnostic.consequence.strip_suffix(KEPT_APART)?.trim_end_matches("; ");
    let on = format!("{}/{}", diagnostic.origin.namespace, diagnostic.origin.name);
    let text = format!("{}; {consequence}", diagnostic.problem);
    Some((service_in(&diagnostic.problem)?, Effect { on, what: text }))
}

/// The first Service that a sentence mentions.
fn service_in(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split(' ').collect();
    words.windows(4).find_map(|words| match words {
        ["Service", name, "port", port] => Some(shown(name, port.trim_end_matches(','))),
        _ => None,
    })
}

fn shown(name: &str, port: &str) -> String {
    format!("Service {name} port {port}")
}

fn shares_settings(ingress: &Ingress, usual: Compat) -> bool {
    let annotations = ingress.metadata.annotations.as_ref();
    match annotations.and_then(|all| all.get("fairway.dev/compat")).map(|value| value.trim()) {
        Some("nginx") => true,
        Some("strict") => false,
        _ => usual == Compat::Nginx,
    }
}

fn services_of(key: &ObjectKey, ingress: &Ingress) -> impl Iterator<Item = String> {
    let spec = ingress.spec.iter();
    let rules = spec.clone().flat_map(|spec| spec.rules.iter().flatten());
    let paths = rules.flat_map(|rule| rule.http.iter().flat_map(|http| &http.paths));
    let backends = paths.map(|path| &path.backend);
    let all = backends.chain(spec.filter_map(|spec| spec.default_backend.as_ref()));
    let services = all.filter_map(|backend| backend.service.as_ref());
    services
        .filter_map(|service| Some(shown(&format!("{}/{}", key.namespace, service.name), &port_of(service)?)))
}

/// The port as written: a name and a number count as different ports, as in ingress-nginx.
fn port_of(service: &IngressServiceBackend) -> Option<String> {
    let port = service.port.as_ref()?;
    match (&port.name, port.number) {
        (Some(name), _) if !name.is_empty() => Some(name.clone()),
        (_, number) => number.map(|number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_ingress::translate;
    use fairway_objects::object::Object;
    use fairway_objects::options::Options;
    use fairway_objects::resources::{Change, Resources};
    use serde_json::{Value, json};

    use super::*;
    use crate::{Ingresses, Objects, Report};

    fn ingress(name: &str, annotations: &Value, service: &str, port: &Value) -> Change {
        let mut annotations = annotations.clone();
        annotations["kubernetes.io/ingress.class"] = "fairway".into();
        let backend = json!({"service": {"name": service, "port": port}});
        let object = json!({
            "metadata": {"namespace": "shop", "name": name, "annotations": annotations},
            "spec": {"rules": [{"host": format!("{name}.test"), "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend}
            ]}}]}
        });
        Change::Set(Object::Ingress(Arc::new(serde_json::from_value(object).unwrap())), None)
    }

    fn service(name: &str) -> Change {
        let ports = json!([{"name": "http", "port": 80, "targetPort": 80}]);
        let object = json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"ports": ports}});
        Change::Set(Object::Service(Arc::new(serde_json::from_value(object).unwrap())), None)
    }

    fn report(changes: Vec<Change>) -> Report {
        let ingresses = Ingresses::among(&changes);
        let mut resources = Resources::default();
        let services = ["web", "web8", "new"].map(service);
        changes.into_iter().chain(services).for_each(|change| resources.apply(change));
        let translation = translate(&resources, &Options::default(), 0);
        let diagnostics: Vec<_> = translation.diagnostics.iter().cloned().collect();
        Report::from_objects(&Objects {
            ingresses: &ingresses,
            translation: &translation,
            diagnostics: &diagnostics,
            prefix: "nginx.ingress.kubernetes.io",
            compat: Compat::Nginx,
        })
    }

    fn annotation(name: &str, value: &str) -> Value {
        let mut annotations = json!({});
        annotations[format!("nginx.ingress.kubernetes.io/{name}")] = value.into();
        annotations
    }

    fn number() -> Value {
        json!({"number": 80})
    }

    #[test]
    fn effects_that_strict_would_end_are_reported_per_service() {
        let sticky = annotation("affinity", "cookie");
        let report = report(vec![
            ingress("a", &annotation("load-balance", "ewma"), "web", &number()),
            ingress("b", &json!({}), "web", &number()),
            ingress("c", &json!({"fairway.dev/compat": "strict"}), "web", &number()),
            // Another port, and another Service.
            ingress("d", &sticky, "web", &json!({"name": "http"})),
            ingress("e", &sticky, "web8", &number()),
            ingress("f", &json!({}), "web8", &number()),
        ]);
        let shared: Vec<_> = report.shared.iter().map(|it| it.service.as_str()).collect();
        assert_eq!(shared, ["Service shop/web port 80", "Service shop/web8 port 80"]);
        let names: Vec<_> = report.shared[0].ingresses.iter().map(String::as_str).collect();
        assert_eq!(names, ["shop/a", "shop/b"], "c is strict already, d has another port");
        let effects = |at: usize| report.shared[at].ended_by_strict.iter().collect::<Vec<_>>();
        let [balancing] = effects(0)[..] else { panic!("{:?}", effects(0)) };
        assert_eq!(balancing.on, "shop/b");
        assert_eq!(
            balancing.what,
            "balancing of Service shop/web port 80 is that of Ingress shop/a, the oldest that uses it; \
             it holds for requests of this Ingress, too"
        );
        let [sessions] = effects(1)[..] else { panic!("{:?}", effects(1)) };
        assert_eq!(sessions.on, "shop/f");
        assert!(sessions.what.contains("because Ingress shop/e has affinity"), "{}", sessions.what);
    }

    #[test]
    fn a_canary_that_affects_other_hosts_is_reported_with_the_main_service() {
        let canary = json!({
            "nginx.ingress.kubernetes.io/canary": "true",
            "nginx.ingress.kubernetes.io/canary-weight": "10",
        });
        let mut changes =
            vec![ingress("a", &json!({}), "web", &number()), ingress("b", &json!({}), "web", &number())];
        // Of the host of `a`.
        let Change::Set(Object::Ingress(of_a), _) = ingress("a", &canary, "new", &number()) else { panic!() };
        let mut of_a = Ingress::clone(&of_a);
        of_a.metadata.name = Some("canary".to_owned());
        changes.push(Change::Set(Object::Ingress(Arc::new(of_a)), None));
        let report = report(changes);
        let [shared] = &report.shared[..] else { panic!("{:?}", report.shared) };
        assert_eq!(shared.service, "Service shop/web port 80");
        let on: Vec<_> = shared.ended_by_strict.iter().map(|it| it.on.as_str()).collect();
        assert_eq!(on, ["shop/b"]);
        assert_eq!(shared.ingresses, ["shop/a", "shop/b"].map(str::to_owned).into());
    }

    #[test]
    fn ingresses_with_the_same_settings_do_not_affect_each_other() {
        let ewma = annotation("load-balance", "ewma");
        let report =
            report(vec![ingress("a", &ewma, "web", &number()), ingress("b", &ewma, "web", &number())]);
        assert_eq!(report.shared, []);
    }
}
