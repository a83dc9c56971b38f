//! Streams that belong together, as one: the blocks of a peer in a case. Sums are divided by sums, distributions are
//! merged, and nothing is ever the mean of percentiles.

use std::collections::BTreeMap;
use std::ops::Deref;

use fairway_lab_measure::results::{Class, Latency, Load, Measure, Percentile, Settings};
use serde::Serialize;

use super::merge::{Scenario, distinct};
use super::number::middle;
use super::palette::Palette;

/// A stream and its round. It derefs to [`Measure`].
#[derive(Clone, Copy)]
pub(super) struct Stream<'a> {
    measure: &'a Measure,
    round: usize,
}

impl Deref for Stream<'_> {
    type Target = Measure;

    fn deref(&self) -> &Measure {
        self.measure
    }
}

/// With fewer values above it, a percentile may be chance and is not shown.
pub(super) const ENOUGH_ABOVE: u64 = 10;
/// With fewer rounds, their range says little.
pub(super) const ENOUGH_ROUNDS: usize = 4;

/// A latency percentile with enough values: of one round, or the median of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Tail {
    /// Relative half width, in percent.
    pub percent: f64,
    /// Milliseconds.
    pub ms: f64,
    /// The lowest and the highest of rounds, if there are enough of them.
    pub range: Option<(f64, f64)>,
}

/// The streams of a peer in a case.
pub(super) struct Pool<'a> {
    /// The case.
    pub case: &'a str,
    /// The phase; empty when phases are pooled.
    pub phase: &'a str,
    /// Whose.
    pub peer: &'a str,
    /// The settings of the run.
    pub settings: Settings,
    /// The streams, in the order of the run; at least one.
    pub measures: Vec<Stream<'a>>,
}

/// The name of a phase that holds all others.
const POOLED: &str = "pooled";

/// All phases together, by case, settings and peer.
pub(super) fn pools_of_run<'a>(run: &'a Scenario, palette: &Palette) -> Vec<Pool<'a>> {
    let mut pools = gather_pools(run, palette, false);
    for pool in &mut pools {
        // A stream that is the sum of the others must not be counted with them.
        if pool.measures.iter().any(|measure| measure.phase == POOLED) {
            pool.measures.retain(|measure| measure.phase == POOLED);
        }
    }
    pools
}

/// Each phase by itself.
pub(super) fn pools_by_phase<'a>(run: &'a Scenario, palette: &Palette) -> Vec<Pool<'a>> {
    gather_pools(run, palette, true)
}

/// The heading of a part of a table: the case, and its settings if they are not the recommended ones.
pub(super) fn case_title(case: &str, settings: Settings) -> String {
    match settings {
        Settings::Recommended => case.to_owned(),
        Settings::Defaults => format!("{case}, default settings"),
    }
}

/// The name of a case in tables with more than one scenario.
pub(super) fn in_case(run: &Scenario, case: &str) -> String {
    format!("{}: {case}", run.name())
}

fn gather_pools<'a>(run: &'a Scenario, palette: &Palette, phases: bool) -> Vec<Pool<'a>> {
    let counted: Vec<Stream<'a>> = run.streams().map(|(round, measure)| Stream { measure, round }).collect();
    let cases = distinct(counted.iter().map(|counted| &counted.measure.case));
    let orders = distinct(counted.iter().map(|counted| &counted.measure.phase));
    let position = |list: &[&String], name: &String| list.iter().position(|known| *known == name);
    let mut pools: BTreeMap<_, Pool<'a>> = BTreeMap::new();
    for stream in counted {
        let Stream { measure, .. } = stream;
        let phase = if phases { position(&orders, &measure.phase) } else { None };
        let key = (
            position(&cases, &measure.case),
            phase,
            measure.settings,
            palette.position(&measure.peer),
            &measure.peer,
        );
        let pool = pools.entry(key).or_insert_with(|| Pool {
            case: &measure.case,
            phase: if phases { &measure.phase } else { "" },
            peer: &measure.peer,
            settings: measure.settings,
            measures: Vec::new(),
        });
        pool.measures.push(stream);
    }
    pools.into_values().collect()
}

