//! Tickets with which clients resume TLS sessions, and the keys that open them.
//!
//! [`SessionTickets`] holds the keys of the process: those that the replicas of a fleet share, else keys of its own. `ring` says
//! which of them encrypts and which still opens, with the time passed in; `key` has the bytes of a ticket; `group` keeps tickets
//! apart whose clients were asked for different certificates.

mod group;
mod key;
mod keys;
mod ring;

pub(crate) use group::Group;
pub use keys::SessionTickets;
pub(crate) use keys::TicketFigures;
pub(crate) use ring::KeySource;
