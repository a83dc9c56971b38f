//! `fairway check --against`: which of the requests that running replicas remember the objects would have treated otherwise.
//!
//! [`remembered`] asks the replicas what they remember and what they serve, [`report`] compares that with what the objects mean, and
//! [`text`] prints it for people.

mod remembered;
mod report;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use fairway_migrate::Given;
use fairway_model::Config;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::object::Kind;
use fairway_objects::options::Places;
use serde::Serialize;

use crate::args::{CheckArgs, ClusterArgs, Output};
use crate::check::{self, judged};
use crate::offline::{Input, Read};
use crate::terminal::{EscapedJson, Plain};
use report::Report;

/// The diagnostics and the report, as JSON.
#[derive(Serialize)]
struct Page<'a> {
    diagnostics: &'a [Diagnostic],
    against: &'a Report,
}

/// Says what is wrong with the objects, and what they would have meant for requests that were served; 0 when there is nothing but
/// notes, 1 otherwise.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let against = &args.against;
    if matches!(args.output, Output::Markdown | Output::Html) {
        bail!("--against is printed as text or JSON: give --output text or --output json");
    }
    if against.asks_a_cluster() && against.against.len() > 1 {
        bail!("--against kubernetes asks all pods of a cluster: give no address besides it");
    }
    let read = read(args)?;
    let is_incomplete = is_incomplete(&read);
    let found = judged(read)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let remembered = runtime.block_on(remembered::ask(args));
    // The system may still look up a name, which cannot be ended.
    runtime.shutdown_background();
    let remembered = remembered?;
    let config = as_shown(&found.outcome.translation.config)?;
    let report = Report::of(&remembered, &config, is_incomplete);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.output == Output::Json {
        let page = Page { diagnostics: &found.diagnostics, against: &report };
        serde_json::to_writer_pretty(EscapedJson(&mut out), &page)?;
        writeln!(out)?;
    } else {
        let mut out = Plain(&mut out);
        check::text(&mut out, &found)?;
        writeln!(out)?;
        text::write(&mut out, &report)?;
    }
    out.flush()?;
    let fails = against.fail_on_change && report.totals.otherwise > 0;
    Ok(if check::is_clean(&found) && !fails { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The objects that would take the place of those that are served.
fn read(args: &CheckArgs) -> Result<Read> {
    let CheckArgs { manifests, cluster, against, translation, addresses, .. } = args;
    let for_a_cluster = against.asks_a_cluster() && manifests.is_some();
    // These flags say where the pods are.
    let without = ClusterArgs { kubeconfig: None, context: None, ..cluster.clone() };
    let cluster = if for_a_cluster { &without } else { cluster };
    let input = Input { manifests: manifests.as_deref(), cluster, translation, addresses: Some(addresses) };
    let mut read = input.read()?;
    if for_a_cluster {
        read.options.gateways.places = Places::Given;
    }
    Ok(read)
}

/// Whether rules may refer to objects that were not given.
fn is_incomplete(read: &Read) -> bool {
    match read.given() {
        Given::Manifests(kinds) => [Kind::Service, Kind::Secret].iter().any(|kind| !kinds.contains(kind)),
        Given::Cluster => false,
    }
}

/// A configuration as the page `/config` shows it: what is hidden there makes no difference.
fn as_shown(config: &Config) -> Result<Config> {
    Ok(serde_json::from_slice(&serde_json::to_vec(&config.without_secrets())?)?)
}
