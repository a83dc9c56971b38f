//! TLS session tickets and their keys.
//!
//! [`SessionTickets`] holds the keys of the process: those shared by the replicas of a fleet, otherwise its
//! own. `ring` decides which key encrypts and which still decrypt, with the time passed in; `key` defines the
//! ticket format; `group` separates tickets of clients with different client rules.

mod group;
mod key;
mod keys;
mod ring;

pub(crate) use group::TicketGroup;
pub use keys::SessionTickets;
pub(crate) use keys::TicketFigures;
pub(crate) use ring::KeySource;
