//! Ports of pods and of nodes, and the addresses in the status of Ingresses.

use super::input::Input;
use super::outcome::Conversion;

/// `ports.probe` of Fairway's chart, which serves the metrics.
pub(super) const PROBE_PORT: u64 = 10_255;
/// The other ports of Fairway's chart, apart from those of the listeners.
pub(super) const OTHER_PORTS: [(&str, u64); 3] =
    [("probe", PROBE_PORT), ("admin", 10_254), ("webhook", 9_443)];

/// Name, port in the ingress-nginx chart, flag and value.
const LISTENER_PORTS: [(&str, u64, [&str; 2]); 2] = [
    ("http", 80, ["controller.extraArgs.http-port", "controller.containerPort.http"]),
    ("https", 443, ["controller.extraArgs.https-port", "controller.containerPort.https"]),
];

/// Converts ports and the published addresses.
pub(super) fn finish(input: Input<'_>, outcome: &mut Conversion) {
    match input.is_true("controller.hostNetwork") {
        true => of_nodes(input, outcome),
        false => of_pods(input, outcome),
    }
    published_services(input, outcome);
}

/// With the host network, pods listen on the ports of their node: those of ingress-nginx unless others are given.
fn of_nodes(input: Input<'_>, outcome: &mut Conversion) {
    for (name, usual, paths) in LISTENER_PORTS {
        let first_port = paths.into_iter().find_map(|path| Some((path, input.port(path)?)));
        let (path, port) = first_port.unwrap_or(("controller.hostNetwork", usual));
        match OTHER_PORTS.iter().find(|(_, taken)| *taken == port) {
            Some((other, _)) => {
                let remark = format!(
                    "{port} is ports.{other} of Fairway's chart: choose another one there, and set ports.{name}"
                );
                outcome.add_lost(path, &remark);
            }
            None => outcome.set(&format!("ports.{name}"), port.into()),
        }
    }
    if input.is_true("controller.hostPort.enabled") {
        outcome
            .add_note("controller.hostPort", "with hostNetwork pods listen on the ports of the node anyway");
    }
    outcome.add_note(
        "controller.hostNetwork",
        "Fairway does not run as root: its nodes have to let other users bind these ports (sysctl \
         net.ipv4.ip_unprivileged_port_start=80), and on a node with ingress-nginx it needs other ports than 80, 443 \
         and 10254 (ports.http, ports.https, ports.admin)",
    );
}

/// Ports inside the pod are Fairway's own; host ports that lead to them are kept.
fn of_pods(input: Input<'_>, outcome: &mut Conversion) {
    for (name, usual, paths) in LISTENER_PORTS {
        for path in paths.into_iter().filter(|path| input.port(path).is_some_and(|port| port != usual)) {
            let remark =
                format!("pods listen on ports.{name} of Fairway's chart, and its Service leads there");
            outcome.add_note(path, &remark);
        }
    }
    if !input.is_true("controller.hostPort.enabled") {
        return;
    }
    for (name, usual, _) in LISTENER_PORTS {
        let port = input.port(&format!("controller.hostPort.ports.{name}")).unwrap_or(usual);
        outcome.set(&format!("hostPorts.{name}"), port.into());
    }
    let remark = "a pod of Fairway waits for a node on which ingress-nginx does not use these ports";
    outcome.add_note("controller.hostPort", remark);
}

/// ingress-nginx publishes the addresses of its nodes if it publishes no Service.
fn published_services(input: Input<'_>, outcome: &mut Conversion) {
    let ports = [
        "controller.publishService.pathOverride",
        "controller.extraArgs.publish-service",
        "controller.extraArgs.publish-status-address",
    ];
    let switches = [
        "controller.publishService.enabled",
        "controller.service.enabled",
        "controller.service.external.enabled",
    ];
    let off = switches.into_iter().find(|path| input.is_false(path));
    let has_internal = off == Some(switches[2]) && outcome.is_true("internalService.enabled");
    let writes_status = outcome.value("status.enabled") != Some(&false.into());
    if let Some(path) = off.filter(|_| writes_status && input.text(&ports).is_none() && !has_internal) {
        let remark = "ingress-nginx writes the addresses of its nodes into the status of Ingresses, Fairway those of its \
                    Service or none: name the nodes' addresses in status.publishAddresses";
        outcome.add_lost(path, remark);
    }
}
