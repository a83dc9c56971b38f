//! Response bodies: short text, or a pattern of any length. Large bodies use shared memory.

use std::convert::Infallible;
use std::sync::OnceLock;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

/// The body of a response.
pub(crate) type EchoBody = BoxBody<Bytes, Infallible>;

/// The pattern repeats after this many bytes.
const PERIOD: usize = 26;
/// The shared piece of the pattern: the smallest multiple of the period that holds a mebibyte.
const BLOCK: usize = (1024 * 1024_usize).div_ceil(PERIOD) * PERIOD;
/// The data in one frame of a body that is sent in chunks.
const CHUNK: usize = 16 * 1024;

/// The byte at `position` of every generated body: the alphabet over and over, so that a shifted or repeated piece
/// shows.
#[must_use]
pub fn pattern(position: usize) -> u8 {
    b"abcdefghijklmnopqrstuvwxyz"[position % PERIOD]
}

/// The whole of `content` in one piece.
pub(crate) fn complete_body(content: impl Into<Bytes>) -> EchoBody {
    Full::new(content.into()).boxed()
}

/// `length` bytes of the pattern, in as few pieces as possible.
pub(crate) fn sized(length: u64) -> EchoBody {
    match usize::try_from(length) {
        Ok(short) if short <= BLOCK => complete_body(block().slice(..short)),
        _ => chunked_body(length, BLOCK),
    }
}

/// `length` bytes of the pattern, in chunks.
pub(crate) fn chunked(length: u64) -> EchoBody {
    chunked_body(length, CHUNK)
}

fn chunked_body(length: u64, largest: usize) -> EchoBody {
    let mut sent = 0;
    let chunks = std::iter::from_fn(move || {
        // The position in the pattern is below the period, so the rest of the block holds the piece.
        let phase = (sent % PERIOD as u64) as usize;
        let chunk = usize::try_from(length - sent).unwrap_or(BLOCK).min(largest).min(BLOCK - phase);
        sent += chunk as u64;
        (chunk > 0).then(|| Ok(Frame::data(block().slice(phase..phase + chunk))))
    });
    BodyExt::boxed(StreamBody::new(stream::iter(chunks)))
}

fn block() -> &'static Bytes {
    static PATTERN: OnceLock<Bytes> = OnceLock::new();
    PATTERN.get_or_init(|| (0..BLOCK).map(pattern).collect::<Vec<u8>>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_of_every_length_have_the_same_pattern() {
        for length in [0, 1, 25, 26, 27, CHUNK + 3, BLOCK, BLOCK + 1, 2 * BLOCK + 5] {
            let expected: Vec<u8> = (0..length).map(pattern).collect();
            for body in [sized(length as u64), chunked(length as u64)] {
                assert!(body.collect().await.unwrap().to_bytes() == expected, "{length}");
            }
        }
    }
}
