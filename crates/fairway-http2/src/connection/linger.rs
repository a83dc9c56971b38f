//! Lingering streams: if a response is complete while its request is not, the stream is reset later than the response,
//! not together with it. The window of such a stream is never reopened.
//!
//! "A server MAY request that the client abort transmission of a request without error by sending a RST_STREAM with an
//! error code of NO_ERROR after sending a complete response", and "Clients MUST NOT discard responses as a result of
//! receiving such a RST_STREAM" (RFC 9113 §8.1). Some do, curl 7.88 and Node among them, if the reset arrives together
//! with the response.

use super::{Connection, Role};
use crate::fault::Code;
use crate::frame;
use crate::patience::Due;
use crate::stream::{HalfState, StreamLife};

/// How long a client has to read a response before its stream is reset, in microseconds.
const LINGER_MICROS: u32 = 1_000_000;

impl Connection {
    /// Lets a stream linger that is about to be released, if only its request is incomplete. Tunnels have no response
    /// that could be lost.
    pub(crate) fn linger(&mut self, now: u64, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let is_answered = (stream.received, stream.sent) == (HalfState::Open, HalfState::Ended);
        let may = self.role == Role::Server && stream.life == StreamLife::Live && !stream.request.is_tunnel;
        if !is_answered || !may {
            return;
        }
        stream.life = StreamLife::Lingering;
        stream.incoming.window_announced_at = now;
        let unconsumed = std::mem::take(&mut stream.incoming.unconsumed);
        self.streams.lingering += 1;
        if self.timers.linger_due == Due::NEVER {
            self.timers.linger_due = Due::after(now, LINGER_MICROS);
        }
        self.return_to_connection(unconsumed);
    }

    /// Resets the streams that have lingered long enough, and finds the next deadline.
    pub(super) fn reset_expired_lingering(&mut self, now: u64) {
        self.timers.linger_due = Due::NEVER;
        while let Some((since, id)) = self.streams.lingering_longest() {
            let until = Due::after(since, LINGER_MICROS);
            if until > Due::after(now, 0) {
                self.timers.linger_due = until;
                return;
            }
            frame::write_reset(id, Code::NoError, self.outbox.bytes());
            self.stop_lingering(id, StreamLife::ResetByUs);
        }
    }

    /// Ends lingering early: the peer ended or reset the stream, or broke a rule on it.
    pub(super) fn stop_lingering(&mut self, id: u32, life: StreamLife) {
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == StreamLife::Lingering)
        else {
            return;
        };
        stream.life = life;
        self.streams.lingering -= 1;
        if self.streams.lingering == 0 {
            self.timers.linger_due = Due::NEVER;
        }
        self.remove_stream(id);
    }
}
