//! What a socket that moved means for the connection on it. Never takes a request from the line.

use super::Worker;
use crate::load::http1::After;
use crate::load::plan::Reuse;
use crate::load::poller::SocketEvent;
use crate::load::slot::{State, Step};
use crate::load::tally::Fate;

impl Worker {
    pub(super) fn on_event(&mut self, event: SocketEvent) -> anyhow::Result<()> {
        let (index, epoch) = ((event.token & u64::from(u32::MAX)) as usize, (event.token >> 32) as u32);
        let slot = &mut self.slots[index];
        if slot.epoch != epoch {
            return Ok(());
        }
        match &mut slot.state {
            State::Closed => {}
            State::Opening(opening) => match opening.step(&mut self.io.scratch) {
                Step::Wait => self.settle(index)?,
                Step::Ready => self.opened(index)?,
                Step::Failed(class, text) => self.not_opened(index, class, text),
            },
            State::Http1(http1) => {
                if event.writable
                    && let Err(error) = http1.transport.flush()
                {
                    let ended = http1.write_failed(&error);
                    self.close(index, false);
                    self.note(ended);
                    return Ok(());
                }
                if event.readable {
                    self.read_http1(index)?;
                }
                self.settle(index)?;
            }
            State::Http2(http2) => {
                http2.pipe.borrow_mut().moved();
                self.pump(index)?;
            }
        }
        Ok(())
    }

    fn read_http1(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http1(http1) = &mut self.slots[index].state else { return Ok(()) };
        let had_request = http1.current().is_some();
        let (after, ended) = http1.receive(&mut self.io.scratch, &self.expected);
        self.tally.counts.bytes += http1.take_received();
        let is_orderly = matches!(ended, None | Some((_, Fate::Answered { .. })));
        match after {
            After::Busy => {}
            After::Free if self.plan.wire.reuse == Reuse::ConnectionPerRequest => self.close(index, true),
            After::Free if self.plan.wire.reuse == Reuse::OneAfterTheOther => {}
            After::Free if had_request => self.queues.idle.push_back((index, self.slots[index].epoch)),
            After::Free => {}
            After::Over => self.close(index, is_orderly),
        }
        self.note(ended);
        Ok(())
    }

    fn pump(&mut self, index: usize) -> anyhow::Result<()> {
        let State::Http2(http2) = &mut self.slots[index].state else { return Ok(()) };
        http2.is_unpolled = false;
        let flushed = http2.pipe.borrow_mut().transport.flush();
        let mut ended = std::mem::take(&mut self.io.ended);
        http2.pump(&self.expected, &mut ended);
        self.tally.counts.bytes += http2.pipe.borrow_mut().take_received();
        if http2.is_over() || (flushed.is_err() && http2.in_flight() == 0) {
            self.close(index, true);
        } else {
            self.settle(index)?;
            self.offer(index);
        }
        for one in ended.drain(..) {
            self.note(Some(one));
        }
        self.io.ended = ended;
        Ok(())
    }

    pub(super) fn poll_unpolled(&mut self) -> anyhow::Result<()> {
        while let Some(index) = self.queues.unpolled.pop() {
            self.pump(index)?;
            self.serve_line()?;
        }
        Ok(())
    }
}
