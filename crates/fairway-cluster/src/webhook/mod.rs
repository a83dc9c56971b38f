//! The validating webhook: reports what `fairway check` would report, before an Ingress is stored.
//!
//! `server` accepts connections from the API server within the limits of [`fairway_control::connection_slots`], `certificate` reloads the
//! TLS files, `review_queue` runs one review at a time, `review` decodes requests and builds responses, `reviews` counts. The review
//! itself is [`fairway_control::dry_run`]; it publishes and changes nothing. If a review is not possible, the webhook allows the
//! request: it must never block users.

mod certificate;
mod review;
mod review_queue;
mod reviews;
mod server;

pub use certificate::{CertificateError, CertificateFiles};
pub use reviews::Reviews;
pub use server::{Webhook, WebhookError};
