//! What the owner sends but for bodies: heads and trailers (RFC 9113 §8.1). All of it goes to the outbox. Never waits.

use fairway_http::{Head, Method};

use super::{Connection, Ending};
use crate::fields::{self, Connect};
use crate::frame::{self, END_HEADERS, END_STREAM, HEADER_BYTES, Header, Kind};
use crate::hpack::Encoder;
use crate::stream::{Half, Life, Stream};

impl Connection {
    /// What waits to be written.
    pub(crate) fn pending(&self) -> &[u8] {
        self.outbox.pending()
    }

    /// So many bytes of it were written.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.outbox.wrote(count);
    }

    /// The memory of what waits to be written, while nothing does.
    pub(crate) fn outbox_memory(&mut self) -> Option<&mut Vec<u8>> {
        self.outbox.memory()
    }

    /// Whether a stream is there and not reset.
    pub(crate) fn is_live(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.life == Life::Live)
    }

    /// How many streams were not released.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len() - self.streams.lingering
    }

    /// Where the record of a stream is.
    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        self.streams.slot(id)
    }

    /// Sends a response, interim or final; says whether the stream is there to take it.
    pub(crate) fn send_response(&mut self, id: u32, head: &Head, end: bool) -> bool {
        let interim = (100..200).contains(&head.status());
        debug_assert!(!(interim && end), "an interim answer does not end the stream");
        let after = match (interim, end) {
            (true, _) => Half::Waiting,
            (false, true) => Half::Ended,
            (false, false) => Half::Open,
        };
        let Some(stream) = self.sending(id, Half::Waiting) else { return false };
        stream.sent = after;
        if after != Half::Waiting
            && let Some(text) = head.named(b"priority")
        {
            stream.priority = stream.priority.merged(text);
        }
        let out = self.outbox.bytes();
        let start = begin_block(out);
        fields::write_response(head, &mut self.encoder, out);
        self.end_block(id, start, end);
        true
    }

    /// Opens a stream with a request, if the peer takes one: gives its id.
    pub(crate) fn send_request(
        &mut self,
        head: &Head,
        target: &[u8],
        scheme: &[u8],
        end: bool,
    ) -> Option<u32> {
        self.open_stream(head, end, |encoder, out| fields::write_request(head, target, scheme, encoder, out))
    }

    /// Opens a stream with a request for another protocol, if the peer takes one: gives its id.
    pub(crate) fn send_connect(&mut self, head: &Head, connect: &Connect<'_>) -> Option<u32> {
        let id = self.open_stream(head, false, |encoder, out| {
            fields::write_connect(head, connect, encoder, out);
        })?;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.asked.for_tunnel = true;
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
        let mut stream = Stream::new(id, self.stream_window(), self.peer.window);
        stream.sent = if end { Half::Ended } else { Half::Open };
        stream.asked.for_head = head.method() == Method::Head;
        self.streams.insert(stream);
        self.conduct.account.opened();
        let out = self.outbox.bytes();
        let start = begin_block(out);
        write(&mut self.encoder, out);
        self.end_block(id, start, end);
        Some(id)
    }

    /// Whether the peer offered `:protocol` (RFC 8441), once its SETTINGS came.
    pub(crate) fn takes_extended_connect(&self) -> Option<bool> {
        self.peer.known.then_some(self.peer.extended_connect)
    }

    /// Whether a request can be sent now.
    pub(crate) fn can_open(&self) -> bool {
        self.streams_left() > 0
    }

    /// Whether neither end has said that it takes no more requests.
    pub(crate) fn takes_streams(&self) -> bool {
        self.times.ending == Ending::No
            && !self.is_done()
            && self.peer.last == crate::flow::LARGEST
            && self.ids.highest < crate::flow::LARGEST - 2
    }

    /// How many requests can be sent now.
    pub(crate) fn streams_left(&self) -> usize {
        let limit = self.peer.streams.min(self.config.streams) as usize;
        if self.takes_streams() { limit.saturating_sub(self.streams.len()) } else { 0 }
    }

    /// Sends trailers, which end the stream; says whether it is there to take them.
    pub(crate) fn send_trailers<'f>(
        &mut self,
        id: u32,
        trailers: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> bool {
        let Some(stream) = self.sending(id, Half::Open) else { return false };
        stream.sent = Half::Ended;
        self.send_no_more(id);
        let out = self.outbox.bytes();
        let start = begin_block(out);
        fields::write_trailers(trailers, &mut self.encoder, out);
        self.end_block(id, start, true);
        true
    }

    fn sending(&mut self, id: u32, half: Half) -> Option<&mut Stream> {
        self.streams.get_mut(id).filter(|stream| stream.life == Life::Live && stream.sent == half)
    }

    /// Completes the frame whose header is at `start`, and cuts what is too long for one.
    fn end_block(&mut self, stream: u32, start: usize, end: bool) {
        let most = self.peer.frame_bytes as usize;
        let out = self.outbox.bytes();
        let length = out.len() - start - HEADER_BYTES;
        let flags = if end { END_STREAM } else { 0 };
        let first = length.min(most);
        let whole = if length <= most { END_HEADERS } else { 0 };
        let header =
            Header { length: first as u32, kind: Kind::Headers.number(), flags: flags | whole, stream };
        out[start..start + HEADER_BYTES].copy_from_slice(&header.bytes());
        if length > most {
            let rest = out.split_off(start + HEADER_BYTES + most);
            let count = rest.len().div_ceil(most);
            for (at, piece) in rest.chunks(most).enumerate() {
                let flags = if at + 1 == count { END_HEADERS } else { 0 };
                frame::write_frame(Kind::Continuation, flags, stream, piece, out);
            }
        }
    }
}

/// Leaves room for the header of a frame, whose length is not known yet.
fn begin_block(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    start
}
