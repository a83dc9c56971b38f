//! A table of frames and a server's results for them, shared by the comparisons with other codecs.

use std::collections::BTreeMap;

use fairway_http2::Code;
use fairway_http2::frame::{FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind, HEADER_BYTES, Header};

use super::{
    GET, POST, PREFACE, frame, frames, goodbyes, headers, literal, reset, resets, settings, window_update,
};

/// A server's result for some input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerResult {
    Nothing,
    /// It reset a stream.
    Stream,
    /// It ended the connection.
    Connection,
    /// It no longer answers, without a reason.
    Silent,
}

/// The mark after the input: a peer that responds to it has read everything before it.
pub(crate) const MARK: [u8; 8] = *b"the mark";

/// The result, if the frames show one: the mark is answered, or the connection ends.
pub(crate) fn judged(bytes: &[u8]) -> Option<ServerResult> {
    let frames = frames(&bytes[..complete_length(bytes)]);
    if goodbyes(&frames).iter().any(|(_, code)| *code as u32 != 0) {
        return Some(ServerResult::Connection);
    }
    let answered = frames.iter().any(|frame| frame.kind == FrameKind::Ping && frame.payload == MARK);
    let result = if resets(&frames).is_empty() { ServerResult::Nothing } else { ServerResult::Stream };
    answered.then_some(result)
}

/// The same with the code of the first error.
pub(crate) fn judged_with_code(bytes: &[u8]) -> Option<(ServerResult, Code)> {
    let result = judged(bytes)?;
    let frames = frames(&bytes[..complete_length(bytes)]);
    let code = match result {
        ServerResult::Stream => resets(&frames).first().map(|(_, code)| *code),
        ServerResult::Connection => {
            goodbyes(&frames).iter().map(|(_, code)| *code).find(|code| *code != Code::NoError)
        }
        ServerResult::Nothing | ServerResult::Silent => None,
    };
    Some((result, code.unwrap_or(Code::NoError)))
}

/// The bytes of complete frames.
fn complete_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(header) = bytes[length..].first_chunk::<HEADER_BYTES>() {
        let end = length + HEADER_BYTES + Header::read(header).length as usize;
        if end > bytes.len() {
            break;
        }
        length = end;
    }
    length
}

/// A beginning with streams of all kinds: the body of 1 is incomplete, 3 has ended, 5 was reset.
pub(crate) fn beginning() -> Vec<u8> {
    let streams = [headers(1, false, POST), headers(3, true, GET), headers(5, false, POST), reset(5, 8)];
    [PREFACE, &settings(&[]), &frame(FrameKind::Settings, FLAG_ACK, 0, &[]), &streams.concat()].concat()
}

/// Frames of every type on every kind of stream with several flags and lengths, and others with a single defect.
pub(crate) fn frames_to_judge() -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for kind in 0..=11u8 {
        for stream in [0, 1, 2, 3, 5, 7] {
            for flags in [
                0,
                FLAG_END_STREAM,
                FLAG_END_HEADERS,
                FLAG_END_HEADERS | FLAG_END_STREAM,
                8,
                0x20 | FLAG_END_HEADERS,
            ] {
                for (name, payload) in payloads() {
                    let length = u32::try_from(payload.len()).unwrap();
                    let header = Header { length, kind, flags, stream };
                    let name = format!("kind {kind} stream {stream} flags {flags:#x} {name}");
                    all.insert(name, [&header.bytes()[..], &payload].concat());
                }
            }
        }
    }
    for (number, value) in
        [(2, 2), (3, 0), (4, 0x8000_0000), (4, 0x7fff_ffff), (5, 16_383), (5, 1 << 24), (8, 2), (99, 9)]
    {
        all.insert(format!("setting {number} of {value}"), settings(&[(number, value)]));
    }
    let window = [window_update(0, 0x7fff_ffff), window_update(1, 0x7fff_ffff), window_update(1, 1)];
    for (at, bytes) in window.into_iter().enumerate() {
        all.insert(format!("window {at}"), bytes);
    }
    for (name, field) in FIELDS {
        let (field_name, value) = field.split_once('=').unwrap();
        all.insert(format!("field {name}"), headers(7, true, &[GET, &literal(field_name, value)].concat()));
    }
    all
}

fn payloads() -> [(&'static str, Vec<u8>); 9] {
    [
        ("empty", vec![]),
        ("one byte", vec![0]),
        ("four zeros", vec![0; 4]),
        ("an increment", vec![0, 0, 0, 1]),
        ("five bytes", vec![0, 0, 0, 9, 1]),
        ("six bytes", vec![0; 6]),
        ("eight bytes", vec![0, 0, 0, 1, 0, 0, 0, 0]),
        ("a request", GET.to_vec()),
        ("padding and more", vec![2, 0x82, 0x86, 0x84, 0x01, 0x01, b'a', 0, 0]),
    ]
}

const FIELDS: [(&str, &str); 14] = [
    ("plain", "x=y"),
    ("upper case", "X=y"),
    ("connection", "connection=close"),
    ("keep-alive", "keep-alive=1"),
    ("transfer-encoding", "transfer-encoding=chunked"),
    ("upgrade", "upgrade=h2c"),
    ("te", "te=trailers"),
    ("other te", "te=gzip"),
    ("late pseudo", ":method=GET"),
    ("status", ":status=200"),
    ("unknown pseudo", ":x=y"),
    ("length", "content-length=5"),
    ("bad length", "content-length=five"),
    ("line feed", "x=a\nb"),
];
