//! Frames other than heads and bodies (RFC 9113 §6.3 to §6.9, RFC 9218 §7.1). Sends no more replies than the rules
//! require.

use super::{Connection, Role};
use crate::abuse::Weight;
use crate::event::{Event, ResetBy};
use crate::fault::{Code, Fault};
use crate::flow::{self, MAX_WINDOW};
use crate::frame::{self, FLAG_ACK, Header, Setting};
use crate::patience::Due;
use crate::priority::Priority;
use crate::rare_events::PeerEventKind;
use crate::stream::{HalfState, StreamLife};

type FrameResult<'a> = Result<Option<Event<'a>>, Fault>;

/// The payload of the PING between the two GOAWAY frames.
pub(super) const GO_AWAY_PING: &[u8; 8] = b"goodbye!";

/// The payload of the PING to a silent peer.
pub(super) const LIVENESS_PING: &[u8; 8] = b"are you?";

const fn protocol_error(rule: &'static str) -> Fault {
    Fault::connection(Code::Protocol, rule)
}

impl Connection {
    pub(super) fn settings_received<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
    ) -> FrameResult<'a> {
        if header.has_flag(FLAG_ACK) {
            if !payload.is_empty() {
                return Err(Fault::connection(Code::FrameSize, "settings_ack_length"));
            }
            match std::mem::replace(&mut self.timers.settings_due, Due::NEVER) {
                Due::NEVER => self.charge(now, Weight::Heavy)?,
                _ => self.apply_acknowledged_windows(),
            }
            return Ok(None);
        }
        let first = !std::mem::replace(&mut self.peer.is_received, true);
        if !first {
            self.charge(now, Weight::Heavy)?;
        }
        let mut windows = None;
        for (number, value) in frame::settings(payload) {
            match Setting::from_number(number) {
                Some(Setting::InitialWindowSize) => {
                    let (_, largest) = windows.unwrap_or((0, 0));
                    windows = Some((value, value.max(largest)));
                }
                Some(setting) => self.apply_setting(setting, value)?,
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

    /// Applies our initial window, which the peer has acknowledged.
    fn apply_acknowledged_windows(&mut self) {
        let decrease = flow::INITIAL_WINDOW.saturating_sub(self.config.stream_window);
        for stream in self.streams.iter_mut().filter(|_| decrease > 0) {
            stream.incoming.window.shrink_acknowledged(decrease);
        }
    }

    /// Applies a setting other than the initial window (RFC 9113 §6.5.2).
    fn apply_setting(&mut self, setting: Setting, value: u32) -> Result<(), Fault> {
        match setting {
            Setting::HeaderTableSize => self.encoder.set_limit(value as usize),
            // "A client MUST treat receipt of a SETTINGS frame with SETTINGS_ENABLE_PUSH set to 1 as a connection error".
            Setting::EnablePush if value > 1 || (value == 1 && self.role == Role::Client) => {
                return Err(protocol_error("setting_push"));
            }
            Setting::MaxConcurrentStreams => self.peer.max_streams = value,
            Setting::MaxFrameSize if !(frame::MAX_FRAME_BYTES..=0xff_ffff).contains(&value) => {
                return Err(protocol_error("setting_frame_size"));
            }
            Setting::MaxFrameSize => self.peer.max_frame_bytes = value,
            // "A sender MUST NOT send ... 0 after previously sending ... 1" (RFC 8441 §3).
            Setting::EnableConnectProtocol if value > 1 || (value == 0 && self.peer.extended_connect) => {
                return Err(protocol_error("setting_connect_protocol"));
            }
            Setting::EnableConnectProtocol => self.peer.extended_connect = value == 1,
            Setting::NoRfc7540Priorities if value > 1 => return Err(protocol_error("setting_priorities")),
            Setting::EnablePush
            | Setting::InitialWindowSize
            | Setting::MaxHeaderListSize
            | Setting::NoRfc7540Priorities => {}
        }
        Ok(())
    }

    /// "a receiver MUST adjust the size of all stream flow-control windows that it maintains by the difference between
    /// the new value and the old value" (RFC 9113 §6.9.2). Of all values in a frame, the last one counts and the
    /// largest one is checked: so streams are visited once, however many values there are. Returns whether a window
    /// opened.
    fn resize_windows(&mut self, window: u32, largest: u32) -> Result<bool, Fault> {
        const FAULT: Fault = Fault::connection(Code::FlowControl, "setting_window");
        if largest > MAX_WINDOW {
            return Err(FAULT);
        }
        let from = |window: u32| i64::from(window) - i64::from(self.peer.stream_window);
        let (by, most) = (from(window), from(largest));
        self.peer.stream_window = window;
        let mut opened = false;
        for stream in self.streams.iter_mut() {
            let outgoing = &mut stream.outgoing.window;
            outgoing.can_change(most).then_some(()).ok_or(FAULT)?;
            opened |= outgoing.change(by).ok_or(FAULT)?;
            if stream.outgoing.window.room() > 0 {
                stream.outgoing.stall.pause(self.timers.now);
            }
        }
        self.streams.update_schedule_all();
        Ok(opened)
    }

    pub(super) fn window_update_received<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
    ) -> FrameResult<'a> {
        let (id, increment) = (header.stream, frame::first_u32(payload) & MAX_WINDOW);
        if id != 0 && self.is_idle(id) {
            return Err(protocol_error("stream_idle"));
        }
        if self.peer_record.account.is_needless_update() {
            self.charge(now, Weight::Light)?;
        }
        if id == 0 {
            return self.grow_connection_window(increment);
        }
        // It can arrive after either side ended the stream (RFC 9113 §5.1).
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == StreamLife::Live) else {
            return Ok(None);
        };
        if increment == 0 {
            return self.fail_stream(now, id, Fault::stream(Code::Protocol, "increment_zero"));
        }
        let opened = stream.outgoing.window.change(i64::from(increment));
        if stream.outgoing.window.room() > 0 {
            stream.outgoing.stall.pause(now);
        }
        let (ended, wanted) = (stream.sent == HalfState::Ended, stream.outgoing.is_queued);
        match opened {
            Some(opened) => {
                if opened && wanted {
                    self.streams.update_schedule(id);
                }
                Ok((opened && !ended).then_some(Event::Writable { stream: id }))
            }
            None => self.fail_stream(now, id, Fault::stream(Code::FlowControl, "window_too_large")),
        }
    }

    fn grow_connection_window<'a>(&mut self, increment: u32) -> FrameResult<'a> {
        if increment == 0 {
            return Err(protocol_error("increment_zero"));
        }
        match self.windows.outbound.change(i64::from(increment)) {
            Some(opened) => {
                if self.windows.outbound.room() > 0 {
                    self.windows.stall.pause(self.timers.now);
                }
                Ok(opened.then_some(Event::Writable { stream: 0 }))
            }
            None => Err(Fault::connection(Code::FlowControl, "window_too_large")),
        }
    }

    pub(super) fn reset_received<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
    ) -> FrameResult<'a> {
        let (id, code) = (header.stream, Code::from_number(frame::first_u32(payload)));
        if self.is_idle(id) {
            return Err(protocol_error("stream_idle"));
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.life == StreamLife::Live) else {
            self.stop_lingering(id, StreamLife::ResetByPeer);
            return self.charge(now, Weight::Light).map(|()| None);
        };
        stream.life = StreamLife::ResetByPeer;
        self.peer_record.events.add(PeerEventKind::Reset, code.label());
        let (sent, held) = (stream.sent, std::mem::take(&mut stream.incoming.unconsumed));
        self.return_to_connection(held);
        match (self.role, sent) {
            (Role::Server, HalfState::Waiting) => self.charge(now, Weight::Heavy)?,
            (Role::Server, HalfState::Open) => self.charge(now, Weight::Light)?,
            _ => {}
        }
        Ok(Some(Event::Reset { stream: id, code, reset_by: ResetBy::Peer }))
    }

    pub(super) fn ping_received<'a>(&mut self, now: u64, header: &Header, payload: &[u8]) -> FrameResult<'a> {
        let mut opaque = [0; 8];
        opaque.copy_from_slice(&payload[..8]);
        if header.has_flag(FLAG_ACK) {
            return self.pong_received(now, opaque);
        }
        self.outbox.reply(|out| frame::write_ping(opaque, true, out));
        if self.peer_record.account.is_idle_ping() {
            self.charge(now, Weight::Medium)?;
        }
        Ok(None)
    }

    /// Handles an answer to PING; only an unexpected one is charged.
    fn pong_received<'a>(&mut self, now: u64, opaque: [u8; 8]) -> FrameResult<'a> {
        match self.timers.unanswered_pings.checked_sub(1) {
            Some(left) => self.timers.unanswered_pings = left,
            None => self.charge(now, Weight::Light)?,
        }
        match &opaque {
            GO_AWAY_PING => self.go_away_acknowledged(now),
            LIVENESS_PING => {}
            _ => return Ok(Some(Event::Pong(opaque))),
        }
        Ok(None)
    }

    /// "Endpoints MUST NOT increase the value they send in the last stream identifier" (RFC 9113 §6.8).
    pub(super) fn go_away_received<'a>(&mut self, now: u64, payload: &[u8]) -> FrameResult<'a> {
        self.charge(now, Weight::Light)?;
        let (last, code) = frame::go_away(payload);
        if last > self.peer.last_stream {
            return Err(protocol_error("go_away_rises"));
        }
        self.peer.last_stream = last;
        self.peer_record.events.add(PeerEventKind::GoAwayReceived, code.label());
        Ok(Some(Event::GoAway { last_stream: last, code }))
    }

    /// The priorities of RFC 7540 are ignored, but a stream still cannot depend on itself.
    pub(super) fn priority_received<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
    ) -> FrameResult<'a> {
        self.charge(now, Weight::Light)?;
        match frame::check_priority(header, payload) {
            Ok(()) => Ok(None),
            // RST_STREAM must not be sent for an idle stream.
            Err(fault) if self.is_idle(header.stream) => Err(Fault::connection(fault.code, fault.rule)),
            Err(fault) => self.fail_stream(now, header.stream, fault),
        }
    }

    /// One for a stream that is not open yet is kept: "it SHOULD buffer the most recently received PRIORITY_UPDATE
    /// frame" (RFC 9218 §7.1).
    pub(super) fn priority_update_received<'a>(&mut self, now: u64, payload: &[u8]) -> FrameResult<'a> {
        let (id, text) = frame::priority_update(payload);
        let furthest = self.ids.highest.saturating_add(2 * self.config.max_streams);
        if self.role == Role::Client || id == 0 || id & 1 == 0 || id > furthest {
            return Err(protocol_error("priority_update"));
        }
        self.charge(now, Weight::Light)?;
        let priority = Priority::parse(text);
        if id > self.ids.highest {
            self.ids.keep_priority(id, priority);
            return Ok(None);
        }
        if !self.is_live(id) {
            return Ok(None);
        }
        self.set_priority(id, priority);
        Ok(Some(Event::Priority { stream: id, priority }))
    }
}
