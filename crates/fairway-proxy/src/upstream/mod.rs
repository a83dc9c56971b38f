//! The upstream side of a worker: connects to endpoints, and blames them for failures. `fairway_connection::upstream` has their
//! groups, health and idle connections.

pub(crate) mod blame;
pub(crate) mod connect;
#[cfg(test)]
mod tests;

pub(crate) use connect::{Connected, Connecting, Connector, fault_of};
pub(crate) use fairway_connection::upstream::{
    ConnectInProgress, ConnectOutcome, ConnectionPermit, DescriptorRoom, Endpoint, Group, Groups, Lease,
    LimitReached, PendingRequest, PickReason, PickedEndpoint, Picks, RequestPermit, TriedMembers, endpoint,
    health,
};
