//! What is written to the cluster: the addresses in the status of Ingresses, the statuses of objects of the Gateway API with what
//! Gateways have ([`gateways`]), and Events about what is wrong.
//!
//! [`Reporter`] runs all this on a thread of its own, so that a slow or absent API server delays nothing else.
//! `election` keeps the Lease by the rules of `lease`; only its holder writes. `publish` follows the addresses of this
//! fleet, `schedule` says which Ingress's status differs from them, `writer` carries that out, `contest` notices another
//! writer. `objects` says whose status is due of the Gateway API, `statement` what of it differs from what it should say,
//! `replacements` whether another writer has replaced it, `object_writer` carries all that out. `fleet` knows whether this is
//! the last replica. `tickets` keeps the ticket keys of TLS sessions. `notices` says which diagnostic is due as an Event, `event` words it, `recorder` writes it. `pace`
//! bounds how often the API server is asked, `permission` words what it refuses, `alternative` remembers which of two
//! permissions is granted.

mod alternative;
mod contest;
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
mod standing;
mod statement;
#[cfg(test)]
mod tests;
mod tickets;
mod updates;
mod writer;

pub(crate) use fleet::{Fleet, is_ready};
pub use gateways::{Asker, Bindings, PlaceOptions, PortRange, ServiceType};
pub use nodes::NodeAddresses;
pub use object_writer::Versions;
pub use publish::PublishAddresses;
pub use reporter::{Connect, GatewayDuties, Reporter, ReporterOptions, StatusMode};
pub use standing::Standing;
pub use tickets::{AdoptLogouts, AdoptTicketKeys, LogoutNotice, TicketDuties};
