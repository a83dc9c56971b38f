//! Parses received bytes into a head: `httparse` splits them into tokens, and the rules it lacks are checked here. The
//! input is not kept: a complete head is copied once.

use std::mem::MaybeUninit;

use httparse::{Error, Header, Request, Response, Status};
use memchr::memchr;

use super::defect;
use crate::{Head, HeadLimits, Known, Malformed, Span, Version};

/// Fields that are parsed without a heap allocation.
const SLOTS: usize = 64;

/// `Connection` is compared with every field, so its length is limited: 1 KiB is far beyond real values.
const CONNECTION_BYTES: usize = 1024;

/// The result of parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The head is incomplete: call again with the same bytes and more.
    Incomplete,
    /// The head ends after this many bytes of the input.
    Complete {
        /// Bytes of the input that belong to the head, including an empty line before it.
        consumed: usize,
    },
}

type Slots<'h, 'b> = &'h mut [MaybeUninit<Header<'b>>];

#[derive(Clone, Copy)]
enum HeadKind {
    Request,
    Response,
}

impl HeadKind {
    #[inline]
    fn take<'b>(
        self,
        head: &mut Head,
        text: &'b [u8],
        limits: &HeadLimits,
        slots: Slots<'_, 'b>,
    ) -> ParseAttempt {
        match self {
            Self::Request => take_request(head, text, limits, slots),
            Self::Response => take_response(head, text, limits, slots),
        }
    }

    #[cold]
    fn defect(self, text: &[u8], error: Error) -> Malformed {
        match self {
            Self::Request => defect::of_request(text, error),
            Self::Response => defect::of_response(text, error),
        }
    }
}

/// Parses the heads of one direction of a connection, one after the other.
#[derive(Debug, Default, Clone, Copy)]
pub struct HeadParser {
    /// How much of an incomplete head was already scanned.
    scanned: u32,
}

impl HeadParser {
    /// A parser at the start of a head.
    #[must_use]
    pub const fn new() -> Self {
        Self { scanned: 0 }
    }

    /// Parses a request head at the start of `input`, which has all bytes since the last message.
    ///
    /// "a server that is expecting to receive and parse a request-line SHOULD ignore at least one empty line (CRLF)
    /// received prior to the request-line" (RFC 9112 §2.2): exactly one is ignored.
    ///
    /// # Errors
    /// The rule that it breaks.
    #[inline]
    pub fn request(
        &mut self,
        head: &mut Head,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Parsed, Malformed> {
        let skipped = match input {
            [] | b"\r" | b"\r\n" => return Ok(Parsed::Incomplete),
            [b'\r', b'\n', ..] => 2,
            _ => 0,
        };
        let text = &input[skipped..];
        match text[0] {
            b'\n' if skipped == 0 => return Err(Malformed::BareLineFeed),
            b' ' | b'\t' | b'\r' | b'\n' => return Err(Malformed::LeadingWhitespace),
            _ => {}
        }
        self.parse(head, text, limits, HeadKind::Request).map(|parsed| match parsed {
            Parsed::Complete { consumed } => Parsed::Complete { consumed: consumed + skipped },
            Parsed::Incomplete => Parsed::Incomplete,
        })
    }

    /// Parses a response head at the start of `input`.
    ///
    /// # Errors
    /// The rule that it breaks.
    #[inline]
    pub fn response(
        &mut self,
        head: &mut Head,
        input: &[u8],
        limits: &HeadLimits,
    ) -> Result<Parsed, Malformed> {
        match input.first() {
            None => Ok(Parsed::Incomplete),
            Some(b'H') => self.parse(head, input, limits, HeadKind::Response),
            Some(_) => Err(Malformed::StatusLine),
        }
    }

    #[inline]
    fn parse(
        &mut self,
        head: &mut Head,
        text: &[u8],
        limits: &HeadLimits,
        kind: HeadKind,
    ) -> Result<Parsed, Malformed> {
        if !self.has_news(text) {
            return self.wait(head, text, limits);
        }
        let mut slots = [const { MaybeUninit::uninit() }; SLOTS];
        let limit = usize::from(limits.fields);
        let mut attempt = kind.take(head, text, limits, &mut slots[..limit.min(SLOTS)]);
        if matches!(attempt, ParseAttempt::Refused(Error::TooManyHeaders)) && limit > SLOTS {
            let mut slots: Vec<_> = (0..limit).map(|_| MaybeUninit::uninit()).collect();
            attempt = kind.take(head, text, limits, &mut slots);
        }
        match attempt {
            ParseAttempt::Complete(consumed) => {
                self.scanned = 0;
                Ok(Parsed::Complete { consumed })
            }
            ParseAttempt::Partial => self.wait(head, text, limits),
            ParseAttempt::Refused(error) => self.refuse(head, kind.defect(text, error)),
            ParseAttempt::Malformed(malformed) => self.refuse(head, malformed),
        }
    }

    /// Whether parsing again can give another result: only a new line end can. So a head that trickles in costs one
    /// attempt per line, not per byte.
    #[inline]
    fn has_news(&self, text: &[u8]) -> bool {
        let scanned = self.scanned as usize;
        scanned == 0 || text.get(scanned..).is_none_or(|fresh| memchr(b'\n', fresh).is_some())
    }

    /// Checks an incomplete head: it must not exceed a limit already, nor contain a bare LF, which can never become a
    /// line end.
    #[cold]
    fn wait(&mut self, head: &mut Head, text: &[u8], limits: &HeadLimits) -> Result<Parsed, Malformed> {
        let scanned = (self.scanned as usize).min(text.len());
        if memchr::memchr_iter(b'\n', &text[scanned..]).any(|at| !text[..scanned + at].ends_with(b"\r")) {
            return self.refuse(head, Malformed::BareLineFeed);
        }
        let line = limits.line_bytes as usize + 2;
        if text.get(..line).is_some_and(|line| memchr(b'\n', line).is_none()) {
            return self.refuse(head, Malformed::StartLineTooLong);
        }
        if text.len() >= limits.head_bytes as usize {
            return self.refuse(head, Malformed::HeadTooLarge);
        }
        self.scanned = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Ok(Parsed::Incomplete)
    }

    #[cold]
    fn refuse(&mut self, head: &mut Head, malformed: Malformed) -> Result<Parsed, Malformed> {
        head.clear();
        self.scanned = 0;
        Err(malformed)
    }
}

fn take_request<'b>(
    head: &mut Head,
    text: &'b [u8],
    limits: &HeadLimits,
    slots: Slots<'_, 'b>,
) -> ParseAttempt {
    let mut request = Request::new(&mut []);
    let end = match request.parse_with_uninit_headers(text, slots) {
        Ok(Status::Complete(end)) => end,
        Ok(Status::Partial) => return ParseAttempt::Partial,
        Err(error) => return ParseAttempt::Refused(error),
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return ParseAttempt::Malformed(Malformed::RequestLine);
    };
    // httparse accepts UTF-8; RFC 9112 §3.2 allows only ASCII.
    if !target.is_ascii() {
        return ParseAttempt::Malformed(Malformed::TargetInvalid);
    }
    let (method, target) = (span(text, method.as_bytes()), span(text, target.as_bytes()));
    let text = &text[..end];
    if let Err(rule) = check_lines(text, request.headers, limits) {
        return ParseAttempt::Malformed(rule);
    }
    head.receive(text, version(minor));
    head.found_request(method, target);
    take_fields(head, text, request.headers)
}

