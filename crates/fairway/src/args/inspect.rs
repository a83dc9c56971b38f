//! The flags of `check`, `explain` and `echo`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::addresses::AddressArgs;
use super::against::AgainstArgs;
use super::source::ClusterArgs;
use super::translation::TranslationArgs;

/// Says everything that is wrong with a directory of manifests or with a cluster's objects.
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

The report has each Ingress with its annotations (same as with ingress-nginx, different, or refused), the peculiarities of
ingress-nginx that it depends on, and annotations for what its snippets do.

Exit codes: 0 nothing but notes, 1 problems (with --fail-on-change also if a request would be treated otherwise), 2 the directory,
the cluster or the processes of --against cannot be read, or there is no manifest.")]
pub(crate) struct CheckArgs {
    /// The directory, or a single file; - is the standard input
    #[arg(value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// The objects of a cluster, read once with your own credentials
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// Which cluster, and what of it
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Where traffic would arrive: a Gateway gets no port that one of these addresses has
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
    /// What moving from ingress-nginx means for each Ingress, instead of everything that is wrong
    #[arg(long, env = "FAIRWAY_REPORT")]
    pub(crate) report: bool,
    /// Text for people, or one JSON object per line (of a report one in all); Markdown and HTML are reports
    #[arg(long, env = "FAIRWAY_OUTPUT", value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Output,
    /// What the change would have meant for requests that were served
    #[command(flatten)]
    pub(crate) against: AgainstArgs,
    /// What objects mean
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

/// Says which rule serves a request, which others lost and why, and what decided.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway explain https://shop.example.com/cart --manifests examples/quickstart
  fairway explain http://shop.example.com/cart -X POST -H 'X-Canary: always' --admin 127.0.0.1:10254
  fairway explain https://shop.example.com/cart --kubernetes --context production
  fairway explain --request-id 5b1f8e6c2d0a4f7790b3a1c4d5e6f708 --admin 127.0.0.1:10254")]
pub(crate) struct ExplainArgs {
    /// The URL, as a client would ask for it
    #[arg(value_name = "URL", required_unless_present = "request_id")]
    pub(crate) url: Option<String>,
    /// Explain a request that was served, by its X-Request-ID: what the process with this admin address remembers of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["url", "manifests", "kubernetes"], requires = "admin")]
    pub(crate) request_id: Option<String>,
    /// The method
    #[arg(short = 'X', long = "request", value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// By the manifests in this directory
    #[arg(long, env = "FAIRWAY_MANIFESTS", value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// By what the process with this admin address serves now
    #[arg(long, value_name = "ADDR", group = "source")]
    pub(crate) admin: Option<SocketAddr>,
    /// By the objects of a cluster, read once with your own credentials
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// Which cluster, and what of it
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// What objects mean
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// Runs a small backend that answers with what it received.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway echo --listen 127.0.0.1:3001 --name one
  fairway echo --tls-listen 127.0.0.1:3443 --tls-cert tls.crt --tls-key tls.key")]
pub(crate) struct EchoArgs {
    /// Addresses for HTTP/1.1 and HTTP/2 in the clear
    #[arg(long, env = "FAIRWAY_LISTEN", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) listen: Vec<SocketAddr>,
    /// The name it answers with
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
    /// The certificate chain, a PEM file
    #[arg(long, env = "FAIRWAY_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key, a PEM file
    #[arg(long, env = "FAIRWAY_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authorities (a PEM file) that client certificates must come from
    #[arg(long, env = "FAIRWAY_TLS_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// On SIGTERM accept nothing more and finish within this time, instead of ending at once
    #[arg(long, env = "FAIRWAY_DRAIN", value_name = "SECONDS", value_parser = super::seconds::seconds)]
    pub(crate) drain: Option<Duration>,
    /// A file to which every numbered request is appended
    #[arg(long, env = "FAIRWAY_NUMBER_FILE", value_name = "FILE")]
    pub(crate) number_file: Option<PathBuf>,
}
