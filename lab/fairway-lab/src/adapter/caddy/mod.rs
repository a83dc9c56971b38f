//! Caddy: every change, endpoints included, is the whole configuration as JSON, given to the admin API, which Caddy takes
//! over gracefully within its process; one at a time. As Caddy's ingress controller does it, which links Caddy and loads
//! its configuration anew for every change.

mod drive;
mod render;

pub(crate) use drive::Caddy;
pub(crate) use render::render;
