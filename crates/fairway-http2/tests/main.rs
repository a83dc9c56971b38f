//! Every integration test of this crate in one program, which is linked once; a file is a subject. Those that count allocations
//! of the whole process are programs of their own.

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
