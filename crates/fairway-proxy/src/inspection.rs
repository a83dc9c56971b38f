//! What somebody looks at while the process runs: the state of endpoints, and which connections are open. Copied when it is asked for;
//! nothing on the path of a request is counted for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fairway_connection::upstream::EndpointState;
use fairway_model::{BackendKey, PortProtocol};

/// Which endpoints are asked about: few of them, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointQuery {
    /// Those of these backends.
    pub backends: Vec<BackendKey>,
    /// Of each, so many at most, the first ones.
    pub most: usize,
}

/// What is known of endpoints, by backend, address and what carries their traffic. Those that no worker knows are missing.
pub type EndpointStates = BTreeMap<(BackendKey, SocketAddr, PortProtocol), EndpointState>;

/// Connections that are open now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenConnections {
    /// Those of clients, by listener and by what they speak.
    pub clients: BTreeMap<(Arc<str>, ClientProtocol), u64>,
    /// Those of clients that shake hands, or have not said which listener they want.
    pub greeted: u64,
    /// Those of clients whose listener is gone: they drain.
    pub orphaned: u64,
    /// Sessions of datagrams, by listener. All workers count them together.
    pub sessions: BTreeMap<Arc<str>, u64>,
    /// Those to endpoints, all together.
    pub endpoints: EndpointState,
}

/// What the connection of a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientProtocol {
    /// HTTP/1, or a WebSocket that began with it.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
    /// Whatever it speaks: it is forwarded as it comes.
    Forwarded,
}

impl OpenConnections {
    /// Adds those of another worker.
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

/// Adds what another worker knows of endpoints.
pub(crate) fn merge_states(into: &mut EndpointStates, other: EndpointStates) {
    for (endpoint, state) in other {
        into.entry(endpoint).or_default().merge(&state);
    }
}
