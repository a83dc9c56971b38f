//! Envoy: listeners, routes, clusters, endpoints and secrets in files that it watches. Nothing restarts. A control plane
//! sends the same resources over gRPC.

mod drive;
mod render;

pub(crate) use drive::Envoy;
pub(crate) use render::render;
