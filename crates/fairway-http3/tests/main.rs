//! All integration tests of this crate in one binary, which is linked once; one file per subject. The server meets
//! scripted clients: two QUIC endpoints in memory, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
#![allow(clippy::print_stdout, reason = "the seed of a failed run must be known")]

mod checks;
mod differential;
mod errors;
mod exchange;
mod lifecycle;
mod load;
mod priorities;
mod random;
mod support;
