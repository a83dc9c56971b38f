//! What the process listens on, from snapshot to snapshot. [`Sockets`] follows snapshots, binds addresses and numbers listeners;
//! what it makes of a snapshot is a [`Listening`], by which workers take their sockets and find the listener of a client.
//!
//! It accepts nothing and serves nobody.

mod listener;
mod listening;

pub use listener::{BindError, ListenerError, ListenerId, PortId, TrustError};
pub use listening::{
    Choice, Chosen, ListenerFacts, Listening, OpenPort, PortSocket, PortSockets, Sockets, Verification,
};
