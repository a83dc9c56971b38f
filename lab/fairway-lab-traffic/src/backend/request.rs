//! The head of a request, as much of it as a backend needs. Whatever is not plain HTTP/1.x ends the connection.

use crate::http1::{Content, Fields, Malformed, end_of_head, line};

/// A request whose head is complete.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: &'a [u8],
    pub(super) target: &'a str,
    pub(super) id: Option<&'a [u8]>,
    pub(super) content: Content,
    pub(super) close: bool,
    pub(super) expects_continue: bool,
    /// The length of the head.
    pub(super) length: usize,
}

impl<'a> Request<'a> {
    /// Reads a head from the beginning of `bytes`; none while it is not whole.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some(length) = end_of_head(bytes, 0) else { return Ok(None) };
        let (first, rest) = line(&bytes[..length])?;
        let mut words = first.split(|byte| *byte == b' ');
        let words = (words.next(), words.next(), words.next(), words.next());
        let (Some(method), Some(target), Some(version @ (b"HTTP/1.1" | b"HTTP/1.0")), None) = words else {
            return Err("no request line of HTTP/1");
        };
        let target = std::str::from_utf8(target).map_err(|_| "a target that is no text")?;
        let mut fields = Fields { close: version == b"HTTP/1.0", content: None };
        let (mut id, mut expects_continue) = (None, false);
        fields.read(rest, |name, value| {
            match name.len() {
                6 if name.eq_ignore_ascii_case(b"expect") => {
                    expects_continue = value.eq_ignore_ascii_case(b"100-continue");
                }
                8 if name.eq_ignore_ascii_case(b"x-lab-id") => id = Some(value),
                _ => {}
            }
            Ok(())
        })?;
        let (close, content) = (fields.close, fields.content.unwrap_or(Content::Counted(0)));
        Ok(Some(Self { method, target, id, content, close, expects_continue, length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Progress;

    #[test]
    fn a_request_is_parsed_as_far_as_a_backend_needs() {
        let bytes = b"POST /a?size=3 HTTP/1.1\r\nHost: x\r\nX-Lab-Id: 1-2\r\nContent-Length: 4\r\n\r\nbody";
        let request = Request::read(bytes).unwrap().unwrap();
        assert_eq!((request.target, request.id), ("/a?size=3", Some(&b"1-2"[..])));
        assert_eq!(
            (request.content, request.close, request.length),
            (Content::Counted(4), false, bytes.len() - 4)
        );
        assert_eq!(Request::read(&bytes[..40]), Ok(None));
    }

    #[test]
    fn chunks_end_where_they_say_and_http_1_0_closes() {
        let bytes = b"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        let request = Request::read(bytes).unwrap().unwrap();
        let mut content = request.content;
        assert!(request.close);
        assert_eq!(content.feed(b"3\r\nabc\r\n0\r"), Ok(Progress::More));
        assert_eq!(content.feed(b"\n\r\nGET"), Ok(Progress::Done(3)));
    }

    #[test]
    fn other_protocols_are_refused() {
        for wrong in [&b"PRI * HTTP/2.0\r\n\r\n"[..], b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"]
        {
            assert!(Request::read(wrong).is_err());
        }
    }
}
