//! HTTP/1 version and `Connection` header of requests to endpoints.

use serde::{Deserialize, Serialize};

/// How requests to HTTP/1 endpoints are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http1Options {
    /// The HTTP version of requests.
    pub version: Http1Version,
    /// Their `Connection` header.
    pub connection: ConnectionHeader,
}

/// A version of HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Http1Version {
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/1.0, except for WebSocket handshakes and bodies of unknown length, which it cannot express.
    Http10,
}

/// The `Connection` header of requests other than handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionHeader {
    /// No header.
    #[default]
    Unsaid,
    /// `close`: each request uses its own connection.
    Close,
    /// `keep-alive`.
    KeepAlive,
}
