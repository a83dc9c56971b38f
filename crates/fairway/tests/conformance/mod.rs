//! How the binary keeps HTTP: raw cases of HTTP/1, the smuggling differential, TLS, WebSocket. The short form runs with all
//! other tests; the long form (`make conformance`) asks nginx, HAProxy and Envoy the same, has real servers read
//! what was forwarded, and writes `conformance/conformance.json` and `docs/conformance.md`.

#![allow(clippy::print_stdout, reason = "the summary is for whoever reads the log of the tests")]

mod client;
mod fronts;
mod grpc;
mod http1;
mod readers;
mod recorder;
mod recorder_http2;
mod report;
mod smuggling;
mod tls;
mod websocket;
