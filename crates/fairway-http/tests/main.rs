//! All integration tests of this crate in one binary, which is linked once; one folder per part of the crate.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod grpc;
mod http1;
