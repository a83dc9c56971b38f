//! Traces, metrics and lines of the access log to an OpenTelemetry collector (OTLP over gRPC and HTTP).
//!
//! An [`Exporter`] runs on a thread of its own. [`spans`] makes the tree of spans of an exchange, [`metrics`] and `logs` turn what
//! `/metrics` and the access log say into messages; a `queue` for each signal holds what waits, `delivery` sends it and tries
//! again where OTLP allows it, `transport` speaks with the collector.
//!
//! Whatever the collector does, nobody who hands something over waits for it: queues, messages, responses and times are bounded, and
//! what has no room is dropped and counted ([`Counts`]). Nothing here runs on a worker. Values of [`Headers`] are in no message,
//! log or page.

mod attributes;
mod counts;
mod delivery;
mod exporter;
mod exposition;
mod failure;
mod headers;
mod intake;
mod logs;
mod message;
mod metrics;
mod queue;
mod resource;
mod signal;
pub mod spans;
#[cfg(test)]
mod testing;
mod times;
mod transport;

pub use counts::Counts;
pub use exporter::{Exporter, ExporterOptions};
pub use headers::{HeaderError, Headers};
pub use intake::LineSender;
pub use metrics::{MetricsSource, MetricsText};
pub use resource::ProcessIdentity;
pub use signal::Signal;
pub use transport::{CertificatesError, Credentials, EndpointError, check_endpoint, read_certificates};
