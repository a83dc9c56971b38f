//! The output of one stream: frames that QUIC has not accepted yet, and DATA frames for a body.

use bytes::Bytes;
use quinn_proto::{Connection, StreamId, WriteError};

use crate::frame;

/// Body bytes passed to QUIC at once, in one DATA frame at most.
const PIECE: usize = 16 * 1024;

/// The room reported for a stream that is not blocked: QUIC does not tell how much it accepts.
pub(crate) const ROOM: usize = 4 * PIECE;

/// How much of a response was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendState {
    /// Not its final head.
    Nothing,
    /// Its final head.
    Head,
    /// All of it.
    Finished,
}

/// The output of one stream.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) sent: SendState,
    /// Whether the last write was refused: QUIC reports when that changes.
    blocked: bool,
    /// Whether the owner had more bytes than were accepted.
    wants_to_send: bool,
    /// Whether the stream accepts nothing any more.
    dead: bool,
    /// Whether the stream ends once nothing is pending.
    ends: bool,
    /// When QUIC last accepted body bytes, in microseconds.
    pub(crate) sent_at: u64,
    /// Announced bytes of the current DATA frame that were not sent.
    data_left: usize,
    /// What QUIC has not accepted.
    waiting: Bytes,
}

impl Outgoing {
    pub(crate) fn new() -> Self {
        Outgoing {
            sent: SendState::Nothing,
            blocked: false,
            wants_to_send: false,
            dead: false,
            ends: false,
            sent_at: 0,
            data_left: 0,
            waiting: Bytes::new(),
        }
    }

    /// Whether anything is pending, including the end of the stream.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.dead && (self.ends || !self.waiting.is_empty())
    }

    /// Whether more body of a response can be sent.
    pub(crate) fn is_in_frame(&self) -> bool {
        self.data_left > 0
    }

    pub(crate) fn room(&self) -> usize {
        let can_take = !self.blocked && !self.dead && self.waiting.is_empty() && self.sent == SendState::Head;
        if can_take { ROOM } else { 0 }
    }

    /// Sends complete frames after what is pending.
    pub(crate) fn push(&mut self, quic: &mut Connection, id: StreamId, frames: Bytes) {
        self.queue(frames);
        self.flush(quic, id);
    }

    /// Queues frames until [`Outgoing::flush`].
    pub(crate) fn queue(&mut self, frames: Bytes) {
        self.waiting =
            if self.waiting.is_empty() { frames } else { Bytes::from([&self.waiting[..], &frames].concat()) };
    }

    /// Sends as much of a body as QUIC accepts at `now`; returns how much.
    pub(crate) fn data(&mut self, quic: &mut Connection, id: StreamId, data: &[u8], now: u64) -> usize {
        let mut written = 0;
        while written < data.len() && self.room() > 0 {
            written += self.write_chunk(quic, id, &data[written..]);
        }
        self.wants_to_send = written < data.len();
        if written > 0 {
            self.sent_at = now;
        }
        written
    }

    /// Sends one part of a body, with a DATA frame header unless it continues a frame.
    fn write_chunk(&mut self, quic: &mut Connection, id: StreamId, data: &[u8]) -> usize {
        let is_new = self.data_left == 0;
        if is_new {
            self.data_left = data.len().min(PIECE);
        }
        let chunk = &data[..data.len().min(self.data_left)];
        let mut bytes =
            if is_new { frame::complete_frame(frame::DATA, chunk) } else { Bytes::copy_from_slice(chunk) };
        self.write(quic, id, &mut bytes);
        // The rest of the header is queued; the rest of the data stays with the owner.
        self.waiting = bytes.split_to(bytes.len().saturating_sub(chunk.len()));
        let written = chunk.len() - bytes.len();
        self.data_left -= written;
        written
    }

    /// Ends the stream after what is pending.
    pub(crate) fn finish(&mut self, quic: &mut Connection, id: StreamId) {
        self.sent = SendState::Finished;
        self.ends = true;
        self.flush(quic, id);
    }

    /// Sends what is pending. Returns whether the owner can send what was not accepted before.
    pub(crate) fn unblock(&mut self, quic: &mut Connection, id: StreamId) -> bool {
        self.blocked = false;
        self.flush(quic, id);
        self.room() > 0 && std::mem::take(&mut self.wants_to_send)
    }

    pub(crate) fn flush(&mut self, quic: &mut Connection, id: StreamId) {
        let mut bytes = std::mem::take(&mut self.waiting);
        self.write(quic, id, &mut bytes);
        self.waiting = bytes;
        if self.ends && !self.dead && self.waiting.is_empty() {
            self.ends = false;
            // A stream that was stopped or reset cannot be finished: an event reports it.
            self.dead = quic.send_stream(id).finish().is_err();
        }
    }

    /// Writes until everything is accepted or QUIC refuses. QUIC reports room only after a refusal, so a short write is
    /// followed by another one.
    fn write(&mut self, quic: &mut Connection, id: StreamId, bytes: &mut Bytes) {
        while !bytes.is_empty() && !self.dead {
            match quic.send_stream(id).write_chunks(std::slice::from_mut(bytes)) {
                Ok(_) => {}
                Err(WriteError::Blocked) => {
                    self.blocked = true;
                    return;
                }
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => self.die(),
            }
        }
        if self.dead {
            bytes.clear();
        }
    }

    /// Drops everything: nothing can be sent any more.
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.wants_to_send = false;
        self.waiting = Bytes::new();
    }
}
