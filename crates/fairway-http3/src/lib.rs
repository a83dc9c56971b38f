//! HTTP/3 without I/O: a pure state machine over `quinn_proto::Connection`, server role.
//!
//! [`Server`] is asked for one [`Event`] at a time ([`Server::poll`]). Request bodies stay in QUIC's reassembly until they are
//! read ([`Server::read_body`]), so unread data closes the client's flow-control window. `incoming` and `outgoing` are the two halves of a request
//! stream, `unidirectional` and `control` the client's other streams, `local` ours, [`qpack`] the header compression, and `abuse`
//! the account of what a client may do before its connection is closed.
//!
//! Owns the rules of RFC 9114 (HTTP/3) and RFC 9204 (QPACK). The rules for fields are those of HTTP/2 and come from
//! [`fairway_http2::fields`]. Never has sockets, tasks, clocks or locks: time is passed in, and so is the QUIC connection.

pub mod qpack;

mod abuse;
mod code;
mod config;
mod control;
mod event;
mod frame;
mod incoming;
mod local;
mod notes;
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
pub use fairway_http2::Priority;
pub use notes::{Note, Noted};
pub use server::Server;
