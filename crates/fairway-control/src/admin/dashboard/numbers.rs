//! The data plane's counters, as the dashboard shows them.

use std::fmt;
use std::time::Duration;

/// Counters of the data plane since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Finished requests.
    pub requests: u64,
    /// Requests with a response, by the first digit of its status, from 1xx.
    pub by_class: [u64; 5],
    /// Requests whose response did not come from the endpoint, or was incomplete.
    pub faults: Vec<FaultCount>,
    /// Open client connections.
    pub open_connections: u64,
    /// Requests of the last 24 hours that failed because of Fairway itself.
    pub self_inflicted_last_day: u64,
    /// The median duration of requests.
    pub p50: Option<TimeBound>,
    /// The 99th percentile of the duration of requests.
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

/// A percentile, as far as the buckets of a histogram tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// At most this long.
    AtMost(Duration),
    /// Longer than this.
    Above(Duration),
}

impl Numbers {
    /// The faults with this cause.
    pub(super) fn caused_by(&self, cause: &str) -> u64 {
        let matching = self.faults.iter().filter(|fault| fault.caused_by == cause);
        matching.map(|fault| fault.count).sum()
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
