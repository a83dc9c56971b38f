//! Traces: a request continues the trace of its client or begins one, its endpoints get the context, and sampled exchanges go to the
//! exporter of their spans.
//!
//! `begin` decides, and `context` reads and writes headers. A request that is not sampled costs a look at its headers, and at most one
//! header in each form. A sampled one has its state in its buffers (`sampled`), becomes a [`TracedExchange`] when it is over, and leaves
//! its worker in a batch (`gather`) through a bounded [`channel()`]. A worker never waits for the exporter: a batch that finds the channel
//! full is dropped and counted.

mod begin;
pub(crate) mod channel;
#[cfg(test)]
mod checks;
mod context;
#[cfg(test)]
mod context_tests;
pub(crate) mod exchange;
mod gather;
pub(crate) mod sampled;

pub(crate) use begin::begin;
pub use channel::{TraceReceiver, TraceSender, channel};
pub use exchange::TracedExchange;
pub(crate) use exchange::name_of;
pub(crate) use gather::Traces;
pub use sampled::SpanContext;
