//! Peers: the proxies that scenarios compare. A [`Peer`] knows how to get its programs, which objects install it in a
//! cluster, and which objects express a [`Route`]. It applies no objects and sends no requests.

mod adapted;
mod artifacts;
mod contour;
mod described;
mod existing;
mod fairway;
pub mod gateway;
mod names;
mod objects;
mod peer;
mod programs;
mod route;
mod route_api;
mod traefik;
mod yaml;

use anyhow::Context;

use adapted::AdaptedPeer;

pub use artifacts::Artifacts;
pub use described::DescribedPeer;
pub use existing::{CpuSource, Existing};
pub use names::{CERTIFICATE, PROXY, PROXY_LABEL, RESPONSE_HEADER, label};
pub use peer::{Peer, Placement, PreparedPeer};
pub use route::{Filters, Route};
pub use route_api::{GatewayApi, RouteApi};

/// The default peers of a run, Fairway first.
#[must_use]
pub fn all_peers() -> Vec<Box<dyn Peer>> {
    let mut all: Vec<Box<dyn Peer>> = vec![Box::new(fairway::Fairway)];
    for shape in adapted::DEFAULT {
        all.push(Box::new(AdaptedPeer::current(shape)));
    }
    all.push(Box::new(contour::Contour));
    all.push(Box::new(traefik::Traefik));
    all
}

/// A peer by its name; nginx, HAProxy and Caddy also in another release, e.g. `nginx@1.22` or `nginx@system`.
///
/// # Errors
/// There is no such peer; the text lists the known ones.
pub fn find_peer(name: &str) -> anyhow::Result<Box<dyn Peer>> {
    if name.contains('@') {
        return Ok(Box::new(AdaptedPeer::named(name)?));
    }
    let known = all_peers();
    let names: Vec<_> = known.iter().map(|peer| peer.name().to_owned()).collect();
    known.into_iter().find(|peer| peer.name() == name).with_context(|| {
        format!(
            "there is no peer {name:?}; there are {}, and other releases of {} as NAME@VERSION or NAME@system",
            names.join(", "),
            adapted::RELEASED.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
