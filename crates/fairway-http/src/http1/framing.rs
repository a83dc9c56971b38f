//! Where a body ends (RFC 9112 §6) and what the connection does next (§9). `connection` has the hop-by-hop fields.

mod connection;

pub use connection::{connection_has, expects_continue, keep_alive, strip_hop_by_hop, upgrade_to};

use crate::Malformed;
use crate::{Head, Known, Method, Version};

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunks, then trailers.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

/// The framing of a request (RFC 9112 §6.3): without either field there is no body.
#[inline]
pub fn request_framing(head: &Head) -> Result<Framing, Malformed> {
    declared(head).map(|framing| framing.unwrap_or(Framing::None))
}

/// The framing of a response to a request with this method (RFC 9112 §6.3).
///
/// The declared framing is checked even if it does not apply, because it is forwarded: the `Content-Length` of a
/// response to HEAD must be one number.
#[inline]
pub fn response_framing(head: &Head, request: Method) -> Result<Framing, Malformed> {
    let declared = declared(head)?;
    match (head.status(), request) {
        (_, Method::Head) | (100..=199 | 204 | 304, _) | (200..=299, Method::Connect) => Ok(Framing::None),
        _ => Ok(declared.unwrap_or(Framing::UntilClose)),
    }
}

/// The framing declared by `Transfer-Encoding` or `Content-Length`; both together are refused (RFC 9112 §6.3 item 3:
/// "ought to be handled as an error").
#[inline]
fn declared(head: &Head) -> Result<Option<Framing>, Malformed> {
    if !head.may_have(Known::TransferEncoding.bit() | Known::ContentLength.bit()) {
        return Ok(None);
    }
    let Some(coding) = only(head, Known::TransferEncoding, Malformed::EncodingInvalid)? else {
        let length = only(head, Known::ContentLength, Malformed::ContentLengthRepeated)?;
        return length.map(|length| decimal(length).map(Framing::Length)).transpose();
    };
    if head.first(Known::ContentLength).is_some() {
        return Err(Malformed::LengthAndEncoding);
    }
    // "A server or client that receives an HTTP/1.0 message containing a Transfer-Encoding header field
    // MUST treat the message as if the framing is faulty" (RFC 9112 §6.1).
    if head.version() == Version::Http10 {
        return Err(Malformed::EncodingInHttp10);
    }
    if coding.eq_ignore_ascii_case(b"chunked") {
        Ok(Some(Framing::Chunked))
    } else {
        Err(coding_defect(coding))
    }
}

fn only(head: &Head, known: Known, repeated: Malformed) -> Result<Option<&[u8]>, Malformed> {
    let mut values = head.all(known);
    let first = values.next();
    if values.next().is_some() { Err(repeated) } else { Ok(first) }
}

/// "Content-Length = 1*DIGIT" (RFC 9110 §8.6), at most 64 bits. A list of equal numbers is refused too.
fn decimal(value: &[u8]) -> Result<u64, Malformed> {
    if value.is_empty() {
        return Err(Malformed::ContentLengthInvalid);
    }
    value
        .iter()
        .try_fold(0u64, |number, digit| match digit {
            b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
            _ => None,
        })
        .ok_or(Malformed::ContentLengthInvalid)
}

/// A misplaced or repeated `chunked` is a framing error (400); any other coding is unsupported (RFC 9112 §6.1: 501).
#[cold]
fn coding_defect(value: &[u8]) -> Malformed {
    let mut codings = value.split(|&byte| byte == b',').map(crate::bytes::trimmed).peekable();
    let mut known = true;
    while let Some(coding) = codings.next() {
        let chunked = coding.eq_ignore_ascii_case(b"chunked");
        if coding.is_empty() || (chunked && codings.peek().is_some()) {
            return Malformed::EncodingInvalid;
        }
        known &= chunked;
    }
    if known { Malformed::EncodingInvalid } else { Malformed::EncodingUnsupported }
}

#[cfg(test)]
mod tests;
