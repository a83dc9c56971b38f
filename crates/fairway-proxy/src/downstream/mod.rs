//! Downstream connections, by protocol.

mod accounting;
mod client_trust;
mod closed;
#[cfg(test)]
mod conduct_tests;
mod datagram_transport;
mod exchanges;
#[cfg(test)]
mod grpc_tests;
mod http1;
mod http2;
#[cfg(test)]
mod http2_tests;
#[cfg(test)]
mod http2_windows_tests;
mod http3;
#[cfg(test)]
mod http3_browser;
#[cfg(test)]
pub(crate) mod http3_client;
#[cfg(test)]
mod http3_closed_tests;
#[cfg(test)]
mod http3_tests;
#[cfg(test)]
mod linger_tests;
mod request_head;
mod spread;
#[cfg(test)]
mod websocket_handshake_tests;
#[cfg(test)]
mod websocket_tests;
#[cfg(test)]
mod websocket_tunnel_tests;

pub(crate) use http1::serve as serve_http1;
pub(crate) use http3::serve as serve_http3;
pub(crate) use spread::{serve as serve_http2, take_over};
