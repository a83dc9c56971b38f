//! Sends heads and trailers (RFC 9113 §8.1). All of it goes to the outbox.

use fairway_http::{Head, Method};

use super::{Connection, Shutdown};
use crate::fields::{self, Connect};
use crate::frame::{self, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind, HEADER_BYTES, Header};
use crate::hpack::Encoder;
use crate::stream::{HalfState, Stream, StreamLife};

impl Connection {
    /// Output to be written.
    pub(crate) fn pending(&self) -> &[u8] {
        self.outbox.pending()
    }

    /// Records that `count` bytes of it were written.
    pub(crate) fn mark_written(&mut self, count: usize) {
        self.outbox.mark_written(count);
    }

    /// The buffer of the outbox while it is empty.
    pub(crate) fn outbox_memory(&mut self) -> Option<&mut Vec<u8>> {
        self.outbox.memory()
    }

    /// Whether a stream exists and was not reset.
    pub(crate) fn is_live(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.life == StreamLife::Live)
    }

    /// The number of streams that were not released.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len() - self.streams.lingering
    }

    /// The slot of a stream.
    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        self.streams.slot(id)
    }

    /// Sends an interim or final response. Returns whether the stream can take it.
    pub(crate) fn send_response(&mut self, id: u32, head: &Head, end: bool) -> bool {
        let interim = (100..200).contains(&head.status());
        debug_assert!(!(interim && end), "an interim answer does not end the stream");
        let after = match (interim, end) {
            (true, _) => HalfState::Waiting,
            (false, true) => HalfState::Ended,
            (false, false) => HalfState::Open,
        };
        let Some(stream) = self.sendable_stream(id, HalfState::Waiting) else { return false };
        stream.sent = after;
        if after != HalfState::Waiting
            && let Some(text) = head.named(b"priority")
        {
            stream.priority = stream.priority.merged(text);
        }
        let out = self.outbox.bytes();
        let start = begin_block(out);
        fields::write_response(head, &mut self.encoder, out);
        self.finish_block(id, start, end);
        true
    }

    /// Opens a stream with a request, if the peer allows it. Returns its id.
    pub(crate) fn send_request(
        &mut self,
        head: &Head,
        target: &[u8],
        scheme: &[u8],
        end: bool,
    ) -> Option<u32> {
        self.open_stream(head, end, |encoder, out| fields::write_request(head, target, scheme, encoder, out))
    }

    /// Opens a stream for another protocol, if the peer allows it. Returns its id.
    pub(crate) fn send_connect(&mut self, head: &Head, connect: &Connect<'_>) -> Option<u32> {
        let id = self.open_stream(head, false, |encoder, out| {
            fields::write_connect(head, connect, encoder, out);
        })?;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.request.is_tunnel = true;
        }
        Some(id)
    }

    /// Opens a stream with a field block.
    #[inline]
    fn open_stream(
        &mut self,
        head: &Head,
        end: bool,
        write: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) -> Option<u32> {
        if !self.can_open() {
            return None;
        }
        let id = if self.ids.highest == 0 { 1 } else { self.ids.highest + 2 };
        self.ids.highest = id;
        let mut stream = Stream::new(id, self.stream_window(), self.peer.stream_window);
        stream.sent = if end { HalfState::Ended } else { HalfState::Open };
        stream.request.is_head = head.method() == Method::Head;
        self.streams.insert(stream);
        self.peer_record.account.opened();
        let out = self.outbox.bytes();
        let start = begin_block(out);
        write(&mut self.encoder, out);
        self.finish_block(id, start, end);
        Some(id)
    }

    /// Whether the peer offered `:protocol` (RFC 8441), once its SETTINGS arrived.
    pub(crate) fn supports_extended_connect(&self) -> Option<bool> {
        self.peer.is_received.then_some(self.peer.extended_connect)
    }

    /// Whether a request can be sent now.
    pub(crate) fn can_open(&self) -> bool {
        self.available_streams() > 0
    }

    /// Whether neither end has sent GOAWAY.
    pub(crate) fn accepts_streams(&self) -> bool {
        self.timers.shutdown == Shutdown::Open
            && !self.is_done()
            && self.peer.last_stream == crate::flow::MAX_WINDOW
            && self.ids.highest < crate::flow::MAX_WINDOW - 2
    }

    /// How many requests can be sent now.
    pub(crate) fn available_streams(&self) -> usize {
        let limit = self.peer.max_streams.min(self.config.max_streams) as usize;
        if self.accepts_streams() { limit.saturating_sub(self.streams.len()) } else { 0 }
    }

    /// Sends trailers and ends the stream. Returns whether the stream can take them.
    pub(crate) fn send_trailers<'f>(
        &mut self,
        id: u32,
        trailers: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        let Some(stream) = self.sendable_stream(id, HalfState::Open) else { return false };
        stream.sent = HalfState::Ended;
        self.unqueue(id);
        let out = self.outbox.bytes();
        let start = begin_block(out);
        fields::write_trailers(trailers, &mut self.encoder, out);
        self.finish_block(id, start, true);
        true
    }

    fn sendable_stream(&mut self, id: u32, half: HalfState) -> Option<&mut Stream> {
        self.streams.get_mut(id).filter(|stream| stream.life == StreamLife::Live && stream.sent == half)
    }

    /// Completes the frame whose header is at `start`, and splits a block that is too long for one frame.
    fn finish_block(&mut self, stream: u32, start: usize, end: bool) {
        let limit = self.peer.max_frame_bytes as usize;
        let out = self.outbox.bytes();
        let length = out.len() - start - HEADER_BYTES;
        let flags = if end { FLAG_END_STREAM } else { 0 };
        let first = length.min(limit);
        let end_flag = if length <= limit { FLAG_END_HEADERS } else { 0 };
        let header = Header {
            length: first as u32,
            kind: FrameKind::Headers.number(),
            flags: flags | end_flag,
            stream,
        };
        out[start..start + HEADER_BYTES].copy_from_slice(&header.bytes());
        if length > limit {
            let rest = out.split_off(start + HEADER_BYTES + limit);
            let count = rest.len().div_ceil(limit);
            for (at, piece) in rest.chunks(limit).enumerate() {
                let flags = if at + 1 == count { FLAG_END_HEADERS } else { 0 };
                frame::write_frame(FrameKind::Continuation, flags, stream, piece, out);
            }
        }
    }
}

/// Reserves space for a frame header, whose length is not known yet.
fn begin_block(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}
