//! Adjusts values that depend on each other, so that Fairway's chart accepts them together.

use serde_json::Value;

use super::input::Input;
use super::outcome::Conversion;
use super::{amounts, classes, network, service, service_maps};

/// The defaults of Fairway's chart.
pub(super) const DRAIN_DELAY: u64 = 10;
pub(super) const DRAIN_MARGIN: u64 = 20;
/// The maximum of `drain.timeout`.
const MAX_DRAIN_SECONDS: u64 = 86_400;
pub(super) const MIN_REPLICAS: u64 = 2;
pub(super) const MAX_REPLICAS: u64 = 10;

/// Completes the values.
pub(super) fn finish(input: Input<'_>, outcome: &mut Conversion) {
    classes::finish(input, outcome);
    service::finish(input, outcome);
    network::finish(input, outcome);
    service_maps::finish(outcome);
    amounts::finish(input, outcome);
    scaling(outcome);
    disruption(input, outcome);
    drain(input, outcome);
    metrics(input, outcome);
    if outcome.value("watch.namespaces").is_some() && outcome.value("watch.namespaceSelector").is_some() {
        outcome.remove("watch");
        let remark = "namespaces and a selector are given: set watch.namespaces or watch.namespaceSelector";
        outcome.add_lost("controller.scope", remark);
    }
}

/// Missing replica counts get the defaults of Fairway's chart unless these contradict the others.
fn scaling(outcome: &mut Conversion) {
    if !outcome.is_true("autoscaling.enabled") {
        return;
    }
    if outcome.value("kind") == Some(&"DaemonSet".into()) {
        outcome.remove("autoscaling");
        return outcome.add_note("controller.autoscaling", "a DaemonSet has one pod per node");
    }
    let setting = |name: &str| outcome.value(&format!("autoscaling.{name}")).and_then(Value::as_u64);
    match (setting("minReplicas"), setting("maxReplicas")) {
        (Some(min), None) if min > MAX_REPLICAS => outcome.set("autoscaling.maxReplicas", min.into()),
        (None, Some(max)) if max < MIN_REPLICAS => outcome.set("autoscaling.minReplicas", max.into()),
        _ => {}
    }
}

/// The chart accepts only one of `minAvailable` and `maxUnavailable`, which has a default. In ingress-nginx `maxUnavailable` takes
/// precedence. A budget for one replica would prevent its node from draining.
fn disruption(input: Input<'_>, outcome: &mut Conversion) {
    let has = |name: &str| outcome.value(&format!("podDisruptionBudget.{name}")).is_some();
    let replicas = match input.is_true("controller.autoscaling.enabled") {
        true => "controller.autoscaling.minReplicas",
        false => "controller.replicaCount",
    };
    if input.number(replicas, 10_000).is_none_or(|replicas| replicas <= 1) {
        if outcome.value("podDisruptionBudget").is_some() {
            outcome.remove("podDisruptionBudget");
            let remark = "the chart of ingress-nginx makes no budget for one replica, and Fairway's has its own default";
            outcome.add_note("controller.minAvailable", remark);
        }
        return;
    }
    match (has("minAvailable"), has("maxUnavailable")) {
        (true, true) => {
            outcome.remove("podDisruptionBudget.minAvailable");
            outcome.add_note("controller.minAvailable", "controller.maxUnavailable goes before it");
        }
        (true, false) => outcome.set("podDisruptionBudget.maxUnavailable", Value::Null),
        (false, _) => {}
    }
    let eviction = input.text(&["controller.unhealthyPodEvictionPolicy"]);
    if eviction == Some("IfHealthyBudget") {
        let remark = "pods that are not ready never keep a node from draining (AlwaysAllow)";
        outcome.add_lost("controller.unhealthyPodEvictionPolicy", remark);
    }
}

/// Fairway's chart computes the pod's grace period as the sum of delay, timeout and margin.
fn drain(input: Input<'_>, outcome: &mut Conversion) {
    let path = "controller.terminationGracePeriodSeconds";
    let Some(seconds) = input.number(path, MAX_DRAIN_SECONDS) else { return };
    let delay = outcome.value("drain.delay").and_then(Value::as_u64).unwrap_or(DRAIN_DELAY);
    match seconds.checked_sub(delay + DRAIN_MARGIN) {
        Some(timeout) => outcome.set("drain.timeout", timeout.into()),
        None => outcome.add_lost(path, "set drain.delay, drain.timeout and drain.margin, which add up to it"),
    }
}

fn metrics(input: Input<'_>, outcome: &mut Conversion) {
    if input.is_true("controller.metrics.enabled") {
        let has_service = !input.is_false("controller.metrics.service.enabled");
        outcome.set("metrics.service.enabled", has_service.into());
    }
    if outcome.is_true("metrics.serviceMonitor.enabled") && !outcome.is_true("metrics.service.enabled") {
        outcome.set("metrics.serviceMonitor.enabled", false.into());
        let remark = "there was none without controller.metrics.enabled and its Service";
        outcome.add_note("controller.metrics.serviceMonitor", remark);
    }
    if !outcome.is_true("metrics.rules.enabled") {
        return;
    }
    let path = "controller.metrics.prometheusRule";
    if input.is_true("controller.metrics.enabled") {
        let remark =
            "the PrometheusRule has the alerts of Fairway as well; metrics.rules.disabled leaves alerts out";
        outcome.add_note(path, remark);
    } else {
        outcome.set("metrics.rules.enabled", false.into());
        outcome.add_note(path, "there was none without controller.metrics.enabled");
    }
}
