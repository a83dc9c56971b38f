//! Floods: attackers against `fairway run`, and what they cost it and its other clients.
//!
//! [`Kind`] names the attacks and [`plan`] says how each is carried out. Attackers are threads of this process
//! ([`threads`]), so that their CPU time can be read apart from the proxy's, and of the lowest priority, so that they
//! do not keep it from what they attack; [`held`] keeps connections open and slow, [`rush`] sends as much as it may,
//! [`http2`] says what bytes that is for HTTP/2. While they work, [`probe`] asks as a well-behaved client does, at
//! fixed times, and [`pace`] reads what the proxy uses. [`mod@run`] puts the phases in order, [`found`]
//! holds the figures and judges them.
//!
//! Everything stays on the loopback address, is bounded in connections and time, and ends with the future that runs it.

mod found;
mod held;
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

pub use found::{Attacked, Flooded, Honest, Memory, Recovery};
pub use kind::Kind;
pub use probe::Probed;
pub use run::{Effort, run};
pub(super) use usage::{cpu_of_thread, peak, resident};
