//! Any bytes as a path. The checks are those of the tests of `fairway-http1`.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each target calls one of the checks")]
#[path = "../../crates/fairway-http1/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::path(input));
