//! Writes a body to a stream. Keeps the remaining length, not the data.

use super::trailer;
use crate::Malformed;
use crate::bytes::{is_token, is_value_byte};
use crate::http1::framing::Framing;

/// Writes one body.
#[derive(Debug)]
pub struct BodyWriter {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length(u64),
    Chunked,
    UntilClose,
    Done,
}

impl BodyWriter {
    /// A writer at the start of a body with this framing.
    #[inline]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None => State::Length(0),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked,
            Framing::UntilClose => State::UntilClose,
        };
        BodyWriter { state }
    }

    /// Appends body data with its framing. Refuses more than was declared, and anything after the end.
    #[inline]
    pub fn write(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        if self.state != State::Chunked {
            self.passed(data.len())?;
            out.extend_from_slice(data);
            return Ok(());
        }
        // A chunk of size 0 would end the body.
        if !data.is_empty() {
            out.reserve(data.len() + 20);
            write_hex(data.len() as u64, out);
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Whether body data needs no framing, so that it can be sent without copying it to a buffer.
    #[inline]
    pub fn passes_through(&self) -> bool {
        matches!(self.state, State::Length(_) | State::UntilClose)
    }

    /// Counts body data that is sent without framing; only if [`passes_through`](Self::passes_through). Refuses more
    /// than was declared, so call it before sending.
    #[inline]
    pub fn passed(&mut self, n: usize) -> Result<(), Malformed> {
        match self.state {
            State::Length(left) => {
                self.state = State::Length(left.checked_sub(n as u64).ok_or(Malformed::BodyTooLong)?);
                Ok(())
            }
            State::UntilClose => Ok(()),
            State::Chunked | State::Done if n == 0 => Ok(()),
            State::Chunked | State::Done => Err(Malformed::BodyTooLong),
        }
    }

    /// Ends the body: writes the last chunk with the permitted trailers, or checks that all declared bytes were
    /// written. Trailers are dropped if the framing does not support them (RFC 9112 §7.1.2).
    pub fn finish<'a>(
        &mut self,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        match self.state {
            State::Length(1..) => return Err(Malformed::Truncated),
            State::Chunked => write_end(trailers, out),
            State::Length(0) | State::UntilClose | State::Done => {}
        }
        self.state = State::Done;
        Ok(())
    }
}

fn write_end<'a>(trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        if is_token(name) && trailer::is_allowed(name) && value.iter().all(|&byte| is_value_byte(byte)) {
            for piece in [name, b": ", value, b"\r\n"] {
                out.extend_from_slice(piece);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn write_hex(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 16];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}
