//! Identifiers of listeners and ports, and errors of listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Identifies a listener from snapshot to snapshot while one of its name and protocol exists. Its slot may
/// later be given to another listener, with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListenerId {
    pub(crate) slot: u16,
    pub(crate) generation: u16,
}

/// Identifies a bound address. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortId(pub(crate) u32);

/// An address that could not be bound.
#[derive(Debug)]
pub struct BindError {
    /// Name of the listener; comma-separated names where several share the address.
    pub listener: String,
    /// Address that was to be bound.
    pub address: SocketAddr,
    /// Whether this is the UDP port of HTTP/3. HTTP/1.1 and HTTP/2 are still served without it.
    pub is_for_http3: bool,
    /// Error of the system.
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

/// CA certificates of a listener that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("the listener {listener} cannot verify its clients: {error}; its connections are closed")]
pub struct TrustError {
    /// Name of the listener.
    pub listener: String,
    /// Why they cannot be used.
    pub error: String,
}

/// Why a listener does not work as configured.
#[derive(Debug)]
pub(crate) enum ListenerError {
    Bind(BindError),
    Trust(TrustError),
}
