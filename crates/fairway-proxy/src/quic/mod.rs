//! QUIC over the UDP sockets of a worker (RFC 9000), as far as HTTP/3 sees a connection.
//!
//! ```text
//! socket ─► endpoint ─► link ─► task of the connection: handshake, then `downstream::serve_http3`
//!               ▲ │
//!               │ └─► endpoint of another worker, which the connection id of a datagram names
//!               └──── endpoint of another worker
//! ```
//!
//! The kernel spreads datagrams over workers by the addresses of sender and receiver, so that a client whose address changes (NAT,
//! another network) comes to another worker than before. [`ids`] say where its connection is, and its datagrams are handed over.
//! [`keys`] are what workers, and replicas, have in common for that. TLS begins in [`session`] and is chosen in [`choice`], by the same
//! rules as over TCP.

mod choice;
pub(crate) mod early;
pub(crate) mod endpoint;
mod handshake;
mod ids;
pub(crate) mod keys;
mod resets;
mod serve;
mod session;
mod settings;
mod socket;
mod under_way;

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
