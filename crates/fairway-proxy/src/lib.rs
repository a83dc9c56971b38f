//! The data plane: workers, listeners, connections, exchanges, endpoints.
//!
//! A [`Proxy`] serves by the latest [`fairway_routing::Snapshot`] that its [`Publisher`] was given. It knows nothing of
//! Kubernetes. Modules in the order in which a request meets them: [`thread`], [`accept`] on what is [`listening`],
//! [`proxy_protocol`] and [`tls`], [`downstream`], [`exchange`] with [`filter`] and [`request`], [`upstream`], the codec
//! [`h1`] behind the two [`sides`] of an exchange, [`wire`] and [`transport`]; beside them [`worker`], [`publish`],
//! [`metrics`] and [`access_log`], and what bounds them all, [`memory`] and [`descriptors`]. Each imports only what stands
//! below it.

mod accept;
mod access_log;
mod buffers;
mod clock;
mod counts;
mod descriptors;
mod downstream;
mod exchange;
mod fault;
mod filter;
mod frames;
mod grpc;
mod h1;
mod h2;
mod listener;
mod listening;
mod memory;
mod metrics;
mod network;
mod options;
mod pace;
mod peer;
mod proxy;
mod proxy_protocol;
mod publish;
mod record;
mod request;
mod shortage;
mod sides;
mod spares;
mod sys;
#[cfg(test)]
mod testing;
mod thread;
mod tls;
mod transport;
mod upstream;
mod wire;
mod worker;

pub use fault::{Fault, Party};
pub use listener::BindError;
pub use memory::MemoryBudget;
pub use options::{AccessLogFormat, DrainOptions, Limits, ProxyOptions, ProxyProtocol, ProxyProtocolOn};
pub use proxy::{Proxy, ProxyHandle, StartError};
pub use publish::{CertificateProblem, PublishProblem, Publisher};
pub use tls::SelfSigned;
pub use tls::identities::IdentityError;
