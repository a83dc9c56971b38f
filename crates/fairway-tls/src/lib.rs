//! TLS on both sides, with rustls and aws-lc-rs: which certificate and which cipher suites a client gets, what its own
//! certificate is worth, and what is believed of an endpoint. Makes what rustls is told from the configuration; it never touches a connection.

mod agreed;
mod chain;
mod clients;
mod der;
mod identities;
mod key_exchange;
mod roots;
mod signatures;
mod subject;
mod suites;
mod upstream;
mod version_one;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use agreed::Agreed;
pub use clients::{ClientTrust, Shown};
pub use identities::{Identities, IdentityError, SelfSigned, ServerTls};
pub use suites::{Clients, for_host};
pub use upstream::client_config;
