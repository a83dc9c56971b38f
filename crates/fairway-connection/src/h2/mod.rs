//! HTTP/2: the streams of a client connection as the downstream side of exchanges, and shared connections to endpoints
//! as the upstream side. The only module that knows HTTP/2.

mod link;
mod retirement;
mod side;
mod stream;
mod stream_slots;
mod streams;
mod upstream_stream;

pub use side::H2Downstream;
pub use streams::{SharedStreams, Streams};
pub use upstream_stream::H2Upstream;
