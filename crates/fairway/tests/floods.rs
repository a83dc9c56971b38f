//! Short forms of the floods, with the real binary: under every attack, well-behaved clients are served, memory stays within its
//! limit, and the proxy recovers and reports its readiness correctly. Figures of CPU and latency come from the long form on a
//! quiet machine: `fairway-bench floods`.

use std::path::Path;
use std::time::Duration;

use fairway_testkit::proof::floods::{Effort, FloodFindings, Kind, run};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

async fn flood(kind: Kind) -> FloodFindings {
    // Memory fills up gradually.
    let memory = matches!(kind, Kind::MemoryHeads | Kind::MemoryBodies | Kind::MemoryReads);
    let time = Duration::from_secs(if memory { 3 } else { 1 });
    let effort = Effort { time, connections: 200, rate: 40.0, cores: 0.3, compared: false };
    let found = run(Path::new(BINARY), kind, &effort).await;
    let attacked = &found.attacked;
    // The number of connections that a busy machine can open is unknown.
    assert!(attacked.opened > 0, "the test exercised nothing: {found:#?}");
    let wrongs = found.wrongs();
    assert!(wrongs.is_empty(), "{wrongs:?} in {found:#?}");
    found
}

/// Several floods at a time, as long as none needs much of the machine.
async fn floods<const N: usize>(kinds: [Kind; N]) {
    let mut running = tokio::task::JoinSet::new();
    kinds.into_iter().for_each(|kind| drop(running.spawn(flood(kind))));
    running.join_all().await;
}

#[tokio::test]
async fn slow_heads_and_bodies_do_not_affect_others() {
    floods([Kind::SlowHeads, Kind::SlowBodies]).await;
}

#[tokio::test]
async fn slow_and_absent_readers_do_not_affect_others() {
    floods([Kind::SlowReads, Kind::NoReads]).await;
}

#[tokio::test]
async fn unfinished_handshakes_do_not_affect_others() {
    floods([Kind::SilentHandshakes, Kind::HalfHandshakes]).await;
}

#[tokio::test]
async fn rapid_handshakes_only_slow_others_down() {
    flood(Kind::Handshakes).await;
    flood(Kind::ReplayedHellos).await;
}

#[tokio::test]
async fn short_connections_only_slow_others_down() {
    flood(Kind::ConnectionChurn).await;
}

#[tokio::test]
async fn a_process_without_descriptors_refuses_and_recovers() {
    flood(Kind::Descriptors).await;
}

#[tokio::test]
async fn large_heads_do_not_use_up_the_memory_for_good() {
    flood(Kind::MemoryHeads).await;
}

#[tokio::test]
async fn bodies_buffered_for_a_retry_and_unread_responses_release_their_memory() {
    floods([Kind::MemoryBodies, Kind::MemoryReads]).await;
}

#[tokio::test]
async fn the_most_expensive_accepted_pattern_only_slows_others_down() {
    flood(Kind::Regex).await;
}

#[tokio::test]
async fn wrong_passwords_only_slow_others_down() {
    let found = flood(Kind::Passwords).await;
    // The number of verifications that a busy machine manages is unknown.
    assert!(found.attacked.verifying_cpu_seconds > 0.0, "no password was hashed: {found:#?}");
}

#[tokio::test]
async fn heads_of_maximum_size_only_slow_others_down() {
    flood(Kind::LargeHeads).await;
}

#[tokio::test]
async fn pipelined_requests_only_slow_others_down() {
    flood(Kind::Pipelined).await;
}

#[tokio::test]
async fn tiny_chunks_only_slow_others_down() {
    floods([Kind::TinyChunks, Kind::ChunkExtensions]).await;
}

#[tokio::test]
async fn reset_http2_requests_only_slow_others_down() {
    for kinds in [
        [Kind::H2RapidReset, Kind::H2ZeroIncrements],
        [Kind::H2LargeIncrements, Kind::H2PriorityLengths],
        [Kind::H2PriorityLoops, Kind::H2HeadersAfterEnd],
    ] {
        floods(kinds).await;
    }
    floods([Kind::H2DataAfterEnd, Kind::H2LateResets]).await;
}

#[tokio::test]
async fn endless_http2_frames_only_slow_others_down() {
    for kinds in [
        [Kind::H2Continuations, Kind::H2EmptyData],
        [Kind::H2Settings, Kind::H2Pings],
        [Kind::H2Priorities, Kind::H2WindowUpdates],
        [Kind::H2HpackBomb, Kind::H2CrumbBomb],
    ] {
        floods(kinds).await;
    }
}

#[tokio::test]
async fn waiting_http2_clients_that_do_not_read_do_not_affect_others() {
    floods([Kind::H2TinyWindows, Kind::H2NoReads, Kind::H2Connections]).await;
}

#[tokio::test]
async fn honest_clients_are_as_many_as_attackers_and_send_when_those_continued() {
    // The cost of attackers is the CPU time in addition to that of the other clients, who are few here. On a busy machine, that
    // cost varies by more from second to second than 200 bodies cost that grow by a byte each.
    for (kind, expected) in [(Kind::SlowBodies, (1_000, Some(1_000))), (Kind::Pipelined, (8, None))] {
        let effort = Effort {
            time: Duration::from_secs(2),
            connections: 1_000,
            rate: 10.0,
            cores: 0.3,
            compared: true,
        };
        let found = run(Path::new(BINARY), kind, &effort).await;
        let honest = found.honest.as_ref().unwrap();
        assert_eq!((honest.connections, honest.together_ms), expected, "{found:#?}");
        // CPU time is counted in ticks of 10 ms, so a few clients may cost none.
        assert!(honest.cores >= 0.0 && honest.probed.answered == honest.probed.sent, "{honest:#?}");
    }
}
