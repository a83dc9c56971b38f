//! The annotations of ingress-nginx, one file per family: names, effects or missing effects, referenced objects, and
//! how they are read into contributions.
//!
//! [`families`] lists the families; the table of known names ([`registry`]), the diagnostics for unsupported
//! annotations ([`read`]) and `docs/annotations.md` are derived from it.

pub(crate) mod families;
pub(crate) mod family;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod registry;

mod access;
mod authentication;
mod balancing;
mod buffering;
mod canary;
mod client_certificates;
mod cors;
mod errors;
mod firewall;
mod headers;
mod limits;
mod mirror;
mod observability;
mod rate_limits;
mod redirect;
mod response_headers;
mod retries;
mod rewrite;
mod server;
mod session;
mod snippets;
mod upstream;
