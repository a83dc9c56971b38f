//! Replicas against a scripted API server, in virtual time.

mod election;
mod scripted;
mod status;
mod world;
