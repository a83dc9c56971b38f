//! The stages of an update in order. Each is an `impl` of `Gateways`.

mod classes;
mod gateways;
mod host_conflicts;
mod hosts;
mod own_policies;
mod placement;
mod policies;
mod pools;
mod routes;
mod shared_hosts;
mod statuses;
