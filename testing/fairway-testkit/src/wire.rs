//! A strict little reader of HTTP/1 messages, independent of Fairway's own. It knows no sockets and accepts nothing
//! that RFC 9112 only tolerates: a proxy under test must write canonical messages.

use std::fmt;

/// A header or trailer section in the order of the wire, names as they were written.
pub type Fields = Vec<(String, String)>;

/// Why bytes are no canonical HTTP/1 message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed HTTP/1: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for std::io::Error {
    fn from(error: Malformed) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// The framing of a body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// `Content-Length` bytes.
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Until the connection closes; responses only.
    Close,
}

/// The start line and the fields of a message, and how many bytes they took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The first line without its CRLF.
    pub start: String,
    /// The fields.
    pub fields: Fields,
    /// The bytes up to and including the empty line.
    pub length: usize,
}

/// A decoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkedBody {
    /// The data of the chunks in a row.
    pub content: Vec<u8>,
    /// The trailer section.
    pub trailers: Fields,
    /// The bytes of the wire it took.
    pub length: usize,
}

/// Parses a head at the start of `bytes`; `None` if it is incomplete.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let Some((start, mut at)) = line(bytes)? else { return Ok(None) };
    if start.is_empty() {
        return Err(Malformed("an empty start line".into()));
    }
    let start = text(start)?;
    match fields(&bytes[at..])? {
        Some((fields, length)) => {
            at += length;
            Ok(Some(Head { start, fields, length: at }))
        }
        None => Ok(None),
    }
}

/// Parses a chunked body at the start of `bytes`; `None` if it is incomplete. Chunk extensions are rejected: no program
/// under test may write or forward one.
pub fn chunked(bytes: &[u8]) -> Result<Option<ChunkedBody>, Malformed> {
    let (mut at, mut content) = (0, Vec::new());
    loop {
        let Some((size_line, used)) = line(&bytes[at..])? else { return Ok(None) };
        let size = chunk_size(size_line)?;
        at += used;
        if size == 0 {
            break;
        }
        let Some(piece) = bytes.get(at..at + size + 2) else { return Ok(None) };
        if !piece.ends_with(b"\r\n") {
            return Err(Malformed(format!("a chunk of {size} bytes is not followed by CRLF")));
        }
        content.extend_from_slice(&piece[..size]);
        at += size + 2;
    }
    let Some((trailers, used)) = fields(&bytes[at..])? else { return Ok(None) };
    Ok(Some(ChunkedBody { content, trailers, length: at + used }))
}

/// The framing given by the headers (RFC 9112 §6.3); `None` without framing headers.
pub fn framing(fields: &Fields) -> Result<Option<Framing>, Malformed> {
    let lengths = values(fields, "content-length");
    let codings = values(fields, "transfer-encoding");
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(None),
        ([length], []) => Ok(Some(Framing::Length(decimal(length)?))),
        ([], ["chunked"]) => Ok(Some(Framing::Chunked)),
        _ => Err(Malformed(format!("ambiguous framing: lengths {lengths:?}, codings {codings:?}"))),
    }
}

/// Every value of the field `name`, whatever its case.
pub fn values<'f>(fields: &'f Fields, name: &str) -> Vec<&'f str> {
    fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
}

/// A line without its CRLF, and the bytes it took with it. Bare CR and bare LF are refused (RFC 9112 §2.2).
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 0)) else { return Ok(None) };
    match (bytes[end], bytes.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some((&bytes[..end], end + 2))),
        (b'\r', None) => Ok(None),
        (byte, _) => {
            Err(Malformed(format!("a stray {byte:#04x} after {:?}", String::from_utf8_lossy(&bytes[..end]))))
        }
    }
}

fn fields(bytes: &[u8]) -> Result<Option<(Fields, usize)>, Malformed> {
    let (mut fields, mut at) = (Vec::new(), 0);
    loop {
        let Some((content, used)) = line(&bytes[at..])? else { return Ok(None) };
        at += used;
        if content.is_empty() {
            return Ok(Some((fields, at)));
        }
        fields.push(field(content)?);
    }
}

