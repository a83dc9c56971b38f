//! The measurement: interleaved blocks of load with the CPU time of each proxy, and the memory of idle connections. Owns
//! the rule for discarding a block. Prints no results.

mod block;
mod handshakes;
mod memory;

#[cfg(test)]
pub(crate) use block::{Around, Latency};
pub(crate) use block::{Block, Effort, blocks, repeat_command};
pub(crate) use handshakes::Handshakes;
pub(crate) use memory::{Memory, idle, waiting};
