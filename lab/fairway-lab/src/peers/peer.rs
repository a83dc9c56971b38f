//! The interface of peers for scenarios.

use std::path::PathBuf;

use fairway_lab_measure::results::{PeerRecord, Settings};
use serde_json::Value;

use super::artifacts::Artifacts;
use super::existing::Existing;
use super::route::Route;
use super::route_api::{GatewayApi, RouteApi};

/// A peer whose programs are available.
#[derive(Clone, Debug)]
pub struct PreparedPeer {
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
    /// The namespace of backends and routes; a peer configured through Ingresses need not watch others.
    pub watched: String,
    /// The API for its routes.
    pub api: RouteApi,
}

/// A proxy with its controller, for a cluster.
pub trait Peer: Send + Sync {
    /// The name on the command line and in results.
    fn name(&self) -> &str;

    /// Its description for `fairway-lab list`.
    fn summary(&self) -> &str;

    /// Its location, if it is already installed.
    fn existing(&self) -> Option<&Existing> {
        None
    }

    /// How it supports the Gateway API, or the reason why it does not.
    ///
    /// # Errors
    /// The reason, for the report.
    fn gateway_api(&self) -> Result<GatewayApi, &'static str> {
        Err("the laboratory's adapter reads Ingresses only")
    }

    /// Fetches or builds its programs and packs images. The first time may take minutes; progress is printed.
    ///
    /// # Errors
    /// It cannot be had; the text is the reason that the report gives.
    fn prepare(&self, artifacts: &Artifacts) -> anyhow::Result<PreparedPeer>;

    /// The objects that install it, in an order in which they can be applied, CustomResourceDefinitions and Namespace
    /// first; readiness probes included.
    ///
    /// # Errors
    /// A manifest of its package cannot be read.
    fn objects(&self, artifacts: &Artifacts, placement: &Placement) -> anyhow::Result<Vec<Value>>;

    /// The objects of a route. The caller removes objects of the previous route that are not among them.
    fn route(&self, placement: &Placement, route: &Route) -> Vec<Value>;
}
