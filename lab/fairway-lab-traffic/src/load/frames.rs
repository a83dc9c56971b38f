//! A strict parser for HTTP/3 frames (RFC 9114 §7) of responses and of the streams that a server opens. Accepts any split
//! of the bytes and keeps only the length of a body.
//!
//! ```text
//! HEADERS 1xx ─► HEADERS ─► DATA ... ─► HEADERS (trailers) ─► end
//! ```

use fairway_lab_measure::results::Class;

use super::qpack::{self, Malformed, Text};
use super::response::Expected;
use super::thread_counts::RequestOutcome;

/// Largest response head, bytes.
const HEAD_LIMIT: u64 = 64 * 1024;
/// Largest frame payload on the control stream, bytes.
const CONTROL_LIMIT: u64 = 16 * 1024;

const DATA: u64 = 0x00;
const HEADERS: u64 = 0x01;
pub(super) const SETTINGS_FRAME: u64 = 0x04;
const PUSH_PROMISE: u64 = 0x05;
const GOAWAY: u64 = 0x07;
const MAX_PUSH_ID: u64 = 0x0d;
/// Frame types reserved because HTTP/2 used them, and CANCEL_PUSH, which a client that allows no push must not receive (RFC
/// 9114 §7.2.8).
const FORBIDDEN: [u64; 5] = [0x02, 0x03, 0x06, 0x08, 0x09];

/// RFC 9114 §6.2 and RFC 9204 §4.2.
pub(super) const CONTROL_STREAM: u64 = 0x00;
const PUSH_STREAM: u64 = 0x01;
pub(super) const ENCODER_STREAM: u64 = 0x02;
pub(super) const DECODER_STREAM: u64 = 0x03;

