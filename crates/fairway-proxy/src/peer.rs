//! Who is at the other end of a client's connection.

use std::net::IpAddr;

use crate::listener::ListenerName;

/// What is known of a connection before its first byte of HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) listener: ListenerName,
    /// Who the client is, as far as the transport says: who sent the bytes, or whom the PROXY protocol named. An IPv4
    /// client on a dual-stack socket is an IPv4 client.
    pub(crate) client: IpAddr,
}
