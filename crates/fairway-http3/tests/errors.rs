//! What a client must not do, as a table: bytes on streams, and the resulting error (RFC 9114, RFC 9204, RFC 9218).

use std::collections::HashMap;

use fairway_http2::fields::Limits;
use fairway_http3::{Code, Config, PeerEventKind};
use quinn_proto::{Dir, StreamId};

use crate::support::serve::answer_all as serve;
use crate::support::{Pair, hex};

/// The expected result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// The connection is closed with this code.
    Closed(Code),
    /// The last request stream named is reset with this code, and the connection continues.
    Reset(Code),
    /// The requests named get a response.
    Fine,
}

use Code::*;
use Expect::*;

/// A case: its name, steps, and the expected result.
///
/// Steps are separated by `;`. Each has the name of a stream (`u` and a digit: unidirectional, `r` and a digit: a
/// request), bytes as in [`hex`], and then `.` if the stream ends or `!` if it is reset.
type Case = (&'static str, &'static str, Expect);

const CONTROL_STREAM: &[Case] = &[
    ("6.2.1 DATA comes first", "u0 00 00 00", Closed(MissingSettings)),
    ("6.2.1 HEADERS comes first", "u0 00 GET", Closed(MissingSettings)),
    ("6.2.1 GOAWAY comes first", "u0 00 07 01 00", Closed(MissingSettings)),
    ("6.2.1 a reserved frame comes first", "u0 00 21 00", Closed(MissingSettings)),
    ("6.2.1 MAX_PUSH_ID comes first", "u0 00 0d 01 00", Closed(MissingSettings)),
    ("6.2.1 PRIORITY_UPDATE comes first", "u0 00 80 0f 07 00 02 00 69", Closed(MissingSettings)),
    ("6.2.1 a second control stream", "u0 CONTROL; u1 CONTROL", Closed(StreamCreation)),
    ("6.2.1 a second control stream, nothing but its type", "u0 CONTROL; u1 00", Closed(StreamCreation)),
    ("6.2.1 the control stream ends", "u0 CONTROL .", Closed(ClosedCriticalStream)),
    ("6.2.1 the control stream ends without SETTINGS", "u0 00 .", Closed(ClosedCriticalStream)),
    ("6.2.1 the control stream ends within a frame", "u0 00 04 .", Closed(ClosedCriticalStream)),
    ("6.2.1 the control stream is reset", "u0 CONTROL; u0 !", Closed(ClosedCriticalStream)),
    ("7.2.4 SETTINGS twice", "u0 CONTROL 04 00", Closed(FrameUnexpected)),
    ("7.2.4 a setting twice", "u0 00 04 04 06 01 06 01", Closed(Settings)),
    ("7.2.4 an unknown setting twice", "u0 00 04 04 21 01 21 02", Closed(Settings)),
    ("7.2.4.1 ENABLE_PUSH of HTTP/2", "u0 00 04 02 02 00", Closed(Settings)),
    ("7.2.4.1 MAX_CONCURRENT_STREAMS of HTTP/2", "u0 00 04 02 03 01", Closed(Settings)),
    ("7.2.4.1 INITIAL_WINDOW_SIZE of HTTP/2", "u0 00 04 02 04 01", Closed(Settings)),
    ("7.2.4.1 MAX_FRAME_SIZE of HTTP/2", "u0 00 04 02 05 01", Closed(Settings)),
    ("RFC 9220 ENABLE_CONNECT_PROTOCOL of 2", "u0 00 04 02 08 02", Closed(Settings)),
    ("RFC 9297 H3_DATAGRAM of 2", "u0 00 04 02 33 02", Closed(Settings)),
    ("7.1 SETTINGS without a value", "u0 00 04 01 06", Closed(Frame)),
    ("7.1 SETTINGS with a truncated identifier", "u0 00 04 01 40", Closed(Frame)),
    ("7.1 SETTINGS with a truncated value", "u0 00 04 02 06 40", Closed(Frame)),
    ("10.5 SETTINGS of 64 KiB", "u0 00 04 80 01 00 00", Closed(ExcessiveLoad)),
    ("7.2.1 DATA on the control stream", "u0 CONTROL 00 00", Closed(FrameUnexpected)),
    ("7.2.2 HEADERS on the control stream", "u0 CONTROL GET", Closed(FrameUnexpected)),
    ("7.2.5 PUSH_PROMISE on the control stream", "u0 CONTROL 05 01 00", Closed(FrameUnexpected)),
    ("7.2.8 PRIORITY of HTTP/2 on the control stream", "u0 CONTROL 02 00", Closed(FrameUnexpected)),
    ("7.2.8 PING of HTTP/2 on the control stream", "u0 CONTROL 06 00", Closed(FrameUnexpected)),
    ("7.2.8 WINDOW_UPDATE of HTTP/2 on the control stream", "u0 CONTROL 08 00", Closed(FrameUnexpected)),
    ("7.2.8 CONTINUATION of HTTP/2 on the control stream", "u0 CONTROL 09 00", Closed(FrameUnexpected)),
    ("7.2.3 CANCEL_PUSH of what was not promised", "u0 CONTROL 03 01 00", Closed(Id)),
    ("7.1 CANCEL_PUSH without an id", "u0 CONTROL 03 00", Closed(Frame)),
    ("7.1 CANCEL_PUSH with more than an id", "u0 CONTROL 03 02 00 00", Closed(Frame)),
    ("7.1 CANCEL_PUSH of nine bytes", "u0 CONTROL 03 09", Closed(Frame)),
    ("7.2.6 GOAWAY that increases", "u0 CONTROL 07 01 01 07 01 02", Closed(Id)),
    ("7.1 GOAWAY without an id", "u0 CONTROL 07 00", Closed(Frame)),
    ("7.1 GOAWAY with more than an id", "u0 CONTROL 07 02 00 00", Closed(Frame)),
    ("7.1 GOAWAY with a truncated id", "u0 CONTROL 07 01 40", Closed(Frame)),
    ("7.2.7 MAX_PUSH_ID that decreases", "u0 CONTROL 0d 01 02 0d 01 01", Closed(Id)),
    ("7.1 MAX_PUSH_ID without an id", "u0 CONTROL 0d 00", Closed(Frame)),
    ("7.1 MAX_PUSH_ID with more than an id", "u0 CONTROL 0d 02 00 00", Closed(Frame)),
    ("RFC 9218 PRIORITY_UPDATE of a server's stream", "u0 CONTROL 80 0f 07 00 02 01 69", Closed(Id)),
    ("RFC 9218 PRIORITY_UPDATE of a control stream", "u0 CONTROL 80 0f 07 00 02 02 69", Closed(Id)),
    ("RFC 9218 PRIORITY_UPDATE beyond the stream limit", "u0 CONTROL 80 0f 07 00 02 41 90", Closed(Id)),
    ("RFC 9218 PRIORITY_UPDATE without an id", "u0 CONTROL 80 0f 07 00 00", Closed(Frame)),
    ("RFC 9218 PRIORITY_UPDATE that is not ASCII", "u0 CONTROL 80 0f 07 00 02 00 ff", Closed(Frame)),
    ("RFC 9218 PRIORITY_UPDATE of a push", "u0 CONTROL 80 0f 07 01 02 00 69", Closed(Id)),
    ("RFC 9218 PRIORITY_UPDATE of a push without an id", "u0 CONTROL 80 0f 07 01 00", Closed(Frame)),
    ("10.5 PRIORITY_UPDATE of 64 KiB", "u0 CONTROL 80 0f 07 00 80 01 00 00", Closed(ExcessiveLoad)),
    ("7.2.6 GOAWAY that stays and decreases", "u0 CONTROL 07 01 02 07 01 02 07 01 00; r0 GET .", Fine),
    ("7.2.7 MAX_PUSH_ID that increases", "u0 CONTROL 0d 01 01 0d 01 02; r0 GET .", Fine),
    ("9 reserved frames on the control stream", "u0 CONTROL 21 03 01 02 03 40 40 00; r0 GET .", Fine),
    ("9 an unknown setting", "u0 00 04 02 21 05; r0 GET .", Fine),
    (
        "a control stream byte by byte",
        "u0 00; u0 04; u0 02; u0 06; u0 05; u0 07; u0 01; u0 00; r0 GET .",
        Fine,
    ),
];

