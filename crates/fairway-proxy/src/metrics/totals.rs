//! What a worker counted, in a few numbers: for pages that ask every other second. No series is copied for it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cause::Cause;
use crate::metrics::histogram::{Histogram, TIME};

/// Requests since the process started, in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Exchanges that are over.
    pub requests: u64,
    /// Those with a response, by the first digit of its status; 1xx comes first.
    pub by_class: [u64; 5],
    /// Faults of exchanges by who caused them and by their reason, which is the label of `fairway_faults_total`.
    pub faults: BTreeMap<(Cause, &'static str), u64>,
    /// How long exchanges took, in the buckets of `nginx_ingress_controller_request_duration_seconds`.
    pub request_time: Histogram<11>,
    /// Connections of clients that are open now.
    pub open_connections: u64,
    /// Exchanges of the last 24 hours that failed on nobody else's account: [`crate::Attribution::is_self_inflicted`].
    pub self_inflicted_last_day: u64,
}

/// What the buckets of a histogram say of a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// At most this long.
    AtMost(Duration),
    /// Longer than this, which is the bound of the last bucket.
    Above(Duration),
}

impl Totals {
    /// The time within which `percent` of the exchanges ended, as far as the buckets tell: the bound of the bucket that the percentile
    /// is in. `None` if there were no exchanges.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<TimeBound> {
        let Histogram { buckets, count, .. } = self.request_time;
        if count == 0 {
            return None;
        }
        let rank = count.saturating_mul(percent).div_ceil(100);
        let mut below = 0;
        for (inside, bound) in buckets.into_iter().zip(TIME) {
            below += inside;
            if below >= rank {
                return Some(TimeBound::AtMost(Duration::from_micros(bound)));
            }
        }
        Some(TimeBound::Above(Duration::from_micros(TIME[TIME.len() - 1])))
    }

    /// Adds exchanges that got this status.
    pub(crate) fn add(&mut self, status: u16, requests: u64, request_time: &Histogram<11>) {
        self.requests += requests;
        if let Some(class) = usize::from(status / 100).checked_sub(1).and_then(|at| self.by_class.get_mut(at))
        {
            *class += requests;
        }
        self.request_time.merge(request_time);
    }

    /// Adds those of another worker.
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
    use crate::metrics::record::Record;
    use fairway_net::clock::Instant;

    fn counted(took: &[(u64, u16, Option<Fault>)]) -> Totals {
        let counters = Counters::default();
        for (millis, status, fault) in took {
            let began = Instant::now();
            let mut record = Record::new(began, 0);
            (record.status, record.fault) = (*status, *fault);
            record.end(began + Duration::from_millis(*millis));
            counters.exchange(&record);
        }
        counters.totals()
    }

    #[test]
    fn a_percentile_is_the_bound_of_the_bucket_that_it_is_in() {
        assert_eq!(Totals::default().percentile(50), None);
        let totals = counted(&[(1, 200, None), (7, 200, None), (30_000, 200, None)]);
        assert_eq!(totals.percentile(50), Some(TimeBound::AtMost(Duration::from_millis(10))));
        assert_eq!(totals.percentile(99), Some(TimeBound::Above(Duration::from_secs(10))));
    }

    #[test]
    fn exchanges_are_counted_by_class_and_faults_by_who_caused_them() {
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
