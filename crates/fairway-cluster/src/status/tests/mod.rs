//! Replicas against a scripted API server, in virtual time.

mod contests;
mod election;
mod events;
mod gateways;
mod objects;
mod scripted;
mod status;
mod world;
