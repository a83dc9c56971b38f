//! Timeouts: SETTINGS acknowledgement, GOAWAY, closed windows and silence. Reads no clock.

use super::control::LIVENESS_PING;
use super::{Connection, ReadState, Role, Shutdown};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::frame;
use crate::patience::Due;
use crate::stream::StreamLife;

impl Connection {
    /// When [`Connection::handle_timeout`] must be called, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<u64> {
        if let ReadState::Failed(_) = self.read_state {
            return None;
        }
        let ending = match self.timers.shutdown {
            Shutdown::Announced { until } => Some(until),
            _ => None,
        };
        let window = self.windows.stall.expires_at(self.config.timeouts.window);
        [
            self.timers.settings_due.time(),
            self.timers.block_due.time(),
            ending,
            window,
            self.timers.next_stall_check,
            self.timers.linger_due.time(),
            self.silence_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn silence_due(&self) -> Option<u64> {
        let timeouts = self.config.timeouts;
        match self.timers.pinged_at {
            _ if self.streams.len() == 0 => None,
            Some(asked) => Some(asked.saturating_add(u64::from(timeouts.response))),
            None => Some(self.timers.last_received.saturating_add(u64::from(timeouts.silence))),
        }
    }

    /// Handles the passing of time. Returns one event per call: call until there is none.
    pub(crate) fn handle_timeout<'a>(&mut self, now: u64) -> Option<Event<'a>> {
        self.timers.now = now;
        if let ReadState::Failed(_) = self.read_state {
            return None;
        }
        let due = |until: Option<u64>| until.is_some_and(|until| until <= now);
        if let Shutdown::Announced { until } = self.timers.shutdown
            && until <= now
        {
            self.send_final_go_away();
        }
        if due(self.timers.settings_due.time()) {
            return Some(self.fail(Fault::connection(Code::SettingsTimeout, "settings_timeout")));
        }
        if due(self.timers.block_due.time()) {
            return Some(self.fail(Fault::connection(Code::EnhanceYourCalm, "head_timeout")));
        }
        if due(self.windows.stall.expires_at(self.config.timeouts.window)) {
            return Some(self.fail(Fault::connection(Code::EnhanceYourCalm, "connection_window_closed")));
        }
        if due(self.silence_due()) {
            if self.timers.pinged_at.is_some() {
                return Some(self.fail(Fault::connection(Code::NoError, "silence")));
            }
            self.timers.pinged_at = Some(now);
            self.ping(*LIVENESS_PING);
        }
        if due(self.timers.linger_due.time()) {
            self.reset_expired_lingering(now);
        }
        due(self.timers.next_stall_check).then(|| self.reset_stalled(now)).flatten()
    }

    /// Resets one stream whose peer kept its window closed too long, and finds the next deadline.
    fn reset_stalled<'a>(&mut self, now: u64) -> Option<Event<'a>> {
        let micros = self.config.timeouts.window;
        let until = |stream: &crate::stream::Stream| match stream.life {
            StreamLife::Live => stream.outgoing.stall.expires_at(micros),
            _ => None,
        };
        let due = self.streams.iter().find(|stream| until(stream).is_some_and(|until| until <= now));
        let due = due.map(|stream| stream.id);
        if due.is_none() {
            self.timers.next_stall_check = self.streams.iter().filter_map(until).min();
        }
        let fault = Fault::stream(Code::Cancel, "window_closed");
        match self.fail_stream(now, due?, fault) {
            Ok(event) => event,
            Err(fault) => Some(self.fail(fault)),
        }
    }

    /// Starts the timeout for an incomplete field block: a client has this long for the rest, however many pieces it
    /// sends.
    pub(super) fn start_block_timer(&mut self, now: u64) {
        if self.role == Role::Server && self.timers.block_due == Due::NEVER {
            self.timers.block_due = Due::after(now, self.config.timeouts.head);
        }
    }

    /// Starts the stall timer of a stream that waits for its window.
    pub(super) fn start_stall_timer(&mut self, id: u32) {
        let (now, micros) = (self.timers.now, self.config.timeouts.window);
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.outgoing.stall.start(now);
        let until = stream.outgoing.stall.expires_at(micros);
        self.timers.next_stall_check = [self.timers.next_stall_check, until].into_iter().flatten().min();
    }

    /// Sends PING; [`Event::Pong`] follows.
    pub(crate) fn ping(&mut self, payload: [u8; 8]) {
        self.timers.unanswered_pings = self.timers.unanswered_pings.saturating_add(1);
        frame::write_ping(payload, false, self.outbox.bytes());
    }
}
