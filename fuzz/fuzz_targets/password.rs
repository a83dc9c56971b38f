//! Any bytes as a password and a password file. The checks are those of the tests of `fairway-password`.
#![no_main]

#[path = "../../crates/fairway-password/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::password(input));
