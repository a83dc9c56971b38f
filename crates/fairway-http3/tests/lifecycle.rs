//! How streams and connections end, and what is kept meanwhile.

use std::time::Duration;

use fairway_http2::fields::Limits;
use fairway_http3::{By, Code, Config, Event, Noted, Priority};
use quinn_proto::Dir;

use crate::support::serve::{self, answer, response};
use crate::support::{Pair, Setup, hex};

fn notes(pair: &mut Pair) -> Vec<(Noted, &'static str)> {
    std::iter::from_fn(|| pair.server.noted()).map(|note| (note.what, note.reason)).collect()
}

#[test]
fn a_reset_by_the_client_is_reported_once_and_both_directions_end() {
    let mut pair = Pair::new(Config::default());
    let id = pair.open(Dir::Bi);
    pair.write(id, &hex::bytes("POST 00 01 61"));
    pair.drive();
    pair.take_events();
    pair.reset(id, 0x10c);
    pair.stop(id, 0x10c);
    pair.drive();
    let events = pair.take_events();
    let [Event::Reset { stream, code: Code::RequestCancelled, by: By::Peer }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((stream, pair.server.open_streams()), (id, 1));
    assert!(serve::read(&mut pair, id, 10).broken);
    assert_eq!(notes(&mut pair), [(Noted::Reset, "request_cancelled")]);
    let (server, quic) = pair.both();
    assert_eq!(server.send_head(quic, id, &response(200, &[]), false), 0);
    server.release(quic, id);
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn rfc9114_4_1_1_a_response_that_is_not_wanted_is_reset() {
    let mut pair = Pair::new(Config::default());
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    pair.take_events();
    let (server, quic) = pair.both();
    server.send_head(quic, id, &response(200, &[]), false);
    pair.drive();
    pair.stop(id, 0x10c);
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Reset { by: By::Peer, .. }]));
    let (server, quic) = pair.both();
    assert_eq!(server.send_data(quic, id, b"more"), 0);
    server.release(quic, id);
}

#[test]
fn rfc9114_4_1_a_complete_response_stops_the_request_without_an_error() {
    let mut pair = Pair::new(Config::default());
    let id = pair.open(Dir::Bi);
    pair.write(id, &hex::bytes("POST 00 05 61"));
    pair.drive();
    answer(&mut pair, id);
    pair.drive();
    let seen = pair.seen(id);
    assert_eq!((seen.finished, seen.reset, seen.stopped), (true, None, Some(0x100)));
    assert_eq!(pair.server.open_streams(), 0);
}

#[test]
fn a_reset_after_a_complete_response_changes_nothing() {
    let mut pair = Pair::new(Config::default());
    let id = pair.open(Dir::Bi);
    pair.write(id, &hex::bytes("POST 00 05 61"));
    pair.drive();
    pair.take_events();
    let (server, quic) = pair.both();
    server.send_head(quic, id, &response(200, &[]), true);
    pair.reset(id, 0x100);
    pair.drive();
    assert!(pair.take_events().is_empty());
    assert!(pair.seen(id).finished);
    assert!(notes(&mut pair).is_empty());
}

#[test]
fn a_response_that_is_released_unfinished_is_reset() {
    let mut pair = Pair::new(Config::default());
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    let (server, quic) = pair.both();
    server.send_head(quic, id, &response(200, &[]), false);
    server.release(quic, id);
    pair.drive();
    assert_eq!(pair.seen(id).reset, Some(Code::Internal.number()));
    let other = pair.open(Dir::Bi);
    pair.write(other, &hex::bytes("POST"));
    pair.drive();
    let (server, quic) = pair.both();
    server.reset(quic, other, Code::RequestRejected);
    assert_eq!(server.open_streams(), 1);
    server.release(quic, other);
    pair.drive();
    let seen = pair.seen(other);
    let rejected = Some(Code::RequestRejected.number());
    assert_eq!((seen.reset, seen.stopped), (rejected, rejected));
}

#[test]
fn a_head_over_a_limit_is_reported_and_the_rest_not_read() {
    let config = Config { limits: Limits { list_bytes: 1_000, fields: 6 }, ..Config::default() };
    for request in ["01 len:1001 00 00 d1", "01 0d 00 00 d1 d7 c1 50 01 61 f4 f4 f4 f4 f4"] {
        let mut pair = Pair::new(config);
        let id = pair.open(Dir::Bi);
        pair.write(id, &hex::bytes(request));
        pair.drive();
        let events = pair.take_events();
        assert!(matches!(events[..], [Event::HeadTooLarge { end: true, .. }]), "{request}: {events:?}");
        assert!(serve::read(&mut pair, id, 10).ended);
        let (server, quic) = pair.both();
        server.send_head(quic, id, &response(431, &[]), true);
        server.release(quic, id);
        pair.drive();
        let seen = pair.seen(id);
        assert_eq!((seen.finished, seen.stopped), (true, Some(0x100)), "{request}");
    }
}

