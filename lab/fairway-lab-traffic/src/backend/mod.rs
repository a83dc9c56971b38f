//! The backend that requests end at: a lean server of HTTP/1.1 with knobs, which tells the ids of requests to a collector.
//! It can speak HTTP/2 without TLS or gRPC instead, and answers every request alike then, or send datagrams back.
//!
//! ```text
//! listeners ─► threads ─► connection: request ─► knobs (delay, faults) ─► answer
//!                                       └ X-Lab-Id ─► with --record, the collector
//! ```
//!
//! It shares the machine with the proxy that is measured, so that it is cheap: one runtime a thread, one read and one
//! write a request. Never keeps a body.

mod collector;
mod command;
mod connection;
mod h2c;
mod options;
mod recorder;
mod register;
mod request;
mod respond;
mod server;
mod spawned;

pub use collector::Collector;
pub use options::{Faults, Options, Spoken};
pub use register::{Register, Seen};
pub use server::Server;
pub use spawned::Spawned;
