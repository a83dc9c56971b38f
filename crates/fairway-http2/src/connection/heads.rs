//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10, §8.1): which stream a field block opens or ends, and what it may
//! contain. Every block is decoded, even an unwanted one.

use fairway_http::Head;

use super::{Connection, OpenBlock, ReadState, Role, Shutdown};
use crate::abuse::Weight;
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::fields::{BlockOutcome, HeadBuilder, Message};
use crate::frame::{self, FLAG_END_HEADERS, FLAG_END_STREAM, Header};
use crate::patience::Due;
use crate::priority::Priority;
use crate::stream::{HalfState, PastStream, Stream, StreamLife};
use crate::verdict::Defect;

/// Maximum bytes of a block in several frames.
const MAX_BLOCK_BYTES: usize = 32 * 1024;

/// Small CONTINUATION frames that are allowed.
const MAX_SMALL_CONTINUATIONS: u32 = 4;

/// CONTINUATION frames below this many bytes are small.
const MIN_FULL_CONTINUATION_BYTES: usize = 1024;

/// Interim responses allowed before the final one.
const MAX_INTERIM_RESPONSES: u8 = 8;

type FrameResult<'a> = Result<Option<Event<'a>>, Fault>;

const fn malformed(defect: Defect) -> Fault {
    Fault::stream(Code::Protocol, defect.label())
}

const STREAM_CLOSED: Fault = Fault::stream(Code::StreamClosed, "stream_closed");

