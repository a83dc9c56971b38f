//! A route in no peer's words. Never knows Kubernetes objects.

/// One host whose paths go to one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Name of its objects.
    pub name: String,
    /// The namespace of these objects, of the Service and of the TLS Secret.
    pub namespace: String,
    /// The host.
    pub host: String,
    /// The Service behind every path of it.
    pub service: String,
    /// The number of the Service's port.
    pub port: u16,
    /// HTTPS with the Secret [`CERTIFICATE`](super::CERTIFICATE); plain HTTP is served too, without a redirect to HTTPS.
    pub tls: bool,
    /// Changes of requests and responses.
    pub filters: Filters,
}

/// The route settings that the studies change under load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// CORS headers for every origin.
    pub cors: bool,
    /// A header for each response: name and value.
    pub response_header: Option<(String, String)>,
    /// Paths below this prefix are forwarded without it, e.g. `/rewritten`; other paths go on as they are.
    pub rewrite: Option<String>,
    /// One more route: this path of the host redirects (302) to another address.
    pub redirect: Option<(String, String)>,
}
