//! Received bytes to a head: `httparse` cuts it into tokens, the rules it does not have are checked here.
//! Never keeps the input: a complete head is copied once.

use std::mem::MaybeUninit;

use httparse::{Error, Header, Request, Response, Status};
use memchr::memchr;

use super::{Field, Head, Known, Method, Span, Start, Version, defect, offset};
use crate::malformed::Malformed;

/// Fields for which the parser needs no heap.
const SLOTS: usize = 64;

/// `Connection` is compared with every field, so its length is bounded: 1 KiB is far beyond real ones.
const CONNECTION_BYTES: usize = 1024;

/// How large a head may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head.
    pub head_bytes: u32,
    /// Number of fields.
    pub fields: u16,
    /// Bytes of the start line.
    pub line_bytes: u32,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits { head_bytes: 32 * 1024, fields: 100, line_bytes: 8 * 1024 }
    }
}

/// What came of an attempt to parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The head does not end in the input: call again with the same bytes and more.
    Incomplete,
    /// The head ends after this many bytes of the input.
    Complete {
        /// Bytes of the input that belong to the head, an empty line before it included.
        consumed: usize,
    },
}

type Slots<'h, 'b> = &'h mut [MaybeUninit<Header<'b>>];

impl Head {
    /// Parses a request head from the beginning of `input`, which holds all bytes since the last message.
    ///
    /// "a server that is expecting to receive and parse a request-line SHOULD ignore at least one empty
    /// line (CRLF) received prior to the request-line" (RFC 9112 §2.2): exactly one is.
    pub fn parse_request(&mut self, input: &[u8], limits: &HeadLimits) -> Result<Parsed, Malformed> {
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
        self.parse(text, limits, Head::take_request, defect::of_request).map(|parsed| match parsed {
            Parsed::Complete { consumed } => Parsed::Complete { consumed: consumed + skipped },
            Parsed::Incomplete => Parsed::Incomplete,
        })
    }

    /// Parses a response head from the beginning of `input`.
    pub fn parse_response(&mut self, input: &[u8], limits: &HeadLimits) -> Result<Parsed, Malformed> {
        match input.first() {
            None => Ok(Parsed::Incomplete),
            Some(b'H') => self.parse(input, limits, Head::take_response, defect::of_response),
            Some(_) => Err(Malformed::StatusLine),
        }
    }

