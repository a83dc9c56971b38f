//! Caddy: each change, including endpoints, loads the complete JSON configuration through the admin API, one at a time;
//! Caddy applies it gracefully within its process. Caddy's ingress controller, which links Caddy, does the same.

mod drive;
mod render;

pub(crate) use drive::Caddy;
pub(crate) use render::render;
