//! What arrived, one event at a time.

use std::time::Instant;

use bytes::Bytes;
use fairway_http::Head;
use fairway_http2::abuse::Weight;
use fairway_http2::{Noted, Priority};
use quinn_proto::{Connection, Dir, Event as QuicEvent, StreamEvent, StreamId};

use super::{Going, MAX_EARLY_PRIORITIES, Server, State};
use crate::code::{Code, Fault};
use crate::control::Request;
use crate::event::Event;
use crate::requests::Life;
use crate::transport;
use crate::unidirectional::closed_critical;

/// What came of one thing that arrived.
pub(super) enum Step {
    /// Something for the owner.
    Event(Event),
    /// Nothing for the owner; there may be more.
    More,
    /// Nothing arrived.
    Idle,
}

impl From<Option<Event>> for Step {
    fn from(event: Option<Event>) -> Step {
        event.map_or(Step::More, Step::Event)
    }
}

impl Server {
    /// Takes what arrived (the events of [`Connection::poll`] and the data of streams) up to the next event; `None` when there is
    /// nothing more for now. To be called until then, after QUIC got input or a timeout, and after [`Server::release`]. `head`
    /// receives the request of [`Event::Head`], and can be overwritten whatever the event.
    pub fn poll(&mut self, now: Instant, quic: &mut Connection, head: &mut Head) -> Option<Event> {
        let began = *self.polled_at.get_or_insert(now);
        let passed = now.saturating_duration_since(began);
        self.shared.now = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        loop {
            if self.state == State::Closed {
                return lost(quic);
            }
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let step = match self.fault.take() {
                Some(fault) => Err(fault),
                None => self.advance(quic, head),
            };
            match step {
                Ok(Step::Event(event)) => return Some(event),
                Ok(Step::More) => {}
                Ok(Step::Idle) => {
                    let request_streams = quic.streams().send_streams() > self.local.count();
                    self.delivered = !request_streams;
                    return None;
                }
                Err(fault) => {
                    self.state = State::Closed;
                    self.shared.notes.add(Noted::ConnectionFault, fault.rule);
                    let reason = Bytes::from_static(fault.rule.as_bytes());
                    quic.close(now, transport::number(fault.code), reason);
                    return Some(Event::Closed(fault));
                }
            }
        }
    }

    /// Handles one thing that arrived.
    fn advance(&mut self, quic: &mut Connection, head: &mut Head) -> Result<Step, Fault> {
        if self.shared.warned && self.going == Going::No {
            self.shared.notes.add(Noted::Warned, "excessive_load");
            self.go_away(quic);
            self.finish_going(quic);
        }
        if self.shared.blocked > 0
            && let Some(id) = self.requests.unblocked(self.shared.qpack.inserted())
        {
            return self.unblocked(quic, id, head).map(Step::from);
        }
        if let Some(step) = self.accept(quic, head)? {
            return Ok(step);
        }
        if let Some(id) = quic.streams().accept(Dir::Uni) {
            self.unidirectional.opened(id);
            return self.read_unidirectional(quic, id);
        }
        match quic.poll() {
            Some(event) => self.handle(event, quic, head),
            None => {
                self.local.open(quic, &self.shared.config);
                self.local.flush(quic, &mut self.shared)?;
                Ok(self.next_writable(quic).map_or(Step::Idle, Step::Event))
            }
        }
    }

    fn handle(&mut self, event: QuicEvent, quic: &mut Connection, head: &mut Head) -> Result<Step, Fault> {
        match event {
            QuicEvent::Stream(event) => self.handle_stream(&event, quic, head),
            QuicEvent::ConnectionLost { reason } => {
                self.state = State::Closed;
                Ok(Step::Event(Event::Lost(reason)))
            }
            QuicEvent::HandshakeDataReady
            | QuicEvent::Connected
            | QuicEvent::DatagramReceived
            | QuicEvent::DatagramsUnblocked => Ok(Step::More),
        }
    }

    fn handle_stream(
        &mut self,
        event: &StreamEvent,
        quic: &mut Connection,
        head: &mut Head,
    ) -> Result<Step, Fault> {
        match *event {
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_unidirectional(quic, id),
            StreamEvent::Readable { id } => self.readable(quic, id, head).map(Step::from),
            StreamEvent::Writable { id } if self.local.is_local(id) => {
                self.local.flush(quic, &mut self.shared)?;
                Ok(Step::More)
            }
            StreamEvent::Writable { id } => {
                self.unblocked_by_quic(id);
                Ok(Step::More)
            }
            StreamEvent::Stopped { id, .. } if self.local.is_local(id) => Err(closed_critical()),
            StreamEvent::Stopped { id, error_code } => {
                let code = Code::from_number(error_code.into_inner());
                self.reset_by_peer(quic, id, code).map(Step::from)
            }
            // New streams are taken in `advance`, and what was allowed to be opened is opened there.
            StreamEvent::Opened { .. } | StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {
                Ok(Step::More)
            }
        }
    }