fn field(content: &[u8]) -> Result<(String, String), Malformed> {
    let shown = String::from_utf8_lossy(content).into_owned();
    let colon = content.iter().position(|byte| *byte == b':');
    let Some((name, value)) = colon.map(|colon| (&content[..colon], &content[colon + 1..])) else {
        return Err(Malformed(format!("a field without a colon: {shown:?}")));
    };
    if name.is_empty() || !name.iter().copied().all(is_token) {
        return Err(Malformed(format!("a field name that is no token: {shown:?}")));
    }
    Ok((text(name)?, text(value.trim_ascii())?))
}

fn chunk_size(digits: &[u8]) -> Result<usize, Malformed> {
    let shown = String::from_utf8_lossy(digits);
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(Malformed(format!("a chunk size of {shown:?}")));
    }
    usize::from_str_radix(&shown, 16)
        .map_err(|error| Malformed(format!("a chunk size of {shown:?}: {error}")))
}

fn decimal(digits: &str) -> Result<usize, Malformed> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Malformed(format!("a content-length of {digits:?}")));
    }
    digits.parse().map_err(|error| Malformed(format!("a content-length of {digits:?}: {error}")))
}

/// The bytes as text, one character per byte above ASCII (obs-text is Latin-1 by tradition).
fn text(bytes: &[u8]) -> Result<String, Malformed> {
    match bytes.iter().find(|byte| byte.is_ascii_control() && **byte != b'\t') {
        Some(byte) => Err(Malformed(format!("a control byte {byte:#04x}"))),
        None => Ok(bytes.iter().copied().map(char::from).collect()),
    }
}

/// A character of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_only_when_complete() {
        let message = b"GET / HTTP/1.1\r\nHost: a\r\nX:  two words \r\n\r\nrest";
        for cut in 0..message.len() - 4 {
            assert_eq!(head(&message[..cut]), Ok(None), "{cut}");
        }
        let read = head(message).unwrap().unwrap();
        assert_eq!(read.start, "GET / HTTP/1.1");
        assert_eq!(read.fields, [("Host".into(), "a".into()), ("X".into(), "two words".into())]);
        assert_eq!(&message[read.length..], b"rest");
    }

    #[test]
    fn a_chunked_body_is_decoded_with_its_trailers() {
        let encoded = b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\nSum: 1\r\n\r\nnext";
        for cut in 0..encoded.len() - 4 {
            assert_eq!(chunked(&encoded[..cut]), Ok(None), "{cut}");
        }
        let body = chunked(encoded).unwrap().unwrap();
        assert_eq!(body.content, b"abc0123456789");
        assert_eq!(body.trailers, [("Sum".into(), "1".into())]);
        assert_eq!(&encoded[body.length..], b"next");
    }

    #[test]
    fn tolerated_forms_are_refused() {
        for bad in [
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\0\r\n\r\n",
        ] {
            assert!(head(bad.as_bytes()).is_err(), "{bad:?}");
        }
        for bad in ["+3\r\nabc\r\n", "3;x=y\r\nabc\r\n", "3 \r\nabc\r\n", "0x3\r\n", "3\r\nabcd\r\n", "\r\n"]
        {
            assert!(chunked(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn two_framing_fields_are_ambiguous() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let both = vec![field("Content-Length", "1"), field("Transfer-Encoding", "chunked")];
        assert!(framing(&both).is_err());
        assert!(framing(&vec![field("content-length", "1"), field("Content-Length", "1")]).is_err());
        assert!(framing(&vec![field("Content-Length", "+1")]).is_err());
        assert_eq!(framing(&vec![field("content-length", "07")]), Ok(Some(Framing::Length(7))));
        assert_eq!(framing(&vec![]), Ok(None));
    }
}
