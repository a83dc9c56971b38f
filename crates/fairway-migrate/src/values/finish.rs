//! What depends on several values at once.

use serde_json::Value;

use super::outcome::Outcome;

/// Completes the values, so that Fairway's chart accepts them and serves the Ingresses of ingress-nginx.
pub(super) fn finish(outcome: &mut Outcome) {
    if outcome.value("ingressClass.compat").is_none() {
        outcome.set("ingressClass.compat", true.into());
    }
    let class = outcome.value("ingressClass.name").and_then(Value::as_str).map(str::to_owned);
    if let Some(class) = class.filter(|_| outcome.value("ingressClass.enabled").is_none()) {
        outcome.set("ingressClass.enabled", false.into());
        let what = format!(
            "ingressClass.enabled is false while the IngressClass {class} belongs to ingress-nginx; \
             make it true when ingress-nginx is removed"
        );
        outcome.lose("controller.ingressClassResource.name", &what);
    }
    if outcome.is_true("hostNetwork") {
        on_the_host_network(outcome);
    }
    if outcome.value("kind") == Some(&"DaemonSet".into()) && outcome.is_true("autoscaling.enabled") {
        outcome.remove("autoscaling");
        outcome.note("controller.autoscaling", "a DaemonSet has one pod per node");
    }
    if outcome.is_true("metrics.serviceMonitor.enabled") && !outcome.is_true("metrics.service.enabled") {
        outcome.set("metrics.serviceMonitor.enabled", false.into());
        outcome
            .note("controller.metrics.serviceMonitor", "it was not made without controller.metrics.enabled");
    }
    if outcome.value("watch.namespaces").is_some() && outcome.value("watch.namespaceSelector").is_some() {
        outcome.remove("watch");
        outcome.lose(
            "controller.scope",
            "namespaces and a selector of namespaces are given: set watch.namespaces or watch.namespaceSelector",
        );
    }
}

/// The pod listens on the ports of the node: those of ingress-nginx unless others are given.
fn on_the_host_network(outcome: &mut Outcome) {
    outcome.remove("hostPorts");
    for (path, usual) in [("ports.http", 80), ("ports.https", 443)] {
        if outcome.value(path).is_none() {
            outcome.set(path, usual.into());
        }
    }
    outcome.lose(
        "controller.hostNetwork",
        "kept; nodes must let an unprivileged user bind ports 80 and 443 (sysctl \
         net.ipv4.ip_unprivileged_port_start=80), and while ingress-nginx runs on a node, its ports 80, 443 and 10254 are taken there",
    );
}
