//! Names of objects and fields that scenarios and peers agree on.

#[cfg(doc)]
use super::route::{Filters, Route};

/// The label that the pods of a peer's data plane carry, with the peer's name: their CPU is what a request costs.
pub const PROXY_LABEL: &str = "lab.fairway.dev/proxy";

/// The name of the Deployment of the data plane, and of its LoadBalancer Service (ports 80 and 443), in the placement's
/// namespace.
pub const PROXY: &str = "proxy";

/// The name of the Secret (kubernetes.io/tls) with the certificate for every host of a run, in the namespace of the
/// backends, which [`Route::namespace`] names.
pub const CERTIFICATE: &str = "lab-certificate";

/// The one header that [`Filters::response_header`] may add: Fairway, as ingress-nginx, wants its name allowed when it is
/// installed.
pub const RESPONSE_HEADER: &str = "X-Lab-Filter";

/// A peer's name as objects of Kubernetes and images may have it: `nginx-1-22` for `nginx@1.22`.
#[must_use]
pub fn label(peer: &str) -> String {
    peer.replace(['@', '.'], "-")
}
