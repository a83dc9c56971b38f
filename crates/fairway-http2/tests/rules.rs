//! A server's reactions to invalid frames, one row each, named for the section of RFC 9113 if it has no other name.

use fairway_http2::frame::{
    FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FLAG_PADDED, FLAG_PRIORITY, FrameKind,
};
use fairway_http2::{Code, Config};

use crate::support::*;

/// The connection ends with this code, and nothing more is read.
#[track_caller]
fn connection_error(peer: &mut Peer, bytes: &[u8], code: Code) {
    let events = peer.send(bytes);
    assert!(
        matches!(events.last(), Some(ReceivedEvent::Other(text)) if text.starts_with("Closed")),
        "{events:?}"
    );
    let sent = peer.sent();
    assert_eq!(goodbyes(&sent).iter().map(|(_, code)| *code).collect::<Vec<_>>(), [code], "{events:?}");
    let after = peer.send(&headers(101, true, GET));
    assert!(matches!(&after[..], [ReceivedEvent::Other(text)] if text.starts_with("Closed")), "{after:?}");
    assert!(peer.sent().is_empty() && peer.server.is_done());
}

/// The stream ends with this code, and the connection continues.
#[track_caller]
fn stream_error(peer: &mut Peer, bytes: &[u8], stream: u32, code: Code) {
    let events = peer.send(bytes);
    let sent = peer.sent();
    assert_eq!(resets(&sent), [(stream, code)], "{events:?}");
    assert!(goodbyes(&sent).is_empty());
    assert_usable(peer);
}

/// There is no reaction, and the connection continues.
#[track_caller]
fn ignored(peer: &mut Peer, bytes: &[u8]) {
    assert_eq!(peer.send(bytes), []);
    assert_eq!(peer.sent(), []);
    assert_usable(peer);
}

#[track_caller]
fn assert_usable(peer: &mut Peer) {
    assert_eq!(peer.send(&ping(0)), []);
    let sent = peer.sent();
    assert!(
        matches!(&sent[..], [frame] if frame.kind == FrameKind::Ping && frame.flags == FLAG_ACK),
        "{sent:?}"
    );
}

/// A server whose stream 1 is an incomplete POST.
fn posting() -> Peer {
    let mut peer = Peer::new();
    peer.post(1);
    peer
}

/// A server whose stream 1 is a GET without a response yet.
fn getting() -> Peer {
    let mut peer = Peer::new();
    peer.get(1);
    peer
}

#[test]
fn s3_4_a_bad_preface_or_another_first_frame() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", b"X"] {
        connection_error(&mut Peer::raw(Config::default()), bytes, Code::Protocol);
    }
    for first in
        [ping(0), headers(1, true, GET), window_update(0, 1), frame(FrameKind::Settings, FLAG_ACK, 0, &[])]
    {
        let bytes = [PREFACE, &first].concat();
        connection_error(&mut Peer::raw(Config::default()), &bytes, Code::Protocol);
    }
}

#[test]
fn s3_4_our_settings_come_first() {
    let mut peer = Peer::raw(Config::default());
    let sent = peer.sent();
    assert_eq!((sent[0].kind, sent[0].flags, sent[0].stream), (FrameKind::Settings, 0, 0));
    assert_eq!(updates(&sent), [(0, 1024 * 1024 - 65_535)]);
    peer.send(&[PREFACE, &settings(&[])].concat());
    assert!(
        matches!(&peer.sent()[..], [frame] if frame.kind == FrameKind::Settings && frame.flags == FLAG_ACK)
    );
}

#[test]
fn s4_1_and_s5_5_unknown_types_are_ignored_but_not_inside_a_block() {
    let unknown = [0, 0, 3, 0x77, 0xff, 0, 0, 0, 1, 1, 2, 3];
    ignored(&mut Peer::new(), &unknown);
    let block = [frame(FrameKind::Headers, FLAG_END_STREAM, 1, GET), unknown.to_vec()].concat();
    connection_error(&mut Peer::new(), &block, Code::Protocol);
}

