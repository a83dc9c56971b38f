//! Reading request bodies and trailers.

use bytes::BytesMut;
use fairway_http::Head;
use fairway_http2::fields::{BlockOutcome, Message};
use quinn_proto::{Connection, StreamId};

use super::head::{DecodedSection, decode};
use super::{ConnectionState, Server};
use crate::code::{Code, Fault, Scope};
use crate::event::BodyRead;
use crate::incoming::{MessagePhase, NextInput};
use crate::requests::RequestState;

/// Smaller parts are joined with what follows, if it has already arrived: many small frames would cause many small
/// writes.
const SMALL_PIECE: usize = 512;

impl Server {
    /// Reads the next part of a request body, at most `max_bytes` bytes. `trailers` receives the fields of
    /// [`BodyRead::Trailers`], and may be overwritten otherwise. Unread data stays in QUIC and closes the client's window.
    pub fn read_body(
        &mut self,
        quic: &mut Connection,
        stream: StreamId,
        max_bytes: usize,
        trailers: &mut Head,
    ) -> BodyRead {
        if self.state == ConnectionState::Closed || self.fault.is_some() {
            return BodyRead::Broken;
        }
        match self.requests.get_mut(stream) {
            Some(record) if record.life == RequestState::Live => {}
            _ => return BodyRead::Broken,
        }
        let fault = match self.try_read(quic, stream, max_bytes.max(1), trailers) {
            Ok(read) => return read,
            Err(fault) => fault,
        };
        let failed = match fault.scope {
            Scope::Stream => self.fail(quic, stream, fault),
            Scope::Connection => Err(fault),
        };
        match failed {
            Ok(event) => self.events.extend(event),
            Err(fault) => self.fault = Some(fault),
        }
        BodyRead::Broken
    }

    fn try_read(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        max_bytes: usize,
        trailers: &mut Head,
    ) -> Result<BodyRead, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(BodyRead::Broken) };
        let (incoming, shared) = (&mut record.incoming, &mut self.shared);
        let reset = match incoming.next(quic, id, shared)? {
            NextInput::Data => match incoming.read_data(quic, id, max_bytes)? {
                Ok(piece) if piece.len() < SMALL_PIECE && incoming.has_pending() => {
                    return self.join(quic, id, &piece, max_bytes);
                }
                Ok(piece) => return Ok(BodyRead::Bytes(piece)),
                Err(NextInput::Reset(code)) => code,
                Err(_) => return Ok(BodyRead::Blocked),
            },
            NextInput::Section => match decode(quic, id, incoming, shared, Message::Trailers, trailers)? {
                DecodedSection::Done(BlockOutcome::Complete { .. }) => {
                    incoming.check_end()?;
                    incoming.phase = MessagePhase::Trailers;
                    return Ok(BodyRead::Trailers);
                }
                DecodedSection::Done(BlockOutcome::Malformed(defect)) => {
                    return Err(Fault::stream(Code::Message, defect.label()));
                }
                DecodedSection::TooLarge | DecodedSection::Done(BlockOutcome::TooLarge) => {
                    return Err(Fault::stream(Code::ExcessiveLoad, "trailers_too_large"));
                }
                DecodedSection::Blocked => return Ok(BodyRead::Blocked),
                DecodedSection::Reset(code) => code,
            },
            NextInput::Blocked => return Ok(BodyRead::Blocked),
            NextInput::End => {
                incoming.check_end()?;
                return Ok(BodyRead::End);
            }
            NextInput::Reset(code) => code,
        };
        let event = self.request_reset(quic, id, reset)?;
        self.events.extend(event);
        Ok(BodyRead::Broken)
    }

    /// Joins a small part with those that follow it. Anything after them is left for the next call.
    fn join(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        first: &[u8],
        max_bytes: usize,
    ) -> Result<BodyRead, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(BodyRead::Broken) };
        let incoming = &mut record.incoming;
        let mut joined = BytesMut::from(first);
        while incoming.has_pending() && joined.len() < max_bytes {
            match incoming.next(quic, id, &mut self.shared)? {
                NextInput::Data if incoming.has_pending() => {
                    match incoming.read_data(quic, id, max_bytes - joined.len())? {
                        Ok(piece) => joined.extend_from_slice(&piece),
                        Err(_) => break,
                    }
                }
                NextInput::Reset(code) => {
                    let event = self.request_reset(quic, id, code)?;
                    self.events.extend(event);
                    return Ok(BodyRead::Broken);
                }
                NextInput::Data | NextInput::Section | NextInput::Blocked | NextInput::End => break,
            }
        }
        Ok(BodyRead::Bytes(joined.freeze()))
    }
}
