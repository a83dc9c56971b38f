//! Snapshots of the running process: endpoint states and open connections. They are collected on demand; nothing on the request
//! path counts for them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_connection::upstream::EndpointState;
use fairway_model::{BackendKey, PortProtocol};

/// Selects endpoints; bounds the number of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointQuery {
    /// The backends whose endpoints are selected.
    pub backends: Vec<BackendKey>,
    /// The maximum number of endpoints per backend; the first ones are returned.
    pub max_per_backend: usize,
}

/// Endpoint states by backend, address and transport. Endpoints that no worker knows are missing.
pub type EndpointStates = BTreeMap<(BackendKey, SocketAddr, PortProtocol), EndpointState>;

/// The open connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenConnections {
    /// Client connections by listener and protocol.
    pub clients: BTreeMap<(Arc<str>, ClientProtocol), u64>,
    /// Client connections that are in the handshake, or whose listener is not known yet.
    pub greeted: u64,
    /// Client connections whose listener was removed: they drain.
    pub orphaned: u64,
    /// UDP sessions by listener. All workers count them together.
    pub sessions: BTreeMap<Arc<str>, u64>,
    /// Connections to endpoints, in total.
    pub endpoints: EndpointState,
}

/// The protocol of a client connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientProtocol {
    /// HTTP/1, or a WebSocket that began with it.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
    /// Any protocol: the bytes are forwarded unchanged.
    Forwarded,
}

impl OpenConnections {
    /// Adds the connections of another worker.
    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, count) in other.clients {
            *self.clients.entry(kind).or_default() += count;
        }
        self.greeted += other.greeted;
        self.orphaned += other.orphaned;
        self.sessions = other.sessions;
        self.endpoints.merge(&other.endpoints);
    }
}

/// Adds the endpoint states of another worker.
pub(crate) fn merge_states(into: &mut EndpointStates, other: EndpointStates) {
    for (endpoint, state) in other {
        into.entry(endpoint).or_default().merge(&state);
    }
}
