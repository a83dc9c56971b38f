//! Property: for any body, coding, pieces and pauses, the client decodes exactly what the endpoint sent. A truncated response
//! never looks complete, and a client that leaves at any byte leaves nothing behind.
//!
//! `COMPRESSED_BODIES` sets the number of bodies; `make properties` draws 10,000.

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

use super::compression_tests::{
    PAIRS, Protocol, TestClient, await_request, body_piece, compressing_with, greet, response_end,
    response_head,
};
use super::hostile_tests::{CANCEL, RST_STREAM, Raw, run_ready_tasks, word};
use crate::compression::checks::{CODINGS, decode};
use crate::compression::tests::body;
use crate::testing::{TestWorker, run_local};

/// The maximum that an HTTP/2 endpoint sends without regard to its windows.
const MAX_BODY: usize = 60_000;

/// A response, and how it ends.
#[derive(Clone, Debug)]
struct Case {
    client: Protocol,
    endpoint: Protocol,
    coding: ContentCoding,
    level: u8,
    /// The seed of the body's bytes.
    seed: u64,
    length: usize,
    has_length: bool,
    /// The sizes of the pieces, used repeatedly, and whether the endpoint pauses after each.
    chunks: Vec<(usize, bool)>,
    /// How much the client reads at a time.
    reads: usize,
    end: CaseEnd,
}

#[derive(Clone, Copy, Debug)]
enum CaseEnd {
    Whole,
    /// The endpoint closes after a part of the body.
    BreaksOff(Index),
    /// The client leaves after this many bytes.
    Leaves(usize),
    /// The same, but a client of HTTP/2 resets the stream.
    Resets(usize),
}

/// The behaviour of the endpoint.
struct Script {
    endpoint: Protocol,
    has_length: bool,
    body: Vec<u8>,
    chunks: Vec<(usize, bool)>,
    /// Where the body is truncated.
    cut: Option<usize>,
}

impl Script {
    async fn run(&self, mut raw: Raw) {
        let endpoint = self.endpoint;
        greet(endpoint, &mut raw).await;
        let Some(id) = await_request(endpoint, &mut raw).await else { return };
        let length = self.body.len().to_string();
        let fields = [("content-length", &*length)];
        raw.send(response_head(endpoint, id, if self.has_length { &fields } else { &[] })).await;
        let is_plain = self.has_length && endpoint == Protocol::Http1;
        let mut rest = &self.body[..self.cut.unwrap_or(self.body.len())];
        for (length, pauses) in self.chunks.iter().cycle() {
            let (part, behind) = rest.split_at((*length).min(rest.len()));
            rest = behind;
            // An empty chunk would be the last.
            if !part.is_empty() {
                raw.send(if is_plain { part.to_vec() } else { body_piece(endpoint, id, part) }).await;
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
            raw.send(response_end(endpoint, id)).await;
        }
        if self.cut.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Case {
    fn stage(&self, body: &[u8]) -> TestWorker {
        let cut = match self.end {
            CaseEnd::BreaksOff(at) => Some(at.index(body.len())),
            CaseEnd::Whole | CaseEnd::Leaves(_) | CaseEnd::Resets(_) => None,
        };
        let (endpoint, has_length, pieces) = (self.endpoint, self.has_length, self.chunks.clone());
        let script = Rc::new(Script { endpoint, has_length, body: body.to_vec(), chunks: pieces, cut });
        compressing_with((self.coding, self.level), endpoint, move |raw| {
            let script = Rc::clone(&script);
            async move { script.run(raw).await }
        })
    }

    async fn run(&self) {
        let sent = body(&mut Rng::with_seed(self.seed), self.length);
        let stage = self.stage(&sent);
        let mut test_client =
            TestClient::send_request(&stage, self.client, "GET", &[("accept-encoding", self.coding.name())])
                .await;
        let mut remaining = match self.end {
            CaseEnd::Leaves(after) | CaseEnd::Resets(after) => after,
            CaseEnd::Whole | CaseEnd::BreaksOff(_) => usize::MAX,
        };
        while !test_client.is_over && remaining > 0 {
            remaining -= test_client.read_at_most(self.reads.max(self.length / 20).min(remaining)).await;
        }
        if matches!(self.end, CaseEnd::Resets(_)) && self.client == Protocol::Http2 {
            test_client.send(&word(RST_STREAM, 1, CANCEL)).await;
            run_ready_tasks().await;
            assert_eq!(stage.worker.compressor_memory.used_bytes(), 0, "after a reset");
        }
        let received = std::mem::take(&mut test_client.received);
        drop(test_client);
        run_ready_tasks().await;
        assert_eq!(stage.check_idle(), Ok(()));
        // The head may be lost, too, if the endpoint or the client leaves at once.
        assert!(
            received.status == 200 || (received.status == 0 && !matches!(self.end, CaseEnd::Whole)),
            "{received:?}"
        );
        if received.status == 200 {
            assert_eq!(received.values_of("content-encoding"), [self.coding.name()]);
        }
        let (decoded, is_whole) = decode(self.coding, &received.body);
        match self.end {
            CaseEnd::Whole => {
                assert!(received.is_whole && is_whole && decoded == sent);
                let without_last = &received.body[..received.body.len() - 1];
                assert!(!decode(self.coding, without_last).1, "nothing comes after the end");
            }
            CaseEnd::BreaksOff(_) => assert!(!received.is_whole && !is_whole && sent.starts_with(&decoded)),
            CaseEnd::Leaves(_) | CaseEnd::Resets(_) => assert!(sent.starts_with(&decoded)),
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let coding = select(&CODINGS[..]).prop_flat_map(|(coding, levels)| (Just(coding), levels));
    let length = prop_oneof![1..40_usize, 1..3_000_usize, 1..=MAX_BODY];
    let sizes = prop_oneof![1..20_usize, 1..2_000_usize, 1..=MAX_BODY];
    let parts = vec((sizes, prop::bool::weighted(0.2)), 1..5);
    let reads = prop_oneof![1..20_usize, Just(64 * 1024)];
    let after = || prop_oneof![0..600_usize, 0..MAX_BODY];
    let end = prop_oneof![
        3 => Just(CaseEnd::Whole),
        2 => any::<Index>().prop_map(CaseEnd::BreaksOff),
        1 => after().prop_map(CaseEnd::Leaves),
        1 => after().prop_map(CaseEnd::Resets),
    ];
    let shape = (select(&PAIRS[..]), coding, any::<u64>(), length, any::<bool>());
    (shape, parts, reads, end).prop_map(|(shape, mut pieces, reads, end)| {
        let ((client, endpoint), (coding, level), seed, length, has_length) = shape;
        // HTTP/1 also gets bodies that are longer than all windows.
        let length = if endpoint == Protocol::Http1 && length > 3_000 { 5 * length } else { length };
        // Keeps bodies from having thousands of pieces.
        pieces.iter_mut().for_each(|(size, _)| *size = (*size).max(length / 100));
        Case { client, endpoint, coding, level, seed, length, has_length, chunks: pieces, reads, end }
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
        runtime.block_on(run_local(case.run()));
    }
}
