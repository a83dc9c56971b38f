//! Fleet limits in virtual time, checked against the bound in docs/limits.md: replicas that share only their number, and
//! replicas that lend each other the shares of a client.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    Config, Guard, LimitKey, LimitScope, Phases, RateLimit, SharedTicketSecret, TicketSecret,
};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use crate::guards::{Borrower, FleetLimits, LeaseMessage};
use crate::testing::{GET_REQUEST, ScriptedConnect, TestWorker, config_with_phases, run_local, serve_ok};
use crate::tls::SessionTickets;

/// The allowed requests per second, and the burst.
const RATE: u32 = 24;
const BURST: u32 = 12;
/// Requests that the client sends per second.
const DEMAND: u32 = 100;
/// How long a share is lent, in seconds: until then it counts by the number it was divided by.
const LEASE: f64 = 3.0;

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
    let mut config = config_with_phases(1, vec![Phases::from(Guard::RateLimit(limit))]);
    config.settings.downstream.requests_per_connection = u64::MAX;
    config
}

/// A replica that gets requests between two times, and the replica counts that it was told; in seconds.
struct Replica {
    /// Its part of the requests, relative to the sum of all parts.
    part: u32,
    serves: [f64; 2],
    reports: Vec<(f64, u32)>,
    /// The time from which messages between it and other replicas are lost.
    cut_off: f64,
}

/// How replicas reach each other.
struct Links {
    limits: Vec<FleetLimits>,
    cut_off: Vec<f64>,
    began: Instant,
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number as u8], 10254))
}

fn name(number: usize) -> Arc<str> {
    format!("fairway-{number}").into()
}

impl Links {
    /// The response of the replica at an address to another one.
    async fn carry(&self, from: usize, to: SocketAddr, ask: &[u8]) -> Option<Vec<u8>> {
        let lender = (0..self.limits.len()).find(|number| address(*number) == to)?;
        let is_cut = || self.began.elapsed().as_secs_f64() >= self.cut_off[from].min(self.cut_off[lender]);
        let way = Duration::from_millis(5);
        sleep(way).await;
        let response = if is_cut() { None } else { self.limits[lender].respond(ask) };
        sleep(way).await;
        if !is_cut() {
            return response;
        }
        sleep(Duration::from_millis(240)).await;
        None
    }

    async fn run_rounds(self: Rc<Self>, borrower: usize) {
        let mut rounds = Borrower::new(self.limits[borrower].clone()).unwrap();
        loop {
            let round = rounds.next_round().await;
            let carry = |it: &LeaseMessage| {
                let (links, to, ask) = (Rc::clone(&self), it.recipient, it.request.clone());
                spawn_local(async move { links.carry(borrower, to, &ask).await })
            };
            let carried: Vec<_> = round.messages().iter().map(carry).collect();
            let mut responses = Vec::new();
            for response in carried {
                responses.push(response.await.unwrap());
            }
            rounds.finish_round(&round, &responses);
        }
    }
}

/// The limits of replicas that share a key, or do not.
fn limits(count: usize, lend: bool) -> Vec<FleetLimits> {
    let limits = |_| {
        let keys = SessionTickets::default();
        let secret = TicketSecret::new(vec![7; 32]);
        let shared = SharedTicketSecret { secret, age: Duration::ZERO, encrypts_in: Duration::ZERO };
        keys.adopt(if lend { std::slice::from_ref(&shared) } else { &[] });
        FleetLimits::new(keys)
    };
    (0..count).map(limits).collect()
}

impl Replica {
    fn serves_in(&self, [from, to]: [f64; 2]) -> bool {
        self.serves[0] < to && from < self.serves[1]
    }

    /// The lowest number by which it divided within a window.
    fn lowest(&self, [from, to]: [f64; 2]) -> u32 {
        let until = |index: usize| self.reports.get(index + 1).map_or(f64::MAX, |(at, _)| *at);
        let shares =
            self.reports.iter().enumerate().filter(|(index, (at, _))| *at <= to && from <= until(*index));
        shares.map(|(_, (_, count))| *count).min().unwrap()
    }
}

