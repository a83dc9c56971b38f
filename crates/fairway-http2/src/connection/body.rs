//! DATA frames (RFC 9113 §6.1, §8.1.1). Each frame counts against both windows as a whole before any of it is
//! delivered. Buffers no data.

use super::read::Step;
use super::{Connection, ReadState, Role};
use crate::abuse::Weight;
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::frame::{FLAG_END_STREAM, FLAG_PADDED, HEADER_BYTES, Header};
use crate::stream::{HalfState, PastStream, StreamLife};
use crate::verdict::Defect;

/// Frames below this many bytes are small.
const MIN_FULL_FRAME_BYTES: u32 = 256;

/// What to do with a DATA frame.
enum DataAction<'a> {
    /// Deliver it to its stream.
    Deliver,
    /// Skip it, and report the event if any.
    Skip(Option<Event<'a>>),
}

impl Connection {
    /// Handles the header of a DATA frame.
    pub(super) fn begin_data<'a>(
        &mut self,
        now: u64,
        header: &Header,
        input: &[u8],
    ) -> Result<Step<'a>, Fault> {
        let (padding, before) = match (header.has_flag(FLAG_PADDED), header.length, input.get(HEADER_BYTES)) {
            (false, ..) => (0, 0),
            (true, 0, _) => return Err(Fault::connection(Code::Protocol, "padding")),
            (true, _, None) => return Ok((0, Some(Event::NeedMore))),
            (true, _, Some(&padding)) => (u32::from(padding), 1),
        };
        let content = header.length.checked_sub(padding + before);
        let content = content.ok_or(Fault::connection(Code::Protocol, "padding"))?;
        if self.is_idle(header.stream) {
            return Err(Fault::connection(Code::Protocol, "stream_idle"));
        }
        self.take_from_connection(header.length)?;
        let (used, end) = (HEADER_BYTES + before as usize, header.has_flag(FLAG_END_STREAM));
        if let DataAction::Skip(event) = self.accept_data(now, header, content, end)? {
            self.return_to_connection(header.length);
            self.read_state = ReadState::Skip { left: header.length - before };
            return Ok((used, event));
        }
        self.return_to_windows(header.stream, padding + before);
        self.read_state = ReadState::Data { stream: header.stream, remaining: content, padding, end };
        if content > 0 || end {
            return Ok((used, None));
        }
        self.read_state = ReadState::Skip { left: padding };
        self.charge(now, Weight::Heavy)?;
        Ok((used, None))
    }

    /// Checks whether the stream accepts this frame.
    fn accept_data<'a>(
        &mut self,
        now: u64,
        header: &Header,
        content: u32,
        end: bool,
    ) -> Result<DataAction<'a>, Fault> {
        let Some(stream) = self.streams.get_mut(header.stream) else {
            return self.data_on_closed(now, header.stream).map(DataAction::Skip);
        };
        let is_lingering = stream.life == StreamLife::Lingering;
        let fault = match (stream.life, stream.received) {
            (StreamLife::ResetByUs, _) => {
                return self.charge(now, Weight::Light).map(|()| DataAction::Skip(None));
            }
            (StreamLife::ResetByPeer, _) | (StreamLife::Live | StreamLife::Lingering, HalfState::Ended) => {
                Some(Fault::stream(Code::StreamClosed, "stream_closed"))
            }
            (StreamLife::Live | StreamLife::Lingering, HalfState::Waiting) => {
                Some(Fault::stream(Code::Protocol, "body_before_head"))
            }
            (StreamLife::Live | StreamLife::Lingering, HalfState::Open)
                if !stream.incoming.window.receive(header.length) =>
            {
                Some(Fault::stream(Code::FlowControl, "stream_window"))
            }
            (StreamLife::Live | StreamLife::Lingering, HalfState::Open) => {
                let body_left = stream.body_left.map(|left| left.checked_sub(u64::from(content)));
                stream.body_left = body_left.flatten();
                match body_left {
                    Some(None) => Some(Defect::LengthDisagrees),
                    Some(Some(1..)) if end => Some(Defect::LengthDisagrees),
                    _ => None,
                }
                .map(|defect| Fault::stream(Code::Protocol, defect.label()))
            }
        };
        if let Some(fault) = fault {
            return self.fail_stream(now, header.stream, fault).map(DataAction::Skip);
        }
        if is_lingering {
            if end {
                self.stop_lingering(header.stream, StreamLife::Lingering);
            } else if content < MIN_FULL_FRAME_BYTES {
                self.charge(now, Weight::Light)?;
            }
            return Ok(DataAction::Skip(None));
        }
        // Only as a server: an endpoint's data may be unread because of a slow client, and all streams of the connection
        // would pay for that.
        let is_small = content > 0 && content < MIN_FULL_FRAME_BYTES && !end && self.role == Role::Server;
        if is_small && stream.incoming.small_frames.charge_frame(stream.incoming.window.size()) {
            self.charge(now, Weight::Light)?;
        }
        Ok(DataAction::Deliver)
    }

    /// DATA on a stream without a record.
    fn data_on_closed<'a>(&mut self, now: u64, stream: u32) -> Result<Option<Event<'a>>, Fault> {
        match self.ids.closed.past(stream) {
            PastStream::Ended | PastStream::Skipped => {
                Err(Fault::connection(Code::StreamClosed, "stream_ended"))
            }
            PastStream::ResetByPeer => {
                self.fail_stream(now, stream, Fault::stream(Code::StreamClosed, "stream_closed"))
            }
            PastStream::Unknown => self.charge(now, Weight::Light).map(|()| None),
        }
    }

    /// Delivers the available part of a DATA frame.
    pub(super) fn read_data<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        let ReadState::Data { stream: id, remaining: left, padding, end } = self.read_state else {
            return (0, None);
        };
        let live = self.streams.get_mut(id).filter(|stream| stream.life == StreamLife::Live);
        let Some(stream) = live else {
            // The stream was reset or released in the meantime.
            self.return_to_connection(left);
            if end {
                self.stop_lingering(id, StreamLife::Lingering);
            }
            self.read_state = ReadState::Skip { left: left + padding };
            return (0, None);
        };
        let bytes = &input[..input.len().min(left as usize)];
        if bytes.is_empty() && left > 0 {
            return (0, Some(Event::NeedMore));
        }
        let consumed = bytes.len() as u32;
        stream.incoming.unconsumed += consumed;
        let last = left == consumed;
        if last && end {
            stream.received = HalfState::Ended;
        }
        self.read_state = match last {
            true => ReadState::Skip { left: padding },
            false => ReadState::Data { stream: id, remaining: left - consumed, padding, end },
        };
        (bytes.len(), Some(Event::Data { stream: id, bytes, end: end && last }))
    }
}
