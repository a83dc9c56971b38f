//! How configuration reaches the workers.
//!
//! A source (a cluster, which is a crate of its own, or [`directory`]) tells the [`pipeline`] what changed; its [`engine`]
//! translates and compiles; the snapshot is handed to whoever publishes it, and replaced ones are kept until nobody uses
//! them. [`trial`] says what an object would do, [`state`] keeps the last good configuration on disk, and [`admin`] answers
//! questions about all this. Nothing here is on the path of a request, needs a client of Kubernetes, or knows the data plane: it
//! sees only the snapshots go. What cannot be read never takes away what was read before, and the last reference to a replaced
//! snapshot is dropped here, not on a worker.

pub mod admin;
mod changed;
pub mod clock;
mod digest;
pub mod directory;
pub mod engine;
pub mod exposition;
mod first_format;
pub mod generations;
pub mod inlet;
mod journal;
pub mod pipeline;
pub mod places;
mod propagation;
mod resolve;
mod retired;
mod secrets;
pub mod state;
pub mod trial;

pub use changed::ChangedObjects;
pub use digest::Digest;
pub use engine::{Durations, Effect, Engine, Outcome};
pub use inlet::{Batch, Inlet};
pub use pipeline::{Freshness, Pipeline, Publication, Publish, View, Viewer};
pub use propagation::Propagation;
pub use trial::{Trial, Verdict};
