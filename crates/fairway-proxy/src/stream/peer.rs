//! Whose connection is forwarded.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fairway_net::places::Place;
use fairway_net::proxy_header::Addresses;

use crate::listener::ListenerId;

/// Who is at the client's end.
#[derive(Debug)]
pub(crate) struct StreamPeer {
    pub(crate) listener: ListenerId,
    /// As the transport says, or the PROXY protocol.
    pub(crate) client: SocketAddr,
    /// What it connected to, as far as the PROXY protocol says.
    pub(crate) server: Option<SocketAddr>,
    /// The name that it asked for, lower case.
    pub(crate) name: Option<Box<str>>,
    /// The version of the last snapshot by which it was seen to be forwarded.
    pub(crate) forwarded_by: Cell<u64>,
    /// Its place among the connections of the listener, where they are counted.
    pub(crate) _place: Option<Place>,
}

impl StreamPeer {
    /// What an endpoint is told of it: the client is connected to `local` here, and `port` is the one that it sees.
    pub(super) fn addresses(&self, local: Option<SocketAddr>, port: u16) -> Addresses {
        let there = || SocketAddr::new(local.map_or(unknown(self.client.ip()), |local| local.ip()), port);
        Addresses { source: self.client, destination: self.server.unwrap_or_else(there) }
    }
}

/// An address that says nothing, of the family of this one.
pub(super) fn unknown(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
