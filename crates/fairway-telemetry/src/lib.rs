//! Exports traces, metrics and access log lines to an OpenTelemetry collector (OTLP over gRPC and HTTP).
//!
//! An [`Exporter`] runs on its own thread. [`spans`] builds the span tree of an exchange, [`metrics`] and `logs` convert the text
//! of `/metrics` and the access log to messages; a `queue` per signal buffers items, `delivery` sends them with retries where
//! OTLP allows them, `transport` talks to the collector.
//!
//! Whatever the collector does, no caller waits for it: queues, messages, responses and times are bounded, and what has no room
//! is dropped and counted ([`Counts`]). Nothing here runs on a worker. Values of [`Headers`] appear in no message, log or page.

mod attributes;
mod counts;
mod delivery;
mod exporter;
mod exposition;
mod failure;
mod headers;
mod logs;
mod message;
mod metrics;
mod queue;
mod receiver;
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
pub use metrics::{MetricsSource, MetricsText};
pub use receiver::LineSender;
pub use resource::ProcessIdentity;
pub use signal::Signal;
pub use transport::{CertificatesError, Credentials, EndpointError, check_endpoint, read_certificates};
