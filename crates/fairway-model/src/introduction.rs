//! Whether connections begin with a PROXY protocol header.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Whether client connections begin with a PROXY protocol header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxyProtocolMode {
    /// No header.
    None,
    /// A PROXY protocol header, version 1 or 2.
    #[serde(rename = "ProxyProtocol")]
    Required {
        /// Peers that may send it; others are refused. Empty accepts every peer.
        trusted: Vec<IpNet>,
    },
}
