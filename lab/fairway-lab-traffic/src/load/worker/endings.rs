//! The ends of requests: answered, failed, never sent, or not in time. Never writes to a connection.

use fairway_lab_measure::results::Class;

use super::Worker;
use super::phase::Phase;
use crate::load::plan::Pace;
use crate::load::series::note;
use crate::load::slot::State;
use crate::load::tally::{Exchange, Fate};

impl Worker {
    /// A request ended: it is counted, and its user goes on.
    pub(super) fn note(&mut self, ended: Option<(Exchange, Fate)>) {
        if let Some((exchange, fate)) = ended {
            self.queues.in_flight -= 1;
            self.record(exchange, fate);
            self.user_is_free();
        }
    }

    fn record(&mut self, exchange: Exchange, fate: Fate) {
        let now = self.now();
        match &fate {
            Fate::Answered { wrong, .. } => {
                self.second.answers += 1;
                self.second.errors += u64::from(wrong.is_some());
                note(&mut self.second.latency, now.saturating_sub(exchange.due) / 1_000);
            }
            Fate::Failed(..) => self.second.errors += 1,
        }
        let end = match self.phase {
            Phase::Draining { end, .. } => self.since_begun(end),
            _ => u64::MAX,
        };
        let exchange = Exchange {
            due: self.since_begun(exchange.due),
            sent: self.since_begun(exchange.sent),
            number: exchange.number,
        };
        self.tally.ended(exchange, fate, self.since_begun(now), end);
    }

    /// A request of the line fails without having been written.
    pub(super) fn fail_unsent(&mut self, due: u64, class: Class, text: String) {
        if self.plan.pace == Pace::Closed {
            let at = self.since_begun(due);
            self.tally.due(at, 0);
        }
        self.record(Exchange { due, sent: due, number: 0 }, Fate::Failed(class, text));
    }

    pub(super) fn since_begun(&self, time: u64) -> u64 {
        match self.phase {
            Phase::Running { begun } | Phase::Draining { begun, .. } => time.saturating_sub(begun),
            Phase::Opening { .. } | Phase::Waiting => 0,
        }
    }

    pub(super) fn timeout(&self) -> u64 {
        self.plan.bounds.timeout.as_nanos() as u64
    }

    /// What should have happened by now and has not fails.
    pub(super) fn expire(&mut self) {
        while let Some((at, index, number)) = self.queues.deadlines.front().copied() {
            if at > self.now() {
                return;
            }
            self.queues.deadlines.pop_front();
            match &mut self.slots[index].state {
                State::Opening(opening) if opening.number == number => {
                    let (class, text) = opening.give_up();
                    self.not_opened(index, class, text);
                }
                State::Http1(http1) if http1.current().is_some_and(|current| current.number == number) => {
                    let ended = http1.give_up();
                    self.close(index, false);
                    self.note(ended.map(|(exchange, class, text)| (exchange, Fate::Failed(class, text))));
                }
                State::Http2(http2) => {
                    if let Some(ended) = http2.give_up(number) {
                        self.poll_later(index);
                        self.note(Some(ended));
                    }
                }
                _ => {}
            }
        }
    }
}
