//! Any text as rules of the web application firewall. The checks are those of the tests of `fairway-ingress`.
#![no_main]

#[path = "../../crates/fairway-ingress/tests/rules/mod.rs"]
mod rules;

libfuzzer_sys::fuzz_target!(|input: &[u8]| rules::any_text(input));
