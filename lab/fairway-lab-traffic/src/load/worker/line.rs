//! The line of requests that are due, and the connections that take them. Never opens or closes a connection but when a
//! request could not be written to it.

use super::Worker;
use super::phase::Phase;
use crate::load::plan::{Pace, Reuse};
use crate::load::slot::State;
use crate::load::tally::Exchange;

/// Requests released before sockets are looked at again.
const BATCH: usize = 64;

impl Worker {
    /// Requests that are due are given to connections, or put in the line.
    pub(super) fn release(&mut self) -> anyhow::Result<()> {
        let Phase::Running { begun } = self.phase else { return Ok(()) };
        while self.queues.rests.front().is_some_and(|back| *back <= self.now()) {
            self.queues.rests.pop_front();
            self.user_is_free();
        }
        for _ in 0..BATCH {
            let Some(offset) = self.schedule.peek() else { break };
            let (due, now) = (begun + offset, self.now());
            if due > now {
                break;
            }
            self.schedule.advance();
            self.tally.due(offset, now - due);
            self.queues.line.push_back(due);
            self.serve_line()?;
        }
        Ok(())
    }

    /// A user of a closed loop asks next, if there is time.
    pub(super) fn user_is_free(&mut self) {
        if let (Pace::Closed, Phase::Running { begun }) = (self.plan.pace, self.phase) {
            let now = self.now();
            if self.schedule.begin(now.saturating_sub(begun)) {
                self.queues.line.push_back(now);
            }
        }
    }

    /// Idle connections take what is in the line.
    pub(super) fn serve_line(&mut self) -> anyhow::Result<()> {
        while !self.queues.line.is_empty() {
            let Some(index) = self.take_idle() else { break };
            let Some(due) = self.queues.line.pop_front() else { break };
            self.dispatch(index, due)?;
        }
        Ok(())
    }

    fn take_idle(&mut self) -> Option<usize> {
        while let Some((index, epoch)) = self.queues.idle.pop_front() {
            let slot = &mut self.slots[index];
            if slot.epoch != epoch {
                continue;
            }
            if let State::Http2(http2) = &mut slot.state {
                http2.is_offered = false;
                if !http2.has_room(self.plan.shape.streams) {
                    continue;
                }
            }
            return Some(index);
        }
        None
    }

    /// Writes a request to a connection that can take it.
    fn dispatch(&mut self, index: usize, due: u64) -> anyhow::Result<()> {
        let now = self.now();
        let due = self.intended(due, now);
        // In a closed loop a request is due when it can be sent; in an open one it was counted when it was released.
        let counts = (self.plan.pace == Pace::Closed).then(|| self.since_begun(due));
        self.queues.number += 1;
        let number = self.queues.number;
        let exchange = Exchange { due, sent: now, number };
        let deadline = now + self.timeout();
        let slot = &mut self.slots[index];
        slot.was_used = true;
        match &mut slot.state {
            State::Http1(http1) => {
                if let Some(at) = counts {
                    self.tally.due(at, 0);
                }
                self.queues.in_flight += 1;
                self.queues.deadlines.push_back((deadline, index, number));
                if let Err(error) = http1.send(self.composer.http1(number), exchange) {
                    let ended = http1.write_failed(&error);
                    self.close(index, false);
                    self.note(ended);
                } else {
                    self.settle(index)?;
                }
            }
            State::Http2(http2) => {
                if http2.send(self.composer.http2(number), exchange) {
                    if let Some(at) = counts {
                        self.tally.due(at, 0);
                    }
                    self.queues.in_flight += 1;
                    self.queues.deadlines.push_back((deadline, index, number));
                } else {
                    // It was not sent: its turn is still to come.
                    self.queues.line.push_front(due);
                }
                self.poll_later(index);
                self.offer(index);
            }
            State::Closed | State::Opening(_) => self.queues.line.push_front(due),
        }
        Ok(())
    }

    /// In an open loop the schedule's time. In a closed one a request is due when it is sent, or, where each has its own
    /// connection, when that is begun.
    fn intended(&self, due: u64, now: u64) -> u64 {
        if self.plan.pace == Pace::Closed && self.plan.wire.reuse == Reuse::KeepAlive { now } else { due }
    }

    /// A connection of HTTP/2 that was given something is polled once before sockets are looked at again, however much
    /// it was given.
    pub(super) fn poll_later(&mut self, index: usize) {
        if let State::Http2(http2) = &mut self.slots[index].state
            && !std::mem::replace(&mut http2.is_unpolled, true)
        {
            self.queues.unpolled.push(index);
        }
    }

    /// A connection of HTTP/2 that has room stands in the line of idle ones once. Where each is used once and then kept,
    /// it stands there until it was used.
    pub(super) fn offer(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if self.plan.wire.reuse == Reuse::OneAfterTheOther && slot.was_used {
            return;
        }
        if let State::Http2(http2) = &mut slot.state
            && !http2.is_offered
            && http2.has_room(self.plan.shape.streams)
        {
            http2.is_offered = true;
            self.queues.idle.push_back((index, slot.epoch));
        }
    }
}
