//! The flags of `migrate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::source::ClusterArgs;
use super::translation::TranslationArgs;

/// Converts the installation of another controller to Fairway.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// What to convert
    #[command(subcommand)]
    pub(crate) what: MigrateWhat,
}

/// What to convert.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateWhat {
    /// Convert values of the ingress-nginx Helm chart to values of Fairway's chart
    Values(ValuesArgs),
    /// Convert Ingresses to Gateways and Gateway API routes
    GatewayApi(Box<GatewayApiArgs>),
}

/// Converts values of the ingress-nginx Helm chart to values of Fairway's chart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway migrate values ingress-nginx.yaml --output fairway.yaml
  helm get values ingress-nginx -n ingress-nginx -o yaml | fairway migrate values - >fairway.yaml

Standard error lists what needs attention:
  lost: PATHS: WHAT   Fairway does not do this the way ingress-nginx did, or you have to set a value by hand
  note: PATHS: WHAT   remarks about a converted value, or why it is not needed

Values that the input does not set, and empty ones (\"\", {}, [], null), take the defaults of
Fairway's chart. The keys of controller.config are checked as `fairway check` checks those of the
settings ConfigMap.

Exit codes:
  0  nothing is lost
  1  something is lost; the values are still written
  2  the input cannot be read as values, or the output cannot be written")]
pub(crate) struct ValuesArgs {
    /// Values file, YAML or JSON; - reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write the values to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Converts Ingresses to Gateways and Gateway API routes.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway migrate gateway-api manifests --output gateway.yaml
  fairway migrate gateway-api --kubernetes --ingress-class-compat --gateway infra/edge >gateway.yaml
  kubectl get ingress,service -A -o yaml | fairway migrate gateway-api --ingress-class-compat - >gateway.yaml

The output has a Gateway with a listener for each host with a certificate, HTTPRoutes, GRPCRoutes and TLSRoutes in the
namespaces of the Ingresses, and ReferenceGrants and BackendTLSPolicies where they are needed. Comments explain differences.
Services and TLS Secrets that are missing in the input are assumed to exist.

Standard error lists, for each Ingress and annotation:
  lost: INGRESS: WHAT      the Gateway API has no field for it, or the path is closed
  differs: INGRESS: WHAT   the converted object behaves similarly but not identically
  note: WHAT               differences that concern all Ingresses
and for how many generated requests the Ingresses and the converted objects lead to the same Services, paths and redirects.

A path that would lose its protection (authentication, client certificates, address lists, snippets), or whose rewrite
cannot be expressed, is closed: its rule has no backend and returns 500. With --allow-loss, such paths are served without it.

Exit codes: 0 nothing is lost; 1 something is lost, the objects are still written; 2 unusable input.")]
pub(crate) struct GatewayApiArgs {
    /// Directory or single file with the Ingresses; - reads standard input
    #[arg(value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// Read the Ingresses of a cluster once, with your own credentials
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// Gateway to write
    #[arg(long, value_name = "NS/NAME", default_value = "fairway/edge")]
    pub(crate) gateway: String,
    /// GatewayClass of that Gateway
    #[arg(long, value_name = "NAME", default_value = "fairway")]
    pub(crate) gateway_class: String,
    /// Serve paths without the protection or rewrite that cannot be converted, instead of closing them
    #[arg(long)]
    pub(crate) allow_loss: bool,
    /// Write the objects to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The cluster and its namespaces
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Translation of objects
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}