/// Encodes a frame of this type.
pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_integer(&mut bytes, kind);
    push_integer(&mut bytes, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// Appends a request's frames: its field section, and its body unless empty.
pub(super) fn push_request(out: &mut Vec<u8>, section: &[u8], content: &[u8]) {
    push_integer(out, HEADERS);
    push_integer(out, section.len() as u64);
    out.extend_from_slice(section);
    if !content.is_empty() {
        push_integer(out, DATA);
        push_integer(out, content.len() as u64);
        out.extend_from_slice(content);
    }
}

/// Appends a QUIC variable-length integer (RFC 9000 §16) below 2^62.
fn push_integer(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(number | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Takes a variable-length integer from the front, if complete.
fn take_integer(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1 << (bytes.first()? >> 6);
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let first = u64::from(taken[0] & 0x3f);
    Some(taken[1..].iter().fold(first, |number, byte| number << 8 | u64::from(*byte)))
}

/// A partially received frame header.
#[derive(Default)]
struct FrameHead {
    bytes: [u8; 16],
    filled: usize,
}

impl FrameHead {
    /// Returns type and length once complete; consumes only their bytes.
    fn take(&mut self, bytes: &mut &[u8]) -> Option<(u64, u64)> {
        if self.filled == 0 {
            // The common case: both are in one buffer.
            let mut rest = *bytes;
            if let (Some(kind), Some(length)) = (take_integer(&mut rest), take_integer(&mut rest)) {
                *bytes = rest;
                return Some((kind, length));
            }
        }
        while let Some((first, rest)) = bytes.split_first() {
            (self.bytes[self.filled], *bytes) = (*first, rest);
            self.filled += 1;
            let mut unread = &self.bytes[..self.filled];
            if let (Some(kind), Some(length)) = (take_integer(&mut unread), take_integer(&mut unread)) {
                self.filled = 0;
                return Some((kind, length));
            }
        }
        None
    }
}

/// A payload that must be complete before it is parsed.
#[derive(Default)]
struct Payload {
    partial: Vec<u8>,
    /// Bytes still missing.
    bytes_left: usize,
}

impl Payload {
    fn start(&mut self, length: u64, limit: u64) -> Result<(), Malformed> {
        if length > limit {
            return Err("a frame is too long");
        }
        self.partial.clear();
        self.bytes_left = length as usize;
        Ok(())
    }

    /// Passes the payload to `done` once complete.
    fn take<T>(&mut self, bytes: &mut &[u8], done: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let (taken, rest) = bytes.split_at(self.bytes_left.min(bytes.len()));
        *bytes = rest;
        self.bytes_left -= taken.len();
        if self.bytes_left == 0 && self.partial.is_empty() {
            // The common case: it is complete in the input and needs no copy.
            return Some(done(taken));
        }
        self.partial.extend_from_slice(taken);
        (self.bytes_left == 0).then(|| done(&self.partial))
    }
}

/// Parses one response.
#[derive(Default)]
pub(super) struct Answer {
    stage: Stage,
    frame: FrameHead,
    payload: Payload,
    /// `None` before the head.
    head: Option<Head>,
    /// Whether the trailers have the expected field; `None` before the trailers.
    trailers: Option<bool>,
    /// Bytes of the body so far.
    length: u64,
    /// Whether the body differs from the expected one.
    differs: bool,
}

#[derive(Default)]
enum Stage {
    #[default]
    Frame,
    Section,
    /// The number of body bytes that follow.
    Content(u64),
    /// The number of bytes that follow in a frame of unknown type (RFC 9114 §9).
    Unknown(u64),
}

/// The parts of a head that matter here.
#[derive(Clone, Copy)]
struct Head {
    status: u16,
    length: Option<u64>,
    /// Whether the expected header is present with its value.
    matched: bool,
}

impl Answer {
    /// The status, once known.
    pub(super) fn status(&self) -> Option<u16> {
        self.head.map(|head| head.status)
    }

    /// Parses the next bytes of the stream.
    ///
    /// # Errors
    /// The bytes are not a valid response.
    pub(super) fn feed(&mut self, mut bytes: &[u8], expected: &Expected) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            match self.stage {
                Stage::Frame => match self.frame.take(&mut bytes) {
                    Some((kind, length)) => self.stage = self.begin_frame(kind, length)?,
                    None => return Ok(()),
                },
                Stage::Section => {
                    let (head, trailers) = (&mut self.head, &mut self.trailers);
                    let read = self
                        .payload
                        .take(&mut bytes, |section| read_section(section, head, trailers, expected));
                    if let Some(read) = read {
                        read?;
                        self.stage = Stage::Frame;
                    }
                }
                Stage::Content(left) => {
                    let (content, left) = split(&mut bytes, left);
                    self.stage = if left == 0 { Stage::Frame } else { Stage::Content(left) };
                    self.content(content, expected)?;
                }
                Stage::Unknown(left) => {
                    let (_, left) = split(&mut bytes, left);
                    self.stage = if left == 0 { Stage::Frame } else { Stage::Unknown(left) };
                }
            }
        }
        Ok(())
    }

    /// Checks the order of frames (RFC 9114 §4.1).
    fn begin_frame(&mut self, kind: u64, length: u64) -> Result<Stage, Malformed> {
        match kind {
            HEADERS if self.trailers.is_some() => Err("a field section after the trailers"),
            HEADERS if length == 0 => Err("an empty field section"),
            HEADERS => {
                self.payload.start(length, HEAD_LIMIT)?;
                Ok(Stage::Section)
            }
            DATA if self.head.is_none() => Err("content before the head"),
            DATA if self.trailers.is_some() => Err("content after the trailers"),
            DATA if length == 0 => Ok(Stage::Frame),
            DATA => Ok(Stage::Content(length)),
            SETTINGS_FRAME | GOAWAY | MAX_PUSH_ID | PUSH_PROMISE => Err("a frame that an answer cannot have"),
            _ if FORBIDDEN.contains(&kind) => Err("a frame that HTTP/3 has not"),
            _ if length == 0 => Ok(Stage::Frame),
            _ => Ok(Stage::Unknown(length)),
        }
    }

    fn content(&mut self, content: &[u8], expected: &Expected) -> Result<(), Malformed> {
        if expected.expect.content.is_some() && !self.differs {
            let received = usize::try_from(self.length).unwrap_or(usize::MAX);
            self.differs = expected.expect.matches_continuation(received, content).is_none();
        }
        self.length += content.len() as u64;
        match self.head.and_then(|head| head.length) {
            Some(announced) if self.length > announced => Err("more content than was announced"),
            _ => Ok(()),
        }
    }

    /// The outcome when the stream ends here.
    pub(super) fn end(&self, expected: &Expected) -> RequestOutcome {
        let Some(head) = self.head else {
            let text = "the end of the stream instead of an answer".to_owned();
            return RequestOutcome::Failed(Class::ReadEof, text);
        };
        let line = || format!("HTTP/3 {}", head.status);
        let is_short = head.length.is_some_and(|announced| self.length < announced);
        // RFC 9110 §8.6: in these responses Content-Length is that of a response with a body.
        let has_content = !expected.is_head && head.status != 304;
        if !matches!(self.stage, Stage::Frame) || self.frame.filled > 0 || (has_content && is_short) {
            return RequestOutcome::Failed(
                Class::Truncated,
                line() + ", and the end of the stream within its body",
            );
        }
        let received = usize::try_from(self.length).unwrap_or(usize::MAX);
        let is_whole = !self.differs && expected.expect.is_complete(received);
        let wrong = match &expected.expect.trailer {
            Some((name, value)) if self.trailers != Some(true) => {
                format!("{}, without {name}: {value} in its trailers", line())
            }
            _ if !is_whole => format!("{}, with other content than expected", line()),
            _ => return expected.outcome_for(head.status, head.matched, line),
        };
        match expected.outcome_for(head.status, head.matched, line) {
            RequestOutcome::Answered { wrong: None } => {
                RequestOutcome::Answered { wrong: Some((Class::WrongRoute, wrong)) }
            }
            fate => fate,
        }
    }

    /// The outcome of a malformed response.
    pub(super) fn malformed(&self, why: Malformed) -> RequestOutcome {
        RequestOutcome::Failed(Class::Malformed, self.with_status(why))
    }

    /// The outcome when the server resets the stream.
    pub(super) fn reset(&self, code: u64) -> RequestOutcome {
        let class = if self.head.is_some() { Class::Truncated } else { Class::ReadReset };
        RequestOutcome::Failed(class, self.with_status(&format!("its stream was reset with {code:#x}")))
    }

    fn with_status(&self, what: &str) -> String {
        self.status().map_or_else(|| what.to_owned(), |status| format!("HTTP/3 {status}, and {what}"))
    }
}

/// Splits off at most `left` bytes; returns them and the number still left.
fn split<'a>(bytes: &mut &'a [u8], left: u64) -> (&'a [u8], u64) {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    (taken, left - taken.len() as u64)
}

