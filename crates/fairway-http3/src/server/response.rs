//! Responses: heads, bodies and trailers as frames.

use bytes::Bytes;
use fairway_http::{Head, Known};
use quinn_proto::{Connection, StreamId};

use super::{Server, State};
use crate::code::Code;
use crate::frame;
use crate::outgoing::Sent;
use crate::qpack::Encoder;
use crate::requests::{Life, Record};
use crate::shared::Shared;

/// What the buffer for field sections may grow to before it is freed.
const KEPT_SECTION: usize = 4 * 1024;

impl Server {
    /// Sends the head of a response, interim (1xx) or final, and ends the stream if `end` is set; gives the bytes of its frame, 0
    /// if the stream cannot take it. What QUIC does not take yet waits here.
    pub fn send_head(&mut self, quic: &mut Connection, stream: StreamId, head: &Head, end: bool) -> usize {
        let frame = section(&mut self.shared, |out| {
            Encoder::status(head.status(), out);
            for (field, sensitive) in head.marked_fields() {
                // "An endpoint MUST NOT generate an HTTP/3 field section containing connection-specific fields" (RFC 9114 §4.2).
                if field.known.bit() & Known::HOP_BY_HOP == 0 {
                    Encoder::field(field.name, field.value, sensitive, out);
                }
            }
        });
        let Some(record) = self.live(stream).filter(|record| record.outgoing.sent == Sent::Nothing) else {
            return 0;
        };
        let bytes = frame.len();
        if head.status() >= 200 {
            record.outgoing.sent = Sent::Head;
            if let Some(value) = head.named(b"priority") {
                record.prioritize(quic, record.priority.merged(value));
            }
        }
        record.outgoing.push(quic, stream, frame);
        if end {
            record.outgoing.finish(quic, stream);
        }
        bytes
    }

    /// Sends body bytes in DATA frames; gives how many were taken. If that is less than all, [`Event::Writable`](crate::Event)
    /// follows, and the rest must be passed again then.
    pub fn send_data(&mut self, quic: &mut Connection, stream: StreamId, data: &[u8]) -> usize {
        let now = self.shared.now;
        self.live(stream).map_or(0, |record| record.outgoing.data(quic, stream, data, now))
    }

    /// Sends trailers and ends the stream. All body bytes must have been taken before; otherwise the stream is reset.
    pub fn send_trailers<'f>(
        &mut self,
        quic: &mut Connection,
        stream: StreamId,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        let mut is_empty = true;
        let frame = section(&mut self.shared, |out| {
            for (name, value) in fields {
                is_empty = false;
                Encoder::field(name, value, false, out);
            }
        });
        if let Some(record) =
            self.unfinished(stream).filter(|record| !is_empty && !record.outgoing.is_in_frame())
        {
            record.outgoing.push(quic, stream, frame);
        }
        self.finish(quic, stream);
    }

    /// Ends the stream. All body bytes must have been taken before; otherwise the stream is reset.
    pub fn finish(&mut self, quic: &mut Connection, stream: StreamId) {
        let Some(record) = self.unfinished(stream) else { return };
        if record.outgoing.is_in_frame() {
            return self.reset(quic, stream, Code::Internal);
        }
        record.outgoing.finish(quic, stream);
    }

    /// About how many bytes `send_data` takes now, 0 if it is blocked or the stream cannot take any.
    #[must_use]
    pub fn room(&self, stream: StreamId) -> usize {
        match self.requests.get(stream) {
            Some(record) if record.life == Life::Live && self.state == State::Open => record.outgoing.room(),
            _ => 0,
        }
    }

    fn live(&mut self, stream: StreamId) -> Option<&mut Record> {
        let open = self.state == State::Open;
        self.turn.take_if(|turn| *turn == stream);
        self.requests.get_mut(stream).filter(|record| open && record.life == Life::Live)
    }

    /// A stream whose response has its final head and is not finished.
    fn unfinished(&mut self, stream: StreamId) -> Option<&mut Record> {
        self.live(stream).filter(|record| record.outgoing.sent == Sent::Head)
    }
}

/// A HEADERS frame with the section that `write` appends.
fn section(shared: &mut Shared, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let section = &mut shared.section;
    section.clear();
    Encoder::begin(section);
    write(section);
    let frame = frame::whole(frame::HEADERS, section);
    if section.capacity() > KEPT_SECTION {
        *section = Vec::new();
    }
    frame
}
