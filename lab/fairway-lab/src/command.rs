//! The command line of `fairway-lab`: a variant for each command, with the arguments that its module defines.
//!
//! Exit codes: 0 success, 1 bad findings (errors, a failed check, a partial run), 2 unusable input. Contains no other
//! logic.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fairway_lab_report::command::ReportArguments;
use fairway_lab_report::evidence::PublishArguments;
use fairway_lab_report::evidence::condense::CondenseArguments;
use fairway_lab_traffic::backend::Options as BackendArguments;
use fairway_lab_traffic::crosscheck::CrosscheckArguments;
use fairway_lab_traffic::load::command::LoadArguments;

use crate::adapter::command::AdapterArguments;
use crate::scenario::arguments::RunArguments;
use crate::scenario::command::ListArguments;

/// Reruns the published benchmarks of ingress controllers on a laptop-sized testbed or in a cluster of yours.
#[derive(Parser)]
#[command(name = "fairway-lab", version)]
struct CommandLine {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Run scenarios against peers and write a report.
    Run(Box<RunArguments>),
    /// List scenarios with their parameters, and peers with their descriptions.
    List(ListArguments),
    /// Send requests to a URL and say how they fared.
    Load(Box<LoadArguments>),
    /// Compare the load generator with wrk, hey, h2load and oha.
    Crosscheck(CrosscheckArguments),
    /// Merge the results of runs into one report.
    Report(ReportArguments),
    /// Write the published form of runs: everything that the report reads, in a fraction of the bytes.
    Condense(CondenseArguments),
    /// Put the figures of the published results into the documents of Fairway's repository, or check that they are there.
    Publish(PublishArguments),
    /// The backend that requests end at, with knobs.
    Backend(BackendArguments),
    /// The adapter that runs next to nginx, HAProxy, Envoy or Caddy in a pod and applies changes to them. Started by runs
    /// of the laboratory.
    #[command(hide = true)]
    Adapter(AdapterArguments),
}

/// Parses the arguments of the process and runs the command.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match CommandLine::parse().order {
        Order::Run(run) => run.run(),
        Order::List(list) => list.run(),
        Order::Load(load) => load.run(),
        Order::Crosscheck(crosscheck) => crosscheck.run(),
        Order::Report(report) => report.run(),
        Order::Condense(condense) => condense.run(),
        Order::Publish(publish) => publish.run(),
        Order::Backend(backend) => backend.run(),
        Order::Adapter(adapter) => adapter.run(),
    };
    outcome.unwrap_or_else(|error| {
        // A failure to write to standard error cannot be reported.
        _ = writeln!(std::io::stderr(), "fairway-lab: {error:#}");
        ExitCode::from(2)
    })
}