/// Parses a header section: a final or interim response head, or trailers.
fn read_section(
    section: &[u8],
    head: &mut Option<Head>,
    trailers: &mut Option<bool>,
    expected: &Expected,
) -> Result<(), Malformed> {
    if head.is_none() {
        *head = read_head(section, expected)?;
        return Ok(());
    }
    let mut found = false;
    qpack::read(section, |name, value| {
        if matches!(name, Text::Plain([b':', ..])) {
            return Err("a pseudo-header among the trailers");
        }
        if let Some((wanted, content)) = &expected.sought.trailer {
            found |= wanted.matches(name) && content.matches(value);
        }
        Ok(())
    })?;
    *trailers = Some(found);
    Ok(())
}

/// Returns `None` for an interim response, of which any number may precede the final one (RFC 9114 §4.1).
fn read_head(section: &[u8], expected: &Expected) -> Result<Option<Head>, Malformed> {
    let sought = &expected.sought;
    let (mut status, mut length, mut matched) = (None, None, false);
    qpack::read(section, |name, value| {
        if status.is_none() {
            if !sought.status.matches(name) {
                return Err("its head does not begin with a status");
            }
            let number = value.number().filter(|number| (100..1_000).contains(number));
            status = Some(number.ok_or("its status is not three digits")? as u16);
            return Ok(());
        }
        if matches!(name, Text::Plain([b':', ..])) {
            return Err("a pseudo-header that an answer cannot have");
        }
        if sought.length.matches(name) {
            let number = value.number().ok_or("its Content-Length is no number")?;
            if length.replace(number).is_some_and(|before| before != number) {
                return Err("two different Content-Lengths");
            }
        }
        if let Some((wanted, content)) = &sought.header {
            matched |= wanted.matches(name) && content.matches(value);
        }
        Ok(())
    })?;
    match status.ok_or("its head does not begin with a status")? {
        // RFC 9114 §4.5.
        101 => Err("a change of protocol, which HTTP/3 has not"),
        100..=199 => Ok(None),
        status => Ok(Some(Head { status, length, matched })),
    }
}