impl<'a> Pool<'a> {
    /// Of a stream straight to the pods, what ran at the same time as a peer.
    pub(super) fn concurrent_with(&self, peer: &str) -> Option<Pool<'a>> {
        let meanwhile = self.measures.iter().filter(|counted| counted.beside.as_deref() == Some(peer));
        let measures: Vec<Stream<'a>> = meanwhile.copied().collect();
        (!measures.is_empty()).then_some(Pool { measures, ..*self })
    }
}

impl Pool<'_> {
    fn sum(&self, value: impl Fn(&Measure) -> f64) -> f64 {
        self.measures.iter().map(|measure| value(measure)).sum()
    }

    fn total(&self, value: impl Fn(&Measure) -> u64) -> u64 {
        self.measures.iter().fold(0, |sum, measure| sum.saturating_add(value(measure)))
    }

    fn a_second(&self, total: f64) -> f64 {
        total / self.sum(|measure| measure.load.seconds)
    }

    /// Requests that were due.
    pub(super) fn requests(&self) -> u64 {
        self.total(|measure| measure.load.counts.requests)
    }

    /// Errors by class.
    pub(super) fn errors(&self) -> BTreeMap<Class, u64> {
        let mut errors = BTreeMap::new();
        for (class, count) in self.measures.iter().flat_map(|measure| &measure.load.errors) {
            *errors.entry(*class).or_default() += count;
        }
        errors
    }

    /// Requests that failed. What the generator did not send is not the peer's failure.
    pub(super) fn failed(&self) -> u64 {
        self.errors().iter().filter(|(class, _)| **class != Class::NotSent).map(|(_, count)| count).sum()
    }

    /// Complete responses per second.
    pub(super) fn rate(&self) -> f64 {
        self.a_second(self.total(|measure| measure.load.counts.ok) as f64)
    }

    /// TLS handshakes per second.
    pub(super) fn handshakes(&self) -> f64 {
        let handshakes = |measure: &Measure| {
            measure.load.counts.full_handshakes.saturating_add(measure.load.counts.resumed_handshakes)
        };
        self.a_second(self.total(handshakes) as f64)
    }

    /// Received data, gigabits per second.
    pub(super) fn gigabits(&self) -> f64 {
        self.a_second(self.total(|measure| measure.load.counts.bytes) as f64) * 8.0 / 1e9
    }

    /// Whether most requests open a TLS connection, so that handshakes are the main figure.
    pub(super) fn is_about_handshakes(&self) -> bool {
        self.handshakes() > self.rate() * 0.5
    }

    /// Whether responses are so large that throughput is the main figure.
    pub(super) fn is_about_throughput(&self) -> bool {
        self.gigabits() * 1e9 / 8.0 > self.rate() * 100_000.0
    }

    /// The main figure of closed loops, after its unit.
    pub(super) fn capacity(&self) -> (&'static str, f64) {
        if self.is_about_handshakes() {
            ("TPS", self.handshakes())
        } else if self.is_about_throughput() {
            ("Gbit/s", self.gigabits())
        } else {
            ("RPS", self.rate())
        }
    }

    /// CPU time of the proxy per answered request, microseconds: the total time divided by the total requests.
    pub(super) fn cpu(&self) -> Option<f64> {
        self.spent_by(|load| load.counts.ok as f64).map(|seconds| seconds * 1e6)
    }

    /// CPUs used by the proxy.
    pub(super) fn cpus(&self) -> Option<f64> {
        self.spent_by(|load| load.seconds)
    }

    fn spent_by(&self, value: impl Fn(&Load) -> f64) -> Option<f64> {
        let known = || {
            self.measures.iter().filter_map(|counted| Some((counted.cost.as_ref()?, &counted.measure.load)))
        };
        let total: f64 = known().map(|(_, load)| value(load)).sum();
        (total > 0.0).then(|| known().map(|(cost, _)| cost.cpu_s).sum::<f64>() / total)
    }

    /// The largest memory of the proxy at the end of a stream, bytes.
    pub(super) fn memory(&self) -> Option<u64> {
        self.measures.iter().filter_map(|measure| measure.cost.as_ref()?.memory_bytes).max()
    }

    /// The highest latency, milliseconds.
    pub(super) fn highest(&self) -> Option<f64> {
        let counted = self.measures.iter().filter(|measure| measure.load.latency.count > 0);
        counted.map(|measure| measure.load.latency.max_ms).filter(|ms| ms.is_finite()).reduce(f64::max)
    }

    /// The number of rounds.
    fn rounds(&self) -> Vec<usize> {
        let mut rounds: Vec<usize> = self.measures.iter().map(|counted| counted.round).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds
    }

    /// The latency distribution from the intended time, up to percentiles with ten values above. Over several rounds, the
    /// median of each percentile.
    pub(super) fn percentiles(&self) -> Vec<Tail> {
        let of_round = |round: usize| {
            let own_measures = self.measures.iter().filter(|counted| counted.round == round);
            let latencies: Vec<&Latency> =
                own_measures.map(|counted| &counted.measure.load.latency).collect();
            let mut points = merge_percentiles(&latencies);
            points.retain(|point| point.above >= ENOUGH_ABOVE && point.ms.is_finite());
            points
        };
        let rounds: Vec<Vec<Percentile>> = self.rounds().into_iter().map(of_round).collect();
        let Some(grid) = rounds.iter().max_by_key(|points| points.len()) else { return Vec::new() };
        let tail = |percent: f64| {
            let same = |point: &&Percentile| (point.percent - percent).abs() < 1e-9;
            let mut found: Vec<f64> =
                rounds.iter().filter_map(|points| points.iter().find(same)).map(|point| point.ms).collect();
            found.sort_by(f64::total_cmp);
            let ms = middle(&found)?;
            let range = (found.len() >= ENOUGH_ROUNDS).then(|| (found[0], found[found.len() - 1]));
            Some(Tail { percent, ms, range })
        };
        grid.iter().filter_map(|point| tail(point.percent)).collect()
    }

    /// A percentile, if it is stored and has ten values above it.
    pub(super) fn percentile(&self, percent: f64) -> Option<Tail> {
        self.percentiles().into_iter().find(|point| (point.percent - percent).abs() < 1e-9)
    }
}

