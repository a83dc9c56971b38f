//! The client's half of a request stream (RFC 9114 §4.1): frames in order, and complete field sections. Bodies are not
//! buffered.

use bytes::{Buf, Bytes};
use fairway_http2::abuse::Weight;
use quinn_proto::{Connection, StreamId};

use crate::code::{Code, Fault};
use crate::frame::{FrameHeader, FrameKind};
use crate::shared::ConnectionShared;
use crate::transport::{self, StreamInput};

/// Maximum bytes per read while waiting for a frame header. Small, because what follows the header is buffered.
const HEADER_READ_BYTES: usize = 2 * 1024;

/// The phase of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessagePhase {
    /// Its head has not been received yet.
    Head,
    /// Its body or trailers can follow.
    Body,
    /// Its trailers were received.
    Trailers,
}

/// The position in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadState {
    /// At a frame header.
    Header,
    /// In a frame that is ignored.
    Ignored,
    /// In a DATA frame.
    Data,
    /// In a HEADERS frame.
    Section,
    /// After a HEADERS frame that needs this many insertions into the dynamic table.
    AwaitsQpack(u64),
    /// After a HEADERS frame that was blocked and no longer is.
    QpackReady,
    /// After the end of the stream.
    Ended,
    /// Nothing more is read.
    Stopped,
}

/// What [`Incoming::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextInput {
    /// Bytes of the body.
    Data,
    /// A field section.
    Section,
    /// Nothing until more arrives.
    Blocked,
    /// The end of the stream.
    End,
    /// The client reset the stream.
    Reset(Code),
}

/// A field section.
#[derive(Debug)]
pub(crate) enum CollectedSection {
    /// The complete section.
    Whole(Bytes),
    /// It is incomplete.
    Blocked,
    /// It exceeds the limit of a field list.
    TooLarge,
    /// The client reset the stream.
    Reset(Code),
}

/// The input of one stream.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) phase: MessagePhase,
    pub(crate) reading: ReadState,
    /// Whether only DATA may follow, because the request is CONNECT.
    pub(crate) tunnel: bool,
    /// Body bytes still expected by `content-length`.
    pub(crate) remaining_content_length: Option<u64>,
    /// Size of the frames received up to and including the head, in bytes.
    pub(crate) head_bytes: usize,
    header: FrameHeader,
    /// Unread bytes of the current frame's payload.
    frame_left: u64,
    /// Bytes read from QUIC and not used.
    pending: Bytes,
    /// A field section that is incomplete or blocked.
    section: Vec<u8>,
    /// Bytes reserved for `section` in [`ConnectionShared::head_memory`].
    reserved: usize,
}

impl Incoming {
    pub(crate) fn new() -> Self {
        Incoming {
            phase: MessagePhase::Head,
            reading: ReadState::Header,
            tunnel: false,
            remaining_content_length: None,
            head_bytes: 0,
            header: FrameHeader::default(),
            frame_left: 0,
            pending: Bytes::new(),
            section: Vec::new(),
            reserved: 0,
        }
    }

