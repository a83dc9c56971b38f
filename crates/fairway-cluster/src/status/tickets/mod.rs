//! The TLS session ticket keys that all replicas share, and the logouts they tell each other: a Secret in Fairway's namespace.
//!
//! `record` encodes the Secret, `schedule` decides by the age of the keys what happens when, and `rotation` watches the Secret,
//! passes its keys to the data plane and, on the leader, writes it. docs/design/0058-session-tickets.md has the reasons.

mod record;
mod rotation;
mod schedule;

pub(super) use rotation::TicketKeeper;
pub use rotation::{AdoptLogouts, AdoptTicketKeys, LogoutNotice, TicketOptions};
