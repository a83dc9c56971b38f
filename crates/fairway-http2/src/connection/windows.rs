//! What the peer may send (RFC 9113 §5.2, §6.9): counted as frames come, announced again as their bytes are consumed, and
//! more of it for bodies that come fast. Never keeps a body.
//!
//! Each window begins small and doubles when half of it lasts no longer than [`BRISK_MICROS`], out of a budget that the
//! owner grants. The window of the connection grows by the same, so it bounds what the peer can make us hold, and one fast
//! body takes nothing from the others.

use super::Connection;
use crate::fault::{Code, Fault};
use crate::frame;
use crate::stream::{Half, Life};

/// A body that uses half of its window in this time would use a larger one, in microseconds.
const BRISK_MICROS: u64 = 250_000;

impl Connection {
    /// Bytes of a body were consumed: the peer may send as many again.
    pub(crate) fn consume(&mut self, stream: u32, bytes: u32) {
        let Some(record) = self.streams.get_mut(stream).filter(|record| record.life == Life::Live) else {
            return;
        };
        let incoming = &mut record.incoming;
        let bytes = bytes.min(incoming.held);
        let refunded = incoming.small.read(bytes, incoming.held, incoming.window.most());
        incoming.held -= bytes;
        self.conduct.account.refund(refunded);
        self.give(stream, bytes);
    }

    /// Both windows get bytes back.
    pub(super) fn give(&mut self, id: u32, bytes: u32) {
        let now = self.times.now;
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(mut increment) = stream.incoming.window.give(bytes)
            && stream.received != Half::Ended
        {
            let since = std::mem::replace(&mut stream.incoming.since, now);
            let most = stream.incoming.window.most();
            let more = most.min(self.config.largest_stream_window.saturating_sub(most));
            if now.saturating_sub(since) <= BRISK_MICROS && more > 0 && self.windows.budget.take(more) {
                stream.incoming.grown += more;
                increment += stream.incoming.window.grow(more);
                let increment = self.windows.inbound.grow(more);
                if increment > 0 {
                    frame::write_window_update(0, increment, self.outbox.bytes());
                }
            }
            frame::write_window_update(id, increment, self.outbox.bytes());
        }
        self.give_to_connection(bytes);
    }

    /// The window of the connection gets bytes back that no reader will consume.
    pub(super) fn give_to_connection(&mut self, bytes: u32) {
        let before = self.windows.inbound.surplus();
        let increment = self.windows.inbound.give(bytes);
        self.windows.budget.returned += before - self.windows.inbound.surplus();
        if let Some(increment) = increment {
            frame::write_window_update(0, increment, self.outbox.bytes());
        }
    }

    /// A stream is over: what its window grew by is needed no more.
    pub(super) fn shrink(&mut self, grown: u32) {
        let before = self.windows.inbound.surplus();
        self.windows.inbound.shrink(grown);
        self.windows.budget.returned += grown - (self.windows.inbound.surplus() - before);
    }

    /// Counts a frame against the window of the connection.
    pub(super) fn take_from_connection(&mut self, bytes: u32) -> Result<(), Fault> {
        match self.windows.inbound.take(bytes) {
            true => Ok(()),
            false => Err(Fault::connection(Code::FlowControl, "connection_window")),
        }
    }

    /// By how much a fast body would have grown its window, had the budget allowed it.
    pub(crate) fn window_wanted(&self) -> u32 {
        self.windows.budget.wanted
    }

    /// Windows may grow by this much more.
    pub(crate) fn grant_window(&mut self, bytes: u32) {
        self.windows.budget.free = self.windows.budget.free.saturating_add(bytes);
        self.windows.budget.wanted = 0;
    }

    /// What of the grants is in use no more.
    pub(crate) fn reclaim_window(&mut self) -> u32 {
        let budget = &mut self.windows.budget;
        let unused = if self.streams.len() == 0 { std::mem::take(&mut budget.free) } else { 0 };
        unused + std::mem::take(&mut budget.returned)
    }
}
