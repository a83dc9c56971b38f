//! Any bytes as a body of gRPC-Web. The checks are those of the tests of `fairway_http::grpc`.

#![no_main]

#[path = "../../crates/fairway-http/tests/grpc/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::grpc_web(input));
