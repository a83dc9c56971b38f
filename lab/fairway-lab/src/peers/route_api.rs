//! By which API peers are told of routes, and how those that take the Gateway API do. Never knows an object.

/// By which API a peer is told of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteApi {
    /// Ingress, or what the peer has in its place.
    #[default]
    Ingress,
    /// Gateway API.
    Gateway,
}

/// How a peer takes the Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayApi {
    /// `spec.controllerName` of its class.
    pub controller: &'static str,
    /// The ports of listeners for HTTP and for HTTPS. Clients use 80 and 443, whatever these are.
    pub ports: [u16; 2],
    /// Whether it takes ListenerSets.
    pub listener_sets: bool,
}