const UNIDIRECTIONAL: &[Case] = &[
    ("6.2.2 a push stream of a client", "u0 01", Closed(StreamCreation)),
    (
        "6.2.2 a push stream of a client, type in 8 bytes",
        "u0 c0 00 00 00 00 00 00 01",
        Closed(StreamCreation),
    ),
    ("RFC 9204 4.2 a second encoder stream", "u0 02; u1 02", Closed(StreamCreation)),
    ("RFC 9204 4.2 a second decoder stream", "u0 03; u1 03", Closed(StreamCreation)),
    ("RFC 9204 4.2 the encoder stream ends", "u0 02 .", Closed(ClosedCriticalStream)),
    ("RFC 9204 4.2 the decoder stream ends", "u0 03 .", Closed(ClosedCriticalStream)),
    ("RFC 9204 4.2 the encoder stream is reset", "u0 02; u0 !", Closed(ClosedCriticalStream)),
    ("RFC 9204 4.2 the decoder stream is reset", "u0 03; u0 !", Closed(ClosedCriticalStream)),
    ("6.2 a stream that ends before its type", "u0 .; u1 40 .; r0 GET .", Fine),
    ("6.2 a stream that is reset before its type", "u0 40; u0 !; r0 GET .", Fine),
    ("6.2.3 a reserved stream", "u0 21 01 02 03; r0 GET .", Fine),
    ("9 a stream of an unknown type", "u0 54 01 02 03; u0 04 .; r0 GET .", Fine),
    ("RFC 9204 4.3.1 a capacity over the limit", "u0 02 3f e2 1f", Closed(QpackEncoderStream)),
    ("RFC 9204 3.2.2 an insertion without capacity", "u0 02 c0 01 61", Closed(QpackEncoderStream)),
    ("RFC 9204 3.2.5 a duplicate of nothing", "u0 02 3f e1 1f 00", Closed(QpackEncoderStream)),
    ("RFC 9204 3.2.5 a name of nothing", "u0 02 3f e1 1f 80 01 61", Closed(QpackEncoderStream)),
    ("RFC 9204 3.1 a static name of 99", "u0 02 3f e1 1f ff 24 00", Closed(QpackEncoderStream)),
    ("RFC 9204 4.1.1 an integer of more than 62 bits", "u0 02 3f ff*8 7f", Closed(QpackEncoderStream)),
    ("RFC 9204 4.1.2 a bad Huffman code", "u0 02 3f e1 1f c0 84 ff*4", Closed(QpackEncoderStream)),
    ("RFC 9204 4.3.2 an endless string", "u0 02 3f e1 1f c0 ff*5 7f", Closed(QpackEncoderStream)),
    ("RFC 9204 4.4.1 an acknowledged section", "r0 GET .; u0 03 80", Closed(QpackDecoderStream)),
    ("RFC 9204 4.4.3 an increment of 0", "u0 03 00", Closed(QpackDecoderStream)),
    ("RFC 9204 4.4.3 an increment of what was not inserted", "u0 03 01", Closed(QpackDecoderStream)),
    ("RFC 9204 4.1.1 a decoder integer of more than 62 bits", "u0 03 7f ff*9", Closed(QpackDecoderStream)),
    ("RFC 9204 4.4.2 a stream cancellation", "u0 03 40 7f; u0 05; r0 GET .", Fine),
    ("RFC 9204 4.3.1 a capacity within the limit", "u0 02 3f e1 1f; u0 20; r0 GET .", Fine),
];

