//! Peers without a cluster, for `capacity`: the same programs with the same renderings of the same settings, as processes
//! of this machine in front of backends that are given.

mod adapted;
mod fairway;
mod peer;
mod running;
mod traefik;

use fairway_lab_measure::Release;

pub use peer::{LocalPeer, LocalSite};

/// A peer without a cluster.
///
/// # Errors
/// It has no form without a cluster; the text says why.
pub fn local(name: &str) -> anyhow::Result<Box<dyn LocalPeer>> {
    let (proxy, release) = Release::of(name)?;
    let adapted =
        |kind| -> Box<dyn LocalPeer> { Box::new(adapted::Adapted { kind, release: release.clone() }) };
    Ok(match proxy {
        "fairway" => Box::new(fairway::Fairway),
        "nginx" => adapted(adapted::Kind::Nginx),
        "haproxy" => adapted(adapted::Kind::Haproxy),
        "envoy" => adapted(adapted::Kind::Envoy),
        "caddy" => adapted(adapted::Kind::Caddy),
        "traefik" => Box::new(traefik::Traefik),
        "contour" => {
            anyhow::bail!(
                "Contour has no form without a cluster; its data plane is Envoy, which is measured here"
            )
        }
        _ => anyhow::bail!("{name} is described by the user and has no form without a cluster"),
    })
}
