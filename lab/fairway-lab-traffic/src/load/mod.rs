//! The load generator: sends requests as a [`Plan`] says and tells what became of each.
//!
//! ```text
//! Plan ─► Stream ─► threads, each: schedule ─► worker ─► slots: http1 | http2 over transport ─► tally
//!                                                                                 all tallies ─► Outcome
//! ```
//!
//! In an open loop ([`Pace::Open`]) latency counts from the intended time, so that a server that stalls is seen by all
//! requests that should have been sent meanwhile (no coordinated omission). Latency is that of complete answers of any
//! status, as wrk2 and vegeta have it; what failed without an answer is in the errors, by class. Its own HTTP/1 reader
//! shares nothing with the proxy's.

mod archive;
pub mod command;

pub(crate) mod answer;
pub(crate) mod chunks;
mod compose;
mod datagrams;
mod dialer;
mod fates;
pub(crate) mod flags;
mod head;
mod http1;
mod http2;
mod observed;
mod outcome;
mod pipe;
mod plan;
mod poller;
mod probe;
pub(crate) mod reading;
mod schedule;
mod segment;
mod series;
mod sessions;
mod shared;
mod slot;
mod stream;
mod summary;
mod tally;
pub mod target;
mod tls;
mod transport;
mod urgency;
mod worker;

pub use compose::ID_FIELD;
pub use datagrams::{DatagramOutcome, DatagramPlan, Datagrams, SessionReuse};
pub use fates::{Ended, Fates, Id};
pub use outcome::{Outcome, at_percent, distribution, keep_histograms, write_histogram};
pub use plan::{
    Bounds, Expect, Pace, Plan, Protocol, Records, RequestPlan, Reuse, Shape, Target, TlsPlan, TlsVersion,
    Verify, Wire,
};
pub use segment::Segment;
pub use shared::Progress;
pub use stream::Stream;
pub use worker::Between;
