//! Peers: the proxies that scenarios compare. A [`Peer`] knows how its programs are had, which objects install it in a
//! cluster, and how a [`Route`] is said in its words. It never applies objects and never sends a request.

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

use adapted::Adapted;

pub use artifacts::Artifacts;
pub use described::Described;
pub use existing::{CpuSource, Existing};
pub use names::{CERTIFICATE, PROXY, PROXY_LABEL, RESPONSE_HEADER, label};
pub use peer::{Peer, Placement, Prepared};
pub use route::{Filters, Route};
pub use route_api::{GatewayApi, RouteApi};

/// The peers of a run that names none, Fairway first.
#[must_use]
pub fn all() -> Vec<Box<dyn Peer>> {
    let mut all: Vec<Box<dyn Peer>> = vec![Box::new(fairway::Fairway)];
    for shape in adapted::DEFAULT {
        all.push(Box::new(Adapted::current(shape)));
    }
    all.push(Box::new(contour::Contour));
    all.push(Box::new(traefik::Traefik));
    all
}

/// A peer by its name; nginx, HAProxy and Caddy also in another release, e.g. `nginx@1.22` or `nginx@system`.
///
/// # Errors
/// There is none; the text says which there are.
pub fn named(name: &str) -> anyhow::Result<Box<dyn Peer>> {
    if name.contains('@') {
        return Ok(Box::new(Adapted::named(name)?));
    }
    let known = all();
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
