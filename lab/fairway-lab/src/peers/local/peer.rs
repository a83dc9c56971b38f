//! What a peer without a cluster is given and what is asked of it.

use std::net::SocketAddr;
use std::path::PathBuf;

use fairway_lab_measure::Program;
use fairway_lab_measure::results::{NamedText, Settings};
use fairway_lab_traffic::backend::Spoken;

use crate::adapter::TlsChoice;
use crate::peers::artifacts::Artifacts;

/// The name of the only backend.
pub(super) const BACKEND: &str = "backend-80";

/// What a local proxy serves, and how.
#[derive(Clone, Debug)]
pub struct LocalSite {
    /// Where requests of every host go.
    pub backends: Vec<SocketAddr>,
    /// What is spoken there.
    pub upstream: Spoken,
    /// Plain HTTP.
    pub http: SocketAddr,
    /// HTTPS.
    pub https: SocketAddr,
    /// Metrics and probes, of a peer that cannot do without them.
    pub admin: SocketAddr,
    /// Hosts; the first is asked for to see that the proxy serves.
    pub hosts: Vec<String>,
    /// The certificate chain for all of them, PEM.
    pub chain_pem: String,
    /// Its key, PEM.
    pub key_pem: String,
    /// Worker threads or processes.
    pub workers: u32,
    /// Recommended settings or defaults. The number of workers holds for both.
    pub settings: Settings,
    /// The only TLS that is spoken, where the proxy lets one choose.
    pub tls: TlsChoice,
    /// An empty folder for configurations, sockets and the log.
    pub folder: PathBuf,
}

/// A proxy that can run without a cluster.
pub trait LocalPeer: Send + Sync {
    /// Configures and starts it, and waits until it serves. Dropped, it is ended.
    ///
    /// # Errors
    /// It cannot be had, does not start, or does not serve within half a minute; the end of its log is in the text.
    fn start(&self, artifacts: &Artifacts, site: &LocalSite) -> anyhow::Result<Program>;

    /// The configuration that it is started with, for the report.
    ///
    /// # Errors
    /// It cannot be written as text.
    fn configuration(&self, site: &LocalSite) -> anyhow::Result<Vec<NamedText>>;
}
