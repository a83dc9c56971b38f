//! The end of a stream whose answer is complete while its request still comes: it is reset a little later than the answer,
//! not with it. Never gives back the window of such a stream.
//!
//! "A server MAY request that the client abort transmission of a request without error by sending a RST_STREAM with an error
//! code of NO_ERROR after sending a complete response", and "Clients MUST NOT discard responses as a result of receiving
//! such a RST_STREAM" (RFC 9113 §8.1). Some do, curl 7.88 and Node among them, when the reset comes together with the answer.

use super::{Connection, Role};
use crate::fault::Code;
use crate::frame;
use crate::patience::Due;
use crate::stream::{Half, Life};

/// How long a client may take to read an answer before the stream of it is reset, in microseconds.
const LINGER_MICROS: u32 = 1_000_000;

impl Connection {
    /// A stream that is about to be released lingers if only its request has not ended. What the peer opens for a tunnel has
    /// no answer that could be lost.
    pub(crate) fn linger(&mut self, now: u64, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let is_answered = (stream.received, stream.sent) == (Half::Open, Half::Ended);
        let may = self.role == Role::Server && stream.life == Life::Live && !stream.asked.for_tunnel;
        if !is_answered || !may {
            return;
        }
        stream.life = Life::Lingering;
        stream.incoming.since = now;
        let held = std::mem::take(&mut stream.incoming.held);
        self.streams.lingering += 1;
        if self.times.lingering == Due::NEVER {
            self.times.lingering = Due::after(now, LINGER_MICROS);
        }
        self.give_to_connection(held);
    }

    /// Resets the streams whose time is over, and finds when the next one's is.
    pub(super) fn end_lingering(&mut self, now: u64) {
        self.times.lingering = Due::NEVER;
        while let Some((since, id)) = self.streams.lingering_longest() {
            let until = Due::after(since, LINGER_MICROS);
            if until > Due::after(now, 0) {
                self.times.lingering = until;
                return;
            }
            frame::write_reset(id, Code::NoError, self.outbox.bytes());
            self.linger_no_more(id, Life::ResetByUs);
        }
    }

    /// The peer ended or reset a stream that lingers, or it broke a rule there: nothing more is awaited.
    pub(super) fn linger_no_more(&mut self, id: u32, life: Life) {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == Life::Lingering) else {
            return;
        };
        stream.life = life;
        self.streams.lingering -= 1;
        if self.streams.lingering == 0 {
            self.times.lingering = Due::NEVER;
        }
        self.forget(id);
    }
}
