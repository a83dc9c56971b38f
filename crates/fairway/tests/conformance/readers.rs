//! How many requests a stream of bytes contains, and where each ends, according to different servers. One reader is strict; the
//! others each repeat one known behaviour of lenient servers. A stream that two of them split differently could smuggle a request.
//! No code of the proxy is used here.

use fairway_testkit::wire::{self, Framing};

/// A request of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The position after it.
    pub(crate) end: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    /// Number of content bytes, without chunk lines and trailers.
    pub(crate) content: usize,
}

impl Message {
    /// The text with which every backend of these tests responds.
    pub(crate) fn echoed_text(&self) -> String {
        format!("{} {} {}", self.method, self.target, self.content)
    }
}

/// What follows the last complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// The beginning of a request.
    Partial,
    /// Something that is not a request.
    Refused(String),
}

/// A stream as a reader splits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) messages: Vec<Message>,
    pub(crate) unread: Rest,
}

/// The result of a reader for the start of some bytes; the end is relative to it.
type Step = Result<Option<Message>, String>;

fn read_all(bytes: &[u8], mut next: impl FnMut(&[u8]) -> Step) -> Reading {
    let mut messages: Vec<Message> = Vec::new();
    loop {
        let at = messages.last().map_or(0, |message| message.end);
        let unread = &bytes[at..];
        if unread.is_empty() {
            return Reading { messages, unread: Rest::Nothing };
        }
        match next(unread) {
            Ok(Some(message)) if message.end > 0 => {
                messages.push(Message { end: at + message.end, ..message });
            }
            Ok(_) => return Reading { messages, unread: Rest::Partial },
            Err(why) => return Reading { messages, unread: Rest::Refused(why) },
        }
    }
}

/// Strictly by RFC 9112, without anything that it only tolerates.
pub(crate) fn strict(bytes: &[u8]) -> Reading {
    read_all(bytes, strict_one)
}

/// The first request of `bytes`; `None` while it is incomplete.
pub(crate) fn strict_one(bytes: &[u8]) -> Step {
    let Some(head) = wire::head(bytes).map_err(|error| error.0)? else { return Ok(None) };
    let parts: Vec<&str> = head.start.split(' ').collect();
    let [method, target, "HTTP/1.1"] = parts[..] else { return Err(format!("{:?}", head.start)) };
    let is_target = |target: &str| !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    if !method.bytes().all(|byte| byte.is_ascii_graphic()) || !is_target(target) {
        return Err(format!("{:?}", head.start));
    }
    if wire::values(&head.fields, "host").len() != 1 {
        return Err("not exactly one Host".to_owned());
    }
    let body = &bytes[head.length..];
    let (length, content) = match wire::framing(&head.fields).map_err(|error| error.0)? {
        None | Some(Framing::None | Framing::Close) => (0, 0),
        Some(Framing::Length(length)) if body.len() < length => return Ok(None),
        Some(Framing::Length(length)) => (length, length),
        Some(Framing::Chunked) => match wire::chunked(body).map_err(|error| error.0)? {
            None => return Ok(None),
            Some(chunked) => (chunked.length, chunked.content.len()),
        },
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    Ok(Some(Message { end: head.length + length, method, target, content }))
}

/// The line ends that a reader accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// CRLF, and LF alone.
    Lf,
    /// CRLF, LF and CR.
    CrOrLf,
    /// CRLF alone.
    CrLf,
}

/// How the name of a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// As written, ignoring case.
    Exact,
    /// Without surrounding white space and control bytes.
    Trimmed,
    /// With `-` for every byte that is not a letter or digit, as in CGI and frameworks that map names to variables. None is known
    /// to drop hyphens: there `TransferEncoding` is a different name (`HTTP_TRANSFERENCODING`) and a token like any other, so it
    /// passes.
    Mapped,
}

/// Which framing field wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    FirstLength,
    LastLength,
    Chunked,
    /// The last one.
    Last,
}

/// A lenient server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lenient {
    pub(crate) name: &'static str,
    lines: Lines,
    names: Names,
    order: Order,
}

const fn lenient(name: &'static str, lines: Lines, names: Names, order: Order) -> Lenient {
    Lenient { name, lines, names, order }
}

