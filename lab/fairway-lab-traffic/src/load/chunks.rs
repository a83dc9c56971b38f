//! The chunked transfer coding, RFC 9112 §7.1: finds its end and keeps nothing of what it carries.

use super::reading::{Malformed, Progress};

/// Where in the coding the next byte is.
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
const LARGEST: u64 = 1 << 56;

impl Chunks {
    /// Takes bytes as they come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Malformed> {
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
            (Self::Size(size), _) if size < LARGEST => {
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
