//! The cluster that scenarios run in: objects are applied, scaled and waited for through its API, as a person would do.
//!
//! [`Cluster`] is the cluster of the kubeconfig, [`Testbed`] a complete one started by the laboratory. Everything that a
//! run creates is labelled, and removed at its end ([`Cluster::sweep`]). Sends no request through a proxy.

mod client;
mod follow;
mod objects;
mod pods;
mod testbed;
mod usage;
mod wait;

pub use client::Cluster;
pub use follow::{Following, Version};
pub use objects::OWNED;
pub use pods::ProxyPod;
pub use testbed::Testbed;
pub use wait::WAIT_TIMEOUT;
