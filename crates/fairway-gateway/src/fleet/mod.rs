//! Cluster resources of a Gateway: pod ports ([`ports`]), Services ([`services`]), EndpointSlices ([`slices`]), the
//! resulting addresses ([`placement`]), and agreement between replicas ([`agreement`]).
//!
//! Pure: current state in, desired state out. [0039](../../../docs/design/0039-gateway-addresses.md) explains the
//! design.

pub mod agreement;
pub mod names;
pub mod placement;
pub mod ports;
pub mod services;
pub mod slices;
