//! The numbers by which workers know what they listen on, and what can be wrong with a listener.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// A listener of the configuration: the same from snapshot to snapshot while there is one of its name and protocol. Its
/// slot may be given to another one later, with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListenerId {
    pub(crate) slot: u16,
    pub(crate) generation: u16,
}

/// An address that is listened on; never given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortId(pub(crate) u32);

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    /// The name of the listener; names, separated by commas, where several share the address.
    pub listener: String,
    /// The address.
    pub address: SocketAddr,
    /// Whether it is the UDP port of HTTP/3, without which HTTP/1.1 and HTTP/2 are served there all the same.
    pub is_for_http3: bool,
    /// What the system says.
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listener, address, is_for_http3, error } = self;
        match is_for_http3 {
            false => write!(f, "cannot listen on {address} ({listener}): {error}"),
            true => write!(
                f,
                "cannot listen on {address} over UDP ({listener}): {error}; there is no HTTP/3 there, and HTTP/1.1 and HTTP/2 \
                 are served"
            ),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Certificates that a listener is to trust, and that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the listener {listener} cannot verify its clients: {error}; its connections are closed")]
pub struct TrustError {
    /// The name of the listener.
    pub listener: String,
    /// What is wrong with them.
    pub error: String,
}

/// What is wrong with a listener.
#[derive(Debug)]
pub(crate) enum ListenerError {
    Bind(BindError),
    Trust(TrustError),
}
