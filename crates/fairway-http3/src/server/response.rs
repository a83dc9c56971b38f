//! Sending responses: heads, bodies and trailers as frames.

use bytes::Bytes;
use fairway_http::{Head, Known};
use quinn_proto::{Connection, StreamId};

use super::{ConnectionState, Server};
use crate::code::Code;
use crate::frame;
use crate::outgoing::SendState;
use crate::qpack::Encoder;
use crate::requests::{RequestRecord, RequestState};
use crate::shared::ConnectionShared;

/// The buffer for field sections is freed if it grew beyond this.
const KEPT_SECTION: usize = 4 * 1024;

impl Server {
    /// Sends an interim (1xx) or final response head, and ends the stream if `end` is set. Returns the bytes of its
    /// frame, 0 if the stream cannot take it. What QUIC does not accept yet is queued.
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
        let Some(record) = self.live(stream).filter(|record| record.outgoing.sent == SendState::Nothing)
        else {
            return 0;
        };
        let bytes = frame.len();
        if head.status() >= 200 {
            record.outgoing.sent = SendState::Head;
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

    /// Sends body bytes in DATA frames; returns how many were accepted. If not all were,
    /// [`Event::Writable`](crate::Event) follows, and the rest must be passed again.
    pub fn send_data(&mut self, quic: &mut Connection, stream: StreamId, data: &[u8]) -> usize {
        let now = self.shared.now;
        self.live(stream).map_or(0, |record| record.outgoing.data(quic, stream, data, now))
    }

    /// Sends trailers and ends the stream. All body bytes must have been accepted before; otherwise the stream is
    /// reset.
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

    /// Ends the stream. All body bytes must have been accepted before; otherwise the stream is reset.
    pub fn finish(&mut self, quic: &mut Connection, stream: StreamId) {
        let Some(record) = self.unfinished(stream) else { return };
        if record.outgoing.is_in_frame() {
            return self.reset(quic, stream, Code::Internal);
        }
        record.outgoing.finish(quic, stream);
    }

    /// About how many bytes `send_data` accepts now, 0 if it is blocked or the stream cannot send.
    #[must_use]
    pub fn room(&self, stream: StreamId) -> usize {
        match self.requests.get(stream) {
            Some(record) if record.life == RequestState::Live && self.state == ConnectionState::Open => {
                record.outgoing.room()
            }
            _ => 0,
        }
    }

    fn live(&mut self, stream: StreamId) -> Option<&mut RequestRecord> {
        let open = self.state == ConnectionState::Open;
        self.last_served.take_if(|turn| *turn == stream);
        self.requests.get_mut(stream).filter(|record| open && record.life == RequestState::Live)
    }

    /// A stream whose final response head was sent and whose response is not finished.
    fn unfinished(&mut self, stream: StreamId) -> Option<&mut RequestRecord> {
        self.live(stream).filter(|record| record.outgoing.sent == SendState::Head)
    }
}

/// A HEADERS frame with the section that `write` appends.
fn section(shared: &mut ConnectionShared, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let section = &mut shared.section;
    section.clear();
    Encoder::begin_section(section);
    write(section);
    let frame = frame::complete_frame(frame::HEADERS, section);
    if section.capacity() > KEPT_SECTION {
        *section = Vec::new();
    }
    frame
}