impl Connection {
    pub(super) fn headers_received<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        let block = frame::headers_payload(header, payload)?;
        let open = OpenBlock {
            stream: header.stream,
            end: header.has_flag(FLAG_END_STREAM),
            depends_on_itself: block.depends_on_itself,
            frames: 0,
        };
        if header.has_flag(FLAG_END_HEADERS) {
            return self.block_complete(now, open, block.fragment, head);
        }
        self.partial_block.clear();
        self.partial_block.extend_from_slice(block.fragment);
        self.read_state = ReadState::FieldBlock(open);
        self.start_block_timer(now);
        // An empty HEADERS frame without END_HEADERS serves no purpose.
        if block.fragment.is_empty() { self.charge(now, Weight::Heavy).map(|()| None) } else { Ok(None) }
    }

    pub(super) fn continuation_received<'a>(
        &mut self,
        now: u64,
        header: &Header,
        payload: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        let ReadState::FieldBlock(mut open) = std::mem::replace(&mut self.read_state, ReadState::Frame)
        else {
            return Err(Fault::connection(Code::Protocol, "continuation_alone"));
        };
        open.frames += 1;
        if self.partial_block.len() + payload.len() > MAX_BLOCK_BYTES {
            return Err(Fault::connection(Code::EnhanceYourCalm, "block_too_large"));
        }
        self.partial_block.extend_from_slice(payload);
        if payload.is_empty()
            || (open.frames > MAX_SMALL_CONTINUATIONS && payload.len() < MIN_FULL_CONTINUATION_BYTES)
        {
            self.charge(now, Weight::Heavy)?;
        }
        if !header.has_flag(FLAG_END_HEADERS) {
            self.read_state = ReadState::FieldBlock(open);
            return Ok(None);
        }
        let block = std::mem::take(&mut self.partial_block);
        let outcome = self.block_complete(now, open, &block, head);
        self.partial_block = block;
        self.partial_block.clear();
        self.partial_block.shrink_to(MIN_FULL_CONTINUATION_BYTES * 4);
        outcome
    }

    /// Handles a complete block of any stream.
    fn block_complete<'a>(
        &mut self,
        now: u64,
        open: OpenBlock,
        block: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        self.timers.block_due = Due::NEVER;
        if let Some(stream) = self.streams.get(open.stream) {
            let (life, received) = (stream.life, stream.received);
            return match (life, received) {
                (StreamLife::Live, HalfState::Waiting) => self.receive_response(now, open, block, head),
                (StreamLife::Live, HalfState::Open) => self.receive_trailers(now, open, block, head),
                (StreamLife::Lingering, _) => self.discard_trailers(now, open, block, head),
                (StreamLife::Live, HalfState::Ended) | (StreamLife::ResetByPeer, _) => {
                    self.decode(Message::Trailers, block, head)?;
                    self.fail_stream(now, open.stream, STREAM_CLOSED)
                }
                (StreamLife::ResetByUs, _) => self.discard_block(now, block, head),
            };
        }
        if open.stream & 1 == 0 {
            return Err(Fault::connection(Code::Protocol, "stream_id_even"));
        }
        if open.stream <= self.ids.highest {
            return self.block_on_closed(now, open.stream, block, head);
        }
        match self.role {
            Role::Server => self.open_request(now, open, block, head),
            Role::Client => Err(Fault::connection(Code::Protocol, "stream_idle")),
        }
    }

    /// A block on a stream without a record.
    fn block_on_closed<'a>(
        &mut self,
        now: u64,
        stream: u32,
        block: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        match self.ids.closed.past(stream) {
            PastStream::Skipped => Err(Fault::connection(Code::Protocol, "stream_id_not_rising")),
            PastStream::Ended => Err(Fault::connection(Code::StreamClosed, "stream_ended")),
            PastStream::ResetByPeer => {
                self.decode(Message::Trailers, block, head)?;
                self.fail_stream(now, stream, STREAM_CLOSED)
            }
            PastStream::Unknown => self.discard_block(now, block, head),
        }
    }

    /// A block that may have been in flight when we reset its stream.
    fn discard_block<'a>(&mut self, now: u64, block: &[u8], head: &mut Head) -> FrameResult<'a> {
        self.decode(Message::Trailers, block, head)?;
        self.charge(now, Weight::Light)?;
        Ok(None)
    }

    /// A block that opens a stream.
    fn open_request<'a>(
        &mut self,
        now: u64,
        open: OpenBlock,
        block: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        let id = open.stream;
        if id > self.ids.highest + 2 {
            self.ids.closed.record_skipped(self.ids.highest + 1, id);
        }
        self.ids.highest = id;
        let message = Message::Request { extended: self.config.extended_connect };
        let outcome = self.decode(message, block, head)?;
        if let Shutdown::After { last } = self.timers.shutdown
            && id > last
        {
            self.ids.closed.record(id, PastStream::Unknown);
            return Ok(None);
        }
        if self.streams.len() >= self.config.max_streams as usize {
            return self.refuse(now, id, Fault::stream(Code::Refused, "too_many_streams"));
        }
        let (length, protocol) = match outcome {
            _ if open.depends_on_itself => {
                return self.refuse(now, id, Fault::stream(Code::Protocol, "depends_on_itself"));
            }
            BlockOutcome::Malformed(defect) => return self.refuse(now, id, malformed(defect)),
            BlockOutcome::Complete { length: Some(1..), .. } if open.end => {
                return self.refuse(now, id, malformed(Defect::LengthDisagrees));
            }
            BlockOutcome::Complete { length, protocol } => (length, protocol),
            BlockOutcome::TooLarge => (None, None),
        };
        self.peer_record.account.opened();
        let mut stream = Stream::new(id, self.stream_window(), self.peer.stream_window);
        stream.received = if open.end { HalfState::Ended } else { HalfState::Open };
        // What follows CONNECT is not content, whatever its declared length (RFC 9110 §9.3.6).
        stream.request.is_tunnel = protocol.is_some();
        stream.body_left = if protocol.is_some() { None } else { length };
        stream.incoming.window_announced_at = now;
        stream.priority = self.ids.early_priority(id).unwrap_or_else(|| match head.named(b"priority") {
            Some(text) => Priority::parse(text),
            None => Priority::UNSPECIFIED,
        });
        self.streams.insert(stream);
        if outcome == BlockOutcome::TooLarge {
            self.charge(now, Weight::Heavy)?;
            return Ok(Some(Event::HeadTooLarge { stream: id, end: open.end }));
        }
        Ok(Some(Event::Head { stream: id, end: open.end, length, protocol }))
    }

    /// An interim or final response.
    fn receive_response<'a>(
        &mut self,
        now: u64,
        open: OpenBlock,
        block: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        let outcome = self.decode(Message::Response, block, head)?;
        let end = open.end;
        let length = match outcome {
            BlockOutcome::Malformed(defect) => return self.fail_stream(now, open.stream, malformed(defect)),
            BlockOutcome::TooLarge => {
                let fault = Fault::stream(Code::Cancel, "head_too_large");
                return self.fail_stream(now, open.stream, fault);
            }
            BlockOutcome::Complete { length, .. } => length,
        };
        let interim = (100..200).contains(&head.status());
        if interim && end {
            return self.fail_stream(now, open.stream, malformed(Defect::InterimEnds));
        }
        let Some(stream) = self.streams.get_mut(open.stream) else { return Ok(None) };
        // A response without a body may declare the length it would have had (RFC 9110 §8.6): to HEAD, and with 304.
        let bodiless = stream.has_no_body(head.status());
        if interim {
            stream.request.interim_responses += 1;
            if stream.request.interim_responses > MAX_INTERIM_RESPONSES {
                let fault = Fault::stream(Code::Cancel, "too_many_interim_answers");
                return self.fail_stream(now, open.stream, fault);
            }
        } else {
            // "A client MUST ignore any Content-Length or Transfer-Encoding header fields received in a successful response to
            // CONNECT" (RFC 9110 §9.3.6).
            let opens_tunnel = stream.request.is_tunnel && (200..300).contains(&head.status());
            if end && !bodiless && !opens_tunnel && length.is_some_and(|length| length > 0) {
                return self.fail_stream(now, open.stream, malformed(Defect::LengthDisagrees));
            }
            stream.received = if end { HalfState::Ended } else { HalfState::Open };
            if opens_tunnel {
                return Ok(Some(Event::Head { stream: open.stream, end, length: None, protocol: None }));
            }
            stream.request.is_tunnel = false;
            stream.body_left = if bodiless { Some(0) } else { length };
        }
        Ok(Some(Event::Head { stream: open.stream, end, length, protocol: None }))
    }

    /// A block after a body: "Trailers ... MUST ... END_STREAM" (RFC 9113 §8.1).
    fn receive_trailers<'a>(
        &mut self,
        now: u64,
        open: OpenBlock,
        block: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        let outcome = self.decode(Message::Trailers, block, head)?;
        let stream = self.streams.get(open.stream);
        let announced = stream.and_then(|stream| stream.body_left);
        let fault = match outcome {
            // "Frame types other than DATA or stream management frames ... MUST NOT be sent on a connected stream and MUST be
            // treated as a stream error" (RFC 9113 §8.5).
            _ if stream.is_some_and(|stream| stream.request.is_tunnel) => {
                Fault::stream(Code::Protocol, "head_in_tunnel")
            }
            _ if open.depends_on_itself => Fault::stream(Code::Protocol, "depends_on_itself"),
            _ if !open.end => malformed(Defect::TrailersWithoutEnd),
            BlockOutcome::Malformed(defect) => malformed(defect),
            BlockOutcome::TooLarge => Fault::stream(Code::Cancel, "trailers_too_large"),
            BlockOutcome::Complete { .. } if announced.is_some_and(|left| left > 0) => {
                malformed(Defect::LengthDisagrees)
            }
            BlockOutcome::Complete { .. } => {
                if let Some(stream) = self.streams.get_mut(open.stream) {
                    stream.received = HalfState::Ended;
                }
                return Ok(Some(Event::Trailers { stream: open.stream }));
            }
        };
        self.fail_stream(now, open.stream, fault)
    }

    /// Trailers of a body that is dropped.
    fn discard_trailers<'a>(
        &mut self,
        now: u64,
        open: OpenBlock,
        block: &[u8],
        head: &mut Head,
    ) -> FrameResult<'a> {
        if self.receive_trailers(now, open, block, head)?.is_some() {
            self.stop_lingering(open.stream, StreamLife::Lingering);
        }
        Ok(None)
    }

    /// "A decoding error in a field block MUST be treated as a connection error of type COMPRESSION_ERROR" (RFC 9113 §4.3).
    fn decode(&mut self, message: Message, block: &[u8], head: &mut Head) -> Result<BlockOutcome, Fault> {
        let mut intake = HeadBuilder::new(head, message, self.config.head_limits);
        match self.decoder.decode(block, |line| intake.add(line)) {
            Ok(()) => Ok(intake.finish()),
            Err(_) => Err(Fault::connection(Code::Compression, "field_block")),
        }
    }
}
