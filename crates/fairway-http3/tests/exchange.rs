//! Valid requests and responses.

use fairway_http3::{Config, Event, PeerEventKind};
use quinn_proto::Dir;

use crate::support::response::{Frame, body, frames};
use crate::support::serve::{self, respond_204, response};
use crate::support::{Pair, Setup, hex};

#[test]
fn settings_are_sent_first_and_the_decoder_stream_has_its_type() {
    let pair = Pair::new(Config { extended_connect: true, ..Config::default() });
    let settings = [0, 4, 12, 6, 0x80, 0, 0x80, 0, 1, 0x50, 0, 7, 16, 8, 1];
    assert_eq!(pair.received_unidirectional(0), settings);
    assert_eq!(pair.received_unidirectional(1), [3]);
}

#[test]
fn a_request_becomes_a_head_and_its_response_frames() {
    let mut pair = Pair::new(Config::default());
    pair.open_control_stream();
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    let events = pair.take_events();
    let [Event::Head { stream, end: true, length: None, protocol: None, head_bytes: 10 }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*stream, id);
    assert_eq!(pair.heads[0].1, ["GET /", "Host: a"]);
    assert_eq!(pair.server.slot(id), Some(0));
    let head = response(200, &[("Server", "x"), ("Connection", "close"), ("Content-Length", "5")]);
    let (server, quic) = pair.both_mut();
    assert_eq!(server.room(id), 0, "no body before a head");
    assert!(server.send_head(quic, id, &response(103, &[("Link", "</a>")]), false) > 0);
    let bytes = server.send_head(quic, id, &head, false);
    assert!(server.room(id) >= 16 * 1024);
    assert_eq!(server.send_data(quic, id, b"hello"), 5);
    server.send_trailers(quic, id, [(&b"Grpc-Status"[..], &b"0"[..])].into_iter());
    assert_eq!(server.send_head(quic, id, &head, false), 0, "after the end");
    server.release(quic, id);
    assert_eq!(server.open_streams(), 0);
    pair.drive();
    let received = pair.received(id);
    assert!(received.finished);
    let sent = frames(&received.bytes);
    assert_eq!(
        sent,
        [
            Frame::Headers(vec![":status: 103".into(), "link: </a>".into()]),
            Frame::Headers(vec![":status: 200".into(), "server: x".into(), "content-length: 5".into()]),
            Frame::Data(b"hello".to_vec()),
            Frame::Headers(vec!["grpc-status: 0".into()]),
        ]
    );
    assert!(bytes > 10 && bytes < received.bytes.len());
    assert!(pair.server.next_peer_event().is_none());
}

#[test]
fn a_body_is_read_in_pieces_and_ends_with_trailers() {
    let mut pair = Pair::new(Config::default());
    let id = pair.open(Dir::Bi);
    pair.write(id, &hex::bytes("POST 00 03 61 62 63"));
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Head { end: false, .. }]));
    let read = serve::read(&mut pair, id, 2);
    assert_eq!((&read.bytes[..], read.ended), (&b"abc"[..], false));
    pair.write(id, &hex::bytes("00 04 64 65"));
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Readable { stream }] if stream == id));
    assert_eq!(serve::read(&mut pair, id, 100).bytes, b"de");
    pair.write(id, &hex::bytes("66 67 00 00 00 01 68 TRAILERS"));
    pair.finish(id);
    pair.drive();
    let read = serve::read(&mut pair, id, 100);
    assert_eq!((&read.bytes[..], read.ended), (&b"fgh"[..], true));
    assert_eq!(read.trailers, Some(vec!["x: y".to_owned()]));
    assert!(serve::read(&mut pair, id, 100).ended, "it stays ended");
}

#[test]
fn many_small_frames_are_read_together() {
    let mut pair = Pair::new(Config::default());
    let id = pair.request(&hex::bytes("POST 00 01 61*1"));
    let other = pair.open(Dir::Bi);
    let mut bytes = hex::bytes("POST");
    for _ in 0..300 {
        bytes.extend([0, 1, b'x']);
    }
    pair.write(other, &bytes);
    pair.drive();
    let mut head = fairway_http::Head::new();
    let (server, quic) = pair.both_mut();
    let read = server.read_body(quic, other, 1_000, &mut head);
    assert!(matches!(read, fairway_http3::BodyRead::Bytes(bytes) if bytes.len() > 200));
    assert_eq!(serve::read(&mut pair, id, 10).bytes, b"a");
}

#[test]
fn a_large_response_follows_the_client_s_window() {
    let setup = Setup { client_window: 5_000, ..Setup::default() };
    let mut pair = Pair::with(&setup);
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    pair.client_reads = false;
    let all: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
    let (server, quic) = pair.both_mut();
    server.send_head(quic, id, &response(200, &[]), false);
    let mut sent = server.send_data(quic, id, &all);
    assert!(sent > 4_000 && sent < 5_000, "{sent}");
    assert_eq!(server.room(id), 0);
    assert_eq!(server.send_data(quic, id, &all[sent..]), 0);
    pair.drive();
    pair.client_reads = true;
    pair.take_events();
    let mut rounds = 0;
    while sent < all.len() {
        pair.drive();
        let events = pair.take_events();
        assert!(matches!(events[..], [Event::Writable { stream }] if stream == id), "{events:?}");
        let (server, quic) = pair.both_mut();
        sent += server.send_data(quic, id, &all[sent..]);
        rounds += 1;
        assert!(rounds < 200);
    }
    let (server, quic) = pair.both_mut();
    server.finish(quic, id);
    server.release(quic, id);
    pair.drive();
    assert!(pair.received(id).finished);
    assert_eq!(body(&pair.received(id).bytes), all);
}

