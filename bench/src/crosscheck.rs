//! Whether what the proxy spends on a request is the generator's doing: the same cell with the laboratory's generator and
//! with h2load, one after the other, compared in pairs. Owns the command line of h2load and the reading of its output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use fairway_lab_measure::{Block, CpuTime, Distance, during, ratios};
use fairway_lab_traffic::call;
use serde::Serialize;

use crate::body::Body;
use crate::campaign::Campaign;
use crate::interrupt;
use crate::load::{FIELDS, GROUP, Generator};
use crate::measure::ask;
use crate::report::Ratio;
use crate::running::{Running, settle};
use crate::scenario::{HOST, Load, Scenario};

const SETTLE: Duration = Duration::from_millis(20);
/// The ratio of the two may differ from 1 by so much, the whole of its interval included.
const TOLERANCE: f64 = 0.05;
/// An interval that covers the true median with a smaller probability says nothing.
const COVERAGE: f64 = 0.95;
/// Requests before the first run: pools fill.
const WARM_UP: Duration = Duration::from_millis(300);

/// How much is compared.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Rounds {
    /// Runs of our own generator for each peer in each scenario; h2load has one more.
    pub(crate) rounds: u32,
    /// Requests of each run.
    pub(crate) requests: u64,
}

/// Everything that was compared.
#[derive(Serialize)]
pub(crate) struct Crosscheck {
    revision: String,
    h2load: String,
    #[serde(flatten)]
    rounds: Rounds,
    cells: Vec<Cell>,
}

/// A peer in a scenario: microseconds of its CPU per request in the order of the runs, and what their pairs say.
#[derive(Serialize)]
struct Cell {
    scenario: &'static str,
    peer: String,
    own: Vec<f64>,
    h2load: Vec<f64>,
    /// Own to h2load.
    ratios: BTreeMap<Distance, Ratio>,
}

/// What pairs say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Agree,
    Disagree,
    /// The interval is too wide, or there are too few pairs for one.
    Unknown,
}

impl Verdict {
    fn of(ratio: &Ratio) -> Self {
        let (low, high) = (1.0 - TOLERANCE, 1.0 + TOLERANCE);
        if ratio.coverage < COVERAGE {
            Self::Unknown
        } else if ratio.low >= low && ratio.high <= high {
            Self::Agree
        } else if ratio.high < low || ratio.low > high {
            Self::Disagree
        } else {
            Self::Unknown
        }
    }
}

impl Cell {
    fn new(scenario: &'static str, peer: String, [own, h2load]: [Vec<Block>; 2]) -> Self {
        let ratios =
            ratios(&own, &h2load).into_iter().map(|paired| (paired.distance, paired.into())).collect();
        let figures = |blocks: Vec<Block>| blocks.iter().map(|block| block.figure).collect();
        Self { scenario, peer, own: figures(own), h2load: figures(h2load), ratios }
    }

    /// That of the state of the CPUs in which most pairs ran.
    fn ratio(&self) -> Option<&Ratio> {
        self.ratios.values().max_by_key(|ratio| ratio.pairs)
    }

    fn verdict(&self) -> Verdict {
        self.ratio().map_or(Verdict::Unknown, Verdict::of)
    }
}

impl Crosscheck {
    pub(crate) fn print(&self) {
        let Rounds { rounds, requests } = self.rounds;
        println!("\nrevision {}, {}, {rounds} rounds of {requests} requests", self.revision, self.h2load);
        println!(
            "  {:<24} {:<10} {:>8} {:>9} {:>22} {:>6}",
            "scenario", "peer", "own us", "h2load us", "own / h2load", "pairs"
        );
        for cell in &self.cells {
            let (ratio, pairs) = cell.ratio().map_or(("-".to_owned(), 0), |ratio| {
                (format!("{:.3} ({:.3}-{:.3})", ratio.median, ratio.low, ratio.high), ratio.pairs)
            });
            println!(
                "  {:<24} {:<10} {:>8.2} {:>9.2} {ratio:>22} {pairs:>6}{}",
                cell.scenario,
                cell.peer,
                mean(&cell.own),
                mean(&cell.h2load),
                match cell.verdict() {
                    Verdict::Agree => "",
                    Verdict::Disagree => "  DISAGREE",
                    Verdict::Unknown => "  unknown: more rounds",
                }
            );
        }
    }

