//! What Ingress and Gateway API both refer to: Services and their endpoints, external names, certificates, and which
//! objects are named at all. Knows neither API.

pub(crate) mod backend;
pub(crate) mod balance;
pub(crate) mod certificate;
pub(crate) mod endpoints;
pub(crate) mod external;
pub(crate) mod issued;
pub(crate) mod references;
pub(crate) mod service_url;
pub(crate) mod transport;
