//! The load generator: sends requests according to a [`Plan`] and reports the outcome of each.
//!
//! ```text
//! Plan ─► Stream ─► threads, each: schedule ─► worker ─► slots: http1 | http2 over transport, http3 over quic ─► tally
//!                                                                                 all tallies ─► Outcome
//! ```
//!
//! In an open loop ([`Pace::Open`]), latency counts from the intended time, so a stall shows in all requests that were due
//! during it (no coordinated omission). As in wrk2 and vegeta, latency covers complete responses of any status; requests
//! without a response count as errors, by class. The HTTP/1 parser shares no code with the proxy.

pub mod command;

mod compose;
mod frames;
mod http1;
mod http2;
mod http3;
mod outcome;
mod outcomes;
mod pipe;
mod plan;
mod poller;
mod probe;
mod qpack;
mod quic;
mod response;
mod schedule;
mod searched_fields;
mod series;
mod shared;
mod slot;
mod stream;
mod summary;
pub mod target;
mod thread_counts;
mod tls;
mod transport;
mod urgency;
mod worker;

pub use outcome::{Outcome, at_percent, distribution, write_histogram};
pub use outcomes::{Fates, FinishedRequest, Id};
pub(crate) use plan::duration;
pub use plan::{
    Bounds, Expect, Pace, Plan, Protocol, Records, RequestPlan, Reuse, Shape, Target, TlsPlan, TlsVersion,
    Verify, Wire,
};
pub use shared::Progress;
pub use stream::{Segment, Stream};
