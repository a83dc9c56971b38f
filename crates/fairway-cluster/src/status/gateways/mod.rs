//! Where Gateways are reachable in a cluster: each has ports on Fairway's pods, a Service, and EndpointSlices that connect the
//! two.
//!
//! `provisioner` compares and acts: the leader allocates ports and writes Services, every replica copies its pods into EndpointSlices
//! and reports placements to the pipeline. `fairway_gateway::fleet` decides what should exist, and `plan` collects it for all
//! Gateways; `sources` watch what exists, `edits` write, `retries` track retries, `bindings` know what the data plane has bound,
//! and `replicas` what the other replicas serve.

mod bindings;
mod edits;
mod plan;
mod provisioner;
mod replicas;
mod retries;
mod sources;

pub use bindings::Bindings;
pub use fairway_gateway::fleet::ports::PortRange;
pub use fairway_gateway::fleet::services::ServiceType;
pub use provisioner::GatewayKeeperOptions;
pub(super) use provisioner::{GatewayKeeper, GatewaySignals};
pub use replicas::ReplicaClient;
