//! Lines of the access log: what an exchange has for each variable of a format, and how it is escaped.
//!
//! [`Line`] is what is known of an exchange when it is over; [`Line::write`] writes it in a format. No value can end its line, or
//! the place that the format gives it. Never reads a clock or a socket, and allocates nothing but room for the line.

mod clock;
mod escape;
mod json;
mod line;
mod stream;
mod user;
mod value;

pub use clock::WallClock;
pub use line::{
    Amounts, Certificate, Connection, Line, NotedConnection, Parties, Process, ServedBy, Target, Tls, Trace,
    Upstream, argument,
};
pub use stream::{Forwarded, StreamLine, StreamUpstream};