#[test]
fn s4_2_frames_that_are_too_long() {
    stream_error(&mut posting(), &data(1, false, &[0; 16_385]), 1, Code::FrameSize);
    connection_error(&mut Peer::new(), &headers(1, true, &[0; 16_385]), Code::FrameSize);
    connection_error(&mut Peer::new(), &frame(FrameKind::Settings, 0, 0, &[0; 16_386]), Code::FrameSize);
    let mut peer = posting();
    assert!(matches!(&peer.send(&data(1, false, &[0; 16_384]))[..], [ReceivedEvent::Data { .. }]));
}

#[test]
fn s4_3_a_block_that_cannot_be_decoded() {
    for block in [&[0x80][..], &[0xff], &[0xbe], &[0x82, 0x20], &[0x00, 0x81, 0xff, 0x00]] {
        connection_error(&mut Peer::new(), &headers(1, true, block), Code::Compression);
    }
    let mut peer = getting();
    peer.server.reset(1, Code::Cancel);
    connection_error(&mut peer, &headers(1, true, &[0x80]), Code::Compression);
}

#[test]
fn s4_3_1_a_table_that_was_reduced_must_be_announced() {
    let small = Config { decoder_table_bytes: 0, ..Config::default() };
    connection_error(&mut Peer::with(small), &headers(1, true, GET), Code::Compression);
    let announced = [&[0x20], GET].concat();
    assert!(matches!(
        &Peer::with(small).send(&headers(1, true, &announced))[..],
        [ReceivedEvent::Head { .. }]
    ));
}

#[test]
fn s5_1_idle_streams_take_only_headers_and_priority() {
    for bytes in [data(1, false, b"x"), reset(1, 8), window_update(1, 1), data(2, false, b""), reset(2, 8)] {
        connection_error(&mut Peer::new(), &bytes, Code::Protocol);
    }
    ignored(&mut Peer::new(), &frame(FrameKind::Priority, 0, 1, &[0, 0, 0, 0, 0]));
}

#[test]
fn s5_1_only_control_frames_may_follow_the_end_of_a_stream() {
    stream_error(&mut getting(), &data(1, true, b"x"), 1, Code::StreamClosed);
    stream_error(&mut getting(), &headers(1, true, GET), 1, Code::StreamClosed);
    ignored(&mut getting(), &frame(FrameKind::Priority, 0, 1, &[0, 0, 0, 0, 0]));
}

#[test]
fn s5_1_frames_on_a_closed_stream_are_errors() {
    for bytes in [data(1, true, b"x"), headers(1, true, GET)] {
        let mut peer = getting();
        peer.respond(1);
        peer.sent();
        connection_error(&mut peer, &bytes, Code::StreamClosed);
    }
    let mut peer = getting();
    peer.respond(1);
    peer.sent();
    ignored(&mut peer, &[window_update(1, 0), reset(1, 8)].concat());
}

#[test]
fn s5_1_frames_on_a_stream_reset_by_the_peer_are_errors() {
    for release in [false, true] {
        for bytes in [data(1, true, b"x"), headers(1, true, GET)] {
            let mut peer = posting();
            peer.send(&reset(1, 8));
            if release {
                peer.server.release(1);
            }
            assert!(peer.sent().is_empty(), "no RST for RST");
            stream_error(&mut peer, &bytes, 1, Code::StreamClosed);
            ignored(&mut peer, &bytes);
        }
    }
}

#[test]
fn s5_1_frames_after_our_reset_are_ignored_but_decoded() {
    for release in [false, true] {
        let mut peer = posting();
        peer.server.reset(1, Code::Cancel);
        if release {
            peer.server.release(1);
        }
        assert_eq!(resets(&peer.sent()), [(1, Code::Cancel)]);
        let block = [&[0x40, 1, b'a', 1][..], b"b"].concat();
        ignored(&mut peer, &[data(1, false, b"x"), headers(1, true, &block), reset(1, 8)].concat());
        let events = peer.send(&headers(3, true, &[GET, &[0xbe]].concat()));
        assert!(
            matches!(&events[..], [ReceivedEvent::Head { fields: 2, .. }]),
            "the field is in the table: {events:?}"
        );
    }
}

