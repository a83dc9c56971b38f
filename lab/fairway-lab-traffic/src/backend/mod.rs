//! The backend of measured requests: a lean HTTP/1.1 server with adjustable faults that reports request ids to a collector.
//! It can also speak cleartext HTTP/2 or gRPC, with the same response to every request, or echo datagrams.
//!
//! ```text
//! listeners ─► threads ─► connection: request ─► knobs (delay, faults) ─► answer
//!                                       └ X-Lab-Id ─► with --record, the collector
//! ```
//!
//! It shares the machine with the measured proxy, so it must be cheap: one runtime per thread, one read and one write per
//! request. Keeps no bodies.

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
pub use register::{ReceivedTotals, Register};
pub use server::Server;
pub use spawned::Spawned;
