//! Connections of HTTP/3 in a thread of the generator: how they are opened, when they are read and written, and their
//! timers, of which each connection has one here.

use std::cmp::Reverse;
use std::io;
use std::time::Instant;

use rustls::HandshakeKind;

use super::super::http3::{Http3, Opened};
use super::super::slot::State;
use super::super::tls;
use super::{LOOK, Reuse, Tls, Worker};

impl Worker {
    /// Begins a connection in a place that is closed.
    pub(super) fn open_http3(&mut self, index: usize, number: u64) -> io::Result<()> {
        let http3 = Box::new(Http3::new(self.dialer.dial_quic()?, number));
        self.slots[index].begin_http3(http3, index, &self.poller)?;
        self.transmit_http3(index)
    }

    /// Reads once. What is to be written because of it is written with the next requests.
    pub(super) fn receive_http3(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http3(http3) = &mut self.slots[index].state else { return Ok(()) };
        http3.receive(&mut self.datagrams, Instant::now());
        self.drive_http3(index)
    }

    /// Takes what came for a connection.
    fn drive_http3(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http3(http3) = &mut self.slots[index].state else { return Ok(()) };
        let was_opening = http3.opening().is_some();
        let opened = if was_opening { http3.take_opened() } else { Opened::Yes };
        match opened {
            Opened::Failed(class, text) => {
                self.not_opened(index, class, text);
                return Ok(());
            }
            Opened::Not => {
                self.poll_later(index);
                return Ok(());
            }
            Opened::Yes if was_opening => {
                self.queues.opening -= 1;
                let settled = self.settled_http3(index);
                self.tally.connected(settled);
            }
            Opened::Yes => {}
        }
        self.finish_requests(index)
    }

    /// Counts what ended, and goes on with the connection or without it.
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
        for one in ended.drain(..) {
            self.note(Some(one));
        }
        self.ended = ended;
        Ok(())
    }

    /// Writes all that is to be written, and sets the timer.
    pub(super) fn transmit_http3(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.slots[index];
        let State::Http3(http3) = &mut slot.state else { return Ok(()) };
        let now = Instant::now();
        http3.transmit(now);
        // One that cannot write any more is looked after at once.
        let due = if http3.is_over() { Some(now) } else { http3.quic.timeout() };
        if let Some(due) = due
            && http3.armed.is_none_or(|armed| due < armed)
        {
            http3.armed = Some(due);
            self.timers.push(Reverse((due, index, slot.epoch)));
        }
        slot.settle_interest(index, &self.poller)
    }

    /// Does what is due on connections.
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
            // Most times it was put off since.
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

    /// Serves connections that have no requests, until the owner lets go of them.
    pub(super) fn keep_alive(&mut self) -> anyhow::Result<()> {
        let mut happened = std::mem::take(&mut self.happened);
        self.poller.wait(Some(LOOK.as_nanos() as u64), &mut happened)?;
        for event in happened.drain(..) {
            self.on_event(event)?;
        }
        self.happened = happened;
        self.run_timers()?;
        self.poll_unpolled()
    }

    /// Tells servers that connections are over: other than with TCP, the system does not.
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
        // No session is resumed.
        let facts = tls::quic_facts(opener.tls(), http3.quic.connection.crypto_session());
        Some((HandshakeKind::Full, Tls { signature, ..facts }))
    }
}
