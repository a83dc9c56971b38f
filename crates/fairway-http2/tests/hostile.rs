//! What a peer may do before it is disconnected, and that honest peers never are.

use std::time::Instant;

use fairway_http2::frame::{FLAG_ACK, FLAG_END_HEADERS, FLAG_END_STREAM, FrameKind};
use fairway_http2::{Code, Config};

use crate::support::*;

/// Sends the frames that `flood` makes for each number until the connection ends. Returns how many were accepted, and
/// whether a graceful GOAWAY came first.
#[track_caller]
fn ends(mut peer: Peer, mut flood: impl FnMut(&mut Peer, u32) -> Vec<u8>) -> u32 {
    let mut warned = false;
    for number in 0..20_000 {
        let bytes = flood(&mut peer, number);
        let events = peer.send(&bytes);
        let away = goodbyes(&peer.sent());
        warned |= away.iter().any(|(last, code)| (*last, *code) == (0x7fff_ffff, Code::NoError));
        if peer.server.is_done() {
            assert_eq!(away.last().map(|(_, code)| *code), Some(Code::EnhanceYourCalm), "{events:?}");
            assert!(warned, "it was warned");
            return number + 1;
        }
    }
    panic!("the flood goes on");
}

fn id(number: u32) -> u32 {
    number * 2 + 1
}

#[test]
fn rapid_reset() {
    let count = ends(Peer::new(), |peer, number| {
        let bytes = [headers(id(number), true, GET), reset(id(number), 8)].concat();
        peer.send(&bytes);
        peer.server.release(id(number));
        Vec::new()
    });
    assert_eq!(count, 250);
}

#[test]
fn made_you_reset_in_all_its_ways() {
    let ways: [fn(u32) -> Vec<u8>; 6] = [
        |id| [headers(id, false, POST), window_update(id, 0)].concat(),
        |id| [headers(id, false, POST), window_update(id, 0x7fff_ffff)].concat(),
        |id| [headers(id, false, POST), frame(FrameKind::Priority, 0, id, &[0; 4])].concat(),
        |id| {
            let depends_on_itself = [&id.to_be_bytes()[..], &[0]].concat();
            [headers(id, false, POST), frame(FrameKind::Priority, 0, id, &depends_on_itself)].concat()
        },
        |id| [headers(id, true, GET), headers(id, true, GET)].concat(),
        |id| [headers(id, true, GET), data(id, true, b"x")].concat(),
    ];
    for way in ways {
        let count = ends(Peer::new(), |peer, number| {
            let events = peer.send(&way(id(number)));
            assert!(!events.is_empty());
            peer.server.release(id(number));
            Vec::new()
        });
        assert!(count <= 250, "{count}");
    }
}

#[test]
fn resets_never_open_more_streams_than_there_are_records() {
    let mut peer = Peer::with(Config { max_streams: 10, ..Config::default() });
    for number in 0..50 {
        peer.send(&[headers(id(number), true, GET), reset(id(number), 8)].concat());
        assert!(peer.server.open_streams() <= 10);
    }
    assert_eq!(peer.server.open_streams(), 10);
}

#[test]
fn floods_of_control_frames() {
    assert_eq!(ends(Peer::new(), |_, _| ping(0)), 500);
    assert_eq!(ends(Peer::new(), |_, _| settings(&[])), 250);
    assert_eq!(ends(Peer::new(), |_, _| frame(FrameKind::Settings, FLAG_ACK, 0, &[])), 250);
    assert_eq!(ends(Peer::new(), |_, _| frame(FrameKind::Priority, 0, 1, &[0; 5])), 1000);
    assert_eq!(ends(Peer::new(), |_, _| window_update(0, 1)), 1001);
    assert_eq!(ends(Peer::new(), |_, _| frame(FrameKind::GoAway, 0, 0, &[0; 8])), 1000);
    // One of them answers the PING of our own GOAWAY.
    assert_eq!(ends(Peer::new(), |_, _| ping(FLAG_ACK)), 1001);
    assert_eq!(ends(Peer::new(), |_, _| vec![0, 0, 0, 0x99, 0, 0, 0, 0, 1]), 1000);
    assert_eq!(ends(Peer::new(), |_, _| frame(FrameKind::PriorityUpdate, 0, 0, &[0, 0, 0, 1])), 1000);
}

