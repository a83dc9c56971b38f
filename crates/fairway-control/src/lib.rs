//! Where configuration comes from and how it reaches the workers.
//!
//! A source ([`cluster`], or `crate::directory` with [`manifest`]s from disk) tells the [`pipeline`] what changed; its [`engine`]
//! translates and compiles; the snapshot is handed to whoever publishes it, and replaced ones are kept until nobody uses
//! them ([`retired`]). [`status`] tells the cluster what became of its objects,
//! [`webhook`] whether a new one would do. [`admin`] answers questions about all
//! this. Nothing here is on the path of a request, and nothing here knows the data plane: it sees only the snapshots go.

pub mod admin;
pub mod clock;
pub mod cluster;
pub mod digest;
pub mod directory;
pub mod engine;
mod exposition;
pub mod fleet;
pub mod inlet;
mod journal;
pub mod pipeline;
mod places;
mod propagation;
mod resolve;
mod retired;
mod secrets;
pub mod state;
pub mod status;
mod trial;
pub mod webhook;

pub use cluster::Cluster;
pub use digest::Digest;
pub use engine::{Durations, Effect, Engine, Outcome};
pub use inlet::{Batch, Inlet};
pub use pipeline::{Freshness, Pipeline, Publication, Publish, View, Viewer};
pub use propagation::Propagation;
pub use status::{PublishAddresses, Reporter, ReporterOptions, Standing, StatusMode};
pub use trial::{Trial, Verdict};
pub use webhook::Webhook;
