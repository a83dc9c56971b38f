//! What the dashboard asks others while somebody looks at a page: the data plane, and whoever knows the other replicas. Answers nothing
//! itself.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{BackendKey, PortProtocol};

use crate::admin::served::Served;

/// An answer that may take a moment.
pub type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Looks at the running process, and at its fleet.
pub trait Inspector: Send + Sync {
    /// What the workers know of endpoints of these backends: of each, of the first `most`. What no worker knows is missing.
    fn endpoints(&self, backends: Vec<BackendKey>, most: usize) -> Answering<Vec<LiveEndpoint>>;

    /// The connections that are open now; `None` while the data plane has not started.
    fn connections(&self) -> Answering<Option<Connections>>;

    /// The other replicas, and what each of them serves. It takes no longer than a page may.
    fn replicas(&self) -> Answering<Replicas>;
}

/// An endpoint as the workers know it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEndpoint {
    /// Of which backend.
    pub backend: BackendKey,
    /// Where it is.
    pub address: SocketAddr,
    /// What carries its traffic.
    pub carrier: PortProtocol,
    /// Workers that know it.
    pub workers: u32,
    /// Those that have ejected it.
    pub ejected_by: u32,
    /// Of these, those that try it with a request now.
    pub probed_by: u32,
    /// Those that suspect it, because a connect to it was slow.
    pub suspected_by: u32,
    /// How long it stays ejected at most.
    pub ejected_for: Duration,
    /// Whether its health checks fail.
    pub fails_checks: bool,
    /// Failures in a row, in hundredths, as the worker counts that has seen the most.
    pub failures: u32,
    /// Requests, connections that are forwarded or sessions under way with it.
    pub under_way: u32,
    /// Connections that wait for a request.
    pub idle: usize,
    /// Connections in use, and those that are being opened.
    pub busy: usize,
    /// From a request to its response head, as a moving average.
    pub latency: Option<Duration>,
    /// How long a connect takes, as a moving average.
    pub connect_time: Option<Duration>,
}

/// Connections that are open now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Those of clients, by listener and by what they speak.
    pub clients: Vec<ClientConnections>,
    /// Those of clients that shake hands.
    pub greeted: u64,
    /// Those of clients whose listener is gone.
    pub orphaned: u64,
    /// To endpoints: those that wait for a request.
    pub idle: usize,
    /// To endpoints: those in use, and those that are being opened.
    pub busy: usize,
    /// Requests, connections that are forwarded and sessions under way with endpoints.
    pub under_way: u32,
    /// Where listeners are not served.
    pub unbound: Vec<UnboundAddress>,
}

/// Connections of the clients of one listener that speak the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConnections {
    /// The name of the listener.
    pub listener: Arc<str>,
    /// As the page says it.
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
    /// What the system says.
    pub reason: String,
}

/// The other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// There are none: each process reads its files for itself.
    Alone,
    /// Whether there are any is not known, for this reason.
    Unknown(String),
    /// These.
    Others(Others),
}

/// What is known of the other replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// How this replica is called.
    pub own: String,
    /// The others.
    pub replicas: Vec<Replica>,
    /// More that were not asked: there are too many.
    pub unasked: usize,
}

/// Another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The name of its pod.
    pub name: String,
    /// What it serves, or why that is not known.
    pub served: Result<Served, String>,
}
