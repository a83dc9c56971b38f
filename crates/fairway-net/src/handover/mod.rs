//! Listening sockets handed from a running process to the one that takes its place, over a Unix socket.
//!
//! ```text
//! new                            old
//!  │ ──────── hello ───────────►  │
//!  │ ◄─── sockets, complete ────  │   or: refused, with the reason
//!  │ (loads, starts its workers)  │   serves as before; goes on if the other one ends
//!  │ ──────── ready ───────────►  │
//!  │ accepts                      │   accepts no longer, drains and ends
//! ```
//!
//! [`endpoint`] is where both meet, and trusts only the same user, [`message`] is the language, [`channel`] carries it with the
//! descriptors, [`roles`] are the two sides. What the sockets are, the kernel says (`crate::inherited`); no message describes them.

mod channel;
mod endpoint;
mod message;
mod roles;

pub use endpoint::{Listening, Rendezvous};
pub use roles::{Predecessor, Successor};

#[cfg(test)]
mod tests;
