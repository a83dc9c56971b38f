//! Property: whatever the body, its coding, its pieces and its pauses are, the client decodes exactly what the endpoint sent. A response
//! that breaks off never looks whole, and a client that leaves at any byte leaves nothing behind.
//!
//! `COMPRESSED_BODIES` says how many bodies there are; `make properties` draws 10,000.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::rc::Rc;
use std::time::Duration;

use fairway_model::ContentCoding;
use fastrand::Rng;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::compression_tests::{Asker, PAIRS, Speaks, asked, begins, compressing_with, ends, greet, piece};
use super::hostile_tests::{CANCEL, RESET, Raw, settle, word};
use crate::compression::checks::{CODINGS, decode};
use crate::compression::tests::body;
use crate::testing::{Stage, on_stage};

/// The most that an endpoint of HTTP/2 sends without looking at its windows.
const MAX_BODY: usize = 60_000;

/// A response, and what becomes of it.
#[derive(Clone, Debug)]
struct Case {
    client: Speaks,
    endpoint: Speaks,
    coding: ContentCoding,
    level: u8,
    /// Of the bytes of the body.
    seed: u64,
    length: usize,
    has_length: bool,
    /// How the endpoint cuts the body, again and again, and where it pauses.
    pieces: Vec<(usize, bool)>,
    /// How much the client reads at a time.
    reads: usize,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Whole,
    /// The endpoint closes after a part of the body.
    BreaksOff(Index),
    /// The client leaves after so many bytes.
    Leaves(usize),
    /// The same; a client of HTTP/2 resets the stream.
    Resets(usize),
}

/// What the endpoint does.
struct Script {
    endpoint: Speaks,
    has_length: bool,
    body: Vec<u8>,
    pieces: Vec<(usize, bool)>,
    /// Where the body breaks off.
    cut: Option<usize>,
}

impl Script {
    async fn play(&self, mut raw: Raw) {
        let endpoint = self.endpoint;
        greet(endpoint, &mut raw).await;
        let Some(id) = asked(endpoint, &mut raw).await else { return };
        let length = self.body.len().to_string();
        let fields = [("content-length", &*length)];
        raw.say(begins(endpoint, id, if self.has_length { &fields } else { &[] })).await;
        let is_plain = self.has_length && endpoint == Speaks::Http1;
        let mut rest = &self.body[..self.cut.unwrap_or(self.body.len())];
        for (length, pauses) in self.pieces.iter().cycle() {
            let (part, behind) = rest.split_at((*length).min(rest.len()));
            rest = behind;
            // An empty chunk would be the last.
            if !part.is_empty() {
                raw.say(if is_plain { part.to_vec() } else { piece(endpoint, id, part) }).await;
            }
            match pauses {
                true => sleep(Duration::from_secs(1)).await,
                false => yield_now().await,
            }
            if rest.is_empty() {
                break;
            }
        }
        if self.cut.is_none() && !is_plain {
            raw.say(ends(endpoint, id)).await;
        }
        if self.cut.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Case {
    fn stage(&self, body: &[u8]) -> Stage {
        let cut = match self.end {
            End::BreaksOff(at) => Some(at.index(body.len())),
            End::Whole | End::Leaves(_) | End::Resets(_) => None,
        };
        let (endpoint, has_length, pieces) = (self.endpoint, self.has_length, self.pieces.clone());
        let script = Rc::new(Script { endpoint, has_length, body: body.to_vec(), pieces, cut });
        compressing_with((self.coding, self.level), endpoint, move |raw| {
            let script = Rc::clone(&script);
            async move { script.play(raw).await }
        })
    }

    async fn play(&self) {
        let sent = body(&mut Rng::with_seed(self.seed), self.length);
        let stage = self.stage(&sent);
        let mut asker =
            Asker::ask(&stage, self.client, "GET", &[("accept-encoding", self.coding.name())]).await;
        let mut left = match self.end {
            End::Leaves(after) | End::Resets(after) => after,
            End::Whole | End::BreaksOff(_) => usize::MAX,
        };
        while !asker.is_over && left > 0 {
            left -= asker.read_at_most(self.reads.max(self.length / 20).min(left)).await;
        }
        if matches!(self.end, End::Resets(_)) && self.client == Speaks::Http2 {
            asker.say(&word(RESET, 1, CANCEL)).await;
            settle().await;
            assert_eq!(stage.worker.compressors.taken(), 0, "after a reset");
        }
        let came = std::mem::take(&mut asker.came);
        drop(asker);
        settle().await;
        assert_eq!(stage.at_rest(), Ok(()));
        // The head may be lost with the rest where the endpoint or the client leaves at once.
        assert!(came.status == 200 || (came.status == 0 && !matches!(self.end, End::Whole)), "{came:?}");
        if came.status == 200 {
            assert_eq!(came.named("content-encoding"), [self.coding.name()]);
        }
        let (decoded, is_whole) = decode(self.coding, &came.body);
        match self.end {
            End::Whole => {
                assert!(came.is_whole && is_whole && decoded == sent);
                let without_last = &came.body[..came.body.len() - 1];
                assert!(!decode(self.coding, without_last).1, "nothing comes after the end");
            }
            End::BreaksOff(_) => assert!(!came.is_whole && !is_whole && sent.starts_with(&decoded)),
            End::Leaves(_) | End::Resets(_) => assert!(sent.starts_with(&decoded)),
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let coding = select(&CODINGS[..]).prop_flat_map(|(coding, levels)| (Just(coding), levels));
    let length = prop_oneof![1..40_usize, 1..3_000_usize, 1..=MAX_BODY];
    let sizes = prop_oneof![1..20_usize, 1..2_000_usize, 1..=MAX_BODY];
    let pieces = vec((sizes, prop::bool::weighted(0.2)), 1..5);
    let reads = prop_oneof![1..20_usize, Just(64 * 1024)];
    let after = || prop_oneof![0..600_usize, 0..MAX_BODY];
    let end = prop_oneof![
        3 => Just(End::Whole),
        2 => any::<Index>().prop_map(End::BreaksOff),
        1 => after().prop_map(End::Leaves),
        1 => after().prop_map(End::Resets),
    ];
    let shape = (select(&PAIRS[..]), coding, any::<u64>(), length, any::<bool>());
    (shape, pieces, reads, end).prop_map(|(shape, mut pieces, reads, end)| {
        let ((client, endpoint), (coding, level), seed, length, has_length) = shape;
        // Of HTTP/1 there are also bodies that are longer than all windows.
        let length = if endpoint == Speaks::Http1 && length > 3_000 { 5 * length } else { length };
        // So that no body has thousands of pieces.
        pieces.iter_mut().for_each(|(size, _)| *size = (*size).max(length / 100));
        Case { client, endpoint, coding, level, seed, length, has_length, pieces, reads, end }
    })
}

fn bodies() -> u32 {
    std::env::var("COMPRESSED_BODIES").map_or(300, |bodies| bodies.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(bodies()) })]

    #[test]
    fn clients_decode_what_endpoints_sent_or_see_that_it_is_not_whole(case in case()) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(on_stage(case.play()));
    }
}
