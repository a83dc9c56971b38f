//! Bodies that are sent (RFC 9113 §6.1, RFC 9218 §10): whose turn it is, how much of it, and the frames. They stay within
//! the windows and the outbox's room. Never waits, and never keeps a body but for what a write left over.

use std::io::IoSlice;

use super::Connection;
use crate::frame::{END_STREAM, HEADER_BYTES, Header, Kind};
use crate::priority::Priority;
use crate::schedule::Turn;
use crate::stream::{Half, Life, Stream};

/// With the header of its frame it fills one TLS record.
const PAYLOAD: usize = 16_375;

/// Frames that one write may have.
const FRAMES: usize = 8;

/// Bodies from here on go to the socket from where they are; copying less is cheaper than another slice.
const GATHERED: usize = 16_000;

impl Connection {
    /// How many body bytes a stream may send now.
    pub(crate) fn room(&self, id: u32) -> usize {
        let stream =
            self.streams.get(id).filter(|stream| stream.life == Life::Live && stream.sent == Half::Open);
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
            self.streams.arrange(id);
        }
    }

    /// There are bytes to send on a stream: it gets its turn when its window is open, and is ended when that takes too
    /// long.
    pub(crate) fn want_to_send(&mut self, now: u64, id: u32) {
        self.times.now = now;
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.life != Life::Live || stream.sent != Half::Open {
            return;
        }
        stream.outgoing.wanted = true;
        if !stream.outgoing.can_send() {
            self.start_patience(id);
        }
        self.streams.arrange(id);
    }

    /// There is nothing to send on a stream after all.
    pub(crate) fn send_no_more(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.outgoing.wanted = false;
        stream.outgoing.patience.pause(self.times.now);
        self.streams.arrange(id);
        self.pause_if_quiet();
    }

    /// The window of the connection may stay closed while no stream waits for it.
    pub(super) fn pause_if_quiet(&mut self) {
        if self.streams.is_quiet() {
            self.windows.patience.pause(self.times.now);
        }
    }

    /// Whose turn it is to send.
    pub(crate) fn next_to_send(&mut self, now: u64) -> Option<Turn> {
        self.times.now = now;
        if self.streams.is_quiet() || self.outbox.room() == 0 {
            return None;
        }
        if self.windows.outbound.room() == 0 {
            self.windows.patience.wait(now);
            return None;
        }
        loop {
            let (id, is_alone) = self.streams.choose()?;
            let bytes = self.room(id);
            if bytes == 0 {
                // A setting closed its window, or it is over.
                self.stall(id);
                continue;
            }
            let is_shared = !is_alone && self.priority(id).incremental;
            let bytes = if is_shared { bytes.min(PAYLOAD) } else { bytes };
            let room = self.windows.outbound.room().min(self.outbox.room());
            return Some(Turn { stream: id, bytes, room, is_alone });
        }
    }

    /// A stream cannot send now.
    fn stall(&mut self, id: u32) {
        if self.streams.get(id).is_some_and(|stream| stream.life == Life::Live && stream.outgoing.wanted) {
            self.start_patience(id);
        }
        self.streams.arrange(id);
    }

    /// Counts what of a body of `bytes` has room as sent, `most` at most; gives how much that is, and whether the stream ends with it.
    fn admit(&mut self, id: u32, bytes: usize, most: usize, end: bool) -> Option<(usize, bool)> {
        let taken = bytes.min(self.room(id)).min(most);
        let end = end && taken == bytes;
        let open = |stream: &&mut Stream| stream.life == Life::Live && stream.sent == Half::Open;
        let stream = self.streams.get_mut(id).filter(open)?;
        if taken == 0 && !end {
            return None;
        }
        let outgoing = &mut stream.outgoing;
        outgoing.window.take(taken);
        outgoing.begun = true;
        outgoing.patience.sent(taken as u32);
        self.windows.outbound.take(taken);
        self.windows.patience.sent(taken as u32);
        if end {
            stream.sent = Half::Ended;
        }
        if taken == bytes {
            if outgoing.wanted {
                self.send_no_more(id);
            }
        } else if outgoing.wanted && !outgoing.can_send() {
            self.stall(id);
        }
        Some((taken, end))
    }

    /// Sends what of a body has room; gives how much that is. The stream ends with it if all of it has.
    pub(crate) fn send_data(&mut self, id: u32, bytes: &[u8], end: bool) -> usize {
        let Some((taken, end)) = self.admit(id, bytes.len(), usize::MAX, end) else { return 0 };
        let mut left = &bytes[..taken];
        loop {
            let (piece, rest) = left.split_at(left.len().min(PAYLOAD));
            let out = self.outbox.bytes();
            out.extend_from_slice(&data_header(id, piece.len(), end && rest.is_empty()));
            out.extend_from_slice(piece);
            self.conduct.account.sent_data();
            left = rest;
            if left.is_empty() {
                return taken;
            }
        }
    }

    /// The same, but what waits and the body are written from where they are: `write` gets all of it in order and gives how
    /// much it wrote. What is left over goes to the outbox. A small body is not worth it and goes there as a whole.
    pub(crate) fn send_data_with(
        &mut self,
        id: u32,
        bytes: &[u8],
        end: bool,
        write: impl FnOnce(&[IoSlice<'_>]) -> usize,
    ) -> usize {
        if bytes.len().min(self.room(id)) < GATHERED {
            return self.send_data(id, bytes, end);
        }
        let admitted = self.admit(id, bytes.len(), FRAMES * PAYLOAD, end);
        let Some((taken, end)) = admitted else { return 0 };
        let part = &bytes[..taken];
        let mut headers = [[0; HEADER_BYTES]; FRAMES];
        let mut slices = [IoSlice::new(&[]); 1 + 2 * FRAMES];
        let frames = taken.div_ceil(PAYLOAD);
        for ((at, header), piece) in headers.iter_mut().enumerate().zip(part.chunks(PAYLOAD)) {
            *header = data_header(id, piece.len(), end && at + 1 == frames);
            self.conduct.account.sent_data();
        }
        slices[0] = IoSlice::new(self.outbox.pending());
        let pairs = headers.iter().zip(part.chunks(PAYLOAD));
        for (pair, (header, piece)) in slices[1..].chunks_exact_mut(2).zip(pairs) {
            pair[0] = IoSlice::new(header);
            pair[1] = IoSlice::new(piece);
        }
        let waiting = slices[0].len();
        let written = write(&slices[..1 + 2 * frames]);
        self.outbox.wrote(written.min(waiting));
        let mut written = written.saturating_sub(waiting);
        for slice in
            headers.iter().map(|header| &header[..]).zip(part.chunks(PAYLOAD)).flat_map(|(a, b)| [a, b])
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
    let flags = if end { END_STREAM } else { 0 };
    Header { length: length as u32, kind: Kind::Data.number(), flags, stream }.bytes()
}
