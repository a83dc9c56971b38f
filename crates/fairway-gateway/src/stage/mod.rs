//! The stages of an update in order. Each is an `impl` of `Gateways`.

mod classes;
mod contests;
mod gateways;
mod hosts;
mod own_policies;
mod places;
mod policies;
mod pools;
mod routes;
mod shared_hosts;
mod statuses;
