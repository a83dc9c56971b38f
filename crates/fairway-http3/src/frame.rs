//! Frames (RFC 9114 §7): their types, where each may appear, and how their headers are read and written. Never sees payloads.

use bytes::{Buf, Bytes};

use crate::code::{Code, Fault};
use crate::varint;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// DATA (§7.2.1).
    Data,
    /// HEADERS (§7.2.2).
    Headers,
    /// CANCEL_PUSH (§7.2.3).
    CancelPush,
    /// SETTINGS (§7.2.4).
    Settings,
    /// PUSH_PROMISE (§7.2.5), which only servers send.
    PushPromise,
    /// GOAWAY (§7.2.6).
    GoAway,
    /// MAX_PUSH_ID (§7.2.7).
    MaxPushId,
    /// PRIORITY_UPDATE for a request stream (RFC 9218 §7.2).
    RequestPriority,
    /// PRIORITY_UPDATE for a push.
    PushPriority,
    /// A type of HTTP/2 that has no meaning here: "These frame types MUST NOT be sent, and their receipt MUST be treated as a
    /// connection error of type H3_FRAME_UNEXPECTED" (§7.2.8).
    Http2,
    /// A reserved or unknown type, which is ignored (§7.2.8, §9).
    Unknown,
}

impl Kind {
    pub(crate) const fn from_number(number: u64) -> Kind {
        match number {
            0x0 => Kind::Data,
            0x1 => Kind::Headers,
            0x3 => Kind::CancelPush,
            0x4 => Kind::Settings,
            0x5 => Kind::PushPromise,
            0x7 => Kind::GoAway,
            0xd => Kind::MaxPushId,
            0xf0700 => Kind::RequestPriority,
            0xf0701 => Kind::PushPriority,
            0x2 | 0x6 | 0x8 | 0x9 => Kind::Http2,
            _ => Kind::Unknown,
        }
    }

    /// The rule that this frame breaks where it may not be.
    pub(crate) const fn unexpected(self) -> Fault {
        let rule = match self {
            Kind::Data => "data_unexpected",
            Kind::Headers => "headers_unexpected",
            Kind::CancelPush => "cancel_push_unexpected",
            Kind::Settings => "settings_unexpected",
            Kind::PushPromise => "push_promise_unexpected",
            Kind::GoAway => "goaway_unexpected",
            Kind::MaxPushId => "max_push_id_unexpected",
            Kind::RequestPriority | Kind::PushPriority => "priority_update_unexpected",
            Kind::Http2 => "http2_frame",
            Kind::Unknown => "frame_unexpected",
        };
        Fault::connection(Code::FrameUnexpected, rule)
    }
}

/// The number of a type that we send.
pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;

/// The longest header: two integers of 8 bytes.
const MAX_HEADER: usize = 16;

/// The header of the frame that is coming: its type and length, as far as they arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    bytes: [u8; MAX_HEADER],
    count: u8,
}

impl Header {
    /// Whether it has begun.
    pub(crate) fn is_partial(&self) -> bool {
        self.count > 0
    }

    /// Takes bytes from the input; gives type and length, and how many bytes both have, once they are complete.
    #[inline]
    pub(crate) fn take(&mut self, input: &mut Bytes) -> Option<(Kind, u64, usize)> {
        if self.count == 0
            && let Some((kind, length, used)) = read_header(input)
        {
            input.advance(used);
            return Some((kind, length, used));
        }
        while input.has_remaining() {
            self.bytes[usize::from(self.count)] = input.get_u8();
            self.count += 1;
            if let Some((kind, length, used)) = read_header(&self.bytes[..usize::from(self.count)]) {
                self.count = 0;
                return Some((kind, length, used));
            }
        }
        None
    }
}

fn read_header(input: &[u8]) -> Option<(Kind, u64, usize)> {
    let (number, first) = varint::read(input)?;
    let (length, second) = varint::read(&input[first..])?;
    Some((Kind::from_number(number), length, first + second))
}

/// A frame of one of these types. QUIC keeps it until the client has acknowledged it, so it has no room to spare.
pub(crate) fn whole(number: u8, payload: &[u8]) -> Bytes {
    let length = payload.len() as u64;
    let mut frame = Vec::with_capacity(1 + varint::size(length) + payload.len());
    frame.push(number);
    varint::write(length, &mut frame);
    frame.extend_from_slice(payload);
    Bytes::from(frame)
}

/// GOAWAY.
pub(crate) fn go_away(id: u64) -> Bytes {
    let mut payload = Vec::with_capacity(8);
    varint::write(id, &mut payload);
    whole(GOAWAY, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_whatever_the_split() {
        for bytes in
            [&[0x01, 0x05][..], &[0x40, 0x00, 0x80, 0, 1, 0], &[0xc0, 0, 0, 0, 0, 0xf, 7, 0, 0x40, 9]]
        {
            let whole = Header::default().take(&mut Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(whole.2, bytes.len());
            for split in 1..bytes.len() {
                let mut header = Header::default();
                let mut first = Bytes::copy_from_slice(&bytes[..split]);
                assert_eq!(header.take(&mut first), None);
                assert!(header.is_partial());
                let mut rest = Bytes::from([&bytes[split..], b"payload"].concat());
                assert_eq!(header.take(&mut rest), Some(whole));
                assert_eq!((&rest[..], header.is_partial()), (&b"payload"[..], false));
            }
        }
    }

    #[test]
    fn rfc9114_7_2_8_reserved_types_are_unknown_and_those_of_http2_are_not() {
        for n in [0, 1, 5, 1 << 50] {
            assert_eq!(Kind::from_number(0x1f * n + 0x21), Kind::Unknown);
        }
        for number in [0x2, 0x6, 0x8, 0x9] {
            assert_eq!(Kind::from_number(number), Kind::Http2);
        }
    }

    #[test]
    fn go_away_has_the_length_of_its_id() {
        assert_eq!(go_away(varint::MAX - 3)[..], [7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]);
        assert_eq!(go_away(4)[..], [7, 1, 4]);
    }
}
