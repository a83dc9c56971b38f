//! Any bytes as an exchange and the format of its line. The checks are those of the tests of `fairway-proxy`, of which only its log
//! is built here.
#![no_main]

#[path = "../../crates/fairway-proxy/tests/properties/log_checks.rs"]
mod checks;
#[allow(dead_code, unused_imports, reason = "lines of streams are written by the proxy alone")]
#[path = "../../crates/fairway-proxy/src/log/mod.rs"]
mod log;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_fuzz_input(input));
