//! Detects members that respond far more slowly than the others. At the end of an interval, the mean time to the
//! response head of each member with enough responses is compared with the median of the others with as many. Ejects
//! nothing itself.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{BackendTraffic, LatencyEjection};
use fairway_net::clock::Instant;

use crate::upstream::endpoint::Endpoint;

/// A slow member must exceed the others by this much; less would not be noticed.
const MIN_EXCESS_LATENCY: Duration = Duration::from_millis(10);

/// The latencies of a group's members.
pub(super) struct LatencyOutliers {
    rule: LatencyEjection,
    members: Box<[Cell<MemberLatency>]>,
    /// The end of the current interval.
    interval_ends: Cell<Instant>,
}

/// The latency of one member.
#[derive(Clone, Copy, Default)]
struct MemberLatency {
    /// Responses in this interval, and the sum of their times.
    responses: u32,
    micros: u64,
    /// How many times in a row it was ejected.
    ejections: u8,
}

/// A slow member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowMember {
    /// Its index in the group.
    pub member: u32,
    /// Its mean time to the response head.
    pub mean: Duration,
    /// The median of the other members.
    pub median_of_others: Duration,
}

impl LatencyOutliers {
    /// For these members, if the backend ejects slow ones; keeps what an older group knows.
    pub(super) fn new<H>(
        traffic: &BackendTraffic,
        members: &[Rc<Endpoint<H>>],
        older: Option<(&[Rc<Endpoint<H>>], &Self)>,
    ) -> Option<Self> {
        let rule = traffic.latency?;
        let mut known = HashMap::new();
        let mut until = Instant::now() + rule.interval;
        if let Some((members, measured)) = older.filter(|(_, older)| older.rule == rule) {
            known.extend(members.iter().map(Rc::as_ptr).zip(measured.members.iter().cloned()));
            until = measured.interval_ends.get();
        }
        let of_member = |member: &Rc<Endpoint<H>>| known.remove(&Rc::as_ptr(member)).unwrap_or_default();
        let members = members.iter().map(of_member).collect();
        Some(Self { rule, members, interval_ends: Cell::new(until) })
    }

    /// A member responded after `latency`. Returns whether the interval is over and should be evaluated.
    pub(super) fn record(&self, index: usize, latency: Duration, now: Instant) -> bool {
        let mut measured = self.members[index].get();
        measured.responses = measured.responses.saturating_add(1);
        measured.micros =
            measured.micros.saturating_add(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        self.members[index].set(measured);
        let is_over = now >= self.interval_ends.get();
        if is_over {
            self.interval_ends.set(now + self.rule.interval);
        }
        is_over
    }

    /// Returns the members that were slow in the interval, slowest first, and starts the next one.
    pub(super) fn end_interval(&self) -> Vec<SlowMember> {
        let mut means: Vec<(Duration, u32)> = Vec::new();
        for (index, member) in (0..).zip(&self.members) {
            let MemberLatency { responses, micros, ejections } = member.get();
            member.set(MemberLatency { ejections, ..MemberLatency::default() });
            if responses >= self.rule.responses.get() {
                means.push((Duration::from_micros(micros / u64::from(responses)), index));
            }
        }
        means.sort_unstable();
        let others = means.len().saturating_sub(1);
        let mut slow = Vec::new();
        for (place, (mean, member)) in means.iter().enumerate().rev() {
            // The upper one of two: most others must be faster.
            let middle = others / 2;
            let Some((median, _)) = means.get(middle + usize::from(middle >= place)) else { break };
            let is_slow =
                *mean >= *median * u32::from(self.rule.factor.get()) && *mean >= *median + MIN_EXCESS_LATENCY;
            if is_slow {
                slow.push(SlowMember { member: *member, mean: *mean, median_of_others: *median });
            } else {
                self.set_ejections(*member as usize, 0);
            }
        }
        slow
    }

    /// Records an ejection. Returns how many times in a row it was ejected before.
    pub(super) fn record_ejection(&self, index: usize) -> u8 {
        let before = self.members[index].get().ejections;
        self.set_ejections(index, before.saturating_add(1));
        before
    }

    fn set_ejections(&self, index: usize, ejections: u8) {
        self.members[index].set(MemberLatency { ejections, ..self.members[index].get() });
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU8, NonZeroU32};

    use super::*;

    const NONE: [u32; 0] = [];
    const INTERVAL: Duration = Duration::from_secs(10);

    fn outliers(members: usize) -> LatencyOutliers {
        let responses = NonZeroU32::new(5).unwrap();
        let rule = LatencyEjection { factor: NonZeroU8::new(3).unwrap(), responses, interval: INTERVAL };
        let members = (0..members).map(|_| Cell::default()).collect();
        LatencyOutliers { rule, members, interval_ends: Cell::new(Instant::now() + INTERVAL) }
    }

    /// The slow members, where each has this many responses of this many milliseconds.
    fn slow(measured: &[(u32, u64)]) -> Vec<u32> {
        let slowness = outliers(measured.len());
        for (index, (responses, millis)) in measured.iter().enumerate() {
            for _ in 0..*responses {
                assert!(!slowness.record(index, Duration::from_millis(*millis), Instant::now()));
            }
        }
        slowness.end_interval().iter().map(|slow| slow.member).collect()
    }

    #[test]
    fn an_endpoint_three_times_slower_than_the_median_is_slow() {
        assert_eq!(slow(&[(9, 20), (9, 25), (9, 75), (9, 30)]), [2]);
        assert_eq!(slow(&[(9, 20), (9, 25), (9, 74), (9, 30)]), NONE);
        assert_eq!(slow(&[(9, 20), (9, 900)]), [1]);
        assert_eq!(slow(&[(9, 20), (9, 500), (9, 900), (9, 20), (9, 20)]), [2, 1], "the slowest first");
        assert_eq!(slow(&[(9, 20), (9, 900), (9, 900)]), NONE, "most of the others are as slow");
    }

    #[test]
    fn too_few_responses_a_single_endpoint_or_a_small_difference_make_no_endpoint_slow() {
        assert_eq!(slow(&[(9, 20), (4, 900), (9, 20)]), NONE);
        assert_eq!(slow(&[(4, 20), (9, 900), (4, 20)]), NONE);
        assert_eq!(slow(&[(9, 900)]), NONE);
        assert_eq!(slow(&[]), NONE);
        assert_eq!(slow(&[(9, 1), (9, 10), (9, 1)]), NONE, "9 ms");
        assert_eq!(slow(&[(9, 1), (9, 11), (9, 1)]), [1]);
    }

    #[test]
    fn an_interval_starts_empty() {
        let slowness = outliers(2);
        for index in [0, 1] {
            (0..9).for_each(|_| _ = slowness.record(index, Duration::from_millis(900), Instant::now()));
        }
        assert!(slowness.end_interval().is_empty());
        (0..9).for_each(|_| _ = slowness.record(0, Duration::from_millis(1), Instant::now()));
        assert!(slowness.end_interval().is_empty(), "the other one has none");
        assert!(slowness.record(0, Duration::ZERO, Instant::now() + INTERVAL));
        assert_eq!((slowness.record_ejection(1), slowness.record_ejection(1)), (0, 1));
    }
}
