//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10, §8.1): which stream a block opens or ends, and what it may hold. Every
//! block is decoded, wanted or not.

use fairway_http::Head;

use super::{Connection, Ending, OpenBlock, Reading, Role};
use crate::abuse::Weight;
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::fields::{Intake, Message, Outcome};
use crate::frame::{self, END_HEADERS, END_STREAM, Header};
use crate::patience::Due;
use crate::priority::Priority;
use crate::stream::{Half, Life, Past, Stream};
use crate::verdict::Defect;

/// Bytes of a block that comes in several frames.
const BLOCK_BYTES: usize = 32 * 1024;

/// CONTINUATION frames that may be small.
const SMALL_FRAMES: u32 = 4;

/// Bytes below which a CONTINUATION frame is small.
const SMALL: usize = 1024;

/// Interim answers that may come before the final one.
const INTERIM: u8 = 8;

type Came<'a> = Result<Option<Event<'a>>, Fault>;

const fn malformed(defect: Defect) -> Fault {
    Fault::stream(Code::Protocol, defect.label())
}

const STREAM_CLOSED: Fault = Fault::stream(Code::StreamClosed, "stream_closed");

impl Connection {
    pub(super) fn headers<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
        head: &mut Head,
    ) -> Came<'a> {
        let block = frame::block(header, payload)?;
        let open = OpenBlock {
            stream: header.stream,
            end: header.has(END_STREAM),
            depends_on_itself: block.depends_on_itself,
            frames: 0,
        };
        if header.has(END_HEADERS) {
            return self.block(now, open, block.fragment, head);
        }
        self.block.clear();
        self.block.extend_from_slice(block.fragment);
        self.reading = Reading::Block(open);
        self.await_block(now);
        // Whoever opens a block must say something in it.
        if block.fragment.is_empty() { self.charge(now, Weight::Heavy).map(|()| None) } else { Ok(None) }
    }

    pub(super) fn continuation<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
        head: &mut Head,
    ) -> Came<'a> {
        let Reading::Block(mut open) = std::mem::replace(&mut self.reading, Reading::Frame) else {
            return Err(Fault::connection(Code::Protocol, "continuation_alone"));
        };
        open.frames += 1;
        if self.block.len() + payload.len() > BLOCK_BYTES {
            return Err(Fault::connection(Code::EnhanceYourCalm, "block_too_large"));
        }
        self.block.extend_from_slice(payload);
        if payload.is_empty() || (open.frames > SMALL_FRAMES && payload.len() < SMALL) {
            self.charge(now, Weight::Heavy)?;
        }
        if !header.has(END_HEADERS) {
            self.reading = Reading::Block(open);
            return Ok(None);
        }
        let block = std::mem::take(&mut self.block);
        let came = self.block(now, open, &block, head);
        self.block = block;
        self.block.clear();
        self.block.shrink_to(SMALL * 4);
        came
    }

    /// A whole block of whatever stream.
    fn block<'a>(&mut self, now: u64, open: OpenBlock, block: &[u8], head: &mut Head) -> Came<'a> {
        self.times.head = Due::NEVER;
        if let Some(stream) = self.streams.get(open.stream) {
            let (life, received) = (stream.life, stream.received);
            return match (life, received) {
                (Life::Live, Half::Waiting) => self.answer(now, open, block, head),
                (Life::Live, Half::Open) => self.trailers(now, open, block, head),
                (Life::Lingering, _) => self.dropped_trailers(now, open, block, head),
                (Life::Live, Half::Ended) | (Life::ResetByPeer, _) => {
                    self.decode(Message::Trailers, block, head)?;
                    self.fail_stream(now, open.stream, STREAM_CLOSED)
                }
                (Life::ResetByUs, _) => self.unwanted(now, block, head),
            };
        }
        if open.stream & 1 == 0 {
            return Err(Fault::connection(Code::Protocol, "stream_id_even"));
        }
        if open.stream <= self.ids.highest {
            return self.late(now, open.stream, block, head);
        }
        match self.role {
            Role::Server => self.request(now, open, block, head),
            Role::Client => Err(Fault::connection(Code::Protocol, "stream_idle")),
        }
    }

    /// A block of a stream that has no record any more.
    fn late<'a>(&mut self, now: u64, stream: u32, block: &[u8], head: &mut Head) -> Came<'a> {
        match self.ids.memory.of(stream) {
            Past::Skipped => Err(Fault::connection(Code::Protocol, "stream_id_not_rising")),
            Past::Ended => Err(Fault::connection(Code::StreamClosed, "stream_ended")),
            Past::ResetByPeer => {
                self.decode(Message::Trailers, block, head)?;
                self.fail_stream(now, stream, STREAM_CLOSED)
            }
            Past::Unknown => self.unwanted(now, block, head),
        }
    }

    /// A block that may have been under way when we reset its stream.
    fn unwanted<'a>(&mut self, now: u64, block: &[u8], head: &mut Head) -> Came<'a> {
        self.decode(Message::Trailers, block, head)?;
        self.charge(now, Weight::Light)?;
        Ok(None)
    }

    /// A block that opens a stream.
    fn request<'a>(&mut self, now: u64, open: OpenBlock, block: &[u8], head: &mut Head) -> Came<'a> {
        let id = open.stream;
        if id > self.ids.highest + 2 {
            self.ids.memory.skip(self.ids.highest + 1, id);
        }
        self.ids.highest = id;
        let message = Message::Request { extended: self.config.extended_connect };
        let outcome = self.decode(message, block, head)?;
        if let Ending::After { last } = self.times.ending
            && id > last
        {
            self.ids.memory.note(id, Past::Unknown);
            return Ok(None);
        }
        if self.streams.len() >= self.config.streams as usize {
            return self.refuse(now, id, Fault::stream(Code::Refused, "too_many_streams"));
        }
        let (length, protocol) = match outcome {
            _ if open.depends_on_itself => {
                return self.refuse(now, id, Fault::stream(Code::Protocol, "depends_on_itself"));
            }
            Outcome::Malformed(defect) => return self.refuse(now, id, malformed(defect)),
            Outcome::Complete { length: Some(1..), .. } if open.end => {
                return self.refuse(now, id, malformed(Defect::LengthDisagrees));
            }
            Outcome::Complete { length, protocol } => (length, protocol),
            Outcome::TooLarge => (None, None),
        };
        self.conduct.account.opened();
        let mut stream = Stream::new(id, self.stream_window(), self.peer.window);
        stream.received = if open.end { Half::Ended } else { Half::Open };
        // What follows CONNECT is no content, whatever its length is said to be (RFC 9110 §9.3.6).
        stream.asked.for_tunnel = protocol.is_some();
        stream.announced = if protocol.is_some() { None } else { length };
        stream.incoming.since = now;
        stream.priority = self.ids.hinted(id).unwrap_or_else(|| match head.named(b"priority") {
            Some(text) => Priority::read(text),
            None => Priority::UNSAID,
        });
        self.streams.insert(stream);
        if outcome == Outcome::TooLarge {
            self.charge(now, Weight::Heavy)?;
            return Ok(Some(Event::HeadTooLarge { stream: id, end: open.end }));
        }
        Ok(Some(Event::Head { stream: id, end: open.end, length, protocol }))
    }

    /// A block that answers a request of ours, or announces that there will be an answer.
    fn answer<'a>(&mut self, now: u64, open: OpenBlock, block: &[u8], head: &mut Head) -> Came<'a> {
        let outcome = self.decode(Message::Response, block, head)?;
        let end = open.end;
        let length = match outcome {
            Outcome::Malformed(defect) => return self.fail_stream(now, open.stream, malformed(defect)),
            Outcome::TooLarge => {
                let fault = Fault::stream(Code::Cancel, "head_too_large");
                return self.fail_stream(now, open.stream, fault);
            }
            Outcome::Complete { length, .. } => length,
        };
        let interim = (100..200).contains(&head.status());
        if interim && end {
            return self.fail_stream(now, open.stream, malformed(Defect::InterimEnds));
        }
        let Some(stream) = self.streams.get_mut(open.stream) else { return Ok(None) };
        // A response without a body may say how long one would be (RFC 9110 §8.6): to HEAD, and with 304.
        let bodiless = stream.is_bodiless(head.status());
        if interim {
            stream.asked.interim += 1;
            if stream.asked.interim > INTERIM {
                let fault = Fault::stream(Code::Cancel, "too_many_interim_answers");
                return self.fail_stream(now, open.stream, fault);
            }
        } else {
            // "A client MUST ignore any Content-Length or Transfer-Encoding header fields received in a successful response to
            // CONNECT" (RFC 9110 §9.3.6).
            let opens_tunnel = stream.asked.for_tunnel && (200..300).contains(&head.status());
            if end && !bodiless && !opens_tunnel && length.is_some_and(|length| length > 0) {
                return self.fail_stream(now, open.stream, malformed(Defect::LengthDisagrees));
            }
            stream.received = if end { Half::Ended } else { Half::Open };
            if opens_tunnel {
                return Ok(Some(Event::Head { stream: open.stream, end, length: None, protocol: None }));
            }
            stream.asked.for_tunnel = false;
            stream.announced = if bodiless { Some(0) } else { length };
        }
        Ok(Some(Event::Head { stream: open.stream, end, length, protocol: None }))
    }

    /// A block behind a body: "Trailers ... MUST ... END_STREAM" (RFC 9113 §8.1).
    fn trailers<'a>(&mut self, now: u64, open: OpenBlock, block: &[u8], head: &mut Head) -> Came<'a> {
        let outcome = self.decode(Message::Trailers, block, head)?;
        let stream = self.streams.get(open.stream);
        let announced = stream.and_then(|stream| stream.announced);
        let fault = match outcome {
            // "Frame types other than DATA or stream management frames ... MUST NOT be sent on a connected stream and MUST be
            // treated as a stream error" (RFC 9113 §8.5).
            _ if stream.is_some_and(|stream| stream.asked.for_tunnel) => {
                Fault::stream(Code::Protocol, "head_in_tunnel")
            }
            _ if open.depends_on_itself => Fault::stream(Code::Protocol, "depends_on_itself"),
            _ if !open.end => malformed(Defect::TrailersWithoutEnd),
            Outcome::Malformed(defect) => malformed(defect),
            Outcome::TooLarge => Fault::stream(Code::Cancel, "trailers_too_large"),
            Outcome::Complete { .. } if announced.is_some_and(|left| left > 0) => {
                malformed(Defect::LengthDisagrees)
            }
            Outcome::Complete { .. } => {
                if let Some(stream) = self.streams.get_mut(open.stream) {
                    stream.received = Half::Ended;
                }
                return Ok(Some(Event::Trailers { stream: open.stream }));
            }
        };
        self.fail_stream(now, open.stream, fault)
    }

    /// The same behind a body that is dropped.
    fn dropped_trailers<'a>(&mut self, now: u64, open: OpenBlock, block: &[u8], head: &mut Head) -> Came<'a> {
        if self.trailers(now, open, block, head)?.is_some() {
            self.linger_no_more(open.stream, Life::Lingering);
        }
        Ok(None)
    }

    /// "A decoding error in a field block MUST be treated as a connection error of type COMPRESSION_ERROR" (RFC 9113 §4.3).
    fn decode(&mut self, message: Message, block: &[u8], head: &mut Head) -> Result<Outcome, Fault> {
        let mut intake = Intake::new(head, message, self.config.limits);
        match self.decoder.decode(block, |line| intake.take(line)) {
            Ok(()) => Ok(intake.finish()),
            Err(_) => Err(Fault::connection(Code::Compression, "field_block")),
        }
    }
}
