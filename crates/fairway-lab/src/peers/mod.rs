//! Peers: the proxies that scenarios compare. A [`Peer`] knows how its programs are had, which objects install it in a
//! cluster, and how a [`Route`] is said in its words. It never applies objects and never sends a request.

mod adapted;
mod contour;
mod described;
mod fairway;
pub mod local;
mod objects;
mod programs;
mod route;
mod traefik;
mod yaml;

pub use described::{CpuSource, Described, Existing};
pub use route::{Filters, Route};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::{PeerRecord, Settings};

/// The label that the pods of a peer's data plane carry, with the peer's name: their CPU is what a request costs.
pub const PROXY_LABEL: &str = "lab.fairway.dev/proxy";
/// The name of the Deployment of the data plane, and of its LoadBalancer Service (ports 80 and 443), in the placement's
/// namespace.
pub const PROXY: &str = "proxy";
/// The name of the Secret (kubernetes.io/tls) with the certificate for every host of a run, in the namespace of the
/// backends, which [`Route::namespace`] names.
pub const CERTIFICATE: &str = "lab-certificate";

/// The one header that [`Filters::response_header`] may add: Fairway, as ingress-nginx, wants its name allowed when it is
/// installed.
pub const RESPONSE_HEADER: &str = "X-Lab-Filter";

/// Where peers are prepared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workshop {
    /// Kept between runs: binaries, wheels, built tools.
    pub cache: PathBuf,
    /// This run's own folder for image archives and configurations.
    pub folder: PathBuf,
    /// The checkout: `testbed/testbed`, `charts/`, the Go modules of peers.
    pub checkout: PathBuf,
    /// The release binary of Fairway.
    pub fairway: PathBuf,
    /// The image archive of Fairway (`make image`) and its name.
    pub fairway_image: (PathBuf, String),
    /// Whether peers are to run in pods; otherwise nothing needs an image.
    pub in_pods: bool,
    /// This program, which goes into images as the adapter.
    pub laboratory: PathBuf,
}

impl Workshop {
    /// The command of the testbed, which also packs images.
    #[must_use]
    pub fn testbed(&self) -> PathBuf {
        self.checkout.join("testbed/testbed")
    }

    /// A folder below the cache.
    #[must_use]
    pub fn kept(&self, name: &str) -> PathBuf {
        Path::new(&self.cache).join(name)
    }
}

/// A peer whose programs are there.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// How it appears in results. Configurations that only arise when it runs are added later.
    pub record: PeerRecord,
    /// Image archives to load into the testbed.
    pub archives: Vec<PathBuf>,
}

/// How a peer is installed.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Its own namespace.
    pub namespace: String,
    /// Replicas of the data plane.
    pub replicas: u32,
    /// Worker threads of each replica.
    pub workers: u32,
    /// Recommended settings or its defaults.
    pub settings: Settings,
    /// The namespace of backends and routes; the peer need not look at others.
    pub watched: String,
}

/// A proxy with its controller, for a cluster.
pub trait Peer: Send + Sync {
    /// The name on the command line and in results.
    fn name(&self) -> &str;

    /// What it is, for `fairway-lab list`.
    fn summary(&self) -> &str;

    /// Where it is, if nobody has to install it.
    fn existing(&self) -> Option<&Existing> {
        None
    }

    /// Fetches or builds its programs, and packs images. May take minutes the first time and says what it is doing.
    ///
    /// # Errors
    /// It cannot be had; the text is the reason that the report gives.
    fn prepare(&self, workshop: &Workshop) -> anyhow::Result<Prepared>;

    /// The objects that install it, in an order in which they can be applied, CustomResourceDefinitions and Namespace
    /// first; readiness probes included.
    ///
    /// # Errors
    /// A manifest that it takes from its own package cannot be read.
    fn objects(&self, workshop: &Workshop, placement: &Placement) -> anyhow::Result<Vec<Value>>;

    /// The objects that say a route. Those of a route before that are no longer among them are removed by the caller.
    fn route(&self, placement: &Placement, route: &Route) -> Vec<Value>;
}

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
