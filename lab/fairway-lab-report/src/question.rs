//! The questions that readers ask first, and what the runs answer to each for each peer: a figure, its interval where there
//! is one, and how it stands to Fairway's where the intervals allow a word. Recommended settings only.

use fairway_lab_measure::results::{Ratio, Settings};

use super::effects::{interval as spread, median_of, quantile, sorted};
use super::figures::rate_of_loss;
use super::gather::Scenario;
use super::headline::{Claim, against_fairway, claim, interval, is_noise};
use super::palette::Palette;
use super::peers::FAIRWAY;
use super::pool::{Pool, distinct, whole};
use super::{number, poisson};

/// The answer of a peer that took no part.
const NOT_MEASURED: &str = "not measured";

/// How a peer stands to Fairway in one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is Fairway, or there is no interval to judge by.
    Unjudged,
    /// Its figure is better, beyond chance.
    Better,
    /// It is worse, beyond chance.
    Worse,
    /// The intervals do not tell them apart.
    Alike,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// The peer.
    pub peer: String,
    /// As it is printed, with its interval.
    pub text: String,
    /// How it stands to Fairway.
    pub standing: Standing,
}

/// A question with its answers.
pub(super) struct Question {
    /// As the head of a column.
    pub name: &'static str,
    /// One for each peer that was measured.
    pub answers: Vec<Answer>,
}

/// Counts of requests of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// Those that failed.
    pub failed: u64,
    /// All of them.
    pub of: u64,
}

/// All questions to which there is an answer.
pub(super) fn questions(runs: &[Scenario], palette: &Palette) -> Vec<Question> {
    let peers = peers(runs, palette);
    let asked = [
        Question {
            name: "requests lost while pods and routes change (of a million, with 95% interval)",
            answers: losses(runs, palette, &peers),
        },
        Question { name: "change served after, ms (median)", answers: propagation(runs, &peers) },
        Question { name: "p99 while pods change, ms", answers: tails(runs, palette, &peers) },
        Question {
            name: "CPU per HTTPS request ÷ Fairway's",
            answers: ratios(runs, &peers, |case| case.starts_with("HTTPS 1 KB")),
        },
        Question {
            name: "CPU per full handshake ÷ Fairway's",
            answers: ratios(runs, &peers, |case| case.ends_with("handshakes")),
        },
        Question { name: "memory under load, MiB", answers: memory(runs, palette, &peers) },
    ];
    asked.into_iter().filter(|question| !question.answers.is_empty()).collect()
}

/// Proxies with a figure, Fairway first.
fn peers(runs: &[Scenario], palette: &Palette) -> Vec<String> {
    let measures = runs.iter().flat_map(|run| &run.measures);
    let recommended = measures.filter(|one| one.settings == Settings::Recommended).map(|one| &one.peer);
    let mut peers: Vec<String> =
        distinct(recommended).into_iter().filter(|peer| !palette.is_neutral(peer)).cloned().collect();
    peers.sort_by_key(|peer| palette.place(peer));
    peers
}

/// The streams of a peer in scenarios with changes.
fn disturbed<'a>(runs: &'a [Scenario], palette: &Palette, peer: &str, scenarios: &[&str]) -> Vec<Pool<'a>> {
    let named = runs.iter().filter(|run| scenarios.contains(&run.scenario.as_str()));
    let pools = named.flat_map(|run| whole(run, palette));
    let own = |pool: &Pool<'_>| pool.peer == peer && pool.settings == Settings::Recommended;
    pools.filter(|pool| own(pool) && pool.case != "static").collect()
}

/// What a peer lost in these scenarios.
pub(super) fn lost(runs: &[Scenario], palette: &Palette, peer: &str, scenarios: &[&str]) -> Option<Lost> {
    let pools = disturbed(runs, palette, peer, scenarios);
    let sum = pools.iter().fold(Lost::default(), |sum, pool| Lost {
        failed: sum.failed + pool.failed(),
        of: sum.of + pool.requests(),
    });
    (sum.of > 0).then_some(sum)
}

fn losses(runs: &[Scenario], palette: &Palette, peers: &[String]) -> Vec<Answer> {
    let of = |peer: &str| lost(runs, palette, peer, &["dynamic", "comparison", "timeline"]);
    let ours = of(FAIRWAY);
    let answers = peers.iter().filter_map(|peer| {
        let own = of(peer)?;
        let (low, high) = own.per_million();
        let text = format!(
            "{} of {}: {}",
            number::count(own.failed),
            number::count(own.of),
            rate_of_loss(own.failed, own.of)
        );
        let standing = match ours.filter(|_| peer != FAIRWAY) {
            None => Standing::Unjudged,
            Some(ours) => apart((low, high), ours.per_million()),
        };
        Some(Answer { peer: peer.clone(), text, standing })
    });
    answers.collect()
}

