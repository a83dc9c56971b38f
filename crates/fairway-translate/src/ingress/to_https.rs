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
