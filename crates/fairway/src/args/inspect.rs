//! The flags of `check`, `explain` and `echo`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::addresses::AddressArgs;
use super::against::AgainstArgs;
use super::source::ClusterArgs;
use super::translation::TranslationArgs;

/// Reports every problem in a directory of manifests or in the objects of a cluster.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway check examples/quickstart
  fairway check --output json manifests | jq .origin
  fairway check --kubernetes --watch-namespace shop
  fairway check --kubernetes --ingress-class-compat --output html >report.html
  kubectl get ingress,ingressclass,service -A -o yaml | fairway check --ingress-class-compat --report -
  fairway check manifests --against kubernetes --context production

With --report, the output lists for each Ingress whether its annotations work as in ingress-nginx, work differently or are
refused, which ingress-nginx quirks it depends on, and which annotations replace its snippets.

Exit codes: 0 no problems, or notes only; 1 problems found, or with --fail-on-change a request would be handled differently;
2 there is no manifest, or the directory, the cluster or an --against process cannot be read.")]
pub(crate) struct CheckArgs {
    /// Directory or single file with the manifests; - reads standard input
    #[arg(value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// Read the objects of a cluster once, with your own credentials
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// The cluster and its namespaces
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The addresses the process would bind: a Gateway cannot have a port of these addresses
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
    /// Report what moving from ingress-nginx changes for each Ingress, instead of all problems
    #[arg(long, env = "FAIRWAY_REPORT")]
    pub(crate) report: bool,
    /// Output format. json prints one object per line, or a single object with --report; markdown and html always print a report
    #[arg(long, env = "FAIRWAY_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// Effect on recorded requests
    #[command(flatten)]
    pub(crate) against: AgainstArgs,
    /// Translation of objects
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// Values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
    Markdown,
    Html,
}

/// Explains which rule serves a request and why the other rules do not.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway explain https://shop.example.com/cart --manifests examples/quickstart
  fairway explain http://shop.example.com/cart -X POST -H 'X-Canary: always' --admin 127.0.0.1:10254
  fairway explain https://shop.example.com/cart --kubernetes --context production
  fairway explain --request-id 5b1f8e6c2d0a4f7790b3a1c4d5e6f708 --admin 127.0.0.1:10254")]
pub(crate) struct ExplainArgs {
    /// URL as a client would request it
    #[arg(value_name = "URL", required_unless_present = "request_id")]
    pub(crate) url: Option<String>,
    /// Explain a recorded request by its X-Request-ID, from the flight recorder of the process at --admin
    #[arg(long, value_name = "ID", conflicts_with_all = ["url", "manifests", "kubernetes"], requires = "admin")]
    pub(crate) request_id: Option<String>,
    /// Request method
    #[arg(short = 'X', long = "request", value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Request header; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Use the manifests in this directory
    #[arg(long, env = "FAIRWAY_MANIFESTS", value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// Use the running configuration of the process with this admin address
    #[arg(long, value_name = "ADDR", group = "source")]
    pub(crate) admin: Option<SocketAddr>,
    /// Use the objects of a cluster, read once with your own credentials
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// The cluster and its namespaces
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Translation of objects
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// Runs a small backend that echoes the requests it receives.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway echo --listen 127.0.0.1:3001 --name one
  fairway echo --tls-listen 127.0.0.1:3443 --tls-cert tls.crt --tls-key tls.key")]
pub(crate) struct EchoArgs {
    /// Addresses for cleartext HTTP/1.1 and HTTP/2
    #[arg(long, env = "FAIRWAY_LISTEN", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) listen: Vec<SocketAddr>,
    /// Name to report in responses
    #[arg(long, env = "FAIRWAY_NAME", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Addresses for TLS
    #[arg(
        long,
        env = "FAIRWAY_TLS_LISTEN",
        value_name = "ADDR",
        value_delimiter = ',',
        requires = "tls_cert"
    )]
    pub(crate) tls_listen: Vec<SocketAddr>,
    /// PEM file with the certificate chain
    #[arg(long, env = "FAIRWAY_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the private key
    #[arg(long, env = "FAIRWAY_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// PEM file with the CA certificates that client certificates are verified with
    #[arg(long, env = "FAIRWAY_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// On SIGTERM, stop accepting and finish within this time instead of exiting at once
    #[arg(long, env = "FAIRWAY_DRAIN", value_name = "SECONDS", value_parser = super::durations::seconds)]
    pub(crate) drain: Option<Duration>,
    /// File to which every numbered request is appended
    #[arg(long, env = "FAIRWAY_NUMBER_FILE", value_name = "FILE")]
    pub(crate) number_file: Option<PathBuf>,
}
