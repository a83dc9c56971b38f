//! A small backend that says what it was asked: HTTP/1.1, HTTP/2 (prior knowledge and ALPN) and TLS.
//!
//! It answers with the request as JSON, in the form of the echo server of the Gateway API conformance suite. A request may ask for
//! something else: `/health`, `/status/NNN`, `?delay=20ms`, `X-Echo-Set-Header`, and for load `/bytes/N`, `/chunked/N` and
//! `/sink`, which says how long the request's body was.
//!
//! In the order of a request: `server` accepts, `answer` chooses, the rest answers. Never uses a crate of the proxy: one parser bug
//! must not blind both sides.

mod answer;
mod assertions;
mod body;
mod options;
mod server;

pub use body::pattern;
pub use options::{EchoOptions, EchoTls, Identity, OnSigterm};
pub use server::EchoServer;
