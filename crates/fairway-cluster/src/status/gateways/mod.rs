//! Where Gateways are reachable in a cluster: each has ports on Fairway's pods, a Service, and EndpointSlices that connect the
//! two.
//!
//! `keeper` compares and acts: the leader allocates ports and writes Services, every replica copies its pods into EndpointSlices
//! and reports placements to the pipeline. `fairway_gateway::fleet` decides what should exist, and `plan` collects it for all
//! Gateways; `sources` watch what exists, `edits` write, `efforts` track retries, `bindings` know what the data plane has bound,
//! and `replicas` what the other replicas serve.

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
pub use keeper::GatewayKeeperOptions;
pub(super) use keeper::{GatewayKeeper, GatewaySignals};
pub use replicas::ReplicaClient;
