//! HTTP/2 towards clients: the streams of a connection, and one of them as the client's side of an exchange. The only
//! module that knows HTTP/2.

mod side;
mod streams;
mod trailers;

pub(crate) use side::H2Side;
pub(crate) use streams::{SharedStreams, Streams};
