//! How configuration reaches the workers.
//!
//! A source (a cluster, in its own crate, or [`directory`]) sends changes to the [`pipeline`]; its [`engine`] translates and
//! compiles; each snapshot goes to a publisher, and replaced ones are kept until they are unused. [`dry_run`] reviews an object,
//! [`state`] keeps the last good configuration on disk, and [`admin`] serves pages about all this. Nothing here is on the path of
//! a request, needs a Kubernetes client, or knows the data plane. What cannot be read never removes what was read before, and the
//! last reference to a replaced snapshot is dropped here, not on a worker.

pub mod admin;
mod changed;
pub mod clock;
pub mod connection_slots;
mod digest;
pub mod directory;
pub mod dry_run;
pub mod engine;
pub mod exposition;
mod first_format;
pub mod generations;
pub mod input;
mod journal;
pub mod pipeline;
mod propagation;
mod resolve;
mod retired;
mod secrets;
pub mod state;

pub use changed::ChangedObjects;
pub use digest::Digest;
pub use dry_run::{Trial, Verdict};
pub use engine::{Durations, Effect, Engine, EngineOutput};
pub use input::{ChangeBatch, Inlet};
pub use pipeline::{Freshness, Pipeline, Publication, PublishSnapshot, View, Viewer};
pub use propagation::Propagation;