/// Merges distributions: at each percentile of the first, the latency that the same share of all values exceeds. Between
/// stored points, values are assumed evenly distributed on the logarithm of latency.
pub(super) fn merge_percentiles(latencies: &[&Latency]) -> Vec<Percentile> {
    let filled: Vec<&Latency> = latencies
        .iter()
        .copied()
        .filter(|latency| latency.count > 0 && !latency.percentiles.is_empty())
        .collect();
    let usable = |point: &&Percentile| point.ms.is_finite() && point.percent < 100.0;
    let (Some(first), false) = (filled.first(), filled.len() == 1) else {
        return filled
            .first()
            .map_or_else(Vec::new, |only| only.percentiles.iter().filter(usable).copied().collect());
    };
    let total: u64 = filled.iter().map(|latency| latency.count).sum();
    let grid = first.percentiles.iter().filter(usable);
    grid.map(|point| {
        let above = total as f64 * (1.0 - point.percent / 100.0);
        Percentile { percent: point.percent, ms: latency_with(&filled, above), above: above as u64 }
    })
    .collect()
}

/// The latency that this many of all values exceed.
fn latency_with(latencies: &[&Latency], above: f64) -> f64 {
    let ends = |end: fn(&Latency) -> f64| latencies.iter().map(move |latency| end(latency));
    let mut low = ends(|latency| latency.min_ms).fold(f64::INFINITY, f64::min).max(1e-4);
    let mut high = ends(|latency| latency.max_ms).fold(0.0, f64::max).max(low);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        let count: f64 =
            latencies.iter().map(|latency| share_above(latency, middle) * latency.count as f64).sum();
        if count > above {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The fraction of values above a latency.
fn share_above(latency: &Latency, ms: f64) -> f64 {
    let mut before = (latency.min_ms.max(1e-4), 1.0);
    let points = latency.percentiles.iter().map(|point| (point.ms, 1.0 - point.percent / 100.0));
    for (value, above) in points.chain([(latency.max_ms, 0.0)]) {
        if value > ms {
            let width = (value / before.0).ln();
            let part = if width > 0.0 { ((ms / before.0).ln() / width).clamp(0.0, 1.0) } else { 1.0 };
            return before.1 + (above - before.1) * part;
        }
        before = (value.max(1e-4), above);
    }
    0.0
}

/// For tests: a stream of this many answered requests.
#[cfg(test)]
pub(super) fn measure(peer: &str, case: &str, requests: u64) -> Measure {
    let mut measure: Measure = serde_json::from_value(serde_json::json!({
        "peer": peer, "settings": "recommended", "case": case, "phase": "pooled", "begun_s": 0.0,
        "load": Load::default(),
    }))
    .expect("a measure");
    (measure.load.counts.requests, measure.load.counts.ok) = (requests, requests);
    measure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(count: u64, points: &[(f64, f64)], max_ms: f64) -> Latency {
        let point = |(percent, ms): &(f64, f64)| Percentile {
            percent: *percent,
            ms: *ms,
            above: (count as f64 * (1.0 - percent / 100.0)) as u64,
        };
        Latency {
            count,
            min_ms: points[0].1,
            max_ms,
            percentiles: points.iter().map(point).collect(),
            ..Latency::default()
        }
    }

    #[test]
    fn a_merged_percentile_is_that_of_all_values_and_no_mean() {
        let fast = latency(9_000, &[(0.0, 1.0), (50.0, 1.0), (90.0, 1.0), (99.0, 1.0)], 1.0);
        let slow = latency(1_000, &[(0.0, 100.0), (50.0, 100.0), (90.0, 100.0), (99.0, 100.0)], 100.0);
        let points = merge_percentiles(&[&fast, &slow]);
        let at = |percent: f64| points.iter().find(|point| point.percent == percent).unwrap();
        assert!((at(50.0).ms - 1.0).abs() < 0.01, "{points:?}");
        // A tenth of all values is 100 ms; the mean of the two p99 would be 50.
        assert!((at(99.0).ms - 100.0).abs() < 0.1, "{points:?}");
        assert_eq!(at(99.0).above, 100);
    }

    /// A stream of this many requests with this p99.
    fn stream(count: u64, p99: f64) -> Measure {
        let mut measure = measure("envoy", "dynamic", count);
        measure.load.latency = latency(count, &[(0.0, 1.0), (50.0, 1.0), (99.0, p99)], p99 * 2.0);
        measure
    }

    fn percentile(tails: &[f64], count: u64) -> Option<Tail> {
        let measures: Vec<Measure> = tails.iter().map(|p99| stream(count, *p99)).collect();
        let measures = measures.iter().enumerate().map(|(round, measure)| Stream { measure, round });
        let pool = Pool {
            case: "dynamic",
            phase: "",
            peer: "envoy",
            settings: Settings::Recommended,
            measures: measures.collect(),
        };
        pool.percentile(99.0)
    }

    #[test]
    fn a_percentile_of_rounds_is_the_median_of_theirs_with_their_range_from_four_on() {
        let found = percentile(&[9.0, 3.0, 5.0, 4.0], 2_000).unwrap();
        assert_eq!((found.ms, found.range), (4.5, Some((3.0, 9.0))));
        let found = percentile(&[9.0, 3.0, 5.0], 2_000).unwrap();
        assert_eq!((found.ms, found.range), (5.0, None));
        assert_eq!(percentile(&[9.0], 2_000).unwrap().range, None);
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_values_above_it_is_nowhere() {
        assert_eq!(percentile(&[9.0], 1_000).unwrap().ms, 9.0);
        assert_eq!(percentile(&[9.0], 900), None);
        // Each round by itself has nine above: together they would be enough, and are not.
        assert_eq!(percentile(&[9.0; 4], 900), None);
    }

    #[test]
    fn empty_and_invalid_values_are_left_out() {
        assert!(merge_percentiles(&[]).is_empty());
        assert!(merge_percentiles(&[&Latency::default()]).is_empty());
        let broken = latency(10, &[(0.0, 1.0), (50.0, f64::NAN), (100.0, 9.0)], f64::NAN);
        assert_eq!(merge_percentiles(&[&broken]).len(), 1);
        assert!(merge_percentiles(&[&broken, &broken]).iter().all(|point| point.ms.is_finite()));
    }
}
