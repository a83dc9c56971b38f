//! Frames (RFC 9114 §7): their types, where each may appear, reading and writing their headers.

use bytes::{Buf, Bytes};

use crate::code::{Code, Fault};
use crate::varint;

/// A frame type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
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

impl FrameKind {
    pub(crate) const fn from_number(number: u64) -> FrameKind {
        match number {
            0x0 => FrameKind::Data,
            0x1 => FrameKind::Headers,
            0x3 => FrameKind::CancelPush,
            0x4 => FrameKind::Settings,
            0x5 => FrameKind::PushPromise,
            0x7 => FrameKind::GoAway,
            0xd => FrameKind::MaxPushId,
            0xf0700 => FrameKind::RequestPriority,
            0xf0701 => FrameKind::PushPriority,
            0x2 | 0x6 | 0x8 | 0x9 => FrameKind::Http2,
            _ => FrameKind::Unknown,
        }
    }

    /// The rule that this frame breaks where it is not allowed.
    pub(crate) const fn unexpected(self) -> Fault {
        let rule = match self {
            FrameKind::Data => "data_unexpected",
            FrameKind::Headers => "headers_unexpected",
            FrameKind::CancelPush => "cancel_push_unexpected",
            FrameKind::Settings => "settings_unexpected",
            FrameKind::PushPromise => "push_promise_unexpected",
            FrameKind::GoAway => "goaway_unexpected",
            FrameKind::MaxPushId => "max_push_id_unexpected",
            FrameKind::RequestPriority | FrameKind::PushPriority => "priority_update_unexpected",
            FrameKind::Http2 => "http2_frame",
            FrameKind::Unknown => "frame_unexpected",
        };
        Fault::connection(Code::FrameUnexpected, rule)
    }
}

/// The numbers of the frame types that are sent.
pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;

/// The longest header: two integers of 8 bytes.
const MAX_HEADER: usize = 16;

/// The frame header being read: its type and length, as far as received.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameHeader {
    bytes: [u8; MAX_HEADER],
    count: u8,
}

impl FrameHeader {
    /// Whether part of it was read.
    pub(crate) fn is_partial(&self) -> bool {
        self.count > 0
    }

    /// Reads from the input; returns type, length and the size of the header once it is complete.
    #[inline]
    pub(crate) fn take(&mut self, input: &mut Bytes) -> Option<(FrameKind, u64, usize)> {
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

fn read_header(input: &[u8]) -> Option<(FrameKind, u64, usize)> {
    let (number, first) = varint::read(input)?;
    let (length, second) = varint::read(&input[first..])?;
    Some((FrameKind::from_number(number), length, first + second))
}

/// Encodes a frame. QUIC keeps it until it is acknowledged, so it has no spare capacity.
pub(crate) fn complete_frame(number: u8, payload: &[u8]) -> Bytes {
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
    complete_frame(GOAWAY, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_whatever_the_split() {
        for bytes in
            [&[0x01, 0x05][..], &[0x40, 0x00, 0x80, 0, 1, 0], &[0xc0, 0, 0, 0, 0, 0xf, 7, 0, 0x40, 9]]
        {
            let unsplit = FrameHeader::default().take(&mut Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(unsplit.2, bytes.len());
            for split in 1..bytes.len() {
                let mut header = FrameHeader::default();
                let mut first = Bytes::copy_from_slice(&bytes[..split]);
                assert_eq!(header.take(&mut first), None);
                assert!(header.is_partial());
                let mut rest = Bytes::from([&bytes[split..], b"payload"].concat());
                assert_eq!(header.take(&mut rest), Some(unsplit));
                assert_eq!((&rest[..], header.is_partial()), (&b"payload"[..], false));
            }
        }
    }

    #[test]
    fn rfc9114_7_2_8_reserved_types_are_unknown_and_those_of_http2_are_not() {
        for n in [0, 1, 5, 1 << 50] {
            assert_eq!(FrameKind::from_number(0x1f * n + 0x21), FrameKind::Unknown);
        }
        for number in [0x2, 0x6, 0x8, 0x9] {
            assert_eq!(FrameKind::from_number(number), FrameKind::Http2);
        }
    }

    #[test]
    fn go_away_has_the_length_of_its_id() {
        assert_eq!(go_away(varint::MAX - 3)[..], [7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]);
        assert_eq!(go_away(4)[..], [7, 1, 4]);
    }
}
