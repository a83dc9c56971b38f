//! DATA (RFC 9113 §6.1, §8.1.1): every frame counts against both windows as a whole before anything of it is given out.
//! Never keeps a body.

use super::read::Step;
use super::{Connection, Reading, Role};
use crate::abuse::Weight;
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::frame::{END_STREAM, HEADER_BYTES, Header, PADDED};
use crate::stream::{Half, Life, Past};
use crate::verdict::Defect;

/// Bytes below which a frame is small.
const SMALL: u32 = 256;

/// What becomes of a DATA frame.
enum Fate<'a> {
    /// Its stream gets it.
    Taken,
    /// It is skipped, which may be an event.
    Dropped(Option<Event<'a>>),
}

impl Connection {
    /// The header of a DATA frame is there.
    pub(super) fn begin_data<'a>(
        &mut self,
        now: u64,
        header: &Header,
        input: &[u8],
    ) -> Result<Step<'a>, Fault> {
        let (padding, before) = match (header.has(PADDED), header.length, input.get(HEADER_BYTES)) {
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
        let (used, end) = (HEADER_BYTES + before as usize, header.has(END_STREAM));
        if let Fate::Dropped(event) = self.accept_data(now, header, content, end)? {
            self.give_to_connection(header.length);
            self.reading = Reading::Skip { left: header.length - before };
            return Ok((used, event));
        }
        self.give(header.stream, padding + before);
        self.reading = Reading::Data { stream: header.stream, left: content, padding, end };
        if content > 0 || end {
            return Ok((used, None));
        }
        self.reading = Reading::Skip { left: padding };
        self.charge(now, Weight::Heavy)?;
        Ok((used, None))
    }

    /// Whether the stream takes this frame.
    fn accept_data<'a>(
        &mut self,
        now: u64,
        header: &Header,
        content: u32,
        end: bool,
    ) -> Result<Fate<'a>, Fault> {
        let Some(stream) = self.streams.get_mut(header.stream) else {
            return self.late_data(now, header.stream).map(Fate::Dropped);
        };
        let is_lingering = stream.life == Life::Lingering;
        let fault = match (stream.life, stream.received) {
            (Life::ResetByUs, _) => {
                return self.charge(now, Weight::Light).map(|()| Fate::Dropped(None));
            }
            (Life::ResetByPeer, _) | (Life::Live | Life::Lingering, Half::Ended) => {
                Some(Fault::stream(Code::StreamClosed, "stream_closed"))
            }
            (Life::Live | Life::Lingering, Half::Waiting) => {
                Some(Fault::stream(Code::Protocol, "body_before_head"))
            }
            (Life::Live | Life::Lingering, Half::Open) if !stream.incoming.window.take(header.length) => {
                Some(Fault::stream(Code::FlowControl, "stream_window"))
            }
            (Life::Live | Life::Lingering, Half::Open) => {
                let left = stream.announced.map(|left| left.checked_sub(u64::from(content)));
                stream.announced = left.flatten();
                match left {
                    Some(None) => Some(Defect::LengthDisagrees),
                    Some(Some(1..)) if end => Some(Defect::LengthDisagrees),
                    _ => None,
                }
                .map(|defect| Fault::stream(Code::Protocol, defect.label()))
            }
        };
        if let Some(fault) = fault {
            return self.fail_stream(now, header.stream, fault).map(Fate::Dropped);
        }
        if is_lingering {
            if end {
                self.linger_no_more(header.stream, Life::Lingering);
            } else if content < SMALL {
                self.charge(now, Weight::Light)?;
            }
            return Ok(Fate::Dropped(None));
        }
        // What a client leaves unread is not its endpoint's fault: all streams of a connection would pay for the slow ones.
        let is_small = content > 0 && content < SMALL && !end && self.role == Role::Server;
        if is_small && stream.incoming.small.came(stream.incoming.window.most()) {
            self.charge(now, Weight::Light)?;
        }
        Ok(Fate::Taken)
    }

    /// DATA on a stream that has no record any more.
    fn late_data<'a>(&mut self, now: u64, stream: u32) -> Result<Option<Event<'a>>, Fault> {
        match self.ids.memory.of(stream) {
            Past::Ended | Past::Skipped => Err(Fault::connection(Code::StreamClosed, "stream_ended")),
            Past::ResetByPeer => {
                self.fail_stream(now, stream, Fault::stream(Code::StreamClosed, "stream_closed"))
            }
            Past::Unknown => self.charge(now, Weight::Light).map(|()| None),
        }
    }

    /// What is there of a DATA frame.
    pub(super) fn read_data<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        let Reading::Data { stream: id, left, padding, end } = self.reading else { return (0, None) };
        let live = self.streams.get_mut(id).filter(|stream| stream.life == Life::Live);
        let Some(stream) = live else {
            // It was reset or released between two pieces.
            self.give_to_connection(left);
            if end {
                self.linger_no_more(id, Life::Lingering);
            }
            self.reading = Reading::Skip { left: left + padding };
            return (0, None);
        };
        let bytes = &input[..input.len().min(left as usize)];
        if bytes.is_empty() && left > 0 {
            return (0, Some(Event::NeedMore));
        }
        let taken = bytes.len() as u32;
        stream.incoming.held += taken;
        let last = left == taken;
        if last && end {
            stream.received = Half::Ended;
        }
        self.reading = match last {
            true => Reading::Skip { left: padding },
            false => Reading::Data { stream: id, left: left - taken, padding, end },
        };
        (bytes.len(), Some(Event::Data { stream: id, bytes, end: end && last }))
    }
}
