//! What the data plane has counted, as the dashboard shows it. Counts nothing itself.

use std::fmt;
use std::time::Duration;

/// What the data plane has counted since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Requests that are over.
    pub requests: u64,
    /// Those with a response, by the first digit of its status; 1xx comes first.
    pub by_class: [u64; 5],
    /// Requests whose response was not the endpoint's, or incomplete.
    pub faults: Vec<FaultCount>,
    /// Connections of clients that are open now.
    pub open_connections: u64,
    /// Requests of the last 24 hours that failed on nobody else's account.
    pub self_inflicted_last_day: u64,
    /// How long half of the requests took at most.
    pub p50: Option<TimeBound>,
    /// How long 99 of 100 requests took at most.
    pub p99: Option<TimeBound>,
}

/// Faults of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultCount {
    /// `client`, `configuration`, `endpoint`, `service` or `fairway`.
    pub caused_by: &'static str,
    /// A value of `reason` in docs/metrics.md.
    pub reason: &'static str,
    /// How many there were.
    pub count: u64,
}

/// What the buckets of a histogram say of a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// At most this long.
    AtMost(Duration),
    /// Longer than this.
    Above(Duration),
}

impl Numbers {
    /// The faults that somebody caused.
    pub(super) fn caused_by(&self, cause: &str) -> u64 {
        let own = self.faults.iter().filter(|fault| fault.caused_by == cause);
        own.map(|fault| fault.count).sum()
    }
}

impl fmt::Display for TimeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "at most {} s", bound.as_secs_f64()),
            Self::Above(bound) => write!(f, "more than {} s", bound.as_secs_f64()),
        }
    }
}
