//! The Services: the one for clients from outside, and the internal one.

use serde_json::{Map, Value};

use super::input::Input;
use super::kind::Kind;
use super::outcome::Outcome;

const OF: &str = "controller.service";

/// Which Services there are, and what the internal one has from the other.
pub(super) fn finish(input: Input<'_>, outcome: &mut Outcome) {
    let is_off = |path: &str| input.is_false(&format!("{OF}.{path}"));
    if is_off("enabled") || is_off("external.enabled") {
        outcome.set("service.enabled", false.into());
    }
    internal(input, outcome);
    labels(input, outcome);
    ports(input, outcome);
    health_check("service", OF, outcome);
    health_check("internalService", &format!("{OF}.internal"), outcome);
    if input.at(&format!("{OF}.annotations")).is_some_and(|it| it.to_string().contains("external-dns.")) {
        outcome.note(
            &format!("{OF}.annotations"),
            "external-dns publishes Fairway's address under the name in these annotations as soon as the Service \
             exists: leave them out until you move traffic",
        );
    }
}

fn internal(input: Input<'_>, outcome: &mut Outcome) {
    let path = format!("{OF}.internal");
    let switch = format!("{path}.enabled");
    if !input.is_true(&switch) || input.is_false(&format!("{OF}.enabled")) {
        outcome.remove("internalService");
        return outcome.unsay(&path, &switch);
    }
    if outcome.value("internalService.annotations").is_none() {
        outcome.remove("internalService");
        return outcome.note(&path, "the chart of ingress-nginx made no such Service without annotations");
    }
    outcome.set("internalService.enabled", true.into());
    for path in ["type", "ports.http", "ports.https", "targetPorts.http", "targetPorts.https"] {
        let own = format!("internalService.{path}");
        if let (None, Some(of_both)) =
            (outcome.value(&own), outcome.value(&format!("service.{path}")).cloned())
        {
            outcome.set(&own, of_both);
        }
    }
}

/// Labels of both, then those of each.
fn labels(input: Input<'_>, outcome: &mut Outcome) {
    for (own, more) in [("service", "external.labels"), ("internalService", "internal.labels")] {
        let given = [format!("{OF}.labels"), format!("{OF}.{more}")];
        let given = given.iter().filter_map(|path| Kind::Texts.convert(input.at(path)?).ok()?);
        let labels: Map<String, Value> =
            given.filter_map(|labels| labels.as_object().cloned()).flatten().collect();
        if !labels.is_empty() && (own == "service" || outcome.is_true("internalService.enabled")) {
            outcome.set(&format!("{own}.labels"), Value::Object(labels));
        }
    }
}

/// A port that is switched off is null.
fn ports(input: Input<'_>, outcome: &mut Outcome) {
    let off: Vec<_> = [("enableHttp", "http"), ("enableHttps", "https")]
        .into_iter()
        .filter(|(switch, _)| input.is_false(&format!("{OF}.{switch}")))
        .collect();
    if off.len() == 2 {
        return outcome
            .lose(&format!("{OF}.enableHttp"), "a Service of Fairway's chart has at least one port");
    }
    for (_, port) in off {
        outcome.set(&format!("service.ports.{port}"), Value::Null);
        if outcome.is_true("internalService.enabled") {
            outcome.set(&format!("internalService.ports.{port}"), Value::Null);
        }
    }
}

fn health_check(own: &str, of: &str, outcome: &mut Outcome) {
    let path = format!("{own}.healthCheckNodePort");
    let is = |name: &str, usual: bool, expected: &str| {
        outcome.value(&format!("{own}.{name}")).map_or(usual, |value| value == expected)
    };
    let has_one = is("type", true, "LoadBalancer") && is("externalTrafficPolicy", false, "Local");
    if outcome.value(&path).is_some() && !has_one {
        outcome.remove(&path);
        let of = format!("{of}.healthCheckNodePort");
        outcome.unsay(&of, "");
        outcome.note(&of, "there is one only with type LoadBalancer and externalTrafficPolicy Local");
    }
}
