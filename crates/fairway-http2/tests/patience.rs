//! Peers that do nothing: closed windows, tiny windows, silence.

use fairway_http::Head;
use fairway_http2::frame::{FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind};
use fairway_http2::{Client, Code, Config, Event, ResetBy, Timeouts};

use crate::support::*;

const SECOND: u64 = 1_000_000;

/// A peer whose streams have windows of this size, and a stream with data to send.
fn waiting(window: u32) -> Peer {
    let mut peer = Peer::new();
    peer.send(&settings(&[(4, window)]));
    peer.get(1);
    assert!(peer.server.send_head(1, &ok(), false));
    peer.server.queue_for_sending(0, 1);
    peer.sent();
    peer
}

fn given_up(stream: u32) -> Option<Event<'static>> {
    Some(Event::Reset { stream, code: Code::Cancel, reset_by: ResetBy::Us("window_closed") })
}

#[test]
fn a_stream_whose_window_stays_closed_is_reset() {
    let mut peer = waiting(0);
    assert_eq!(peer.server.next_turn(0), None);
    assert_eq!(peer.server.deadline(), Some(30 * SECOND));
    assert_eq!(peer.server.handle_timeout(30 * SECOND - 1), None);
    assert_eq!(peer.server.handle_timeout(30 * SECOND), given_up(1));
    assert_eq!(peer.server.handle_timeout(30 * SECOND), None);
    assert_eq!(resets(&peer.sent()), [(1, Code::Cancel)]);
    assert_eq!(peer.server.open_streams(), 1, "it counts until it is released");
    peer.server.release(1);
    assert_eq!(peer.server.deadline(), None);
}

#[test]
fn tiny_windows_are_no_progress() {
    let mut peer = waiting(0);
    let body = [0; 20_000];
    let mut sent = 0;
    for second in 0..30 {
        peer.now = second * SECOND;
        assert_eq!(peer.server.handle_timeout(peer.now), None);
        peer.send(&window_update(1, 1));
        let turn = peer.server.next_turn(peer.now).unwrap();
        assert_eq!((turn.stream, turn.bytes), (1, 1));
        sent += peer.server.send_data(1, &body[sent..], false);
    }
    assert_eq!(sent, 30);
    assert_eq!(peer.server.handle_timeout(30 * SECOND), given_up(1));
}

#[test]
fn slow_readers_are_served_as_long_as_they_read() {
    let mut peer = waiting(0);
    let body = [0; 1_000_000];
    let mut sent = 0;
    for number in 1..=100 {
        peer.now = number * 20 * SECOND;
        assert_eq!(peer.server.handle_timeout(peer.now), None);
        peer.send(&[window_update(1, 5_000), window_update(0, 5_000)].concat());
        while let Some(turn) = peer.server.next_turn(peer.now) {
            sent += peer.server.send_data(1, &body[sent..][..turn.bytes], false);
            peer.server.queue_for_sending(peer.now, 1);
        }
        peer.sent();
    }
    assert_eq!(sent, 500_000);
}

#[test]
fn a_driver_that_sends_only_what_fits_also_detects_tiny_windows() {
    let mut peer = waiting(0);
    for second in 0..30 {
        peer.now = second * SECOND;
        assert_eq!(peer.server.handle_timeout(peer.now), None);
        peer.send(&window_update(1, 1));
        let turn = peer.server.next_turn(peer.now).unwrap();
        assert_eq!(peer.server.send_data(1, &[0; 100][..turn.bytes], false), 1);
        peer.server.queue_for_sending(peer.now, 1);
    }
    assert_eq!(peer.server.handle_timeout(30 * SECOND), given_up(1));
}

#[test]
fn a_stream_with_nothing_to_send_may_wait_forever() {
    let mut peer = waiting(0);
    peer.server.unqueue(1);
    for number in 1..100 {
        peer.now = number * 50 * SECOND;
        assert_eq!(peer.server.handle_timeout(peer.now), None);
        peer.send(&ping(0));
    }
    assert_eq!(resets(&peer.sent()), []);
}

#[test]
fn a_connection_whose_window_stays_closed_ends() {
    let mut peer = waiting(1 << 20);
    assert_eq!(peer.server.send_data(1, &[0; 100_000], false), 65_535);
    assert_eq!(peer.server.next_turn(SECOND), None);
    peer.now = 20 * SECOND;
    peer.send(&window_update(0, 1));
    assert_eq!(peer.server.next_turn(peer.now).map(|turn| turn.bytes), Some(1));
    assert_eq!(peer.server.send_data(1, &[0; 100], false), 1);
    assert_eq!(peer.server.next_turn(peer.now), None);
    assert_eq!(peer.server.deadline(), Some(31 * SECOND));
    peer.sent();
    let events = peer.server.handle_timeout(31 * SECOND);
    assert!(matches!(events, Some(Event::Closed(fault)) if fault.rule == "connection_window_closed"));
    assert_eq!(goodbyes(&peer.sent()), [(1, Code::EnhanceYourCalm)]);
    assert_eq!((peer.server.deadline(), peer.server.is_done()), (None, true));
}

