//! The data plane: workers, listeners, connections, exchanges, endpoints.
//!
//! A [`Proxy`] serves by the latest [`fairway_routing::Snapshot`] that its [`Publisher`] was given. It knows nothing of
//! Kubernetes. Modules in the order in which a request meets them: [`listener`] and [`accept`], [`proxy_protocol`] and
//! [`tls`], [`downstream`], [`exchange`] with [`filter`], [`upstream`]; below all of them [`transport`], [`wire`] and
//! [`h1`]; beside them [`worker`], [`publish`], [`metrics`] and [`access_log`].

mod accept;
mod access_log;
mod clock;
mod downstream;
mod exchange;
mod fault;
mod filter;
mod h1;
mod listener;
mod metrics;
mod options;
mod proxy;
mod proxy_protocol;
mod publish;
mod sys;
#[cfg(test)]
mod testing;
mod tls;
mod transport;
mod upstream;
mod wire;
mod worker;

pub use fault::{Fault, Party};
pub use listener::BindError;
pub use options::{AccessLogFormat, DrainOptions, Limits, ProxyOptions, ProxyProtocol, ProxyProtocolOn};
pub use proxy::{Addresses, Proxy, ProxyHandle, StartError};
pub use publish::{CertificateProblem, Publisher};
pub use tls::SelfSigned;
pub use tls::identities::IdentityError;
