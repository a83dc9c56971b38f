//! Clients that cause excessive load (RFC 9114 §10.5).

use std::time::Duration;

use fairway_http3::{Code, Config, PeerEventKind};
use quinn_proto::{Dir, StreamId};

use crate::support::serve::{self, answer_all};
use crate::support::{Pair, hex};

/// Repeats an action until the connection is closed. Returns how often, at most `limit` times.
fn flood(pair: &mut Pair, limit: usize, mut act: impl FnMut(&mut Pair)) -> usize {
    for count in 0..limit {
        act(pair);
        pair.drive();
        if pair.lost.is_some() {
            let closed = pair.closed().map(|(code, _)| code);
            assert_eq!(closed, Some(Code::ExcessiveLoad.number()));
            return count;
        }
    }
    limit
}

/// Opens as many concurrent request streams as the server allows, with these bytes each.
fn burst(pair: &mut Pair, bytes: &str) -> Vec<StreamId> {
    let mut opened = Vec::new();
    while let Some(id) = pair.peer().streams().open(Dir::Bi) {
        pair.write(id, &hex::bytes(bytes));
        opened.push(id);
    }
    opened
}

#[test]
fn rapid_resets_are_warned_and_end_the_connection() {
    let mut pair = Pair::new(Config::default());
    let mut resets = 0;
    flood(&mut pair, 100, |pair| {
        let opened = burst(pair, "GET");
        pair.drive();
        if pair.lost.is_none() {
            resets += opened.len();
            for id in opened {
                pair.reset(id, 0x10c);
            }
            pair.drive();
        }
        answer_all(pair);
        pair.take_events();
    });
    assert!((188..600).contains(&resets), "{resets}");
    let notes: Vec<_> = std::iter::from_fn(|| pair.server.next_peer_event()).map(|note| note.kind).collect();
    assert!(
        notes.contains(&PeerEventKind::Warned) && notes.contains(&PeerEventKind::ConnectionFault),
        "{notes:?}"
    );
}

#[test]
fn slow_resets_and_finished_requests_are_not_charged() {
    let mut pair = Pair::new(Config::default());
    let count = flood(&mut pair, 400, |pair| {
        let id = pair.open(Dir::Bi);
        pair.write(id, &hex::bytes("GET"));
        pair.drive();
        pair.reset(id, 0x10c);
        pair.advance_time(Duration::from_millis(80));
        answer_all(pair);
        pair.take_events();
    });
    assert_eq!(count, 400);
    let count = flood(&mut pair, 600, |pair| {
        let id = pair.request(&hex::bytes("21 00 GET"));
        pair.drive();
        answer_all(pair);
        pair.take_events();
        pair.drive();
        assert!(pair.received(id).finished);
    });
    assert_eq!(count, 600);
}

#[test]
fn floods_end_the_connection() {
    for (name, opening, repeated, dir) in [
        ("unknown frames on a request", "GET", "21 00", Dir::Bi),
        ("unknown frames before a head", "21 00", "21 00", Dir::Bi),
        ("empty DATA frames", "POST", "00 00", Dir::Bi),
        ("unknown frames on the control stream", "CONTROL", "21 00", Dir::Uni),
        ("MAX_PUSH_ID", "CONTROL", "0d 01 00", Dir::Uni),
        ("GOAWAY", "CONTROL", "07 01 00", Dir::Uni),
        ("PRIORITY_UPDATE", "CONTROL", "80 0f 07 00 02 00 69", Dir::Uni),
        ("insertions", "02 3f e1 1f", "c0 00", Dir::Uni),
        ("duplicates", "02 3f e1 1f c0 00", "00", Dir::Uni),
        ("capacities", "02", "20", Dir::Uni),
        ("cancellations", "03", "44", Dir::Uni),
    ] {
        let limit = 20;
        let mut pair = Pair::new(Config::default());
        let id = pair.open(dir);
        pair.write(id, &hex::bytes(opening));
        pair.drive();
        let bytes = hex::bytes(repeated).repeat(200);
        let count = flood(&mut pair, limit, |pair| {
            pair.write(id, &bytes);
            pair.drive();
            if pair.server.slot(id).is_some() {
                let body = serve::read(pair, id, 10_000);
                assert!(body.bytes.is_empty());
            }
        });
        assert!(count < limit, "{name}: {count}");
    }
}

#[test]
fn too_many_unknown_streams_end_the_connection() {
    for bytes in ["21", ""] {
        let mut pair = Pair::new(Config::default());
        // Eight streams of two points at a time, so the account must not drain in between.
        let began = pair.now;
        let count = flood(&mut pair, 500, |pair| {
            while let Some(id) = pair.peer().streams().open(Dir::Uni) {
                pair.write(id, &hex::bytes(bytes));
                pair.finish(id);
            }
        });
        let seconds = (pair.now - began).as_secs_f64();
        assert!(count < 500, "{bytes}: {count} in {seconds} seconds");
    }
}

#[test]
fn malformed_requests_end_the_connection_after_many() {
    let mut pair = Pair::new(Config::default());
    let mut requests = 0;
    flood(&mut pair, 100, |pair| {
        let opened = burst(pair, "01 03 00 00 d1");
        requests += opened.len();
        opened.into_iter().for_each(|id| pair.finish(id));
    });
    assert!((188..600).contains(&requests), "{requests}");
}
