//! What is written to the cluster: addresses in the status of Ingresses, the status of Gateway API objects, the objects of
//! Gateways ([`gateways`]), and Events about problems.
//!
//! [`Reporter`] runs all this on its own thread, so that a slow or absent API server delays nothing else. `election` keeps the
//! Lease by the rules of `lease`; only its holder writes. For Ingresses, `publish` follows the addresses of this fleet,
//! `schedule` finds statuses that differ from them, `writer` writes them, `contending_writer` detects another writer. For the Gateway API,
//! `objects` schedules writes, `statement` finds what differs, `replacements` detects another writer, `object_writer` writes.
//! `fleet` knows whether this is the last replica. `tickets` keeps the TLS session ticket keys. `notices` schedules Events,
//! `event` formats them, `recorder` writes them. `pace` limits the rate of requests, `permission` reports refusals, `alternative`
//! remembers which of two permissions is granted.

mod alternative;
mod contending_writer;
mod election;
mod event;
mod fleet;
mod gateways;
mod lease;
mod nodes;
mod notices;
mod object_writer;
mod objects;
mod observed;
mod pace;
mod pauses;
mod permission;
mod publish;
mod recorder;
mod replacements;
mod reporter;
mod schedule;
mod shared_state;
mod statement;
#[cfg(test)]
mod tests;
mod tickets;
mod updates;
mod writer;

pub(crate) use fleet::{OwnFleet, is_ready};
pub use gateways::{Bindings, GatewayKeeperOptions, PortRange, ReplicaClient, ServiceType};
pub use nodes::NodeAddresses;
pub use object_writer::Versions;
pub use publish::PublishAddresses;
pub use reporter::{Connect, GatewayStatusOptions, Reporter, ReporterOptions, StatusMode};
pub use shared_state::ReporterState;
pub use tickets::{AdoptLogouts, AdoptTicketKeys, LogoutNotice, TicketOptions};
