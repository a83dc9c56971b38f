//! The ticket keys of TLS sessions that all replicas share, and the logouts that they tell each other: a Secret in Fairway's namespace.
//!
//! `record` is the form of the Secret, `schedule` says by the age of the keys who may do what when, and `keeper` watches the Secret,
//! hands its keys to the data plane, and, on the leader, writes it. docs/design/0058-session-tickets.md has the reasons.

mod keeper;
mod record;
mod schedule;

pub(super) use keeper::TicketKeeper;
pub use keeper::{AdoptLogouts, AdoptTicketKeys, LogoutNotice, TicketDuties};
