//! Any bytes as trace headers. The checks are those of the tests of `fairway-proxy`, of which only these files are built here:
//! the rest needs sockets.

#![no_main]

#[path = "../../crates/fairway-proxy/src/trace/checks.rs"]
mod checks;
#[allow(dead_code, reason = "the proxy uses all of it")]
#[path = "../../crates/fairway-proxy/src/trace/context.rs"]
mod context;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::trace_context(input));
