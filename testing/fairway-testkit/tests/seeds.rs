//! Tests draw the same values in every run. `.cargo/config.toml` gives all properties their seed, through the environment of
//! `cargo test`; other generators of random numbers get theirs where they are made.

use std::fmt::Write;

use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::structure::sources;

#[test]
fn properties_use_the_same_values_in_every_run() {
    let seed = Config::default().rng_seed;
    assert_ne!(seed, RngSeed::Random, "PROPTEST_RNG_SEED is not set; cargo sets it");
    let draw = || {
        let mut runner = TestRunner::new(Config::default());
        let mut values = (0..100).map(|_| any::<[u64; 4]>().new_tree(&mut runner).unwrap().current());
        values.by_ref().collect::<Vec<_>>()
    };
    assert_eq!(draw(), draw());
}

#[test]
fn tests_seed_their_random_numbers() {
    let mut wrong = String::new();
    for source in sources() {
        let is_testkit = source.name.starts_with("testing/fairway-testkit/src/");
        let tests_begin = if source.is_test || is_testkit { 0 } else { source.lines_without_tests() };
        for (number, line) in source.text.lines().enumerate().skip(tests_begin) {
            if draws_unseeded(line) {
                _ = writeln!(wrong, "{}:{}: {}", source.name, number + 1, line.trim());
            }
        }
    }
    assert!(wrong.is_empty(), "no seed, so no run can be repeated:\n{wrong}");
}

/// Whether a line uses a random generator seeded by the system or an earlier caller.
fn draws_unseeded(line: &str) -> bool {
    let seeded = |rest: &str| {
        ["Rng::with_seed(", "seed("].iter().any(|start| rest.starts_with(start))
            || rest.strip_prefix("Rng").is_some_and(|rest| !rest.starts_with("::"))
    };
    let uses = line.match_indices(concat!("fast", "rand::")).map(|(at, found)| &line[at + found.len()..]);
    uses.into_iter().any(|rest| !seeded(rest)) || line.contains(concat!("thread_", "rng("))
}

#[test]
fn a_generator_without_a_seed_is_seen() {
    for (line, unseeded) in [
        (concat!("let gap = fast", "rand::f64();"), true),
        (concat!("let mut random = fast", "rand::Rng::new();"), true),
        (concat!("let mut random = fast", "rand::Rng::with_seed(1);"), false),
        (concat!("fn settle(random: &mut fast", "rand::Rng) {"), false),
        (concat!("fast", "rand::seed(1);"), false),
    ] {
        assert_eq!(draws_unseeded(line), unseeded, "{line}");
    }
}
