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
    /// `preserve-trailing-slash`: whether the redirect to https keeps one trailing slash of the path.
    pub(crate) keep_trailing_slash: bool,
    /// `use-port-in-redirects`: whether redirects to https have the port even if it is 443.
    pub(crate) explicit_port: bool,
    /// `relative-redirects`: whether a redirect to another path of the same host has the path only, not scheme and host.
    pub(crate) relative: bool,
}

/// When plain requests are sent to https: two switches, each with an annotation and a key of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToHttps {
    /// `ssl-redirect`: when the host has a certificate.
    pub(crate) with_certificate: bool,
    /// `force-ssl-redirect`: always; TLS may end before the proxy.
    pub(crate) always: bool,
}

impl ToHttps {
    pub(crate) const NEVER: Self = Self { with_certificate: false, always: false };

    /// Whether plain requests for a host are sent there.
    pub(crate) fn applies(self, has_certificate: bool) -> bool {
        self.always || (self.with_certificate && has_certificate)
    }
}

impl Default for ToHttps {
    fn default() -> Self {
        Self { with_certificate: true, always: false }
    }
}
