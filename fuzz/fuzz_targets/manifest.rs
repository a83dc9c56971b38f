//! Any bytes as manifests, all the way to what is served. The checks are those of the tests of `fairway-control`.
#![no_main]

#[path = "../../crates/fairway-control/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::manifest(input));
