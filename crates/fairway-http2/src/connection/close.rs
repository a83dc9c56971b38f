//! How streams and connections end (RFC 9113 §5.4, §6.8): errors of both scopes, release, and GOAWAY in two steps.
//! Never forgets a stream that is still served.

use super::control::GO_AWAY_PING;
use super::{Connection, ReadState, Role, Shutdown};
use crate::abuse::{Standing, Weight};
use crate::event::{Event, ResetBy};
use crate::fault::{Code, Fault, Scope};
use crate::flow::MAX_WINDOW;
use crate::frame;
use crate::rare_events::{PeerEvent, PeerEventKind};
use crate::stream::{HalfState, PastStream, StreamLife};

/// How long streams in flight are accepted after GOAWAY, in microseconds.
const IN_FLIGHT_STREAMS_MICROS: u64 = 1_000_000;
/// The same after the client has answered the PING that follows GOAWAY: its library may answer before it sends requests
/// it had queued.
const QUEUED_STREAMS_MICROS: u64 = 250_000;

impl Connection {
    /// Ends the connection with this error.
    pub(super) fn fail<'a>(&mut self, fault: Fault) -> Event<'a> {
        let last = if self.role == Role::Server { self.last_accepted_stream() } else { 0 };
        frame::write_go_away(last, fault.code, fault.rule, self.outbox.bytes());
        self.peer_record.events.add(PeerEventKind::ConnectionFault, fault.rule);
        self.read_state = ReadState::Failed(fault);
        Event::Closed(fault)
    }

