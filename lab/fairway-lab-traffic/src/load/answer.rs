//! A strict reader of answers in HTTP/1: bytes in, the end of the answer out. Keeps nothing of a body but its length and
//! repairs nothing: what RFC 9112 does not allow a server to send is malformed.
//!
//! ```text
//! head ──1xx──► head
//!   │ no content ─────────────► done
//!   ├ Content-Length ─► counted ─► done
//!   ├ chunked ─► chunks ─────► done
//!   └ neither ─► until the end of the stream
//! ```

use super::chunks::Chunks;
use super::head::{Framing, Head};
use super::reading::{Malformed, Progress};

/// Heads are read up to this size.
const HEAD_LIMIT: usize = 64 * 1024;

/// Reads one answer after another on a connection.
#[derive(Default)]
pub(super) struct Reader {
    stage: Stage,
    /// The beginning of a head whose end is not there yet.
    partial: Vec<u8>,
    /// The head of the answer that is being read.
    head: Head,
}

#[derive(Default)]
enum Stage {
    #[default]
    Head,
    Counted(u64),
    Chunks(Chunks),
    UntilEnd,
}

/// What the caller knows of the request that is answered.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    /// RFC 9110 §9.3.2: an answer to HEAD has no content.
    pub(super) is_head: bool,
    /// The field that a right answer has, its name in small letters.
    pub(super) expected: Option<(&'a str, &'a str)>,
}

impl Reader {
    /// Ready for the next answer.
    pub(super) fn begin(&mut self) {
        self.stage = Stage::Head;
        self.partial.clear();
        self.head = Head::default();
    }

    /// The head of the answer, once it was read.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// Whether the head is complete.
    pub(super) fn has_head(&self) -> bool {
        !matches!(self.stage, Stage::Head)
    }

    /// Takes bytes as they come.
    pub(super) fn feed(&mut self, bytes: &[u8], question: Question<'_>) -> Result<Progress, Malformed> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let progress = match &mut self.stage {
                Stage::Head => {
                    let Some(used) = self.feed_head(rest, question)? else { return Ok(Progress::More) };
                    at += used;
                    if matches!(self.stage, Stage::Counted(0)) {
                        return Ok(Progress::Done(at));
                    }
                    continue;
                }
                Stage::Counted(left) => {
                    let used = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= used as u64;
                    if *left == 0 { Progress::Done(used) } else { Progress::More }
                }
                Stage::Chunks(chunks) => chunks.feed(rest)?,
                Stage::UntilEnd => Progress::More,
            };
            return Ok(match progress {
                Progress::Done(used) => Progress::Done(at + used),
                Progress::More => Progress::More,
            });
        }
    }

    /// The stream ended: whether that completes the answer.
    pub(super) fn is_complete_at_end(&self) -> bool {
        matches!(self.stage, Stage::UntilEnd)
    }

    /// Whether any byte of the answer is there.
    pub(super) fn has_begun(&self) -> bool {
        self.has_head() || !self.partial.is_empty()
    }

    /// How many bytes of `bytes` completed the head; none while it is incomplete.
    fn feed_head(&mut self, bytes: &[u8], question: Question<'_>) -> Result<Option<usize>, Malformed> {
        if self.partial.is_empty() {
            // The usual case: the head is whole in one piece and is read where it lies.
            if let Some(length) = end_of_head(bytes, 0) {
                self.settle(&bytes[..length], question)?;
                return Ok(Some(length));
            }
            self.partial.extend_from_slice(bytes);
        } else {
            let before = self.partial.len();
            self.partial.extend_from_slice(bytes);
            if let Some(length) = end_of_head(&self.partial, before.saturating_sub(3)) {
                let partial = std::mem::take(&mut self.partial);
                self.settle(&partial[..length], question)?;
                return Ok(Some(length - before));
            }
        }
        if self.partial.len() > HEAD_LIMIT {
            return Err("a head longer than 64 KiB");
        }
        // An answer that cannot become one is known by its first bytes.
        let known = self.partial.len().min(5);
        if self.partial[..known] != b"HTTP/"[..known] {
            return Err("it does not begin with HTTP/");
        }
        Ok(None)
    }

    /// Chooses the framing by RFC 9112 §6.3.
    fn settle(&mut self, bytes: &[u8], question: Question<'_>) -> Result<(), Malformed> {
        self.head = Head::default();
        self.head.read(bytes, question.expected)?;
        let head = &self.head;
        self.stage = match head.status {
            101 => return Err("a change of protocol that nobody asked for"),
            // RFC 9110 §15.2: any number of interim answers may come first.
            100..=199 => Stage::Head,
            204 | 304 => Stage::Counted(0),
            _ if question.is_head => Stage::Counted(0),
            _ => match head.framing {
                Framing::Chunked => Stage::Chunks(Chunks::default()),
                Framing::Length(length) => Stage::Counted(length),
                Framing::Unsaid => Stage::UntilEnd,
            },
        };
        if matches!(self.stage, Stage::UntilEnd) {
            self.head.close = true;
        }
        Ok(())
    }
}

/// The length of a head that ends with an empty line, looking from `from` on.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Question<'static> = Question { is_head: false, expected: Some(("x-route", "a")) };

    fn whole(bytes: &[u8]) -> (Reader, Result<Progress, Malformed>) {
        let mut reader = Reader::default();
        let progress = reader.feed(bytes, ASKED);
        (reader, progress)
    }

    fn bytewise(bytes: &[u8]) -> Result<usize, Malformed> {
        let mut reader = Reader::default();
        for (at, byte) in bytes.iter().enumerate() {
            if let Progress::Done(used) = reader.feed(&[*byte], ASKED)? {
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
            let (reader, progress) = whole(answer.as_bytes());
            assert_eq!(progress, Ok(Progress::Done(answer.len())), "{answer}");
            assert!(!reader.head().close);
            assert_eq!(bytewise(answer.as_bytes()), Ok(answer.len()), "{answer}");
        }
    }

    #[test]
    fn an_answer_without_length_ends_with_the_stream() {
        let (reader, progress) = whole(b"HTTP/1.1 200 OK\r\n\r\nsome");
        assert_eq!(progress, Ok(Progress::More));
        assert!(reader.is_complete_at_end() && reader.head().close);
    }

    #[test]
    fn a_head_says_whether_the_connection_stays_and_whether_the_route_is_right() {
        let (reader, _) =
            whole(b"HTTP/1.1 503 Busy\r\nConnection: x, Close\r\nX-Route: a\r\nContent-Length: 0\r\n\r\n");
        assert!(reader.head().close && reader.head().matched);
        assert_eq!(reader.head().status, 503);
        let (reader, _) = whole(b"HTTP/1.0 200 OK\r\nX-Route: b\r\nContent-Length: 0\r\n\r\n");
        assert!(reader.head().close && !reader.head().matched);
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
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
            assert!(whole(answer.as_bytes()).1.is_err(), "{answer:?}");
        }
    }
}
