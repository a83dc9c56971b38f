//! Request heads: from the first frame of a stream to the event.

use fairway_http::{Head, Method};
use fairway_http2::Priority;
use fairway_http2::fields::{BlockOutcome, HeadBuilder, Message};
use quinn_proto::{Connection, StreamId};

use super::Server;
use crate::code::{Code, Fault, Scope};
use crate::event::Event;
use crate::incoming::{CollectedSection, Incoming, MessagePhase, NextInput};
use crate::qpack::SectionResult;
use crate::requests::RequestState;
use crate::shared::ConnectionShared;
use crate::transport;

/// The result of decoding a section.
pub(super) enum DecodedSection {
    Done(BlockOutcome),
    /// It is incomplete, or the dynamic table lacks insertions.
    Blocked,
    TooLarge,
    Reset(Code),
}

/// Collects and decodes the next section.
pub(super) fn decode(
    quic: &mut Connection,
    id: StreamId,
    incoming: &mut Incoming,
    shared: &mut ConnectionShared,
    message: Message,
    head: &mut Head,
) -> Result<DecodedSection, Fault> {
    let section = match incoming.collect_section(quic, id, shared)? {
        CollectedSection::Whole(section) => section,
        CollectedSection::Blocked => return Ok(DecodedSection::Blocked),
        CollectedSection::TooLarge => return Ok(DecodedSection::TooLarge),
        CollectedSection::Reset(code) => return Ok(DecodedSection::Reset(code)),
    };
    let mut intake = HeadBuilder::new(head, message, shared.config.limits);
    match shared.qpack.decode(id.index() * 4, &section, |line| intake.add(line))? {
        SectionResult::Decoded => Ok(match intake.finish() {
            BlockOutcome::TooLarge => DecodedSection::TooLarge,
            outcome => DecodedSection::Done(outcome),
        }),
        SectionResult::Blocked(required) => {
            incoming.block(&section, required, shared)?;
            Ok(DecodedSection::Blocked)
        }
    }
}

impl Server {
    /// Continues to read an incomplete head. Handles stream errors.
    pub(super) fn drive(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        head: &mut Head,
    ) -> Result<Option<Event>, Fault> {
        match self.read_head(quic, id, head) {
            Err(fault) if fault.scope == Scope::Stream => self.fail(quic, id, fault),
            result => result,
        }
    }

    fn read_head(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        head: &mut Head,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        let (incoming, shared) = (&mut record.incoming, &mut self.shared);
        match incoming.next(quic, id, shared)? {
            NextInput::Section => {}
            NextInput::Blocked => return Ok(None),
            NextInput::Reset(code) => return self.request_reset(quic, id, code),
            NextInput::Data => return Err(crate::frame::FrameKind::Data.unexpected()),
            // "If a client-initiated stream terminates without enough of the HTTP message to provide a complete response, the server
            // SHOULD abort its response stream with the error code H3_REQUEST_INCOMPLETE" (RFC 9114 §4.1).
            NextInput::End => return Err(Fault::stream(Code::RequestIncomplete, "request_incomplete")),
        }
        let message = Message::Request { extended: shared.config.extended_connect };
        let (length, protocol) = match decode(quic, id, incoming, shared, message, head)? {
            DecodedSection::Done(BlockOutcome::Complete { length, protocol }) => (length, protocol),
            DecodedSection::Done(BlockOutcome::Malformed(defect)) => {
                return Err(Fault::stream(Code::Message, defect.label()));
            }
            DecodedSection::Blocked => return Ok(None),
            DecodedSection::TooLarge | DecodedSection::Done(BlockOutcome::TooLarge) => {
                return Ok(self.too_large(quic, id));
            }
            DecodedSection::Reset(code) => return self.request_reset(quic, id, code),
        };
        incoming.phase = MessagePhase::Body;
        incoming.remaining_content_length = length;
        incoming.tunnel = head.method() == Method::Connect;
        shared.requested();
        let end = match incoming.next(quic, id, shared)? {
            NextInput::End => {
                incoming.check_end()?;
                true
            }
            NextInput::Reset(code) => return self.request_reset(quic, id, code),
            NextInput::Data | NextInput::Section | NextInput::Blocked => false,
        };
        incoming.detach();
        let head_bytes = incoming.head_bytes;
        record.life = RequestState::Live;
        if !record.priority_updated
            && let Some(value) = head.named(b"priority")
        {
            record.prioritize(quic, Priority::parse(value));
        }
        Ok(Some(Event::Head { stream: id, end, length, protocol, head_bytes }))
    }

    /// Reports a head that exceeds a limit, and stops reading its stream: "A server can send a complete response prior
    /// to the client sending an entire request ... MAY abort reading the request stream ... with the error code
    /// H3_NO_ERROR" (RFC 9114 §4.1).
    fn too_large(&mut self, quic: &mut Connection, id: StreamId) -> Option<Event> {
        let record = self.requests.get_mut(id)?;
        record.life = RequestState::Live;
        transport::stop(quic, id, Code::NoError);
        record.incoming.abandon(id, &mut self.shared);
        Some(Event::HeadTooLarge { stream: id, end: true })
    }
}
