//! Connections that are forwarded as they come, whatever is spoken on them: [`hello`] finds the name that a TLS client
//! asks for before anybody answers it, and [`pump`] copies bytes both ways.
//!
//! It knows no route, endpoint or configuration; who is connected with whom, and for how long, is decided above.

pub mod hello;
pub mod pump;
