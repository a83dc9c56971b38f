//! What requests to an endpoint of HTTP/1 say of the connection they are sent on.

use serde::{Deserialize, Serialize};

/// How an endpoint of HTTP/1 is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointHop {
    /// The version that requests have.
    pub version: HopVersion,
    /// What their `Connection` says.
    pub connection: HopConnection,
}

/// A version of HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopVersion {
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/1.0, for all requests that it can say: not for handshakes of WebSocket, and not for bodies of unknown length.
    Http10,
}

/// What `Connection` says, except in handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopConnection {
    /// Nothing: the version says it.
    #[default]
    Unsaid,
    /// `close`: each request has a connection of its own.
    Close,
    /// `keep-alive`.
    KeepAlive,
}
