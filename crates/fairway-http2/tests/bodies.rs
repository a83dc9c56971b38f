//! Bodies: scheduling, frames without a copy, and receive windows that grow for fast bodies.

use fairway_http2::frame::{FLAG_END_STREAM, FrameKind};
use fairway_http2::{Config, Priority};

use crate::support::*;

fn priority_update(stream: u32, text: &str) -> Vec<u8> {
    frame(FrameKind::PriorityUpdate, 0, 0, &[&stream.to_be_bytes(), text.as_bytes()].concat())
}

/// Streams with these `priority` fields, from 1 on, with data to send.
fn wanting(priorities: &[&str]) -> Peer {
    let mut peer = Peer::new();
    peer.send(&[settings(&[(4, 1 << 20)]), window_update(0, 1 << 20)].concat());
    for (number, text) in priorities.iter().enumerate() {
        let stream = u32::try_from(number * 2 + 1).unwrap();
        let field = if text.is_empty() { Vec::new() } else { literal("priority", text) };
        peer.send(&headers(stream, true, &[GET, &field].concat()));
        assert!(peer.server.send_head(stream, &ok(), false));
        peer.server.queue_for_sending(0, stream);
    }
    peer.sent();
    peer
}

/// The streams with the next turns, each of which sends this much of a long body.
fn turn_order(peer: &mut Peer, count: usize) -> Vec<u32> {
    let turn = |_| {
        let turn = peer.server.next_turn(0).unwrap();
        peer.server.send_data(turn.stream, &[0; 1000], false);
        peer.server.queue_for_sending(0, turn.stream);
        turn.stream
    };
    (0..count).map(turn).collect()
}

#[test]
fn rfc9218_the_field_of_the_request_orders_answers() {
    let mut peer = wanting(&["u=5", "u=1, i", "u=1, i", ""]);
    assert_eq!(turn_order(&mut peer, 5), [3, 5, 3, 5, 3]);
    peer.server.unqueue(3);
    peer.server.reset(5, fairway_http2::Code::Cancel);
    assert_eq!(turn_order(&mut peer, 3), [7, 7, 7]);
    assert_eq!(peer.server.priority(1), Priority { urgency: 5, incremental: false });
}

#[test]
fn rfc9218_8_the_priority_in_the_response_takes_precedence() {
    let mut peer = Peer::new();
    peer.send(&headers(1, true, &[GET, &literal("priority", "u=5, i")].concat()));
    let mut response = ok();
    response.append(b"Priority", b"u=2");
    assert!(peer.server.send_head(1, &response, false));
    assert_eq!(peer.server.priority(1), Priority { urgency: 2, incremental: true });
}

#[test]
fn streams_without_a_priority_alternate_and_non_incremental_ones_do_not() {
    assert_eq!(turn_order(&mut wanting(&["", "", ""]), 6), [1, 3, 5, 1, 3, 5]);
    assert_eq!(turn_order(&mut wanting(&["u=3", "u=3", "u=3"]), 6), [1; 6]);
}

#[test]
fn rfc9218_7_1_priority_updates_come_before_and_after_their_streams() {
    let mut peer = wanting(&["", ""]);
    assert_eq!(peer.send(&priority_update(3, "u=0")).len(), 1);
    assert_eq!(turn_order(&mut peer, 2), [3, 3]);
    // More than are kept, so that the last of the far ones is lost.
    let early: Vec<u8> = [5, 7, 9, 11, 13].iter().flat_map(|id| priority_update(*id, "u=6")).collect();
    assert_eq!(peer.send(&early), []);
    for stream in [5, 7, 9, 11, 13, 15] {
        peer.get(stream);
    }
    let ids = [5, 7, 9, 11, 13, 15].iter().filter(|id| peer.server.priority(**id).urgency == 6).count();
    assert_eq!(ids, 4);
    assert_eq!(peer.server.priority(5).urgency, 6);
}

#[test]
fn a_stream_alone_may_send_all_that_fits_and_one_among_others_a_frame() {
    let mut peer = wanting(&[""]);
    assert_eq!(peer.server.next_turn(0).unwrap().bytes, 128 * 1024);
    let mut peer = wanting(&["", ""]);
    assert_eq!(peer.server.next_turn(0).unwrap().bytes, 16_375);
}

/// Sends a body with writes of this size, and returns the frames that the client receives.
fn vectored(body: &[u8], takes: usize) -> (Vec<Sent>, usize, usize) {
    let mut peer = Peer::new();
    peer.send(&[settings(&[(4, 1 << 20)]), window_update(0, 1 << 20)].concat());
    peer.get(1);
    peer.sent();
    assert!(peer.server.send_head(1, &ok(), false));
    let (mut wire, mut at, mut writes, mut copied) = (Vec::new(), 0, 0, 0);
    loop {
        let before = wire.len();
        let sent = peer.server.send_data_with(1, &body[at..], true, |slices| {
            writes += 1;
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            wire.extend_from_slice(&all[..takes.min(all.len())]);
            takes.min(all.len())
        });
        at += sent;
        assert!(sent > 0 && wire.len() - before <= takes);
        copied += peer.server.pending().len();
        wire.extend_from_slice(peer.server.pending());
        peer.server.mark_written(peer.server.pending().len());
        if at == body.len() {
            break;
        }
    }
    assert_eq!(peer.server.send_data(1, b"x", true), 0, "the body has ended");
    (frames(&wire), writes, copied)
}

