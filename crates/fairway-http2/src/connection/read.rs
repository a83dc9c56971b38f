//! Splits input into frames and checks each header before the payload is read (RFC 9113 §3.4, §4). Buffers no input.

use fairway_http::Head;

use super::{CLIENT_PREFACE, Connection, ReadState, Role};
use crate::abuse::Weight;
use crate::event::{Event, Wait};
use crate::fault::{Code, Fault, Scope};
use crate::frame::{self, FrameKind, HEADER_BYTES, Header, MAX_FRAME_BYTES};
use crate::patience::Due;

/// The result of one step: bytes of the input used, and an event if any.
pub(super) type Step<'a> = (usize, Option<Event<'a>>);

const NEED_MORE: Step<'static> = (0, Some(Event::NeedMore));

const fn protocol_error(rule: &'static str) -> Fault {
    Fault::connection(Code::Protocol, rule)
}

impl Connection {
    /// Processes input up to the next event.
    pub(crate) fn receive<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> (usize, Event<'a>) {
        let mut used = 0;
        self.timers.now = now;
        if !input.is_empty() {
            self.timers.note_received(now);
        }
        loop {
            match self.step(now, &input[used..], head) {
                Ok((taken, Some(event))) => return (used + taken, event),
                Ok((taken, None)) => used += taken,
                Err(fault) => return (input.len(), self.fail(fault)),
            }
        }
    }

