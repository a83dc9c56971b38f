//! Which members answer far more slowly than the others. At the end of an interval the mean time to a response head of each member that had
//! enough responses is compared with the median of those of the others that had as many. Ejects nobody itself.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{BackendTraffic, LatencyEjection};
use fairway_net::clock::Instant;

use crate::upstream::endpoint::Endpoint;

/// A member that is slow has to be slower than the others by this: nobody would notice less.
const MARGIN: Duration = Duration::from_millis(10);

/// How fast each member of a group answers.
pub(super) struct Slowness {
    rule: LatencyEjection,
    members: Box<[Cell<Measured>]>,
    /// When the interval is over.
    until: Cell<Instant>,
}

/// What is known of one member.
#[derive(Clone, Copy, Default)]
struct Measured {
    /// Responses in this interval, and what their heads took together.
    responses: u32,
    micros: u64,
    /// How often it was ejected in a row.
    ejections: u8,
}

/// A member that is slow, and how slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Its place in the group.
    pub member: u32,
    /// What its response heads took in the mean.
    pub mean: Duration,
    /// The median of the others.
    pub others: Duration,
}

impl Slowness {
    /// Of these members, if slow ones are ejected; what is known of those that an older group had is kept.
    pub(super) fn of<H>(
        traffic: &BackendTraffic,
        members: &[Rc<Endpoint<H>>],
        older: Option<(&[Rc<Endpoint<H>>], &Self)>,
    ) -> Option<Self> {
        let rule = traffic.latency?;
        let mut known = HashMap::new();
        let mut until = Instant::now() + rule.interval;
        if let Some((members, measured)) = older.filter(|(_, older)| older.rule == rule) {
            known.extend(members.iter().map(Rc::as_ptr).zip(measured.members.iter().cloned()));
            until = measured.until.get();
        }
        let of_member = |member: &Rc<Endpoint<H>>| known.remove(&Rc::as_ptr(member)).unwrap_or_default();
        let members = members.iter().map(of_member).collect();
        Some(Self { rule, members, until: Cell::new(until) })
    }

    /// A member answered after `latency`. Says whether the interval is over: then members are to be judged.
    pub(super) fn note(&self, index: usize, latency: Duration, now: Instant) -> bool {
        let mut measured = self.members[index].get();
        measured.responses = measured.responses.saturating_add(1);
        measured.micros =
            measured.micros.saturating_add(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        self.members[index].set(measured);
        let is_over = now >= self.until.get();
        if is_over {
            self.until.set(now + self.rule.interval);
        }
        is_over
    }

    /// The members that were slow in the interval, the slowest first, and begins the next one.
    pub(super) fn judge(&self) -> Vec<Slow> {
        let mut means: Vec<(Duration, u32)> = Vec::new();
        for (index, member) in (0..).zip(&self.members) {
            let Measured { responses, micros, ejections } = member.get();
            member.set(Measured { ejections, ..Measured::default() });
            if responses >= self.rule.responses.get() {
                means.push((Duration::from_micros(micros / u64::from(responses)), index));
            }
        }
        means.sort_unstable();
        let others = means.len().saturating_sub(1);
        let mut slow = Vec::new();
        for (place, (mean, member)) in means.iter().enumerate().rev() {
            // The upper one of two: most of the others have to be faster.
            let middle = others / 2;
            let Some((median, _)) = means.get(middle + usize::from(middle >= place)) else { break };
            let is_slow = *mean >= *median * u32::from(self.rule.factor.get()) && *mean >= *median + MARGIN;
            if is_slow {
                slow.push(Slow { member: *member, mean: *mean, others: *median });
            } else {
                self.set_ejections(*member as usize, 0);
            }
        }
        slow
    }

    /// The member is ejected. Says how often it was in a row before.
    pub(super) fn ejected(&self, index: usize) -> u8 {
        let before = self.members[index].get().ejections;
        self.set_ejections(index, before.saturating_add(1));
        before
    }

    fn set_ejections(&self, index: usize, ejections: u8) {
        self.members[index].set(Measured { ejections, ..self.members[index].get() });
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU8, NonZeroU32};

    use super::*;

    const NOBODY: [u32; 0] = [];
    const INTERVAL: Duration = Duration::from_secs(10);

    fn of(members: usize) -> Slowness {
        let responses = NonZeroU32::new(5).unwrap();
        let rule = LatencyEjection { factor: NonZeroU8::new(3).unwrap(), responses, interval: INTERVAL };
        let members = (0..members).map(|_| Cell::default()).collect();
        Slowness { rule, members, until: Cell::new(Instant::now() + INTERVAL) }
    }

    /// The members that are slow where each has so many responses, of so many milliseconds.
    fn slow(measured: &[(u32, u64)]) -> Vec<u32> {
        let slowness = of(measured.len());
        for (index, (responses, millis)) in measured.iter().enumerate() {
            for _ in 0..*responses {
                assert!(!slowness.note(index, Duration::from_millis(*millis), Instant::now()));
            }
        }
        slowness.judge().iter().map(|slow| slow.member).collect()
    }

    #[test]
    fn the_one_that_is_three_times_as_slow_as_the_others_in_the_middle_is_slow() {
        assert_eq!(slow(&[(9, 20), (9, 25), (9, 75), (9, 30)]), [2]);
        assert_eq!(slow(&[(9, 20), (9, 25), (9, 74), (9, 30)]), NOBODY);
        assert_eq!(slow(&[(9, 20), (9, 900)]), [1]);
        assert_eq!(slow(&[(9, 20), (9, 500), (9, 900), (9, 20), (9, 20)]), [2, 1], "the slowest first");
        assert_eq!(slow(&[(9, 20), (9, 900), (9, 900)]), NOBODY, "most of the others are as slow");
    }

    #[test]
    fn too_few_responses_say_nothing_and_nobody_is_slow_alone_or_by_a_hair() {
        assert_eq!(slow(&[(9, 20), (4, 900), (9, 20)]), NOBODY);
        assert_eq!(slow(&[(4, 20), (9, 900), (4, 20)]), NOBODY);
        assert_eq!(slow(&[(9, 900)]), NOBODY);
        assert_eq!(slow(&[]), NOBODY);
        assert_eq!(slow(&[(9, 1), (9, 10), (9, 1)]), NOBODY, "9 ms");
        assert_eq!(slow(&[(9, 1), (9, 11), (9, 1)]), [1]);
    }

    #[test]
    fn an_interval_begins_with_nothing() {
        let slowness = of(2);
        for index in [0, 1] {
            (0..9).for_each(|_| _ = slowness.note(index, Duration::from_millis(900), Instant::now()));
        }
        assert!(slowness.judge().is_empty());
        (0..9).for_each(|_| _ = slowness.note(0, Duration::from_millis(1), Instant::now()));
        assert!(slowness.judge().is_empty(), "the other one has none");
        assert!(slowness.note(0, Duration::ZERO, Instant::now() + INTERVAL));
        assert_eq!((slowness.ejected(1), slowness.ejected(1)), (0, 1));
    }
}
