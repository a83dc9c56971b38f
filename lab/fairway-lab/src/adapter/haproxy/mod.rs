//! HAProxy: endpoints through the runtime API into server slots that are there beforehand; a new configuration and a
//! reload, without a closed socket, for everything else and when slots run out. As HAProxy's own ingress controller does.

mod drive;
mod render;
mod slots;

pub(crate) use drive::Haproxy;
#[cfg(test)]
pub(crate) use render::maps;
pub(crate) use render::render;
pub(crate) use slots::Slots;
