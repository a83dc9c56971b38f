//! Processes what arrived, one event at a time.

use std::time::Instant;

use bytes::Bytes;
use fairway_http::Head;
use fairway_http2::abuse::Weight;
use fairway_http2::{PeerEventKind, Priority};
use quinn_proto::{Connection, Dir, Event as QuicEvent, StreamEvent, StreamId};

use super::{ConnectionState, MAX_EARLY_PRIORITIES, Server, Shutdown};
use crate::code::{Code, Fault};
use crate::control::ControlAction;
use crate::event::Event;
use crate::requests::RequestState;
use crate::transport;
use crate::unidirectional::closed_critical;

/// The result of processing one input.
pub(super) enum PollStep {
    /// An event for the owner.
    Event(Event),
    /// No event; there may be more input.
    More,
    /// No input.
    Idle,
}

impl From<Option<Event>> for PollStep {
    fn from(event: Option<Event>) -> PollStep {
        event.map_or(PollStep::More, PollStep::Event)
    }
}

impl Server {
    /// Processes what arrived (the events of [`Connection::poll`] and stream data) up to the next event; `None` when
    /// there is nothing more. Call it until then, after QUIC got input or a timeout, and after [`Server::release`].
    /// `head` receives the head of [`Event::Head`], and any event may overwrite it.
    pub fn poll(&mut self, now: Instant, quic: &mut Connection, head: &mut Head) -> Option<Event> {
        let began = *self.polled_at.get_or_insert(now);
        let passed = now.saturating_duration_since(began);
        self.shared.now = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        loop {
            if self.state == ConnectionState::Closed {
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
                Ok(PollStep::Event(event)) => return Some(event),
                Ok(PollStep::More) => {}
                Ok(PollStep::Idle) => {
                    let request_streams = quic.streams().send_streams() > self.local.count();
                    self.delivered = !request_streams;
                    return None;
                }
                Err(fault) => {
                    self.state = ConnectionState::Closed;
                    self.shared.peer_events.add(PeerEventKind::ConnectionFault, fault.rule);
                    let reason = Bytes::from_static(fault.rule.as_bytes());
                    quic.close(now, transport::number(fault.code), reason);
                    return Some(Event::Closed(fault));
                }
            }
        }
    }

    /// Processes one input.
    fn advance(&mut self, quic: &mut Connection, head: &mut Head) -> Result<PollStep, Fault> {
        if self.shared.warned && self.going == Shutdown::No {
            self.shared.peer_events.add(PeerEventKind::Warned, "excessive_load");
            self.go_away(quic);
            self.finish_go_away(quic);
        }
        if self.shared.blocked > 0
            && let Some(id) = self.requests.unblocked(self.shared.qpack.inserted())
        {
            return self.unblocked(quic, id, head).map(PollStep::from);
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
                Ok(self.next_writable(quic).map_or(PollStep::Idle, PollStep::Event))
            }
        }
    }

    fn handle(
        &mut self,
        event: QuicEvent,
        quic: &mut Connection,
        head: &mut Head,
    ) -> Result<PollStep, Fault> {
        match event {
            QuicEvent::Stream(event) => self.handle_stream(&event, quic, head),
            QuicEvent::ConnectionLost { reason } => {
                self.state = ConnectionState::Closed;
                Ok(PollStep::Event(Event::Lost(reason)))
            }
            QuicEvent::HandshakeDataReady
            | QuicEvent::Connected
            | QuicEvent::DatagramReceived
            | QuicEvent::DatagramsUnblocked => Ok(PollStep::More),
        }
    }

    fn handle_stream(
        &mut self,
        event: &StreamEvent,
        quic: &mut Connection,
        head: &mut Head,
    ) -> Result<PollStep, Fault> {
        match *event {
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_unidirectional(quic, id),
            StreamEvent::Readable { id } => self.readable(quic, id, head).map(PollStep::from),
            StreamEvent::Writable { id } if self.local.is_local(id) => {
                self.local.flush(quic, &mut self.shared)?;
                Ok(PollStep::More)
            }
            StreamEvent::Writable { id } => {
                self.unblocked_by_quic(id);
                Ok(PollStep::More)
            }
            StreamEvent::Stopped { id, .. } if self.local.is_local(id) => Err(closed_critical()),
            StreamEvent::Stopped { id, error_code } => {
                let code = Code::from_number(error_code.into_inner());
                self.reset_by_peer(quic, id, code).map(PollStep::from)
            }
            // New streams are accepted in `advance`, which also opens ours if that became possible.
            StreamEvent::Opened { .. } | StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {
                Ok(PollStep::More)
            }
        }
    }

    /// Accepts the next request stream, if there is a free slot. Others wait in QUIC.
    fn accept(&mut self, quic: &mut Connection, head: &mut Head) -> Result<Option<PollStep>, Fault> {
        let is_final = matches!(self.going, Shutdown::Final(_));
        if self.requests.len() >= self.shared.config.streams as usize && !is_final {
            return Ok(None);
        }
        let Some(id) = quic.streams().accept(Dir::Bi) else { return Ok(None) };
        self.accepted = id.index() + 1;
        if let Shutdown::Final(end) = self.going
            && id.index() >= end
        {
            transport::stop(quic, id, Code::RequestRejected);
            transport::reset(quic, id, Code::RequestRejected);
            self.shared.peer_events.add(PeerEventKind::Rejected, "going_away");
            self.shared.charge(Weight::Light, "requests_after_goaway")?;
            return Ok(Some(PollStep::More));
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
            RequestState::Opening => self.drive(quic, id, head),
            RequestState::Live => Ok(Some(Event::Readable { stream: id })),
            RequestState::Over | RequestState::Draining => Ok(None),
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
            RequestState::Opening => self.drive(quic, id, head),
            RequestState::Live => Ok(Some(Event::Readable { stream: id })),
            RequestState::Over | RequestState::Draining => Ok(None),
        }
    }

    /// Sends what is pending. Returns an event if the owner can send more.
    pub(super) fn writable(&mut self, quic: &mut Connection, id: StreamId) -> Option<Event> {
        let record = self.requests.get_mut(id)?;
        let can_send = record.outgoing.unblock(quic, id);
        match record.life {
            RequestState::Live if can_send => return Some(Event::Writable { stream: id }),
            RequestState::Draining if !record.outgoing.is_waiting() => self.forget(id),
            RequestState::Opening | RequestState::Live | RequestState::Over | RequestState::Draining => {}
        }
        None
    }

    fn read_unidirectional(&mut self, quic: &mut Connection, id: StreamId) -> Result<PollStep, Fault> {
        while let Some(request) = self.unidirectional.read(quic, id, &mut self.shared)? {
            match request {
                ControlAction::GoAway => {
                    self.shared.peer_events.add(PeerEventKind::GoAwayReceived, "peer");
                    self.events.push_back(Event::GoAway);
                }
                ControlAction::Priority(stream, priority) => self.reprioritize(quic, stream, priority)?,
            }
        }
        Ok(PollStep::More)
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
        if record.life == RequestState::Live {
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

/// Waits for the end of a closed connection.
fn lost(quic: &mut Connection) -> Option<Event> {
    while let Some(event) = quic.poll() {
        if let QuicEvent::ConnectionLost { reason } = event {
            return Some(Event::Lost(reason));
        }
    }
    None
}
