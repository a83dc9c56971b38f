//! The windows for the peer's data (RFC 9113 §5.2, §6.9): counted as frames arrive, reopened as their bytes are
//! consumed, and grown for fast bodies. Buffers no data.
//!
//! Each window starts small and doubles when half of it lasts no longer than [`FAST_BODY_MICROS`], from a budget that
//! the owner grants. The connection window grows by the same amount, so it bounds the memory that the peer can fill,
//! and one fast body takes nothing from the others.

use super::Connection;
use crate::fault::{Code, Fault};
use crate::frame;
use crate::stream::{HalfState, StreamLife};

/// A body that uses half of its window within this time would use a larger one, in microseconds.
const FAST_BODY_MICROS: u64 = 250_000;

impl Connection {
    /// Consumed body bytes: the peer may send as many again.
    pub(crate) fn consume(&mut self, stream: u32, bytes: u32) {
        let Some(record) = self.streams.get_mut(stream).filter(|record| record.life == StreamLife::Live)
        else {
            return;
        };
        let incoming = &mut record.incoming;
        let bytes = bytes.min(incoming.unconsumed);
        let refunded = incoming.small_frames.read(bytes, incoming.unconsumed, incoming.window.size());
        incoming.unconsumed -= bytes;
        self.peer_record.account.refund(refunded);
        self.return_to_windows(stream, bytes);
    }

    /// Returns bytes to both windows.
    pub(super) fn return_to_windows(&mut self, id: u32, bytes: u32) {
        let now = self.timers.now;
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(mut increment) = stream.incoming.window.consume(bytes)
            && stream.received != HalfState::Ended
        {
            let since = std::mem::replace(&mut stream.incoming.window_announced_at, now);
            let limit = stream.incoming.window.size();
            let growth = limit.min(self.config.max_stream_window.saturating_sub(limit));
            if now.saturating_sub(since) <= FAST_BODY_MICROS
                && growth > 0
                && self.windows.budget.try_take(growth)
            {
                stream.incoming.grown += growth;
                increment += stream.incoming.window.grow(growth);
                let increment = self.windows.inbound.grow(growth);
                if increment > 0 {
                    frame::write_window_update(0, increment, self.outbox.bytes());
                }
            }
            frame::write_window_update(id, increment, self.outbox.bytes());
        }
        self.return_to_connection(bytes);
    }

    /// Returns bytes that no reader will consume to the connection window.
    pub(super) fn return_to_connection(&mut self, bytes: u32) {
        let before = self.windows.inbound.surplus();
        let increment = self.windows.inbound.consume(bytes);
        self.windows.budget.returned += before - self.windows.inbound.surplus();
        if let Some(increment) = increment {
            frame::write_window_update(0, increment, self.outbox.bytes());
        }
    }

    /// Returns the growth of a stream that is over.
    pub(super) fn return_growth(&mut self, grown: u32) {
        let before = self.windows.inbound.surplus();
        self.windows.inbound.shrink(grown);
        self.windows.budget.returned += grown - (self.windows.inbound.surplus() - before);
    }

    /// Counts a frame against the connection window.
    pub(super) fn take_from_connection(&mut self, bytes: u32) -> Result<(), Fault> {
        match self.windows.inbound.receive(bytes) {
            true => Ok(()),
            false => Err(Fault::connection(Code::FlowControl, "connection_window")),
        }
    }

    /// How much fast bodies would have grown their windows, had the budget allowed it.
    pub(crate) fn wanted_window_bytes(&self) -> u32 {
        self.windows.budget.wanted_window
    }

    /// Lets windows grow by this much more.
    pub(crate) fn grant_window(&mut self, bytes: u32) {
        self.windows.budget.available = self.windows.budget.available.saturating_add(bytes);
        self.windows.budget.wanted_window = 0;
    }

    /// Takes back unused grants.
    pub(crate) fn reclaim_window(&mut self) -> u32 {
        let budget = &mut self.windows.budget;
        let unused = if self.streams.len() == 0 { std::mem::take(&mut budget.available) } else { 0 };
        unused + std::mem::take(&mut budget.returned)
    }
}
