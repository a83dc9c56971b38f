//! QPACK encoder streams and field sections, as any bytes. The checks are those of the ordinary tests.

#![no_main]

#[allow(dead_code, reason = "each target calls one of the checks")]
#[path = "../../crates/fairway-http3/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::qpack(input));