#[test]
fn floods_of_empty_and_small_bodies() {
    let mut peer = Peer::new();
    peer.post(1);
    assert_eq!(ends(peer, |_, _| data(1, false, b"")), 250);
    let mut peer = Peer::new();
    peer.post(1);
    // As many are free as messages fit into the window.
    assert_eq!(ends(peer, |_, _| data(1, false, b"x")), 8_192 + 1_000);
}

#[test]
fn small_messages_may_wait_for_a_slow_reader() {
    let message = data(1, false, &[0; 40]);
    let mut peer = Peer::new();
    peer.post(1);
    peer.send(&message.repeat(1_500));
    assert_eq!(goodbyes(&peer.sent()), [], "nothing of the burst was read yet");
    // From here on messages are read as fast as they arrive, and half of the burst always waits.
    peer.server.consume(1, 750 * 40);
    for number in 0..20_000 {
        peer.server.consume(1, 40);
        peer.send(&message);
        assert_eq!(goodbyes(&peer.sent()), [], "message {number}");
    }
}

#[test]
fn refused_and_malformed_requests() {
    let full = || {
        let mut peer = Peer::with(Config { max_streams: 1, ..Config::default() });
        peer.get(1);
        peer
    };
    assert_eq!(ends(full(), |_, number| headers(id(number + 1), true, GET)), 250);
    assert_eq!(ends(Peer::new(), |_, number| headers(id(number), true, &GET[..1])), 250);
}

#[test]
fn continuation_floods() {
    let mut peer = Peer::new();
    peer.send(&frame(FrameKind::Headers, FLAG_END_STREAM, 1, GET));
    assert_eq!(ends(peer, |_, _| frame(FrameKind::Continuation, 0, 1, &[])), 250);
    let mut peer = Peer::new();
    peer.send(&frame(FrameKind::Headers, FLAG_END_STREAM, 1, GET));
    assert_eq!(ends(peer, |_, _| frame(FrameKind::Continuation, 0, 1, &[0x82])), 254);
}

#[test]
fn a_block_has_at_most_32_kib() {
    let mut peer = Peer::new();
    peer.send(&frame(FrameKind::Headers, FLAG_END_STREAM, 1, GET));
    peer.send(&frame(FrameKind::Continuation, 0, 1, &[0x82; 16_384]));
    peer.send(&frame(FrameKind::Continuation, 0, 1, &[0x82; 16_378]));
    assert!(!peer.server.is_done());
    peer.send(&frame(FrameKind::Continuation, FLAG_END_HEADERS, 1, &[0x82]));
    assert_eq!(goodbyes(&peer.sent()), [(0, Code::EnhanceYourCalm)]);
}

#[test]
fn bombs_take_no_memory() {
    let long = [&[0x40, 1, b'a', 0x7f, 0x81, 0x1e][..], &[b'x'; 3968]].concat();
    let mut peer = Peer::new();
    let bomb = [GET, &long, &[0xbe; 12_000]].concat();
    assert_eq!(peer.send(&headers(1, true, &bomb)), [ReceivedEvent::HeadTooLarge { stream: 1, end: true }]);
    assert!(peer.head.kept_bytes() <= 128 * 1024, "{}", peer.head.kept_bytes());
    peer.respond(1);
    peer.sent();
    assert!(peer.server.kept_bytes() < 64 * 1024, "{}", peer.server.kept_bytes());
    let crumbs = [GET, &[0x60, 1, b'c'], &[0xbe; 16_000]].concat();
    assert_eq!(peer.send(&headers(3, true, &crumbs)), [ReceivedEvent::HeadTooLarge { stream: 3, end: true }]);
}

