//! Every integration test of this crate in one program, which is linked once; a folder is a part of the crate.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod grpc;
mod http1;
