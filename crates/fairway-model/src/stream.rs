//! Connections and datagrams that are forwarded as they come: TCP, UDP, and TLS whether it ends here or not.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::host::HostPattern;
use crate::origin::Origin;
use crate::route::WeightedBackend;

/// Names a stream route: a host pattern in a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamKey {
    /// The table, as listeners name it.
    pub table: Arc<str>,
    /// The names (SNI) that it serves; [`HostPattern::Any`] where the protocol has no names. In a table of virtual hosts, those
    /// of the virtual host with this pattern.
    pub host: HostPattern,
}

/// Where connections go. Exactly one serves a connection: the exact name, else the longest wildcard, else
/// [`HostPattern::Any`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRoute {
    /// Its table and host pattern.
    pub key: StreamKey,
    /// The object.
    pub origin: Origin,
    /// A connection goes to one of these by weight. It is closed where all weights are zero or there is none.
    pub backends: Vec<WeightedBackend>,
    /// How its connections are forwarded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: StreamPolicy,
}

/// How connections, or the datagrams of a client, are forwarded. `None` is as [`crate::StreamSettings`] and
/// [`crate::Timeouts`] have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamPolicy {
    /// The header of the PROXY protocol that an endpoint gets first; of datagrams, each first one of a session has it in
    /// front (version 2 only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introduce: Option<ProxyHeaderVersion>,
    /// One attempt to connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Duration>,
    /// How long it stays open while nothing moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// Of datagrams: those that an endpoint sends for each one of the client. A session in which all have come is over, so
    /// that a client which asks from another port each time does not keep a session for each. `None` is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<NonZeroU32>,
}

/// The versions of the PROXY protocol's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxyHeaderVersion {
    /// The line of text.
    V1,
    /// The binary one.
    V2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_route_is_read_as_it_was_written() {
        let route = StreamRoute {
            key: StreamKey { table: "inner/db".into(), host: HostPattern::Exact("db.example.com".into()) },
            origin: Origin::object("TLSRoute", "shop", "db"),
            backends: vec![
                WeightedBackend::new("shop/db:5432".into(), 9),
                WeightedBackend::new("shop/db-next:5432".into(), 1),
            ],
            policy: StreamPolicy { introduce: Some(ProxyHeaderVersion::V2), ..StreamPolicy::default() },
        };
        let json = serde_json::to_string(&route).unwrap();
        assert_eq!(serde_json::from_str::<StreamRoute>(&json).unwrap(), route);
    }
}
