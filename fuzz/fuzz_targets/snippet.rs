//! Any text as a snippet. The checks are those of the tests of `fairway-snippet`.
#![no_main]

#[path = "../../crates/fairway-snippet/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::snippet(input));
