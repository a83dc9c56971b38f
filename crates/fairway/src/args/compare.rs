//! The flags of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum, value_parser};
use fairway_compare::{Address, Schemes};

use super::durations::seconds;
use super::source::ClusterArgs;
use super::translation::TranslationArgs;

/// Sends the same requests to two controllers and explains where their responses differ.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway compare --kubernetes --ingress-class-compat --from 10.0.0.7 --to 10.0.0.8
  fairway compare --kubernetes --ingress-class-compat --from 10.0.0.7 --to 10.0.0.8 --yes --output html >compared.html
  fairway compare manifests --from 127.0.0.1:8080:8443 --to 127.0.0.1:9080:9443 --access-log access.log --yes

Probes are generated from the objects: for each host, path, path type and redirect, for CORS, and for each header and cookie that a
rule mentions. They are GET, HEAD and OPTIONS requests without a body and TLS handshakes, and carry the header fairway-compare: 1.
Redirects are not followed. Untrusted certificates are compared like any other, and the report lists the hosts that present them.
Parts of a response that change between two requests to the same controller are ignored.

Exit codes: 0 no differences, 1 differences found, 2 nothing or not everything was compared.")]
pub(crate) struct CompareArgs {
    /// Controller that serves now; the default ports are 80 and 443
    #[arg(long, value_name = "HOST[:HTTP[:HTTPS]]")]
    pub(crate) from: Address,
    /// Controller to compare with
    #[arg(long, value_name = "HOST[:HTTP[:HTTPS]]")]
    pub(crate) to: Address,
    /// Directory or single file with the objects; - reads standard input
    #[arg(value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// Read the objects of a cluster with your own credentials, before and after the comparison
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// The probes and their pace
    #[command(flatten)]
    pub(crate) sending: SendingArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Format,
    /// The cluster and its namespaces
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Translation of objects
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// The probes and their pace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Probes")]
pub(crate) struct SendingArgs {
    /// Send the probes; without this flag, only describe what would be sent
    #[arg(long)]
    pub(crate) yes: bool,
    /// Also send the requests of an ingress-nginx access log, in its default format or as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Probes per second to each side
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Number of connections to each side
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u16).range(1..=1000))]
    pub(crate) connections: u16,
    /// Timeout of each response
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Pause before the same probes are sent again
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) pause: Duration,
    /// Maximum number of different probes
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) limit: usize,
    /// Send probes only to the HTTP or only to the HTTPS port
    #[arg(long, value_name = "SCHEME")]
    pub(crate) only: Option<Only>,
    /// PEM file with the CA certificates for verifying server certificates [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Html,
}

/// Values of `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    Http,
    Https,
}

impl SendingArgs {
    /// The ports to probe.
    pub(crate) fn schemes(&self) -> Schemes {
        match self.only {
            None => Schemes::Both,
            Some(Only::Http) => Schemes::Http,
            Some(Only::Https) => Schemes::Https,
        }
    }
}
