//! The load generator: sends requests as a [`Plan`] says and tells what became of each.
//!
//! ```text
//! Plan ─► Stream ─► threads, each: schedule ─► worker ─► slots: http1 | http2 over transport, http3 over quic ─► tally
//!                                                                                 all tallies ─► Outcome
//! ```
//!
//! In an open loop ([`Pace::Open`]) latency counts from the intended time, so that a server that stalls is seen by all
//! requests that should have been sent meanwhile (no coordinated omission). Latency is that of complete answers of any
//! status, as wrk2 and vegeta have it; what failed without an answer is in the errors, by class. Its own HTTP/1 reader
//! shares nothing with the proxy's.

pub mod command;

mod answer;
mod compose;
mod fates;
mod frames;
mod http1;
mod http2;
mod http3;
mod outcome;
mod pipe;
mod plan;
mod poller;
mod probe;
mod qpack;
mod quic;
mod schedule;
mod series;
mod shared;
mod slot;
mod sought;
mod stream;
mod summary;
mod tally;
pub mod target;
mod tls;
mod transport;
mod urgency;
mod worker;

pub use fates::{Ended, Fates, Id};
pub use outcome::{Outcome, at_percent, distribution, write_histogram};
pub(crate) use plan::duration;
pub use plan::{
    Bounds, Expect, Pace, Plan, Protocol, Records, RequestPlan, Reuse, Shape, Target, TlsPlan, TlsVersion,
    Verify, Wire,
};
pub use shared::Progress;
pub use stream::{Segment, Stream};
