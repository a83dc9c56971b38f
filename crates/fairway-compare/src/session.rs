//! Sends the probes of a plan to both sides at the same time: each twice, and those that differ a few more times to find parts that
//! change by themselves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rustls::RootCertStore;
use tokio::time::{Instant, sleep_until};

use crate::observed::{Observed, differing_parts};
use crate::plan::Plan;
use crate::probe::Probe;
use crate::response::{self, ResponseParts};
use crate::side::{OpenConnections, Side, SideOptions, Target, Unusable};
use crate::stop::Stop;

/// Maximum number of probes that share a connection.
const MAX_GROUP_PROBES: usize = 50;
/// Number of probes between their first and second round. If the comparison stops, earlier batches are complete.
const BATCH_PROBES: usize = 1000;
/// Number of consecutive late probes of a host after which its other probes are skipped in this round.
const MAX_LATE_PER_HOST: u32 = 3;
/// Number of additional rounds for probes that differ.
const CONFIRMATION_ROUNDS: usize = 4;
/// Maximum number of differing probes that get additional rounds.
const MAX_CONFIRMED_PROBES: usize = 1000;

/// Rate, timeout and connections of a comparison.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Probes per second and side.
    pub rate: u32,
    /// Timeout for each step of a probe.
    pub step_timeout: Duration,
    /// Minimum time between the starts of two rounds with the same probes. With more than a second, parts that contain the
    /// time change between them.
    pub pause: Duration,
    /// Connections per side.
    pub connections: usize,
}

/// The progress of a comparison.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicUsize,
    planned: AtomicUsize,
}

/// The results of a comparison.
#[derive(Debug)]
pub struct Findings {
    /// The responses of both sides to each probe of the plan.
    pub(crate) observed: Vec<[Observed; 2]>,
    /// Why it ended early.
    pub(crate) partial: Option<String>,
    /// Remarks on the sides.
    pub(crate) notes: Vec<String>,
}

impl Progress {
    /// Numbers of sent and planned probes, for both sides together. The planned number grows when differing probes are repeated.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.sent.load(Ordering::Relaxed), self.planned.load(Ordering::Relaxed))
    }
}

/// Sends all planned probes to both sides.
///
/// # Errors
/// A side does not respond at all, or speaks another protocol.
pub async fn send_probes(
    plan: &Plan,
    targets: [&Target; 2],
    pacing: &Pacing,
    roots: Arc<RootCertStore>,
    progress: &Progress,
    stop: &Stop,
) -> Result<Findings, Unusable> {
    let side_options =
        SideOptions { rate: pacing.rate, step_timeout: pacing.step_timeout, roots, stop: stop.clone() };
    let host = plan.first_host().unwrap_or_else(|| "localhost".into());
    let open = |target| Side::open(target, &host, plan.schemes, &side_options);
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
    Ok(Findings { observed: session.observed, partial: stop.reason().map(str::to_owned), notes })
}

/// Probes that are sent one after the other on one connection.
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
    /// Sends these probes to both sides, at least a pause after the start of the previous round.
    async fn round(&mut self, batch: &[Group]) {
        if self.sides[0].may_continue() {
            sleep_until(self.next_round).await;
        }
        self.next_round = Instant::now() + self.pause;
        let (from, to) =
            tokio::join!(self.ask_side(&self.sides[0], batch), self.ask_side(&self.sides[1], batch));
        for (at, answers) in [from, to].into_iter().enumerate() {
            for (probe, answer) in answers {
                self.observed[probe][at].add(answer);
            }
        }
    }

    async fn ask_side(&self, side: &Side, batch: &[Group]) -> Vec<(usize, ResponseParts)> {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let worker = || async {
            let mut open = OpenConnections::default();
            while let Some(group) = batch.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut late = 0;
                for probe in group {
                    let reply = if late >= MAX_LATE_PER_HOST {
                        response::failure_parts(response::NOT_SENT)
                    } else {
                        let Some(outcome) = side.send_probe(&mut open, &self.probes[*probe]).await else {
                            return;
                        };
                        late = if outcome.is_late { late + 1 } else { 0 };
                        outcome.response
                    };
                    self.progress.sent.fetch_add(1, Ordering::Relaxed);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((*probe, reply));
                }
            }
        };
        join_all((0..self.connections.min(batch.len())).map(|_| worker())).await;
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats the probes that differ, to exclude random and temporary differences.
    async fn confirm(&mut self, stop: &Stop) {
        for round in 0..CONFIRMATION_ROUNDS {
            let differing = self.observed.iter().enumerate().filter(|(_, [from, to])| {
                from.is_complete() && to.is_complete() && !differing_parts(from, to).is_empty()
            });
            let mut again: Vec<usize> = differing.map(|(at, _)| at).take(MAX_CONFIRMED_PROBES).collect();
            if again.is_empty() || stop.reason().is_some() {
                return;
            }
            // Change the order, so that other endpoints of a backend are selected.
            let length = again.len();
            again.rotate_left((round + 1) % length);
            self.progress.planned.fetch_add(2 * again.len(), Ordering::Relaxed);
            let batch = groups(again.into_iter(), self.probes);
            self.round(&batch).await;
        }
    }
}

/// Divides the probes into batches of groups with the same host.
fn batches(probes: &[Probe]) -> Vec<Vec<Group>> {
    let mut batches: Vec<Vec<Group>> = Vec::new();
    let mut size = BATCH_PROBES;
    for group in groups(0..probes.len(), probes) {
        if size >= BATCH_PROBES {
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
            Some(group) if group.len() < MAX_GROUP_PROBES && all[group[0]].host == all[probe].host => {
                group.push(probe);
            }
            _ => groups.push(vec![probe]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{ProbeKind, Purpose, Scheme};

    fn probes(hosts: &[(&str, usize)]) -> Vec<Probe> {
        let request_for = |host: &str, number: usize| {
            Probe::request(Scheme::Http, &host.into(), ProbeKind::Get, &format!("/{number}"), Purpose::Path)
        };
        hosts
            .iter()
            .flat_map(|(host, count)| (0..*count).map(move |number| request_for(host, number)))
            .collect()
    }

    #[test]
    fn probes_of_a_host_share_connections_up_to_the_group_size() {
        let all = probes(&[("a.test", 3), ("b.test", MAX_GROUP_PROBES + 1), ("a.test", 1)]);
        let sizes: Vec<_> = groups(0..all.len(), &all).iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, MAX_GROUP_PROBES, 1, 1]);
    }

    #[test]
    fn batches_contain_every_probe_once_and_exceed_their_size_by_at_most_a_group() {
        let all = probes(&[("a.test", 2 * BATCH_PROBES), ("b.test", 7)]);
        let batches = batches(&all);
        assert_eq!(batches.len(), 3);
        let mut indexes: Vec<_> = batches.iter().flatten().flatten().copied().collect();
        indexes.sort_unstable();
        assert_eq!(indexes, (0..all.len()).collect::<Vec<_>>());
        assert!(
            batches
                .iter()
                .all(|batch| batch.iter().map(Vec::len).sum::<usize>() < BATCH_PROBES + MAX_GROUP_PROBES)
        );
    }
}
