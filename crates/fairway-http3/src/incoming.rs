//! The client's half of a request stream (RFC 9114 §4.1): frames in their order, and field sections as a whole. Bodies are only
//! passed on. Never answers anything.

use bytes::{Buf, Bytes};
use fairway_http2::abuse::Weight;
use quinn_proto::{Connection, StreamId};

use crate::code::{Code, Fault};
use crate::frame::{Header, Kind};
use crate::shared::Shared;
use crate::transport::{self, Input};

/// What is read of QUIC at once while a frame header is awaited: what follows it is kept, so this is small.
const HEADER_READ: usize = 2 * 1024;

/// How far the message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its head has not come.
    Head,
    /// Its body or trailers can come.
    Body,
    /// Its trailers came.
    Trailers,
}

/// Where in the stream we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// At a frame header.
    Header,
    /// In a frame that is ignored.
    Ignored,
    /// In a DATA frame.
    Data,
    /// In a HEADERS frame.
    Section,
    /// Behind a HEADERS frame that needs this many insertions into the dynamic table.
    Blocked(u64),
    /// Behind a HEADERS frame that had to wait for insertions and need not any more.
    Unblocked,
    /// Behind the end of the stream.
    Ended,
    /// Nothing more is wanted.
    Stopped,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Bytes of the body.
    Data,
    /// A field section.
    Section,
    /// Nothing now.
    Blocked,
    /// The end of the stream.
    End,
    /// The client reset the stream.
    Reset(Code),
}

/// A field section.
#[derive(Debug)]
pub(crate) enum Collected {
    /// All of it.
    Whole(Bytes),
    /// Not all of it has come.
    Blocked,
    /// It is longer than all fields may be.
    TooLarge,
    /// The client reset the stream.
    Reset(Code),
}

/// One stream's input.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) phase: Phase,
    pub(crate) reading: Reading,
    /// Whether only DATA may follow, because the request is CONNECT.
    pub(crate) tunnel: bool,
    /// Bytes that `content-length` still announces.
    pub(crate) announced: Option<u64>,
    /// Bytes of the frames up to the head.
    pub(crate) head_bytes: usize,
    header: Header,
    /// Bytes of the current frame's payload that were not read.
    frame_left: u64,
    /// Bytes that were read of QUIC and not used.
    pending: Bytes,
    /// A field section that is not complete, or that is blocked.
    section: Vec<u8>,
    /// What is counted for it in [`Shared::head_memory`].
    reserved: usize,
}

impl Incoming {
    pub(crate) fn new() -> Self {
        Incoming {
            phase: Phase::Head,
            reading: Reading::Header,
            tunnel: false,
            announced: None,
            head_bytes: 0,
            header: Header::default(),
            frame_left: 0,
            pending: Bytes::new(),
            section: Vec::new(),
            reserved: 0,
        }
    }

