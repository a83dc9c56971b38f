//! Everything that talks to a cluster.
//!
//! [`source`] watches objects and sends changes to the pipeline of `fairway-control`; [`status`] writes status and Events and
//! creates what Gateways need; [`webhook`] reviews new objects; [`fleet`] queries other replicas with a user's credentials,
//! [`replicas`] those of the own fleet; [`replica_count`] counts and locates the ready ones; [`pods`] finds and reaches the pods
//! of a fleet from outside; [`zone_of`] reads a node's zone.

pub mod fleet;
pub mod pods;
mod replica_count;
mod replicas;
mod served;
pub mod source;
pub mod status;
#[cfg(test)]
mod testing;
pub mod webhook;
mod zone;

pub use replica_count::{ReadyReplicas, follow_ready_replicas};
pub use replicas::{OtherReplicas, Replicas};
pub use source::Cluster;
pub use status::{
    NodeAddresses, PublishAddresses, Reporter, ReporterOptions, ReporterState, StatusMode, TicketOptions,
};
pub use webhook::Webhook;
pub use zone::{ZoneError, zone_of};
