//! nginx: every change is a new configuration and a reload, endpoints included, one reload at a time, as NGINX Ingress
//! Controller does it for nginx without Plus.

mod drive;
mod render;

pub(crate) use drive::Nginx;
pub(crate) use render::render;
