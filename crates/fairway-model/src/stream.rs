//! Routes for connections and datagrams that are forwarded unchanged: TCP, UDP, and TLS, whether it terminates here
//! or not.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::default::is_default;
use crate::host::HostPattern;
use crate::origin::Origin;
use crate::route::WeightedBackend;

/// Identifies a stream route: a host pattern in a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamKey {
    /// The table, as listeners name it.
    pub table: Arc<str>,
    /// SNI names that it serves; [`HostPattern::Any`] for protocols without names. In a table of virtual hosts, those
    /// of the virtual host with this pattern.
    pub host: HostPattern,
}

/// Where connections are forwarded. One route serves a connection: the exact name, else the longest wildcard, else
/// [`HostPattern::Any`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRoute {
    /// Its table and host pattern.
    pub key: StreamKey,
    /// The object.
    pub origin: Origin,
    /// One backend is chosen per connection, by weight. The connection is closed if all weights are zero or there is
    /// no backend.
    pub backends: Vec<WeightedBackend>,
    /// How connections are forwarded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: StreamPolicy,
}

/// How connections or datagrams are forwarded. `None` uses [`crate::StreamSettings`] and [`crate::Timeouts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamPolicy {
    /// PROXY protocol header sent to the endpoint first; for datagrams, before the first one of each session (version
    /// 2 only).
    #[serde(rename = "introduce", skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeaderVersion>,
    /// One connection attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Duration>,
    /// Idle timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// Datagrams expected from the endpoint for each client datagram. A session ends once all have arrived, so that a
    /// client that uses a new port for every request does not keep one session each. `None` is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<NonZeroU32>,
}

/// Versions of the PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxyHeaderVersion {
    /// The text line.
    V1,
    /// The binary header.
    V2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_route_round_trips() {
        let route = StreamRoute {
            key: StreamKey { table: "inner/db".into(), host: HostPattern::Exact("db.example.com".into()) },
            origin: Origin::object("TLSRoute", "shop", "db"),
            backends: vec![
                WeightedBackend::new("shop/db:5432".into(), 9),
                WeightedBackend::new("shop/db-next:5432".into(), 1),
            ],
            policy: StreamPolicy { proxy_header: Some(ProxyHeaderVersion::V2), ..StreamPolicy::default() },
        };
        let json = serde_json::to_string(&route).unwrap();
        assert_eq!(serde_json::from_str::<StreamRoute>(&json).unwrap(), route);
    }
}
