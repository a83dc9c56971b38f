//! The backend that requests end at: a lean server of HTTP/1.1 with knobs, which knows the requests that it was given twice.
//! With `--grpc` it speaks HTTP/2 without TLS instead, and answers every call of gRPC alike.
//!
//! ```text
//! listeners ─► threads ─► connection: request ─► knobs (delay, faults) ─► answer
//!                                       └ X-Lab-Id ─► seen ids (GET /ids) or, with --record, the collector
//! ```
//!
//! It shares the machine with the proxy that is measured, so that it is cheap: one runtime a thread, one read and one
//! write a request. Never keeps a body.

pub mod command;
pub mod h2c;

mod alarm;
mod calls;
mod collector;
mod connection;
mod delay;
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
pub use options::{Faults, OnSigterm, Options};
pub use register::Register;
pub use seen_ids::{Seen, SeenIds};
pub use server::Server;
pub use spawned::Spawned;
