//! A strict parser for HTTP/1 responses. It keeps only the length of a body and repairs nothing: whatever RFC 9112 does not
//! allow a server to send is malformed.
//!
//! ```text
//! head ──1xx──► head
//!   │ no content ─────────────► done
//!   ├ Content-Length ─► counted ─► done
//!   ├ chunked ─► chunks ─────► done
//!   └ neither ─► until the end of the stream
//! ```

use fairway_lab_measure::results::Class;

use super::plan::{Expect, Plan, Protocol};
use super::searched_fields::Sought;
use super::thread_counts::RequestOutcome;
use crate::http1::{Content, Fields, Malformed, Progress, end_of_head, line};

/// Largest response head, bytes.
const HEAD_LIMIT: usize = 64 * 1024;

/// The plan's expectations of a response, prepared for the parsers.
pub(super) struct Expected {
    pub(super) is_head: bool,
    pub(super) header: Option<(String, String)>,
    pub(super) expect: Expect,
    /// The expected header and trailer, encoded for HTTP/3.
    pub(super) sought: Sought,
    /// The length of the datagrams that are sent and echoed, bytes.
    pub(super) echo: Option<usize>,
}

impl Expected {
    pub(super) fn new(plan: &Plan) -> Self {
        let expect = plan.expect.clone();
        Self {
            is_head: plan.request.method == "HEAD",
            header: expect.header.as_ref().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())),
            echo: (plan.wire.protocol == Protocol::Datagrams).then_some(plan.request.body.len()),
            sought: Sought::new(expect.header.as_ref(), expect.trailer.as_ref()),
            expect,
        }
    }

    /// The outcome of a complete response.
    pub(super) fn outcome_for(
        &self,
        status: u16,
        matched: bool,
        line: impl FnOnce() -> String,
    ) -> RequestOutcome {
        let wrong = if !self.expect.allows(status) {
            Some((Class::Status(status), line()))
        } else if let Some((name, value)) = &self.header
            && !matched
        {
            Some((Class::WrongRoute, format!("{}, without {name}: {value}", line())))
        } else {
            None
        };
        RequestOutcome::Answered { wrong }
    }
}

/// Parses one response after another on a connection.
#[derive(Default)]
pub(super) struct Reader {
    /// An incomplete head.
    partial: Vec<u8>,
    /// The head of the current response.
    head: Head,
    /// The rest of the body; `None` until the head is complete.
    content: Option<Content>,
}

/// The parts of a head that matter here. Other headers are checked for syntax only.
#[derive(Default)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Whether the server closes the connection after this response.
    pub(super) close: bool,
    /// Whether the expected header is present with its value.
    pub(super) matched: bool,
    /// The status line, for examples of errors.
    line: Vec<u8>,
}

impl Reader {
    /// Prepares for the next response.
    pub(super) fn reset(&mut self) {
        self.partial.clear();
        self.content = None;
    }

    /// The head of the response, once complete.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Whether the head is complete.
    pub(super) fn has_head(&self) -> bool {
        self.content.is_some()
    }

    /// Whether any byte of the response has arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.has_head() || !self.partial.is_empty()
    }

    /// Whether the end of the stream completes the response.
    pub(super) fn is_complete_at_end(&self) -> bool {
        self.content == Some(Content::UntilEnd)
    }

    /// Parses the next bytes of the stream.
    pub(super) fn feed(&mut self, bytes: &[u8], expected: &Expected) -> Result<Progress, Malformed> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if let Some(content) = &mut self.content {
                return Ok(match content.feed(rest)? {
                    Progress::Done(used) => Progress::Done(at + used),
                    Progress::More => Progress::More,
                });
            }
            let Some(used) = self.feed_head(rest, expected)? else { return Ok(Progress::More) };
            at += used;
        }
    }

    /// The number of bytes that completed the head, or `None` while it is incomplete.
    fn feed_head(&mut self, bytes: &[u8], expected: &Expected) -> Result<Option<usize>, Malformed> {
        let before = self.partial.len();
        if before == 0
            && let Some(length) = end_of_head(bytes, 0)
        {
            // The common case: the whole head is in one buffer and needs no copy.
            self.read_head(&bytes[..length], expected)?;
            return Ok(Some(length));
        }
        self.partial.extend_from_slice(bytes);
        if let Some(length) = end_of_head(&self.partial, before.saturating_sub(3)) {
            let partial = std::mem::take(&mut self.partial);
            self.read_head(&partial[..length], expected)?;
            return Ok(Some(length - before));
        }
        if self.partial.len() > HEAD_LIMIT {
            return Err("a head longer than 64 KiB");
        }
        // The first bytes show that this is not HTTP/1.
        let known = self.partial.len().min(5);
        if self.partial[..known] != b"HTTP/"[..known] {
            return Err("it does not begin with HTTP/");
        }
        Ok(None)
    }

    /// Parses a complete head and determines the body's framing (RFC 9112 §6.3).
    fn read_head(&mut self, bytes: &[u8], expected: &Expected) -> Result<(), Malformed> {
        let head = self.head.read(bytes, expected)?;
        self.content = match self.head.status {
            101 => return Err("101 without an upgrade request"),
            // RFC 9110 §15.2: any number of interim responses may precede the final one.
            100..=199 => None,
            204 | 304 => Some(Content::Counted(0)),
            // RFC 9110 §9.3.2: a response to HEAD has no content.
            _ if expected.is_head => Some(Content::Counted(0)),
            _ => head.or(Some(Content::UntilEnd)),
        };
        self.head.close |= self.is_complete_at_end();
        Ok(())
    }
}

