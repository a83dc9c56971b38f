//! The command line: every flag is also an environment variable `FAIRWAY_*`.

mod addresses;
mod against;
mod compare;
mod documents;
mod gateways;
mod inspect;
mod kubectl;
mod limits;
mod migrate;
mod place;
mod ports;
mod run;
mod seconds;
mod source;
mod telemetry;
mod translation;
mod trust;
mod wait;

use clap::{Parser, Subcommand};

pub(crate) use addresses::AddressArgs;
pub(crate) use against::Against;
pub(crate) use compare::{CompareArgs, Format};
pub(crate) use documents::{CompletionsArgs, ManArgs};
pub(crate) use inspect::{CheckArgs, EchoArgs, ExplainArgs, Output};
pub(crate) use kubectl::{
    AskedArgs, CertsArgs, DashboardArgs, DiagnosticsArgs, EndpointsArgs, KubectlArgs, KubectlCli,
    KubectlCommand, ListFormat, LogsArgs, PodArgs, RequestArgs, RoutesArgs, ScopeArgs, StatusArgs, TopArgs,
};
pub(crate) use migrate::{GatewayApiArgs, MigrateArgs, MigrateWhat, ValuesArgs};
pub(crate) use place::PlaceArgs;
pub(crate) use run::{LogFormat, RunArgs};
pub(crate) use source::{ClusterArgs, NodeAddressChoice, ReportArgs, Source, WebhookArgs};
pub(crate) use telemetry::TelemetryFlags;
pub(crate) use translation::TranslationArgs;
pub(crate) use wait::{FleetArgs, WaitArgs};

/// A Kubernetes ingress controller with its own data plane.
#[derive(Debug, Parser)]
#[command(name = "fairway", version, arg_required_else_help = true, max_term_width = 110)]
#[command(after_help = "\
Examples:
  fairway run --manifests examples/quickstart
  fairway check examples/quickstart
  fairway explain https://shop.example.com/cart --manifests examples/quickstart
  fairway explain https://shop.example.com/cart --admin 127.0.0.1:10254
  fairway migrate values ingress-nginx.yaml >fairway.yaml
  fairway migrate gateway-api --kubernetes --ingress-class-compat >gateway.yaml
  fairway compare --kubernetes --ingress-class-compat --from 10.0.0.7 --to 10.0.0.8
  fairway wait --namespace ingress --ingress shop/web
  fairway kubectl status

Every flag of run can also be given as an environment variable: --access-log as FAIRWAY_ACCESS_LOG.
Exit codes: 0 as asked, 1 problems were found, 2 the input cannot be used.")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve traffic as a cluster or a directory of manifests says, and follow changes
    Run(Box<RunArgs>),
    /// Report everything that is wrong with a directory of manifests or the objects of a cluster
    Check(CheckArgs),
    /// Explain which rule serves a request, which rules lost, and why
    Explain(ExplainArgs),
    /// Convert values of the ingress-nginx chart to those of Fairway's chart, or Ingresses to routes of the Gateway API
    Migrate(MigrateArgs),
    /// Send the same requests to two controllers and explain where they answer differently
    Compare(Box<CompareArgs>),
    /// Wait until every replica serves a configuration
    Wait(WaitArgs),
    /// Look at the Fairway pods of a cluster and what they serve; installed as kubectl-fairway, it is kubectl fairway
    Kubectl(KubectlArgs),
    /// Run a small backend that answers with what it received
    Echo(EchoArgs),
    /// Print what makes a shell complete Fairway's commands and flags
    Completions(CompletionsArgs),
    /// Write a man page for each command into a directory
    Man(ManArgs),
    /// Print the version
    Version,
}
