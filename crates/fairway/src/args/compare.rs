//! The flags of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum, value_parser};
use fairway_compare::{Address, Schemes};

use super::seconds::seconds;
use super::source::ClusterArgs;
use super::translation::TranslationArgs;

/// Sends the same requests to two controllers and explains where they answer differently.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Examples:
  fairway compare --kubernetes --ingress-class-compat --from 10.0.0.7 --to 10.0.0.8
  fairway compare --kubernetes --ingress-class-compat --from 10.0.0.7 --to 10.0.0.8 --yes --output html >compared.html
  fairway compare manifests --from 127.0.0.1:8080:8443 --to 127.0.0.1:9080:9443 --access-log access.log --yes

Probes are generated from the objects: each host, path, path type and redirect, CORS, each header and cookie that a rule mentions.
They are GET, HEAD and OPTIONS without a body and TLS handshakes, and have the header fairway-compare: 1. Redirects are not
followed. A certificate that is not trusted is compared like any other; the report says where it is shown.
Parts of answers that change between two requests to the same side are left out.

Exit codes: 0 no difference, 1 differences, 2 not compared, or not all of it.")]
pub(crate) struct CompareArgs {
    /// The controller that serves now; the ports are 80 and 443 unless they are given
    #[arg(long, value_name = "HOST[:HTTP[:HTTPS]]")]
    pub(crate) from: Address,
    /// The controller that it is compared with
    #[arg(long, value_name = "HOST[:HTTP[:HTTPS]]")]
    pub(crate) to: Address,
    /// The objects: a directory, or a single file; - is the standard input
    #[arg(value_name = "DIR", group = "source")]
    pub(crate) manifests: Option<PathBuf>,
    /// The objects of a cluster, read with your own credentials before and after
    #[arg(long, group = "source")]
    pub(crate) kubernetes: bool,
    /// What is sent, and how
    #[command(flatten)]
    pub(crate) sending: SendingArgs,
    /// Text for people, one JSON object, or one HTML page
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Format,
    /// Which cluster, and what of it
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// What objects mean
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// What is sent, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct SendingArgs {
    /// Send the probes; without this, only say what would be sent
    #[arg(long)]
    pub(crate) yes: bool,
    /// Also send the requests of an access log of ingress-nginx, in its default format or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// Probes per second to each side
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Connections to each side
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u16).range(1..=1000))]
    pub(crate) connections: u16,
    /// How long to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// How long to wait before the same probes are sent again
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) pause: Duration,
    /// The largest number of different probes
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) limit: usize,
    /// Send probes only to one of the two ports
    #[arg(long, value_name = "SCHEME")]
    pub(crate) only: Option<Only>,
    /// Authorities by which certificates are judged, a PEM file [default: those of the system]
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
    /// Which ports are asked.
    pub(crate) fn schemes(&self) -> Schemes {
        match self.only {
            None => Schemes::Both,
            Some(Only::Http) => Schemes::Http,
            Some(Only::Https) => Schemes::Https,
        }
    }
}
