//! TLS on both sides, with rustls and aws-lc-rs: which certificate and which cipher suites a client gets, what its own
//! certificate is worth, and what is believed of an endpoint. Makes what rustls is told from the configuration; it never touches a connection,
//! except those to OCSP responders, which a thread of `ocsp` asks.
//! A certificate whose content did not change keeps its parsed form.

mod agreed;
mod chain;
mod clients;
mod der;
mod identities;
mod key_exchange;
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

pub(crate) use agreed::Agreed;
pub(crate) use clients::{ClientTrust, Shown};
pub(crate) use identities::{Identities, ServerTls};
pub use identities::{IdentityError, SelfSigned};
pub use ocsp::Stapling;
pub(crate) use ocsp::StaplingFigures;
pub(crate) use suites::{Clients, for_host};
pub use tickets::SessionTickets;
pub(crate) use tickets::{Group, KeySource, TicketFigures};
pub(crate) use upstream::client_config;
