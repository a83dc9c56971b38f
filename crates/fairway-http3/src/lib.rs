//! HTTP/3 without I/O: a pure state machine over `quinn_proto::Connection`, server role.
//!
//! [`Server`] is asked for one [`Event`] at a time ([`Server::poll`]). Request bodies stay in QUIC's reassembly until they are
//! read ([`Server::read_body`]), so unread data closes the client's flow-control window. `incoming` and `outgoing` are the two halves of a request
//! stream, `unidirectional` and `control` the client's other streams, `local` ours, and [`qpack`] the header compression.
//!
//! Owns the rules of RFC 9114 (HTTP/3) and RFC 9204 (QPACK). The rules for fields and the
//! account of what a client may do before its connection is closed are those of HTTP/2, from [`fairway_http2`]. Never has sockets, tasks, clocks or locks: time is passed in, and so is the QUIC connection.

pub mod qpack;

mod code;
mod config;
mod control;
mod event;
mod frame;
mod incoming;
mod local;
mod outgoing;
mod requests;
mod server;
mod settings;
mod shared;
mod transport;
mod unidirectional;
mod varint;

pub use code::{Code, Fault, Scope};
pub use config::Config;
pub use event::{By, Event, Read};
pub use fairway_http2::{Note, Noted, Priority};
pub use server::Server;
