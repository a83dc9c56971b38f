//! Whether what the proxy spends on a request is the generator's doing: the same cell with the laboratory's generator and
//! with h2load, in the order own, h2load, h2load, own. Owns the command line of h2load and the reading of its output.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use fairway_lab_measure::CpuTime;
use fairway_lab_traffic::call;
use serde::Serialize;

use crate::body::Body;
use crate::campaign::Campaign;
use crate::interrupt;
use crate::load::{GROUP, Generator};
use crate::measure::ask;
use crate::running::{Running, settle};
use crate::scenario::{HOST, Load, Scenario};

const SETTLE: Duration = Duration::from_millis(20);
/// The two may differ by so much, in percent, or by as much as two runs of the same generator do.
const TOLERANCE: f64 = 5.0;
/// Requests before the first run: pools fill.
const WARM_UP: Duration = Duration::from_millis(300);

/// Everything that was compared.
#[derive(Serialize)]
pub(crate) struct Crosscheck {
    revision: String,
    h2load: String,
    requests: u64,
    cells: Vec<Cell>,
}

/// A peer in a scenario: microseconds of its CPU per request.
#[derive(Serialize)]
struct Cell {
    scenario: &'static str,
    peer: String,
    own: [f64; 2],
    h2load: [f64; 2],
}

impl Cell {
    /// h2load's mean against our own, percent.
    fn disagreement(&self) -> f64 {
        let sum = |runs: [f64; 2]| runs[0] + runs[1];
        (sum(self.h2load) / sum(self.own) - 1.0) * 100.0
    }

    /// How far two runs of the same generator are apart, percent.
    fn noise(&self) -> f64 {
        let apart = |[one, other]: [f64; 2]| (other / one - 1.0).abs() * 100.0;
        apart(self.own).max(apart(self.h2load))
    }

    fn agrees(&self) -> bool {
        self.disagreement().abs() <= self.noise().max(TOLERANCE)
    }
}

impl Crosscheck {
    pub(crate) fn print(&self) {
        println!("\nrevision {}, {}, {} requests a run", self.revision, self.h2load, self.requests);
        println!(
            "  {:<24} {:<10} {:>16} {:>16} {:>8} {:>8}",
            "scenario", "peer", "own us", "h2load us", "differ", "noise"
        );
        for cell in &self.cells {
            let pair = |[one, other]: [f64; 2]| format!("{one:.2}, {other:.2}");
            println!(
                "  {:<24} {:<10} {:>16} {:>16} {:>+7.1}% {:>7.1}%{}",
                cell.scenario,
                cell.peer,
                pair(cell.own),
                pair(cell.h2load),
                cell.disagreement(),
                cell.noise(),
                if cell.agrees() { "" } else { "  DISAGREE" }
            );
        }
    }

    /// An error where the generators disagree.
    pub(crate) fn verdict(&self) -> anyhow::Result<()> {
        let disagree = self.cells.iter().filter(|cell| !cell.agrees());
        let names: Vec<_> = disagree.map(|cell| format!("{} of {}", cell.scenario, cell.peer)).collect();
        anyhow::ensure!(names.is_empty(), "the generators disagree: {}", names.join(", "));
        Ok(())
    }
}

/// Compares the generators in each of these scenarios with each peer.
pub(crate) fn run(
    mut campaign: Campaign,
    scenarios: &[Scenario],
    requests: u64,
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
            let first = own(scenario, &proxy, requests)?;
            let h2load = [h2load(scenario, &proxy, requests)?, h2load(scenario, &proxy, requests)?];
            let own = [first, own(scenario, &proxy, requests)?];
            let cell = Cell { scenario: scenario.name, peer: peer.name.clone(), own, h2load };
            eprintln!("  {} {}: {:+.1}%", cell.scenario, cell.peer, cell.disagreement());
            cells.push(cell);
        }
    }
    let h2load = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    Ok(Crosscheck { revision: campaign.report().origin.revision.clone(), h2load, requests, cells })
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
    if scenario.body == Body::Message {
        let content: PathBuf = proxy
            .site
            .write_secret("called-with", &String::from_utf8_lossy(&call::message(call::REQUEST)))?;
        command.arg("-d").arg(content);
        command.args(["-H", &format!("content-type: {}", call::CONTENT_TYPE), "-H", "te: trailers"]);
    }
    command.arg(format!("{scheme}://{HOST}:{}{}", address.port(), scenario.body.path()));
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

    #[test]
    fn generators_agree_within_the_tolerance_or_the_noise() {
        let cell = |own, h2load| Cell { scenario: "", peer: String::new(), own, h2load };
        assert!(cell([10.0, 10.0], [10.3, 10.5]).agrees());
        assert!(!cell([10.0, 10.0], [11.0, 11.0]).agrees());
        assert!(cell([10.0, 12.0], [12.0, 12.0]).agrees());
    }
}
