//! Bodies that are held: in memory up to a bound, and on disk beyond it. Owns where the bytes are; who holds which bodies, and for how
//! long, is up to exchanges.

mod disk;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use disk::{Disk, EXTENT, Of};
pub(crate) use store::{Full, Store};
