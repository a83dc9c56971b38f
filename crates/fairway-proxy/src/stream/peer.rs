//! The downstream peer of a forwarded connection.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fairway_net::permits::Permit;
use fairway_net::proxy_header::Addresses;

use crate::listener::ListenerId;

/// The downstream peer of a forwarded connection.
#[derive(Debug)]
pub(crate) struct StreamPeer {
    pub(crate) listener: ListenerId,
    /// According to the transport or the PROXY protocol.
    pub(crate) client: SocketAddr,
    /// Destination in the PROXY protocol header.
    pub(crate) server: Option<SocketAddr>,
    /// The SNI in lower case.
    pub(crate) name: Option<Box<str>>,
    /// Version of the last snapshot known to forward it.
    pub(crate) last_forwarding_version: Cell<u64>,
    /// Counts the connection against the listener's limit, if there is one.
    pub(crate) _slot: Option<Permit>,
}

impl StreamPeer {
    /// Addresses for the PROXY protocol header: the client is connected to `local`, and sees `port`.
    pub(super) fn addresses(&self, local: Option<SocketAddr>, port: u16) -> Addresses {
        let destination =
            || SocketAddr::new(local.map_or(unspecified_address(self.client.ip()), |local| local.ip()), port);
        Addresses { source: self.client, destination: self.server.unwrap_or_else(destination) }
    }
}

/// The unspecified address of the family of `address`.
pub(super) fn unspecified_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
