//! Peers without a cluster, for `capacity`: the same programs with the same renderings of the same settings, as processes
//! of this machine in front of backends that are given.

mod adapted;
mod fairway;
mod running;
mod traefik;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::adapter::TlsChoice;
use crate::measure::Program;
use crate::results::{NamedText, Settings};

use super::Workshop;

/// The name of the only backend.
const BACKEND: &str = "backend-80";
/// The name of the only certificate.
const CERTIFICATE: &str = super::CERTIFICATE;

/// What a local proxy serves, and how.
#[derive(Clone, Debug)]
pub struct LocalSite {
    /// Where requests of every host go.
    pub backends: Vec<SocketAddr>,
    /// Plain HTTP.
    pub http: SocketAddr,
    /// HTTPS.
    pub https: SocketAddr,
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
    fn start(&self, workshop: &Workshop, site: &LocalSite) -> anyhow::Result<Program>;

    /// The configuration that it is started with, for the report.
    ///
    /// # Errors
    /// It cannot be written as text.
    fn configuration(&self, site: &LocalSite) -> anyhow::Result<Vec<NamedText>>;
}

/// A peer without a cluster.
///
/// # Errors
/// It has no form without a cluster; the text says why.
pub fn local(name: &str) -> anyhow::Result<Box<dyn LocalPeer>> {
    Ok(match name {
        "fairway" => Box::new(fairway::Fairway),
        "nginx-reload" => Box::new(adapted::Adapted::Nginx),
        "haproxy" => Box::new(adapted::Adapted::Haproxy),
        "envoy" => Box::new(adapted::Adapted::Envoy),
        "caddy" => Box::new(adapted::Adapted::Caddy),
        "traefik" => Box::new(traefik::Traefik),
        "contour" => {
            anyhow::bail!(
                "Contour has no form without a cluster; its data plane is Envoy, which is measured here"
            )
        }
        _ => anyhow::bail!("{name} is described by the user and has no form without a cluster"),
    })
}