    /// Takes the next request stream, if there is a place for it. Others wait in QUIC.
    fn accept(&mut self, quic: &mut Connection, head: &mut Head) -> Result<Option<Step>, Fault> {
        let is_final = matches!(self.going, Going::Final(_));
        if self.requests.len() >= self.shared.config.streams as usize && !is_final {
            return Ok(None);
        }
        let Some(id) = quic.streams().accept(Dir::Bi) else { return Ok(None) };
        self.accepted = id.index() + 1;
        if let Going::Final(end) = self.going
            && id.index() >= end
        {
            transport::stop(quic, id, Code::RequestRejected);
            transport::reset(quic, id, Code::RequestRejected);
            self.shared.notes.add(Noted::Rejected, "going_away");
            self.shared.charge(Weight::Light, "requests_after_goaway")?;
            return Ok(Some(Step::More));
        }
        self.requests.insert(id, self.shared.now);
        self.apply_early_priority(quic, id);
        self.drive(quic, id, head).map(|event| Some(event.into()))
    }

    /// A section that waited for the dynamic table can be decoded.
    fn unblocked(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        head: &mut Head,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        record.incoming.unblock(&mut self.shared);
        match record.life {
            Life::Opening => self.drive(quic, id, head),
            Life::Live => Ok(Some(Event::Readable { stream: id })),
            Life::Over | Life::Draining => Ok(None),
        }
    }

    /// A request stream has data, its end or a reset.
    fn readable(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        head: &mut Head,
    ) -> Result<Option<Event>, Fault> {
        let Some(record) = self.requests.get_mut(id) else { return Ok(None) };
        if record.incoming.is_over() {
            return Ok(None);
        }
        if let Some(code) = transport::received_reset(quic, id) {
            return self.request_reset(quic, id, code);
        }
        match record.life {
            Life::Opening => self.drive(quic, id, head),
            Life::Live => Ok(Some(Event::Readable { stream: id })),
            Life::Over | Life::Draining => Ok(None),
        }
    }

    /// Sends what waits, and says whether the owner can send more.
    pub(super) fn writable(&mut self, quic: &mut Connection, id: StreamId) -> Option<Event> {
        let record = self.requests.get_mut(id)?;
        let can_send = record.outgoing.unblock(quic, id);
        match record.life {
            Life::Live if can_send => return Some(Event::Writable { stream: id }),
            Life::Draining if !record.outgoing.is_waiting() => self.forget(id),
            Life::Opening | Life::Live | Life::Over | Life::Draining => {}
        }
        None
    }

    fn read_unidirectional(&mut self, quic: &mut Connection, id: StreamId) -> Result<Step, Fault> {
        while let Some(request) = self.unidirectional.read(quic, id, &mut self.shared)? {
            match request {
                Request::GoAway => {
                    self.shared.notes.add(Noted::GoAwayReceived, "peer");
                    self.events.push_back(Event::GoAway);
                }
                Request::Priority(stream, priority) => self.reprioritize(quic, stream, priority)?,
            }
        }
        Ok(Step::More)
    }

    /// PRIORITY_UPDATE. "The stream ID MUST be within the client-initiated bidirectional stream limit" (RFC 9218 §7.2).
    fn reprioritize(&mut self, quic: &mut Connection, stream: u64, priority: Priority) -> Result<(), Fault> {
        let index = stream / 4;
        if index >= self.accepted + quic.max_concurrent_streams(Dir::Bi) {
            return Err(Fault::connection(Code::Id, "priority_beyond_limit"));
        }
        if index >= self.accepted {
            self.early_priorities.retain(|(other, _)| *other != index);
            if self.early_priorities.len() == MAX_EARLY_PRIORITIES {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((index, priority));
            return Ok(());
        }
        let id = StreamId::new(quinn_proto::Side::Client, Dir::Bi, index);
        let Some(record) = self.requests.get_mut(id) else { return Ok(()) };
        record.priority_updated = true;
        record.prioritize(quic, priority);
        if record.life == Life::Live {
            self.events.push_back(Event::Priority { stream: id, priority });
        }
        Ok(())
    }

    fn apply_early_priority(&mut self, quic: &mut Connection, id: StreamId) {
        let found = self.early_priorities.iter().position(|(index, _)| *index == id.index());
        let (Some(at), Some(record)) = (found, self.requests.get_mut(id)) else { return };
        record.priority_updated = true;
        record.prioritize(quic, self.early_priorities.remove(at).1);
    }
}

/// Waits for the end of a connection that was closed.
fn lost(quic: &mut Connection) -> Option<Event> {
    while let Some(event) = quic.poll() {
        if let QuicEvent::ConnectionLost { reason } = event {
            return Some(Event::Lost(reason));
        }
    }
    None
}
