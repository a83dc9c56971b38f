//! Bodies and trailers of requests, as far as the owner asks for them.

use bytes::BytesMut;
use fairway_http::Head;
use fairway_http2::fields::{Message, Outcome};
use quinn_proto::{Connection, StreamId};

use super::head::{Decoded, decode};
use super::{Server, State};
use crate::code::{Code, Fault, Scope};
use crate::event::Read;
use crate::incoming::{Next, Phase};
use crate::requests::Life;

/// Pieces below this are joined with what follows them, if that is here already: many small frames would be many small writes.
const SMALL_PIECE: usize = 512;

impl Server {
    /// Reads the next piece of a request's body, at most `max_bytes` bytes. `trailers` receives the fields of [`Read::Trailers`],
    /// and can be overwritten otherwise. What is not read stays in QUIC and closes the client's window.
    pub fn read_body(
        &mut self,
        quic: &mut Connection,
        stream: StreamId,
        max_bytes: usize,
        trailers: &mut Head,
    ) -> Read {
        if self.state == State::Closed || self.fault.is_some() {
            return Read::Broken;
        }
        match self.requests.get_mut(stream) {
            Some(record) if record.life == Life::Live => {}
            _ => return Read::Broken,
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
        Read::Broken
    }

    fn try_read(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        max_bytes: usize,
        trailers: &mut Head,
    ) -> Result<Read, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(Read::Broken) };
        let (incoming, shared) = (&mut record.incoming, &mut self.shared);
        let reset = match incoming.next(quic, id, shared)? {
            Next::Data => match incoming.data(quic, id, max_bytes)? {
                Ok(piece) if piece.len() < SMALL_PIECE && incoming.has_pending() => {
                    return self.join(quic, id, &piece, max_bytes);
                }
                Ok(piece) => return Ok(Read::Bytes(piece)),
                Err(Next::Reset(code)) => code,
                Err(_) => return Ok(Read::Blocked),
            },
            Next::Section => match decode(quic, id, incoming, shared, Message::Trailers, trailers)? {
                Decoded::Done(Outcome::Complete { .. }) => {
                    incoming.check_end()?;
                    incoming.phase = Phase::Trailers;
                    return Ok(Read::Trailers);
                }
                Decoded::Done(Outcome::Malformed(defect)) => {
                    return Err(Fault::stream(Code::Message, defect.label()));
                }
                Decoded::TooLarge | Decoded::Done(Outcome::TooLarge) => {
                    return Err(Fault::stream(Code::ExcessiveLoad, "trailers_too_large"));
                }
                Decoded::Blocked => return Ok(Read::Blocked),
                Decoded::Reset(code) => code,
            },
            Next::Blocked => return Ok(Read::Blocked),
            Next::End => {
                incoming.check_end()?;
                return Ok(Read::End);
            }
            Next::Reset(code) => code,
        };
        let event = self.request_reset(quic, id, reset)?;
        self.events.extend(event);
        Ok(Read::Broken)
    }

    /// Joins a small piece with those that follow it. What comes behind them is left for the next call.
    fn join(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        first: &[u8],
        max_bytes: usize,
    ) -> Result<Read, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(Read::Broken) };
        let incoming = &mut record.incoming;
        let mut joined = BytesMut::from(first);
        while incoming.has_pending() && joined.len() < max_bytes {
            match incoming.next(quic, id, &mut self.shared)? {
                Next::Data if incoming.has_pending() => {
                    match incoming.data(quic, id, max_bytes - joined.len())? {
                        Ok(piece) => joined.extend_from_slice(&piece),
                        Err(_) => break,
                    }
                }
                Next::Reset(code) => {
                    let event = self.request_reset(quic, id, code)?;
                    self.events.extend(event);
                    return Ok(Read::Broken);
                }
                Next::Data | Next::Section | Next::Blocked | Next::End => break,
            }
        }
        Ok(Read::Bytes(joined.freeze()))
    }
}
