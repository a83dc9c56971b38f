//! When plain requests are sent to https, and how redirects are written. Owns the notions only; annotations and settings
//! choose.

use std::sync::Arc;

/// ingress-nginx: `http-redirect-code` 308.
const STATUS: u16 = 308;
/// ingress-nginx: `no-tls-redirect-locations`.
const NEVER: &str = "/.well-known/acme-challenge";

/// How clients are redirected where an Ingress says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Https {
    pub(crate) redirects: Redirects,
    /// `http-redirect-code`.
    pub(crate) status: u16,
    /// `no-tls-redirect-locations`: paths of an Ingress that begin so are not.
    pub(crate) never: Vec<Arc<str>>,
}

impl Default for Https {
    fn default() -> Self {
        Self { redirects: Redirects::default(), status: STATUS, never: vec![NEVER.into()] }
    }
}

/// Which redirects an Ingress makes, and how they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Redirects {
    pub(crate) when: ToHttps,
    /// `preserve-trailing-slash`.
    pub(crate) slash: Slash,
    /// `use-port-in-redirects`.
    pub(crate) port: Port,
    /// `relative-redirects`.
    pub(crate) location: Location,
}

/// Whether redirects to https say the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Port {
    /// Where it is not 443.
    #[default]
    Unusual,
    Always,
}

/// What a redirect to another path of the same host says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Location {
    /// Scheme, host and path.
    #[default]
    Absolute,
    /// The path.
    Relative,
}

/// When plain requests are sent to https.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToHttps {
    /// Never.
    Never,
    /// When the host has a certificate.
    #[default]
    WithCertificate,
    /// Always: TLS may end before the proxy.
    Always,
}

/// What the redirect to https does with one trailing slash of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slash {
    /// As ingress-nginx does by default.
    #[default]
    Dropped,
    Kept,
}
