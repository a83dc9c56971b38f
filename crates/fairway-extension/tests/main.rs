//! Streams of `ext_proc` as the data plane and a service drive them.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod any_input;
mod checks;
mod failures;
mod hostile;
mod model;
mod modes;
mod overrides;
mod support;
