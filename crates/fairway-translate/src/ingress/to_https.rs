//! When plain requests are sent to https. Owns the notion only; annotations and settings choose.

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