const REQUEST: &[Case] = &[
    ("4.1 DATA comes first", "r0 00 01 61", Closed(FrameUnexpected)),
    ("4.1 empty DATA comes first", "r0 00 00", Closed(FrameUnexpected)),
    ("4.1 DATA behind trailers", "r0 POST 00 01 61 TRAILERS 00 01 61", Closed(FrameUnexpected)),
    ("4.1 HEADERS behind trailers", "r0 POST TRAILERS TRAILERS", Closed(FrameUnexpected)),
    ("7.2.3 CANCEL_PUSH on a request", "r0 GET 03 01 00", Closed(FrameUnexpected)),
    ("7.2.4 SETTINGS on a request", "r0 04 00", Closed(FrameUnexpected)),
    ("7.2.4 SETTINGS behind a head", "r0 GET 04 00", Closed(FrameUnexpected)),
    ("7.2.5 PUSH_PROMISE of a client", "r0 GET 05 01 00", Closed(FrameUnexpected)),
    ("7.2.6 GOAWAY on a request", "r0 GET 07 01 00", Closed(FrameUnexpected)),
    ("7.2.7 MAX_PUSH_ID on a request", "r0 0d 01 00", Closed(FrameUnexpected)),
    ("RFC 9218 PRIORITY_UPDATE on a request", "r0 GET 80 0f 07 00 02 00 69", Closed(FrameUnexpected)),
    ("RFC 9218 PRIORITY_UPDATE of a push on a request", "r0 80 0f 07 01 02 00 69", Closed(FrameUnexpected)),
    ("7.2.8 PRIORITY of HTTP/2", "r0 02 00", Closed(FrameUnexpected)),
    ("7.2.8 PING of HTTP/2", "r0 GET 06 00", Closed(FrameUnexpected)),
    ("7.2.8 WINDOW_UPDATE of HTTP/2", "r0 GET 08 00", Closed(FrameUnexpected)),
    ("7.2.8 CONTINUATION of HTTP/2", "r0 GET 09 00", Closed(FrameUnexpected)),
    ("4.4 HEADERS in a tunnel", "r0 CONNECT 00 01 61 TRAILERS", Closed(FrameUnexpected)),
    ("7.1 a truncated frame header", "r0 01 .", Closed(Frame)),
    ("7.1 a truncated frame type", "r0 40 .", Closed(Frame)),
    ("7.1 a truncated head", "r0 01 08 00 00 d1 .", Closed(Frame)),
    ("7.1 truncated DATA", "r0 POST 00 05 61 62 .", Closed(Frame)),
    ("7.1 DATA without its payload", "r0 POST 00 05 .", Closed(Frame)),
    ("7.1 truncated trailers", "r0 POST 01 06 00 00 .", Closed(Frame)),
    ("7.1 a truncated unknown frame", "r0 GET 21 05 00 .", Closed(Frame)),
    ("7.1 a truncated frame header behind a body", "r0 POST 00 01 61 00 .", Closed(Frame)),
    ("4.1 a stream without a request", "r0 .", Reset(RequestIncomplete)),
    ("4.1 a stream with nothing but an unknown frame", "r0 21 00 .", Reset(RequestIncomplete)),
    ("RFC 9204 2.2.3 a dynamic field without insertions", "r0 01 03 00 00 80 .", Closed(QpackDecompression)),
    ("RFC 9204 4.5.1 an empty section", "r0 01 00 .", Closed(QpackDecompression)),
    ("RFC 9204 3.1 a static field of 99", "r0 01 04 00 00 ff 24 .", Closed(QpackDecompression)),
    ("RFC 9204 4.5.1.1 an insert count over the range", "r0 01 04 ff 80 10 00 .", Closed(QpackDecompression)),
    ("RFC 9204 4.5.1.2 a base below 0", "r0 01 02 02 81 .", Closed(QpackDecompression)),
    ("RFC 9204 bad trailers", "r0 POST 01 03 00 00 80 .", Closed(QpackDecompression)),
    (
        "4.1.2 content-length over the body",
        "r0 01 0b 00 00 d4 d7 c1 50 01 61 54 01 35 00 01 61 .",
        Reset(Message),
    ),
    (
        "4.1.2 content-length under the body",
        "r0 01 0b 00 00 d4 d7 c1 50 01 61 54 01 31 00 02 61 61 .",
        Reset(Message),
    ),
    ("4.1.2 content-length without a body", "r0 01 0b 00 00 d4 d7 c1 50 01 61 54 01 31 .", Reset(Message)),
    (
        "4.1.2 content-length before trailers",
        "r0 01 0b 00 00 d4 d7 c1 50 01 61 54 01 31 TRAILERS .",
        Reset(Message),
    ),
    ("4.1.2 content-length twice", "r0 01 0e 00 00 d4 d7 c1 50 01 61 54 01 31 54 01 31 .", Reset(Message)),
    ("4.1.2 content-length that is no number", "r0 01 0b 00 00 d4 d7 c1 50 01 61 54 01 2b .", Reset(Message)),
    ("4.3.1 no method", "r0 01 07 00 00 d7 c1 50 01 61 .", Reset(Message)),
    ("4.3.1 no scheme", "r0 01 07 00 00 d1 c1 50 01 61 .", Reset(Message)),
    ("4.3.1 no path", "r0 01 07 00 00 d1 d7 50 01 61 .", Reset(Message)),
    ("4.3.1 an empty path", "r0 01 09 00 00 d1 d7 51 00 50 01 61 .", Reset(Message)),
    ("4.3 the method twice", "r0 01 09 00 00 d1 d1 d7 c1 50 01 61 .", Reset(Message)),
    ("4.3 a status in a request", "r0 01 09 00 00 d9 d1 d7 c1 50 01 61 .", Reset(Message)),
    ("4.3 an unknown pseudo-header field", "r0 01 0c 00 00 d1 d7 c1 50 01 61 22 3a 78 00 .", Reset(Message)),
    (
        "4.3 a pseudo-header field behind a field",
        "r0 01 0c 00 00 d1 d7 21 78 01 79 c1 50 01 61 .",
        Reset(Message),
    ),
    ("4.3 a pseudo-header field in trailers", "r0 POST 01 03 00 00 d1 .", Reset(Message)),
    ("4.2 a name in upper case", "r0 01 0c 00 00 d1 d7 c1 50 01 61 21 58 01 79 .", Reset(Message)),
    ("4.2 an empty name", "r0 01 0b 00 00 d1 d7 c1 50 01 61 20 01 79 .", Reset(Message)),
    ("4.2 te: gzip", "r0 01 10 00 00 d1 d7 c1 50 01 61 22 74 65 04 67 7a 69 70 .", Reset(Message)),
    ("10.3 a line feed in a value", "r0 01 0c 00 00 d1 d7 c1 50 01 61 21 78 01 0a .", Reset(Message)),
    ("4.4 CONNECT with a scheme", "r0 01 09 00 00 cf d7 50 03 61 3a 31 .", Reset(Message)),
    ("4.4 CONNECT without an authority", "r0 01 03 00 00 cf .", Reset(Message)),
    ("4.1 a request without a body", "u0 CONTROL; r0 GET .", Fine),
    ("4.1 a request before SETTINGS", "r0 GET .", Fine),
    ("4.1 a request with a body and trailers", "r0 POST 00 02 61 62 00 01 63 TRAILERS .", Fine),
    ("9 unknown frames everywhere", "r0 21 02 00 00 POST 21 00 00 01 61 40 40 01 00 TRAILERS 21 00 .", Fine),
    (
        "a request byte by byte",
        "r0 01; r0 08; r0 00; r0 00; r0 d1; r0 d7; r0 c1; r0 50; r0 01; r0 61; r0 .",
        Fine,
    ),
    ("frame headers in 16 bytes", "r0 c0 zero*6 01 c0 zero*6 08 00 00 d1 d7 c1 50 01 61 .", Fine),
    ("an end that comes later", "r0 GET; r0 .", Fine),
];

