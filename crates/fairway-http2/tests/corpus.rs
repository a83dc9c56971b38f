//! Runs the fuzz targets' committed corpora, and mutations of them, through the same checks.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::checks;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).expect("the corpus is committed");
    let read: Vec<_> = files.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(read.len() >= 8, "{target} has only {} files", read.len());
    read
}

#[test]
fn field_blocks_hold() {
    corpus("h2_hpack").iter().for_each(|input| checks::hpack(input));
}

#[test]
fn clients_hold() {
    corpus("h2_server").iter().for_each(|input| checks::server(input));
}

#[test]
fn the_corpus_passes_for_clients_with_responses() {
    corpus("h2_answers").iter().for_each(|input| checks::check_responses(input));
}

#[test]
fn servers_hold() {
    corpus("h2_client").iter().for_each(|input| checks::client(input));
}

#[test]
fn requests_that_become_http_1_hold() {
    corpus("h2_downgrade").iter().for_each(|input| checks::downgrade(input));
}

#[test]
fn fields_that_are_written_hold() {
    corpus("h2_encode").iter().for_each(|input| checks::encode(input));
}

#[test]
fn both_ends_hold() {
    corpus("h2_pair").iter().for_each(|input| checks::pair(input));
}

/// A corpus file with some bytes changed, removed or duplicated.
fn nearly(target: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..6);
    (prop::sample::select(corpus(target)), edits).prop_map(|(mut bytes, edits)| {
        for (at, value, how) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = value,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, value),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn nearly_valid_field_blocks_hold(input in nearly("h2_hpack")) {
        checks::hpack(&input);
    }

    #[test]
    fn nearly_valid_clients_hold(input in nearly("h2_server")) {
        checks::server(&input);
    }

    #[test]
    fn nearly_valid_clients_that_get_answers_hold(input in nearly("h2_server")) {
        checks::check_responses(&input);
    }

    #[test]
    fn nearly_valid_requests_that_become_http_1_hold(input in nearly("h2_downgrade")) {
        checks::downgrade(&input);
    }

    #[test]
    fn nearly_the_same_fields_hold(input in nearly("h2_encode")) {
        checks::encode(&input);
    }

    #[test]
    fn nearly_valid_servers_hold(input in nearly("h2_client")) {
        checks::client(&input);
    }
}