/// The times at which each replica admitted a request, until `end`; replicas lend each other shares, or not.
async fn admitted(seed: u64, replicas: &[Replica], end: f64, lend: bool) -> Vec<Vec<f64>> {
    let (config, mut random) = (limited(), fastrand::Rng::with_seed(seed));
    let limits = limits(replicas.len(), lend);
    let stage = |limits: &FleetLimits| {
        TestWorker::in_fleet(limits.clone(), &config, |_| ScriptedConnect::served_by(serve_ok))
    };
    let stages: Vec<_> = limits.iter().map(stage).collect();
    let mut clients: Vec<_> = stages.iter().map(TestWorker::client).collect();
    let (began, mut passed) = (Instant::now(), vec![Vec::new(); replicas.len()]);
    let cut_off = replicas.iter().map(|replica| replica.cut_off).collect();
    let links = Rc::new(Links { limits, cut_off, began });
    let rounds: Vec<_> =
        (0..replicas.len()).map(|it| spawn_local(Rc::clone(&links).run_rounds(it))).collect();
    for turn in 0_u32.. {
        sleep_until(began + Duration::from_secs(1) / DEMAND * turn).await;
        let now = began.elapsed().as_secs_f64();
        if now >= end {
            break;
        }
        let serving = |it: &(usize, &Replica)| (it.1.serves[0]..it.1.serves[1]).contains(&now);
        let serving = replicas.iter().enumerate().filter(serving);
        for (number, replica) in replicas.iter().enumerate() {
            if let Some((_, count)) = replica.reports.iter().rfind(|(at, _)| *at <= now) {
                links.limits[number].size().set(*count);
            }
            let others = serving.clone().filter(|(other, _)| *other != number);
            let others = others.map(|(other, _)| (name(other), address(other))).collect();
            links.limits[number].set_members(name(number), others);
        }
        let parts: Vec<_> = serving.flat_map(|(number, it)| vec![number; it.part as usize]).collect();
        let drawn = *random.choice(&parts).unwrap();
        match clients[drawn].request(GET_REQUEST).await.unwrap().status {
            200 => passed[drawn].push(now),
            status => assert_eq!(status, 429),
        }
    }
    rounds.iter().for_each(tokio::task::JoinHandle::abort);
    passed
}

fn within(passed: &[Vec<f64>], [from, to]: [f64; 2]) -> f64 {
    passed.iter().flatten().filter(|at| (from..to).contains(*at)).count() as f64
}

/// Checks that no window has more than (rate x its length + burst) x the sum of shares + 1 for each replica. A lent share
/// counts by the lowest number of up to `lent` seconds before.
fn keeps_the_bound(seed: u64, replicas: &[Replica], passed: &[Vec<f64>], end: f64, lent: f64) {
    for length in [0.1, 1.0, 5.0, 20.0] {
        for step in 0..((end - length) * 4.0) as u32 {
            let window = [f64::from(step) / 4.0, f64::from(step) / 4.0 + length];
            let serving: Vec<_> = replicas.iter().filter(|it| it.serves_in(window)).collect();
            let counted = [(window[0] - lent).max(0.0), window[1]];
            let shares: f64 = serving.iter().map(|it| 1.0 / f64::from(it.lowest(counted))).sum();
            let full_limit = f64::from(RATE) * length + f64::from(BURST);
            let (bound, found) = (full_limit * shares + serving.len() as f64, within(passed, window));
            assert!(found <= bound, "seed {seed}, {window:?} s: {found} of {bound} with shares of {shares}");
        }
    }
}

fn replica(part: u32, serves: [f64; 2], rates: &[(f64, u32)]) -> Replica {
    Replica { part, serves, reports: rates.to_vec(), cut_off: f64::MAX }
}

