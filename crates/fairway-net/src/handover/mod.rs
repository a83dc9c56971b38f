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
//! [`endpoint`] is the socket where both meet, which accepts only the same user; [`message`] has the messages,
//! [`channel`] sends them with descriptors, and [`roles`] are the two sides. What the sockets are is read from the
//! kernel (`crate::inherited`), not from messages.

mod channel;
mod endpoint;
mod message;
mod roles;

pub use endpoint::{HandoverListener, HandoverSocket};
pub use roles::{Predecessor, Successor};

#[cfg(test)]
mod tests;
