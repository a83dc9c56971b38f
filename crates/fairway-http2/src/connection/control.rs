//! Frames that carry neither heads nor bodies (RFC 9113 §6.3 to §6.9, RFC 9218 §7.1). Never answers more than the rules ask.

use super::{Connection, Role};
use crate::abuse::Weight;
use crate::event::{By, Event};
use crate::fault::{Code, Fault};
use crate::flow::{self, LARGEST};
use crate::frame::{self, ACK, Header, Setting};
use crate::notes::Noted;
use crate::patience::Due;
use crate::priority::Priority;
use crate::stream::{Half, Life};

type Came<'a> = Result<Option<Event<'a>>, Fault>;

/// What our PING between the two steps of GOAWAY carries.
pub(super) const LAST_PING: &[u8; 8] = b"goodbye!";

/// What our PING to a peer carries that says nothing.
pub(super) const SILENCE_PING: &[u8; 8] = b"are you?";

const fn protocol(rule: &'static str) -> Fault {
    Fault::connection(Code::Protocol, rule)
}

impl Connection {
    pub(super) fn settings<'a>(&mut self, now: u64, header: &Header, payload: &[u8]) -> Came<'a> {
        if header.has(ACK) {
            if !payload.is_empty() {
                return Err(Fault::connection(Code::FrameSize, "settings_ack_length"));
            }
            match std::mem::replace(&mut self.times.settings, Due::NEVER) {
                Due::NEVER => self.charge(now, Weight::Heavy)?,
                _ => self.settle_windows(),
            }
            return Ok(None);
        }
        let first = !std::mem::replace(&mut self.peer.known, true);
        if !first {
            self.charge(now, Weight::Heavy)?;
        }
        let mut windows = None;
        for (number, value) in frame::settings(payload) {
            match Setting::of(number) {
                Some(Setting::InitialWindowSize) => {
                    let (_, largest) = windows.unwrap_or((0, 0));
                    windows = Some((value, value.max(largest)));
                }
                Some(setting) => self.apply(setting, value)?,
                None => {}
            }
        }
        let opened = windows.map_or(Ok(false), |(last, largest)| self.resize_windows(last, largest))?;
        self.outbox.reply(frame::write_settings_ack);
        Ok(match self.role {
            Role::Client => Some(Event::Settings),
            Role::Server => opened.then_some(Event::Writable { stream: 0 }),
        })
    }

    /// The peer knows from here on how small the windows of streams are.
    fn settle_windows(&mut self) {
        let by = flow::INITIAL.saturating_sub(self.config.stream_window);
        for stream in self.streams.iter_mut().filter(|_| by > 0) {
            stream.incoming.window.adjust(by);
        }
    }

    /// Applies a setting that is not the window of streams (RFC 9113 §6.5.2).
    fn apply(&mut self, setting: Setting, value: u32) -> Result<(), Fault> {
        match setting {
            Setting::HeaderTableSize => self.encoder.set_limit(value as usize),
            // "A client MUST treat receipt of a SETTINGS frame with SETTINGS_ENABLE_PUSH set to 1 as a connection error".
            Setting::EnablePush if value > 1 || (value == 1 && self.role == Role::Client) => {
                return Err(protocol("setting_push"));
            }
            Setting::MaxConcurrentStreams => self.peer.streams = value,
            Setting::MaxFrameSize if !(frame::FRAME_BYTES..=0xff_ffff).contains(&value) => {
                return Err(protocol("setting_frame_size"));
            }
            Setting::MaxFrameSize => self.peer.frame_bytes = value,
            // "A sender MUST NOT send ... 0 after previously sending ... 1" (RFC 8441 §3).
            Setting::EnableConnectProtocol if value > 1 || (value == 0 && self.peer.extended_connect) => {
                return Err(protocol("setting_connect_protocol"));
            }
            Setting::EnableConnectProtocol => self.peer.extended_connect = value == 1,
            Setting::NoRfc7540Priorities if value > 1 => return Err(protocol("setting_priorities")),
            Setting::EnablePush
            | Setting::InitialWindowSize
            | Setting::MaxHeaderListSize
            | Setting::NoRfc7540Priorities => {}
        }
        Ok(())
    }

    /// "a receiver MUST adjust the size of all stream flow-control windows that it maintains by the difference between the
    /// new value and the old value" (RFC 9113 §6.9.2). Of all values in a frame, the last is the one that counts and the
    /// largest the one that can be too large: streams are visited once, however many there are. Says whether a window opened.
    fn resize_windows(&mut self, window: u32, largest: u32) -> Result<bool, Fault> {
        const FAULT: Fault = Fault::connection(Code::FlowControl, "setting_window");
        if largest > LARGEST {
            return Err(FAULT);
        }
        let from = |window: u32| i64::from(window) - i64::from(self.peer.window);
        let (by, most) = (from(window), from(largest));
        self.peer.window = window;
        let mut opened = false;
        for stream in self.streams.iter_mut() {
            let outgoing = &mut stream.outgoing.window;
            outgoing.can_change(most).then_some(()).ok_or(FAULT)?;
            opened |= outgoing.change(by).ok_or(FAULT)?;
            if stream.outgoing.window.room() > 0 {
                stream.outgoing.patience.pause(self.times.now);
            }
        }
        self.streams.arrange_all();
        Ok(opened)
    }

