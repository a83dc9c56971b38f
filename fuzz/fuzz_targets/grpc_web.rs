//! Any bytes as a body of gRPC-Web. The checks are those of the tests of `fairway-grpc`.

#![no_main]

#[path = "../../crates/fairway-grpc/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::grpc_web(input));
