//! HTTP/1 parsing (RFC 9112) for generator and backend: the end of a head, its headers, and the end of the body. Keeps no
//! body, repairs nothing, and shares no code with the proxy's parser.

/// Why bytes are not valid HTTP/1.
pub(crate) type Malformed = &'static str;

/// The progress of parsing a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More bytes are needed.
    More,
    /// It is complete; this many of the bytes belonged to it.
    Done(usize),
}

/// The length of a head that ends with an empty line, searching from `from`.
pub(crate) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = bytes.get(at..)?.iter().position(|byte| *byte == b'\r') {
        let start = at + found;
        if bytes[start..].starts_with(b"\r\n\r\n") {
            return Some(start + 4);
        }
        at = start + 1;
    }
    None
}

/// The first line and the rest.
pub(crate) fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).ok_or("a line without its end")?;
    match bytes.get(end..end + 2) {
        Some(b"\r\n") => Ok((&bytes[..end], &bytes[end + 2..])),
        _ => Err("a line that does not end with CR LF"),
    }
}

/// The headers that determine connection and body.
#[derive(Default)]
pub(crate) struct Fields {
    /// Whether the connection closes after this message.
    pub(crate) close: bool,
    /// The framing of the body, if given.
    pub(crate) content: Option<Content>,
}

impl Fields {
    /// Parses lines up to the empty one and passes each name and value to `each`.
    pub(crate) fn read<'a>(
        &mut self,
        mut rest: &'a [u8],
        mut each: impl FnMut(&'a [u8], &'a [u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        loop {
            let (line, after) = line(rest)?;
            if line.is_empty() {
                return Ok(());
            }
            let colon = line.iter().position(|byte| *byte == b':').ok_or("a field without a colon")?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            self.field(name, value)?;
            each(name, value)?;
            rest = after;
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                if has_token(value, b"close") {
                    self.close = true;
                } else if has_token(value, b"keep-alive") {
                    self.close = false;
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = Content::Counted(number(value)?);
                self.content = match self.content {
                    Some(Content::Counted(_)) if self.content != Some(length) => {
                        return Err("two values of Content-Length");
                    }
                    Some(Content::Chunks(_)) => return Err("Content-Length together with Transfer-Encoding"),
                    _ => Some(length),
                };
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                // RFC 9112 §6.1: no other coding was requested, so none may be used.
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err("a Transfer-Encoding other than chunked");
                }
                self.content = match self.content {
                    Some(Content::Counted(_)) => {
                        return Err("Content-Length together with Transfer-Encoding");
                    }
                    Some(_) => return Err("Transfer-Encoding twice"),
                    None => Some(Content::Chunks(Chunks::default())),
                };
            }
            _ => {}
        }
        Ok(())
    }
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

fn number(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err("a Content-Length that is not a number");
    }
    Ok(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// The rest of a body, RFC 9112 §6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Counted(u64),
    Chunks(Chunks),
    /// Everything until the end of the stream.
    UntilEnd,
}

impl Content {
    /// Parses the next bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Malformed> {
        match self {
            Self::Counted(left) => {
                let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok(if *left == 0 { Progress::Done(used) } else { Progress::More })
            }
            Self::Chunks(chunks) => chunks.feed(bytes),
            Self::UntilEnd => Ok(Progress::More),
        }
    }
}

/// The position in the chunked transfer coding (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// Before the first digit of a size.
    #[default]
    Start,
    Size(u64),
    Extension(u64),
    /// After the CR of the line of a size.
    SizeEnd(u64),
    Content(u64),
    /// After the last byte of a chunk.
    ContentEnd,
    ContentLine,
    /// At the beginning of a line of trailers.
    Trailer,
    TrailerLine,
    TrailerEnd,
    LastLine,
}

/// No chunk is larger: its size has at most this many hexadecimal digits.
const MAX_CHUNK_BYTES: u64 = 1 << 56;

impl Chunks {
    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Malformed> {
        let mut at = 0;
        while at < bytes.len() {
            if let Self::Content(left) = *self {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += here;
                let left = left - here as u64;
                *self = if left == 0 { Self::ContentEnd } else { Self::Content(left) };
                continue;
            }
            let ended = *self == Self::LastLine && bytes[at] == b'\n';
            *self = self.after(bytes[at])?;
            at += 1;
            if ended {
                return Ok(Progress::Done(at));
            }
        }
        Ok(Progress::More)
    }

    fn after(self, byte: u8) -> Result<Self, Malformed> {
        Ok(match (self, byte) {
            (Self::Start, _) => Self::Size(digit(byte).ok_or("a chunk without a size")?),
            (Self::Size(size) | Self::Extension(size), b'\r') => Self::SizeEnd(size),
            (Self::Size(size), b';' | b' ' | b'\t') => Self::Extension(size),
            (Self::Size(size), _) if size < MAX_CHUNK_BYTES => {
                Self::Size(size * 16 + digit(byte).ok_or("a size of a chunk that is not a number")?)
            }
            (Self::Size(_), _) => return Err("a chunk that is too large"),
            (Self::Extension(_), b'\n') => return Err("a line of a chunk that ends without CR"),
            (Self::Extension(size), _) => Self::Extension(size),
            (Self::SizeEnd(0), b'\n') => Self::Trailer,
            (Self::SizeEnd(size), b'\n') => Self::Content(size),
            (Self::ContentEnd, b'\r') => Self::ContentLine,
            (Self::ContentLine, b'\n') => Self::Start,
            (Self::Trailer, b'\r') => Self::LastLine,
            (Self::TrailerLine, b'\r') => Self::TrailerEnd,
            (Self::Trailer | Self::TrailerLine, b'\n') => return Err("a trailer that ends without CR"),
            (Self::Trailer | Self::TrailerLine, _) => Self::TrailerLine,
            (Self::TrailerEnd, b'\n') => Self::Trailer,
            (Self::LastLine, b'\n') => Self::LastLine,
            _ => return Err("a chunk that does not end where its size says"),
        })
    }
}

fn digit(byte: u8) -> Option<u64> {
    (byte as char).to_digit(16).map(u64::from)
}