#[test]
fn s5_1_1_ids_are_odd_and_rise() {
    connection_error(&mut Peer::new(), &headers(2, true, GET), Code::Protocol);
    let bytes = [headers(5, true, GET), headers(3, true, GET)].concat();
    connection_error(&mut Peer::new(), &bytes, Code::Protocol);
}

#[test]
fn s5_1_2_too_many_streams_are_refused() {
    let mut peer = Peer::with(Config { max_streams: 2, ..Config::default() });
    peer.get(1);
    peer.get(3);
    stream_error(&mut peer, &headers(5, true, GET), 5, Code::Refused);
    peer.respond(1);
    peer.get(7);
}

#[test]
fn s5_1_2_unreleased_streams_delay_new_ones() {
    let mut peer = Peer::with(Config { max_streams: 2, ..Config::default() });
    peer.get(1);
    peer.get(3);
    peer.send(&reset(1, 8));
    let wait = [ReceivedEvent::Other("Release".into())];
    assert_eq!(peer.send(&headers(5, true, GET)), wait);
    assert_eq!(peer.send(&[]), wait, "it waits");
    peer.server.release(1);
    assert!(matches!(&peer.send(&[])[..], [ReceivedEvent::Head { stream: 5, .. }]));
}

#[test]
fn rfc7540_5_3_1_a_stream_does_not_depend_on_itself() {
    stream_error(&mut posting(), &frame(FrameKind::Priority, 0, 1, &[0, 0, 0, 1, 0]), 1, Code::Protocol);
    let payload = [&[0, 0, 0, 1, 0], GET].concat();
    let flags = FLAG_END_HEADERS | FLAG_END_STREAM | FLAG_PRIORITY;
    stream_error(&mut Peer::new(), &frame(FrameKind::Headers, flags, 1, &payload), 1, Code::Protocol);
}

#[test]
fn s6_1_and_s6_2_stream_zero_and_too_much_padding() {
    connection_error(&mut Peer::new(), &data(0, true, b"x"), Code::Protocol);
    connection_error(&mut Peer::new(), &headers(0, true, GET), Code::Protocol);
    for payload in [&[][..], &[1], &[5, 0, 0, 0, 0]] {
        connection_error(&mut posting(), &frame(FrameKind::Data, FLAG_PADDED, 1, payload), Code::Protocol);
        let flags = FLAG_PADDED | FLAG_END_HEADERS;
        connection_error(&mut Peer::new(), &frame(FrameKind::Headers, flags, 1, payload), Code::Protocol);
    }
}

#[test]
fn s6_2_padding_and_priority_are_taken_off() {
    let payload = [&[3, 0x80, 0, 0, 9, 200], GET, &[0; 3]].concat();
    let flags = FLAG_PADDED | FLAG_PRIORITY | FLAG_END_HEADERS | FLAG_END_STREAM;
    let events = Peer::new().send(&frame(FrameKind::Headers, flags, 1, &payload));
    assert!(matches!(&events[..], [ReceivedEvent::Head { end: true, .. }]), "{events:?}");
    let events = posting().send(&frame(FrameKind::Data, FLAG_PADDED | FLAG_END_STREAM, 1, b"\x02ab\0\0"));
    assert_eq!(events, [ReceivedEvent::Data { stream: 1, bytes: b"ab".to_vec(), end: true }]);
}

#[test]
fn s6_3_and_s6_4_lengths_of_priority_and_reset() {
    stream_error(&mut posting(), &frame(FrameKind::Priority, 0, 1, &[0; 4]), 1, Code::FrameSize);
    connection_error(&mut posting(), &frame(FrameKind::Reset, 0, 1, &[0; 3]), Code::FrameSize);
    connection_error(&mut posting(), &frame(FrameKind::Reset, 0, 0, &[0; 4]), Code::Protocol);
}

