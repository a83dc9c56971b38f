//! Problems with keys of the settings ConfigMap.

/// Why a key does not have its full effect.
#[derive(Clone, Copy)]
pub(super) enum KeyProblem {
    /// The value is invalid; contains what it should be.
    NotA(&'static str),
    /// The same for a value that must not be shown.
    NotASecret(&'static str),
    /// A part of the value is invalid; contains what it should be and the consequence.
    Partly(&'static str, &'static str),
    /// The key works; contains additional information.
    Note(&'static str, &'static str),
    /// The key does not have the full effect that it has in ingress-nginx.
    Lost(&'static str, &'static str),
    /// The key protects and is not supported.
    Unprotected(&'static str),
    /// The key asks for the web application firewall, but there is none.
    NoFirewall,
    /// The key protects, and its value is unreadable.
    Unreadable(&'static str),
    /// Unknown key.
    Unknown,
}
