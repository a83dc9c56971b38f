//! The external and the internal Service.

use serde_json::{Map, Value};

use super::input::Input;
use super::kind::ValueKind;
use super::outcome::Conversion;

const SERVICE_PATH: &str = "controller.service";

/// Converts which Services exist, and what the internal one takes from the other.
pub(super) fn finish(input: Input<'_>, outcome: &mut Conversion) {
    let is_off = |path: &str| input.is_false(&format!("{SERVICE_PATH}.{path}"));
    if is_off("enabled") || is_off("external.enabled") {
        outcome.set("service.enabled", false.into());
    }
    internal(input, outcome);
    labels(input, outcome);
    ports(input, outcome);
    health_check("service", SERVICE_PATH, outcome);
    health_check("internalService", &format!("{SERVICE_PATH}.internal"), outcome);
    if input
        .value_at(&format!("{SERVICE_PATH}.annotations"))
        .is_some_and(|it| it.to_string().contains("external-dns."))
    {
        outcome.add_note(
            &format!("{SERVICE_PATH}.annotations"),
            "external-dns publishes Fairway's address under the name in these annotations as soon as the Service \
             exists: leave them out until you move traffic",
        );
    }
}

fn internal(input: Input<'_>, outcome: &mut Conversion) {
    let path = format!("{SERVICE_PATH}.internal");
    let switch = format!("{path}.enabled");
    if !input.is_true(&switch) || input.is_false(&format!("{SERVICE_PATH}.enabled")) {
        outcome.remove("internalService");
        return outcome.remove_findings(&path, &switch);
    }
    if outcome.value("internalService.annotations").is_none() {
        outcome.remove("internalService");
        return outcome
            .add_note(&path, "the chart of ingress-nginx made no such Service without annotations");
    }
    outcome.set("internalService.enabled", true.into());
    for path in ["type", "ports.http", "ports.https", "targetPorts.http", "targetPorts.https"] {
        let target = format!("internalService.{path}");
        if let (None, Some(of_both)) =
            (outcome.value(&target), outcome.value(&format!("service.{path}")).cloned())
        {
            outcome.set(&target, of_both);
        }
    }
}

/// Merges the common labels with those of each Service.
fn labels(input: Input<'_>, outcome: &mut Conversion) {
    for (own, more) in [("service", "external.labels"), ("internalService", "internal.labels")] {
        let label_paths = [format!("{SERVICE_PATH}.labels"), format!("{SERVICE_PATH}.{more}")];
        let label_values =
            label_paths.iter().filter_map(|path| ValueKind::Texts.convert(input.value_at(path)?).ok()?);
        let labels: Map<String, Value> =
            label_values.filter_map(|labels| labels.as_object().cloned()).flatten().collect();
        if !labels.is_empty() && (own == "service" || outcome.is_true("internalService.enabled")) {
            outcome.set(&format!("{own}.labels"), Value::Object(labels));
        }
    }
}

/// Sets a disabled port to null.
fn ports(input: Input<'_>, outcome: &mut Conversion) {
    let off: Vec<_> = [("enableHttp", "http"), ("enableHttps", "https")]
        .into_iter()
        .filter(|(switch, _)| input.is_false(&format!("{SERVICE_PATH}.{switch}")))
        .collect();
    if off.len() == 2 {
        return outcome.add_lost(
            &format!("{SERVICE_PATH}.enableHttp"),
            "a Service of Fairway's chart has at least one port",
        );
    }
    for (_, port) in off {
        outcome.set(&format!("service.ports.{port}"), Value::Null);
        if outcome.is_true("internalService.enabled") {
            outcome.set(&format!("internalService.ports.{port}"), Value::Null);
        }
    }
}

fn health_check(target: &str, source: &str, outcome: &mut Conversion) {
    let path = format!("{target}.healthCheckNodePort");
    let is = |name: &str, usual: bool, expected: &str| {
        outcome.value(&format!("{target}.{name}")).map_or(usual, |value| value == expected)
    };
    let has_one = is("type", true, "LoadBalancer") && is("externalTrafficPolicy", false, "Local");
    if outcome.value(&path).is_some() && !has_one {
        outcome.remove(&path);
        let source_port = format!("{source}.healthCheckNodePort");
        outcome.remove_findings(&source_port, "");
        outcome.add_note(
            &source_port,
            "there is one only with type LoadBalancer and externalTrafficPolicy Local",
        );
    }
}