#[test]
fn incomplete_heads_are_bounded_together() {
    let config = Config { head_memory: 10_000, ..Config::default() };
    let mut pair = Pair::new(config);
    let incomplete: Vec<_> = (0..3)
        .map(|_| {
            let id = pair.open(Dir::Bi);
            pair.write(id, &hex::bytes("01 len:4000 00 00 d1"));
            pair.drive();
            id
        })
        .collect();
    assert_eq!(pair.seen(incomplete[2]).reset, Some(Code::RequestRejected.number()));
    assert_eq!(pair.server.incomplete_head(), Some(incomplete[0]));
    pair.reset(incomplete[0], 0x10c);
    pair.drive();
    assert_eq!(pair.server.incomplete_head(), Some(incomplete[1]));
    let id = pair.open(Dir::Bi);
    let mut bytes = hex::bytes("01 len:4000 00 00 d1 d7 c1 50 01 61 21 78 7f 94 1e");
    let left = 4_000 - (bytes.len() - 5);
    bytes.extend(std::iter::repeat_n(b'y', left));
    for piece in bytes.chunks(1_500) {
        pair.write(id, piece);
        pair.drive();
    }
    let events = pair.take_events();
    assert!(matches!(events[..], [Event::Head { stream, .. }] if stream == id), "{events:?}");
    answer(&mut pair, id);
    assert!(pair.server.kept_bytes() < 20_000);
}

#[test]
fn streams_beyond_the_number_wait_in_quic() {
    let config = Config { streams: 2, ..Config::default() };
    let mut pair = Pair::new(config);
    let ids = [pair.request(&hex::bytes("GET")), pair.request(&hex::bytes("GET"))];
    pair.drive();
    assert_eq!(ids.map(|id| pair.server.slot(id)), [Some(0), Some(1)]);
    // Reset streams are over for QUIC, but not for their owner.
    for id in ids {
        pair.stop(id, 0x10c);
    }
    pair.drive();
    pair.take_events();
    let third = pair.request(&hex::bytes("GET"));
    pair.drive();
    assert!(pair.take_events().is_empty());
    assert_eq!((pair.server.slot(third), pair.server.open_streams()), (None, 2));
    let (server, quic) = pair.both();
    server.release(quic, ids[1]);
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Head { stream, .. }] if stream == third));
    assert_eq!(pair.server.slot(third), Some(1));
}

#[test]
fn rfc9114_5_2_going_away_takes_requests_until_the_last_goaway() {
    let mut pair = Pair::new(Config::default());
    let first = pair.request(&hex::bytes("GET"));
    pair.drive();
    let (server, quic) = pair.both();
    server.go_away(quic);
    server.go_away(quic);
    let second = pair.request(&hex::bytes("GET"));
    pair.drive();
    assert!(pair.seen_unidirectional(0).ends_with(&[7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]));
    assert_eq!(pair.take_events().len(), 2);
    let (server, quic) = pair.both();
    server.finish_going(quic);
    server.finish_going(quic);
    pair.drive();
    assert!(pair.seen_unidirectional(0).ends_with(&[0xfc, 7, 1, 8]));
    let third = pair.request(&hex::bytes("GET"));
    pair.drive();
    let seen = pair.seen(third);
    assert_eq!(seen.reset, Some(Code::RequestRejected.number()));
    assert!(pair.take_events().is_empty() && !pair.server.is_done());
    for id in [first, second] {
        answer(&mut pair, id);
        assert!(!pair.server.is_done(), "the client does not have the response");
    }
    pair.drive();
    assert!(pair.seen(second).finished && pair.server.is_done());
    let now = pair.now;
    let (server, quic) = pair.both();
    server.close(quic, now, Code::NoError, "drained");
    pair.drive();
    assert_eq!(pair.closed(), Some((0x100, "drained".to_owned())));
    assert_eq!(notes(&mut pair).len(), 3);
}

#[test]
fn a_connection_that_the_client_closes_is_lost() {
    let mut pair = Pair::new(Config::default());
    pair.request(&hex::bytes("GET"));
    pair.drive();
    pair.take_events();
    let now = pair.now;
    pair.peer().close(now, 0x100u32.into(), bytes::Bytes::new());
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Lost(_)]));
}

#[test]
fn rfc9114_6_2_1_our_streams_may_not_be_stopped() {
    for index in 0..2 {
        let mut pair = Pair::new(Config::default());
        pair.stop(quinn_proto::StreamId::new(quinn_proto::Side::Server, Dir::Uni, index), 0x100);
        pair.drive();
        assert_eq!(pair.closed().map(|(code, _)| code), Some(Code::ClosedCriticalStream.number()));
    }
}

#[test]
fn rfc9218_priorities_come_from_the_field_and_from_updates() {
    let mut pair = Pair::new(Config::default());
    let control = pair.greet();
    let first =
        pair.request(&hex::bytes("01 16 00 00 d1 d7 c1 50 01 61 27 01 70 72 69 6f 72 69 74 79 03 75 3d 31"));
    pair.drive();
    assert_eq!(pair.server.priority(first), Priority { urgency: 1, incremental: false });
    // An update of an open stream, and of one that comes later.
    pair.write(control, &hex::bytes("80 0f 07 00 06 00 75 3d 35 2c 69 80 0f 07 00 04 04 75 3d 37"));
    pair.drive();
    let events = pair.take_events();
    let [_, Event::Priority { stream, priority }] = events[..] else { panic!("{events:?}") };
    assert_eq!((stream, priority), (first, Priority { urgency: 5, incremental: true }));
    let second =
        pair.request(&hex::bytes("01 16 00 00 d1 d7 c1 50 01 61 27 01 70 72 69 6f 72 69 74 79 03 75 3d 31"));
    pair.drive();
    assert_eq!(pair.server.priority(second).urgency, 7, "RFC 9218 §7");
}

#[test]
fn time_without_events_changes_nothing() {
    let mut pair = Pair::with(&Setup::default());
    pair.greet();
    pair.pass(Duration::from_secs(3_600));
    assert!(pair.take_events().is_empty());
    assert!(pair.server.kept_bytes() < 512, "{}", pair.server.kept_bytes());
}