/// Three replicas that stay and learn late of three that come and go; the first gets `part` of the requests, the others one
/// part each.
fn three_six_three(seed: u64, part: u32) -> Vec<Replica> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut hear = |at: f64| at + 2.0 * random.f64();
    let staying = [part, 1, 1].map(|part| {
        // They count replicas that have left for ten seconds more.
        replica(part, [0.0, 60.0], &[(0.0, 3), (hear(20.0), 6), (hear(50.0), 3)])
    });
    let passing = [1; 3].map(|part| replica(part, [20.0, 40.0], &[(0.0, 6)]));
    staying.into_iter().chain(passing).collect()
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_grows_and_shrinks_lets_through_its_limit_and_no_more() {
    run_local(async {
        for seed in 0..2 {
            let replicas = three_six_three(seed, 1);
            let passed = admitted(seed, &replicas, 60.0, false).await;
            keeps_the_bound(seed, &replicas, &passed, 60.0, 0.0);
            // While all know their number, an even load is admitted as in a single process.
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
    run_local(async {
        for seed in 2..4 {
            // The others get 2% each, less than their shares.
            let replicas = three_six_three(seed, 48);
            let passed = admitted(seed, &replicas, 60.0, false).await;
            keeps_the_bound(seed, &replicas, &passed, 60.0, 0.0);
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
async fn a_replica_without_news_keeps_its_last_share() {
    run_local(async {
        let seed = 4;
        let mut replicas = three_six_three(seed, 1);
        // The first is cut off before the fleet grows; the others no longer count it once it is not ready.
        replicas[0].reports = vec![(0.0, 3)];
        for other in &mut replicas[1..] {
            other.reports.push((30.0, 5));
            other.reports.sort_by(|one, two| one.0.total_cmp(&two.0));
        }
        let passed = admitted(seed, &replicas, 60.0, false).await;
        keeps_the_bound(seed, &replicas, &passed, 60.0, 0.0);
        let cut_off = [31.0, 40.0];
        let shares: f64 = replicas.iter().map(|it| 1.0 / f64::from(it.lowest(cut_off))).sum();
        assert!((shares - (1.0 + 1.0 / 3.0)).abs() < 1e-9, "{shares}");
        let due = f64::from(RATE) * 9.0;
        let found = within(&passed, cut_off);
        assert!((1.2 * due..=4.0 / 3.0 * due + 6.0).contains(&found), "{found} of {due}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_of_one_replica_gets_unused_shares_of_the_others() {
    run_local(async {
        for seed in 5..7 {
            let mut replicas = three_six_three(seed, 1);
            replicas[1..].iter_mut().for_each(|other| other.part = 0);
            let passed = admitted(seed, &replicas, 60.0, true).await;
            keeps_the_bound(seed, &replicas, &passed, 60.0, LEASE);
            // A sixteenth stays with each lender.
            for (window, count) in [([1.0, 20.0], 3.0), ([23.0, 40.0], 6.0), ([53.0, 60.0], 3.0)] {
                let share = (1.0 + (count - 1.0) * 15.0 / 16.0) / count;
                let due = f64::from(RATE) * (window[1] - window[0]) * share;
                let found = within(&passed, window);
                assert!(
                    (0.97 * due..=1.03 * due + f64::from(BURST)).contains(&found),
                    "seed {seed}, {window:?} s: {found} of {due}"
                );
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_uneven_load_balancer_costs_less_with_leases_and_exceeds_no_limit() {
    run_local(async {
        for seed in 7..9 {
            let replicas = three_six_three(seed, 48);
            let divided = admitted(seed, &replicas, 60.0, false).await;
            let lent = admitted(seed, &replicas, 60.0, true).await;
            keeps_the_bound(seed, &replicas, &lent, 60.0, LEASE);
            let [divided, lent] = [divided, lent].map(|passed| within(&passed, [0.0, 60.0]));
            assert!(lent > 1.05 * divided, "seed {seed}: {lent} and {divided}");
        }
    })
    .await;
}

/// The client uses the first replica, and from 30 s on equally the lender that is cut off.
async fn cut_off_at_30(seed: u64, cut_off: usize) -> (Vec<Replica>, Vec<Vec<f64>>) {
    let mut replicas: Vec<_> = [1, 0, 0].map(|part| replica(part, [0.0, 60.0], &[(0.0, 3)])).into();
    replicas[cut_off].cut_off = 30.0;
    let passed = admitted(seed, &replicas, 60.0, true).await;
    (replicas, passed)
}

#[tokio::test(start_paused = true)]
async fn an_unused_lent_share_returns_when_the_lender_is_cut_off() {
    run_local(async {
        for (seed, cut_off, share) in [(9, 1, (1.0 + 15.0 / 16.0) / 3.0), (10, 0, 1.0 / 3.0)] {
            let (replicas, passed) = cut_off_at_30(seed, cut_off).await;
            keeps_the_bound(seed, &replicas, &passed, 60.0, 0.0);
            let full = f64::from(RATE) * 20.0 * (1.0 + 2.0 * 15.0 / 16.0) / 3.0;
            let before = within(&passed, [10.0, 30.0]);
            assert!(before > 0.97 * full, "{before} of {full}");
            let due = f64::from(RATE) * 20.0 * share;
            let after = within(&passed, [30.0 + LEASE, 50.0 + LEASE]);
            assert!((0.97 * due..=1.03 * due).contains(&after), "seed {seed}: {after} of {due}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_changes_to_a_replica_that_has_lent_its_share_gets_it_back() {
    run_local(async {
        let (config, limits) = (limited(), limits(3, true));
        let stages: Vec<_> = limits
            .iter()
            .map(|it| TestWorker::in_fleet(it.clone(), &config, |_| ScriptedConnect::served_by(serve_ok)))
            .collect();
        let mut clients: Vec<_> = stages.iter().map(TestWorker::client).collect();
        for (number, it) in limits.iter().enumerate() {
            it.size().set(3);
            let others = (0..3).filter(|other| *other != number);
            it.set_members(name(number), others.map(|other| (name(other), address(other))).collect());
        }
        // The second is cut off once it has lent its share.
        let links = Rc::new(Links { limits, cut_off: vec![f64::MAX, 10.0, f64::MAX], began: Instant::now() });
        (0..3).for_each(|it| drop(spawn_local(Rc::clone(&links).run_rounds(it))));
        let mut passed = vec![Vec::new(); 3];
        for turn in 0..2000 {
            sleep_until(links.began + Duration::from_millis(10) * turn).await;
            let now = links.began.elapsed().as_secs_f64();
            let at = usize::from(now >= 10.0 && turn % 2 == 0);
            if clients[at].request(GET_REQUEST).await.unwrap().status == 200 {
                passed[at].push(now);
            }
        }
        let replicas: Vec<_> = [1; 3].map(|part| replica(part, [0.0, 20.0], &[(0.0, 3)])).into();
        keeps_the_bound(0, &replicas, &passed, 20.0, 0.0);
        let at = |replica: usize, window| within(&passed[replica..=replica], window);
        assert!(at(1, [10.0, 12.0]) <= 2.0, "a sixteenth is left of its share");
        // After the lease and two requests.
        let back = at(1, [13.3, 20.0]);
        assert!((0.95 * 8.0 * 6.7..=1.05 * 8.0 * 6.7 + 1.0).contains(&back), "{back}");
    })
    .await;
}
