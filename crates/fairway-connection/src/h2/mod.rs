//! HTTP/2: the streams of a client connection as the downstream side of exchanges, and shared connections to endpoints
//! as the upstream side. The only module that knows HTTP/2.

mod carried;
mod link;
mod side;
mod stream;
mod streams;
mod up;
mod wear;

pub use side::H2Downstream;
pub use streams::{SharedStreams, Streams};
pub use up::H2Upstream;
