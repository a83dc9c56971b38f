//! Any bytes as a token, as a key set, and as what is sent for a login. The checks are those of the tests of `fairway-token`.
#![no_main]

#[path = "../../crates/fairway-token/tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::token(input);
    checks::login(input);
});
