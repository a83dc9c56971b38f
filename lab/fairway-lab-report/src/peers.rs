//! The names of peers that the page knows: those of the laboratory, and the two that mean something to it.

/// Peers that the laboratory knows, which always have the same colour.
pub const KNOWN: [&str; 8] =
    ["fairway", "nginx", "nginx-reload", "haproxy", "envoy", "contour", "traefik", "caddy"];

/// The stream straight to the pods.
pub(super) const DIRECT: &str = "direct";

/// The peer that others are compared with.
pub(super) const FAIRWAY: &str = "fairway";
