//! Label selectors in scheduling rules: selectors for the pods of ingress-nginx are changed to select those of
//! Fairway.

use serde_json::{Map, Value, json};

use super::kind::{ValueKind, has_template};
use super::outcome::Conversion;

type ConversionResult = Result<(), &'static str>;

/// The labels that both charts set on their pods.
const STANDARD_LABELS: [&str; 3] =
    ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"];

/// The pods that a selector selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectedPods {
    /// Pods of ingress-nginx, by labels that Fairway's pods have too.
    IngressNginx,
    /// Pods of ingress-nginx, by a label that Fairway's pods do not have.
    IngressNginxByAnotherLabel,
    Others,
}

/// Converts affinity rules.
pub(super) fn affinity(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    let mut affinity = value.clone();
    let mut received = Vec::new();
    adapt_selectors(&mut affinity, &mut received);
    if has_template(&affinity) || !affinity.is_object() {
        return Err("a mapping");
    }
    if received.contains(&SelectedPods::IngressNginx) {
        outcome.add_note(
            path,
            "its label selectors select the pods of Fairway instead of those of ingress-nginx",
        );
    }
    if received.contains(&SelectedPods::IngressNginxByAnotherLabel) {
        outcome.add_lost(
            path,
            "a label selector selects pods of ingress-nginx by a label that Fairway's pods do not have",
        );
    }
    outcome.set("affinity", affinity);
    Ok(())
}

/// Converts topology spread constraints, without their label selectors, which the chart sets itself.
pub(super) fn spread(outcome: &mut Conversion, _: &str, value: &Value) -> ConversionResult {
    let mut constraints = value.clone();
    for constraint in constraints.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        constraint.remove("labelSelector");
        constraint.remove("matchLabelKeys");
    }
    if let Some(constraints) = ValueKind::Mappings.convert(&constraints)? {
        outcome.set("topologySpreadConstraints", constraints);
    }
    Ok(())
}

fn adapt_selectors(value: &mut Value, received: &mut Vec<SelectedPods>) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| adapt_selectors(item, received)),
        Value::Object(map) => {
            for (key, value) in map {
                if key != "labelSelector" {
                    adapt_selectors(value, received);
                    continue;
                }
                let whose = selected_pods(value);
                received.push(whose);
                if whose == SelectedPods::IngressNginx {
                    *value = json!({ "matchLabels": { "app.kubernetes.io/name": "fairway" } });
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn selected_pods(selector: &Value) -> SelectedPods {
    let labels = labels(selector);
    let names_it = |(key, text): &(&str, &str)| {
        text.contains("ingress-nginx") || text.contains("{{") && STANDARD_LABELS.contains(key)
    };
    match (labels.iter().any(names_it), labels.iter().all(|(key, _)| STANDARD_LABELS.contains(key))) {
        (true, true) => SelectedPods::IngressNginx,
        (true, false) => SelectedPods::IngressNginxByAnotherLabel,
        (false, _) => SelectedPods::Others,
    }
}

/// The labels of a selector with their values.
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
