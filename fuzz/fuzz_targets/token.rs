//! Any bytes as a token and as a key set. The checks are those of the tests of `fairway-token`.
#![no_main]

#[path = "../../crates/fairway-token/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::token(input));
