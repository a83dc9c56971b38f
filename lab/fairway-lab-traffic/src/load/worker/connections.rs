//! Opening connections and closing them. Never sends a request.

use fairway_lab_measure::results::{Class, Tls};

use super::Worker;
use super::phase::Phase;
use crate::load::http1::Http1;
use crate::load::http2::Http2;
use crate::load::plan::{Pace, Protocol, Reuse};
use crate::load::slot::{Opening, State, connect_class};

/// Connections that are opened at a time before the first request: a listener's backlog is finite.
const OPENING_AT_A_TIME: usize = 64;
/// A user of a closed loop rests so long after a connection could not be made.
const REST: u64 = 100_000_000;

impl Worker {
    /// As many connections are opened as requests wait, and before the first request all of them.
    pub(super) fn open_what_is_needed(&mut self) {
        if let Phase::Opening { untried } = self.phase {
            let mut left = untried;
            while left > 0 && self.queues.opening < OPENING_AT_A_TIME {
                // Those that failed lie on top of the ones that were not tried.
                let Some(index) = self.queues.closed.first().copied() else { break };
                self.queues.closed.remove(0);
                left -= 1;
                self.open(index);
            }
            self.phase = Phase::Opening { untried: left };
            return;
        }
        while self.queues.line.len() > self.queues.opening {
            let Some(index) = self.queues.closed.pop() else { return };
            self.open(index);
        }
    }

    fn open(&mut self, index: usize) {
        self.queues.number += 1;
        let number = self.queues.number;
        self.queues.opening += 1;
        let opened = self.io.dialer.dial().and_then(|transport| {
            self.slots[index].begin(Opening::new(transport, number), index, &self.io.poller)
        });
        match opened {
            Ok(()) => {
                let deadline = self.now() + self.timeout();
                self.queues.deadlines.push_back((deadline, index, number));
            }
            Err(error) => self.not_opened(index, connect_class(&error), error.to_string()),
        }
    }

    pub(super) fn opened(&mut self, index: usize) -> anyhow::Result<()> {
        let slot = &mut self.slots[index];
        let State::Opening(opening) = std::mem::replace(&mut slot.state, State::Closed) else {
            return Ok(());
        };
        if let Some((class, text)) = opening.refusal(self.plan.wire.protocol) {
            self.not_opened(index, class, text);
            return Ok(());
        }
        let signature = || self.io.dialer.observed().signature();
        let settled =
            opening.transport.settled().map(|(kind, tls)| (kind, Tls { signature: signature(), ..tls }));
        if self.plan.wire.protocol == Protocol::Http2 {
            match Http2::new(opening.transport, &opening.said) {
                Ok(http2) => slot.state = State::Http2(Box::new(http2)),
                Err(error) => {
                    self.not_opened(index, Class::ConnectOther, error);
                    return Ok(());
                }
            }
        } else {
            slot.state = State::Http1(Http1::new(opening.transport));
        }
        self.queues.opening -= 1;
        self.tally.connected(settled);
        self.settle(index)?;
        if self.plan.wire.protocol == Protocol::Http2 {
            self.poll_later(index);
            self.offer(index);
        } else {
            self.queues.idle.push_back((index, self.slots[index].epoch));
        }
        Ok(())
    }

    /// A connection could not be made: the first request of the line fails with it.
    pub(super) fn not_opened(&mut self, index: usize, class: Class, text: String) {
        self.queues.opening -= 1;
        self.slots[index].clear(false);
        self.queues.closed.push(index);
        if let Some(due) = self.queues.line.pop_front() {
            self.fail_unsent(due, class, text);
            if self.plan.pace == Pace::Closed {
                self.queues.rests.push_back(self.now() + REST);
            }
        }
    }

    /// A connection is given up; another one takes its place at once if it is kept open between requests.
    pub(super) fn close(&mut self, index: usize, orderly: bool) {
        let slot = &mut self.slots[index];
        slot.clear(orderly);
        let is_wanted = self.plan.wire.reuse == Reuse::KeepAlive
            && matches!(self.phase, Phase::Running { .. })
            && slot.was_used;
        if is_wanted {
            self.open(index);
        } else {
            self.queues.closed.push(index);
        }
    }

    pub(super) fn settle(&mut self, index: usize) -> anyhow::Result<()> {
        Ok(self.slots[index].settle_interest(index, &self.io.poller)?)
    }
}
