//! How connections begin, before anything of what a listener speaks.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// How a connection of a client begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Introduction {
    /// With what the listener speaks.
    None,
    /// With a header of the PROXY protocol, version 1 or 2.
    ProxyProtocol {
        /// Who may send it; others are refused. Everybody where there is none.
        trusted: Vec<IpNet>,
    },
}
