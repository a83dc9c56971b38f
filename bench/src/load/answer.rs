//! Reads one answer out of whatever pieces arrive: status 200, the announced length, exactly that many bytes.
//! Shares no code with Fairway's parser, so that one bug cannot blind both sides. Never touches a socket.

use super::failure::Failure;

/// What happens to the connection after a complete answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum After {
    KeepAlive,
    Close,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Head(Vec<u8>),
    Body { left: usize, after: After },
}

impl Answer {
    pub(crate) fn awaited() -> Self {
        Self::Head(Vec::new())
    }

    /// Takes the next bytes; `Some` once the answer is complete.
    pub(crate) fn take(&mut self, bytes: &[u8], expected: usize) -> Result<Option<After>, Failure> {
        match self {
            Self::Body { left, after } => {
                *left = left.checked_sub(bytes.len()).ok_or(Failure::Surplus)?;
                Ok((*left == 0).then_some(*after))
            }
            Self::Head(held) if held.is_empty() => match end_of_head(bytes) {
                Some(end) => self.take_head(&bytes[..end], &bytes[end..], expected),
                None => {
                    held.extend_from_slice(bytes);
                    Ok(None)
                }
            },
            Self::Head(held) => {
                held.extend_from_slice(bytes);
                let whole = std::mem::take(held);
                match end_of_head(&whole) {
                    Some(end) => self.take_head(&whole[..end], &whole[end..], expected),
                    None => {
                        *held = whole;
                        Ok(None)
                    }
                }
            }
        }
    }

    fn take_head(&mut self, head: &[u8], rest: &[u8], expected: usize) -> Result<Option<After>, Failure> {
        let head = std::str::from_utf8(head).map_err(|_| Failure::BadHead)?;
        let status = head.get(9..12).and_then(|code| code.parse().ok()).ok_or(Failure::BadHead)?;
        if status != 200 {
            return Err(Failure::Status(status));
        }
        let length: usize =
            field(head, "content-length").and_then(|n| n.parse().ok()).ok_or(Failure::BadHead)?;
        if length != expected {
            return Err(Failure::WrongLength);
        }
        let close = field(head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        *self = Self::Body { left: length, after: if close { After::Close } else { After::KeepAlive } };
        self.take(rest, expected)
    }

    /// What the end of the stream means at this point.
    pub(crate) fn cut_short(&self) -> Failure {
        match self {
            Self::Head(_) => Failure::EofBeforeHead,
            Self::Body { .. } => Failure::TruncatedBody,
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";

    #[test]
    fn every_split_of_an_answer_gives_the_same_end() {
        for cut in 1..WHOLE.len() {
            let mut answer = Answer::awaited();
            assert_eq!(answer.take(&WHOLE[..cut], 3), Ok(None), "cut at {cut}");
            assert_eq!(answer.take(&WHOLE[cut..], 3), Ok(Some(After::Close)), "cut at {cut}");
        }
    }

    #[test]
    fn a_wrong_status_a_wrong_length_and_surplus_bytes_are_told_apart() {
        let take = |bytes: &[u8]| Answer::awaited().take(bytes, 3);
        assert_eq!(take(b"HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\n"), Err(Failure::Status(503)));
        assert_eq!(take(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"), Err(Failure::WrongLength));
        assert_eq!(take(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd"), Err(Failure::Surplus));
        assert_eq!(take(b"HTTP/1.1 200 OK\r\n\r\n"), Err(Failure::BadHead));
    }
}
