//! nginx: every change is a new configuration and a reload, endpoints included, one reload at a time, as NGINX Ingress
//! Controller does it for nginx without Plus.

mod drive;
mod render;

pub use drive::{Nginx, arguments, store};
pub use render::{CONFIGURATION, render};
