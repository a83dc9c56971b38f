//! What each type of frame may look like, one row per type (RFC 9113 §6, RFC 9218 §7.1). Never reads a payload.

use crate::fault::{Code, Fault, Scope};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// The last frame of a stream's direction (DATA, HEADERS).
pub const END_STREAM: u8 = 0x1;
/// An answer to SETTINGS or PING.
pub const ACK: u8 = 0x1;
/// The last frame of a field block.
pub const END_HEADERS: u8 = 0x4;
/// The payload begins with the length of its padding.
pub const PADDED: u8 = 0x8;
/// HEADERS with the deprecated priority.
pub const PRIORITY: u8 = 0x20;

/// The largest frame that every endpoint takes (RFC 9113 §4.2), and the largest that we take.
pub const FRAME_BYTES: u32 = 16_384;

/// A type of frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

impl Kind {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Kind::PriorityUpdate => 0x10,
            kind => kind as u8,
        }
    }

    /// The type of this number; unknown ones are ignored (RFC 9113 §4.1).
    #[must_use]
    pub const fn of(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::Data,
            1 => Kind::Headers,
            2 => Kind::Priority,
            3 => Kind::Reset,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            0x10 => Kind::PriorityUpdate,
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
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The bytes of a header.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let [_, high, middle, low] = self.length.to_be_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, a, b, c, d]
    }
}

/// Where a frame may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Connection,
    Stream,
    Either,
}

/// The row of a type: where it stands, its least and most bytes, what they are a multiple of, and how far a wrong length
/// reaches.
struct Rule {
    place: Place,
    least: u32,
    most: u32,
    unit: u32,
    scope: Scope,
}

const fn rule(place: Place, least: u32, most: u32, unit: u32, scope: Scope) -> Rule {
    Rule { place, least, most, unit, scope }
}

const ANY: u32 = u32::MAX;

/// "a frame size error in a frame that could alter the state of the entire connection MUST be treated as a connection
/// error; this includes any frame carrying a field block (HEADERS, PUSH_PROMISE, and CONTINUATION), a SETTINGS frame, and
/// any frame with a stream identifier of 0" (RFC 9113 §4.2).
const fn row(kind: Kind) -> Rule {
    use Place::{Connection, Either, Stream};
    match kind {
        Kind::Data => rule(Stream, 0, ANY, 1, Scope::Stream),
        Kind::Headers | Kind::Continuation | Kind::PushPromise => rule(Stream, 0, ANY, 1, Scope::Connection),
        Kind::Priority => rule(Stream, 5, 5, 1, Scope::Stream),
        Kind::Reset => rule(Stream, 4, 4, 1, Scope::Connection),
        Kind::Settings => rule(Connection, 0, ANY, 6, Scope::Connection),
        Kind::Ping => rule(Connection, 8, 8, 1, Scope::Connection),
        Kind::GoAway => rule(Connection, 8, ANY, 1, Scope::Connection),
        Kind::WindowUpdate => rule(Either, 4, 4, 1, Scope::Connection),
        Kind::PriorityUpdate => rule(Connection, 4, ANY, 1, Scope::Connection),
    }
}

/// Whether this frame may exist, of at most `most` bytes; `None` for a type that is unknown and ignored.
///
/// # Errors
/// With the rule that its header breaks.
#[inline]
pub fn judge(header: &Header, most: u32) -> Result<Option<Kind>, Fault> {
    let Some(kind) = Kind::of(header.kind) else {
        return match header.length > most {
            true => Err(Fault::connection(Code::FrameSize, "frame_too_long")),
            false => Ok(None),
        };
    };
    let rule = row(kind);
    let stands = match rule.place {
        Place::Connection => header.stream == 0,
        Place::Stream => header.stream != 0,
        Place::Either => true,
    };
    if !stands {
        return Err(Fault::connection(Code::Protocol, "stream_id"));
    }
    if header.length < rule.least
        || header.length > rule.most.min(most)
        || !header.length.is_multiple_of(rule.unit)
    {
        return Err(Fault { scope: rule.scope, code: Code::FrameSize, rule: "frame_length" });
    }
    Ok(Some(kind))
}