fn check(cases: &[Case], config: Config) {
    for case in cases {
        // Once with time between the steps, once with everything in transit at the same time.
        run(case, config, false);
        // A reset discards what was sent before it, unless that has arrived.
        if !case.1.contains('!') {
            run(case, config, true);
        }
    }
}

#[track_caller]
fn run(&(name, steps, expect): &Case, config: Config, at_once: bool) {
    let mut pair = Pair::new(config);
    let mut streams: HashMap<&str, StreamId> = HashMap::new();
    let mut last = None;
    for step in steps.split(';') {
        let (stream, rest) = step.trim().split_once(' ').unwrap_or((step.trim(), ""));
        let dir = if stream.starts_with('u') { Dir::Uni } else { Dir::Bi };
        let id = *streams.entry(stream).or_insert_with(|| pair.open(dir));
        if dir == Dir::Bi {
            last = Some(id);
        }
        let (rest, end) = match rest.chars().last() {
            Some(end @ ('.' | '!')) => (&rest[..rest.len() - 1], Some(end)),
            _ => (rest, None),
        };
        let bytes = hex::bytes(rest);
        // What the server closed or stopped accepts nothing more.
        if pair.write(id, &bytes) == bytes.len() {
            match end {
                Some('.') => pair.finish(id),
                Some(_) => pair.reset(id, 0x10c),
                None => {}
            }
        }
        if !at_once {
            pair.drive();
            serve(&mut pair);
        }
    }
    for _ in 0..3 {
        pair.drive();
        serve(&mut pair);
    }
    let context = format!("{name}, at once: {at_once}, events: {:?}", pair.take_events());
    let closed = pair.closed();
    match expect {
        Closed(code) => {
            let (number, reason) = closed.unwrap_or_else(|| panic!("not closed: {context}"));
            assert_eq!(number, code.number(), "{context}: {reason}");
            let note = pair.server.next_peer_event().expect("it was noted");
            let noted: Vec<_> =
                std::iter::once(note).chain(std::iter::from_fn(|| pair.server.next_peer_event())).collect();
            let is_noted = |note: &fairway_http3::PeerEvent| {
                note.kind == PeerEventKind::ConnectionFault && note.reason == reason
            };
            assert!(noted.iter().any(is_noted), "{context}: {noted:?}");
        }
        Reset(code) => {
            assert_eq!(closed, None, "{context}");
            let received = pair.received(last.unwrap());
            assert_eq!((received.reset, received.finished), (Some(code.number()), false), "{context}");
            let another = pair.request(&hex::bytes("GET"));
            pair.drive();
            serve(&mut pair);
            pair.drive();
            assert!(pair.received(another).finished, "the connection goes on: {context}");
        }
        Fine => {
            assert_eq!(closed, None, "{context}");
            for (stream, id) in streams.iter().filter(|(stream, _)| stream.starts_with('r')) {
                let received = pair.received(*id);
                assert!(received.finished && received.reset.is_none(), "{stream} of {context}");
            }
        }
    }
    assert_eq!(pair.server.open_streams(), 0, "{context}");
}

