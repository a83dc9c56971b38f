//! HTTP conformance of the binary: raw cases of HTTP/1, the smuggling differential, TLS, WebSocket. The short form runs with all
//! other tests. The long form (`make conformance`) sends the same to nginx, HAProxy and Envoy, has real servers read the forwarded
//! bytes, and writes `conformance/conformance.json` and `docs/conformance.md`.

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
