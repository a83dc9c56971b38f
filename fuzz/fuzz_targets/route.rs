//! Tables and requests, as any bytes say, beside the slow matcher. The checks are those of the tests of `fairway-routing`.

#![no_main]

#[path = "../../crates/fairway-routing/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::route(input));
