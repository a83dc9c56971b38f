//! Leads a thread from the first connection to the end of the last request, and says how long it may sleep. Never sends
//! anything.

use fairway_lab_measure::results::Class;

use super::phase::{End, Phase};
use super::{Worker, nanos};
use crate::load::plan::{Pace, Protocol, Reuse};

impl Worker {
    /// How long nothing is to be done but for events.
    pub(super) fn sleep(&self) -> Option<u64> {
        match self.phase {
            Phase::Opening { .. } => Some(1_000_000),
            Phase::Waiting => {
                let begun = self.shared.begun().map(|begun| nanos(self.shared.origin, begun));
                Some(begun.map_or(200_000, |begun| begun.saturating_sub(self.now())))
            }
            Phase::Running { begun } => {
                let due = self.schedule.peek().map(|due| begun + due);
                let back = self.queues.rests.front().copied();
                let next = due.into_iter().chain(back).min()?;
                Some(next.saturating_sub(self.now()))
            }
            Phase::Draining { .. } => Some(1_000_000),
        }
    }

    pub(super) fn advance_phase(&mut self) {
        match self.phase {
            Phase::Opening { untried: 0 } if self.queues.opening == 0 => {
                self.shared.ready();
                self.phase = Phase::Waiting;
            }
            Phase::Opening { .. } if self.shared.is_stopped() => self.phase = Phase::Opening { untried: 0 },
            Phase::Waiting => {
                let begun = match self.shared.begun() {
                    Some(begun) => nanos(self.shared.origin, begun),
                    None if self.shared.is_stopped() => self.now(),
                    None => return,
                };
                if self.now() >= begun {
                    self.begin(begun);
                }
            }
            Phase::Running { begun } => {
                let now = self.now();
                if self.shared.is_stopped() {
                    self.schedule.cut();
                }
                if self.schedule.is_over(now.saturating_sub(begun)) {
                    self.drain(begun, now);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, begun: u64) {
        self.phase = Phase::Running { begun };
        self.second.until = begun + 1_000_000_000;
        if self.plan.pace == Pace::Closed {
            let users = match (self.plan.wire.reuse, self.plan.wire.protocol) {
                (Reuse::OneAfterTheOther, _) => 1,
                (_, Protocol::Http2) => self.slots.len() * self.plan.shape.streams,
                (_, Protocol::Http1) => self.slots.len(),
            };
            for _ in 0..users {
                self.user_is_free();
            }
        }
    }

    fn drain(&mut self, begun: u64, now: u64) {
        let planned = self.planned_end(begun);
        let is_cut = self.shared.is_stopped() || self.plan.bounds.requests.is_some();
        let end = if is_cut { now.min(planned) } else { planned };
        let until = end.max(now) + self.timeout();
        self.phase = Phase::Draining { begun, end, until };
        if self.plan.pace == Pace::Closed && (now >= planned || self.shared.is_stopped()) {
            // In a closed loop what was not sent was not due.
            self.queues.line.clear();
        }
    }

    fn planned_end(&self, begun: u64) -> u64 {
        self.plan.bounds.duration.map_or(u64::MAX, |duration| begun + duration.as_nanos() as u64)
    }

    /// When the plan ended, if everything is done.
    pub(super) fn finished(&mut self) -> Option<End> {
        let Phase::Draining { begun, end, until } = self.phase else { return None };
        let now = self.now();
        if now >= until {
            while let Some(due) = self.queues.line.pop_front() {
                let text = "no connection was free before the end".to_owned();
                self.fail_unsent(due, Class::NotSent, text);
            }
        }
        if !self.queues.line.is_empty() || self.queues.in_flight > 0 || now < end {
            return None;
        }
        let by_number = end < self.planned_end(begun) && !self.shared.is_stopped();
        Some(if by_number { End::ByNumber } else { End::At(end.saturating_sub(begun)) })
    }
}
