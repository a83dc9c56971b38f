//! Any bytes as an HTTP/1 request head. The checks are those of the tests of `fairway_http::http1`.
#![no_main]

#[allow(dead_code, unused_imports, reason = "each target calls one of the checks")]
#[path = "../../crates/fairway-http/tests/http1/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::request(input));
