//! Replicas against the API server of the testkit, in virtual time.

mod contests;
mod election;
mod events;
mod gateways;
mod objects;
mod status;
mod test_cluster;
mod tickets;
