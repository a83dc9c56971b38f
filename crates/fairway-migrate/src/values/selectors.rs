//! Label selectors in rules about where pods run: where they name the pods of ingress-nginx, they have to name those of
//! Fairway.

use serde_json::{Map, Value, json};

use super::kind::{Kind, has_template};
use super::outcome::Outcome;

type Done = Result<(), &'static str>;

/// The labels that both charts give their pods.
const STANDARD: [&str; 3] =
    ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"];

/// Whose pods a selector names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// By the labels that Fairway's pods have too.
    IngressNginx,
    /// By a label that no pod of Fairway has.
    IngressNginxByAnotherLabel,
    Others,
}

/// Rules of affinity.
pub(super) fn affinity(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let mut affinity = value.clone();
    let mut seen = Vec::new();
    adapt(&mut affinity, &mut seen);
    if has_template(&affinity) || !affinity.is_object() {
        return Err("a mapping");
    }
    if seen.contains(&Whose::IngressNginx) {
        outcome.note(path, "its label selectors name the pods of Fairway instead of those of ingress-nginx");
    }
    if seen.contains(&Whose::IngressNginxByAnotherLabel) {
        outcome
            .lose(path, "a label selector names pods of ingress-nginx by a label that Fairway's do not have");
    }
    outcome.set("affinity", affinity);
    Ok(())
}

/// Constraints without their label selectors, in whose place the chart puts its own.
pub(super) fn spread(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    let mut constraints = value.clone();
    for constraint in constraints.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        constraint.remove("labelSelector");
        constraint.remove("matchLabelKeys");
    }
    if let Some(constraints) = Kind::Mappings.convert(&constraints)? {
        outcome.set("topologySpreadConstraints", constraints);
    }
    Ok(())
}

fn adapt(value: &mut Value, seen: &mut Vec<Whose>) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| adapt(item, seen)),
        Value::Object(map) => {
            for (key, value) in map {
                if key != "labelSelector" {
                    adapt(value, seen);
                    continue;
                }
                let whose = whose(value);
                seen.push(whose);
                if whose == Whose::IngressNginx {
                    *value = json!({ "matchLabels": { "app.kubernetes.io/name": "fairway" } });
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn whose(selector: &Value) -> Whose {
    let labels = labels(selector);
    let names_it = |(key, text): &(&str, &str)| {
        text.contains("ingress-nginx") || text.contains("{{") && STANDARD.contains(key)
    };
    match (labels.iter().any(names_it), labels.iter().all(|(key, _)| STANDARD.contains(key))) {
        (true, true) => Whose::IngressNginx,
        (true, false) => Whose::IngressNginxByAnotherLabel,
        (false, _) => Whose::Others,
    }
}

/// Each label that the selector asks for, with each of its values.
fn labels(selector: &Value) -> Vec<(&str, &str)> {
    let exact = selector["matchLabels"].as_object().into_iter().flat_map(Map::iter);
    let exact = exact.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.flat_map(|expression| {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        values.filter_map(move |value| Some((key, value.as_str()?)))
    });
    exact.chain(expressions).collect()
}
