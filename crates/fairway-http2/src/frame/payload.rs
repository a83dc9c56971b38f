//! Reads frame payloads (RFC 9113 §6), whose lengths were checked before.

use super::rules::{FLAG_PADDED, FLAG_PRIORITY, Header};
use crate::fault::{Code, Fault};

/// The first four bytes as a number: an error code, an increment.
#[inline]
#[must_use]
pub fn first_u32(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// A complete payload without its padding. "If the length of the padding is the length of the frame payload or greater,
/// the recipient MUST treat this as a connection error of type PROTOCOL_ERROR" (RFC 9113 §6.1).
///
/// # Errors
/// The padding is too long.
#[inline]
pub fn strip_padding<'a>(header: &Header, payload: &'a [u8]) -> Result<&'a [u8], Fault> {
    if !header.has_flag(FLAG_PADDED) {
        return Ok(payload);
    }
    let padded = payload.split_first().and_then(|(&padding, rest)| {
        let end = rest.len().checked_sub(usize::from(padding))?;
        Some(&rest[..end])
    });
    padded.ok_or(Fault::connection(Code::Protocol, "padding"))
}

/// What a HEADERS frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// The start of the field block, or all of it.
    pub fragment: &'a [u8],
    /// Whether the stream depends on itself: a stream error, reported once the block is decoded (RFC 7540 §5.3.1).
    pub depends_on_itself: bool,
}

/// The payload of HEADERS without padding and priority.
///
/// # Errors
/// Either does not fit.
#[inline]
pub fn headers_payload<'a>(header: &Header, bytes: &'a [u8]) -> Result<Block<'a>, Fault> {
    let fragment = strip_padding(header, bytes)?;
    if !header.has_flag(FLAG_PRIORITY) {
        return Ok(Block { fragment, depends_on_itself: false });
    }
    match fragment.split_at_checked(5) {
        Some((priority, fragment)) => {
            Ok(Block { fragment, depends_on_itself: depends_on(priority) == header.stream })
        }
        None => Err(Fault::connection(Code::FrameSize, "priority_length")),
    }
}

/// The stream that this priority depends on.
fn depends_on(priority: &[u8]) -> u32 {
    first_u32(priority) & 0x7fff_ffff
}

/// Checks PRIORITY, which is deprecated: "A stream cannot depend on itself" (RFC 7540 §5.3.1).
///
/// # Errors
/// The stream depends on itself.
pub fn check_priority(header: &Header, payload: &[u8]) -> Result<(), Fault> {
    if depends_on(payload) == header.stream {
        return Err(Fault::stream(Code::Protocol, "depends_on_itself"));
    }
    Ok(())
}

/// The settings in order.
pub fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload
        .chunks_exact(6)
        .map(|setting| (u16::from_be_bytes([setting[0], setting[1]]), first_u32(&setting[2..])))
}

/// The last stream and the error code of GOAWAY.
#[must_use]
pub fn go_away(payload: &[u8]) -> (u32, Code) {
    (first_u32(payload) & 0x7fff_ffff, Code::from_number(first_u32(&payload[4..])))
}

/// The stream of PRIORITY_UPDATE and its priority text.
#[must_use]
pub fn priority_update(payload: &[u8]) -> (u32, &[u8]) {
    (first_u32(payload) & 0x7fff_ffff, &payload[4..])
}
