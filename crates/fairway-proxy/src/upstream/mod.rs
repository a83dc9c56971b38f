//! The pods' side of one worker: what connects with endpoints, and what may be spent on retries and races. Their groups,
//! health and idle connections are `fairway_connection::upstream`'s.

pub(crate) mod blame;
pub(crate) mod connect;
#[cfg(test)]
mod tests;

pub(crate) use connect::{Connected, Connecting, Connector, fault_of};
pub(crate) use fairway_connection::upstream::{
    Chosen, ConnectionPlace, Endpoint, Errand, Full, Group, Groups, Lease, Opened, Pending, Picks,
    RequestPlace, Room, Tried, Underway, endpoint, health,
};
