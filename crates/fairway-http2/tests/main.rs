//! All integration tests of this crate in one binary, which is linked once; one file per subject. Tests that count
//! allocations of the whole process are separate binaries.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod bodies;
mod checks;
mod client_rules;
mod codecs;
mod connect;
mod corpus;
mod differential;
mod exchange;
mod hostile;
mod interop;
mod linger;
mod patience;
mod rules;
mod simulation;
mod split;
mod support;
