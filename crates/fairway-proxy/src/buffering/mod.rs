//! Buffered bodies: in memory up to a limit, and on disk beyond it. Exchanges decide which bodies are buffered, and for how
//! long.

mod disk;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use disk::{BodyKind, Disk, EXTENT_BYTES};
pub(crate) use store::{Full, Store};
