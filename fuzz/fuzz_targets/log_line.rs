//! Any bytes as an exchange and the format of its line. The checks are those of the tests of `fairway-proxy`.
#![no_main]

#[path = "../../crates/fairway-proxy/tests/properties/log_checks.rs"]
mod checks;

use fairway_proxy::log;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::check_fuzz_input(input));
