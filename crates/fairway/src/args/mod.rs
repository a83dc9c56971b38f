//! The command line. Every flag can also be set through an environment variable `FAIRWAY_*`.

mod addresses;
mod against;
mod compare;
mod documents;
mod durations;
mod gateways;
mod inspect;
mod kubectl;
mod limits;
mod migrate;
mod ports;
mod run;
mod source;
mod telemetry;
mod topology;
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
    CertsArgs, DashboardArgs, DiagnosticsArgs, EndpointsArgs, KubectlArgs, KubectlCli, KubectlCommand,
    ListFormat, LogsArgs, PodArgs, RequestArgs, RoutesArgs, ScopeArgs, StatusArgs, TargetArgs, TopArgs,
};
pub(crate) use migrate::{GatewayApiArgs, MigrateArgs, MigrateWhat, ValuesArgs};
pub(crate) use run::{LogFormat, RunArgs};
pub(crate) use source::{ClusterArgs, NodeAddressChoice, ReportArgs, Source, WebhookArgs};
pub(crate) use telemetry::TelemetryFlags;
pub(crate) use topology::TopologyArgs;
pub(crate) use translation::TranslationArgs;
pub(crate) use wait::{FleetArgs, WaitArgs};

/// A Kubernetes ingress and Gateway API controller with its own data plane.
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

Every flag of run can also be set through an environment variable: FAIRWAY_ACCESS_LOG is --access-log.
Exit codes: 0 success, 1 problems found, 2 unusable input.")]
pub(crate) struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve traffic for the objects of a cluster or of a directory of manifests, and follow changes
    Run(Box<RunArgs>),
    /// Report every problem in a directory of manifests or in the objects of a cluster
    Check(CheckArgs),
    /// Explain which rule serves a request and why the other rules do not
    Explain(ExplainArgs),
    /// Convert ingress-nginx chart values to Fairway's chart, or Ingresses to Gateway API routes
    Migrate(MigrateArgs),
    /// Send the same requests to two controllers and explain where their responses differ
    Compare(Box<CompareArgs>),
    /// Wait until every replica serves a given configuration
    Wait(WaitArgs),
    /// Inspect the Fairway pods of a cluster and what they serve; also the plugin kubectl-fairway
    Kubectl(KubectlArgs),
    /// Run a small backend that echoes the requests it receives
    Echo(EchoArgs),
    /// Print a shell completion script for Fairway's commands and flags
    Completions(CompletionsArgs),
    /// Write a man page for each command into a directory
    Man(ManArgs),
    /// Print the version
    Version,
}