#[test]
fn closed_windows_do_not_matter_after_the_last_stream() {
    let mut peer = waiting(1 << 20);
    assert_eq!(peer.server.send_data(1, &[0; 100_000], false), 65_535);
    assert_eq!(peer.server.next_turn(SECOND), None, "the window of the connection is used up");
    for mut peer in [peer, waiting(0)] {
        assert!(peer.server.deadline().is_some_and(|deadline| deadline <= 31 * SECOND));
        peer.server.reset(1, Code::Cancel);
        peer.server.release(1);
        assert_eq!(peer.server.deadline(), None);
        assert_eq!(peer.server.handle_timeout(60 * SECOND), None);
    }
}

#[test]
fn silence_with_open_streams_causes_a_ping() {
    let mut peer = Peer::new();
    peer.now = 5 * SECOND;
    peer.send(&ping(0));
    assert_eq!(peer.server.deadline(), None, "nothing is awaited of an idle peer");
    peer.get(1);
    peer.sent();
    assert_eq!(peer.server.deadline(), Some(65 * SECOND));
    assert_eq!(peer.server.handle_timeout(65 * SECOND), None);
    let ping = peer.sent();
    assert!(matches!(&ping[..], [frame] if frame.kind == FrameKind::Ping && frame.flags == 0));
    assert_eq!(peer.server.deadline(), Some(80 * SECOND));
    peer.now = 70 * SECOND;
    assert_eq!(
        peer.send(&frame(FrameKind::Ping, FLAG_ACK, 0, &ping[0].payload)),
        [],
        "nothing for the owner"
    );
    assert_eq!(peer.server.deadline(), Some(130 * SECOND));
    assert_eq!(peer.server.handle_timeout(130 * SECOND), None);
    let events = peer.server.handle_timeout(145 * SECOND);
    assert!(matches!(events, Some(Event::Closed(fault)) if fault.rule == "silence"), "{events:?}");
    assert_eq!(goodbyes(&peer.sent()), [(1, Code::NoError)]);
}

/// The field block of a request for `/`, without its end.
fn begun_block() -> Vec<u8> {
    frame(FrameKind::Headers, FLAG_END_STREAM, 1, &[0x82, 0x86, 0x84])
}

#[test]
fn a_field_block_that_never_ends_is_awaited_for_as_long_as_a_head() {
    let mut peer = Peer::new();
    peer.now = SECOND;
    peer.send(&begun_block());
    for second in [4, 7, 10] {
        peer.now = second * SECOND;
        assert_eq!(peer.server.handle_timeout(peer.now), None);
        // Parts are no progress: each could arrive just in time.
        peer.send(&frame(FrameKind::Continuation, 0, 1, &[0x84; 1024]));
        assert_eq!(peer.server.deadline(), Some(11 * SECOND));
    }
    let events = peer.server.handle_timeout(11 * SECOND);
    assert!(matches!(events, Some(Event::Closed(fault)) if fault.rule == "head_timeout"), "{events:?}");
    assert_eq!(goodbyes(&peer.sent()), [(0, Code::EnhanceYourCalm)]);
    assert_eq!((peer.server.deadline(), peer.server.is_done()), (None, true));
}

#[test]
fn a_frame_with_a_field_block_that_stops_in_its_middle_is_awaited_as_long() {
    let mut peer = Peer::new();
    let block = [begun_block(), frame(FrameKind::Continuation, FLAG_END_HEADERS, 1, &[])].concat();
    for cut in 9..block.len() {
        let mut peer = Peer::new();
        peer.send(&block[..cut]);
        assert_eq!(peer.server.deadline(), Some(10 * SECOND), "after {cut} bytes");
        peer.now = 9 * SECOND;
        peer.send(&block[cut..]);
        assert_eq!(peer.server.open_streams(), 1);
        assert_eq!(peer.server.deadline(), Some(69 * SECOND), "silence, and nothing else");
    }
    peer.send(&block[..9]);
    let events = peer.server.handle_timeout(10 * SECOND);
    assert!(matches!(events, Some(Event::Closed(fault)) if fault.rule == "head_timeout"), "{events:?}");
}

#[test]
fn a_client_sends_pings_as_well() {
    let timeouts = Timeouts { silence: 1_000, response: 100, ..Timeouts::default() };
    let mut client = Client::new(Config { timeouts, ..Config::default() }, 0);
    let mut head = Head::new();
    assert!(matches!(client.receive(0, &settings(&[]), &mut head), (_, Event::Settings)));
    let acknowledged = frame(FrameKind::Settings, FLAG_ACK, 0, &[]);
    assert!(matches!(client.receive(5, &acknowledged, &mut head), (_, Event::NeedMore)));
    head.start_request(b"GET", b"/");
    assert_eq!(client.send_head(&head, b"/", b"http", true), Some(1));
    assert_eq!(client.deadline(), Some(1_005));
    assert_eq!(client.handle_timeout(1_005), None);
    assert!(matches!(client.handle_timeout(1_105), Some(Event::Closed(fault)) if fault.rule == "silence"));
}
