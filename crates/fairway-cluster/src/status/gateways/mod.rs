//! Where Gateways are, in a cluster: each has ports of Fairway's pods, a Service, and EndpointSlices that lead from one to the other.
//!
//! `keeper` looks at all of it and does what is missing: the leader gives ports and writes Services, every replica copies its
//! pods into EndpointSlices and tells the pipeline where Gateways are. What should be there is decided by
//! `fairway_gateway::fleet`, and `plan` has it for all Gateways; `sources` follow what is there, `edits` write, `efforts` know what
//! was tried, `bindings` say what the data plane has bound, and `replicas` what the other replicas serve.

mod bindings;
mod edits;
mod efforts;
mod keeper;
mod plan;
mod replicas;
mod sources;

pub use bindings::Bindings;
pub use fairway_gateway::fleet::ports::PortRange;
pub use fairway_gateway::fleet::services::ServiceType;
pub use keeper::PlaceOptions;
pub(super) use keeper::{Keeper, Signals};
pub use replicas::Asker;
