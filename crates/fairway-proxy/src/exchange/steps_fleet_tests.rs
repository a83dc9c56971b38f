//! Limits of a fleet: replicas that share nothing but their number, in virtual time, against the bound of docs/limits.md.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::time::Duration;

use fairway_model::{Config, Guard, LimitKey, LimitScope, Phases, RateLimit};
use tokio::time::{Instant, sleep_until};

use crate::guards::FleetSize;
use crate::testing::{GET, Meeting, Stage, answering, filtered, on_stage};

/// Requests of the client per second, and how many more may come early.
const RATE: u32 = 24;
const BURST: u32 = 12;
/// Requests that the client sends per second.
const DEMAND: u32 = 100;

fn limited() -> Config {
    let limit = RateLimit {
        key: LimitKey::Address,
        policy: "p".into(),
        requests: RATE,
        per: Duration::from_secs(1),
        burst: BURST,
        status: 429,
        exempt: Vec::new(),
        scope: LimitScope::Fleet,
    };
    let mut config = filtered(1, vec![Phases::from(Guard::RateLimit(limit))]);
    config.settings.downstream.requests_per_connection = u64::MAX;
    config
}

/// A replica gets requests between two times, and counts as many replicas as was told to it; in seconds.
struct Replica {
    /// Its part of the requests, of the sum of all parts.
    part: u32,
    serves: [f64; 2],
    told: Vec<(f64, u32)>,
}

impl Replica {
    fn serves_in(&self, [from, to]: [f64; 2]) -> bool {
        self.serves[0] < to && from < self.serves[1]
    }

    /// The lowest number that it divided by within a window.
    fn lowest(&self, [from, to]: [f64; 2]) -> u32 {
        let until = |index: usize| self.told.get(index + 1).map_or(f64::MAX, |(at, _)| *at);
        let held = self.told.iter().enumerate().filter(|(index, (at, _))| *at <= to && from <= until(*index));
        held.map(|(_, (_, count))| *count).min().unwrap()
    }
}

/// When each replica let a request pass, of all that come until `end`.
async fn admitted(seed: u64, replicas: &[Replica], end: f64) -> Vec<Vec<f64>> {
    let (config, mut random) = (limited(), fastrand::Rng::with_seed(seed));
    let sizes: Vec<_> = replicas.iter().map(|_| FleetSize::default()).collect();
    let stage = |size: &FleetSize| Stage::in_fleet(size.clone(), &config, |_| Meeting::with(answering));
    let stages: Vec<_> = sizes.iter().map(stage).collect();
    let mut clients: Vec<_> = stages.iter().map(Stage::client).collect();
    let (began, mut passed) = (Instant::now(), vec![Vec::new(); replicas.len()]);
    for turn in 0_u32.. {
        sleep_until(began + Duration::from_secs(1) / DEMAND * turn).await;
        let now = began.elapsed().as_secs_f64();
        if now >= end {
            return passed;
        }
        for (replica, size) in replicas.iter().zip(&sizes) {
            if let Some((_, count)) = replica.told.iter().rfind(|(at, _)| *at <= now) {
                size.set(*count);
            }
        }
        let serving = |it: &(usize, &Replica)| (it.1.serves[0]..it.1.serves[1]).contains(&now);
        let serving = replicas.iter().enumerate().filter(serving);
        let parts: Vec<_> = serving.flat_map(|(number, it)| vec![number; it.part as usize]).collect();
        let drawn = *random.choice(&parts).unwrap();
        match clients[drawn].ask(GET).await.unwrap().status {
            200 => passed[drawn].push(now),
            status => assert_eq!(status, 429),
        }
    }
    passed
}

fn within(passed: &[Vec<f64>], [from, to]: [f64; 2]) -> f64 {
    passed.iter().flatten().filter(|at| (from..to).contains(*at)).count() as f64
}

