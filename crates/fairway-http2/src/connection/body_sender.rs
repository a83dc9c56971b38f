//! Sends bodies (RFC 9113 §6.1, RFC 9218 §10): which stream may send, how much, and the frames. Stays within the
//! windows and the outbox. Buffers no data except the remainder of a write.

use std::io::IoSlice;

use super::Connection;
use crate::frame::{FLAG_END_STREAM, FrameKind, HEADER_BYTES, Header};
use crate::priority::Priority;
use crate::schedule::SendTurn;
use crate::stream::{HalfState, Stream, StreamLife};

/// With its frame header it fills one TLS record.
const DATA_PAYLOAD_BYTES: usize = 16_375;

/// Frames of one write.
const MAX_FRAMES_PER_WRITE: usize = 8;

/// Bodies from this size on are written to the socket directly: avoiding a copy pays for another slice.
const MIN_VECTORED_BYTES: usize = 16_000;

impl Connection {
    /// How many body bytes a stream may send now.
    pub(crate) fn room(&self, id: u32) -> usize {
        let stream = self
            .streams
            .get(id)
            .filter(|stream| stream.life == StreamLife::Live && stream.sent == HalfState::Open);
        let window = stream.map_or(0, |stream| stream.outgoing.window.room());
        window.min(self.windows.outbound.room()).min(self.outbox.room())
    }

    /// The priority that a stream has now.
    pub(crate) fn priority(&self, id: u32) -> Priority {
        self.streams.get(id).map(|stream| stream.priority).unwrap_or_default()
    }

