//! What is wrong with a key of the settings ConfigMap. Owns no key and no wording.

/// Why a key has not the effect that it should have.
#[derive(Clone, Copy)]
pub(super) enum KeyProblem {
    /// The value is not what it should be.
    NotA(&'static str),
    /// The same of a value that must not be shown.
    NotASecret(&'static str),
    /// A part of the value is not what it should be, and what becomes of it.
    Partly(&'static str, &'static str),
    /// The key works, with something to know.
    Note(&'static str, &'static str),
    /// The key has not the whole effect that it has in ingress-nginx.
    Lost(&'static str, &'static str),
    /// The key protects and is not supported.
    Unprotected(&'static str),
    /// The key asks for the web application firewall, and there is none.
    NoFirewall,
    /// The key protects, and its value cannot be read.
    Unreadable(&'static str),
    /// The key is not known.
    Unknown,
}
