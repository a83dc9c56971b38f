//! Peers: the proxies that scenarios compare. A [`Peer`] knows how its programs are had, which objects install it in a
//! cluster, and how a [`Route`] is said in its words. It never applies objects and never sends a request.

mod adapted;
mod artifacts;
mod contour;
mod described;
mod existing;
mod fairway;
pub mod local;
mod names;
mod objects;
mod peer;
mod programs;
mod route;
mod traefik;
mod yaml;

pub use artifacts::Artifacts;
pub use described::Described;
pub use existing::{CpuSource, Existing};
pub use names::{CERTIFICATE, PROXY, PROXY_LABEL, RESPONSE_HEADER};
pub use peer::{Peer, Placement, Prepared};
pub use route::{Filters, Route};

/// All peers, Fairway first.
#[must_use]
pub fn all() -> Vec<Box<dyn Peer>> {
    let mut all: Vec<Box<dyn Peer>> = vec![Box::new(fairway::Fairway)];
    for adapted in adapted::ADAPTED {
        all.push(Box::new(adapted));
    }
    all.push(Box::new(contour::Contour));
    all.push(Box::new(traefik::Traefik));
    all
}

#[cfg(test)]
mod tests;
