//! The head of a request, as much of it as a backend needs. Whatever is not plain HTTP/1.x ends the connection.

use crate::load::chunks::Chunks;

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

/// What follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Counted(u64),
    Chunks(Chunks),
}

/// The bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRequest;

impl<'a> Request<'a> {
    /// Reads a head from the beginning of `bytes`; none while it is not whole.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<Self>, NoRequest> {
        let Some(end) = end_of_head(bytes) else { return Ok(None) };
        let mut lines = bytes[..end - 4].split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
        let mut words = lines.next().ok_or(NoRequest)?.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(NoRequest);
        };
        let target = std::str::from_utf8(target).map_err(|_| NoRequest)?;
        let close = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(NoRequest),
        };
        let mut request = Self {
            method,
            target,
            id: None,
            content: Content::Counted(0),
            close,
            expects_continue: false,
            length: end,
        };
        for line in lines {
            request.field(line)?;
        }
        Ok(Some(request))
    }

    fn field(&mut self, line: &'a [u8]) -> Result<(), NoRequest> {
        let colon = line.iter().position(|byte| *byte == b':').ok_or(NoRequest)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name.len() {
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
            }
            8 if name.eq_ignore_ascii_case(b"x-lab-id") => self.id = Some(value),
            10 if name.eq_ignore_ascii_case(b"connection") => {
                if value.eq_ignore_ascii_case(b"close") {
                    self.close = true;
                } else if value.eq_ignore_ascii_case(b"keep-alive") {
                    self.close = false;
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let text = std::str::from_utf8(value).map_err(|_| NoRequest)?;
                self.content = Content::Counted(text.parse().map_err(|_| NoRequest)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(NoRequest);
                }
                self.content = Content::Chunks(Chunks::default());
            }
            _ => {}
        }
        Ok(())
    }
}

impl Content {
    /// Takes bytes of the content: how many were its own, and whether it is complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), NoRequest> {
        use crate::load::reading::Progress;
        match self {
            Self::Counted(left) => {
                let used = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok((used, *left == 0))
            }
            Self::Chunks(chunks) => match chunks.feed(bytes).map_err(|_| NoRequest)? {
                Progress::Done(used) => Ok((used, true)),
                Progress::More => Ok((bytes.len(), false)),
            },
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = bytes[from..].iter().position(|byte| *byte == b'\r') {
        let start = from + found;
        if bytes[start..].starts_with(b"\r\n\r\n") {
            return Some(start + 4);
        }
        from = start + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_backend_needs() {
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
        assert_eq!(content.take(b"3\r\nabc\r\n0\r"), Ok((10, false)));
        assert_eq!(content.take(b"\n\r\nGET"), Ok((3, true)));
    }

    #[test]
    fn other_protocols_are_refused() {
        for wrong in [&b"PRI * HTTP/2.0\r\n\r\n"[..], b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"]
        {
            assert_eq!(Request::read(wrong), Err(NoRequest));
        }
    }
}
