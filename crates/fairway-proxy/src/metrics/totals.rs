//! Totals of the counters, for pages that poll every other second. Copies no series.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cause::Cause;
use crate::metrics::histogram::{Histogram, TIME_BOUNDS};

/// Totals since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Finished exchanges.
    pub requests: u64,
    /// Responses by status class, from 1xx.
    pub by_class: [u64; 5],
    /// Faults of exchanges by cause and reason, the label of `fairway_faults_total`.
    pub faults: BTreeMap<(Cause, &'static str), u64>,
    /// Request times, in the buckets of `nginx_ingress_controller_request_duration_seconds`.
    pub request_time: Histogram<11>,
    /// Open downstream connections.
    pub open_connections: u64,
    /// Self-inflicted failures of the last 24 hours: [`crate::Attribution::is_self_inflicted`].
    pub self_inflicted_last_day: u64,
}

/// A percentile as far as histogram buckets tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// At most this long.
    AtMost(Duration),
    /// Longer than this, the bound of the last bucket.
    Above(Duration),
}

impl Totals {
    /// The bound of the bucket that contains the percentile `percent`. `None` without exchanges.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<TimeBound> {
        let Histogram { buckets, count, .. } = self.request_time;
        if count == 0 {
            return None;
        }
        let rank = count.saturating_mul(percent).div_ceil(100);
        let mut below = 0;
        for (inside, bound) in buckets.into_iter().zip(TIME_BOUNDS) {
            below += inside;
            if below >= rank {
                return Some(TimeBound::AtMost(Duration::from_micros(bound)));
            }
        }
        Some(TimeBound::Above(Duration::from_micros(TIME_BOUNDS[TIME_BOUNDS.len() - 1])))
    }

    /// Adds exchanges with this status.
    pub(crate) fn add(&mut self, status: u16, requests: u64, request_time: &Histogram<11>) {
        self.requests += requests;
        if let Some(class) = usize::from(status / 100).checked_sub(1).and_then(|at| self.by_class.get_mut(at))
        {
            *class += requests;
        }
        self.request_time.merge(request_time);
    }

    /// Adds the totals of another worker.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        for (own, more) in self.by_class.iter_mut().zip(other.by_class) {
            *own += more;
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.request_time.merge(&other.request_time);
        self.open_connections += other.open_connections;
        self.self_inflicted_last_day += other.self_inflicted_last_day;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::metrics::Counters;
    use crate::metrics::record::ExchangeRecord;
    use fairway_net::clock::Instant;

    fn counted(took: &[(u64, u16, Option<Fault>)]) -> Totals {
        let counters = Counters::default();
        for (millis, status, fault) in took {
            let began = Instant::now();
            let mut record = ExchangeRecord::new(began, 0);
            (record.status, record.fault) = (*status, *fault);
            record.finish(began + Duration::from_millis(*millis));
            counters.observe(&record);
        }
        counters.totals()
    }

    #[test]
    fn a_percentile_is_the_bound_of_its_bucket() {
        assert_eq!(Totals::default().percentile(50), None);
        let totals = counted(&[(1, 200, None), (7, 200, None), (30_000, 200, None)]);
        assert_eq!(totals.percentile(50), Some(TimeBound::AtMost(Duration::from_millis(10))));
        assert_eq!(totals.percentile(99), Some(TimeBound::Above(Duration::from_secs(10))));
    }

    #[test]
    fn exchanges_are_counted_by_class_and_faults_by_cause() {
        let mut totals = counted(&[
            (1, 200, None),
            (1, 404, Some(Fault::NoRoute)),
            (1, 504, Some(Fault::UpstreamTimeout)),
            (1, 0, None),
        ]);
        let other = counted(&[(1, 504, Some(Fault::UpstreamTimeout))]);
        totals.merge(&other);
        assert_eq!((totals.requests, totals.by_class), (5, [0, 1, 0, 1, 2]));
        let expected = [
            ((Cause::Client, Fault::NoRoute.label()), 1),
            ((Cause::Endpoint, Fault::UpstreamTimeout.label()), 2),
        ];
        assert_eq!(totals.faults, BTreeMap::from(expected));
    }
}
