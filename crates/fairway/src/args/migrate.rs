//! The flags of `migrate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::source::ClusterArgs;
use super::translation::TranslationArgs;

/// Turns the installation of another controller into one of Fairway.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// What to turn
    #[command(subcommand)]
    pub(crate) what: MigrateWhat,
}

/// What is turned.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateWhat {
    /// Turn values of the Helm chart of ingress-nginx into values of Fairway's chart
    Values(ValuesArgs),
    /// Turn Ingresses into Gateways and routes of the Gateway API
    GatewayApi(Box<GatewayApiArgs>),
}

/// Turns values of the Helm chart of ingress-nginx into values of Fairway's chart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway migrate values ingress-nginx.yaml --output fairway.yaml
  helm get values ingress-nginx -n ingress-nginx -o yaml | fairway migrate values - >fairway.yaml

Standard error names what needs attention:
  lost: PATHS: WHAT   Fairway does not do this as ingress-nginx did, or needs a value by hand
  note: PATHS: WHAT   what to know about a value that was taken over, or why it is not needed

Values that the input does not set take the defaults of Fairway's chart. So do empty values
(\"\", {}, [], null): they ask for nothing. The keys of controller.config are judged as
`fairway check` judges those of the settings ConfigMap.

Exit codes:
  0  nothing is lost
  1  something is lost; the values are written all the same
  2  the input cannot be read as values, or the output cannot be written")]
pub(crate) struct ValuesArgs {
    /// The values, YAML or JSON; - is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write the values here instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Turns Ingresses into Gateways and routes of the Gateway API.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway migrate gateway-api manifests --output gateway.yaml
  fairway migrate gateway-api --kubernetes --ingress-class-compat --gateway infra/edge >gateway.yaml
  kubectl get ingress,service -A -o yaml | fairway migrate gateway-api --ingress-class-compat - >gateway.yaml

The output has a Gateway with a listener for each host with a certificate, HTTPRoutes, GRPCRoutes and TLSRoutes in the
namespaces of the Ingresses, and ReferenceGrants and BackendTLSPolicies where they are needed. Comments say what differs.
Services and TLS Secrets that the input does not have are taken for granted.

Standard error says of each Ingress and annotation:
  lost: INGRESS: WHAT      the Gateway API has no field for it, or the path is closed
  differs: INGRESS: WHAT   what is written is close to it
  note: WHAT               what differs for all Ingresses
and how many generated requests lead to the same Services, paths and redirects by the Ingresses and by what is written.

A path that would lose its protection (authentication, client certificates, address lists, snippets) or whose rewrite
cannot be written is closed: its rule has no backend and answers 500. --allow-loss serves it without.

Exit codes: 0 nothing is lost, 1 something is lost and the objects are written all the same, 2 the input cannot be used.")]
pub(crate) struct GatewayApiArgs {
    /// The Ingresses: a directory, or a single file; - is the standard input
    #[arg(value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// The Ingresses of a cluster, read once with your own credentials
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// The Gateway that is written
    #[arg(long, value_name = "NS/NAME", default_value = "fairway/edge")]
    pub(crate) gateway: String,
    /// The GatewayClass that it names
    #[arg(long, value_name = "NAME", default_value = "fairway")]
    pub(crate) gateway_class: String,
    /// Serve paths whose protection or rewrite cannot be written without it, instead of closing them
    #[arg(long)]
    pub(crate) allow_loss: bool,
    /// Write the objects here instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Which cluster, and what of it
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// What objects mean
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}
