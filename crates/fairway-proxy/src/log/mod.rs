//! Access log lines: the value of each format variable for an exchange, and its escaping.
//!
//! [`LogLine`] holds what is known of a finished exchange; [`LogLine::write`] writes it in a format. No value
//! can end its line or leave its place in the format. Reads no clock or socket, and allocates only the line.

mod clock;
mod escape;
mod json;
mod line;
mod stream;
mod user;
mod value;

pub use clock::WallClock;
pub use line::{
    Certificate, ClientIdentities, Connection, ExchangeAmounts, LogLine, LoggedConnection, ProcessInfo,
    RequestTarget, ServedBy, Tls, Trace, Upstream, argument,
};
pub use stream::{Forwarded, StreamLine, StreamUpstream};
