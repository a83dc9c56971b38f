//! The source against an API server with every kind of fault, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod faults;
mod gateways;
mod harness;
mod interleavings;
mod orders;
mod secrets;
mod watching;
