//! The API for a peer's routes, and how peers support the Gateway API. Knows no objects.

/// The API for a peer's routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteApi {
    /// Ingress, or the peer's replacement for it.
    #[default]
    Ingress,
    /// Gateway API.
    Gateway,
}

/// How a peer supports the Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayApi {
    /// `spec.controllerName` of its class.
    pub controller: &'static str,
    /// The ports of listeners for HTTP and for HTTPS. Clients use 80 and 443, whatever these are.
    pub ports: [u16; 2],
    /// Whether it supports ListenerSets.
    pub listener_sets: bool,
}
