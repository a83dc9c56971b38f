//! Checks that the converted objects route like the Ingresses: translates both and looks the probes of `fairway compare` up in both
//! snapshots. Sends nothing.

use std::fmt::Write;
use std::net::IpAddr;

use anyhow::{Result, bail};
use fairway_compare::{Agreement, Plan, Schemes};
use fairway_control::EngineOutput;
use fairway_objects::object::Kind;
use fairway_objects::options::{GatewayOptions, GatewayPlacement, Options};
use fairway_objects::resources::Change;

use crate::offline;

/// Maximum number of probes to look up.
const MAX_PROBES: usize = 100_000;

/// Looks all probes up in the snapshot of the Ingresses and in that of `text`, the converted objects, with the other objects.
pub(super) fn compare_apis(
    ingresses: &EngineOutput,
    changes: Vec<Change>,
    options: Options,
    text: &str,
    class: &str,
) -> Result<Agreement> {
    let others = changes.into_iter().filter(|change| {
        let kind = change.reference().kind;
        matches!(kind, Kind::Service | Kind::EndpointSlice | Kind::Secret | Kind::ConfigMap | Kind::Namespace)
    });
    let class = format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: {class}}}\n\
         spec: {{controllerName: {}}}\n",
        options.gateways.controller
    );
    let written = fairway_control::directory::read_text("the written objects", &format!("{text}{class}"));
    if let Some(problem) = written.diagnostics.first() {
        bail!("the written objects cannot be read again: {problem}");
    }
    let placement = GatewayPlacement::At(vec![IpAddr::from([0, 0, 0, 0])]);
    let gateways = GatewayOptions { placement, ..options.gateways };
    let options = Options { gateways, ..options };
    let moved = offline::translate_changes(options, others.chain(written.changes).collect())?;
    let plan = Plan::from_snapshot(&ingresses.snapshot, Schemes::Both, MAX_PROBES);
    Ok(fairway_compare::agreement(&plan, &ingresses.snapshot, &moved.snapshot))
}

/// Writes how many probes have the same result, and the results of the first `limit` others.
pub(super) fn write_agreement(out: &mut String, proof: &Agreement, limit: usize) -> std::fmt::Result {
    for it in proof.differing.iter().take(limit) {
        writeln!(out, "differing: {}: {}; as routes: {}", it.probe, it.from, it.target_outcome)?;
    }
    let beyond = proof.differing.len().saturating_sub(limit);
    if beyond > 0 {
        writeln!(out, "differing: {beyond} more")?;
    }
    let (all, same) = (proof.probes, proof.probes - proof.differing.len());
    writeln!(out, "{same} of {all} generated requests lead to the same Services, paths and redirects")
}
