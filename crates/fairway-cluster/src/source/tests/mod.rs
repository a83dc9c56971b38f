//! The source against an API server with every fault there is, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod faults;
mod gateways;
mod harness;
mod interleavings;
mod orders;
mod secrets;
mod watching;