    #[inline]
    fn parse(
        &mut self,
        text: &[u8],
        limits: &HeadLimits,
        take: impl for<'b> Fn(&mut Head, &'b [u8], &HeadLimits, Slots<'_, 'b>) -> Taken,
        defect: impl Fn(&[u8], Error) -> Malformed,
    ) -> Result<Parsed, Malformed> {
        if !self.has_news(text) {
            return self.wait(text, limits);
        }
        let mut slots = [const { MaybeUninit::uninit() }; SLOTS];
        let most = usize::from(limits.fields);
        let mut taken = take(self, text, limits, &mut slots[..most.min(SLOTS)]);
        if matches!(taken, Taken::Refused(Error::TooManyHeaders)) && most > SLOTS {
            let mut slots: Vec<_> = (0..most).map(|_| MaybeUninit::uninit()).collect();
            taken = take(self, text, limits, &mut slots);
        }
        match taken {
            Taken::Complete(consumed) => Ok(Parsed::Complete { consumed }),
            Taken::Partial => self.wait(text, limits),
            Taken::Refused(error) => self.refuse(defect(text, error)),
            Taken::Malformed(malformed) => self.refuse(malformed),
        }
    }

    fn take_request<'b>(&mut self, text: &'b [u8], limits: &HeadLimits, slots: Slots<'_, 'b>) -> Taken {
        let mut request = Request::new(&mut []);
        let end = match request.parse_with_uninit_headers(text, slots) {
            Ok(Status::Complete(end)) => end,
            Ok(Status::Partial) => return Taken::Partial,
            Err(error) => return Taken::Refused(error),
        };
        let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
        else {
            return Taken::Malformed(Malformed::RequestLine);
        };
        // httparse lets UTF-8 pass; RFC 9112 §3.2 knows only ASCII.
        if !target.is_ascii() {
            return Taken::Malformed(Malformed::TargetInvalid);
        }
        self.version = version(minor);
        self.start = Start::Request {
            method: Method::of(method.as_bytes()),
            name: span(text, method.as_bytes()),
            target: span(text, target.as_bytes()),
        };
        self.take_fields(&text[..end], request.headers, limits)
    }

    fn take_response<'b>(&mut self, text: &'b [u8], limits: &HeadLimits, slots: Slots<'_, 'b>) -> Taken {
        let mut response = Response::new(&mut []);
        let parser = httparse::ParserConfig::default();
        let end = match parser.parse_response_with_uninit_headers(&mut response, text, slots) {
            Ok(Status::Complete(end)) => end,
            Ok(Status::Partial) => return Taken::Partial,
            Err(error) => return Taken::Refused(error),
        };
        let (Some(status), Some(minor)) = (response.code, response.version) else {
            return Taken::Malformed(Malformed::StatusLine);
        };
        if status < 100 {
            return Taken::Malformed(Malformed::StatusLine);
        }
        self.version = version(minor);
        let reason = match response.reason {
            Some(reason) if !reason.is_empty() => span(text, reason.as_bytes()),
            // An empty one need not lie in the input.
            _ => Span::default(),
        };
        self.start = Start::Response { status, reason };
        self.take_fields(&text[..end], response.headers, limits)
    }

    /// Copies the head and notes its fields. httparse takes LF for CRLF: as every line begins with a
    /// name, the two bytes before each name and the four at the end are all that must be looked at.
    fn take_fields(&mut self, text: &[u8], headers: &[Header<'_>], limits: &HeadLimits) -> Taken {
        let line_end = headers.first().map_or(text.len() - 2, |first| place(text, first.name.as_bytes()));
        if line_end > limits.line_bytes as usize + 2 {
            return Taken::Malformed(Malformed::StartLineTooLong);
        }
        if text.len() > limits.head_bytes as usize {
            return Taken::Malformed(Malformed::HeadTooLarge);
        }
        if !text.ends_with(b"\r\n\r\n") {
            return Taken::Malformed(Malformed::BareLineFeed);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(text);
        self.fields.clear();
        self.present = 0;
        let mut connection = 0;
        for header in headers {
            let start = place(text, header.name.as_bytes());
            if text[start - 2..start] != *b"\r\n" {
                return Taken::Malformed(Malformed::BareLineFeed);
            }
            let field = self.note(text, start, header);
            if field == Known::Connection {
                connection += header.value.len();
            }
        }
        if connection > CONNECTION_BYTES {
            return Taken::Malformed(Malformed::ConnectionTooLong);
        }
        self.scanned = 0;
        Taken::Complete(text.len())
    }

    /// Notes a field where it lies if it lies there as `name: value CRLF`, or else lays it down so.
    #[inline]
    fn note(&mut self, text: &[u8], start: usize, header: &Header<'_>) -> Known {
        let name_end = start + header.name.len();
        let end = name_end + 2 + header.value.len();
        let canonical = text[name_end + 1] == b' '
            && place(text, header.value) == name_end + 2
            && text.get(end..end + 2) == Some(b"\r\n");
        if !canonical {
            self.append(header.name.as_bytes(), header.value);
            return Known::of(header.name.as_bytes());
        }
        let known = Known::of(header.name.as_bytes());
        self.present |= known.bit();
        self.fields.push(Field { start: offset(start), name_end: offset(name_end), end: offset(end), known });
        known
    }

    /// Whether parsing can come to another end than last time: only a line end changes anything. So a
    /// head that drips in costs one look per line, of which there are few, and not one per byte.
    #[inline]
    fn has_news(&self, text: &[u8]) -> bool {
        let seen = self.scanned as usize;
        seen == 0 || text.get(seen..).is_none_or(|fresh| memchr(b'\n', fresh).is_some())
    }

    /// The head is incomplete: it must not be over a limit already, nor have a bare LF, which will never
    /// become an end.
    #[cold]
    fn wait(&mut self, text: &[u8], limits: &HeadLimits) -> Result<Parsed, Malformed> {
        let seen = (self.scanned as usize).min(text.len());
        if memchr::memchr_iter(b'\n', &text[seen..]).any(|at| !text[..seen + at].ends_with(b"\r")) {
            return self.refuse(Malformed::BareLineFeed);
        }
        let line = limits.line_bytes as usize + 2;
        if text.get(..line).is_some_and(|line| memchr(b'\n', line).is_none()) {
            return self.refuse(Malformed::StartLineTooLong);
        }
        if text.len() >= limits.head_bytes as usize {
            return self.refuse(Malformed::HeadTooLarge);
        }
        self.scanned = offset(text.len());
        Ok(Parsed::Incomplete)
    }

    #[cold]
    fn refuse(&mut self, malformed: Malformed) -> Result<Parsed, Malformed> {
        self.clear();
        Err(malformed)
    }
}

/// What one attempt found.
enum Taken {
    Complete(usize),
    Partial,
    Refused(Error),
    Malformed(Malformed),
}

#[inline]
fn version(minor: u8) -> Version {
    if minor == 0 { Version::Http10 } else { Version::Http11 }
}

/// Where a piece that httparse cut out of `text` begins in it.
#[inline]
fn place(text: &[u8], piece: &[u8]) -> usize {
    piece.as_ptr().addr() - text.as_ptr().addr()
}

#[inline]
fn span(text: &[u8], piece: &[u8]) -> Span {
    let start = place(text, piece);
    Span::new(start, start + piece.len())
}
