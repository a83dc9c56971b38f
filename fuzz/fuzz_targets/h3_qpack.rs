//! QPACK encoder streams and field sections, as any bytes. The checks are those of the ordinary tests.

#![no_main]

#[path = "../../crates/fairway-http3/tests/checks/qpack.rs"]
mod qpack;

libfuzzer_sys::fuzz_target!(|input: &[u8]| qpack::check(input));
