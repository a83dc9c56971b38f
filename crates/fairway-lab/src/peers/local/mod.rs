//! Peers without a cluster, for `capacity`: the same programs with the same renderings of the same settings, as processes
//! of this machine in front of backends that are given.

mod adapted;
mod fairway;
mod peer;
mod running;
mod traefik;

pub use peer::{LocalPeer, LocalSite};

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