#[test]
fn rfc9114_6_2_1_and_7_2_the_control_stream_has_rules() {
    check(CONTROL_STREAM, Config::default());
}

#[test]
fn rfc9114_6_2_and_rfc9204_4_unidirectional_streams_have_rules() {
    check(UNIDIRECTIONAL, Config::default());
}

#[test]
fn rfc9114_4_and_7_request_streams_have_rules() {
    check(REQUEST, Config::default());
}

#[test]
fn rfc9204_2_1_2_no_more_streams_may_be_blocked_than_were_offered() {
    let config = Config { blocked_streams: 2, ..Config::default() };
    let blocked = "r0 01 03 02 00 80 .; r1 01 03 02 00 80 .; r2 01 03 02 00 80 .";
    check(&[("2.1.2 three blocked streams", blocked, Closed(QpackDecompression))], config);
    let none = Config { blocked_streams: 0, ..Config::default() };
    check(&[("2.1.2 one blocked stream", "r0 01 03 02 00 80 .", Closed(QpackDecompression))], none);
    let without = Config { qpack_table: 0, ..Config::default() };
    check(
        &[
            ("3.2.3 a section that needs insertions", "r0 01 03 02 00 80 .", Closed(QpackDecompression)),
            ("3.2.3 any capacity", "u0 02 21", Closed(QpackEncoderStream)),
            ("3.2.3 no capacity", "u0 02 20; r0 GET .", Fine),
        ],
        without,
    );
}

#[test]
fn rfc9220_extended_connect_needs_an_offer() {
    // `:protocol` is `websocket`.
    let steps =
        "r0 01 1d 00 00 cf d7 c1 50 01 61 27 02 3a 70 72 6f 74 6f 63 6f 6c 09 77 65 62 73 6f 63 6b 65 74 .";
    check(&[("without an offer", steps, Reset(Message))], Config::default());
    check(&[("with an offer", steps, Fine)], Config { extended_connect: true, ..Config::default() });
}

#[test]
fn trailers_over_a_limit_reset_their_stream() {
    let config = Config { limits: Limits { list_bytes: 512, fields: 8 }, ..Config::default() };
    check(
        &[
            ("a frame over the limit", "r0 POST 01 42 01 00 00 zero*511 .", Reset(ExcessiveLoad)),
            ("too many fields", "r0 POST 01 1a 00 00 f4*24 .", Reset(ExcessiveLoad)),
        ],
        config,
    );
}