    /// Processes one frame, or the available part of it. An error ends the connection.
    fn step<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> Result<Step<'a>, Fault> {
        match self.read_state {
            ReadState::Data { .. } => Ok(self.read_data(input)),
            ReadState::Skip { left } => Ok(self.skip_bytes(left, input)),
            ReadState::Preface => self.read_preface(input),
            ReadState::Failed(fault) => Ok((input.len(), Some(Event::Closed(fault)))),
            ReadState::FirstSettings | ReadState::Frame | ReadState::FieldBlock(_) => {
                self.read_frame(now, input, head)
            }
        }
    }

    /// "Clients and servers MUST treat an invalid connection preface as a connection error of type PROTOCOL_ERROR"
    /// (RFC 9113 §3.4).
    fn read_preface<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, Fault> {
        let length = input.len().min(CLIENT_PREFACE.len());
        if input[..length] != CLIENT_PREFACE[..length] {
            return Err(protocol_error("preface"));
        }
        if length < CLIENT_PREFACE.len() {
            return Ok(NEED_MORE);
        }
        self.read_state = ReadState::FirstSettings;
        Ok((length, None))
    }

    fn skip_bytes<'a>(&mut self, remaining: u32, input: &'a [u8]) -> Step<'a> {
        let skipped = input.len().min(remaining as usize);
        let still_remaining = remaining - skipped as u32;
        self.read_state =
            if still_remaining == 0 { ReadState::Frame } else { ReadState::Skip { left: still_remaining } };
        if still_remaining > 0 { (skipped, Some(Event::NeedMore)) } else { (skipped, None) }
    }

    fn read_frame<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> Result<Step<'a>, Fault> {
        if self.outbox.has_too_many_replies() {
            return Ok((0, Some(Event::Wait(Wait::Flush))));
        }
        let Some(bytes) = input.first_chunk::<HEADER_BYTES>() else { return Ok(NEED_MORE) };
        let header = Header::read(bytes);
        let judged = frame::check_header(&header, MAX_FRAME_BYTES);
        self.check_order(&header)?;
        let kind = match judged {
            Ok(Some(kind)) => kind,
            Ok(None) => {
                self.read_state = ReadState::Skip { left: header.length };
                self.charge(now, Weight::Light)?;
                return Ok((HEADER_BYTES, None));
            }
            Err(fault) if fault.scope == Scope::Stream => return self.wrong_length(now, &header, fault),
            Err(fault) => return Err(fault),
        };
        if kind == FrameKind::Data {
            return self.begin_data(now, &header, input);
        }
        let end = HEADER_BYTES + header.length as usize;
        let Some(payload) = input.get(HEADER_BYTES..end) else {
            if kind == FrameKind::Headers {
                self.start_block_timer(now);
            }
            return Ok(NEED_MORE);
        };
        if kind == FrameKind::Headers
            && let Some(wait) = self.wait_before_opening(header.stream)
        {
            // All of it arrived; further delay is not the client's.
            self.timers.block_due = Due::NEVER;
            return Ok((0, Some(Event::Wait(wait))));
        }
        if !matches!(self.read_state, ReadState::FieldBlock(_)) {
            self.read_state = ReadState::Frame;
        }
        let event = self.dispatch(now, kind, &header, payload, head)?;
        Ok((end, event))
    }

    /// Whether this frame may come now: SETTINGS first, and only CONTINUATION inside a block.
    fn check_order(&self, header: &Header) -> Result<(), Fault> {
        let kind = FrameKind::from_number(header.kind);
        match self.read_state {
            ReadState::FirstSettings
                if kind != Some(FrameKind::Settings) || header.has_flag(frame::FLAG_ACK) =>
            {
                Err(protocol_error("settings_first"))
            }
            ReadState::FieldBlock(open)
                if kind != Some(FrameKind::Continuation) || header.stream != open.stream =>
            {
                Err(protocol_error("continuation_expected"))
            }
            ReadState::Frame if kind == Some(FrameKind::Continuation) => {
                Err(protocol_error("continuation_alone"))
            }
            _ => Ok(()),
        }
    }

    /// A frame whose wrong length is a stream error: its payload is skipped.
    fn wrong_length<'a>(&mut self, now: u64, header: &Header, fault: Fault) -> Result<Step<'a>, Fault> {
        if FrameKind::from_number(header.kind) == Some(FrameKind::Data) {
            self.take_from_connection(header.length)?;
            self.return_to_connection(header.length);
        }
        self.read_state = ReadState::Skip { left: header.length };
        if self.is_idle(header.stream) {
            return Err(Fault { scope: Scope::Connection, ..fault });
        }
        Ok((HEADER_BYTES, self.fail_stream(now, header.stream, fault)?))
    }

    /// Handles a complete frame.
    fn dispatch<'a>(
        &mut self,
        now: u64,
        kind: FrameKind,
        header: &Header,
        payload: &[u8],
        head: &mut Head,
    ) -> Result<Option<Event<'a>>, Fault> {
        match kind {
            FrameKind::Headers => self.headers_received(now, header, payload, head),
            FrameKind::Continuation => self.continuation_received(now, header, payload, head),
            FrameKind::Settings => self.settings_received(now, header, payload),
            FrameKind::WindowUpdate => self.window_update_received(now, header, payload),
            FrameKind::Reset => self.reset_received(now, header, payload),
            FrameKind::Ping => self.ping_received(now, header, payload),
            FrameKind::GoAway => self.go_away_received(now, payload),
            FrameKind::Priority => self.priority_received(now, header, payload),
            FrameKind::PriorityUpdate => self.priority_update_received(now, payload),
            // "A client cannot push", and servers may not push here (RFC 9113 §8.4).
            FrameKind::PushPromise | FrameKind::Data => Err(protocol_error("push_promise")),
        }
    }

    /// The stream of an incomplete head, in received frames or in `rest`.
    pub(crate) fn partial_head_stream(&self, rest: &[u8]) -> Option<u32> {
        if let ReadState::FieldBlock(open) = self.read_state {
            return Some(open.stream);
        }
        let header = Header::read(rest.first_chunk()?);
        (self.read_state == ReadState::Frame
            && FrameKind::from_number(header.kind) == Some(FrameKind::Headers))
        .then_some(header.stream)
    }

    /// Whether nothing was ever sent or received on this stream (RFC 9113 §5.1).
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        // Clients use odd ids, and servers open no streams here.
        stream & 1 == 0 || stream > self.ids.highest
    }

    /// Whether all stream records are in use.
    pub(crate) fn is_at_stream_limit(&self) -> bool {
        self.streams.len() >= self.config.max_streams as usize
    }

    /// What must happen before a new stream is opened: writing pending responses, if further ones would only queue
    /// behind them; or releasing a stream that is over, if all records are in use and the peer cannot know that.
    fn wait_before_opening(&self, stream: u32) -> Option<Wait> {
        if self.role == Role::Client || stream <= self.ids.highest || stream & 1 == 0 {
            return None;
        }
        if self.outbox.is_too_full_for_stream() {
            return Some(Wait::Flush);
        }
        let must = self.is_at_stream_limit() && self.streams.open_count() < self.config.max_streams as usize;
        must.then_some(Wait::Release)
    }

    /// Whether too much output is pending to read more input.
    pub(crate) fn must_flush(&self) -> bool {
        self.outbox.has_too_many_replies() || self.outbox.is_too_full_for_stream()
    }
}
