//! Forwarding of TCP connections and datagrams, whatever protocol they carry.
//!
//! * *Connections*: [`hello`] extracts the SNI before TLS is terminated, [`race`] hedges slow connects, and
//!   [`pump`] copies bytes both ways.
//! * *Datagrams*: [`datagrams`] forwards them, [`sessions`] tracks which belong together, and [`bounds`] limits
//!   the number of sessions.
//!
//! Any split of a ClientHello gives the same name, and an ambiguous name gives none. Data waiting for a slow
//! side is bounded, a datagram never waits, and nothing is sent to an address from which nothing came.
//!
//! Knows no routes, endpoints or configuration; the caller decides who is connected to whom and for how long.

pub(crate) mod bounds;
pub(crate) mod datagrams;
pub(crate) mod hello;
pub(crate) mod pump;
pub(crate) mod race;
pub(crate) mod sessions;
