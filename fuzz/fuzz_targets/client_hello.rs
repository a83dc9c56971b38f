//! Any bytes as the beginning of a TLS connection whose name decides where it goes. The checks are those of the tests of
//! `fairway-proxy`, of which only this file is built here: the rest needs sockets.

#![no_main]

#[path = "../../crates/fairway-proxy/src/l4/hello/checks.rs"]
mod checks;
#[path = "../../crates/fairway-proxy/src/l4/hello.rs"]
mod hello;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::client_hello(input, |pieces| {
    let mut reader = hello::HelloReader::new();
    for piece in pieces {
        match reader.take(piece) {
            Ok(None) => {}
            Ok(Some(hello)) => return Ok(Some(hello.name.map(String::from))),
            Err(hello::NoHello) => return Err(()),
        }
    }
    Ok(None)
}));
