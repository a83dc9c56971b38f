//! HAProxy: endpoints go through the runtime API into preallocated server slots; everything else, and a lack of slots,
//! needs a new configuration and a reload without closing sockets. HAProxy's own ingress controller does the same.

mod drive;
mod render;
mod slots;

pub(crate) use drive::Haproxy;
#[cfg(test)]
pub(crate) use render::maps;
pub(crate) use render::render;
pub(crate) use slots::Slots;
