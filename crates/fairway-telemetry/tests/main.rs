//! All integration tests of this crate in one program, which is linked once; one file per subject.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod collector;
mod grpc;
mod http;