/// Parses a stream that the server opened.
#[derive(Default)]
pub(super) struct Control {
    kind: Option<u64>,
    stage: ControlStage,
    frame: FrameHead,
    payload: Payload,
    has_settings: bool,
    /// The stream id of the last GOAWAY since the previous call.
    last: Option<u64>,
}

#[derive(Default)]
enum ControlStage {
    #[default]
    Frame,
    /// Reading the payload of a frame of this type.
    Payload(u64),
}

impl Control {
    /// Whether the stream must stay open (RFC 9114 §6.2.1, RFC 9204 §4.2).
    pub(super) fn is_critical(&self) -> bool {
        matches!(self.kind, Some(CONTROL_STREAM | ENCODER_STREAM | DECODER_STREAM))
    }

    /// Whether the stream's type is unknown and its data ignored.
    pub(super) fn is_ignored(&self) -> bool {
        self.kind.is_some() && !self.is_critical()
    }

    /// The stream id of the last GOAWAY since the previous call.
    pub(super) fn take_last(&mut self) -> Option<u64> {
        self.last.take()
    }

    /// Parses the next bytes of the stream.
    ///
    /// # Errors
    /// The server violates the protocol.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => match self.take_kind(&mut bytes) {
                Some(kind) => *self.kind.insert(kind),
                None => return Ok(()),
            },
        };
        match kind {
            CONTROL_STREAM => self.feed_control(bytes),
            PUSH_STREAM => Err("a push stream, although push is not allowed"),
            // The server may set a capacity of 0 any number of times (RFC 9204 §4.3.1).
            ENCODER_STREAM if bytes.iter().any(|byte| *byte != 0x20) => {
                Err("entries of a dynamic table that was not offered")
            }
            _ => Ok(()),
        }
    }

    fn take_kind(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        while let Some((first, rest)) = bytes.split_first() {
            (self.frame.bytes[self.frame.filled], *bytes) = (*first, rest);
            self.frame.filled += 1;
            if let Some(kind) = take_integer(&mut &self.frame.bytes[..self.frame.filled]) {
                self.frame.filled = 0;
                return Some(kind);
            }
        }
        None
    }

    fn feed_control(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            match self.stage {
                ControlStage::Frame => {
                    let Some((kind, length)) = self.frame.take(&mut bytes) else { return Ok(()) };
                    match kind {
                        SETTINGS_FRAME if self.has_settings => return Err("settings for the second time"),
                        SETTINGS_FRAME => self.has_settings = true,
                        _ if !self.has_settings => {
                            return Err("a control stream that does not begin with settings");
                        }
                        DATA | HEADERS | PUSH_PROMISE | MAX_PUSH_ID => {
                            return Err("a frame that a control stream cannot have");
                        }
                        _ if FORBIDDEN.contains(&kind) => return Err("a frame that HTTP/3 has not"),
                        _ => {}
                    }
                    self.payload.start(length, CONTROL_LIMIT)?;
                    if length > 0 {
                        self.stage = ControlStage::Payload(kind);
                    }
                }
                ControlStage::Payload(kind) => {
                    let last = &mut self.last;
                    let read = self.payload.take(&mut bytes, |payload| match kind {
                        GOAWAY => {
                            *last = Some(take_integer(&mut &payload[..]).ok_or("a GOAWAY without a stream")?);
                            Ok(())
                        }
                        // The server's limits exceed what this client uses.
                        _ => Ok(()),
                    });
                    if let Some(read) = read {
                        read?;
                        self.stage = ControlStage::Frame;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;

    fn expected(change: impl FnOnce(&mut Plan)) -> Expected {
        let mut plan = Plan::for_url("https://127.0.0.1/").expect("a URL");
        change(&mut plan);
        Expected::new(&plan)
    }

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = Vec::new();
        qpack::write_prefix(&mut section);
        for (name, value) in fields {
            qpack::push(&mut section, name, value);
        }
        frame(HEADERS, &section)
    }

    /// Parses a response at once, then byte by byte, and ends the stream.
    fn read(bytes: &[u8], expected: &Expected) -> Result<Option<String>, String> {
        let whole = read_pieces(std::iter::once(bytes), expected);
        assert_eq!(read_pieces(bytes.chunks(1), expected), whole);
        whole
    }

    fn read_pieces<'a>(
        pieces: impl Iterator<Item = &'a [u8]>,
        expected: &Expected,
    ) -> Result<Option<String>, String> {
        let mut response = Answer::default();
        for piece in pieces {
            response.feed(piece, expected)?;
        }
        match response.end(expected) {
            RequestOutcome::Answered { wrong } => Ok(wrong.map(|(_, text)| text)),
            RequestOutcome::Failed(_, text) => Err(text),
        }
    }

    #[test]
    fn a_response_is_read_with_interim_heads_unknown_frames_and_trailers() {
        let head = section(&[(":status", "200"), ("content-length", "5"), ("server", "x")]);
        let trailers = section(&[("grpc-status", "0")]);
        let plain = expected(|_| {});
        for bytes in [
            [&head[..], &frame(DATA, b"hello")].concat(),
            [
                &head[..],
                &frame(DATA, b"he"),
                &frame(DATA, b""),
                &frame(0x21, b"grease"),
                &frame(DATA, b"llo"),
            ]
            .concat(),
            [&section(&[(":status", "103"), ("link", "x")])[..], &head, &frame(DATA, b"hello"), &trailers]
                .concat(),
            [&section(&[(":status", "204")])[..], &frame(0x40, &[0; 70])].concat(),
        ] {
            assert_eq!(read(&bytes, &plain), Ok(None));
        }
        let status = expected(|plan| plan.expect.trailer = Some(("grpc-status".to_owned(), "0".to_owned())));
        let with = [&head[..], &frame(DATA, b"hello"), &trailers].concat();
        assert_eq!(read(&with, &status), Ok(None));
        let without = read(&with[..with.len() - trailers.len()], &status);
        assert!(without.is_ok_and(|wrong| wrong.is_some_and(|text| text.contains("trailers"))));
    }

    #[test]
    fn a_head_shows_whether_the_response_is_the_expected_one() {
        let length = |length: &str| ("content-length".to_owned(), length.to_owned());
        let strict = expected(|plan| plan.expect.header = Some(length("5")));
        let response = |status, length| {
            [&section(&[(":status", status), ("content-length", length)])[..], &frame(DATA, b"hello")]
                .concat()
        };
        assert_eq!(read(&response("200", "5"), &strict), Ok(None));
        let other = expected(|plan| plan.expect.header = Some(length("6")));
        assert!(read(&response("200", "5"), &other).is_ok_and(|wrong| wrong.is_some()));
        assert_eq!(read(&response("502", "5"), &strict), Ok(Some("HTTP/3 502".to_owned())));
        let content = expected(|plan| plan.expect.content = Some("hallo".into()));
        assert!(read(&response("200", "5"), &content).is_ok_and(|wrong| wrong.is_some()));
    }

    #[test]
    fn a_truncated_response_or_one_of_another_length_is_an_error() {
        let head = section(&[(":status", "200"), ("content-length", "5")]);
        let whole = [&head[..], &frame(DATA, b"hello")].concat();
        let plain = expected(|_| {});
        for end in 0..whole.len() {
            assert!(read(&whole[..end], &plain).is_err(), "{end} bytes");
        }
        let longer = [&whole[..], &frame(DATA, b"!")].concat();
        assert!(read(&longer, &plain).is_err_and(|why| why.contains("more content")));
    }

    #[test]
    fn invalid_bytes_are_malformed() {
        let head = section(&[(":status", "200")]);
        let trailers = section(&[("a", "b")]);
        let plain = expected(|_| {});
        for (what, bytes) in [
            ("content first", frame(DATA, b"x")),
            ("no status", section(&[("server", "x")])),
            ("a status of two digits", section(&[(":status", "20")])),
            ("a change of protocol", section(&[(":status", "101")])),
            ("a second status", section(&[(":status", "200"), (":status", "200")])),
            ("no length", section(&[(":status", "200"), ("content-length", "+1")])),
            ("two lengths", section(&[(":status", "200"), ("content-length", "1"), ("content-length", "2")])),
            ("content after trailers", [&head[..], &trailers, &frame(DATA, b"x")].concat()),
            ("trailers twice", [&head[..], &trailers, &trailers].concat()),
            ("a status in trailers", [&head[..], &head].concat()),
            ("settings", frame(SETTINGS_FRAME, &[])),
            ("a frame of HTTP/2", frame(0x09, &[])),
            ("an empty section", frame(HEADERS, &[])),
            ("a long section", frame(HEADERS, &[0; 70_000])),
        ] {
            assert!(read(&bytes, &plain).is_err(), "{what}");
        }
    }

    fn control(bytes: &[u8]) -> Result<Control, Malformed> {
        let mut control = Control::default();
        for byte in bytes.chunks(1) {
            control.feed(byte)?;
        }
        Control::default().feed(bytes)?;
        Ok(control)
    }

    #[test]
    fn a_control_stream_starts_with_settings_and_announces_goaway() {
        let settings = frame(SETTINGS_FRAME, &[1, 0x40, 0x64, 7, 0]);
        let mut stream =
            control(&[&[0][..], &settings, &frame(0x21, b"grease"), &frame(GOAWAY, &[8])].concat()).unwrap();
        assert!(stream.is_critical() && !stream.is_ignored());
        assert_eq!((stream.take_last(), stream.take_last()), (Some(8), None));
        let wrong: [&[&[u8]]; 6] = [
            &[&[0], &frame(GOAWAY, &[8])],
            &[&[0], &settings, &settings],
            &[&[0], &settings, &frame(DATA, b"x")],
            &[&[0], &settings, &frame(MAX_PUSH_ID, &[1])],
            &[&[1, 0]],
            &[&[2, 0x3f, 0xe1, 0x1f]],
        ];
        for bytes in wrong {
            assert!(control(&bytes.concat()).is_err(), "{bytes:?}");
        }
        assert!(control(&[2, 0x20]).is_ok_and(|stream| stream.is_critical()));
        assert!(control(&[0x40, 0x54, 1, 2, 3]).is_ok_and(|stream| stream.is_ignored()));
    }
}