#[test]
fn s6_5_settings_belong_to_the_connection_and_have_whole_entries() {
    connection_error(&mut Peer::new(), &frame(FrameKind::Settings, 0, 1, &[]), Code::Protocol);
    connection_error(&mut Peer::new(), &frame(FrameKind::Settings, 0, 0, &[0; 5]), Code::FrameSize);
    connection_error(&mut Peer::new(), &frame(FrameKind::Settings, FLAG_ACK, 0, &[0; 6]), Code::FrameSize);
}

#[test]
fn s6_5_2_values_have_ranges() {
    for (number, value, code) in [
        (2, 2, Code::Protocol),
        (4, 1 << 31, Code::FlowControl),
        (5, 16_383, Code::Protocol),
        (5, 1 << 24, Code::Protocol),
        (8, 2, Code::Protocol),
        (9, 2, Code::Protocol),
    ] {
        connection_error(&mut Peer::new(), &settings(&[(number, value)]), code);
    }
    let all = [(1, 0), (2, 1), (3, 0), (4, 0), (5, 16_384), (6, 0), (8, 1), (9, 1), (0x99, 7)];
    let mut peer = Peer::new();
    assert_eq!(peer.send(&settings(&all)), []);
    assert!(matches!(&peer.sent()[..], [frame] if frame.flags == FLAG_ACK));
}

#[test]
fn rfc8441_3_an_offer_is_not_taken_back() {
    let mut peer = Peer::new();
    assert_eq!(peer.send(&settings(&[(8, 1)])), []);
    peer.sent();
    connection_error(&mut peer, &settings(&[(8, 0)]), Code::Protocol);
}

#[test]
fn s6_5_3_settings_that_are_never_acknowledged() {
    let mut peer = Peer::raw(Config::default());
    peer.send(&[PREFACE, &settings(&[])].concat());
    assert_eq!(peer.server.deadline(), Some(10_000_000));
    assert_eq!(peer.server.handle_timeout(9_999_999), None);
    assert!(peer.server.handle_timeout(10_000_000).is_some());
    assert_eq!(goodbyes(&peer.sent()), [(0, Code::SettingsTimeout)]);
    assert_eq!(Peer::new().server.deadline(), None);
}

#[test]
fn s6_6_push_promise_is_refused() {
    connection_error(
        &mut posting(),
        &frame(FrameKind::PushPromise, FLAG_END_HEADERS, 1, &[0, 0, 0, 2]),
        Code::Protocol,
    );
}

#[test]
fn s6_7_ping() {
    connection_error(&mut Peer::new(), &frame(FrameKind::Ping, 0, 0, &[0; 7]), Code::FrameSize);
    connection_error(&mut Peer::new(), &frame(FrameKind::Ping, 0, 1, &[0; 8]), Code::Protocol);
    let mut peer = Peer::new();
    assert_eq!(peer.send(&ping(FLAG_ACK)), [ReceivedEvent::Other("Pong([7, 7, 7, 7, 7, 7, 7, 7])".into())]);
    assert_eq!(peer.sent(), [], "no reply to a reply");
}