/// No window has more than (rate x its length + burst) x the sum of shares + 1 for each replica.
fn keeps_the_bound(seed: u64, replicas: &[Replica], passed: &[Vec<f64>], end: f64) {
    for length in [0.1, 1.0, 5.0, 20.0] {
        for step in 0..((end - length) * 4.0) as u32 {
            let window = [f64::from(step) / 4.0, f64::from(step) / 4.0 + length];
            let serving: Vec<_> = replicas.iter().filter(|it| it.serves_in(window)).collect();
            let shares: f64 = serving.iter().map(|it| 1.0 / f64::from(it.lowest(window))).sum();
            let whole = f64::from(RATE) * length + f64::from(BURST);
            let (bound, found) = (whole * shares + serving.len() as f64, within(passed, window));
            assert!(found <= bound, "seed {seed}, {window:?} s: {found} of {bound} with shares of {shares}");
        }
    }
}

fn replica(part: u32, serves: [f64; 2], told: &[(f64, u32)]) -> Replica {
    Replica { part, serves, told: told.to_vec() }
}

/// Three that stay, which hear late of the three that come and go; the first gets `part` of the requests, the others one part each.
fn three_six_three(seed: u64, part: u32) -> Vec<Replica> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut heard = |at: f64| at + 2.0 * random.f64();
    let staying = [part, 1, 1].map(|part| {
        // They count those that leave for ten seconds more.
        replica(part, [0.0, 60.0], &[(0.0, 3), (heard(20.0), 6), (heard(50.0), 3)])
    });
    let passing = [1; 3].map(|part| replica(part, [20.0, 40.0], &[(0.0, 6)]));
    staying.into_iter().chain(passing).collect()
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_grows_and_shrinks_lets_through_its_limit_and_no_more() {
    on_stage(async {
        for seed in 0..2 {
            let replicas = three_six_three(seed, 1);
            let passed = admitted(seed, &replicas, 60.0).await;
            keeps_the_bound(seed, &replicas, &passed, 60.0);
            // While all know their number, an even load is let through as a single process does.
            for window in [[5.0, 20.0], [23.0, 40.0], [53.0, 60.0]] {
                let due = f64::from(RATE) * (window[1] - window[0]);
                let found = within(&passed, window);
                assert!(
                    (0.95 * due..=1.05 * due).contains(&found),
                    "seed {seed}, {window:?} s: {found} of {due}"
                );
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_uneven_load_balancer_costs_requests_but_exceeds_no_limit() {
    on_stage(async {
        for seed in 2..4 {
            // The others get 2% each, less than their shares.
            let replicas = three_six_three(seed, 48);
            let passed = admitted(seed, &replicas, 60.0).await;
            keeps_the_bound(seed, &replicas, &passed, 60.0);
            for (window, count) in [([5.0, 20.0], 3.0), ([23.0, 40.0], 6.0)] {
                let due = f64::from(RATE) * (window[1] - window[0]) / count;
                let found = within(&passed[..1], window);
                assert!(
                    (0.95 * due..=1.05 * due).contains(&found),
                    "seed {seed}, {window:?} s: {found} of {due}"
                );
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_hears_nothing_keeps_its_last_share() {
    on_stage(async {
        let seed = 4;
        let mut replicas = three_six_three(seed, 1);
        // The first is cut off before the fleet grows; the others no longer count it once it is not ready.
        replicas[0].told = vec![(0.0, 3)];
        for other in &mut replicas[1..] {
            other.told.push((30.0, 5));
            other.told.sort_by(|one, two| one.0.total_cmp(&two.0));
        }
        let passed = admitted(seed, &replicas, 60.0).await;
        keeps_the_bound(seed, &replicas, &passed, 60.0);
        let cut_off = [31.0, 40.0];
        let shares: f64 = replicas.iter().map(|it| 1.0 / f64::from(it.lowest(cut_off))).sum();
        assert!((shares - (1.0 + 1.0 / 3.0)).abs() < 1e-9, "{shares}");
        let due = f64::from(RATE) * 9.0;
        let found = within(&passed, cut_off);
        assert!((1.2 * due..=4.0 / 3.0 * due + 6.0).contains(&found), "{found} of {due}");
    })
    .await;
}
