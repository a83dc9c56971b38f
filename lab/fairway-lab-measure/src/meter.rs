//! A meter of what a group of containers or processes spends. Members may come and go while it runs: it is read now and
//! then, and keeps the last reading of each.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::cgroup::Containers;
use crate::measured_usage::Spent;
use crate::process::{self, Usage};

/// A measured container or process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A container, by its identifier; its cgroup is read.
    Container(String),
    /// A process with all its descendants.
    Process(u32),
}

/// Reads what subjects use.
pub struct Meter {
    containers: Containers,
    begun: Instant,
    read: Instant,
    known_subjects: BTreeMap<Subject, Readings>,
}

struct Readings {
    first: Usage,
    last: Usage,
    /// Whether it existed at the last reading.
    present: bool,
}

impl Meter {
    /// Starts a measurement. Earlier usage of these subjects does not count; subjects that appear later count from their
    /// start.
    #[must_use]
    pub fn start(subjects: &[Subject]) -> Self {
        let now = Instant::now();
        let mut meter = Self {
            containers: Containers::default(),
            begun: now,
            read: now,
            known_subjects: BTreeMap::new(),
        };
        for subject in subjects {
            let usage = meter.usage(subject).unwrap_or_default();
            meter
                .known_subjects
                .insert(subject.clone(), Readings { first: usage, last: usage, present: true });
        }
        meter
    }

    /// Reads all current subjects.
    pub fn read(&mut self, subjects: &[Subject]) {
        self.known_subjects.values_mut().for_each(|readings| readings.present = false);
        for subject in subjects {
            let Some(usage) = self.usage(subject) else { continue };
            let fresh = Readings { first: Usage::default(), last: usage, present: true };
            let readings = self.known_subjects.entry(subject.clone()).or_insert(fresh);
            readings.last = usage;
            readings.present = true;
        }
        self.read = Instant::now();
    }

    /// Whether this one can be read here at all.
    #[must_use]
    pub fn reads(subject: &Subject) -> bool {
        Self::start(&[]).usage(subject).is_some()
    }

    /// The usage up to the last reading.
    #[must_use]
    pub fn spent(&self) -> Spent {
        let all = || self.known_subjects.values();
        let ns = |ns: u64| ns as f64 / 1e9;
        let cpu_ns: u64 = all().map(|subject| subject.last.cpu_ns.saturating_sub(subject.first.cpu_ns)).sum();
        let user_ns: Option<u64> = all()
            .map(|subject| Some(subject.last.user_ns?.saturating_sub(subject.first.user_ns.unwrap_or(0))))
            .sum();
        Spent {
            cpu_s: ns(cpu_ns),
            user_s: user_ns.map(ns),
            memory_bytes: all()
                .filter(|subject| subject.present)
                .map(|subject| subject.last.memory_bytes)
                .sum(),
            switches: Some(
                all().map(|subject| subject.last.switches.saturating_sub(subject.first.switches)).sum(),
            ),
            seconds: (self.read - self.begun).as_secs_f64(),
            coverage: None,
        }
    }

    fn usage(&mut self, subject: &Subject) -> Option<Usage> {
        match subject {
            Subject::Container(id) => self.containers.usage(id),
            Subject::Process(id) => process::usage(*id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_subject() -> [Subject; 1] {
        [Subject::Process(std::process::id())]
    }

    /// Reads this process until it has spent something on that.
    fn spends(meter: &mut Meter) -> Spent {
        loop {
            meter.read(&own_subject());
            let spent = meter.spent();
            if spent.cpu_s > 0.05 {
                return spent;
            }
            assert!(spent.seconds < 20.0, "a process that works spends nothing: {spent:?}");
        }
    }

    #[test]
    fn earlier_usage_does_not_count_and_new_subjects_count_completely() {
        let mut meter = Meter::start(&own_subject());
        let spent = spends(&mut meter);
        assert!(spent.memory_bytes.is_some_and(|bytes| bytes > 0), "{spent:?}");
        let cost = spent.cost(1000, "process", "one process").expect("there is a reading");
        assert!((cost.us_per_request - spent.cpu_s * 1e3).abs() < 1e-9);
        let mut from_nothing = Meter::start(&[]);
        from_nothing.read(&own_subject());
        let mut later = Meter::start(&own_subject());
        later.read(&own_subject());
        assert!(later.spent().cpu_s < from_nothing.spent().cpu_s, "{later:?}", later = later.spent());
    }

    #[test]
    fn unreadable_subjects_have_no_cost() {
        let absent = [Subject::Container("0123456789abcdef-not-there".to_owned())];
        let mut meter = Meter::start(&absent);
        meter.read(&absent);
        let reason = meter.spent().cost(10, "cgroup", "1 container").expect_err("nothing was read");
        assert!(reason.contains("1 container"), "{reason}");
    }
}
