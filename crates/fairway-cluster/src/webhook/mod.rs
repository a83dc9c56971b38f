//! The validating webhook: says before an Ingress is stored what `fairway check` would say about it.
//!
//! `server` accepts connections of the API server, [`fairway_control::places`] bounds them, `certificate` keeps the TLS files up to date,
//! `judge` lets one object at a time be judged, `review` reads the question and words the answer, `reviews` counts.
//! The judgement is [`fairway_control::trial`]'s. Nothing is published, nothing is changed. Whenever it cannot judge, it allows:
//! it must never stand between a user and the cluster.

mod certificate;
mod judge;
mod review;
mod reviews;
mod server;

pub use certificate::{CertificateError, Files};
pub use reviews::Reviews;
pub use server::{Webhook, WebhookError};