#[test]
fn s6_8_go_away_does_not_rise() {
    let away = |last: u8| frame(FrameKind::GoAway, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    let mut peer = Peer::new();
    assert_eq!(
        peer.send(&away(7)),
        [ReceivedEvent::Other("GoAway { last_stream: 7, code: NoError }".into())]
    );
    peer.send(&away(5));
    connection_error(&mut peer, &away(7), Code::Protocol);
    connection_error(&mut Peer::new(), &frame(FrameKind::GoAway, 0, 1, &[0; 8]), Code::Protocol);
    connection_error(&mut Peer::new(), &frame(FrameKind::GoAway, 0, 0, &[0; 7]), Code::FrameSize);
}

#[test]
fn s6_8_the_server_shuts_down_in_two_steps() {
    let mut peer = Peer::new();
    peer.get(1);
    peer.server.go_away(5);
    let sent = peer.sent();
    assert_eq!(goodbyes(&sent), [(0x7fff_ffff, Code::NoError)]);
    peer.get(3);
    let pong = sent.iter().find(|frame| frame.kind == FrameKind::Ping).unwrap();
    assert_eq!(peer.send(&frame(FrameKind::Ping, FLAG_ACK, 0, &pong.payload)), []);
    assert_eq!(goodbyes(&peer.sent()), []);
    // Its library had queued this request, and answered the PING first.
    peer.get(5);
    assert_eq!(peer.server.deadline(), Some(250_000));
    assert_eq!(peer.server.handle_timeout(250_000), None);
    assert_eq!(goodbyes(&peer.sent()), [(5, Code::NoError)]);
    ignored(&mut peer, &[headers(7, false, GET), data(7, true, b"x")].concat());
    assert!(!peer.server.is_done());
    peer.respond(1);
    peer.respond(3);
    peer.respond(5);
    assert!(peer.server.is_done());
}

#[test]
fn s6_8_the_second_goaway_is_sent_after_a_timeout_too() {
    let mut peer = Peer::new();
    peer.server.go_away(5);
    peer.sent();
    assert_eq!(peer.server.deadline(), Some(1_000_005));
    assert_eq!(peer.server.handle_timeout(1_000_005), None);
    assert_eq!(goodbyes(&peer.sent()), [(0, Code::NoError)]);
    assert_eq!(peer.server.deadline(), None);
}

#[test]
fn s6_9_increments() {
    stream_error(&mut getting(), &window_update(1, 0), 1, Code::Protocol);
    connection_error(&mut getting(), &window_update(0, 0), Code::Protocol);
    stream_error(&mut getting(), &window_update(1, 0x7fff_ffff), 1, Code::FlowControl);
    connection_error(&mut getting(), &window_update(0, 0x7fff_ffff), Code::FlowControl);
    for stream in [0, 1] {
        connection_error(
            &mut getting(),
            &frame(FrameKind::WindowUpdate, 0, stream, &[0; 5]),
            Code::FrameSize,
        );
    }
}

#[test]
fn s6_9_1_more_than_a_window() {
    let mut peer = posting();
    for _ in 0..4 {
        assert!(matches!(&peer.send(&data(1, false, &[0; 16_384]))[..], [ReceivedEvent::Data { .. }]));
    }
    stream_error(&mut peer, &data(1, false, b"x"), 1, Code::FlowControl);
    let mut peer =
        Peer::with(Config { stream_window: 1 << 20, connection_window: 65_535, ..Config::default() });
    peer.post(1);
    for _ in 0..3 {
        peer.send(&data(1, false, &[0; 16_384]));
    }
    connection_error(&mut peer, &data(1, false, &[0; 16_384]), Code::FlowControl);
}

#[test]
fn s6_9_2_settings_can_make_windows_too_large() {
    let mut peer = getting();
    peer.send(&window_update(1, 0x7fff_ffff - 65_535));
    connection_error(&mut peer, &settings(&[(4, 65_536)]), Code::FlowControl);
}

#[test]
fn s6_10_blocks_are_not_interrupted() {
    let begin = frame(FrameKind::Headers, FLAG_END_STREAM, 1, &GET[..2]);
    connection_error(
        &mut Peer::new(),
        &frame(FrameKind::Continuation, FLAG_END_HEADERS, 1, GET),
        Code::Protocol,
    );
    for between in [ping(0), data(1, false, b""), headers(3, true, GET), settings(&[])] {
        connection_error(&mut Peer::new(), &[begin.clone(), between].concat(), Code::Protocol);
    }
    let other = frame(FrameKind::Continuation, FLAG_END_HEADERS, 3, &GET[2..]);
    connection_error(&mut Peer::new(), &[begin.clone(), other].concat(), Code::Protocol);
    let mut peer = Peer::new();
    let middle = frame(FrameKind::Continuation, 0, 1, &GET[2..4]);
    let last = frame(FrameKind::Continuation, FLAG_END_HEADERS, 1, &GET[4..]);
    let events = peer.send(&[begin, middle, last.clone()].concat());
    assert!(matches!(&events[..], [ReceivedEvent::Head { stream: 1, end: true, .. }]), "{events:?}");
    connection_error(&mut peer, &last, Code::Protocol);
}

#[test]
fn s8_1_trailers_end_the_stream() {
    stream_error(&mut posting(), &headers(1, false, &literal("a", "b")), 1, Code::Protocol);
    let events = posting().send(&headers(1, true, &literal("a", "b")));
    assert_eq!(events, [ReceivedEvent::Trailers { stream: 1, fields: 1 }]);
    stream_error(&mut posting(), &headers(1, true, &[0x84]), 1, Code::Protocol);
}

#[test]
fn s8_1_1_the_length_is_that_of_the_body() {
    let announced = [POST, &literal("content-length", "3")].concat();
    let begin = || {
        let mut peer = Peer::new();
        peer.send(&headers(1, false, &announced));
        peer
    };
    stream_error(&mut begin(), &data(1, false, b"abcd"), 1, Code::Protocol);
    stream_error(&mut begin(), &data(1, true, b"ab"), 1, Code::Protocol);
    stream_error(&mut begin(), &[data(1, false, b"ab"), data(1, false, b"cd")].concat(), 1, Code::Protocol);
    stream_error(&mut begin(), &[data(1, false, b"ab"), headers(1, true, &[])].concat(), 1, Code::Protocol);
    stream_error(&mut Peer::new(), &headers(1, true, &announced), 1, Code::Protocol);
    let events = begin().send(&[data(1, false, b"ab"), data(1, true, b"c")].concat());
    assert_eq!(events, [ReceivedEvent::Data { stream: 1, bytes: b"abc".to_vec(), end: true }]);
    let zero = [POST, &literal("content-length", "0")].concat();
    assert!(matches!(
        &Peer::new().send(&headers(1, true, &zero))[..],
        [ReceivedEvent::Head { end: true, .. }]
    ));
}

#[test]
fn s8_2_and_s8_3_malformed_requests_are_stream_errors() {
    for more in [
        literal("A", "b"),
        literal("a", "b\r\nc: d"),
        literal("a", " b"),
        literal("connection", "close"),
        literal("te", "gzip"),
        literal(":path", "/"),
        literal("host", "b"),
        literal("content-length", "x"),
    ] {
        stream_error(&mut Peer::new(), &headers(1, true, &[GET, &more].concat()), 1, Code::Protocol);
    }
    stream_error(&mut Peer::new(), &headers(1, true, &GET[..2]), 1, Code::Protocol);
}

#[test]
fn s8_5_connect_with_a_path() {
    let block = [&literal(":method", "CONNECT")[..], &GET[1..]].concat();
    stream_error(&mut Peer::new(), &headers(1, true, &block), 1, Code::Protocol);
}

#[test]
fn rfc9218_7_1_priority_update() {
    let update = |id: u32, text: &[u8]| {
        frame(FrameKind::PriorityUpdate, 0, 0, &[&id.to_be_bytes()[..], text].concat())
    };
    let events = getting().send(&update(1, b"u=1, i"));
    assert_eq!(events.len(), 1, "{events:?}");
    ignored(&mut getting(), &update(201, b"u=99"));
    for id in [0, 2, 1001] {
        connection_error(&mut getting(), &update(id, b"u=1"), Code::Protocol);
    }
    connection_error(&mut getting(), &frame(FrameKind::PriorityUpdate, 0, 1, &[0; 8]), Code::Protocol);
}

#[test]
fn an_oversized_head_is_reported_and_the_table_stays_in_sync() {
    let long = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat();
    let block = [GET, &long, &[0xbe; 9]].concat();
    let mut peer = Peer::new();
    assert_eq!(peer.send(&headers(1, true, &block)), [ReceivedEvent::HeadTooLarge { stream: 1, end: true }]);
    peer.respond(1);
    let events = peer.send(&headers(3, true, &[GET, &[0xbe]].concat()));
    assert!(matches!(&events[..], [ReceivedEvent::Head { fields: 2, .. }]), "{events:?}");
}