impl Lost {
    /// The expected share of lost requests, between these, in a million.
    fn per_million(self) -> (f64, f64) {
        let (low, high) = poisson::interval(self.failed);
        (low * 1e6 / self.of as f64, high * 1e6 / self.of as f64)
    }
}

/// Where lower is better.
fn apart(own: (f64, f64), ours: (f64, f64)) -> Standing {
    if own.0 > ours.1 {
        Standing::Worse
    } else if own.1 < ours.0 {
        Standing::Better
    } else {
        Standing::Alike
    }
}

fn propagation(runs: &[Scenario], peers: &[String]) -> Vec<Answer> {
    let all = || runs.iter().flat_map(|run| &run.propagations);
    let of = |peer: &str| {
        let own = all().find(|one| one.peer == peer && one.settings == Settings::Recommended)?;
        let times = sorted(own);
        Some((quantile(&times, 0.5)?, median_of(&times)?, times.len()))
    };
    let ours = of(FAIRWAY).map(|(_, median, _)| median.interval);
    let answers = peers.iter().filter_map(|peer| {
        let (middle, median, changes) = of(peer)?;
        let text = format!("{} ({}; {changes} changes)", number::figure(middle), spread(&median));
        let standing = match ours.filter(|_| peer != FAIRWAY) {
            None => Standing::Unjudged,
            Some(ours) => apart(median.interval, ours),
        };
        Some(Answer { peer: peer.clone(), text, standing })
    });
    answers.collect()
}

fn tails(runs: &[Scenario], palette: &Palette, peers: &[String]) -> Vec<Answer> {
    let answers = peers.iter().filter_map(|peer| {
        let pools = disturbed(runs, palette, peer, &["dynamic"]);
        let p99 = pools.first()?.percentile(99.0)?;
        let text = number::with_range(p99.ms, p99.range);
        Some(Answer { peer: peer.clone(), text, standing: Standing::Unjudged })
    });
    answers.collect()
}

/// The ratios of CPU in the first case that is meant, with the most workers.
fn ratios(runs: &[Scenario], peers: &[String], is_meant: impl Fn(&str) -> bool) -> Vec<Answer> {
    let Some((run, ratio)) = runs.iter().find_map(|run| Some((run, of_cost(run, &is_meant)?))) else {
        return Vec::new();
    };
    let same = |other: &&Ratio| {
        (&other.figure, &other.case, other.workers) == (&ratio.figure, &ratio.case, ratio.workers)
    };
    let answers = peers.iter().filter_map(|peer| {
        if run.measures.iter().all(|one| one.peer != *peer) {
            let text = NOT_MEASURED.to_owned();
            return Some(Answer { peer: peer.clone(), text, standing: Standing::Unjudged });
        }
        let own = against_fairway(&run.ratios)
            .filter(same)
            .find(|one| one.peer == *peer && one.settings == Settings::Recommended)?;
        let (text, standing) = if is_noise(own) {
            (format!("1 (A/A {})", interval(own)), Standing::Unjudged)
        } else {
            let standing = match claim(own, &run.ratios) {
                Claim::TooFew => Standing::Unjudged,
                Claim::None => Standing::Alike,
                Claim::Higher => Standing::Worse,
                Claim::Lower => Standing::Better,
            };
            (format!("{} ({}, {} pairs)", number::ratio(own.median), interval(own), own.pairs), standing)
        };
        Some(Answer { peer: peer.clone(), text, standing })
    });
    answers.collect()
}

fn of_cost<'a>(run: &'a Scenario, is_meant: &impl Fn(&str) -> bool) -> Option<&'a Ratio> {
    let meant = |ratio: &&Ratio| ratio.figure.starts_with("CPU") && is_meant(&ratio.case);
    // The newest TLS is the last of its kind.
    against_fairway(&run.ratios).filter(meant).max_by_key(|ratio| (ratio.workers, ratio.case.clone()))
}

fn memory(runs: &[Scenario], palette: &Palette, peers: &[String]) -> Vec<Answer> {
    let answers = peers.iter().filter_map(|peer| {
        let pools = disturbed(runs, palette, peer, &["dynamic"]);
        let bytes = pools.first()?.memory()?;
        let text = number::figure(bytes as f64 / f64::from(1 << 20));
        Some(Answer { peer: peer.clone(), text, standing: Standing::Unjudged })
    });
    answers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_apart_only_beyond_chance() {
        let of = |failed| Lost { failed, of: 20_000 }.per_million();
        assert_eq!(apart(of(40), of(0)), Standing::Worse);
        assert_eq!(apart(of(0), of(40)), Standing::Better);
        assert_eq!(apart(of(2), of(0)), Standing::Alike, "two of 20,000 may be chance");
        assert_eq!(apart(of(0), Lost { failed: 0, of: 200 }.per_million()), Standing::Alike);
    }
}
