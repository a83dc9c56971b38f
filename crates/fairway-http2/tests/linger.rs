//! Responses that complete before their requests: the reset comes after the response, and the client cannot abuse that.

use fairway_http2::frame::{FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind};
use fairway_http2::{Code, Config};

use crate::support::*;

const SECOND: u64 = 1_000_000;

/// The window of a stream.
const WINDOW: usize = 64 * 1024;

/// Responds to an incomplete request and releases its stream.
fn refuse(peer: &mut Peer, stream: u32) {
    peer.post(stream);
    assert!(peer.server.send_head(stream, &ok(), true));
    peer.server.linger(peer.now, stream);
    peer.server.release(stream);
    let sent = peer.sent();
    assert_eq!((sent.len(), sent[0].kind), (1, FrameKind::Headers), "the answer, and no reset with it");
}

fn refused(streams: u32) -> Peer {
    let mut peer = Peer::with(Config { max_streams: streams, ..Config::default() });
    refuse(&mut peer, 1);
    peer
}

/// Lets time pass, and returns the resulting resets.
fn at(peer: &mut Peer, now: u64) -> Vec<(u32, Code)> {
    peer.now = now;
    assert_eq!(peer.server.handle_timeout(now), None);
    resets(&peer.sent())
}

#[test]
fn a_stream_is_reset_without_error_a_second_after_its_response() {
    let mut peer = refused(8);
    assert_eq!((peer.server.open_streams(), peer.server.deadline()), (0, Some(SECOND)));
    assert_eq!(at(&mut peer, SECOND / 2), []);
    refuse(&mut peer, 3);
    assert_eq!(at(&mut peer, SECOND - 1), []);
    assert_eq!(at(&mut peer, SECOND), [(1, Code::NoError)]);
    assert_eq!(peer.server.deadline(), Some(SECOND + SECOND / 2));
    assert_eq!(at(&mut peer, 2 * SECOND), [(3, Code::NoError)]);
    assert_eq!(peer.server.deadline(), None);
    assert_eq!(peer.send(&data(1, false, &[0; 1000])), [], "it may have been under way");
}

#[test]
fn late_data_is_dropped_and_uses_only_the_window_of_the_stream() {
    let mut peer = refused(8);
    let chunk = data(1, false, &[0; 16 * 1024]);
    for _ in 0..WINDOW / (16 * 1024) {
        assert_eq!(peer.send(&chunk), []);
    }
    let sent = peer.sent();
    assert!(updates(&sent).iter().all(|(stream, _)| *stream == 0), "the connection's only: {sent:?}");
    assert_eq!(resets(&sent), []);
    assert_eq!(peer.send(&data(1, false, &[0])), []);
    assert_eq!(resets(&peer.sent()), [(1, Code::FlowControl)]);
    assert_eq!(peer.server.deadline(), None);
}

#[test]
fn the_window_of_the_connection_is_restored() {
    let mut peer = Peer::with(Config { connection_window: 65_535, ..Config::default() });
    for number in 0..100 {
        let stream = 2 * number + 1;
        peer.post(stream);
        let last = data(stream, true, &[0; 16 * 1024]);
        assert!(matches!(peer.send(&last[..5000])[..], [ReceivedEvent::Data { .. }]));
        assert!(peer.server.send_head(stream, &ok(), true));
        peer.server.linger(peer.now, stream);
        peer.server.release(stream);
        assert_eq!((peer.send(&last[5000..]), resets(&peer.sent())), (vec![], vec![]));
    }
    assert_eq!(peer.server.deadline(), None, "the rest of the frame was the end");
    let mut peer = Peer::with(Config { connection_window: 65_535, ..Config::default() });
    for number in 0..100 {
        refuse(&mut peer, 2 * number + 1);
        assert_eq!(peer.send(&data(2 * number + 1, false, &[0; 16 * 1024])), []);
        assert_eq!(peer.send(&data(2 * number + 1, true, &[0; 1000])), []);
        assert_eq!(resets(&peer.sent()), []);
    }
    assert_eq!(peer.server.deadline(), None);
}

#[test]
fn a_request_that_ends_needs_no_reset() {
    let body = data(1, true, b"rest");
    let trailers = frame(FrameKind::Headers, FLAG_END_STREAM | FLAG_END_HEADERS, 1, &literal("x", "y"));
    let aborted = reset(1, 0);
    for end in [body, trailers, aborted] {
        let mut peer = refused(8);
        assert_eq!(peer.send(&end), [], "nobody is there to be told");
        assert_eq!((peer.server.deadline(), at(&mut peer, 2 * SECOND)), (None, vec![]));
        refuse(&mut peer, 3);
    }
}

#[test]
fn rules_apply_to_dropped_frames() {
    let trailers = frame(FrameKind::Headers, FLAG_END_HEADERS, 1, &literal("x", "y"));
    let mut peer = refused(8);
    assert_eq!(peer.send(&trailers), []);
    assert_eq!(resets(&peer.sent()), [(1, Code::Protocol)], "trailers that do not end the stream");
    assert_eq!(peer.server.deadline(), None);
    let mut peer = refused(8);
    peer.send(&data(1, true, b""));
    let events = peer.send(&data(1, false, b"more"));
    assert_eq!(events, [ReceivedEvent::Other("Closed(StreamClosed, stream_ended)".into())]);
}

#[test]
fn a_stream_that_lingers_counts_for_the_client() {
    let mut peer = refused(2);
    refuse(&mut peer, 3);
    assert_eq!(peer.send(&headers(5, true, GET)), []);
    assert_eq!(resets(&peer.sent()), [(5, Code::Refused)]);
    assert_eq!(peer.send(&data(1, true, b"")), []);
    peer.get(7);
    peer.respond(7);
    assert_eq!(at(&mut peer, SECOND), [(3, Code::NoError)]);
}

#[test]
fn small_frames_that_are_dropped_are_charged() {
    let mut peer = refused(8);
    let ended = (0..2000).position(|_| {
        let events = peer.send(&data(1, false, b"x"));
        peer.sent();
        matches!(&events[..], [ReceivedEvent::Other(end)] if end.starts_with("Closed(EnhanceYourCalm"))
    });
    assert_eq!(ended, Some(999));
}

#[test]
fn a_connection_that_ends_awaits_its_streams_for_a_second() {
    let mut peer = refused(8);
    peer.server.go_away(peer.now);
    assert_eq!(at(&mut peer, SECOND), [(1, Code::NoError)]);
    assert!(peer.server.is_done());
}

#[test]
fn only_a_complete_response_to_an_unfinished_request_lingers() {
    let mut peer = Peer::new();
    peer.get(1);
    peer.post(3);
    for stream in [1, 3] {
        peer.server.linger(0, stream);
        peer.server.release(stream);
    }
    assert_eq!(resets(&peer.sent()), [(1, Code::Cancel), (3, Code::Cancel)]);
    peer.get(5);
    assert!(peer.server.send_head(5, &ok(), true));
    peer.server.linger(0, 5);
    peer.server.release(5);
    assert_eq!((resets(&peer.sent()), peer.server.deadline()), (vec![], None));
}
