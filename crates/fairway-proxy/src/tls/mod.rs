//! TLS on both sides, with rustls and aws-lc-rs: certificates and cipher suites for clients, verification of
//! clients and endpoints. Builds rustls configurations; touches no connections except those to OCSP responders,
//! made by a thread of `ocsp`. An unchanged certificate keeps its parsed form.

mod chain;
mod clients;
mod der;
mod identities;
mod key_exchange;
mod negotiated;
mod ocsp;
mod roots;
mod signatures;
mod subject;
mod suites;
mod tickets;
mod upstream;
mod version_one;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use clients::{ClientCertificate, ClientTrust};
pub(crate) use identities::{Identities, ServerTls};
pub use identities::{IdentityError, SelfSigned};
pub(crate) use negotiated::NegotiatedTls;
pub use ocsp::Stapling;
pub(crate) use ocsp::StaplingFigures;
pub(crate) use suites::{ClientAuth, config_for_host};
pub use tickets::SessionTickets;
pub(crate) use tickets::{KeySource, TicketFigures, TicketGroup};
pub(crate) use upstream::client_config;
