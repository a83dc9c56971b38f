//! The validating webhook: says before an Ingress is stored what `fairway check` would say about it.
//!
//! `server` accepts connections of the API server within bounds, `certificate` keeps the TLS files up to date, `review`
//! reads the question and words the answer; the judgement is [`crate::trial`]'s. Nothing is published, nothing is
//! changed. Whenever it cannot judge, it allows: it must never stand between a user and the cluster.

mod certificate;
mod review;
mod server;

pub use certificate::CertificateError;
pub use server::{Webhook, WebhookError};
