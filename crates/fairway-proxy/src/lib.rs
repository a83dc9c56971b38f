//! The data plane: workers, listeners, connections, exchanges, endpoints.
//!
//! A [`Proxy`] serves the latest [`fairway_routing::Snapshot`] given to its [`Publisher`]. It knows nothing of
//! Kubernetes. A request passes through these modules in order: [`thread`], [`accept`] on the sockets of
//! [`listening`], [`proxy_protocol`], [`hello`] and [`handshake`], [`downstream`], [`exchange`] with [`filter`]
//! and [`request`], [`upstream`]. The codecs of both sides are in [`fairway_connection`]. HTTP/3 arrives over
//! [`quic`], which has its own handshake. A [`stream`] and its datagrams have no exchanges. Supporting modules:
//! [`worker`], [`publish`], [`access_log`], [`recorder`], [`trace`] and [`inspection`].
//!
//! An exchange may be dropped at any await, and ends at once when its client leaves. A request is never sent
//! again after the first byte of a response, and a non-idempotent one never after it was written. A truncated
//! response is never ended cleanly, and no byte passes in tunnel mode before the endpoint's 101 or 2xx.
//! Publishing keeps the latest snapshot, never a queue; adopting one closes only idle client connections whose
//! listener is gone. A worker never waits for the log, and time comes from tokio's clock, which tests control.
//! Listeners are values: `listening` binds their addresses when a snapshot is published, and workers take the
//! sockets when they adopt it.
//!
//! A module imports only modules below it. All rest on [`fairway_net`]: streams, time, and the limits of memory
//! and descriptors.

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
pub use fairway_net::memory::{MemoryBudget, ReturnScope, refuse_huge_pages};
pub use fairway_net::output::OutputCopies;
pub use fairway_net::{handover, inherited::InheritedSockets, passed::passed_sockets};
pub use inspection::{ClientProtocol, EndpointQuery, EndpointStates, OpenConnections};
pub use listener::{BindError, TrustError};

pub use options::{
    AccessLogFormat, BufferOptions, DrainOptions, Limits, ProxyOptions, ProxyProtocol, ProxyProtocolOn,
    RecorderOptions, StartupSockets,
};
pub use proxy::{Proxy, ProxyHandle, StartError};
pub use publish::{CertificateProblem, PublishProblem, Publisher, Unbound};
pub use recorder::{
    BeforeExchange, QueryError, RecordedAttempt, RecordedExchange, RecordedQuery, RecordedRule,
    RecordedSamples, RecordedUpstream, SampledRequest,
};
pub use trace::{SpanContext, TraceReceiver, TraceSender, TracedExchange};
