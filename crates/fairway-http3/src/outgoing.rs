//! What we send on one stream: frames that QUIC did not take yet, and DATA frames for a body in pieces. Never decides what is
//! sent.

use bytes::Bytes;
use quinn_proto::{Connection, StreamId, WriteError};

use crate::frame;

/// Bytes of a body that are passed to QUIC at once, in one DATA frame at most.
const PIECE: usize = 16 * 1024;

/// What `room` says of a stream that is not blocked: QUIC does not tell how much it takes.
pub(crate) const ROOM: usize = 4 * PIECE;

/// How far a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Its final head was not sent.
    Nothing,
    /// Its final head was.
    Head,
    /// It is complete.
    Finished,
}

/// One stream's output.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) sent: Sent,
    /// Whether the last write was refused: QUIC says when that changes.
    blocked: bool,
    /// Whether the owner had more bytes than were taken.
    wanted: bool,
    /// Whether the stream takes nothing any more.
    dead: bool,
    /// Whether the stream ends when nothing waits.
    ends: bool,
    /// When QUIC took bytes of a body last, in microseconds.
    pub(crate) sent_at: u64,
    /// Bytes of the current DATA frame that were announced and not sent.
    data_left: usize,
    /// What QUIC did not take.
    waiting: Bytes,
}

impl Outgoing {
    pub(crate) fn new() -> Self {
        Outgoing {
            sent: Sent::Nothing,
            blocked: false,
            wanted: false,
            dead: false,
            ends: false,
            sent_at: 0,
            data_left: 0,
            waiting: Bytes::new(),
        }
    }

    /// Whether something waits for QUIC, the end of the stream included.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.dead && (self.ends || !self.waiting.is_empty())
    }

    /// Whether the body of a response can be sent on.
    pub(crate) fn is_in_frame(&self) -> bool {
        self.data_left > 0
    }

    pub(crate) fn room(&self) -> usize {
        let can_take = !self.blocked && !self.dead && self.waiting.is_empty() && self.sent == Sent::Head;
        if can_take { ROOM } else { 0 }
    }

    /// Sends whole frames behind what waits.
    pub(crate) fn push(&mut self, quic: &mut Connection, id: StreamId, frames: Bytes) {
        self.queue(frames);
        self.flush(quic, id);
    }

    /// Keeps frames until [`Outgoing::flush`].
    pub(crate) fn queue(&mut self, frames: Bytes) {
        self.waiting =
            if self.waiting.is_empty() { frames } else { Bytes::from([&self.waiting[..], &frames].concat()) };
    }

    /// Sends as much of a body as QUIC takes `now`; gives how much that was.
    pub(crate) fn data(&mut self, quic: &mut Connection, id: StreamId, data: &[u8], now: u64) -> usize {
        let mut taken = 0;
        while taken < data.len() && self.room() > 0 {
            taken += self.piece(quic, id, &data[taken..]);
        }
        self.wanted = taken < data.len();
        if taken > 0 {
            self.sent_at = now;
        }
        taken
    }

    /// Sends one piece of a body, with the header of a DATA frame unless it continues one.
    fn piece(&mut self, quic: &mut Connection, id: StreamId, data: &[u8]) -> usize {
        let is_new = self.data_left == 0;
        if is_new {
            self.data_left = data.len().min(PIECE);
        }
        let piece = &data[..data.len().min(self.data_left)];
        let mut bytes = if is_new { frame::whole(frame::DATA, piece) } else { Bytes::copy_from_slice(piece) };
        self.write(quic, id, &mut bytes);
        // What is left of the header waits; what is left of the data is the owner's.
        self.waiting = bytes.split_to(bytes.len().saturating_sub(piece.len()));
        let taken = piece.len() - bytes.len();
        self.data_left -= taken;
        taken
    }

    /// Ends the stream behind what waits.
    pub(crate) fn finish(&mut self, quic: &mut Connection, id: StreamId) {
        self.sent = Sent::Finished;
        self.ends = true;
        self.flush(quic, id);
    }

    /// Passes on what waits. Says whether the owner can send again what was not taken before.
    pub(crate) fn unblock(&mut self, quic: &mut Connection, id: StreamId) -> bool {
        self.blocked = false;
        self.flush(quic, id);
        self.room() > 0 && std::mem::take(&mut self.wanted)
    }

    pub(crate) fn flush(&mut self, quic: &mut Connection, id: StreamId) {
        let mut bytes = std::mem::take(&mut self.waiting);
        self.write(quic, id, &mut bytes);
        self.waiting = bytes;
        if self.ends && !self.dead && self.waiting.is_empty() {
            self.ends = false;
            // A stream that was stopped or reset cannot be finished: an event says so.
            self.dead = quic.send_stream(id).finish().is_err();
        }
    }

    /// Writes until all is taken or QUIC refuses. Only a refusal makes QUIC say when there is room again, so a short write is
    /// followed by another.
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

    /// Nothing can be sent any more.
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.wanted = false;
        self.waiting = Bytes::new();
    }
}
