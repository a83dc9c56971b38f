//! Floods: attackers against `fairway run`, and the costs for it and its other clients.
//!
//! [`Kind`] names the attacks and [`plan`] defines how each is carried out. Attackers are [`threads`] of this process, so
//! that their CPU time is separate from the proxy's, at the lowest priority, so that they do not starve the proxy. [`held_connections`]
//! keeps connections open and slow, [`rush`] sends as much as it can, [`http2`] provides the bytes for HTTP/2. In parallel,
//! [`probe`] sends the requests of well-behaved clients at fixed times and [`pace`] reads the proxy's usage. [`mod@run`]
//! runs the phases; [`findings`] holds and checks the figures.
//!
//! Everything stays on the loopback address, is bounded in connections and time, and ends with the future that runs it.

mod findings;
mod held_connections;
mod http2;
mod kind;
mod pace;
mod passwords;
mod plan;
mod probe;
mod regex;
mod run;
mod rush;
mod socket;
mod socket_memory;
mod threads;
mod usage;

pub use findings::{AttackStats, FloodFindings, Honest, Memory, Recovery};
pub use kind::Kind;
pub use probe::ProbeTally;
pub use run::{Effort, run};
pub(super) use usage::{cpu_of_thread, peak, resident};
