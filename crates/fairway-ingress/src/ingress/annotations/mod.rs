//! The annotations of ingress-nginx, one file per family: which names it has, what each of them does or what is lost
//! without it, which objects they name, and how they are read into contributions.
//!
//! [`families`] lists the families; the table of known names ([`registry`]), the diagnostics for what is not supported
//! ([`read`]) and `docs/annotations.md` follow from it.

pub(crate) mod families;
pub(crate) mod family;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod registry;

mod access;
mod answers;
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
mod retries;
mod rewrite;
mod server;
mod session;
mod snippets;
mod upstream;
