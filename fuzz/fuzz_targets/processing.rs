//! Any bytes as what a service of `ext_proc` sends, and any order of calls. The checks are those of the ordinary tests.

#![no_main]

#[path = "../../crates/fairway-extension/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::processing(input));
