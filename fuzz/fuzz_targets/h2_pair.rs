//! What two ends that are connected do to each other, decided by any bytes. The checks are those of the ordinary tests.

#![no_main]

#[allow(dead_code, reason = "each target calls one of the checks")]
#[path = "../../crates/fairway-http2/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::pair(input));
