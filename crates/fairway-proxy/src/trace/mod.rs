//! Tracing: a request continues the client's trace or starts one, endpoints get the context, and sampled
//! exchanges go to the span exporter.
//!
//! `sampling` decides, and `context` reads and writes headers. An unsampled request costs a look at its headers
//! and at most one header per format. A sampled one has its state in its buffers (`sampled`), becomes a
//! [`TracedExchange`] when finished, and leaves its worker in a batch (`batch`) through a bounded
//! [`channel()`]. A worker never waits for the exporter: batches that find the channel full are dropped and
//! counted.

mod batch;
pub(crate) mod channel;
#[cfg(test)]
mod checks;
mod context;
#[cfg(test)]
mod context_tests;
pub(crate) mod exchange;
pub(crate) mod sampled;
mod sampling;

pub(crate) use batch::TraceBatcher;
pub use channel::{TraceReceiver, TraceSender, channel};
pub use exchange::TracedExchange;
pub(crate) use exchange::sanitize_span_name;
pub use sampled::SpanContext;
pub(crate) use sampling::begin_trace;