/// Each reader has one flaw.
pub(crate) const LENIENT: [Lenient; 10] = [
    lenient("length-first", Lines::CrLf, Names::Exact, Order::FirstLength),
    lenient("last-length", Lines::CrLf, Names::Exact, Order::LastLength),
    lenient("chunked-first", Lines::CrLf, Names::Exact, Order::Chunked),
    lenient("last-framing-field", Lines::CrLf, Names::Exact, Order::Last),
    lenient("bare-lf", Lines::Lf, Names::Exact, Order::Chunked),
    lenient("bare-cr", Lines::CrOrLf, Names::Exact, Order::Chunked),
    lenient("whitespace-length", Lines::Lf, Names::Trimmed, Order::FirstLength),
    lenient("whitespace-chunked", Lines::Lf, Names::Trimmed, Order::Chunked),
    lenient("mapped-length", Lines::Lf, Names::Mapped, Order::LastLength),
    lenient("mapped-chunked", Lines::Lf, Names::Mapped, Order::Chunked),
];

impl Lenient {
    pub(crate) fn read(&self, bytes: &[u8]) -> Reading {
        read_all(bytes, |bytes| self.read_one(bytes))
    }

    fn read_one(&self, bytes: &[u8]) -> Step {
        let mut at = 0;
        // Skip empty lines before a request.
        let start = loop {
            let Some((line, used)) = self.line(&bytes[at..]) else { return Ok(None) };
            at += used;
            if !line.trim_ascii().is_empty() {
                break line;
            }
        };
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        loop {
            let Some((line, used)) = self.line(&bytes[at..]) else { return Ok(None) };
            at += used;
            match (line, fields.last_mut()) {
                ([], _) => break,
                // A folded line belongs to the previous field.
                ([b' ' | b'\t', ..], Some((_, value))) => value.extend_from_slice(line),
                _ => fields.push(self.field(line)),
            }
        }
        let mut words = start.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (method, target) = (text(words.next()), text(words.next()));
        let body = &bytes[at..];
        let found = match self.framing(&fields) {
            Some(Body::Length(length)) => (body.len() >= length).then_some((length, length)),
            Some(Body::Chunked) => self.chunked(body),
            None => Some((0, 0)),
        };
        Ok(found.map(|(length, content)| Message { end: at + length, method, target, content }))
    }

    fn line<'b>(&self, bytes: &'b [u8]) -> Option<(&'b [u8], usize)> {
        let ends = |at: usize| match (self.lines, &bytes[at..]) {
            (_, [b'\r', b'\n', ..]) => Some(2),
            (Lines::Lf | Lines::CrOrLf, [b'\n', ..]) => Some(1),
            // The LF of this CR may still follow.
            (Lines::CrOrLf, [b'\r', _, ..]) => Some(1),
            _ => None,
        };
        (0..bytes.len()).find_map(|at| ends(at).map(|end| (&bytes[..at], at + end)))
    }

    fn field(&self, line: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        let is_edge = |byte: &u8| *byte <= b' ' || *byte >= 0x7f;
        let name: Vec<u8> = match self.names {
            Names::Exact => name.to_vec(),
            Names::Trimmed => {
                let start = name.iter().position(|byte| !is_edge(byte)).unwrap_or(name.len());
                let end = name.iter().rposition(|byte| !is_edge(byte)).map_or(start, |at| at + 1);
                name[start..end].to_vec()
            }
            Names::Mapped => {
                name.iter().map(|byte| if byte.is_ascii_alphanumeric() { *byte } else { b'-' }).collect()
            }
        };
        (name.to_ascii_lowercase(), value.to_vec())
    }

    fn framing(&self, fields: &[(Vec<u8>, Vec<u8>)]) -> Option<Body> {
        let (length, coding): (&[u8], &[u8]) = (b"content-length", b"transfer-encoding");
        let framing: Vec<Body> = fields
            .iter()
            .filter_map(|(name, value)| match name {
                name if name == length => Some(Body::Length(first_number(value))),
                name if name == coding && says_chunked(value) => Some(Body::Chunked),
                _ => None,
            })
            .collect();
        let is_length = |body: &&Body| **body != Body::Chunked;
        let preferred = match self.order {
            Order::FirstLength => framing.iter().find(is_length),
            Order::LastLength => framing.iter().rfind(is_length),
            Order::Chunked => framing.iter().find(|body| !is_length(body)),
            Order::Last => framing.last(),
        };
        preferred.or(framing.first()).copied()
    }

    /// The length of a chunked body and of its content. Ignores extensions, signs, `0x` and missing line ends.
    fn chunked(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let (mut at, mut content) = (0, 0usize);
        loop {
            let (line, used) = self.line(&bytes[at..])?;
            let size = first_hexadecimal(line);
            at += used;
            if size == 0 {
                break;
            }
            let end = at.checked_add(size).filter(|end| *end < bytes.len())?;
            content += size;
            at = end + bytes[end..].iter().take(2).take_while(|byte| b"\r\n".contains(byte)).count();
        }
        loop {
            let (line, used) = self.line(&bytes[at..])?;
            at += used;
            if line.is_empty() {
                return Some((at, content));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length(usize),
    Chunked,
}

fn text(word: Option<&[u8]>) -> String {
    word.unwrap_or_default().iter().copied().map(char::from).collect()
}

/// The first digits, ignoring everything around them.
fn first_number(value: &[u8]) -> usize {
    let digits =
        value.iter().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number.saturating_mul(10).saturating_add(usize::from(digit - b'0')))
}

fn says_chunked(value: &[u8]) -> bool {
    value.to_ascii_lowercase().windows(7).any(|part| part == b"chunked")
}

fn first_hexadecimal(line: &[u8]) -> usize {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"+").or(line.strip_prefix(b"-")).unwrap_or(line);
    let line = line.strip_prefix(b"0x").or(line.strip_prefix(b"0X")).unwrap_or(line);
    let digits = line.iter().map_while(|byte| char::from(*byte).to_digit(16));
    digits.fold(0, |number, digit| number.saturating_mul(16).saturating_add(digit as usize))
}

