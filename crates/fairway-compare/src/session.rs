//! Sends the probes of a plan to both sides at the same time: each twice, and those that differ a few times more, so that what
//! changes by itself is known. Explains nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rustls::RootCertStore;
use tokio::time::{Instant, sleep_until};

use crate::answer::{self, Answer};
use crate::observed::{Observed, unequal};
use crate::plan::Plan;
use crate::probe::Probe;
use crate::side::{Manner, Open, Side, Target, Unusable};
use crate::stop::Stop;

/// Probes of a host that share a connection.
const GROUP: usize = 50;
/// Probes between a first round and the second: if it is stopped, those before it are complete.
const BATCH: usize = 1000;
/// So many probes of a host in a row without an answer in time, and the others are not asked in this round.
const LATE_OF_HOST: u32 = 3;
/// Further rounds for probes that differ.
const CONFIRMATIONS: usize = 4;
/// So many probes that differ get further rounds.
const MOST_CONFIRMED: usize = 1000;

/// How fast and how patiently.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Probes per second and side.
    pub rate: u32,
    /// For each step of a probe.
    pub patience: Duration,
    /// From the beginning of a round to that of the next with the same probes. With more than a second, what shows the time
    /// changes between them.
    pub pause: Duration,
    /// Connections per side.
    pub connections: usize,
}

/// How far it is.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicUsize,
    planned: AtomicUsize,
}

/// What was seen.
#[derive(Debug)]
pub struct Findings {
    /// By probe of the plan, both sides.
    pub(crate) observed: Vec<[Observed; 2]>,
    /// Why it ended early.
    pub(crate) partial: Option<String>,
    /// What is worth knowing of a side.
    pub(crate) notes: Vec<String>,
}

impl Progress {
    /// Probes sent, and probes to send, to both sides together. The second number grows when differences are asked for again.
    #[must_use]
    pub fn now(&self) -> (usize, usize) {
        (self.sent.load(Ordering::Relaxed), self.planned.load(Ordering::Relaxed))
    }
}

/// Asks both sides everything that is planned.
///
/// # Errors
/// A side does not answer at all, or speaks something else.
pub async fn ask(
    plan: &Plan,
    targets: [&Target; 2],
    pacing: &Pacing,
    roots: Arc<RootCertStore>,
    progress: &Progress,
    stop: &Stop,
) -> Result<Findings, Unusable> {
    let manner = Manner { rate: pacing.rate, patience: pacing.patience, roots, stop: stop.clone() };
    let host = plan.first_host().unwrap_or_else(|| "localhost".into());
    let open = |target| Side::open(target, &host, plan.schemes, &manner);
    let (from, to) = tokio::join!(open(targets[0]), open(targets[1]));
    let mut session = Session {
        sides: [from?, to?],
        probes: &plan.probes,
        connections: pacing.connections.max(1),
        pause: pacing.pause,
        next_round: Instant::now(),
        observed: vec![<[Observed; 2]>::default(); plan.probes.len()],
        progress,
    };
    progress.planned.store(4 * plan.probes.len(), Ordering::Relaxed);
    for batch in batches(&plan.probes) {
        session.round(&batch).await;
        session.round(&batch).await;
    }
    session.confirm(stop).await;
    let notes = session.sides.iter().filter_map(Side::untrusted).collect();
    Ok(Findings { observed: session.observed, partial: stop.why().map(str::to_owned), notes })
}

/// Probes that one connection asks one after the other.
type Group = Vec<usize>;

struct Session<'p> {
    sides: [Side; 2],
    probes: &'p [Probe],
    connections: usize,
    pause: Duration,
    next_round: Instant,
    observed: Vec<[Observed; 2]>,
    progress: &'p Progress,
}

