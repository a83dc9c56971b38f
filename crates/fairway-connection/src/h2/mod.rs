//! HTTP/2 towards clients: the streams of a connection, and one of them as the client's side of an exchange. The only
//! module that knows HTTP/2.

mod carried;
mod link;
mod side;
mod stream;
mod streams;
mod up;
mod wear;

pub use side::H2Side;
pub use streams::{SharedStreams, Streams};
pub use up::H2Up;
