//! `fairway check --against`: finds the recorded requests of running replicas that new objects would handle differently.
//!
//! [`recorded_requests`] fetches recorded requests and the configuration from the replicas, [`report`] evaluates the requests against both
//! configurations, and [`text`] prints the result.

mod recorded_requests;
mod report;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use fairway_migrate::SeenKinds;
use fairway_model::Config;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::Kind;
use fairway_objects::options::GatewayPlacement;
use serde::Serialize;

use crate::args::{CheckArgs, ClusterArgs, Output};
use crate::check::{self, check_objects};
use crate::offline::{Input, ReadObjects};
use crate::terminal::{EscapedJson, PlainText};
use report::Report;

/// The diagnostics and the report, as JSON.
#[derive(Serialize)]
struct Page<'a> {
    diagnostics: &'a [Diagnostic],
    against: &'a Report,
}

/// Prints the diagnostics of the objects and their effect on recorded requests. Exits with 0 if there are no problems other than
/// notes, otherwise with 1.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let against = &args.against;
    if matches!(args.output, Output::Markdown | Output::Html) {
        bail!("--against supports only --output text and --output json");
    }
    if against.queries_cluster() && against.against.len() > 1 {
        bail!("--against kubernetes queries all pods of a cluster and cannot be combined with an address");
    }
    let read = read(args)?;
    let is_incomplete = is_incomplete(&read);
    let found = check_objects(read)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let remembered = runtime.block_on(recorded_requests::collect_records(args));
    // A pending name lookup by the system cannot be cancelled.
    runtime.shutdown_background();
    let remembered = remembered?;
    let config = as_config_page(&found.outcome.translation.config)?;
    let report = Report::from_remembered(&remembered, &config, is_incomplete);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.output == Output::Json {
        let page = Page { diagnostics: &found.diagnostics, against: &report };
        serde_json::to_writer_pretty(EscapedJson(&mut out), &page)?;
        writeln!(out)?;
    } else {
        let mut out = PlainText(&mut out);
        check::text(&mut out, &found)?;
        writeln!(out)?;
        text::write(&mut out, &report)?;
    }
    out.flush()?;
    let fails = against.fail_on_change && report.totals.otherwise > 0;
    Ok(if check::is_clean(&found) && !fails { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Reads the objects to compare with the running configuration.
fn read(args: &CheckArgs) -> Result<ReadObjects> {
    let CheckArgs { manifests, cluster, against, translation, addresses, .. } = args;
    let for_a_cluster = against.queries_cluster() && manifests.is_some();
    // With manifests, these flags only locate the pods.
    let without = ClusterArgs { kubeconfig: None, context: None, ..cluster.clone() };
    let cluster = if for_a_cluster { &without } else { cluster };
    let input = Input { manifests: manifests.as_deref(), cluster, translation, addresses: Some(addresses) };
    let mut read = input.read()?;
    if for_a_cluster {
        read.options.gateways.placement = GatewayPlacement::Given;
    }
    Ok(read)
}

/// Whether rules may refer to Services or Secrets that are not in the input.
fn is_incomplete(read: &ReadObjects) -> bool {
    match read.seen_kinds() {
        SeenKinds::Manifests(kinds) => [Kind::Service, Kind::Secret].iter().any(|kind| !kinds.contains(kind)),
        SeenKinds::Cluster => false,
    }
}

/// A configuration as the page `/config` shows it, so that secrets, which are hidden there, do not count as differences.
fn as_config_page(config: &Config) -> Result<Config> {
    Ok(serde_json::from_slice(&serde_json::to_vec(&config.without_secrets())?)?)
}
