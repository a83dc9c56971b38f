//! The data plane: workers, listeners, connections, exchanges, endpoints.
//!
//! A [`Proxy`] serves by the latest [`fairway_routing::Snapshot`] that its [`Publisher`] was given. It knows nothing of
//! Kubernetes. Modules in the order in which a request meets them: [`thread`], [`accept`] on what is [`listening`],
//! [`proxy_protocol`], [`hello`] and [`handshake`], [`downstream`], [`exchange`] with [`filter`] and [`request`], [`upstream`];
//! the codecs are behind the two sides of an exchange, in [`fairway_connection`]. HTTP/3 comes in over [`quic`], which has its
//! own handshake. A [`stream`] has no exchanges, and neither have datagrams. Beside them stand [`worker`], [`publish`],
//! [`access_log`], [`recorder`] and [`trace`].
//! [`access_log`], [`recorder`] and [`inspection`].
//!
//! An exchange may be dropped wherever it waits, and one whose client leaves ends at once. A request is never sent again after a byte
//! of a response came, and a non-idempotent one never after it was written. A response that breaks is never ended cleanly, and no
//! byte passes in tunnel mode before the endpoint's 101 or 2xx. Publishing keeps the latest snapshot, never a queue; adopting it
//! closes no client connection but idle ones whose listener is gone. A worker never waits for the log, and time comes from tokio's
//! clock, which tests move. Listeners are values: `listening` binds their addresses when a snapshot is published, and workers take
//! the sockets when they adopt it.
//!
//! Each imports only what stands below it. What all of them stand on is [`fairway_net`]: streams, time, and what
//! bounds them, memory and descriptors.

mod accept;
mod access_log;
mod attribution;
mod body_step;
mod body_steps;
mod buffering;
mod buffers;
mod cause;
mod checks;
mod compression;
pub mod cryptography;
mod downstream;
mod exchange;
mod fault;
mod filter;
mod geoip;
mod grpc;
mod guards;
mod handshake;
mod hello;
mod inspection;
mod l4;
mod listener;
mod listening;
pub mod log;
mod memory_share;
pub mod metrics;
mod network;
mod options;
mod peer;
mod proxy;
mod proxy_protocol;
mod publish;
mod quic;
mod recorder;
mod request;
mod stream;
#[cfg(test)]
mod testing;
mod thread;
mod tls;
pub mod trace;
mod upstream;
mod worker;

pub use crate::attribution::{Attribution, Costs, RequestOutcome};
pub use crate::cause::Cause;
pub use crate::fault::Fault;
pub use crate::geoip::{GeoIp, Location};
pub use crate::guards::{Borrower, FleetLimits, FleetSize, LeaseMessage, LeaseRound, Logouts, ShareLogout};
pub use crate::tls::{IdentityError, SelfSigned, SessionTickets, Stapling};
pub use fairway_connection::upstream::EndpointState;
pub use fairway_net::memory::{Freed, MemoryBudget, refuse_huge_pages};
pub use fairway_net::output::OutputCopies;
pub use fairway_net::{handover, inherited::Inherited, passed::passed_sockets};
pub use inspection::{ClientProtocol, EndpointQuery, EndpointStates, OpenConnections};
pub use listener::{BindError, TrustError};

pub use options::{
    AccessLogFormat, BufferOptions, DrainOptions, Limits, Opening, ProxyOptions, ProxyProtocol,
    ProxyProtocolOn, RecorderOptions,
};
pub use proxy::{Proxy, ProxyHandle, StartError};
pub use publish::{CertificateProblem, PublishProblem, Publisher, Unbound};
pub use recorder::{
    Before, QueryError, RecordedAttempt, RecordedExchange, RecordedQuery, RecordedRule, RecordedSamples,
    RecordedUpstream, SampledRequest,
};
pub use trace::{SpanContext, TraceReceiver, TraceSender, TracedExchange};