    /// An error unless the generators are known to agree everywhere.
    pub(crate) fn verdict(&self) -> anyhow::Result<()> {
        let named = |verdict: Verdict| {
            let cells = self.cells.iter().filter(move |cell| cell.verdict() == verdict);
            cells.map(|cell| format!("{} of {}", cell.scenario, cell.peer)).collect::<Vec<_>>().join(", ")
        };
        let (disagree, unknown) = (named(Verdict::Disagree), named(Verdict::Unknown));
        anyhow::ensure!(disagree.is_empty(), "the generators disagree: {disagree}");
        anyhow::ensure!(
            unknown.is_empty(),
            "it takes more rounds to say whether the generators agree: {unknown}"
        );
        Ok(())
    }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}

/// Compares the generators in each of these scenarios with each peer.
pub(crate) fn run(
    mut campaign: Campaign,
    scenarios: &[Scenario],
    rounds: Rounds,
) -> anyhow::Result<Crosscheck> {
    let version = Command::new("h2load").arg("--version").output();
    let version = version.context("h2load cannot be started (Debian: apt-get install nghttp2-client)")?;
    let mut cells = Vec::new();
    for scenario in scenarios {
        let fits = scenario.is_http2() && scenario.load == Load::KeepAlive;
        anyhow::ensure!(fits, "{} is no load of HTTP/2", scenario.name);
        for (peer, binary) in campaign.taking_part(scenario).0 {
            let Ok(proxy) = campaign.start(&peer.name, &peer, &binary, scenario)? else { continue };
            crate::load::send(&ask(scenario, &proxy), WARM_UP)?;
            let cell = Cell::new(scenario.name, peer.name.clone(), alternate(scenario, &proxy, rounds)?);
            let median = cell.ratio().map_or(f64::NAN, |ratio| ratio.median);
            eprintln!("  {} {}: {median:.3}", cell.scenario, cell.peer);
            cells.push(cell);
        }
    }
    let h2load = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    Ok(Crosscheck { revision: campaign.report().origin.revision.clone(), h2load, rounds, cells })
}

/// h2load, own, h2load, own, ..., h2load: each of our own runs has one of h2load's on both sides.
fn alternate(scenario: &Scenario, proxy: &Running, rounds: Rounds) -> anyhow::Result<[Vec<Block>; 2]> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for place in 0..=2 * rounds.rounds {
        let before = proxy.pin.distance(proxy.pin.probe());
        let (runs, figure) = match place % 2 {
            0 => (&mut theirs, h2load(scenario, proxy, rounds.requests)?),
            _ => (&mut ours, own(scenario, proxy, rounds.requests)?),
        };
        // A run in which the host moved a CPU makes no pair.
        if let Ok(distance) = during(before, proxy.pin.distance(proxy.pin.probe())) {
            runs.push(Block { place, figure, distance: Some(distance) });
        }
    }
    Ok([ours, theirs])
}

