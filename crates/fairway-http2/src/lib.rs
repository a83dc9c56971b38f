//! HTTP/2 without I/O: a pure state machine over received bytes and one outbox.
//!
//! Owns the rules of RFC 9113 (frames, streams, flow control), RFC 7541 (HPACK) and what a peer may do before it is
//! stopped. Never has sockets, tasks, clocks or locks: time is passed in, bytes come as slices, and nothing is allocated
//! per message once its buffers have grown.

pub mod fault;
pub mod fields;
pub mod frame;
pub mod hpack;

mod verdict;

pub use fault::{Code, Fault, Scope};
pub use verdict::{Defect, Verdict};
