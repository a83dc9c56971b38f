//! The validating webhook: reports what `fairway check` would report, before an Ingress is stored.
//!
//! `server` accepts connections from the API server within the limits of [`fairway_control::places`], `certificate` reloads the
//! TLS files, `judge` runs one review at a time, `review` decodes requests and builds responses, `reviews` counts. The review
//! itself is [`fairway_control::trial`]; it publishes and changes nothing. If a review is not possible, the webhook allows the
//! request: it must never block users.

mod certificate;
mod judge;
mod review;
mod reviews;
mod server;

pub use certificate::{CertificateError, CertificateFiles};
pub use reviews::Reviews;
pub use server::{Webhook, WebhookError};
