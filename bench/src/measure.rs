//! The measurement itself: interleaved blocks of load and the CPU each proxy spent on its own, and the memory of idle
//! connections. Owns the rule by which a block is discarded. Never prints results.

mod block;
mod handshakes;
mod memory;

#[cfg(test)]
pub(crate) use block::{Around, Latency};
pub(crate) use block::{Block, Effort, again, blocks};
pub(crate) use handshakes::Handshakes;
pub(crate) use memory::{Memory, idle, waiting};
