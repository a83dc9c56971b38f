//! Whose connection is forwarded.

use std::net::IpAddr;

use crate::listener::ListenerId;

/// Who is at the client's end.
#[derive(Debug)]
pub(crate) struct StreamPeer {
    pub(crate) listener: ListenerId,
    /// As the transport says, or the PROXY protocol.
    pub(crate) client: IpAddr,
    /// The name that it asked for, lower case.
    pub(crate) name: Option<Box<str>>,
}