    pub(super) fn window_update<'a>(&mut self, now: u64, header: &Header, payload: &[u8]) -> Came<'a> {
        let (id, increment) = (header.stream, frame::word(payload) & LARGEST);
        if id != 0 && self.is_idle(id) {
            return Err(protocol("stream_idle"));
        }
        if self.conduct.account.is_needless_update() {
            self.charge(now, Weight::Light)?;
        }
        if id == 0 {
            return self.connection_update(increment);
        }
        // It can come after either side ended the stream (RFC 9113 §5.1).
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == Life::Live) else {
            return Ok(None);
        };
        if increment == 0 {
            return self.fail_stream(now, id, Fault::stream(Code::Protocol, "increment_zero"));
        }
        let opened = stream.outgoing.window.change(i64::from(increment));
        if stream.outgoing.window.room() > 0 {
            stream.outgoing.patience.pause(now);
        }
        let (ended, wanted) = (stream.sent == Half::Ended, stream.outgoing.wanted);
        match opened {
            Some(opened) => {
                if opened && wanted {
                    self.streams.arrange(id);
                }
                Ok((opened && !ended).then_some(Event::Writable { stream: id }))
            }
            None => self.fail_stream(now, id, Fault::stream(Code::FlowControl, "window_too_large")),
        }
    }

    fn connection_update<'a>(&mut self, increment: u32) -> Came<'a> {
        if increment == 0 {
            return Err(protocol("increment_zero"));
        }
        match self.windows.outbound.change(i64::from(increment)) {
            Some(opened) => {
                if self.windows.outbound.room() > 0 {
                    self.windows.patience.pause(self.times.now);
                }
                Ok(opened.then_some(Event::Writable { stream: 0 }))
            }
            None => Err(Fault::connection(Code::FlowControl, "window_too_large")),
        }
    }

    pub(super) fn reset_received<'a>(&mut self, now: u64, header: &Header, payload: &[u8]) -> Came<'a> {
        let (id, code) = (header.stream, Code::of(frame::word(payload)));
        if self.is_idle(id) {
            return Err(protocol("stream_idle"));
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == Life::Live) else {
            self.linger_no_more(id, Life::ResetByPeer);
            return self.charge(now, Weight::Light).map(|()| None);
        };
        stream.life = Life::ResetByPeer;
        self.conduct.notes.add(Noted::Reset, code.label());
        let (sent, held) = (stream.sent, std::mem::take(&mut stream.incoming.held));
        self.give_to_connection(held);
        match (self.role, sent) {
            (Role::Server, Half::Waiting) => self.charge(now, Weight::Heavy)?,
            (Role::Server, Half::Open) => self.charge(now, Weight::Light)?,
            _ => {}
        }
        Ok(Some(Event::Reset { stream: id, code, by: By::Peer }))
    }

    pub(super) fn ping_received<'a>(&mut self, now: u64, header: &Header, payload: &[u8]) -> Came<'a> {
        let mut opaque = [0; 8];
        opaque.copy_from_slice(&payload[..8]);
        if header.has(ACK) {
            return self.pong(now, opaque);
        }
        self.outbox.reply(|out| frame::write_ping(opaque, true, out));
        if self.conduct.account.is_idle_ping() {
            self.charge(now, Weight::Medium)?;
        }
        Ok(None)
    }

    /// An answer to PING, which only one that we did not send is charged for.
    fn pong<'a>(&mut self, now: u64, opaque: [u8; 8]) -> Came<'a> {
        match self.times.pings.checked_sub(1) {
            Some(left) => self.times.pings = left,
            None => self.charge(now, Weight::Light)?,
        }
        match &opaque {
            LAST_PING => self.go_away_was_seen(now),
            SILENCE_PING => {}
            _ => return Ok(Some(Event::Pong(opaque))),
        }
        Ok(None)
    }

    /// "Endpoints MUST NOT increase the value they send in the last stream identifier" (RFC 9113 §6.8).
    pub(super) fn go_away_received<'a>(&mut self, now: u64, payload: &[u8]) -> Came<'a> {
        self.charge(now, Weight::Light)?;
        let (last, code) = frame::go_away(payload);
        if last > self.peer.last {
            return Err(protocol("go_away_rises"));
        }
        self.peer.last = last;
        self.conduct.notes.add(Noted::GoAwayReceived, code.label());
        Ok(Some(Event::GoAway { last, code }))
    }

    /// The priorities of RFC 7540 mean nothing any more, but a stream still cannot depend on itself.
    pub(super) fn priority_received<'a>(&mut self, now: u64, header: &Header, payload: &[u8]) -> Came<'a> {
        self.charge(now, Weight::Light)?;
        match frame::priority(header, payload) {
            Ok(()) => Ok(None),
            // RST_STREAM must not be sent for an idle stream.
            Err(fault) if self.is_idle(header.stream) => Err(Fault::connection(fault.code, fault.rule)),
            Err(fault) => self.fail_stream(now, header.stream, fault),
        }
    }

    /// One for a stream that is not open yet is kept: "it SHOULD buffer the most recently received PRIORITY_UPDATE frame"
    /// (RFC 9218 §7.1).
    pub(super) fn priority_update<'a>(&mut self, now: u64, payload: &[u8]) -> Came<'a> {
        let (id, text) = frame::priority_update(payload);
        let furthest = self.ids.highest.saturating_add(2 * self.config.streams);
        if self.role == Role::Client || id == 0 || id & 1 == 0 || id > furthest {
            return Err(protocol("priority_update"));
        }
        self.charge(now, Weight::Light)?;
        let priority = Priority::read(text);
        if id > self.ids.highest {
            self.ids.hint(id, priority);
            return Ok(None);
        }
        if !self.is_live(id) {
            return Ok(None);
        }
        self.set_priority(id, priority);
        Ok(Some(Event::Priority { stream: id, priority }))
    }
}
