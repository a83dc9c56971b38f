//! The rules for frame headers, one row per type (RFC 9113 §6, RFC 9218 §7.1).

use crate::fault::{Code, Fault, Scope};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// The last frame in a stream's direction (DATA, HEADERS).
pub const FLAG_END_STREAM: u8 = 0x1;
/// An acknowledgement of SETTINGS or PING.
pub const FLAG_ACK: u8 = 0x1;
/// The last frame of a field block.
pub const FLAG_END_HEADERS: u8 = 0x4;
/// The payload begins with the length of its padding.
pub const FLAG_PADDED: u8 = 0x8;
/// HEADERS with the deprecated priority.
pub const FLAG_PRIORITY: u8 = 0x20;

/// The largest frame that every endpoint accepts (RFC 9113 §4.2), and the largest accepted here.
pub const MAX_FRAME_BYTES: u32 = 16_384;

/// A frame type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// §6.1
    Data,
    /// §6.2
    Headers,
    /// §6.3
    Priority,
    /// §6.4
    Reset,
    /// §6.5
    Settings,
    /// §6.6
    PushPromise,
    /// §6.7
    Ping,
    /// §6.8
    GoAway,
    /// §6.9
    WindowUpdate,
    /// §6.10
    Continuation,
    /// RFC 9218 §7.1
    PriorityUpdate,
}

impl FrameKind {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            FrameKind::PriorityUpdate => 0x10,
            kind => kind as u8,
        }
    }

    /// The type with this number; unknown ones are ignored (RFC 9113 §4.1).
    #[must_use]
    pub const fn from_number(number: u8) -> Option<FrameKind> {
        Some(match number {
            0 => FrameKind::Data,
            1 => FrameKind::Headers,
            2 => FrameKind::Priority,
            3 => FrameKind::Reset,
            4 => FrameKind::Settings,
            5 => FrameKind::PushPromise,
            6 => FrameKind::Ping,
            7 => FrameKind::GoAway,
            8 => FrameKind::WindowUpdate,
            9 => FrameKind::Continuation,
            0x10 => FrameKind::PriorityUpdate,
            _ => return None,
        })
    }
}

/// The header of a frame (RFC 9113 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the payload.
    pub length: u32,
    /// The number of the type.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream, 0 for the connection.
    pub stream: u32,
}

impl Header {
    /// Reads a header. The reserved bit "MUST be ignored when receiving" (RFC 9113 §4.1).
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [high, middle, low, kind, flags, a, b, c, d] = *bytes;
        Header {
            length: u32::from_be_bytes([0, high, middle, low]),
            kind,
            flags,
            stream: u32::from_be_bytes([a & 0x7f, b, c, d]),
        }
    }

    /// Whether it has this flag.
    #[inline]
    #[must_use]
    pub const fn has_flag(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The encoded header.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let [_, high, middle, low] = self.length.to_be_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, a, b, c, d]
    }
}

/// Where a frame may appear.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameScope {
    Connection,
    Stream,
    Either,
}

/// The rules of a type: where it may appear, its minimum and maximum length, the unit of its length, and the scope of a
/// wrong length.
struct FrameRule {
    allowed_on: FrameScope,
    min_bytes: u32,
    max_bytes: u32,
    unit: u32,
    scope: Scope,
}

const fn rule(frame_scope: FrameScope, least: u32, limit: u32, unit: u32, scope: Scope) -> FrameRule {
    FrameRule { allowed_on: frame_scope, min_bytes: least, max_bytes: limit, unit, scope }
}

const NO_LIMIT: u32 = u32::MAX;

/// "a frame size error in a frame that could alter the state of the entire connection MUST be treated as a connection
/// error; this includes any frame carrying a field block (HEADERS, PUSH_PROMISE, and CONTINUATION), a SETTINGS frame, and
/// any frame with a stream identifier of 0" (RFC 9113 §4.2).
const fn rule_for(kind: FrameKind) -> FrameRule {
    use FrameScope::{Connection, Either, Stream};
    match kind {
        FrameKind::Data => rule(Stream, 0, NO_LIMIT, 1, Scope::Stream),
        FrameKind::Headers | FrameKind::Continuation | FrameKind::PushPromise => {
            rule(Stream, 0, NO_LIMIT, 1, Scope::Connection)
        }
        FrameKind::Priority => rule(Stream, 5, 5, 1, Scope::Stream),
        FrameKind::Reset => rule(Stream, 4, 4, 1, Scope::Connection),
        FrameKind::Settings => rule(Connection, 0, NO_LIMIT, 6, Scope::Connection),
        FrameKind::Ping => rule(Connection, 8, 8, 1, Scope::Connection),
        FrameKind::GoAway => rule(Connection, 8, NO_LIMIT, 1, Scope::Connection),
        FrameKind::WindowUpdate => rule(Either, 4, 4, 1, Scope::Connection),
        FrameKind::PriorityUpdate => rule(Connection, 4, NO_LIMIT, 1, Scope::Connection),
    }
}

/// Checks a frame header with a payload of at most `limit` bytes; `None` for an unknown type, which is ignored.
///
/// # Errors
/// The rule that the header breaks.
#[inline]
pub fn check_header(header: &Header, max_bytes: u32) -> Result<Option<FrameKind>, Fault> {
    let Some(kind) = FrameKind::from_number(header.kind) else {
        return match header.length > max_bytes {
            true => Err(Fault::connection(Code::FrameSize, "frame_too_long")),
            false => Ok(None),
        };
    };
    let rule = rule_for(kind);
    let stands = match rule.allowed_on {
        FrameScope::Connection => header.stream == 0,
        FrameScope::Stream => header.stream != 0,
        FrameScope::Either => true,
    };
    if !stands {
        return Err(Fault::connection(Code::Protocol, "stream_id"));
    }
    if header.length < rule.min_bytes
        || header.length > rule.max_bytes.min(max_bytes)
        || !header.length.is_multiple_of(rule.unit)
    {
        return Err(Fault { scope: rule.scope, code: Code::FrameSize, rule: "frame_length" });
    }
    Ok(Some(kind))
}
