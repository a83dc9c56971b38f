//! HTTP/3 connections of a generator thread: opening, reading, writing, and one timer per connection.

use std::cmp::Reverse;
use std::io;
use std::time::Instant;

use rustls::HandshakeKind;

use super::super::http3::{Http3, OpeningProgress};
use super::super::slot::State;
use super::super::tls;
use super::{POLL_INTERVAL, Reuse, Tls, Worker};

impl Worker {
    /// Starts a connection in a closed slot.
    pub(super) fn open_http3(&mut self, index: usize, number: u64) -> io::Result<()> {
        let http3 = Box::new(Http3::new(self.dialer.dial_quic()?, number));
        self.slots[index].begin_http3(http3, index, &self.poller)?;
        self.transmit_http3(index)
    }

    /// Reads once. The resulting output is written together with the next requests.
    pub(super) fn receive_http3(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http3(http3) = &mut self.slots[index].state else { return Ok(()) };
        http3.receive(&mut self.datagrams, Instant::now());
        self.drive_http3(index)
    }

    /// Processes received data of a connection.
    fn drive_http3(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http3(http3) = &mut self.slots[index].state else { return Ok(()) };
        let was_opening = http3.opening().is_some();
        let opened = if was_opening { http3.take_opened() } else { OpeningProgress::Yes };
        match opened {
            OpeningProgress::Failed(class, text) => {
                self.not_opened(index, class, text);
                return Ok(());
            }
            OpeningProgress::Not => {
                self.poll_later(index);
                return Ok(());
            }
            OpeningProgress::Yes if was_opening => {
                self.queues.opening -= 1;
                let settled = self.settled_http3(index);
                self.tally.connected(settled);
            }
            OpeningProgress::Yes => {}
        }
        self.finish_requests(index)
    }

    /// Records finished requests, then keeps or closes the connection.
    fn finish_requests(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http3(http3) = &mut self.slots[index].state else { return Ok(()) };
        let mut ended = std::mem::take(&mut self.ended);
        http3.drive(&self.expected, &mut ended);
        self.tally.counts.bytes += http3.take_received();
        let is_done = self.plan.wire.reuse == Reuse::ConnectionPerRequest
            && self.slots[index].was_used
            && !ended.is_empty();
        if matches!(&self.slots[index].state, State::Http3(http3) if http3.is_over() || is_done) {
            self.close(index, true);
        } else {
            self.poll_later(index);
            self.offer(index);
        }
        for exchange in ended.drain(..) {
            self.finish_exchange(Some(exchange));
        }
        self.ended = ended;
        Ok(())
    }

    /// Writes pending output and sets the timer.
    pub(super) fn transmit_http3(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.slots[index];
        let State::Http3(http3) = &mut slot.state else { return Ok(()) };
        let now = Instant::now();
        http3.transmit(now);
        // The timer of a connection that has ended fires at once.
        let due = if http3.is_over() { Some(now) } else { http3.quic.timeout() };
        if let Some(due) = due
            && http3.armed.is_none_or(|armed| due < armed)
        {
            http3.armed = Some(due);
            self.timers.push(Reverse((due, index, slot.epoch)));
        }
        slot.settle_interest(index, &self.poller)
    }

    /// Handles due timers.
    pub(super) fn run_timers(&mut self) -> anyhow::Result<()> {
        while let Some(Reverse((due, index, epoch))) = self.timers.peek().copied() {
            let now = Instant::now();
            if due > now {
                break;
            }
            self.timers.pop();
            let slot = &mut self.slots[index];
            let State::Http3(http3) = &mut slot.state else { continue };
            if slot.epoch != epoch || http3.armed != Some(due) {
                continue;
            }
            http3.armed = None;
            // QUIC has usually postponed its timer since then.
            let is_due = http3.quic.timeout().is_some_and(|due| due <= now);
            if is_due {
                http3.expire(now);
            }
            if is_due || http3.is_over() {
                self.drive_http3(index)?;
            } else {
                self.transmit_http3(index)?;
            }
        }
        Ok(())
    }

    /// Polls idle connections once; called until the owner releases them.
    pub(super) fn keep_alive(&mut self) -> anyhow::Result<()> {
        let mut happened = std::mem::take(&mut self.happened);
        self.poller.wait(Some(POLL_INTERVAL.as_nanos() as u64), &mut happened)?;
        for event in happened.drain(..) {
            self.on_event(event)?;
        }
        self.happened = happened;
        self.run_timers()?;
        self.poll_unpolled()
    }

    /// Closes connections explicitly: unlike TCP, the kernel does not.
    pub(super) fn close_http3(&mut self) {
        for slot in &mut self.slots {
            if matches!(slot.state, State::Http3(_)) {
                slot.clear(true);
            }
        }
    }

    fn settled_http3(&self, index: usize) -> Option<(HandshakeKind, Tls)> {
        let (State::Http3(http3), Some(opener)) = (&self.slots[index].state, &self.dialer.quic) else {
            return None;
        };
        let signature = self.dialer.witness.as_ref().and_then(|seen| seen.signature());
        // Sessions are never resumed.
        let facts = tls::quic_facts(opener.tls(), http3.quic.connection.crypto_session());
        Some((HandshakeKind::Full, Tls { signature, ..facts }))
    }
}
