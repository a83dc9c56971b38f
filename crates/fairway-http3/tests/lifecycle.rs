//! How streams and connections end, and which memory and slots a stream holds until then.
//!
//! Requests are bytes in hexadecimal, or a word such as `GET` for a whole `HEADERS` frame (see `support::hex`):
//!
//! * `01`, length, `00 00`: a `HEADERS` frame, and the QPACK prefix of a section without dynamic entries;
//! * `d1 d7 c1`: the static entries `:method: GET`, `:scheme: https` and `:path: /`;
//! * `50 01 61`: the pseudo-header `:authority: a`;
//! * `00 01 61`: a `DATA` frame with the body `a`; `00 05 61` announces five bytes and has one of them.
//!
//! The code 0x100 is `H3_NO_ERROR`, and 0x10c is `H3_REQUEST_CANCELLED` (RFC 9114 §8.1).

use std::time::Duration;

use fairway_http2::fields::Limits;
use fairway_http3::{Code, Config, Event, PeerEventKind, Priority, ResetBy};
use quinn_proto::{Dir, StreamId};

use crate::support::serve::{self, respond_204, response};
use crate::support::{Pair, Setup, hex};

/// [`PRIORITY_REQUEST`] asks for this priority.
const REQUESTED_PRIORITY: Priority = Priority { urgency: 1, incremental: false };
/// `HEADERS` of 22 bytes with `GET https://a/` and `priority: u=1`.
const PRIORITY_REQUEST: &str = "01 16 00 00 d1 d7 c1 50 01 61 27 01 70 72 69 6f 72 69 74 79 03 75 3d 31";

