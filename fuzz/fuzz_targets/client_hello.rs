//! Any bytes as the start of a TLS connection that is routed by SNI. The checks are those of the tests of
//! `fairway-proxy`, of which only this file is built here: the rest needs sockets.

#![no_main]

#[path = "../../crates/fairway-proxy/src/l4/hello/checks.rs"]
mod checks;
#[path = "../../crates/fairway-proxy/src/l4/hello.rs"]
mod hello;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::client_hello(input, |pieces| {
    let mut reader = hello::HelloReader::new();
    for piece in pieces {
        match reader.read(piece) {
            Ok(None) => {}
            Ok(Some(hello)) => return Ok(Some(hello.name.map(String::from))),
            Err(hello::NotClientHello) => return Err(()),
        }
    }
    Ok(None)
}));
