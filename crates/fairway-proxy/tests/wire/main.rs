//! The proxy over real sockets, between raw clients and scripted backends; one file per topic. Traffic is checked with the
//! testkit's parser, which is independent of the proxy's.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

mod admitted;
mod asked_names;
mod bodies;
mod client_certificates;
mod departure;
mod drain;
mod early;
mod ejection;
mod expect_continue;
mod filters;
mod forwarded;
mod forwarding;
mod framing_rules;
mod hedging;
mod hop;
mod http2_settings;
mod http3_settings;
mod inspection;
mod ipv6;
mod keep_alive;
mod limits;
mod listener_traffic;
mod listeners;
mod ocsp;
mod pipelining;
mod proxy_protocol;
mod publish;
mod retries;
mod session_tickets;
mod sessions;
mod spread;
mod streams;
mod tcp;
mod tls;
mod udp;
mod upstream_rules;
mod websocket;
