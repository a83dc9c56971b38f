//! A client of HTTP/3 that sends any bytes on any streams, over two ends of QUIC in memory. The checks are those of the ordinary tests.

#![no_main]

#[path = "../../crates/fairway-http3/tests/checks/server.rs"]
mod server;
#[allow(dead_code, reason = "the other tests need the rest")]
#[path = "../../crates/fairway-http3/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| server::check(input));
