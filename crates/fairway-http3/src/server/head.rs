//! The head of a request: from the first frame of its stream to the event.

use fairway_http::{Head, Method};
use fairway_http2::Priority;
use fairway_http2::fields::{Intake, Message, Outcome};
use quinn_proto::{Connection, StreamId};

use super::Server;
use crate::code::{Code, Fault, Scope};
use crate::event::Event;
use crate::incoming::{Collected, Incoming, Next, Phase};
use crate::qpack::Section;
use crate::requests::Life;
use crate::shared::Shared;
use crate::transport;

/// What came of a section.
pub(super) enum Decoded {
    Done(Outcome),
    /// Not all of it has come, or the dynamic table lacks insertions.
    Blocked,
    TooLarge,
    Reset(Code),
}

/// Collects and decodes the section that comes next.
pub(super) fn decode(
    quic: &mut Connection,
    id: StreamId,
    incoming: &mut Incoming,
    shared: &mut Shared,
    message: Message,
    head: &mut Head,
) -> Result<Decoded, Fault> {
    let section = match incoming.collect(quic, id, shared)? {
        Collected::Whole(section) => section,
        Collected::Blocked => return Ok(Decoded::Blocked),
        Collected::TooLarge => return Ok(Decoded::TooLarge),
        Collected::Reset(code) => return Ok(Decoded::Reset(code)),
    };
    let mut intake = Intake::new(head, message, shared.config.limits);
    match shared.qpack.decode(id.index() * 4, &section, |line| intake.take(line))? {
        Section::Decoded => Ok(match intake.finish() {
            Outcome::TooLarge => Decoded::TooLarge,
            outcome => Decoded::Done(outcome),
        }),
        Section::Blocked(required) => {
            incoming.block(&section, required, shared)?;
            Ok(Decoded::Blocked)
        }
    }
}

impl Server {
    /// Reads on in a stream whose head is not complete. Errors of the stream are handled here.
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
            Next::Section => {}
            Next::Blocked => return Ok(None),
            Next::Reset(code) => return self.request_reset(quic, id, code),
            Next::Data => return Err(crate::frame::Kind::Data.unexpected()),
            // "If a client-initiated stream terminates without enough of the HTTP message to provide a complete response, the server
            // SHOULD abort its response stream with the error code H3_REQUEST_INCOMPLETE" (RFC 9114 §4.1).
            Next::End => return Err(Fault::stream(Code::RequestIncomplete, "request_incomplete")),
        }
        let message = Message::Request { extended: shared.config.extended_connect };
        let (length, protocol) = match decode(quic, id, incoming, shared, message, head)? {
            Decoded::Done(Outcome::Complete { length, protocol }) => (length, protocol),
            Decoded::Done(Outcome::Malformed(defect)) => {
                return Err(Fault::stream(Code::Message, defect.label()));
            }
            Decoded::Blocked => return Ok(None),
            Decoded::TooLarge | Decoded::Done(Outcome::TooLarge) => return Ok(self.too_large(quic, id)),
            Decoded::Reset(code) => return self.request_reset(quic, id, code),
        };
        incoming.phase = Phase::Body;
        incoming.announced = length;
        incoming.tunnel = head.method() == Method::Connect;
        shared.requested();
        let end = match incoming.next(quic, id, shared)? {
            Next::End => {
                incoming.check_end()?;
                true
            }
            Next::Reset(code) => return self.request_reset(quic, id, code),
            Next::Data | Next::Section | Next::Blocked => false,
        };
        incoming.detach();
        let head_bytes = incoming.head_bytes;
        record.life = Life::Live;
        if !record.priority_updated
            && let Some(value) = head.named(b"priority")
        {
            record.prioritize(quic, Priority::read(value));
        }
        Ok(Some(Event::Head { stream: id, end, length, protocol, head_bytes }))
    }

    /// Reports a head that is over a limit, and reads no more of its stream: "A server can send a complete response prior to the
    /// client sending an entire request ... MAY abort reading the request stream ... with the error code H3_NO_ERROR" (RFC 9114
    /// §4.1).
    fn too_large(&mut self, quic: &mut Connection, id: StreamId) -> Option<Event> {
        let record = self.requests.get_mut(id)?;
        record.life = Life::Live;
        transport::stop(quic, id, Code::NoError);
        record.incoming.abandon(id, &mut self.shared);
        Some(Event::HeadTooLarge { stream: id, end: true })
    }
}