impl Session<'_> {
    /// One round with these probes, on both sides, no earlier than a pause after the last one began.
    async fn round(&mut self, batch: &[Group]) {
        if self.sides[0].goes_on() {
            sleep_until(self.next_round).await;
        }
        self.next_round = Instant::now() + self.pause;
        let (from, to) = tokio::join!(self.asked(&self.sides[0], batch), self.asked(&self.sides[1], batch));
        for (at, answers) in [from, to].into_iter().enumerate() {
            for (probe, answer) in answers {
                self.observed[probe][at].add(answer);
            }
        }
    }

    async fn asked(&self, side: &Side, batch: &[Group]) -> Vec<(usize, Answer)> {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let worker = || async {
            let mut open = Open::default();
            while let Some(group) = batch.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut late = 0;
                for probe in group {
                    let answer = if late >= LATE_OF_HOST {
                        answer::without(answer::NOT_ASKED)
                    } else {
                        let Some(outcome) = side.ask(&mut open, &self.probes[*probe]).await else { return };
                        late = if outcome.is_late { late + 1 } else { 0 };
                        outcome.answer
                    };
                    self.progress.sent.fetch_add(1, Ordering::Relaxed);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((*probe, answer));
                }
            }
        };
        join_all((0..self.connections.min(batch.len())).map(|_| worker())).await;
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks again what differs: chance and what passes do not differ each time.
    async fn confirm(&mut self, stop: &Stop) {
        for round in 0..CONFIRMATIONS {
            let differing = self.observed.iter().enumerate().filter(|(_, [from, to])| {
                from.is_complete() && to.is_complete() && !unequal(from, to).is_empty()
            });
            let mut again: Vec<usize> = differing.map(|(at, _)| at).take(MOST_CONFIRMED).collect();
            if again.is_empty() || stop.why().is_some() {
                return;
            }
            // In another order, so that other endpoints of a backend have their turn.
            let length = again.len();
            again.rotate_left((round + 1) % length);
            self.progress.planned.fetch_add(2 * again.len(), Ordering::Relaxed);
            let batch = groups(again.into_iter(), self.probes);
            self.round(&batch).await;
        }
    }
}

/// Groups of probes with the same host, in batches.
fn batches(probes: &[Probe]) -> Vec<Vec<Group>> {
    let mut batches: Vec<Vec<Group>> = Vec::new();
    let mut size = BATCH;
    for group in groups(0..probes.len(), probes) {
        if size >= BATCH {
            batches.push(Vec::new());
            size = 0;
        }
        size += group.len();
        if let Some(batch) = batches.last_mut() {
            batch.push(group);
        }
    }
    batches
}

fn groups(probes: impl Iterator<Item = usize>, all: &[Probe]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for probe in probes {
        match groups.last_mut() {
            Some(group) if group.len() < GROUP && all[group[0]].host == all[probe].host => group.push(probe),
            _ => groups.push(vec![probe]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Ask, Purpose, Scheme};

    fn probes(hosts: &[(&str, usize)]) -> Vec<Probe> {
        let of = |host: &str, number: usize| {
            Probe::request(Scheme::Http, &host.into(), Ask::Get, &format!("/{number}"), Purpose::Path)
        };
        hosts.iter().flat_map(|(host, count)| (0..*count).map(move |number| of(host, number))).collect()
    }

    #[test]
    fn a_host_shares_connections_and_a_large_one_is_cut() {
        let all = probes(&[("a.test", 3), ("b.test", GROUP + 1), ("a.test", 1)]);
        let sizes: Vec<_> = groups(0..all.len(), &all).iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, GROUP, 1, 1]);
    }

    #[test]
    fn batches_hold_every_probe_once_and_are_no_larger_than_a_group_more() {
        let all = probes(&[("a.test", 2 * BATCH), ("b.test", 7)]);
        let batches = batches(&all);
        assert_eq!(batches.len(), 3);
        let mut seen: Vec<_> = batches.iter().flatten().flatten().copied().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..all.len()).collect::<Vec<_>>());
        assert!(batches.iter().all(|batch| batch.iter().map(Vec::len).sum::<usize>() < BATCH + GROUP));
    }
}
