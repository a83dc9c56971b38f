//! Whether the written objects serve what the Ingresses serve: they are read and translated as Fairway does, and the probes of
//! `fairway compare` are looked up in both. Sends nothing.

use std::fmt::Write;
use std::net::IpAddr;

use anyhow::{Result, bail};
use fairway_compare::{Agreement, Plan, Schemes};
use fairway_control::Outcome;
use fairway_objects::object::Kind;
use fairway_objects::options::{GatewayOptions, Options, Places};
use fairway_objects::resources::Change;

use crate::offline;

/// Probes to look up at most.
const MOST: usize = 100_000;

/// Looks all probes up in what the Ingresses are and in what `text`, the objects of the Gateway API, is with the other objects.
pub(super) fn of(
    ingresses: &Outcome,
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
    let places = Places::At(vec![IpAddr::from([0, 0, 0, 0])]);
    let gateways = GatewayOptions { places, ..options.gateways };
    let options = Options { gateways, ..options };
    let moved = offline::outcome(options, others.chain(written.changes).collect())?;
    let plan = Plan::of(&ingresses.snapshot, Schemes::Both, MOST);
    Ok(fairway_compare::agreement(&plan, &ingresses.snapshot, &moved.snapshot))
}

/// How many are served alike, and what becomes of the first of the others.
pub(super) fn told(out: &mut String, proof: &Agreement, most: usize) -> std::fmt::Result {
    for it in proof.differing.iter().take(most) {
        writeln!(out, "differing: {}: {}; as routes: {}", it.probe, it.from, it.to)?;
    }
    let beyond = proof.differing.len().saturating_sub(most);
    if beyond > 0 {
        writeln!(out, "differing: {beyond} more")?;
    }
    let (all, same) = (proof.probes, proof.probes - proof.differing.len());
    writeln!(out, "{same} of {all} generated requests lead to the same Services, paths and redirects")
}
