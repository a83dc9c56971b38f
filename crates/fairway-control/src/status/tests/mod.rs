//! Replicas against a scripted API server, in virtual time.

mod election;
mod events;
mod scripted;
mod status;
mod world;