    /// Whether nothing more is read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.reading, ReadState::Ended | ReadState::Stopped)
    }

    /// Advances to what must be handled next; skips ignored frames.
    pub(crate) fn next(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        shared: &mut ConnectionShared,
    ) -> Result<NextInput, Fault> {
        loop {
            match self.reading {
                ReadState::Section | ReadState::QpackReady => return Ok(NextInput::Section),
                ReadState::AwaitsQpack(_) => return Ok(NextInput::Blocked),
                ReadState::Ended | ReadState::Stopped => return Ok(NextInput::End),
                ReadState::Data if self.frame_left > 0 => return Ok(NextInput::Data),
                ReadState::Data => self.reading = ReadState::Header,
                ReadState::Ignored if self.frame_left == 0 => self.reading = ReadState::Header,
                ReadState::Ignored | ReadState::Header => {
                    if let Some(next) = self.fill(quic, id, HEADER_READ_BYTES)? {
                        return Ok(next);
                    }
                    if self.reading == ReadState::Ignored {
                        let skipped = self.buffered_frame_bytes();
                        self.pending.advance(skipped);
                        self.frame_left -= skipped as u64;
                    } else if let Some((kind, length, bytes)) = self.header.take(&mut self.pending) {
                        self.begin_frame(kind, length, bytes, shared)?;
                    }
                }
            }
        }
    }

    /// How many of the buffered bytes belong to the current frame.
    fn buffered_frame_bytes(&self) -> usize {
        usize::try_from(self.frame_left).map_or(self.pending.len(), |left| left.min(self.pending.len()))
    }

    /// Ensures that there are bytes, or returns why there are none.
    fn fill(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        max_bytes: usize,
    ) -> Result<Option<NextInput>, Fault> {
        if !self.pending.is_empty() {
            return Ok(None);
        }
        match transport::read(quic, id, max_bytes) {
            StreamInput::Bytes(bytes) => {
                self.pending = bytes;
                Ok(None)
            }
            StreamInput::Blocked => Ok(Some(NextInput::Blocked)),
            StreamInput::Reset(code) => Ok(Some(NextInput::Reset(code))),
            // "When a stream terminates cleanly, if the last frame on the stream was truncated, this MUST be treated as a
            // connection error of type H3_FRAME_ERROR" (RFC 9114 §7.1).
            StreamInput::End if self.header.is_partial() || self.reading != ReadState::Header => {
                Err(Fault::connection(Code::Frame, "frame_truncated"))
            }
            StreamInput::End => {
                self.reading = ReadState::Ended;
                Ok(Some(NextInput::End))
            }
        }
    }

    /// "Receipt of an invalid sequence of frames MUST be treated as a connection error of type H3_FRAME_UNEXPECTED" (RFC 9114
    /// §4.1).
    fn begin_frame(
        &mut self,
        kind: FrameKind,
        length: u64,
        header_bytes: usize,
        shared: &mut ConnectionShared,
    ) -> Result<(), Fault> {
        self.frame_left = length;
        self.reading = match (kind, self.phase) {
            (FrameKind::Data, MessagePhase::Body) => {
                self.count_body_bytes(length)?;
                if length == 0 {
                    shared.charge(Weight::Medium, "empty_data_frames")?;
                }
                ReadState::Data
            }
            // "only DATA frames are permitted to be sent on that stream" (§4.4).
            (FrameKind::Headers, MessagePhase::Body) if self.tunnel => return Err(kind.unexpected()),
            (FrameKind::Headers, MessagePhase::Head | MessagePhase::Body) => ReadState::Section,
            (FrameKind::Unknown, _) => {
                shared.charge(Weight::Light, "unknown_frames")?;
                ReadState::Ignored
            }
            _ => return Err(kind.unexpected()),
        };
        if self.phase == MessagePhase::Head {
            let payload = usize::try_from(length).unwrap_or(usize::MAX);
            self.head_bytes = self.head_bytes.saturating_add(header_bytes).saturating_add(payload);
        }
        Ok(())
    }

    /// Counts announced data: if "the value of a Content-Length header field does not equal the sum of the DATA frame
    /// lengths received", the request is malformed (RFC 9114 §4.1.2). Checked before the bytes are passed on.
    fn count_body_bytes(&mut self, length: u64) -> Result<(), Fault> {
        if let Some(left) = self.remaining_content_length {
            self.remaining_content_length = Some(left.checked_sub(length).ok_or_else(length_disagrees)?);
        }
        Ok(())
    }

    /// Checks at the end of the stream that `content-length` was correct.
    pub(crate) fn check_end(&self) -> Result<(), Fault> {
        match self.remaining_content_length {
            Some(1..) => Err(length_disagrees()),
            _ => Ok(()),
        }
    }

    /// Reads up to `max_bytes` of a body, after [`NextInput::Data`].
    pub(crate) fn read_data(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        max_bytes: usize,
    ) -> Result<Result<Bytes, NextInput>, Fault> {
        if let Some(next) = self.fill(quic, id, max_bytes)? {
            return Ok(Err(next));
        }
        let chunk = self.pending.split_to(self.buffered_frame_bytes().min(max_bytes));
        self.frame_left -= chunk.len() as u64;
        Ok(Ok(chunk))
    }

    /// Whether input is buffered.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Copies buffered input, which would otherwise keep its whole datagram in memory.
    pub(crate) fn detach(&mut self) {
        self.pending = Bytes::copy_from_slice(&self.pending);
    }

    /// Continues to collect a field section, after [`NextInput::Section`].
    pub(crate) fn collect_section(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        shared: &mut ConnectionShared,
    ) -> Result<CollectedSection, Fault> {
        if self.reading == ReadState::QpackReady {
            self.reading = ReadState::Header;
            return Ok(CollectedSection::Whole(Bytes::from(std::mem::take(&mut self.section))));
        }
        let remaining = usize::try_from(self.frame_left).unwrap_or(usize::MAX);
        if self.reserved == 0 {
            if remaining > shared.config.limits.list_bytes as usize {
                return Ok(CollectedSection::TooLarge);
            }
            if self.pending.len() >= remaining {
                self.reading = ReadState::Header;
                return Ok(CollectedSection::Whole(self.pending.split_to(remaining)));
            }
            if shared.head_memory + remaining > shared.config.head_memory as usize {
                return Err(Fault::stream(Code::RequestRejected, "head_memory"));
            }
            shared.head_memory += remaining;
            self.reserved = remaining;
        }
        while self.frame_left > 0 {
            match self.fill(quic, id, self.frame_left as usize)? {
                None => {}
                Some(NextInput::Reset(code)) => return Ok(CollectedSection::Reset(code)),
                Some(_) => return Ok(CollectedSection::Blocked),
            }
            let bytes = self.pending.split_to(self.buffered_frame_bytes());
            self.frame_left -= bytes.len() as u64;
            self.section.extend_from_slice(&bytes);
        }
        self.free_reserved(shared);
        self.reading = ReadState::Header;
        Ok(CollectedSection::Whole(Bytes::from(std::mem::take(&mut self.section))))
    }

    /// Keeps a section until the dynamic table has this many insertions. "If a decoder encounters more blocked streams
    /// than it promised to support, it MUST treat this as a connection error of type QPACK_DECOMPRESSION_FAILED"
    /// (RFC 9204 §2.1.2).
    pub(crate) fn block(
        &mut self,
        section: &[u8],
        required: u64,
        shared: &mut ConnectionShared,
    ) -> Result<(), Fault> {
        if shared.blocked >= shared.config.blocked_streams {
            return Err(Fault::connection(Code::QpackDecompression, "too_many_blocked_streams"));
        }
        shared.blocked += 1;
        self.section = section.to_vec();
        self.reading = ReadState::AwaitsQpack(required);
        Ok(())
    }

    /// Unblocks a section: the insertions have arrived.
    pub(crate) fn unblock(&mut self, shared: &mut ConnectionShared) {
        if let ReadState::AwaitsQpack(_) = self.reading {
            shared.blocked -= 1;
            self.reading = ReadState::QpackReady;
        }
    }

    fn free_reserved(&mut self, shared: &mut ConnectionShared) {
        shared.head_memory -= std::mem::take(&mut self.reserved);
    }

    /// Stops reading the stream.
    pub(crate) fn abandon(&mut self, id: StreamId, shared: &mut ConnectionShared) {
        if self.is_over() {
            return;
        }
        self.unblock(shared);
        self.free_reserved(shared);
        self.section = Vec::new();
        self.pending = Bytes::new();
        self.reading = ReadState::Stopped;
        shared.qpack.cancel(id.index() * 4);
    }
}

fn length_disagrees() -> Fault {
    Fault::stream(Code::Message, fairway_http2::Defect::LengthDisagrees.label())
}
