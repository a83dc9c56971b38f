//! HTTP/2 frames as bytes, valid or not (RFC 9113 §4, §6). Keeps no connection state.

use super::site::HOST;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
/// The largest window, and the largest increment of one.
pub(super) const MAX_WINDOW: u32 = (1 << 31) - 1;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream of bytes that grows frame by frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames(Vec<u8>);

impl Frames {
    /// The client's preface with these settings.
    pub(super) fn opening(settings: &[(u16, u32)]) -> Self {
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        Self(PREFACE.to_vec()).frame(SETTINGS, 0, 0, &payload)
    }

    pub(super) fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        self.0.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        self.0.extend_from_slice(&[kind, flags]);
        self.0.extend_from_slice(&stream.to_be_bytes());
        self.0.extend_from_slice(payload);
        self
    }

    /// A request that is complete with its head.
    pub(super) fn get(self, stream: u32, path: &str) -> Self {
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &head(false, path))
    }

    /// The head of a request with content.
    pub(super) fn post(self, stream: u32, path: &str) -> Self {
        self.frame(HEADERS, END_HEADERS, stream, &head(true, path))
    }

    /// As many times as there are streams of a client, which have odd numbers.
    pub(super) fn streams(self, count: u32, each: impl Fn(Self, u32) -> Self) -> Self {
        (0..count).fold(self, |frames, number| each(frames, 2 * number + 1))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A field block that leaves the decoder's table as it is (RFC 7541 §6.1, §6.2.2).
pub(super) fn head(is_post: bool, path: &str) -> Vec<u8> {
    // `:method`, `:scheme: http`, then literals with the names `:path` and `:authority`.
    let mut block = vec![if is_post { 0x83 } else { 0x82 }, 0x86];
    literal(&mut block, 0x04, path);
    literal(&mut block, 0x01, HOST);
    block
}

fn literal(block: &mut Vec<u8>, name: u8, value: &str) {
    assert!(value.len() < 127, "the length has one octet");
    block.extend_from_slice(&[name, value.len() as u8]);
    block.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_kind_flags_and_stream_before_its_payload() {
        let bytes = Frames::default().frame(PING, 1, 0, b"12345678").get(3, "/").into_bytes();
        assert_eq!(bytes[..17], *b"\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678");
        let block = [&b"\x82\x86\x04\x01/\x01\x0a"[..], HOST.as_bytes()].concat();
        assert_eq!(bytes[17..26], [0, 0, block.len() as u8, HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, 3]);
        assert_eq!(bytes[26..], block);
    }
}