/// Describes where the lenient readers disagree with the strict one.
pub(crate) fn disagreements(stream: &[u8]) -> Vec<String> {
    let strict = strict(stream);
    let mut found = Vec::new();
    if let Rest::Refused(why) = &strict.unread {
        found.push(format!("strict: {why}"));
    }
    for reader in &LENIENT {
        let reading = reader.read(stream);
        if reading != strict {
            found.push(format!("{}: {reading:?}, strict: {strict:?}", reader.name));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the readers that disagree.
    fn recipients(stream: &[u8]) -> Vec<String> {
        let found = disagreements(stream);
        found.iter().map(|finding| finding.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn all_readers_agree_on_canonical_streams() {
        let stream = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n\
            POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
            POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n\
            GET /d HTTP/1.1\r\nHo";
        assert_eq!(recipients(stream), [""; 0]);
        let read = strict(stream);
        let received: Vec<_> = read.messages.iter().map(Message::echoed_text).collect();
        assert_eq!(
            (received.as_slice(), &read.unread),
            (&["GET /a 0", "POST /b 3", "POST /c 3"].map(String::from)[..], &Rest::Partial)
        );
    }

    #[test]
    fn each_reader_detects_its_kind_of_payload() {
        let post = |fields: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
        let cases = [
            (post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), "strict"),
            (post("Content-Length: 6\r\nTransfer-Encoding: chunked", "0\r\n\r\nX"), "length-first"),
            (post("Content-Length: 1\r\nContent-Length: 2", "ab"), "length-first"),
            (post("Content-Length: 1\r\nContent-Length: 2", "ab"), "last-length"),
            (post("X: y\nTransfer-Encoding: chunked", "0\r\n\r\n"), "bare-lf"),
            (post("X: y\rTransfer-Encoding: chunked", "0\r\n\r\n"), "bare-cr"),
            (post("Content-Length : 3", "abc"), "whitespace-length"),
            (post("X: y\r\n Z: q\r\nTransfer-Encoding\x0b: chunked", "0\r\n\r\n"), "whitespace-chunked"),
            (post("Content_Length: 3", "abc"), "mapped-length"),
            (post("Transfer_Encoding: chunked", "0\r\n\r\n"), "mapped-chunked"),
        ];
        for (stream, reader) in cases {
            assert!(
                recipients(stream.as_bytes()).iter().any(|it| it == reader),
                "{reader}: {stream:?} {:?}",
                recipients(stream.as_bytes())
            );
        }
    }
}
