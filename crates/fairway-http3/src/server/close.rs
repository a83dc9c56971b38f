//! Ending streams early, releasing them, and shutting down the connection.

use std::time::Instant;

use bytes::Bytes;
use fairway_http2::PeerEventKind;
use fairway_http2::abuse::Weight;
use quinn_proto::{Connection, StreamId};

use super::{ConnectionState, Server, Shutdown};
use crate::code::{Code, Fault};
use crate::event::{Event, ResetBy};
use crate::outgoing::SendState;
use crate::requests::RequestState;
use crate::transport;
use crate::varint;

impl Server {
    /// Ends both directions of a stream: RESET_STREAM and STOP_SENDING. It must still be released.
    pub fn reset(&mut self, quic: &mut Connection, stream: StreamId, code: Code) {
        let Some(record) = self.requests.get_mut(stream) else { return };
        if matches!(record.life, RequestState::Opening | RequestState::Live) {
            self.end_both(quic, stream, code);
        }
    }

    /// Asks the client to stop sending the request, with H3_NO_ERROR after a complete response (RFC 9114 §4.1). Does
    /// nothing if the request is complete.
    pub fn stop_reading(&mut self, quic: &mut Connection, stream: StreamId, code: Code) {
        let Some(record) = self.requests.get_mut(stream) else { return };
        if !record.incoming.is_over() {
            transport::stop(quic, stream, code);
            record.incoming.abandon(stream, &mut self.shared);
        }
    }

    /// Ends the service of a stream. Must be called once for each stream reported by [`Event::Head`] or
    /// [`Event::HeadTooLarge`], however it ended. Resets an unfinished response with H3_INTERNAL_ERROR, and stops an
    /// unfinished request with H3_NO_ERROR. A finished response is still delivered.
    pub fn release(&mut self, quic: &mut Connection, stream: StreamId) {
        let Some(record) = self.requests.get_mut(stream) else { return };
        match record.life {
            RequestState::Live if record.outgoing.sent == SendState::Finished => {
                self.shared.account.completed();
                self.stop_reading(quic, stream, Code::NoError);
                match self.requests.get_mut(stream) {
                    Some(record) if record.outgoing.is_waiting() => record.life = RequestState::Draining,
                    _ => self.forget(stream),
                }
            }
            RequestState::Live => {
                self.end_both(quic, stream, Code::Internal);
                self.forget(stream);
            }
            RequestState::Over => self.forget(stream),
            RequestState::Opening | RequestState::Draining => {}
        }
    }

    /// Starts a graceful shutdown: sends a GOAWAY that still accepts every request (RFC 9114 §5.2). Call
    /// [`Server::finish_go_away`] at least a round trip later.
    pub fn go_away(&mut self, quic: &mut Connection) {
        if self.going == Shutdown::No {
            self.going = Shutdown::Announced;
            self.shared.peer_events.add(PeerEventKind::GoAway, "announced");
            // The largest id of a request stream.
            self.local.go_away(quic, varint::MAX - 3);
        }
    }

    /// Sends the final GOAWAY: requests that have not arrived yet are rejected from now on.
    pub fn finish_go_away(&mut self, quic: &mut Connection) {
        if !matches!(self.going, Shutdown::Final(_)) {
            self.going = Shutdown::Final(self.accepted);
            self.shared.peer_events.add(PeerEventKind::GoAway, "final");
            self.local.go_away(quic, self.accepted * 4);
        }
    }

    /// Whether the final GOAWAY was sent, every stream is over, and the client had all responses as of the last
    /// [`Server::poll`]: the connection can then be closed with [`Code::NoError`].
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.going, Shutdown::Final(_)) && self.requests.len() == 0 && self.delivered
    }

    /// Closes the connection immediately. No more events follow; QUIC still has to send the close.
    pub fn close(&mut self, quic: &mut Connection, now: Instant, code: Code, reason: &'static str) {
        self.state = ConnectionState::Closed;
        quic.close(now, transport::number(code), Bytes::from_static(reason.as_bytes()));
    }

    /// Ends a stream because the client broke a rule; returns an event if the owner knows the stream.
    pub(super) fn fail(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        fault: Fault,
    ) -> Result<Option<Event>, Fault> {
        self.shared.peer_events.add(PeerEventKind::StreamFault, fault.rule);
        let reported = self.end_both(quic, id, fault.code);
        self.shared.charge(Weight::Heavy, fault.rule)?;
        Ok(reported.then_some(Event::Reset {
            stream: id,
            code: fault.code,
            reset_by: ResetBy::Us(fault.rule),
        }))
    }

    /// The client reset its request. After a complete response this has no effect.
    pub(super) fn request_reset(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        code: Code,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        record.incoming.abandon(id, &mut self.shared);
        if record.outgoing.sent == SendState::Finished {
            return Ok(None);
        }
        self.reset_by_peer(quic, id, code)
    }

    /// The client no longer wants the response.
    pub(super) fn reset_by_peer(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        code: Code,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        let weight = match record.outgoing.sent {
            SendState::Nothing => Weight::Heavy,
            SendState::Head | SendState::Finished => Weight::Light,
        };
        let is_over = record.life == RequestState::Over;
        self.shared.peer_events.add(PeerEventKind::Reset, code.label());
        let reported = self.end_both(quic, id, Code::RequestCancelled);
        self.shared.charge(weight, "resets")?;
        let is_news = reported && !is_over;
        Ok(is_news.then_some(Event::Reset { stream: id, code, reset_by: ResetBy::Peer }))
    }

    /// Ends both directions. A stream that the owner knows stays until it is released; any other is removed. Returns
    /// which.
    fn end_both(&mut self, quic: &mut Connection, id: StreamId, code: Code) -> bool {
        let Some(record) = self.requests.get_mut(id) else { return false };
        transport::reset(quic, id, code);
        record.outgoing.die();
        if !record.incoming.is_over() {
            transport::stop(quic, id, code);
            record.incoming.abandon(id, &mut self.shared);
        }
        match record.life {
            RequestState::Live | RequestState::Over => {
                record.life = RequestState::Over;
                true
            }
            RequestState::Opening | RequestState::Draining => {
                self.forget(id);
                false
            }
        }
    }

    /// Removes the record of a stream that is over.
    pub(super) fn forget(&mut self, id: StreamId) {
        if let Some(slot) = self.requests.slot(id) {
            self.requests.remove(slot);
        }
    }
}
