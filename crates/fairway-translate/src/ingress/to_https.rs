//! When plain requests are sent to https. Owns the notion only; annotations and settings choose.

use std::sync::Arc;

/// ingress-nginx: `http-redirect-code` 308.
const STATUS: u16 = 308;
/// ingress-nginx: `no-tls-redirect-locations`.
const NEVER: &str = "/.well-known/acme-challenge";

/// How plain requests are sent to https where an Ingress says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Https {
    pub(crate) when: ToHttps,
    /// `preserve-trailing-slash`.
    pub(crate) slash: Slash,
    /// `http-redirect-code`.
    pub(crate) status: u16,
    /// `no-tls-redirect-locations`: paths of an Ingress that begin so are not.
    pub(crate) never: Vec<Arc<str>>,
}

impl Default for Https {
    fn default() -> Self {
        Self {
            when: ToHttps::WithCertificate,
            slash: Slash::Dropped,
            status: STATUS,
            never: vec![NEVER.into()],
        }
    }
}

/// When plain requests are sent to https.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToHttps {
    /// Never.
    Never,
    /// When the host has a certificate.
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