#[test]
fn large_bodies_are_written_from_where_they_are() {
    let body: Vec<u8> = (0..200_000u32).map(|at| at.to_le_bytes()[1]).collect();
    let reference = vectored(&body, usize::MAX);
    assert_eq!((reference.1, reference.2), (2, 0), "two writes, and nothing was copied");
    for takes in [0, 1, 5, 12, 13, 30, 16_384, 16_400, 40_000, 131_000] {
        let (cut, ..) = vectored(&body, takes);
        assert!(cut == reference.0, "writes of {takes}");
    }
    let data: Vec<_> = reference.0.iter().filter(|frame| frame.kind == FrameKind::Data).collect();
    let sent: Vec<u8> = data.iter().flat_map(|frame| frame.payload.clone()).collect();
    assert!(sent == body && data.iter().all(|frame| frame.payload.len() <= 16_375));
    let ends: Vec<_> = data.iter().map(|frame| frame.flags & FLAG_END_STREAM).collect();
    assert_eq!((ends.iter().sum::<u8>(), ends.last()), (1, Some(&1)));
    assert_eq!(vectored(&[1; 15_000], usize::MAX).1, 0, "small ones are gathered");
}

/// Uploads this many frames of 16,000 bytes, one per `micros`; returns the windows announced for stream and connection.
fn upload(peer: &mut Peer, frames: usize, micros: u64) -> (u32, u32) {
    let mut announced = (0, 0);
    for _ in 0..frames {
        peer.now += micros;
        peer.send(&data(1, false, &[0; 16_000]));
        peer.server.consume(1, 16_000);
        for (stream, increment) in updates(&peer.sent()) {
            let sum = if stream == 0 { &mut announced.1 } else { &mut announced.0 };
            *sum += increment;
        }
    }
    announced
}

const START: Config = Config { stream_window: 65_536, connection_window: 131_072, ..config() };

const fn config() -> Config {
    Config {
        max_streams: 128,
        stream_window: 65_536,
        max_stream_window: 1 << 20,
        connection_window: 1 << 20,
        head_limits: fairway_http2::fields::Limits { list_bytes: 32 * 1024, fields: 128 },
        decoder_table_bytes: 4096,
        encoder_table_bytes: 0,
        string_coding: fairway_http2::hpack::StringCoding::Plain,
        extended_connect: false,
        timeouts: fairway_http2::Timeouts {
            settings: 10_000_000,
            head: 10_000_000,
            window: 30_000_000,
            silence: 60_000_000,
            response: 15_000_000,
        },
    }
}

#[test]
fn fast_uploads_get_larger_windows_within_the_grant_and_return_it() {
    let mut peer = Peer::with(START);
    peer.post(1);
    assert_eq!(upload(&mut peer, 3, 1_000), (48_000, 0), "nothing was granted");
    upload(&mut peer, 3, 1_000);
    assert_eq!(peer.server.wanted_window_bytes(), 65_536);
    peer.server.grant_window(3 * 65_536);
    assert_eq!(peer.server.wanted_window_bytes(), 0);
    let (stream, connection) = upload(&mut peer, 60, 1_000);
    assert!(stream >= 60 * 16_000 + 3 * 65_536 - 131_072, "{stream}");
    assert!(connection >= 60 * 16_000 + 3 * 65_536 - 163_840, "{connection}");
    assert_eq!((peer.server.wanted_window_bytes(), peer.server.reclaim_window()), (262_144, 0));
    // Everything announced is sent, and no more.
    peer.server.release(1);
    peer.post(3);
    let mut returned = peer.server.reclaim_window();
    for _ in 0..20 {
        peer.now += 1_000_000;
        peer.send(&data(3, false, &[0; 16_000]));
        peer.server.consume(3, 16_000);
        returned += peer.server.reclaim_window();
    }
    assert_eq!(returned, 3 * 65_536);
    peer.server.release(3);
    assert_eq!(peer.server.reclaim_window(), 0);
}

#[test]
fn slow_uploads_keep_their_windows() {
    let mut peer = Peer::with(START);
    peer.post(1);
    peer.server.grant_window(1 << 20);
    let (stream, _) = upload(&mut peer, 30, 200_000);
    assert!(stream <= 30 * 16_000, "{stream}");
    assert_eq!(peer.server.wanted_window_bytes(), 0);
    peer.server.release(1);
    assert_eq!(peer.server.reclaim_window(), 1 << 20, "it was not used");
}

#[test]
fn unconsumed_data_never_exceeds_windows_and_grants() {
    let mut peer = Peer::with(START);
    peer.post(1);
    peer.server.grant_window(1 << 20);
    upload(&mut peer, 60, 1_000);
    let mut bytes = 0;
    while resets(&peer.sent()).is_empty() {
        peer.send(&data(1, false, &[0; 16_000]));
        bytes += 16_000;
        assert!(bytes < 10_000_000);
    }
    assert!(bytes <= 131_072 + (1 << 20) + 16_000, "{bytes}");
}
