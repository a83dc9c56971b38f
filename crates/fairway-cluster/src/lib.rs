//! Everything that needs a cluster: what it has, and what it is told.
//!
//! [`source`] watches the objects and tells the pipeline of `fairway-control` what changed; [`status`] tells the cluster what became
//! of its objects, and makes what Gateways need; [`webhook`] says whether a new object would do; [`fleet`] asks the other
//! replicas with the credentials of a user, [`replicas`] those of the own fleet, and [`replica_count`] counts those that are ready and says where they are; [`pods`] finds and reaches the pods of a fleet from
//! outside; [`zone_of`] says in which zone a node is.

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
    NodeAddresses, PublishAddresses, Reporter, ReporterOptions, Standing, StatusMode, TicketDuties,
};
pub use webhook::Webhook;
pub use zone::{ZoneError, zone_of};