impl Head {
    /// Parses a complete head with its empty line. Returns the framing of the body if a header states it.
    fn read(&mut self, bytes: &[u8], expected: &Expected) -> Result<Option<Content>, Malformed> {
        let (line, rest) = line(bytes)?;
        let minor = match line {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', ..] => *minor,
            _ => return Err("its status line does not begin with HTTP/1.0 or HTTP/1.1"),
        };
        self.status = match line.get(9..12) {
            Some([first @ b'1'..=b'9', second @ b'0'..=b'9', third @ b'0'..=b'9'])
                if matches!(line.get(12), None | Some(b' ')) =>
            {
                [first, second, third].iter().fold(0, |status, digit| status * 10 + u16::from(**digit - b'0'))
            }
            _ => return Err("its status is not three digits"),
        };
        self.line.clear();
        self.line.extend_from_slice(&line[..line.len().min(200)]);
        // RFC 9112 §9.3: HTTP/1.0 closes the connection unless the response says otherwise.
        let mut fields = Fields { close: minor == b'0', content: None };
        let mut matched = false;
        fields.read(rest, |name, value| {
            if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
                return Err("the name of a field is not a token");
            }
            if value.iter().any(|byte| *byte == 0x7f || (*byte < 0x20 && *byte != b'\t')) {
                return Err("the value of a field has a control character");
            }
            if let Some((wanted, content)) = &expected.header
                && name.eq_ignore_ascii_case(wanted.as_bytes())
            {
                matched |= value == content.as_bytes();
            }
            Ok(())
        })?;
        (self.close, self.matched) = (fields.close, matched);
        Ok(fields.content)
    }

    /// The status line as text.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(&self.line).into_owned()
    }
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_response() -> Expected {
        let mut plan = Plan::for_url("http://127.0.0.1/").unwrap();
        plan.expect.header = Some(("X-Route".to_owned(), "a".to_owned()));
        Expected::new(&plan)
    }

    fn read_whole(bytes: &[u8]) -> (Reader, Result<Progress, Malformed>) {
        let mut reader = Reader::default();
        let progress = reader.feed(bytes, &expected_response());
        (reader, progress)
    }

    fn bytewise(bytes: &[u8]) -> Result<usize, Malformed> {
        let mut reader = Reader::default();
        for (at, byte) in bytes.iter().enumerate() {
            if let Progress::Done(used) = reader.feed(&[*byte], &expected_response())? {
                return Ok(at + used);
            }
        }
        Ok(0)
    }

    #[test]
    fn reads_each_framing_whole_and_byte_by_byte() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
        ] {
            let (reader, progress) = read_whole(answer.as_bytes());
            assert_eq!(progress, Ok(Progress::Done(answer.len())), "{answer}");
            assert!(!reader.head().close);
            assert_eq!(bytewise(answer.as_bytes()), Ok(answer.len()), "{answer}");
        }
    }

    #[test]
    fn a_response_without_a_length_ends_with_the_stream() {
        let (reader, progress) = read_whole(b"HTTP/1.1 200 OK\r\n\r\nsome");
        assert_eq!(progress, Ok(Progress::More));
        assert!(reader.is_complete_at_end() && reader.head().close);
    }

    #[test]
    fn a_head_shows_whether_the_connection_persists_and_the_route_is_right() {
        let (reader, _) = read_whole(
            b"HTTP/1.1 503 Busy\r\nConnection: x, Close\r\nX-Route: a\r\nContent-Length: 0\r\n\r\n",
        );
        assert!(reader.head().close && reader.head().matched);
        assert_eq!(reader.head().status, 503);
        let (reader, _) = read_whole(b"HTTP/1.0 200 OK\r\nX-Route: b\r\nContent-Length: 0\r\n\r\n");
        assert!(reader.head().close && !reader.head().matched);
    }

    #[test]
    fn invalid_bytes_are_malformed() {
        for answer in [
            "SSH-2.0-x\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\n\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ] {
            assert!(read_whole(answer.as_bytes()).1.is_err(), "{answer:?}");
        }
    }
}