#[test]
fn an_idle_connection_is_small() {
    let peer = Peer::new();
    let bytes = peer.server.kept_bytes();
    assert!(bytes <= 1024, "{bytes}");
    let mut peer = peer;
    for number in 0..100 {
        peer.post(id(number));
        peer.send(&data(id(number), true, &[0; 16_000]));
        peer.server.consume(id(number), 16_000);
        peer.server.send_head(id(number), &ok(), false);
        peer.server.send_data(id(number), &[0; 300], true);
        peer.server.release(id(number));
        peer.sent();
    }
    peer.server.release_memory();
    assert!(peer.server.kept_bytes() <= bytes, "nothing entered a table: {}", peer.server.kept_bytes());
}

#[test]
fn honest_clients_are_never_warned() {
    let mut peer = Peer::new();
    for number in 0..20_000 {
        peer.now += 1_000;
        let stream = id(number);
        peer.post(stream);
        for _ in 0..20 {
            peer.send(&data(stream, false, b"a small message"));
            peer.server.consume(stream, 15);
        }
        peer.send(&data(stream, true, b""));
        peer.server.send_head(stream, &ok(), false);
        peer.server.send_data(stream, &[0; 100], true);
        peer.server.release(stream);
        peer.send(&window_update(0, 100));
        if number % 100 == 0 {
            peer.send(&ping(0));
        }
        assert_eq!(goodbyes(&peer.sent()), [], "request {number}");
    }
}

#[test]
fn a_browser_that_cancels_a_page_now_and_then_is_never_warned() {
    let mut peer = Peer::new();
    for page in 0..300 {
        peer.now += 5_000_000;
        for number in 0..60 {
            let stream = id(page * 60 + number);
            peer.get(stream);
            if number % 2 == 0 {
                peer.respond(stream);
            } else {
                peer.send(&reset(stream, 8));
                peer.server.release(stream);
            }
        }
        assert_eq!(goodbyes(&peer.sent()), [], "page {page}");
    }
}

#[test]
fn a_frame_full_of_windows_is_not_more_work_than_one_window() {
    let work = |windows: usize| {
        let mut peer = Peer::new();
        peer.send(&window_update(0, 1 << 20));
        for number in 0..100 {
            peer.get(id(number));
            peer.server.send_head(id(number), &ok(), false);
            peer.server.queue_for_sending(0, id(number));
        }
        let values: Vec<_> = (0..windows).map(|at| (4, if at % 2 == 0 { 0 } else { 65_535 })).collect();
        let bytes = settings(&values);
        let begin = Instant::now();
        (0..5).for_each(|_| _ = peer.send(&bytes));
        begin.elapsed()
    };
    // A thousand times as many settings must not take a thousand times as long, as they did when processed one by one.
    let least = |windows| (0..5).map(|_| work(windows)).min().unwrap();
    let (one, many) = (least(2), least(2_000));
    assert!(many < one * 200, "{one:?} for 2, {many:?} for 2,000");
}

#[test]
fn the_last_of_several_windows_counts_and_each_must_be_possible() {
    let mut peer = Peer::new();
    peer.get(1);
    peer.server.send_head(1, &ok(), false);
    peer.send(&settings(&[(4, 100), (4, 0x7fff_ffff), (4, 7), (4, 50)]));
    assert_eq!(peer.server.room(1), 50);
    peer.get(3);
    peer.server.send_head(3, &ok(), false);
    assert_eq!(peer.server.room(3), 50);
    // One byte more than the maximum window.
    peer.send(&window_update(1, 1));
    peer.sent();
    peer.send(&settings(&[(4, 0x7fff_ffff), (4, 7)]));
    assert_eq!(goodbyes(&peer.sent()), [(3, Code::FlowControl)]);
}
