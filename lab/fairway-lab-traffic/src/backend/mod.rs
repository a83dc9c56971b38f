//! The backend that requests end at: a lean server of HTTP/1.1 with knobs, which knows the requests that it was given twice.
//! It can speak HTTP/2 without TLS or gRPC instead, and answers every request alike then, or send datagrams back.
//!
//! ```text
//! listeners ─► threads ─► connection: request ─► knobs (delay, faults) ─► answer
//!                                       └ X-Lab-Id ─► seen ids (GET /ids) or, with --record, the collector
//! ```
//!
//! It shares the machine with the proxy that is measured, so that it is cheap: one runtime a thread, one read and one
//! write a request. Never keeps a body.

pub mod command;

mod alarm;
mod collector;
mod connection;
mod delay;
mod h2c;
mod http2;
mod options;
mod recorder;
mod register;
mod request;
mod respond;
mod seen_ids;
mod server;
mod spawned;

pub use collector::Collector;
pub use delay::Delay;
pub use options::{Faults, OnSigterm, Options, Spoken};
pub use register::Register;
pub use seen_ids::{Seen, SeenIds};
pub use server::Server;
pub use spawned::Spawned;
