//! What pages need from outside the control side: the state of the data plane and of the other replicas. Queried only while a
//! page is viewed.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{BackendKey, PortProtocol};

use crate::admin::served::ServedConfig;

/// A response that may take a moment.
pub type InspectorFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Inspects the running process and its fleet.
pub trait Inspector: Send + Sync {
    /// What the workers know about the endpoints of these backends, at most `max_per_backend` each. Endpoints unknown to all
    /// workers are omitted.
    fn endpoints(&self, backends: Vec<BackendKey>, limit: usize) -> InspectorFuture<Vec<LiveEndpoint>>;

    /// The open connections; `None` before the data plane has started.
    fn connections(&self) -> InspectorFuture<Option<Connections>>;

    /// The other replicas and what each serves. Returns in time for a page.
    fn replicas(&self) -> InspectorFuture<FleetReplicas>;
}

/// An endpoint, as seen by all workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEndpoint {
    /// Its backend.
    pub backend: BackendKey,
    /// Its address.
    pub address: SocketAddr,
    /// The transport of its traffic.
    pub carrier: PortProtocol,
    /// The number of workers that know it.
    pub workers: u32,
    /// The number of workers that ejected it.
    pub ejected_by: u32,
    /// Of these, workers that are probing it with a request.
    pub probed_by: u32,
    /// Workers that suspect it because a connect was slow.
    pub suspected_by: u32,
    /// The longest remaining ejection.
    pub ejected_for: Duration,
    /// Whether its health checks fail.
    pub fails_checks: bool,
    /// Consecutive failures, in hundredths, as counted by the worker that saw the most.
    pub failures: u32,
    /// Requests, forwarded connections or sessions in progress with it.
    pub under_way: u32,
    /// Idle connections.
    pub idle: usize,
    /// Connections that are in use or being opened.
    pub busy: usize,
    /// Time from a request to its response head, as a moving average.
    pub latency: Option<Duration>,
    /// The connect time, as a moving average.
    pub connect_time: Option<Duration>,
}

/// The open connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Client connections by listener and protocol.
    pub clients: Vec<ClientConnections>,
    /// Client connections in a handshake.
    pub greeted: u64,
    /// Client connections whose listener is gone.
    pub orphaned: u64,
    /// Idle connections to endpoints.
    pub idle: usize,
    /// Connections to endpoints that are in use or being opened.
    pub busy: usize,
    /// Requests, forwarded connections and sessions in progress with endpoints.
    pub under_way: u32,
    /// Addresses at which listeners are not served.
    pub unbound: Vec<UnboundAddress>,
}

/// Client connections of one listener with the same protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConnections {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The protocol, as shown on the page.
    pub speaks: &'static str,
    /// How many there are.
    pub count: u64,
}

/// An address at which a listener is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnboundAddress {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// The address.
    pub address: SocketAddr,
    /// The error of the system.
    pub reason: String,
}

/// The other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetReplicas {
    /// There are none: each process reads its own files.
    Alone,
    /// They are unknown, for this reason.
    Unknown(String),
    /// The known replicas.
    Others(KnownReplicas),
}

/// What is known of the other replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownReplicas {
    /// The name of this replica.
    pub own_name: String,
    /// The others.
    pub replicas: Vec<Replica>,
    /// How many more were not queried because there are too many.
    pub unasked: usize,
}

/// Another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The name of its pod.
    pub name: String,
    /// What it serves, or why that is unknown.
    pub served: Result<ServedConfig, String>,
}
