//! The measurement itself: interleaved blocks of load and the CPU each proxy spent on its own, and the memory of idle
//! connections. Owns the rule by which a block is discarded. Never prints results.

mod block;
mod memory;

use std::collections::BTreeMap;

pub(crate) use block::{Block, Effort, blocks};
pub(crate) use memory::{Memory, idle};

use crate::load::Tally;

/// Errors by class, as the report names them.
fn by_class(tally: &Tally) -> BTreeMap<String, u64> {
    tally.errors.iter().map(|(failure, count)| (failure.to_string(), *count)).collect()
}
