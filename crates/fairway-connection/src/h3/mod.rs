//! HTTP/3 streams as the downstream side of exchanges. The only module that knows HTTP/3. Request bodies are read
//! directly from QUIC, and response bodies go to its send buffer.

mod side;
mod streams;

pub use side::H3Downstream;
pub use streams::{SharedStreams, Streams};