#[test]
fn a_head_that_has_no_room_waits_with_the_end_and_is_delivered_after_release() {
    let setup = Setup { client_window: 100, ..Setup::default() };
    let mut pair = Pair::with(&setup);
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    pair.client_reads = false;
    let value = "v".repeat(2_000);
    let (server, quic) = pair.both_mut();
    let bytes = server.send_head(quic, id, &response(200, &[("x", &value)]), true);
    assert!(bytes > 2_000);
    assert_eq!(server.room(id), 0);
    server.release(quic, id);
    assert_eq!((server.open_streams(), server.slot(id)), (0, None));
    pair.drive();
    assert!(!pair.received(id).finished);
    pair.client_reads = true;
    pair.drive();
    let received = pair.received(id);
    assert_eq!((received.finished, received.bytes.len()), (true, bytes));
    assert!(matches!(&frames(&received.bytes)[..], [Frame::Headers(fields)] if fields[1].len() == 2_003));
}

#[test]
fn unread_data_closes_the_window_of_the_client() {
    let setup = Setup { server_window: 10_000, ..Setup::default() };
    let mut pair = Pair::with(&setup);
    let id = pair.open(Dir::Bi);
    let mut bytes = hex::bytes("POST 00 len:50000");
    bytes.resize(bytes.len() + 50_000, b'x');
    let mut written = pair.write(id, &bytes);
    pair.drive();
    written += pair.write(id, &bytes[written..]);
    assert!(written <= 10_000 + 2 * 1024 + 2_000, "{written}");
    let mut read = 0;
    while read < 50_000 {
        let body = serve::read(&mut pair, id, 4_000);
        assert!(!body.bytes.is_empty());
        read += body.bytes.len();
        pair.drive();
        written += pair.write(id, &bytes[written..]);
        pair.drive();
    }
    assert_eq!(read, 50_000);
}

#[test]
fn rfc9204_2_1_2_a_blocked_head_waits_for_its_insertions() {
    let mut pair = Pair::new(Config::default());
    pair.open_control_stream();
    // :authority is the first entry of the dynamic table.
    let id = pair.request(&hex::bytes("01 06 02 00 d1 d7 c1 80"));
    pair.drive();
    assert!(pair.take_events().is_empty());
    assert_eq!(pair.server.incomplete_head(), Some(id));
    let encoder = pair.open(Dir::Uni);
    pair.write(encoder, &hex::bytes("02 3f e1 1f c0 03 61"));
    pair.drive();
    assert!(pair.take_events().is_empty());
    pair.write(encoder, &hex::bytes("2e 62"));
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Head { end: true, .. }]));
    assert_eq!(pair.heads[0].1, ["GET /", "Host: a.b"]);
    assert_eq!(pair.server.incomplete_head(), None);
    // The section is acknowledged, which acknowledges the insertion.
    assert_eq!(pair.received_unidirectional(1), [3, 0x80]);
    pair.write(encoder, &hex::bytes("c0 01 63"));
    pair.drive();
    assert_eq!(pair.received_unidirectional(1), [3, 0x80, 1]);
}

#[test]
fn blocked_trailers_become_readable() {
    let mut pair = Pair::new(Config::default());
    let id = pair.request(&hex::bytes("POST 00 01 61 01 03 02 00 80"));
    pair.drive();
    pair.take_events();
    let read = serve::read(&mut pair, id, 100);
    assert_eq!((&read.bytes[..], read.ended, read.trailers), (&b"a"[..], false, None));
    let encoder = pair.open(Dir::Uni);
    pair.write(encoder, &hex::bytes("02 3f e1 1f 41 78 01 79"));
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Readable { stream }] if stream == id));
    let read = serve::read(&mut pair, id, 100);
    assert_eq!((read.ended, read.trailers), (true, Some(vec!["x: y".to_owned()])));
    pair.drive();
    assert_eq!(pair.received_unidirectional(1), [3, 1, 0x80], "the insertion, and then the section");
}

#[test]
fn rfc9204_2_2_2_2_a_blocked_stream_that_is_reset_is_cancelled_and_makes_room() {
    let mut pair = Pair::new(Config { blocked_streams: 1, ..Config::default() });
    for round in 0..3 {
        let id = pair.open(Dir::Bi);
        pair.write(id, &hex::bytes("01 06 02 00 d1 d7 c1 80"));
        pair.drive();
        pair.reset(id, 0x10c);
        pair.drive();
        assert_eq!(pair.closed(), None, "round {round}");
    }
    assert_eq!(pair.received_unidirectional(1), [3, 0x40, 0x44, 0x48]);
    assert_eq!(pair.server.incomplete_head(), None);
}

#[test]
fn a_request_without_the_client_s_streams_and_without_room_for_ours_is_served() {
    let setup = Setup { client_streams: 0, ..Setup::default() };
    let mut pair = Pair::with(&setup);
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    respond_204(&mut pair, id);
    pair.drive();
    assert!(pair.received(id).finished);
}

#[test]
fn a_client_s_go_away_is_reported() {
    let mut pair = Pair::new(Config::default());
    let control = pair.open_control_stream();
    pair.write(control, &hex::bytes("07 01 00"));
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::GoAway]));
    assert_eq!(pair.server.next_peer_event().map(|note| note.kind), Some(PeerEventKind::GoAwayReceived));
}
