//! How streams and connections end (RFC 9113 §5.4, §6.8): errors of both scopes, release, GOAWAY in two steps, deadlines.
//! Never forgets a stream that somebody still serves.

use super::control::LAST_PING;
use super::{Connection, Ending, Reading, Role};
use crate::abuse::{Standing, Weight};
use crate::event::{By, Event};
use crate::fault::{Code, Fault, Scope};
use crate::flow::LARGEST;
use crate::frame;
use crate::notes::{Note, Noted};
use crate::stream::{Half, Life, Past};

/// How long streams that were under way are taken after GOAWAY, in microseconds.
const UNDER_WAY_MICROS: u64 = 1_000_000;
/// The same once the client has answered the PING behind GOAWAY: its library may send that answer before requests that it had
/// queued by then.
const QUEUED_MICROS: u64 = 250_000;

impl Connection {
    /// The connection ends with this error.
    pub(super) fn fail<'a>(&mut self, fault: Fault) -> Event<'a> {
        let last = if self.role == Role::Server { self.last_taken() } else { 0 };
        frame::write_go_away(last, fault.code, fault.rule, self.outbox.bytes());
        self.conduct.notes.add(Noted::ConnectionFault, fault.rule);
        self.reading = Reading::Nothing(fault);
        Event::Closed(fault)
    }

    /// A stream ends because of what the peer did on it. One that was reset before gets the code again but no event.
    pub(super) fn fail_stream<'a>(
        &mut self,
        now: u64,
        id: u32,
        fault: Fault,
    ) -> Result<Option<Event<'a>>, Fault> {
        debug_assert!(fault.scope == Scope::Stream);
        self.conduct.notes.add(Noted::StreamFault, fault.rule);
        self.charge(now, Weight::Heavy)?;
        let Some(stream) = self.streams.get_mut(id) else {
            if self.ids.memory.of(id) != Past::Unknown {
                self.outbox.reply(|out| frame::write_reset(id, fault.code, out));
                self.ids.memory.note(id, Past::Unknown);
            }
            return Ok(None);
        };
        let before = stream.life;
        if before == Life::ResetByUs {
            return Ok(None);
        }
        if before == Life::Lingering {
            self.linger_no_more(id, Life::ResetByUs);
        } else {
            stream.life = Life::ResetByUs;
            let held = std::mem::take(&mut stream.incoming.held);
            self.give_to_connection(held);
        }
        self.outbox.reply(|out| frame::write_reset(id, fault.code, out));
        let event = Event::Reset { stream: id, code: fault.code, by: By::Us(fault.rule) };
        Ok((before == Life::Live).then_some(event))
    }

    /// A stream is refused before it exists.
    pub(super) fn refuse<'a>(&mut self, now: u64, id: u32, fault: Fault) -> Result<Option<Event<'a>>, Fault> {
        self.conduct.notes.add(Noted::StreamFault, fault.rule);
        self.charge(now, Weight::Heavy)?;
        self.outbox.reply(|out| frame::write_reset(id, fault.code, out));
        self.ids.memory.note(id, Past::Unknown);
        Ok(None)
    }

    /// Charges the peer. A warned one gets no new streams, an overdrawn one is sent away.
    pub(super) fn charge(&mut self, now: u64, weight: Weight) -> Result<(), Fault> {
        match self.conduct.account.charge(now, weight, 1) {
            Standing::Good => {}
            Standing::Warned => {
                if self.times.ending == Ending::No {
                    self.conduct.notes.add(Noted::Warned, "abuse");
                }
                self.go_away(now);
            }
            Standing::Overdrawn => return Err(Fault::connection(Code::EnhanceYourCalm, "abuse")),
        }
        Ok(())
    }

    /// Something that happened and was not told yet.
    #[inline]
    pub(crate) fn noted(&mut self) -> Option<Note> {
        self.conduct.notes.take()
    }

    /// Resets a stream, if it is not over yet.
    pub(crate) fn reset(&mut self, id: u32, code: Code) {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == Life::Live) else {
            return;
        };
        stream.life = Life::ResetByUs;
        let held = std::mem::take(&mut stream.incoming.held);
        self.give_to_connection(held);
        frame::write_reset(id, code, self.outbox.bytes());
    }

    /// Nobody serves the stream any more. One that has not ended is reset: with NO_ERROR when only the request has not,
    /// and otherwise with CANCEL (RFC 9113 §8.1). One that lingers ends by itself.
    pub(crate) fn release(&mut self, id: u32) {
        let Some(stream) = self.streams.get(id).filter(|stream| stream.life != Life::Lingering) else {
            return;
        };
        let (received, sent) = (stream.received, stream.sent);
        match (received, sent) {
            (Half::Ended, Half::Ended) if stream.life == Life::Live => self.conduct.account.completed(),
            (_, Half::Ended) if self.role == Role::Server => self.reset(id, Code::NoError),
            _ => self.reset(id, Code::Cancel),
        }
        self.forget(id);
    }

    /// Nothing more is to come of a stream: its record goes.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(id) else { return };
        self.pause_if_quiet();
        if self.streams.len() == 0 {
            self.times.stalled = None;
        }
        self.give_to_connection(stream.incoming.held);
        self.shrink(stream.incoming.grown);
        self.ids.memory.note(
            id,
            match stream.life {
                Life::Live | Life::Lingering => Past::Ended,
                Life::ResetByPeer => Past::ResetByPeer,
                Life::ResetByUs => Past::Unknown,
            },
        );
    }

    /// Takes no new streams, except those that are under way: "an initial GOAWAY frame with the last stream identifier set
    /// to 2^31-1 ... After allowing time for any in-flight stream creation (at least one round-trip time), the server MAY
    /// send another GOAWAY frame with an updated last stream identifier" (RFC 9113 §6.8).
    pub(crate) fn go_away(&mut self, now: u64) {
        if self.times.ending != Ending::No {
            return;
        }
        self.conduct.notes.add(Noted::GoAway, Code::NoError.label());
        if self.role == Role::Client {
            self.times.ending = Ending::After { last: 0 };
            return frame::write_go_away(0, Code::NoError, "", self.outbox.bytes());
        }
        self.times.ending = Ending::Announced { until: now + UNDER_WAY_MICROS };
        frame::write_go_away(LARGEST, Code::NoError, "", self.outbox.bytes());
        self.ping(*LAST_PING);
    }

    /// The client has seen GOAWAY: what it sends from now on was asked for before.
    pub(super) fn go_away_was_seen(&mut self, now: u64) {
        if let Ending::Announced { until } = &mut self.times.ending {
            *until = (*until).min(now + QUEUED_MICROS);
        }
    }

    /// The second step.
    pub(super) fn go_away_at_last(&mut self) {
        let last = self.ids.highest;
        self.times.ending = Ending::After { last };
        frame::write_go_away(last, Code::NoError, "", self.outbox.bytes());
    }

    /// The last stream that we may have acted on.
    fn last_taken(&self) -> u32 {
        match self.times.ending {
            Ending::After { last } => last,
            _ => self.ids.highest,
        }
    }

    /// Whether nothing will come of this connection any more.
    pub(crate) fn is_done(&self) -> bool {
        let ended = matches!(self.times.ending, Ending::After { .. }) && self.streams.len() == 0;
        ended || matches!(self.reading, Reading::Nothing(_))
    }
}
