//! Any bytes as an `Accept-Encoding` and as a body that comes in any pieces with any pauses. The checks are those of the tests of
//! `fairway-proxy`, of which only its compressors are built here.

#![no_main]

#[path = "../../crates/fairway-proxy/src/compression/accepted.rs"]
mod accepted;
#[allow(dead_code, reason = "the checks call some of a step")]
#[path = "../../crates/fairway-proxy/src/body_step.rs"]
mod body_step;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../crates/fairway-proxy/src/compression/checks.rs"]
mod checks;
#[allow(dead_code, reason = "memory is counted by the proxy alone")]
#[path = "../../crates/fairway-proxy/src/compression/compressors/mod.rs"]
mod compressors;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::compression(input));