/// Microseconds of the proxy's CPU per request, connections included: h2load's cannot be told apart from its requests.
fn measured(proxy: &Running, load: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<f64> {
    settle(SETTLE)?;
    let before = CpuTime::of(&proxy.processes);
    let answered = load()?;
    settle(SETTLE)?;
    let spent = CpuTime::of(&proxy.processes).since(before);
    interrupt::check()?;
    Ok(spent.total_ns as f64 / 1e3 / answered.max(1) as f64)
}

fn own(scenario: &Scenario, proxy: &Running, requests: u64) -> anyhow::Result<f64> {
    measured(proxy, || {
        let mut generator = Generator::open_for(&ask(scenario, proxy), requests)?;
        generator.run()?;
        let tally = generator.end()?;
        anyhow::ensure!(tally.failed() == 0, "requests failed: {:?}", tally.errors);
        Ok(tally.requests)
    })
}

fn h2load(scenario: &Scenario, proxy: &Running, requests: u64) -> anyhow::Result<f64> {
    let address = if scenario.tls { proxy.site.https } else { proxy.site.http };
    let scheme = if scenario.tls { "https" } else { "http" };
    let mut command = Command::new("h2load");
    command.args(["-t", "1", "-n", &requests.to_string(), "-c", &scenario.connections.to_string()]);
    command.args(["-m", &scenario.downstream.streams().to_string()]);
    command.args(["--tls13-ciphers", "TLS_AES_256_GCM_SHA384", "--groups", GROUP]);
    command.args(["--connect-to", &address.to_string(), "-H", &format!(":authority: {HOST}")]);
    // The same request as ours: every field costs a proxy something.
    command.args(FIELDS.iter().flat_map(|(name, value)| ["-H".to_owned(), format!("{name}: {value}")]));
    if scenario.body == Body::Message {
        let content: PathBuf = proxy
            .site
            .write_secret("called-with", &String::from_utf8_lossy(&call::message(call::REQUEST)))?;
        command.arg("-d").arg(content);
        command.args(["-H", &format!("content-type: {}", call::CONTENT_TYPE), "-H", "te: trailers"]);
    }
    command.arg(format!("{scheme}://{HOST}:{}{}", address.port(), scenario.path()));
    measured(proxy, || {
        let output = command.output().context("start h2load")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (succeeded, failed) = outcome(&text).with_context(|| format!("h2load printed {text:?}"))?;
        anyhow::ensure!(failed == 0 && succeeded > 0, "{failed} requests of h2load failed: {text}");
        Ok(succeeded)
    })
}

/// `requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout`, and the codes 2xx.
fn outcome(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let count = |what: &str| {
        line.split(", ")
            .find_map(|part| part.strip_suffix(what))
            .and_then(|number| number.trim().parse().ok())
    };
    Some((count("succeeded")?, count("failed")? + count("errored")? + count("timeout")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2loads_requests_are_read_and_what_failed_counts() {
        let line = "requests: 9 total, 9 started, 9 done, 7 succeeded, 1 failed, 1 errored, 0 timeout\n";
        assert_eq!(outcome(&format!("finished in 1s\n{line}")), Some((7, 2)));
        assert_eq!(outcome("unable to connect"), None);
    }

    /// The verdict on runs with these figures, h2load's at the even places.
    fn verdict(figures: &[f64]) -> Verdict {
        let block = |(place, figure): (u32, &f64)| Block { place, figure: *figure, distance: None };
        let blocks = (0..).zip(figures).map(block);
        let (theirs, ours) = blocks.partition(|block| block.place.is_multiple_of(2));
        Cell::new("", String::new(), [ours, theirs]).verdict()
    }

    /// Eight rounds in which our own generator's figures are these times as large as h2load's.
    fn rounds(ratios: [f64; 8]) -> Vec<f64> {
        [10.0].into_iter().chain(ratios.iter().flat_map(|ratio| [10.0 * ratio, 10.0])).collect()
    }

    #[test]
    fn generators_agree_or_not_where_the_interval_says_so_and_else_nobody_knows() {
        assert_eq!(verdict(&rounds([1.01, 1.02, 0.99, 1.0, 0.98, 1.03, 1.0, 1.01])), Verdict::Agree);
        assert_eq!(verdict(&rounds([1.1, 1.12, 1.09, 1.1, 1.08, 1.13, 1.1, 1.11])), Verdict::Disagree);
        assert_eq!(verdict(&rounds([0.9, 0.88, 0.91, 0.9, 0.92, 0.87, 0.9, 0.89])), Verdict::Disagree);
        assert_eq!(verdict(&rounds([0.97, 1.08, 1.02, 1.09, 1.04, 0.96, 1.1, 1.0])), Verdict::Unknown);
        assert_eq!(verdict(&[10.0, 10.0, 10.0, 10.0, 10.0]), Verdict::Unknown, "two pairs");
        assert_eq!(verdict(&[]), Verdict::Unknown);
    }
}
