//! TLS on both sides, with rustls and aws-lc-rs: which certificate a client gets, and what is believed of an endpoint.

pub(crate) mod accept;
pub(crate) mod identities;
pub(crate) mod suites;
pub(crate) mod upstream;

pub use identities::SelfSigned;
pub(crate) use identities::{Identities, ServerTls};
