//! HTTP/3 without I/O: a state machine over `quinn_proto::Connection`, server role.
//!
//! [`Server::poll`] returns one [`Event`] at a time. Request bodies stay in QUIC's reassembly buffer until they are
//! read ([`Server::read_body`]), so unread data closes the client's flow-control window. `incoming` and `outgoing` are
//! the two halves of a request stream, `unidirectional` and `control` the client's other streams, `local` ours, and
//! [`qpack`] the header compression.
//!
//! Implements RFC 9114 (HTTP/3) and RFC 9204 (QPACK). The rules for fields and the abuse account are those of HTTP/2,
//! from [`fairway_http2`]. Has no sockets, tasks, clocks or locks: time and the QUIC connection are passed in.

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
pub use event::{BodyRead, Event, ResetBy};
pub use fairway_http2::{PeerEvent, PeerEventKind, Priority};
pub use server::Server;
