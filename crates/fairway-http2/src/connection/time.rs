//! What happens when nothing comes: deadlines of settings, of GOAWAY, of windows that stay closed and of silence. Never
//! reads a clock.

use super::control::SILENCE_PING;
use super::{Connection, Ending, Reading, Role};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::frame;
use crate::patience::Due;
use crate::stream::Life;

impl Connection {
    /// When [`Connection::pass`] must be called, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<u64> {
        if let Reading::Nothing(_) = self.reading {
            return None;
        }
        let ending = match self.times.ending {
            Ending::Announced { until } => Some(until),
            _ => None,
        };
        let window = self.windows.patience.until(self.config.timeouts.window);
        [
            self.times.settings.time(),
            self.times.head.time(),
            ending,
            window,
            self.times.stalled,
            self.times.lingering.time(),
            self.silent_until(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn silent_until(&self) -> Option<u64> {
        let timeouts = self.config.timeouts;
        match self.times.asked {
            _ if self.streams.len() == 0 => None,
            Some(asked) => Some(asked.saturating_add(u64::from(timeouts.answer))),
            None => Some(self.times.heard.saturating_add(u64::from(timeouts.silence))),
        }
    }

    /// Time passed. Gives what came of it, one event a call: to be called until nothing does.
    pub(crate) fn pass<'a>(&mut self, now: u64) -> Option<Event<'a>> {
        self.times.now = now;
        if let Reading::Nothing(_) = self.reading {
            return None;
        }
        let due = |until: Option<u64>| until.is_some_and(|until| until <= now);
        if let Ending::Announced { until } = self.times.ending
            && until <= now
        {
            self.go_away_at_last();
        }
        if due(self.times.settings.time()) {
            return Some(self.fail(Fault::connection(Code::SettingsTimeout, "settings_timeout")));
        }
        if due(self.times.head.time()) {
            return Some(self.fail(Fault::connection(Code::EnhanceYourCalm, "head_timeout")));
        }
        if due(self.windows.patience.until(self.config.timeouts.window)) {
            return Some(self.fail(Fault::connection(Code::EnhanceYourCalm, "connection_window_closed")));
        }
        if due(self.silent_until()) {
            if self.times.asked.is_some() {
                return Some(self.fail(Fault::connection(Code::NoError, "silence")));
            }
            self.times.asked = Some(now);
            self.ping(*SILENCE_PING);
        }
        if due(self.times.lingering.time()) {
            self.end_lingering(now);
        }
        due(self.times.stalled).then(|| self.give_up(now)).flatten()
    }

    /// Ends one stream whose peer kept its window closed for too long, and finds when the next one must be.
    fn give_up<'a>(&mut self, now: u64) -> Option<Event<'a>> {
        let micros = self.config.timeouts.window;
        let until = |stream: &crate::stream::Stream| match stream.life {
            Life::Live => stream.outgoing.patience.until(micros),
            _ => None,
        };
        let due = self.streams.iter().find(|stream| until(stream).is_some_and(|until| until <= now));
        let due = due.map(|stream| stream.id);
        if due.is_none() {
            self.times.stalled = self.streams.iter().filter_map(until).min();
        }
        let fault = Fault::stream(Code::Cancel, "window_closed");
        match self.fail_stream(now, due?, fault) {
            Ok(event) => event,
            Err(fault) => Some(self.fail(fault)),
        }
    }

    /// A field block has begun and is not whole: a client has so long for the rest, however many pieces it comes in.
    pub(super) fn await_block(&mut self, now: u64) {
        if self.role == Role::Server && self.times.head == Due::NEVER {
            self.times.head = Due::after(now, self.config.timeouts.head);
        }
    }

    /// A stream waits for its window from now on.
    pub(super) fn start_patience(&mut self, id: u32) {
        let (now, micros) = (self.times.now, self.config.timeouts.window);
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.outgoing.patience.wait(now);
        let until = stream.outgoing.patience.until(micros);
        self.times.stalled = [self.times.stalled, until].into_iter().flatten().min();
    }

    /// Sends PING; [`Event::Pong`] follows.
    pub(crate) fn ping(&mut self, payload: [u8; 8]) {
        self.times.pings = self.times.pings.saturating_add(1);
        frame::write_ping(payload, false, self.outbox.bytes());
    }
}
