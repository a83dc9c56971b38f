//! Any bytes as the header of the PROXY protocol. The checks are those of the tests of `fairway-net`, of which only this
//! file is built here: the rest needs sockets and cryptography.

#![no_main]

#[path = "../../crates/fairway-net/tests/checks/mod.rs"]
mod checks;
#[path = "../../crates/fairway-net/src/proxy_header/parse.rs"]
mod parse;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::proxy_header(input, |bytes| match parse::parse(bytes) {
    Ok(header) =>
        Ok(header.map(|header| (header.client.zip(header.server), bytes.len() - header.rest.len()))),
    Err(_) => Err(()),
}));
