//! HTTP/3 towards clients: the streams of a connection, and one of them as the client's side of an exchange. The only
//! module that knows HTTP/3. Bodies of requests are read straight from QUIC, and those of responses go to its send buffer.

mod side;
mod streams;

pub use side::H3Side;
pub use streams::{SharedStreams, Streams};
