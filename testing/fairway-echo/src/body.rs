//! The bodies of answers: something short, or a pattern of any length. Large bodies cost no memory of their own.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The pattern repeats after this many bytes.
const PERIOD: usize = 26;
/// The shared piece of the pattern: the smallest multiple of the period that holds a mebibyte.
const BLOCK: usize = (1024 * 1024_usize).div_ceil(PERIOD) * PERIOD;
/// The data in one frame of a body of unknown length.
const CHUNK: usize = 16 * 1024;

/// The byte at `position` of every generated body: the alphabet over and over, so that a shifted or repeated piece
/// shows.
#[must_use]
pub fn pattern(position: usize) -> u8 {
    b"abcdefghijklmnopqrstuvwxyz"[position % PERIOD]
}

/// What an answer carries.
pub(crate) enum EchoBody {
    /// All of it at once.
    Whole(Bytes),
    /// The pattern from `sent` on to `length`.
    Pattern {
        /// How much went out.
        sent: u64,
        /// How much there is.
        length: u64,
        /// Whether the length is sent in advance.
        framing: Framing,
    },
}

/// How the end of a body is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Sized,
    Chunked,
}

impl EchoBody {
    /// `length` bytes of the pattern, with a length in front.
    pub(crate) fn pattern(length: u64) -> Self {
        match usize::try_from(length) {
            Ok(short) if short <= BLOCK => Self::Whole(block().slice(..short)),
            _ => Self::Pattern { sent: 0, length, framing: Framing::Sized },
        }
    }

    /// `length` bytes of the pattern, in chunks.
    pub(crate) fn chunked(length: u64) -> Self {
        Self::Pattern { sent: 0, length, framing: Framing::Chunked }
    }
}

impl<B: Into<Bytes>> From<B> for EchoBody {
    fn from(content: B) -> Self {
        Self::Whole(content.into())
    }
}

impl Body for EchoBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.get_mut() {
            Self::Whole(content) => std::mem::take(content),
            Self::Pattern { sent, length, framing } => {
                let largest = if *framing == Framing::Chunked { CHUNK } else { BLOCK };
                // The position in the pattern is below the period, so the rest of the block holds the piece.
                let phase = usize::try_from(*sent % PERIOD as u64).expect("smaller than the period");
                let piece = usize::try_from(*length - *sent).unwrap_or(BLOCK).min(largest).min(BLOCK - phase);
                *sent += piece as u64;
                block().slice(phase..phase + piece)
            }
        };
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(content) => content.is_empty(),
            Self::Pattern { sent, length, framing } => *framing == Framing::Sized && sent == length,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(content) => SizeHint::with_exact(content.len() as u64),
            Self::Pattern { sent, length, framing: Framing::Sized } => SizeHint::with_exact(length - sent),
            Self::Pattern { framing: Framing::Chunked, .. } => SizeHint::default(),
        }
    }
}

fn block() -> &'static Bytes {
    static MADE: OnceLock<Bytes> = OnceLock::new();
    MADE.get_or_init(|| (0..BLOCK).map(pattern).collect::<Vec<u8>>().into())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn collected(body: EchoBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn every_length_has_the_same_pattern() {
        for length in [0, 1, 25, 26, 27, CHUNK + 3, BLOCK, BLOCK + 1, 2 * BLOCK + 5] {
            let expected: Vec<u8> = (0..length).map(pattern).collect();
            assert!(collected(EchoBody::pattern(length as u64)).await == expected, "{length} at once");
            assert!(collected(EchoBody::chunked(length as u64)).await == expected, "{length} in chunks");
        }
    }

    #[test]
    fn only_chunked_bodies_hide_their_length() {
        assert_eq!(EchoBody::pattern(u64::MAX).size_hint().exact(), Some(u64::MAX));
        assert_eq!(EchoBody::pattern(1024).size_hint().exact(), Some(1024));
        assert_eq!(EchoBody::chunked(1024).size_hint().exact(), None);
    }
}
