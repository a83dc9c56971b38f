//! Any bytes as an exchange and the format of its line. The checks are those of the tests of `fairway-log`.
#![no_main]

#[path = "../../crates/fairway-log/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::log_line(input));
