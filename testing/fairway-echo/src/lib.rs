//! A small backend that says what it was asked: HTTP/1.1, HTTP/2 (prior knowledge and ALPN), TLS and WebSocket.
//!
//! The answers and knobs are those of the echo server of the Gateway API conformance suite (`/health`, `/status/NNN`,
//! `/retry/`, `?delay=`, `X-Echo-Set-Header`, `/ws`), with more for tests and load: `/bytes/N` and `?size=N`,
//! `/chunked/N`, `/1kb`, `/1mb`, `/sink`, and `/seen`, which counts deliveries by `X-Request-Number`.
//!
//! In the order of a request: `server` accepts, `transport` carries, `answer` chooses, the rest answers. Never uses a crate
//! of the proxy: one parser bug must not blind both sides.

mod answer;
mod assertions;
mod body;
mod numbers;
mod options;
mod query;
mod retry;
mod server;
mod tasks;
mod transport;
mod websocket;

pub use body::pattern;
pub use numbers::NUMBER_FIELD;
pub use options::{EchoOptions, EchoTls, Identity, OnSigterm};
pub use server::{EchoServer, serve};
