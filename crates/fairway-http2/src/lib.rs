//! HTTP/2 without I/O: a pure state machine over received bytes and one outbox.
//!
//! [`Server`] and [`Client`] take bytes ([`Session::receive`]) and give one [`Event`] at a time; what is sent waits in the
//! outbox ([`Session::pending`]). What both have is [`Session`]. Below them, `frame` has the rules of each frame, [`hpack`] the compression, `fields` the
//! rules of messages, and `abuse` the account of what a peer may do before it is sent away.
//!
//! Whatever a field block holds, the compression tables stay in step or the connection ends; a sensitive field is never indexed, here
//! or further on. A stream keeps its record until whoever serves it releases it, and for a second more where its response is complete
//! and its request is not, so that resets cannot open more streams than are allowed. Any split of the input gives the same result.
//! `schedule` chooses whose DATA is sent next (RFC 9218), `flow` has the windows, and `patience` measures how long a peer keeps one
//! closed.
//!
//! Owns the rules of RFC 9113 (frames, streams, flow control) and RFC 7541 (HPACK). Never has sockets, tasks, clocks or
//! locks: time is passed in, bytes come as slices, and nothing is allocated per message once its buffers have grown.

pub mod abuse;
pub mod fields;
pub mod frame;
pub mod hpack;

mod client;
mod connection;
mod event;
mod fault;
mod flow;
mod notes;
mod outbox;
mod patience;
mod priority;
mod schedule;
mod server;
mod session;
mod stream;
mod verdict;

pub use client::{Asks, Client};
pub use connection::Config;
pub use event::{By, Event, Wait};
pub use fault::{Code, Fault, Scope};
pub use notes::{Note, Noted, Notes};
pub use patience::Timeouts;
pub use priority::Priority;
pub use schedule::Turn;
pub use server::{Answers, Server};
pub use session::Session;
pub use verdict::{Defect, Verdict};
