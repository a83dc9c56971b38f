//! How streams end before they are complete, how the owner lets go of them, and how the connection goes away.

use std::time::Instant;

use bytes::Bytes;
use fairway_http2::Noted;
use fairway_http2::abuse::Weight;
use quinn_proto::{Connection, StreamId};

use super::{Going, Server, State};
use crate::code::{Code, Fault};
use crate::event::{By, Event};
use crate::outgoing::Sent;
use crate::requests::Life;
use crate::transport;
use crate::varint;

impl Server {
    /// Ends both directions of a stream that are not over yet: RESET_STREAM and STOP_SENDING. It stays until it is released.
    pub fn reset(&mut self, quic: &mut Connection, stream: StreamId, code: Code) {
        let Some(record) = self.requests.get_mut(stream) else { return };
        if matches!(record.life, Life::Opening | Life::Live) {
            self.end_both(quic, stream, code);
        }
    }

    /// Asks the client to stop sending the request, with H3_NO_ERROR after a complete response (RFC 9114 §4.1). Does nothing if
    /// the request is complete.
    pub fn stop_reading(&mut self, quic: &mut Connection, stream: StreamId, code: Code) {
        let Some(record) = self.requests.get_mut(stream) else { return };
        if !record.incoming.is_over() {
            transport::stop(quic, stream, code);
            record.incoming.abandon(stream, &mut self.shared);
        }
    }

    /// The owner no longer serves the stream. Must be called once for each stream that [`Event::Head`] or [`Event::HeadTooLarge`]
    /// reported, whatever became of it. Resets a response that was not finished with H3_INTERNAL_ERROR, and stops a request that
    /// still comes with H3_NO_ERROR. A finished response is still delivered.
    pub fn release(&mut self, quic: &mut Connection, stream: StreamId) {
        let Some(record) = self.requests.get_mut(stream) else { return };
        match record.life {
            Life::Live if record.outgoing.sent == Sent::Finished => {
                self.shared.account.completed();
                self.stop_reading(quic, stream, Code::NoError);
                match self.requests.get_mut(stream) {
                    Some(record) if record.outgoing.is_waiting() => record.life = Life::Draining,
                    _ => self.forget(stream),
                }
            }
            Life::Live => {
                self.end_both(quic, stream, Code::Internal);
                self.forget(stream);
            }
            Life::Over => self.forget(stream),
            Life::Opening | Life::Draining => {}
        }
    }

    /// Begins to end the connection: sends a GOAWAY that still takes every request (RFC 9114 §5.2). At least a round trip later
    /// [`Server::finish_going`] should be called.
    pub fn go_away(&mut self, quic: &mut Connection) {
        if self.going == Going::No {
            self.going = Going::Announced;
            self.shared.notes.add(Noted::GoAway, "announced");
            // The largest id of a request stream.
            self.local.go_away(quic, varint::MAX - 3);
        }
    }

    /// Sends the last GOAWAY: requests that have not arrived yet are rejected from now on.
    pub fn finish_going(&mut self, quic: &mut Connection) {
        if !matches!(self.going, Going::Final(_)) {
            self.going = Going::Final(self.accepted);
            self.shared.notes.add(Noted::GoAway, "final");
            self.local.go_away(quic, self.accepted * 4);
        }
    }

    /// Whether the last GOAWAY was sent, every stream is over, and the client had all responses when [`Server::poll`] was called
    /// last: the connection can be closed with [`Code::NoError`] then.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.going, Going::Final(_)) && self.requests.len() == 0 && self.delivered
    }

    /// Closes the connection at once. No more events follow; QUIC still has the close to send.
    pub fn close(&mut self, quic: &mut Connection, now: Instant, code: Code, reason: &'static str) {
        self.state = State::Closed;
        quic.close(now, transport::number(code), Bytes::from_static(reason.as_bytes()));
    }

    /// Ends a stream because of a rule that the client broke; gives the event if the owner knows the stream.
    pub(super) fn fail(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        fault: Fault,
    ) -> Result<Option<Event>, Fault> {
        self.shared.notes.add(Noted::StreamFault, fault.rule);
        let reported = self.end_both(quic, id, fault.code);
        self.shared.charge(Weight::Heavy, fault.rule)?;
        Ok(reported.then_some(Event::Reset { stream: id, code: fault.code, by: By::Us(fault.rule) }))
    }

    /// The client sent RESET_STREAM for its request. After a complete response this changes nothing.
    pub(super) fn request_reset(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        code: Code,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        record.incoming.abandon(id, &mut self.shared);
        if record.outgoing.sent == Sent::Finished {
            return Ok(None);
        }
        self.reset_by_peer(quic, id, code)
    }

    /// The client does not want the response any more.
    pub(super) fn reset_by_peer(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        code: Code,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        let weight = match record.outgoing.sent {
            Sent::Nothing => Weight::Heavy,
            Sent::Head | Sent::Finished => Weight::Light,
        };
        let is_over = record.life == Life::Over;
        self.shared.notes.add(Noted::Reset, code.label());
        let reported = self.end_both(quic, id, Code::RequestCancelled);
        self.shared.charge(weight, "resets")?;
        let is_news = reported && !is_over;
        Ok(is_news.then_some(Event::Reset { stream: id, code, by: By::Peer }))
    }

    /// Ends both directions. A stream that the owner knows stays until it is released; any other is forgotten. Says which.
    fn end_both(&mut self, quic: &mut Connection, id: StreamId, code: Code) -> bool {
        let Some(record) = self.requests.get_mut(id) else { return false };
        transport::reset(quic, id, code);
        record.outgoing.die();
        if !record.incoming.is_over() {
            transport::stop(quic, id, code);
            record.incoming.abandon(id, &mut self.shared);
        }
        match record.life {
            Life::Live | Life::Over => {
                record.life = Life::Over;
                true
            }
            Life::Opening | Life::Draining => {
                self.forget(id);
                false
            }
        }
    }

    /// Frees the record of a stream that is over.
    pub(super) fn forget(&mut self, id: StreamId) {
        if let Some(slot) = self.requests.slot(id) {
            self.requests.remove(slot);
        }
    }
}
