//! When plain requests are redirected to https, and the form of redirects. Annotations and settings set the values.

use std::sync::Arc;

/// ingress-nginx: default of `http-redirect-code`.
const DEFAULT_STATUS: u16 = 308;
/// ingress-nginx: default of `no-tls-redirect-locations`.
const DEFAULT_EXEMPT_PATH: &str = "/.well-known/acme-challenge";

/// Redirect defaults.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Https {
    pub(crate) redirects: Redirects,
    /// `http-redirect-code`.
    pub(crate) status: u16,
    /// `no-tls-redirect-locations`: path prefixes that are not redirected.
    pub(crate) never_redirected: Vec<Arc<str>>,
}

impl Default for Https {
    fn default() -> Self {
        Self {
            redirects: Redirects::default(),
            status: DEFAULT_STATUS,
            never_redirected: vec![DEFAULT_EXEMPT_PATH.into()],
        }
    }
}

/// Which redirects an Ingress makes, and their form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Redirects {
    pub(crate) when: ToHttps,
    /// `preserve-trailing-slash`: whether the redirect to https keeps a trailing slash.
    pub(crate) keep_trailing_slash: bool,
    /// `use-port-in-redirects`: whether redirects to https include the port even if it is 443.
    pub(crate) explicit_port: bool,
    /// `relative-redirects`: whether redirects to another path of the host contain only the path.
    pub(crate) relative: bool,
}

/// When plain requests are redirected to https: two switches, each with an annotation and a key of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToHttps {
    /// `ssl-redirect`: if the host has a certificate.
    pub(crate) with_certificate: bool,
    /// `force-ssl-redirect`: always, because TLS may terminate in front of the proxy.
    pub(crate) always: bool,
}

impl ToHttps {
    pub(crate) const NEVER: Self = Self { with_certificate: false, always: false };

    /// Whether plain requests for a host are redirected.
    pub(crate) fn applies(self, has_certificate: bool) -> bool {
        self.always || (self.with_certificate && has_certificate)
    }
}

impl Default for ToHttps {
    fn default() -> Self {
        Self { with_certificate: true, always: false }
    }
}
