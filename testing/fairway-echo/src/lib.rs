//! A small backend that echoes requests: HTTP/1.1, HTTP/2 (prior knowledge and ALPN) and TLS.
//!
//! It responds with the request as JSON, in the format of the echo server of the Gateway API conformance suite. Requests
//! may ask for something else: `/health`, `/status/NNN`, `?delay=20ms`, `X-Echo-Set-Header`, and for load `/bytes/N`,
//! `/chunked/N` and `/sink`, which reports the length of the request body.
//!
//! In request order: `server` accepts, `response` chooses the response, the other modules build it. Uses no crate of the
//! proxy, so that one parser bug cannot hide in both.

mod assertions;
mod body;
mod options;
mod response;
mod server;

pub use body::pattern;
pub use options::{EchoOptions, EchoTls, Identity, OnSigterm};
pub use server::EchoServer;
