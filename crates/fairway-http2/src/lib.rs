//! HTTP/2 without I/O: a state machine over received bytes and one outbox.
//!
//! [`Server`] and [`Client`] take bytes ([`Session::receive`]) and return one [`Event`] at a time; output is collected
//! in the outbox ([`Session::pending`]). Their common part is [`Session`]. Below them, `frame` has the rules of each
//! frame, [`hpack`] the compression, `fields` the rules of messages, and `abuse` the account that bounds a peer's
//! costly actions.
//!
//! Whatever a field block contains, the compression tables stay in step or the connection ends; a sensitive field is
//! never indexed, here or on a later hop. A stream keeps its record until its owner releases it, and for a second more
//! if its response is complete and its request is not, so that resets cannot open more streams than allowed. Any split
//! of the input gives the same result. `schedule` chooses which stream sends DATA next (RFC 9218), `flow` has the
//! windows, and `patience` measures how long a peer keeps one closed.
//!
//! Implements RFC 9113 (frames, streams, flow control) and RFC 7541 (HPACK). Has no sockets, tasks, clocks or locks:
//! time is passed in, bytes come as slices, and nothing is allocated per message once its buffers have grown.

pub mod abuse;
pub mod fields;
pub mod frame;
pub mod hpack;

mod client;
mod connection;
mod event;
mod fault;
mod flow;
mod outbox;
mod patience;
mod priority;
mod rare_events;
mod schedule;
mod server;
mod session;
mod stream;
mod verdict;

pub use client::{Client, ClientRole};
pub use connection::Config;
pub use event::{Event, ResetBy, Wait};
pub use fault::{Code, Fault, Scope};
pub use patience::Timeouts;
pub use priority::Priority;
pub use rare_events::{PeerEvent, PeerEventKind, PeerEvents};
pub use schedule::SendTurn;
pub use server::{Server, ServerRole};
pub use session::Session;
pub use verdict::{Defect, Verdict};
