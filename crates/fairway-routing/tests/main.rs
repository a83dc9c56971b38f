//! Every integration test of this crate in one program, which is linked once; a file is a subject.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod checks;
mod corpus;
mod explain;
mod hosts;
mod incremental;
mod oracle;
mod precedence;
mod sharing;
mod tables;
mod unserved;
