//! All integration tests of this crate in one binary, which is linked once; one file per subject.

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