    /// Gives a stream another priority.
    pub(crate) fn set_priority(&mut self, id: u32, priority: Priority) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.priority = priority;
            self.streams.update_schedule(id);
        }
    }

    /// Queues a stream that has bytes to send: it gets its turn when its window is open, and is reset if that takes too
    /// long.
    pub(crate) fn queue_for_sending(&mut self, now: u64, id: u32) {
        self.timers.now = now;
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.life != StreamLife::Live || stream.sent != HalfState::Open {
            return;
        }
        stream.outgoing.is_queued = true;
        if !stream.outgoing.can_send() {
            self.start_stall_timer(id);
        }
        self.streams.update_schedule(id);
    }

    /// Removes a stream that has nothing to send after all.
    pub(crate) fn unqueue(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.outgoing.is_queued = false;
        stream.outgoing.stall.pause(self.timers.now);
        self.streams.update_schedule(id);
        self.pause_stall_timer_if_idle();
    }

    /// Pauses the connection's stall timer if no stream waits for its window.
    pub(super) fn pause_stall_timer_if_idle(&mut self) {
        if self.streams.has_no_sender() {
            self.windows.stall.pause(self.timers.now);
        }
    }

    /// Whose turn it is to send.
    pub(crate) fn next_turn(&mut self, now: u64) -> Option<SendTurn> {
        self.timers.now = now;
        if self.streams.has_no_sender() || self.outbox.room() == 0 {
            return None;
        }
        if self.windows.outbound.room() == 0 {
            self.windows.stall.start(now);
            return None;
        }
        loop {
            let (id, is_alone) = self.streams.next_sender()?;
            let bytes = self.room(id);
            if bytes == 0 {
                // A setting closed its window, or it is over.
                self.wait_for_window(id);
                continue;
            }
            let is_shared = !is_alone && self.priority(id).incremental;
            let bytes = if is_shared { bytes.min(DATA_PAYLOAD_BYTES) } else { bytes };
            let room = self.windows.outbound.room().min(self.outbox.room());
            return Some(SendTurn { stream: id, bytes, room, is_alone });
        }
    }

    /// Makes a stream wait for its window.
    fn wait_for_window(&mut self, id: u32) {
        if self
            .streams
            .get(id)
            .is_some_and(|stream| stream.life == StreamLife::Live && stream.outgoing.is_queued)
        {
            self.start_stall_timer(id);
        }
        self.streams.update_schedule(id);
    }

    /// Counts as much of `bytes` as fits, up to `limit`, as sent. Returns how much, and whether the stream ends with it.
    fn admit(&mut self, id: u32, bytes: usize, limit: usize, end: bool) -> Option<(usize, bool)> {
        let admitted = bytes.min(self.room(id)).min(limit);
        let end = end && admitted == bytes;
        let open = |stream: &&mut Stream| stream.life == StreamLife::Live && stream.sent == HalfState::Open;
        let stream = self.streams.get_mut(id).filter(open)?;
        if admitted == 0 && !end {
            return None;
        }
        let outgoing = &mut stream.outgoing;
        outgoing.window.send(admitted);
        outgoing.has_sent = true;
        outgoing.stall.record_sent(admitted as u32);
        self.windows.outbound.send(admitted);
        self.windows.stall.record_sent(admitted as u32);
        if end {
            stream.sent = HalfState::Ended;
        }
        if admitted == bytes {
            if outgoing.is_queued {
                self.unqueue(id);
            }
        } else if outgoing.is_queued && !outgoing.can_send() {
            self.wait_for_window(id);
        }
        Some((admitted, end))
    }

    /// Sends as much of `bytes` as fits and returns how much. The stream ends if all of it fits and `end` is set.
    pub(crate) fn send_data(&mut self, id: u32, bytes: &[u8], end: bool) -> usize {
        let Some((taken, end)) = self.admit(id, bytes.len(), usize::MAX, end) else { return 0 };
        let mut unsent = &bytes[..taken];
        loop {
            let (piece, rest) = unsent.split_at(unsent.len().min(DATA_PAYLOAD_BYTES));
            let out = self.outbox.bytes();
            out.extend_from_slice(&data_header(id, piece.len(), end && rest.is_empty()));
            out.extend_from_slice(piece);
            self.peer_record.account.sent_data();
            unsent = rest;
            if unsent.is_empty() {
                return taken;
            }
        }
    }

    /// The same without a copy: `write` gets the pending output and the body frames in order and returns how much it
    /// wrote. The remainder goes to the outbox. Small bodies go there directly.
    pub(crate) fn send_data_with(
        &mut self,
        id: u32,
        bytes: &[u8],
        end: bool,
        write: impl FnOnce(&[IoSlice<'_>]) -> usize,
    ) -> usize {
        if bytes.len().min(self.room(id)) < MIN_VECTORED_BYTES {
            return self.send_data(id, bytes, end);
        }
        let admitted = self.admit(id, bytes.len(), MAX_FRAMES_PER_WRITE * DATA_PAYLOAD_BYTES, end);
        let Some((taken, end)) = admitted else { return 0 };
        let part = &bytes[..taken];
        let mut headers = [[0; HEADER_BYTES]; MAX_FRAMES_PER_WRITE];
        let mut slices = [IoSlice::new(&[]); 1 + 2 * MAX_FRAMES_PER_WRITE];
        let frames = taken.div_ceil(DATA_PAYLOAD_BYTES);
        for ((at, header), piece) in headers.iter_mut().enumerate().zip(part.chunks(DATA_PAYLOAD_BYTES)) {
            *header = data_header(id, piece.len(), end && at + 1 == frames);
            self.peer_record.account.sent_data();
        }
        slices[0] = IoSlice::new(self.outbox.pending());
        let pairs = headers.iter().zip(part.chunks(DATA_PAYLOAD_BYTES));
        for (pair, (header, piece)) in slices[1..].chunks_exact_mut(2).zip(pairs) {
            pair[0] = IoSlice::new(header);
            pair[1] = IoSlice::new(piece);
        }
        let waiting = slices[0].len();
        let written = write(&slices[..1 + 2 * frames]);
        self.outbox.mark_written(written.min(waiting));
        let mut written = written.saturating_sub(waiting);
        for slice in headers
            .iter()
            .map(|header| &header[..])
            .zip(part.chunks(DATA_PAYLOAD_BYTES))
            .flat_map(|(a, b)| [a, b])
        {
            let skipped = written.min(slice.len());
            written -= skipped;
            self.outbox.bytes().extend_from_slice(&slice[skipped..]);
        }
        taken
    }
}

/// The header of a DATA frame.
fn data_header(stream: u32, length: usize, end: bool) -> [u8; HEADER_BYTES] {
    let flags = if end { FLAG_END_STREAM } else { 0 };
    Header { length: length as u32, kind: FrameKind::Data.number(), flags, stream }.bytes()
}
