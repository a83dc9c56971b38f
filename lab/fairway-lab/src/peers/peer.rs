//! What scenarios ask of a peer.

use std::path::PathBuf;

use fairway_lab_measure::results::{PeerRecord, Settings};
use serde_json::Value;

use super::artifacts::Artifacts;
use super::existing::Existing;
use super::route::Route;
use super::route_api::{GatewayApi, RouteApi};

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
    /// The namespace of backends and routes; told of them by Ingresses, the peer need not look at others.
    pub watched: String,
    /// By which API it is told of routes.
    pub api: RouteApi,
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

    /// How it takes the Gateway API, or the reason why it does not.
    ///
    /// # Errors
    /// That reason, as the report gives it.
    fn gateway_api(&self) -> Result<GatewayApi, &'static str> {
        Err("the laboratory's adapter reads Ingresses only")
    }

    /// Fetches or builds its programs, and packs images. May take minutes the first time and says what it is doing.
    ///
    /// # Errors
    /// It cannot be had; the text is the reason that the report gives.
    fn prepare(&self, artifacts: &Artifacts) -> anyhow::Result<Prepared>;

    /// The objects that install it, in an order in which they can be applied, CustomResourceDefinitions and Namespace
    /// first; readiness probes included.
    ///
    /// # Errors
    /// A manifest that it takes from its own package cannot be read.
    fn objects(&self, artifacts: &Artifacts, placement: &Placement) -> anyhow::Result<Vec<Value>>;

    /// The objects that say a route. Those of a route before that are no longer among them are removed by the caller.
    fn route(&self, placement: &Placement, route: &Route) -> Vec<Value>;
}