fn take_response<'b>(
    head: &mut Head,
    text: &'b [u8],
    limits: &HeadLimits,
    slots: Slots<'_, 'b>,
) -> ParseAttempt {
    let mut response = Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let end = match parser.parse_response_with_uninit_headers(&mut response, text, slots) {
        Ok(Status::Complete(end)) => end,
        Ok(Status::Partial) => return ParseAttempt::Partial,
        Err(error) => return ParseAttempt::Refused(error),
    };
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return ParseAttempt::Malformed(Malformed::StatusLine);
    };
    if status < 100 {
        return ParseAttempt::Malformed(Malformed::StatusLine);
    }
    let reason = match response.reason {
        Some(reason) if !reason.is_empty() => span(text, reason.as_bytes()),
        // An empty one need not be in the input.
        _ => Span::default(),
    };
    let text = &text[..end];
    if let Err(rule) = check_lines(text, response.headers, limits) {
        return ParseAttempt::Malformed(rule);
    }
    head.receive(text, version(minor));
    head.set_response_spans(status, reason);
    take_fields(head, text, response.headers)
}

/// Checks the limits of a complete head.
#[inline]
fn check_lines(text: &[u8], headers: &[Header<'_>], limits: &HeadLimits) -> Result<(), Malformed> {
    let line_end = headers.first().map_or(text.len() - 2, |first| offset_of(text, first.name.as_bytes()));
    if line_end > limits.line_bytes as usize + 2 {
        return Err(Malformed::StartLineTooLong);
    }
    if text.len() > limits.head_bytes as usize {
        return Err(Malformed::HeadTooLarge);
    }
    if text.ends_with(b"\r\n\r\n") { Ok(()) } else { Err(Malformed::BareLineFeed) }
}

/// Adds the fields of the head that was just copied. httparse accepts LF for CRLF: since every line begins with a name,
/// checking the two bytes before each name and the four at the end is enough.
fn take_fields(head: &mut Head, text: &[u8], headers: &[Header<'_>]) -> ParseAttempt {
    let mut connection = 0;
    for header in headers {
        let start = offset_of(text, header.name.as_bytes());
        if text[start - 2..start] != *b"\r\n" {
            return ParseAttempt::Malformed(Malformed::BareLineFeed);
        }
        if note(head, text, start, header) == Known::Connection {
            connection += header.value.len();
        }
    }
    if connection > CONNECTION_BYTES {
        return ParseAttempt::Malformed(Malformed::ConnectionTooLong);
    }
    ParseAttempt::Complete(text.len())
}

/// Adds a field in place if it is written as `name: value CRLF`; otherwise appends it in that form.
#[inline]
fn note(head: &mut Head, text: &[u8], start: usize, header: &Header<'_>) -> Known {
    let name_end = start + header.name.len();
    let end = name_end + 2 + header.value.len();
    let canonical = text[name_end + 1] == b' '
        && offset_of(text, header.value) == name_end + 2
        && text.get(end..end + 2) == Some(b"\r\n");
    if !canonical {
        head.append(header.name.as_bytes(), header.value);
        return Known::from_name(header.name.as_bytes());
    }
    head.add_field_span(Span::new(start, name_end), end)
}

/// The result of one attempt.
enum ParseAttempt {
    Complete(usize),
    Partial,
    Refused(Error),
    Malformed(Malformed),
}

#[inline]
fn version(minor: u8) -> Version {
    if minor == 0 { Version::Http10 } else { Version::Http11 }
}

/// The offset of a slice of `text` that httparse returned.
#[inline]
fn offset_of(text: &[u8], chunk: &[u8]) -> usize {
    chunk.as_ptr().addr() - text.as_ptr().addr()
}

#[inline]
fn span(text: &[u8], chunk: &[u8]) -> Span {
    let start = offset_of(text, chunk);
    Span::new(start, start + chunk.len())
}