    /// Whether nothing more is read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.reading, Reading::Ended | Reading::Stopped)
    }

    /// Goes on to what has to be handled next; ignored frames are skipped.
    pub(crate) fn next(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        shared: &mut Shared,
    ) -> Result<Next, Fault> {
        loop {
            match self.reading {
                Reading::Section | Reading::Unblocked => return Ok(Next::Section),
                Reading::Blocked(_) => return Ok(Next::Blocked),
                Reading::Ended | Reading::Stopped => return Ok(Next::End),
                Reading::Data if self.frame_left > 0 => return Ok(Next::Data),
                Reading::Data => self.reading = Reading::Header,
                Reading::Ignored if self.frame_left == 0 => self.reading = Reading::Header,
                Reading::Ignored | Reading::Header => {
                    if let Some(next) = self.fill(quic, id, HEADER_READ)? {
                        return Ok(next);
                    }
                    if self.reading == Reading::Ignored {
                        let skipped = self.in_frame();
                        self.pending.advance(skipped);
                        self.frame_left -= skipped as u64;
                    } else if let Some((kind, length, bytes)) = self.header.take(&mut self.pending) {
                        self.begin_frame(kind, length, bytes, shared)?;
                    }
                }
            }
        }
    }

    /// How much of what was read belongs to the current frame.
    fn in_frame(&self) -> usize {
        usize::try_from(self.frame_left).map_or(self.pending.len(), |left| left.min(self.pending.len()))
    }

    /// Makes sure that there are bytes; otherwise says why there are none.
    fn fill(&mut self, quic: &mut Connection, id: StreamId, max_bytes: usize) -> Result<Option<Next>, Fault> {
        if !self.pending.is_empty() {
            return Ok(None);
        }
        match transport::read(quic, id, max_bytes) {
            Input::Bytes(bytes) => {
                self.pending = bytes;
                Ok(None)
            }
            Input::Blocked => Ok(Some(Next::Blocked)),
            Input::Reset(code) => Ok(Some(Next::Reset(code))),
            // "When a stream terminates cleanly, if the last frame on the stream was truncated, this MUST be treated as a
            // connection error of type H3_FRAME_ERROR" (RFC 9114 §7.1).
            Input::End if self.header.is_partial() || self.reading != Reading::Header => {
                Err(Fault::connection(Code::Frame, "frame_truncated"))
            }
            Input::End => {
                self.reading = Reading::Ended;
                Ok(Some(Next::End))
            }
        }
    }

    /// "Receipt of an invalid sequence of frames MUST be treated as a connection error of type H3_FRAME_UNEXPECTED" (RFC 9114
    /// §4.1).
    fn begin_frame(
        &mut self,
        kind: Kind,
        length: u64,
        header_bytes: usize,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        self.frame_left = length;
        self.reading = match (kind, self.phase) {
            (Kind::Data, Phase::Body) => {
                self.announce(length)?;
                if length == 0 {
                    shared.charge(Weight::Medium, "empty_data_frames")?;
                }
                Reading::Data
            }
            // "only DATA frames are permitted to be sent on that stream" (§4.4).
            (Kind::Headers, Phase::Body) if self.tunnel => return Err(kind.unexpected()),
            (Kind::Headers, Phase::Head | Phase::Body) => Reading::Section,
            (Kind::Unknown, _) => {
                shared.charge(Weight::Light, "unknown_frames")?;
                Reading::Ignored
            }
            _ => return Err(kind.unexpected()),
        };
        if self.phase == Phase::Head {
            let payload = usize::try_from(length).unwrap_or(usize::MAX);
            self.head_bytes = self.head_bytes.saturating_add(header_bytes).saturating_add(payload);
        }
        Ok(())
    }

    /// "the value of a Content-Length header field does not equal the sum of the DATA frame lengths received" is a malformed
    /// request (RFC 9114 §4.1.2). Found before the bytes are passed on.
    fn announce(&mut self, length: u64) -> Result<(), Fault> {
        if let Some(left) = self.announced {
            self.announced = Some(left.checked_sub(length).ok_or_else(length_disagrees)?);
        }
        Ok(())
    }

    /// The stream ended: whether that is where `content-length` says.
    pub(crate) fn check_end(&self) -> Result<(), Fault> {
        match self.announced {
            Some(1..) => Err(length_disagrees()),
            _ => Ok(()),
        }
    }

    /// Reads up to `max_bytes` of a body, when [`Next::Data`] comes next.
    pub(crate) fn data(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        max_bytes: usize,
    ) -> Result<Result<Bytes, Next>, Fault> {
        if let Some(next) = self.fill(quic, id, max_bytes)? {
            return Ok(Err(next));
        }
        let piece = self.pending.split_to(self.in_frame().min(max_bytes));
        self.frame_left -= piece.len() as u64;
        Ok(Ok(piece))
    }

    /// Whether the next bytes are here already.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What was read and is not used yet was part of a datagram, which it would keep in memory: now it is not.
    pub(crate) fn detach(&mut self) {
        self.pending = Bytes::copy_from_slice(&self.pending);
    }

    /// Goes on to collect a field section, when [`Next::Section`] comes next.
    pub(crate) fn collect(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        shared: &mut Shared,
    ) -> Result<Collected, Fault> {
        if self.reading == Reading::Unblocked {
            self.reading = Reading::Header;
            return Ok(Collected::Whole(Bytes::from(std::mem::take(&mut self.section))));
        }
        let left = usize::try_from(self.frame_left).unwrap_or(usize::MAX);
        if self.reserved == 0 {
            if left > shared.config.limits.list_bytes as usize {
                return Ok(Collected::TooLarge);
            }
            if self.pending.len() >= left {
                self.reading = Reading::Header;
                return Ok(Collected::Whole(self.pending.split_to(left)));
            }
            if shared.head_memory + left > shared.config.head_memory as usize {
                return Err(Fault::stream(Code::RequestRejected, "head_memory"));
            }
            shared.head_memory += left;
            self.reserved = left;
        }
        while self.frame_left > 0 {
            match self.fill(quic, id, self.frame_left as usize)? {
                None => {}
                Some(Next::Reset(code)) => return Ok(Collected::Reset(code)),
                Some(_) => return Ok(Collected::Blocked),
            }
            let bytes = self.pending.split_to(self.in_frame());
            self.frame_left -= bytes.len() as u64;
            self.section.extend_from_slice(&bytes);
        }
        self.free_reserved(shared);
        self.reading = Reading::Header;
        Ok(Collected::Whole(Bytes::from(std::mem::take(&mut self.section))))
    }

    /// Keeps a section until the dynamic table has this many insertions. "If a decoder encounters more blocked streams than it
    /// promised to support, it MUST treat this as a connection error of type QPACK_DECOMPRESSION_FAILED" (RFC 9204 §2.1.2).
    pub(crate) fn block(&mut self, section: &[u8], required: u64, shared: &mut Shared) -> Result<(), Fault> {
        if shared.blocked >= shared.config.blocked_streams {
            return Err(Fault::connection(Code::QpackDecompression, "too_many_blocked_streams"));
        }
        shared.blocked += 1;
        self.section = section.to_vec();
        self.reading = Reading::Blocked(required);
        Ok(())
    }

    /// The insertions that a section waited for have come.
    pub(crate) fn unblock(&mut self, shared: &mut Shared) {
        if let Reading::Blocked(_) = self.reading {
            shared.blocked -= 1;
            self.reading = Reading::Unblocked;
        }
    }

    fn free_reserved(&mut self, shared: &mut Shared) {
        shared.head_memory -= std::mem::take(&mut self.reserved);
    }

    /// Nothing more is wanted of the stream.
    pub(crate) fn abandon(&mut self, id: StreamId, shared: &mut Shared) {
        if self.is_over() {
            return;
        }
        self.unblock(shared);
        self.free_reserved(shared);
        self.section = Vec::new();
        self.pending = Bytes::new();
        self.reading = Reading::Stopped;
        shared.qpack.cancel(id.index() * 4);
    }
}

fn length_disagrees() -> Fault {
    Fault::stream(Code::Message, fairway_http2::Defect::LengthDisagrees.label())
}
