//! The pods' side of one worker: groups of endpoints, their health and their idle connections.
//!
//! All of it belongs to one worker and outlives snapshots: a group follows its backend, an endpoint its address and
//! everything that makes two connections to it alike.

pub(crate) mod connect;
pub(crate) mod endpoint;
pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod lease;
pub(crate) mod room;
#[cfg(test)]
mod tests;

pub(crate) use connect::{Connecting, Connector, fault_of};
pub(crate) use endpoint::{Chosen, Endpoint, Errand, Underway};
pub(crate) use group::{Group, Groups, Tried};
pub(crate) use lease::Lease;
pub(crate) use room::Room;
