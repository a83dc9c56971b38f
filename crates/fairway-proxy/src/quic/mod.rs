//! QUIC (RFC 9000) over the UDP sockets of a worker, as the transport of HTTP/3.
//!
//! ```text
//! socket ─► endpoint ─► link ─► task of the connection: handshake, then `downstream::serve_http3`
//!               ▲ │
//!               │ └─► endpoint of another worker, named by the connection id of a datagram
//!               └──── endpoint of another worker
//! ```
//!
//! The kernel spreads datagrams over workers by source and destination address, so that a client whose address
//! changes (NAT, another network) reaches another worker. [`ids`] name the worker of a connection, and its
//! datagrams are handed over. [`keys`] holds what workers and replicas share for that. TLS starts in
//! [`session`] and is selected in [`choice`], by the same rules as over TCP.

mod choice;
pub(crate) mod early;
pub(crate) mod endpoint;
mod handshake;
mod handshake_limit;
mod ids;
pub(crate) mod keys;
mod resets;
mod serve;
mod session;
mod settings;
mod socket;

#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod early_tests;
#[cfg(test)]
mod reset_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use serve::serve_quic;
