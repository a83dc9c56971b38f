//! Connections and datagrams that are forwarded as they come: TCP, UDP, and TLS whether it ends here or not.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::host::HostPattern;
use crate::origin::Origin;
use crate::route::WeightedBackend;

/// Names a stream route: a host pattern in a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamKey {
    /// The table, as listeners name it.
    pub table: Arc<str>,
    /// The names (SNI) that it serves; [`HostPattern::Any`] where the protocol has no names.
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
        };
        let json = serde_json::to_string(&route).unwrap();
        assert_eq!(serde_json::from_str::<StreamRoute>(&json).unwrap(), route);
    }
}