/// The kinds and reasons of the peer events that the server has recorded since the last call.
fn take_peer_events(pair: &mut Pair) -> Vec<(PeerEventKind, &'static str)> {
    std::iter::from_fn(|| pair.server.next_peer_event()).map(|event| (event.kind, event.reason)).collect()
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
    let [Event::Reset { stream, code: Code::RequestCancelled, reset_by: ResetBy::Peer }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((stream, pair.server.open_streams()), (id, 1));
    assert!(serve::read(&mut pair, id, 10).broken);
    assert_eq!(take_peer_events(&mut pair), [(PeerEventKind::Reset, "request_cancelled")]);
    let (server, quic) = pair.both_mut();
    assert_eq!(server.send_head(quic, id, &response(200, &[]), false), 0);
    server.release(quic, id);
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn rfc9114_4_1_1_a_response_that_the_client_stops_is_reset() {
    let mut pair = Pair::new(Config::default());
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    pair.take_events();
    let (server, quic) = pair.both_mut();
    server.send_head(quic, id, &response(200, &[]), false);
    pair.drive();
    pair.stop(id, 0x10c);
    pair.drive();
    assert!(matches!(pair.take_events()[..], [Event::Reset { reset_by: ResetBy::Peer, .. }]));
    let (server, quic) = pair.both_mut();
    assert_eq!(server.send_data(quic, id, b"more"), 0);
    server.release(quic, id);
}

#[test]
fn rfc9114_4_1_a_complete_response_stops_the_request_without_an_error() {
    let mut pair = Pair::new(Config::default());
    let id = pair.open(Dir::Bi);
    pair.write(id, &hex::bytes("POST 00 05 61"));
    pair.drive();
    respond_204(&mut pair, id);
    pair.drive();
    let received = pair.received(id);
    assert_eq!((received.finished, received.reset, received.stopped), (true, None, Some(0x100)));
    assert_eq!(pair.server.open_streams(), 0);
}

#[test]
fn a_reset_after_a_complete_response_changes_nothing() {
    let mut pair = Pair::new(Config::default());
    let id = pair.open(Dir::Bi);
    pair.write(id, &hex::bytes("POST 00 05 61"));
    pair.drive();
    pair.take_events();
    let (server, quic) = pair.both_mut();
    server.send_head(quic, id, &response(200, &[]), true);
    pair.reset(id, 0x100);
    pair.drive();
    assert!(pair.take_events().is_empty());
    assert!(pair.received(id).finished);
    assert!(take_peer_events(&mut pair).is_empty(), "the reset is not reported");
}

#[test]
fn a_response_that_is_released_unfinished_is_reset() {
    let mut pair = Pair::new(Config::default());
    let id = pair.request(&hex::bytes("GET"));
    pair.drive();
    let (server, quic) = pair.both_mut();
    server.send_head(quic, id, &response(200, &[]), false);
    server.release(quic, id);
    pair.drive();
    assert_eq!(pair.received(id).reset, Some(Code::Internal.number()));
    let other = pair.open(Dir::Bi);
    pair.write(other, &hex::bytes("POST"));
    pair.drive();
    let (server, quic) = pair.both_mut();
    server.reset(quic, other, Code::RequestRejected);
    assert_eq!(server.open_streams(), 1);
    server.release(quic, other);
    pair.drive();
    let received = pair.received(other);
    let rejected = Some(Code::RequestRejected.number());
    assert_eq!((received.reset, received.stopped), (rejected, rejected));
}

#[test]
fn a_head_over_a_limit_is_reported_and_the_rest_of_the_request_is_not_read() {
    let config = Config { limits: Limits { list_bytes: 1_000, fields: 6 }, ..Config::default() };
    // A section of 1,001 bytes, and a head of nine fields: five times `f4`, the static entry for `content-type:
    // text/html`.
    for request in ["01 len:1001 00 00 d1", "01 0d 00 00 d1 d7 c1 50 01 61 f4 f4 f4 f4 f4"] {
        let mut pair = Pair::new(config);
        let id = pair.open(Dir::Bi);
        pair.write(id, &hex::bytes(request));
        pair.drive();
        let events = pair.take_events();
        assert!(matches!(events[..], [Event::HeadTooLarge { end: true, .. }]), "{request}: {events:?}");
        assert!(serve::read(&mut pair, id, 10).ended);
        let (server, quic) = pair.both_mut();
        server.send_head(quic, id, &response(431, &[]), true);
        server.release(quic, id);
        pair.drive();
        let received = pair.received(id);
        assert_eq!((received.finished, received.stopped), (true, Some(0x100)), "{request}");
    }
}

#[test]
fn incomplete_heads_of_a_connection_share_one_memory_limit() {
    let config = Config { head_memory: 10_000, ..Config::default() };
    let mut pair = Pair::new(config);
    // Two announced sections of 4,000 bytes fit into the limit of 10,000, a third does not.
    let incomplete: Vec<_> = (0..3)
        .map(|_| {
            let id = pair.open(Dir::Bi);
            pair.write(id, &hex::bytes("01 len:4000 00 00 d1"));
            pair.drive();
            id
        })
        .collect();
    assert_eq!(pair.received(incomplete[2]).reset, Some(Code::RequestRejected.number()));
    assert_eq!(pair.server.incomplete_head(), Some(incomplete[0]));
    pair.reset(incomplete[0], 0x10c);
    pair.drive();
    assert_eq!(pair.server.incomplete_head(), Some(incomplete[1]));
    let id = pair.open(Dir::Bi);
    // After the reset there is room for a head of that size. Its last field is `x` (`21 78`) with a literal value
    // (`7f 94 1e` is the length) that fills the section. The frame header of five bytes is not part of the section.
    let mut head = hex::bytes("01 len:4000 00 00 d1 d7 c1 50 01 61 21 78 7f 94 1e");
    let value_len = 4_000 - (head.len() - 5);
    head.extend(std::iter::repeat_n(b'y', value_len));
    for chunk in head.chunks(1_500) {
        pair.write(id, chunk);
        pair.drive();
    }
    let events = pair.take_events();
    assert!(matches!(events[..], [Event::Head { stream, .. }] if stream == id), "{events:?}");
    respond_204(&mut pair, id);
    assert!(pair.server.kept_bytes() < 20_000);
}

#[test]
fn streams_beyond_the_limit_wait_in_quic_until_a_slot_is_released() {
    let config = Config { streams: 2, ..Config::default() };
    let mut pair = Pair::new(config);
    let ids = [pair.request(&hex::bytes("GET")), pair.request(&hex::bytes("GET"))];
    pair.drive();
    assert_eq!(ids.map(|id| pair.server.slot(id)), [Some(0), Some(1)]);
    // A reset ends a stream for QUIC, but the stream keeps its slot until its owner releases it.
    for id in ids {
        pair.stop(id, 0x10c);
    }
    pair.drive();
    pair.take_events();
    let third = pair.request(&hex::bytes("GET"));
    pair.drive();
    assert!(pair.take_events().is_empty());
    assert_eq!((pair.server.slot(third), pair.server.open_streams()), (None, 2));
    let (server, quic) = pair.both_mut();
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
    let (server, quic) = pair.both_mut();
    // The second call of each function must not send another GOAWAY.
    server.go_away(quic);
    server.go_away(quic);
    let second = pair.request(&hex::bytes("GET"));
    pair.drive();
    // GOAWAY (type 7, eight bytes) with the highest stream ID of a client's request, 2^62 - 4.
    assert!(
        pair.received_unidirectional(0).ends_with(&[7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc])
    );
    assert_eq!(pair.take_events().len(), 2);
    let (server, quic) = pair.both_mut();
    server.finish_go_away(quic);
    server.finish_go_away(quic);
    pair.drive();
    // GOAWAY with ID 8, the first that the server does not process: the requests were 0 and 4.
    assert!(pair.received_unidirectional(0).ends_with(&[0xfc, 7, 1, 8]));
    let third = pair.request(&hex::bytes("GET"));
    pair.drive();
    assert_eq!(pair.received(third).reset, Some(Code::RequestRejected.number()));
    assert!(pair.take_events().is_empty() && !pair.server.is_done());
    for id in [first, second] {
        respond_204(&mut pair, id);
        assert!(
            !pair.server.is_done(),
            "the connection is not done before the client has received the response"
        );
    }
    pair.drive();
    assert!(pair.received(second).finished && pair.server.is_done());
    let now = pair.now;
    let (server, quic) = pair.both_mut();
    server.close(quic, now, Code::NoError, "drained");
    pair.drive();
    assert_eq!(pair.closed(), Some((0x100, "drained".to_owned())));
    assert_eq!(take_peer_events(&mut pair).len(), 3, "both GOAWAY frames and the rejected request");
}

#[test]
fn a_connection_that_the_client_closes_is_reported_as_lost() {
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
fn rfc9114_6_2_1_a_client_that_stops_a_critical_stream_closes_the_connection() {
    // The server's control stream and its QPACK decoder stream.
    for index in 0..2 {
        let mut pair = Pair::new(Config::default());
        pair.stop(StreamId::new(quinn_proto::Side::Server, Dir::Uni, index), 0x100);
        pair.drive();
        assert_eq!(pair.closed().map(|(code, _)| code), Some(Code::ClosedCriticalStream.number()));
    }
}

#[test]
fn rfc9218_priorities_come_from_the_header_and_from_updates() {
    let mut pair = Pair::new(Config::default());
    let control_stream = pair.open_control_stream();
    let first = pair.request(&hex::bytes(PRIORITY_REQUEST));
    pair.drive();
    assert_eq!(pair.server.priority(first), REQUESTED_PRIORITY);
    // PRIORITY_UPDATE frames (type 0xf0700): `u=5,i` for the open stream 0, and `u=7` for stream 4, which opens
    // later.
    pair.write(control_stream, &hex::bytes("80 0f 07 00 06 00 75 3d 35 2c 69 80 0f 07 00 04 04 75 3d 37"));
    pair.drive();
    let events = pair.take_events();
    let [_, Event::Priority { stream, priority }] = events[..] else { panic!("{events:?}") };
    assert_eq!((stream, priority), (first, Priority { urgency: 5, incremental: true }));
    let second = pair.request(&hex::bytes(PRIORITY_REQUEST));
    pair.drive();
    assert_eq!(
        pair.server.priority(second).urgency,
        7,
        "the update takes precedence over the header (RFC 9218 §7)"
    );
}

#[test]
fn an_idle_connection_has_no_events_and_little_memory() {
    let mut pair = Pair::with(&Setup::default());
    pair.open_control_stream();
    pair.advance_time(Duration::from_secs(3_600));
    assert!(pair.take_events().is_empty());
    assert!(pair.server.kept_bytes() < 512, "{}", pair.server.kept_bytes());
}