    /// Ends a stream because of the peer. One that was reset before gets the code again, without an event.
    pub(super) fn fail_stream<'a>(
        &mut self,
        now: u64,
        id: u32,
        fault: Fault,
    ) -> Result<Option<Event<'a>>, Fault> {
        debug_assert!(fault.scope == Scope::Stream);
        self.peer_record.events.add(PeerEventKind::StreamFault, fault.rule);
        self.charge(now, Weight::Heavy)?;
        let Some(stream) = self.streams.get_mut(id) else {
            if self.ids.closed.past(id) != PastStream::Unknown {
                self.outbox.reply(|out| frame::write_reset(id, fault.code, out));
                self.ids.closed.record(id, PastStream::Unknown);
            }
            return Ok(None);
        };
        let before = stream.life;
        if before == StreamLife::ResetByUs {
            return Ok(None);
        }
        if before == StreamLife::Lingering {
            self.stop_lingering(id, StreamLife::ResetByUs);
        } else {
            stream.life = StreamLife::ResetByUs;
            let unconsumed = std::mem::take(&mut stream.incoming.unconsumed);
            self.return_to_connection(unconsumed);
        }
        self.outbox.reply(|out| frame::write_reset(id, fault.code, out));
        let event = Event::Reset { stream: id, code: fault.code, reset_by: ResetBy::Us(fault.rule) };
        Ok((before == StreamLife::Live).then_some(event))
    }

    /// Refuses a stream that has no record.
    pub(super) fn refuse<'a>(&mut self, now: u64, id: u32, fault: Fault) -> Result<Option<Event<'a>>, Fault> {
        self.peer_record.events.add(PeerEventKind::StreamFault, fault.rule);
        self.charge(now, Weight::Heavy)?;
        self.outbox.reply(|out| frame::write_reset(id, fault.code, out));
        self.ids.closed.record(id, PastStream::Unknown);
        Ok(None)
    }

    /// Charges the peer. A warned peer gets no new streams, an overdrawn one is disconnected.
    pub(super) fn charge(&mut self, now: u64, weight: Weight) -> Result<(), Fault> {
        match self.peer_record.account.charge(now, weight, 1) {
            Standing::Good => {}
            Standing::Warned => {
                if self.timers.shutdown == Shutdown::Open {
                    self.peer_record.events.add(PeerEventKind::Warned, "abuse");
                }
                self.go_away(now);
            }
            Standing::Overdrawn => return Err(Fault::connection(Code::EnhanceYourCalm, "abuse")),
        }
        Ok(())
    }

    /// Takes a peer event that was not reported yet.
    #[inline]
    pub(crate) fn take_event(&mut self) -> Option<PeerEvent> {
        self.peer_record.events.take()
    }

    /// Resets a stream that is not over yet.
    pub(crate) fn reset(&mut self, id: u32, code: Code) {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == StreamLife::Live) else {
            return;
        };
        stream.life = StreamLife::ResetByUs;
        let unconsumed = std::mem::take(&mut stream.incoming.unconsumed);
        self.return_to_connection(unconsumed);
        frame::write_reset(id, code, self.outbox.bytes());
    }

    /// Ends the service of a stream. If it is not complete, it is reset: with NO_ERROR if only the request is
    /// incomplete, otherwise with CANCEL (RFC 9113 §8.1). A lingering stream ends by itself.
    pub(crate) fn release(&mut self, id: u32) {
        let Some(stream) = self.streams.get(id).filter(|stream| stream.life != StreamLife::Lingering) else {
            return;
        };
        let (received, sent) = (stream.received, stream.sent);
        match (received, sent) {
            (HalfState::Ended, HalfState::Ended) if stream.life == StreamLife::Live => {
                self.peer_record.account.completed();
            }
            (_, HalfState::Ended) if self.role == Role::Server => self.reset(id, Code::NoError),
            _ => self.reset(id, Code::Cancel),
        }
        self.remove_stream(id);
    }

    /// Removes the record of a stream that is over.
    pub(super) fn remove_stream(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(id) else { return };
        self.pause_stall_timer_if_idle();
        if self.streams.len() == 0 {
            self.timers.next_stall_check = None;
        }
        self.return_to_connection(stream.incoming.unconsumed);
        self.return_growth(stream.incoming.grown);
        self.ids.closed.record(
            id,
            match stream.life {
                StreamLife::Live | StreamLife::Lingering => PastStream::Ended,
                StreamLife::ResetByPeer => PastStream::ResetByPeer,
                StreamLife::ResetByUs => PastStream::Unknown,
            },
        );
    }

    /// Accepts no new streams except those in flight: "an initial GOAWAY frame with the last stream identifier set to
    /// 2^31-1 ... After allowing time for any in-flight stream creation (at least one round-trip time), the server MAY
    /// send another GOAWAY frame with an updated last stream identifier" (RFC 9113 §6.8).
    pub(crate) fn go_away(&mut self, now: u64) {
        if self.timers.shutdown != Shutdown::Open {
            return;
        }
        self.peer_record.events.add(PeerEventKind::GoAway, Code::NoError.label());
        if self.role == Role::Client {
            self.timers.shutdown = Shutdown::After { last: 0 };
            return frame::write_go_away(0, Code::NoError, "", self.outbox.bytes());
        }
        self.timers.shutdown = Shutdown::Announced { until: now + IN_FLIGHT_STREAMS_MICROS };
        frame::write_go_away(MAX_WINDOW, Code::NoError, "", self.outbox.bytes());
        self.ping(*GO_AWAY_PING);
    }

    /// The client has seen GOAWAY: requests that still arrive were queued before.
    pub(super) fn go_away_acknowledged(&mut self, now: u64) {
        if let Shutdown::Announced { until } = &mut self.timers.shutdown {
            *until = (*until).min(now + QUEUED_STREAMS_MICROS);
        }
    }

    /// Sends the second GOAWAY.
    pub(super) fn send_final_go_away(&mut self) {
        let last = self.ids.highest;
        self.timers.shutdown = Shutdown::After { last };
        frame::write_go_away(last, Code::NoError, "", self.outbox.bytes());
    }

    /// The last stream that may have been acted on.
    fn last_accepted_stream(&self) -> u32 {
        match self.timers.shutdown {
            Shutdown::After { last } => last,
            _ => self.ids.highest,
        }
    }

    /// Whether nothing more will happen on this connection.
    pub(crate) fn is_done(&self) -> bool {
        let ended = matches!(self.timers.shutdown, Shutdown::After { .. }) && self.streams.len() == 0;
        ended || matches!(self.read_state, ReadState::Failed(_))
    }
}
