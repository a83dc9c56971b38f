//! Parses what a server sent on a request stream.

use fairway_http3::qpack::Decoder;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// HEADERS, its fields as `name: value`.
    Headers(Vec<String>),
    /// DATA.
    Data(Vec<u8>),
    /// Any other frame.
    Other(u64, Vec<u8>),
}

/// An integer of RFC 9000 §16, and the rest.
fn integer(bytes: &[u8]) -> (u64, &[u8]) {
    let length = 1 << (bytes[0] >> 6);
    let first = u64::from(bytes[0] & 0x3f);
    let value = bytes[1..length].iter().fold(first, |value, &byte| value << 8 | u64::from(byte));
    (value, &bytes[length..])
}

/// The frames of a stream, which must all be complete.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (kind, rest) = integer(bytes);
        let (length, rest) = integer(rest);
        let (payload, rest) = rest.split_at(length as usize);
        frames.push(match kind {
            0 => Frame::Data(payload.to_vec()),
            1 => Frame::Headers(fields(payload)),
            other => Frame::Other(other, payload.to_vec()),
        });
        bytes = rest;
    }
    frames
}

fn fields(section: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    let mut decoder = Decoder::new(0);
    decoder
        .decode(0, section, |line| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            fields.push(format!("{}: {}", text(line.name()), text(line.value())));
        })
        .expect("the section is valid");
    fields
}

/// The payloads of all DATA frames.
pub(crate) fn body(bytes: &[u8]) -> Vec<u8> {
    let data = frames(bytes).into_iter().filter_map(|frame| match frame {
        Frame::Data(bytes) => Some(bytes),
        Frame::Headers(_) | Frame::Other(..) => None,
    });
    data.flatten().collect()
}
