//! Input to frames, each of which is judged before it is read (RFC 9113 §3.4, §4). Never keeps input.

use fairway_http::Head;

use super::{Connection, PREFACE, Reading, Role};
use crate::abuse::Weight;
use crate::event::{Event, Wait};
use crate::fault::{Code, Fault, Scope};
use crate::frame::{self, FRAME_BYTES, HEADER_BYTES, Header, Kind};
use crate::patience::Due;

/// What came of one step: how much of the input it took, and an event if there is one.
pub(super) type Step<'a> = (usize, Option<Event<'a>>);

const NEED_MORE: Step<'static> = (0, Some(Event::NeedMore));

const fn protocol(rule: &'static str) -> Fault {
    Fault::connection(Code::Protocol, rule)
}

impl Connection {
    /// Takes input up to the next event.
    pub(crate) fn receive<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> (usize, Event<'a>) {
        let mut used = 0;
        self.times.now = now;
        if !input.is_empty() {
            self.times.hear(now);
        }
        loop {
            match self.step(now, &input[used..], head) {
                Ok((taken, Some(event))) => return (used + taken, event),
                Ok((taken, None)) => used += taken,
                Err(fault) => return (input.len(), self.fail(fault)),
            }
        }
    }

    /// One frame, or the part of one that is there. What it fails with ends the connection.
    fn step<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> Result<Step<'a>, Fault> {
        match self.reading {
            Reading::Data { .. } => Ok(self.read_data(input)),
            Reading::Skip { left } => Ok(self.skip(left, input)),
            Reading::Preface => self.preface(input),
            Reading::Nothing(fault) => Ok((input.len(), Some(Event::Closed(fault)))),
            Reading::First | Reading::Frame | Reading::Block(_) => self.frame(now, input, head),
        }
    }

    /// "Clients and servers MUST treat an invalid connection preface as a connection error of type PROTOCOL_ERROR"
    /// (RFC 9113 §3.4).
    fn preface<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, Fault> {
        let length = input.len().min(PREFACE.len());
        if input[..length] != PREFACE[..length] {
            return Err(protocol("preface"));
        }
        if length < PREFACE.len() {
            return Ok(NEED_MORE);
        }
        self.reading = Reading::First;
        Ok((length, None))
    }

    fn skip<'a>(&mut self, left: u32, input: &'a [u8]) -> Step<'a> {
        let taken = input.len().min(left as usize);
        let left = left - taken as u32;
        self.reading = if left == 0 { Reading::Frame } else { Reading::Skip { left } };
        if left > 0 { (taken, Some(Event::NeedMore)) } else { (taken, None) }
    }

    fn frame<'a>(&mut self, now: u64, input: &'a [u8], head: &mut Head) -> Result<Step<'a>, Fault> {
        if self.outbox.is_clogged() {
            return Ok((0, Some(Event::Wait(Wait::Flush))));
        }
        let Some(bytes) = input.first_chunk::<HEADER_BYTES>() else { return Ok(NEED_MORE) };
        let header = Header::read(bytes);
        let judged = frame::judge(&header, FRAME_BYTES);
        self.in_order(&header)?;
        let kind = match judged {
            Ok(Some(kind)) => kind,
            Ok(None) => {
                self.reading = Reading::Skip { left: header.length };
                self.charge(now, Weight::Light)?;
                return Ok((HEADER_BYTES, None));
            }
            Err(fault) if fault.scope == Scope::Stream => return self.misshapen(now, &header, fault),
            Err(fault) => return Err(fault),
        };
        if kind == Kind::Data {
            return self.begin_data(now, &header, input);
        }
        let end = HEADER_BYTES + header.length as usize;
        let Some(payload) = input.get(HEADER_BYTES..end) else {
            if kind == Kind::Headers {
                self.await_block(now);
            }
            return Ok(NEED_MORE);
        };
        if kind == Kind::Headers
            && let Some(wait) = self.must_wait(header.stream)
        {
            // All of it came; the rest of the wait is not the client's.
            self.times.head = Due::NEVER;
            return Ok((0, Some(Event::Wait(wait))));
        }
        if !matches!(self.reading, Reading::Block(_)) {
            self.reading = Reading::Frame;
        }
        let event = self.whole(now, kind, &header, payload, head)?;
        Ok((end, event))
    }

    /// Whether this frame may come now: SETTINGS first, and nothing but its continuation inside a block.
    fn in_order(&self, header: &Header) -> Result<(), Fault> {
        let kind = Kind::of(header.kind);
        match self.reading {
            Reading::First if kind != Some(Kind::Settings) || header.has(frame::ACK) => {
                Err(protocol("settings_first"))
            }
            Reading::Block(open) if kind != Some(Kind::Continuation) || header.stream != open.stream => {
                Err(protocol("continuation_expected"))
            }
            Reading::Frame if kind == Some(Kind::Continuation) => Err(protocol("continuation_alone")),
            _ => Ok(()),
        }
    }

    /// A frame whose length is an error of its stream: nothing of it is read.
    fn misshapen<'a>(&mut self, now: u64, header: &Header, fault: Fault) -> Result<Step<'a>, Fault> {
        if Kind::of(header.kind) == Some(Kind::Data) {
            self.take_from_connection(header.length)?;
            self.give_to_connection(header.length);
        }
        self.reading = Reading::Skip { left: header.length };
        if self.is_idle(header.stream) {
            return Err(Fault { scope: Scope::Connection, ..fault });
        }
        Ok((HEADER_BYTES, self.fail_stream(now, header.stream, fault)?))
    }

    /// A frame that is there as a whole.
    fn whole<'a>(
        &mut self,
        now: u64,
        kind: Kind,
        header: &Header,
        payload: &[u8],
        head: &mut Head,
    ) -> Result<Option<Event<'a>>, Fault> {
        match kind {
            Kind::Headers => self.headers(now, header, payload, head),
            Kind::Continuation => self.continuation(now, header, payload, head),
            Kind::Settings => self.settings(now, header, payload),
            Kind::WindowUpdate => self.window_update(now, header, payload),
            Kind::Reset => self.reset_received(now, header, payload),
            Kind::Ping => self.ping_received(now, header, payload),
            Kind::GoAway => self.go_away_received(now, payload),
            Kind::Priority => self.priority_received(now, header, payload),
            Kind::PriorityUpdate => self.priority_update(now, payload),
            // "A client cannot push" and we do not let servers (RFC 9113 §8.4).
            Kind::PushPromise | Kind::Data => Err(protocol("push_promise")),
        }
    }

    /// The stream of a head that is not whole, in frames that came or in `rest`.
    pub(crate) fn begun(&self, rest: &[u8]) -> Option<u32> {
        if let Reading::Block(open) = self.reading {
            return Some(open.stream);
        }
        let header = Header::read(rest.first_chunk()?);
        (self.reading == Reading::Frame && Kind::of(header.kind) == Some(Kind::Headers))
            .then_some(header.stream)
    }

    /// Whether nothing ever came or went on this stream (RFC 9113 §5.1).
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        // Clients have odd ids, and servers open nothing here.
        stream & 1 == 0 || stream > self.ids.highest
    }

    /// Whether all records of streams are in use.
    pub(crate) fn is_full(&self) -> bool {
        self.streams.len() >= self.config.streams as usize
    }

    /// What a new stream must wait for: that answers are written, where those of more streams would only wait behind them;
    /// or that a stream which is over is released, where all records are in use and the peer cannot know that some still are.
    fn must_wait(&self, stream: u32) -> Option<Wait> {
        if self.role == Role::Client || stream <= self.ids.highest || stream & 1 == 0 {
            return None;
        }
        if self.outbox.is_crowded() {
            return Some(Wait::Flush);
        }
        let must = self.is_full() && self.streams.counted() < self.config.streams as usize;
        must.then_some(Wait::Release)
    }

    /// Whether too much waits to be written for anything to be read.
    pub(crate) fn must_flush(&self) -> bool {
        self.outbox.is_clogged() || self.outbox.is_crowded()
    }
}
