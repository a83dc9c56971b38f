//! The paired benchmark and the proofs (`bench/results`) as tables. Figures are those of the files; ratios and intervals
//! were made when they were written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::super::number::{self, UNKNOWN};
use super::{json, table};

/// Fewer pairs than this are too few for a claim.
const ENOUGH_PAIRS: usize = 15;

/// A run of `fairway-bench run`.
#[derive(Deserialize)]
pub(super) struct Bench {
    origin: Origin,
    versions: BTreeMap<String, String>,
    results: Vec<Findings>,
}

#[derive(Deserialize)]
struct Origin {
    command: String,
    kernel: String,
    cpu: String,
    cpus: u32,
    load_average: String,
}

#[derive(Deserialize)]
struct Findings {
    scenario: Scenario,
    summary: Vec<Summary>,
    memory: Vec<Memory>,
    /// Peers that have no row, and why.
    #[serde(default)]
    missing: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    connections: u32,
}

#[derive(Deserialize)]
struct Memory {
    #[serde(default)]
    peer: String,
    open: u64,
    before_bytes: u64,
    after_bytes: u64,
}

impl Memory {
    /// Bytes for each.
    fn each(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / self.open.max(1) as f64
    }
}

/// A proxy in a scenario.
#[derive(Deserialize)]
pub(super) struct Summary {
    peer: String,
    distance: String,
    user_us: f64,
    total_us: f64,
    to_base: Option<Ratio>,
    kept: usize,
    discarded: usize,
}

/// CPU of a peer divided by Fairway's.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Ratio {
    median: f64,
    low: f64,
    high: f64,
    pub(super) pairs: usize,
}

impl Ratio {
    /// With its interval.
    pub(super) fn text(self) -> String {
        let Self { median, low, high, pairs } = self;
        if pairs == 1 {
            return number::ratio(median);
        }
        format!("{} [{}, {}]", number::ratio(median), number::ratio(low), number::ratio(high))
    }

    fn inverse(self) -> Self {
        Self { median: 1.0 / self.median, low: 1.0 / self.high, high: 1.0 / self.low, pairs: self.pairs }
    }
}

/// What Fairway is to spend in user space on a small request at most, microseconds.
const USER_SHARES_US: [(&str, f64); 3] = [("http-1k-50", 2.0), ("http-1k-200", 2.0), ("h2-1k-10x10", 3.8)];

/// How the benchmark calls Fairway with another protocol to the backend, where that is compared.
const OTHER_UPSTREAM: &str = "fairway to HTTP/1";
/// How it calls Fairway that only forwards, beside what edits.
const WITHOUT_EDITS: &str = "fairway without edits";

/// What a scenario is called in tables.
const TITLES: [(&str, &str); 23] = [
    ("http-1k-50", "1 KiB, plain keep-alive, 50 connections"),
    ("http-1k-200", "1 KiB, plain keep-alive, 200 connections"),
    ("https-1k-50", "1 KiB, TLS 1.3 keep-alive, 50 connections"),
    ("tls13-handshakes", "full TLS 1.3 handshake (RSA-2048) and one request"),
    ("http-1m", "1 MiB, plain"),
    ("https-1m", "1 MiB, TLS 1.3"),
    ("edits-1k-50", "1 KiB, plain keep-alive, 50 connections, with CORS, a rewrite and one more field"),
    ("h2-1k-50x1", "HTTP/2, 1 KiB, TLS 1.3, 50 connections with 1 stream"),
    ("h2-1k-10x10", "HTTP/2, 1 KiB, TLS 1.3, 10 connections with 10 streams"),
    ("h2-1k-10x100", "HTTP/2, 1 KiB, TLS 1.3, 10 connections with 100 streams"),
    ("h2c-upstream-1k-10x100", "HTTP/2 on both sides, 1 KiB, TLS 1.3, 10 connections with 100 streams"),
    ("grpc-10x10", "gRPC, unary calls, TLS 1.3, 10 connections with 10 streams"),
    ("tcp-1m", "TCP, 1 MiB over long connections, for each MiB"),
    ("tcp-1k-50", "TCP, 1 KiB over long connections, for each exchange"),
    ("tcp-connections", "TCP, a connection for each 1 KiB, for each connection"),
    ("udp-50", "UDP, 100 bytes and their echo in long sessions, for each pair of datagrams"),
    ("udp-sessions", "UDP, a session for each 100 bytes and their echo, for each session"),
    ("idle-memory", "idle connections"),
    ("idle-memory-tls", "idle connections over TLS"),
    ("idle-memory-h2", "idle connections of HTTP/2"),
    ("idle-memory-h2-tls", "idle connections of HTTP/2 over TLS"),
    ("waiting-streams", "streams that wait, HTTP/1 to the backend"),
    ("waiting-streams-h2c", "streams that wait, HTTP/2 to the backend"),
];

/// Peers, and how many times Fairway's CPU they are to spend at least.
const GOALS: [(&str, &[(&str, f64)]); 11] = [
    ("http-1k-50", &[("nginx", 1.12), ("haproxy", 1.12), ("envoy", 3.0)]),
    ("http-1k-200", &[("nginx", 1.25), ("haproxy", 1.25), ("envoy", 3.0)]),
    ("https-1k-50", &[("nginx", 1.3), ("haproxy", 1.3), ("envoy", 3.0)]),
    ("tls13-handshakes", &[("nginx", 1.5), ("haproxy", 1.5), ("envoy", 1.5)]),
    ("http-1m", &[("nginx", 1.0), ("haproxy", 1.0), ("envoy", 1.0)]),
    ("https-1m", &[("nginx", 1.0), ("haproxy", 1.0), ("envoy", 1.0)]),
    ("h2-1k-50x1", HTTP2_GOALS),
    ("h2-1k-10x10", HTTP2_GOALS),
    ("h2-1k-10x100", HTTP2_GOALS),
    // Two thirds of what it spends with HTTP/1 to the backend.
    ("h2c-upstream-1k-10x100", &[(OTHER_UPSTREAM, 1.5)]),
    ("grpc-10x10", &[("envoy", 3.0)]),
];

const HTTP2_GOALS: &[(&str, f64)] = &[("nginx", 1.0), ("haproxy", 1.0), ("h2o", 1.0), ("envoy", 1.0)];

impl Bench {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        json(root, "bench/results/latest.json")
    }

    /// The version of a peer, e.g. `1.22.1`.
    pub(super) fn version(&self, peer: &str) -> &str {
        self.versions.get(peer).map_or("", |text| version(text))
    }

    /// The ratio of a peer in a scenario, of the distance of CPUs with most pairs, and that distance in words.
    pub(super) fn ratio(&self, scenario: &str, peer: &str) -> Option<(Ratio, &'static str)> {
        let findings = self.results.iter().find(|findings| findings.scenario.name == scenario)?;
        let own = findings.summary.iter().filter(|one| one.peer == peer);
        let found = own.filter_map(|one| Some((one.to_base?, distance(&one.distance))));
        found.max_by_key(|(ratio, _)| ratio.pairs)
    }

    /// All rows of all peers.
    pub(super) fn page(&self) -> String {
        let Origin { command, kernel, cpu, cpus, load_average } = &self.origin;
        let mut text = format!(
            "\n{cpus} CPUs of an {cpu} in a virtual machine, kernel {kernel}, one worker each, load average {load_average} \
             before the run. Command:\n\n    {command}\n\n"
        );
        let columns = [
            "scenario",
            "CPUs",
            "peer",
            "µs per request",
            "in user space",
            "÷ Fairway's",
            "pairs",
            "set aside",
        ];
        let (enough, few) = self.rows();
        text += &table(&columns, &enough);
        text += &self.absences();
        if !few.is_empty() {
            let mut told = vec![format!(
                "The machine was hardly ever in the other state. These blocks make fewer than {ENOUGH_PAIRS} pairs with any peer, \
                 too few to rest a claim on."
            )];
            told.extend(self.missing_states());
            text += &format!("\n{}\n\n", told.join(" "));
            text += &table(&columns, &few);
        }
        text + "\n" + &self.goals() + &self.memories()
    }

    /// What a peer keeps in less memory than Fairway.
    pub(super) fn lighter(&self) -> Vec<String> {
        let mut found = Vec::new();
        for findings in &self.results {
            let Some(own) = findings.memory.iter().find(|one| one.peer == "fairway") else { continue };
            let is_lighter = |one: &&Memory| one.peer != "floor" && one.each() < own.each();
            let kib = |one: &Memory| number::figure(one.each() / 1024.0);
            found.extend(findings.memory.iter().filter(is_lighter).map(|one| {
                let (what, version) = (title(&findings.scenario.name), self.version(&one.peer));
                format!("memory of {what}: Fairway {} KiB, {} {version} {} KiB", kib(own), one.peer, kib(one))
            }));
        }
        found
    }

    /// Memory of what does nothing, of all peers.
    fn memories(&self) -> String {
        let measured: Vec<_> = self.results.iter().filter(|findings| !findings.memory.is_empty()).collect();
        let mut peers = Vec::new();
        for one in measured.iter().flat_map(|findings| &findings.memory) {
            if !peers.contains(&one.peer.as_str()) {
                peers.push(&one.peer);
            }
        }
        if peers.is_empty() {
            return String::new();
        }
        let cell = |findings: &Findings, peer: &str| {
            let own = findings.memory.iter().find(|one| one.peer == peer);
            let why = || findings.missing.get(peer).map_or(UNKNOWN, String::as_str).to_owned();
            own.map_or_else(why, |one| number::figure(one.each() / 1024.0))
        };
        let row = |findings: &&Findings| {
            let cells = peers.iter().map(|peer| cell(findings, peer));
            std::iter::once(title(&findings.scenario.name).to_owned()).chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = measured.iter().map(row).collect();
        let named = peers.iter().map(|peer| format!("{peer} {}", self.version(peer)));
        let columns: Vec<String> = std::iter::once("KiB for each".to_owned()).chain(named).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        format!(
            "\nResident memory that a connection adds which is idle after a request, with 5,000 of them, and a stream that waits \
             for its answer, with 100 connections of 100 streams:\n\n{}",
            table(&columns, &rows)
        )
    }

    /// A row for each peer in each state of the CPUs that occurred: those of states with enough pairs, and the others.
    fn rows(&self) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let (mut enough, mut few) = (Vec::new(), Vec::new());
        for findings in &self.results {
            let names =
                |of: fn(&Summary) -> &str| -> BTreeSet<&str> { findings.summary.iter().map(of).collect() };
            for state in names(|one| &one.distance) {
                let here = findings.summary.iter().filter(|one| one.distance == state);
                let most = here.filter_map(|one| Some(one.to_base?.pairs)).max();
                let is_enough = most.unwrap_or(0) >= ENOUGH_PAIRS;
                let rows = if is_enough { &mut enough } else { &mut few };
                let has = |peer: &&str| {
                    findings
                        .summary
                        .iter()
                        .any(|one| one.peer == *peer && (is_enough || one.distance == state))
                };
                let peers = self.peers().into_iter().filter(has);
                rows.extend(peers.map(|peer| self.row(findings, state, peer)));
            }
        }
        (enough, few)
    }

    /// All peers, in the order in which they occur.
    fn peers(&self) -> Vec<&str> {
        let mut peers = Vec::new();
        for one in self.results.iter().flat_map(|findings| &findings.summary) {
            if !peers.contains(&one.peer.as_str()) {
                peers.push(&one.peer);
            }
        }
        peers
    }

    /// Which peer was not measured in which scenarios, and why.
    fn absences(&self) -> String {
        let mut absent: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for findings in self.results.iter().filter(|findings| !findings.summary.is_empty()) {
            let is_missing = |peer: &&str| findings.summary.iter().all(|one| one.peer != *peer);
            let is_compared = |peer: &&str| ![OTHER_UPSTREAM, WITHOUT_EDITS].contains(peer);
            for peer in self.peers().into_iter().filter(is_compared).filter(is_missing) {
                let untold = if peer == "floor" { "speaks no TLS" } else { "not measured" };
                let reason = findings.missing.get(peer).map_or(untold, String::as_str);
                absent.entry((peer, reason)).or_default().push(title(&findings.scenario.name));
            }
        }
        let line = |((peer, reason), scenarios): (&(&str, &str), &Vec<&str>)| {
            format!("* {peer} ({reason}): {}\n", scenarios.join("; "))
        };
        let lines: String = absent.iter().map(line).collect();
        if lines.is_empty() { lines } else { format!("\nNot measured:\n\n{lines}") }
    }

    fn row(&self, findings: &Findings, state: &str, peer: &str) -> Vec<String> {
        let in_state =
            |peer: &str| findings.summary.iter().find(|one| one.peer == peer && one.distance == state);
        let named = format!("{peer} {}", self.version(peer));
        let mut cells = vec![
            title(&findings.scenario.name).to_owned(),
            distance(state).to_owned(),
            named.trim().to_owned(),
        ];
        let Some(one) = in_state(peer) else {
            cells.extend([UNKNOWN, UNKNOWN, "no block in this state", "0", "0 of 0"].map(str::to_owned));
            return cells;
        };
        let without = || {
            if peer == "fairway" {
                "1 (the base)"
            } else if in_state("fairway").is_none() {
                "no block of Fairway in this state"
            } else {
                "no pair in this state"
            }
        };
        cells.extend([
            number::figure(one.total_us),
            number::figure(one.user_us),
            one.to_base.map_or_else(|| without().to_owned(), Ratio::text),
            one.to_base.map_or_else(|| "0".to_owned(), |ratio| ratio.pairs.to_string()),
            format!("{} of {}", one.discarded, one.kept + one.discarded),
        ]);
        cells
    }

    /// In which state of the CPUs a scenario had no block at all.
    fn missing_states(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (state, words) in [("one_core", "one core"), ("two_cores", "two cores")] {
            let without = |findings: &&Findings| {
                !findings.summary.is_empty() && findings.summary.iter().all(|one| one.distance != state)
            };
            let names: Vec<&str> =
                self.results.iter().filter(without).map(|findings| title(&findings.scenario.name)).collect();
            if !names.is_empty() {
                told.push(format!("The CPUs were never on {words} during: {}.", names.join("; ")));
            }
        }
        told
    }

    fn goals(&self) -> String {
        let mut rows = Vec::new();
        for (scenario, goals) in GOALS {
            for (peer, goal) in goals {
                let Some((ratio, cpus)) = self.ratio(scenario, peer) else {
                    let what = [title(scenario), *peer, "", "no pair counts", "open: not measured"];
                    let mut row = what.map(str::to_owned).to_vec();
                    row[2] = format!("at least {goal:.2} x");
                    rows.push(row);
                    continue;
                };
                let peer = format!("{peer} {}", self.version(peer));
                rows.push(vec![
                    title(scenario).to_owned(),
                    peer,
                    format!("at least {goal:.2} x"),
                    format!("{} ({cpus}, {} pairs)", ratio.text(), ratio.pairs),
                    verdict(ratio, *goal).to_owned(),
                ]);
            }
        }
        if let Some((ratio, cpus)) = self.ratio("http-1k-50", "floor") {
            let own = ratio.inverse();
            rows.push(vec![
                "Fairway compared with a bare epoll forwarder".to_owned(),
                "floor".to_owned(),
                "at most 1.15 x".to_owned(),
                format!("{} ({cpus}, {} pairs)", own.text(), own.pairs),
                verdict(Ratio { median: -own.median, low: -own.high, high: -own.low, ..own }, -1.15)
                    .to_owned(),
            ]);
        }
        rows.extend(self.own_shares().map(|(scenario, cpus, user, most)| {
            let verdict = if user > most { "**missed**" } else { "met" };
            let what = format!("Fairway in user space, {}", title(scenario));
            let found = format!("{} µs ({cpus})", number::figure(user));
            vec![what, "none".to_owned(), format!("at most {most:.1} µs"), found, verdict.to_owned()]
        }));
        table(&["goal", "peer", "target", "measured", "verdict"], &rows)
    }

    /// Fairway's own share of a small request, in each state of the machine: scenario, state, microseconds, and what they
    /// may be.
    fn own_shares(&self) -> impl Iterator<Item = (&str, &'static str, f64, f64)> {
        self.results.iter().flat_map(|findings| {
            let name = findings.scenario.name.as_str();
            let most = USER_SHARES_US.iter().find(|(scenario, _)| *scenario == name);
            let own = findings.summary.iter().filter(|one| one.peer == "fairway");
            own.filter_map(move |one| Some((name, distance(&one.distance), one.user_us, most?.1)))
        })
    }

    /// Goals that were missed, as `scenario, peer: measured against goal`.
    pub(super) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (scenario, goals) in GOALS {
            for (peer, goal) in goals {
                match self.ratio(scenario, peer) {
                    Some((ratio, _)) if ratio.median < *goal => missed.push(format!(
                        "CPU of {peer} {} for {}: {} x of Fairway's, goal at least {goal:.2} x",
                        self.version(peer),
                        title(scenario),
                        number::ratio(ratio.median)
                    )),
                    _ => {}
                }
            }
        }
        if let Some((ratio, _)) = self.ratio("http-1k-50", "floor") {
            let own = ratio.inverse().median;
            if own > 1.15 {
                let own = number::ratio(own);
                missed.push(format!(
                    "Fairway spends {own} x of a bare epoll forwarder's CPU, goal at most 1.15 x"
                ));
            }
        }
        for (scenario, cpus, user, most) in self.own_shares().filter(|(_, _, user, most)| user > most) {
            let (user, scenario) = (number::figure(user), title(scenario));
            missed.push(format!("user space for {scenario}: {user} µs on {cpus}, goal at most {most:.1} µs"));
        }
        missed
    }
}

fn verdict(ratio: Ratio, goal: f64) -> &'static str {
    if ratio.median < goal {
        "**missed**"
    } else if ratio.low < goal || ratio.pairs < 2 {
        "open: the interval includes the target"
    } else if ratio.pairs >= ENOUGH_PAIRS {
        "met"
    } else {
        "met, with too few pairs"
    }
}

pub(super) fn title(scenario: &str) -> &str {
    TITLES.iter().find(|(name, _)| *name == scenario).map_or(scenario, |(_, title)| title)
}

fn distance(name: &str) -> &'static str {
    match name {
        "one_core" => "one core",
        "two_cores" => "two cores",
        _ => "unknown",
    }
}

/// The number in what a program says of its version.
pub(super) fn version(text: &str) -> &str {
    let parts = text.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    let mut numbers = parts.map(|part| part.trim_matches('.')).filter(|part| part.contains('.'));
    numbers.next().unwrap_or_default()
}

/// Bytes of memory for each idle connection, plain or TLS, and how many there were.
fn idle(root: &Path, scenario: &str) -> anyhow::Result<(f64, u64)> {
    let file: Bench = json(root, "bench/results/idle.json")?;
    let findings = file.results.iter().find(|findings| findings.scenario.name == scenario);
    let findings = findings.with_context(|| format!("bench/results/idle.json has no {scenario}"))?;
    let mut sizes: Vec<f64> = findings.memory.iter().map(Memory::each).collect();
    sizes.sort_by(f64::total_cmp);
    let median = sizes.get(sizes.len() / 2).context("bench/results/idle.json has no memory")?;
    Ok((*median, u64::from(findings.scenario.connections)))
}

/// The proofs: what is promised, and what was found.
pub(super) fn proofs(root: &Path) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for file in ["churn", "churn-40ms"] {
        rows.push(churn(&json(root, &format!("bench/results/{file}.json"))?, file));
    }
    let changes: Value = json(root, "bench/results/changes.json")?;
    let (visible, steady) = (&changes["findings"]["visible"], &changes["findings"]["steadiness"]);
    rows.push(proof(
        "from a changed file to every worker",
        "p99 at most 20 ms",
        &format!("{} of {} changes", times(visible), whole(&visible["count"])),
        visible["p99_ms"].as_f64().is_some_and(|p99| p99 <= 20.0),
        &changes,
    ));
    rows.push(proof(
        "connections closed by changes of routes, certificates and settings under load",
        "0",
        &format!(
            "{} of {}, over {} changes of each kind",
            whole(&steady["closed"]),
            whole(&steady["connections"]),
            whole(&steady["changes_of_each_kind"])
        ),
        steady["closed"] == 0,
        &changes,
    ));
    let scale: Value = json(root, "bench/results/scale.json")?;
    let adoption = &scale["findings"]["adoption"];
    rows.push(proof(
        &format!(
            "a change in one of {} Ingresses, from event to adoption",
            whole(&scale["findings"]["ingresses"])
        ),
        "p99 at most 5 ms",
        &format!("{} of {} changes", times(adoption), whole(&adoption["count"])),
        adoption["p99_ms"].as_f64().is_some_and(|p99| p99 <= 5.0),
        &scale,
    ));
    rows.push(killed(&json(root, "bench/results/kill.json")?));
    let idle_file: Value = json(root, "bench/results/idle.json")?;
    let ((plain, count), (tls, _)) = (idle(root, "idle-memory")?, idle(root, "idle-memory-tls")?);
    rows.push(proof(
        &format!("memory of an idle keep-alive connection, with {}", number::count(count)),
        "plain at most 2 KiB",
        &format!("plain {:.1} KiB, TLS {:.1} KiB", plain / 1024.0, tls / 1024.0),
        plain <= 2048.0,
        &idle_file,
    ));
    rows.extend(memory_of_http2(root, &idle_file));
    rows.push(spread(root)?);
    Ok(format!("\n{}", table(&["what", "target", "measured", "verdict", "command"], &rows)))
}

/// Memory of connections and streams of HTTP/2, each with what it may be.
fn memory_of_http2(root: &Path, file: &Value) -> Vec<Vec<String>> {
    let goals = [
        ("idle-memory-h2", "an idle connection of HTTP/2", 6.0),
        ("idle-memory-h2-tls", "an idle connection of HTTP/2 over TLS", 16.0),
        ("waiting-streams-h2c", "a stream that waits for its answer from a backend of HTTP/2", 1.0),
        (
            "waiting-streams",
            "a stream that waits for its answer, its connection to the backend included",
            1.0,
        ),
    ];
    let row = |(scenario, what, most): (&str, &str, f64)| {
        let (what, target) = (format!("memory of {what}"), format!("at most {most:.0} KiB"));
        match idle(root, scenario) {
            Ok((each, _)) => {
                let kib = each / 1024.0;
                proof(&what, &target, &format!("{kib:.1} KiB"), kib <= most, file)
            }
            Err(_) => not_measured(&what, &target, &format!("fairway-bench run --scenario {scenario}")),
        }
    };
    goals.into_iter().map(row).collect()
}

/// How connections of HTTP/2 are spread.
fn spread(root: &Path) -> anyhow::Result<Vec<String>> {
    let what = "2, 4 and 8 connections of HTTP/2 on two workers";
    let target = "none has more than its share and one";
    let place = "bench/results/spread.json";
    if !root.join(place).is_file() {
        return Ok(not_measured(what, target, "fairway-bench spread"));
    }
    let file: Value = json(root, place)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (mut times, mut uneven) = (0, 0);
    for found in list(&file["findings"]) {
        let count = found["connections"].as_u64().unwrap_or(0);
        for once in list(&found["times"]) {
            let most = list(&once["connections"]).iter().filter_map(Value::as_u64).max().unwrap_or(0);
            times += 1;
            uneven += u64::from(most > count.div_ceil(2) + 1);
        }
    }
    Ok(proof(what, target, &format!("{uneven} of {times} times one had more"), uneven == 0, &file))
}

fn not_measured(what: &str, target: &str, command: &str) -> Vec<String> {
    [what, target, UNKNOWN, "open: not measured", &format!("`{command}`")].map(str::to_owned).to_vec()
}

fn proof(what: &str, target: &str, measured: &str, holds: bool, file: &Value) -> Vec<String> {
    let command = file["origin"]["command"].as_str().unwrap_or("unknown");
    let verdict = if holds { "met" } else { "**missed**" };
    vec![what.to_owned(), target.to_owned(), measured.to_owned(), verdict.to_owned(), format!("`{command}`")]
}

fn churn(file: &Value, name: &str) -> Vec<String> {
    let schemes = file["findings"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let sum = |of: &dyn Fn(&Value) -> u64| schemes.iter().map(of).sum::<u64>();
    let failures = |kind: &'static str| {
        move |scheme: &Value| {
            let failed = scheme["tally"][kind]["failed"].as_object();
            failed.map_or(0, |failed| failed.values().filter_map(Value::as_u64).sum())
        }
    };
    let requests = sum(&|scheme| scheme["load"]["requests"].as_u64().unwrap_or(0));
    let lost = sum(&failures("posts"));
    let posts = lost + sum(&|scheme| scheme["tally"]["posts"]["answered"].as_u64().unwrap_or(0));
    let doubled = sum(&|scheme| scheme["deliveries"]["posts_again"].as_u64().unwrap_or(0));
    let again = sum(&|scheme| scheme["deliveries"]["gets_again"].as_u64().unwrap_or(0));
    let gets = sum(&failures("gets"));
    let often = if name == "churn" { "every 300 ms" } else { "every 40 ms" };
    proof(
        &format!("{} requests while endpoints go 5, 7, 5 {often}, TLS and plain", number::count(requests)),
        "0 failed GETs, 0 duplicated POSTs",
        &format!(
            "{gets} failed GETs, {doubled} duplicated POSTs; {} of {} POSTs already sent to a dying backend failed with 502, \
             {} GETs were sent again",
            number::count(lost),
            number::count(posts),
            number::count(again)
        ),
        gets == 0 && doubled == 0,
        file,
    )
}

fn killed(file: &Value) -> Vec<String> {
    let cases = file["findings"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let seen = cases.iter().filter_map(|case| case["seen"].as_object()).flatten();
    let (mut reset, mut all) = (0, 0);
    for (what, count) in seen {
        let count = count.as_u64().unwrap_or(0);
        all += count;
        reset += if what == "reset" { count } else { 0 };
    }
    proof(
        "kill -9 of a backend within an answer",
        "the client sees an error",
        &format!("{reset} of {all} clients saw a reset"),
        reset == all && all > 0,
        file,
    )
}

fn times(value: &Value) -> String {
    format!(
        "p50 {} ms, p99 {} ms, slowest {} ms",
        ms(&value["p50_ms"]),
        ms(&value["p99_ms"]),
        ms(&value["max_ms"])
    )
}

pub(super) fn ms(value: &Value) -> String {
    number::maybe(value.as_f64())
}

fn whole(value: &Value) -> String {
    value.as_u64().map_or_else(|| UNKNOWN.to_owned(), number::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, expected) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/", "2.6.12"),
            ("envoy  version: 9e5580933/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"),
            ("Version:      v3.6.7", "3.6.7"),
        ] {
            assert_eq!(version(said), expected);
        }
    }

    #[test]
    fn every_peer_has_a_row_or_a_reason_and_states_with_few_pairs_stand_apart() {
        let summary = |peer: &str, distance: &str, to_base: Option<f64>| {
            let ratio = to_base.map(
                |median| serde_json::json!({ "median": median, "low": median, "high": median, "pairs": 15 }),
            );
            serde_json::json!({
                "peer": peer, "distance": distance, "user_us": 1.0, "total_us": 10.0, "to_base": ratio, "kept": 2,
                "discarded": 0,
            })
        };
        let results = serde_json::json!([
            { "scenario": { "name": "http-1k-50", "connections": 50 }, "memory": [], "summary": [
                summary("fairway", "two_cores", None), summary("floor", "two_cores", Some(0.8)),
                summary("nginx", "two_cores", None), summary("nginx", "one_core", None),
            ] },
            { "scenario": { "name": "tls13-handshakes", "connections": 50 }, "memory": [], "summary": [
                summary("fairway", "two_cores", None), summary("nginx", "two_cores", Some(1.3)),
            ] },
        ]);
        let bench: Bench = serde_json::from_value(serde_json::json!({
            "origin": { "command": "", "kernel": "", "cpu": "", "cpus": 2, "load_average": "" },
            "versions": {}, "results": results,
        }))
        .unwrap();
        let told = |rows: Vec<Vec<String>>| -> Vec<String> {
            rows.iter().map(|row| format!("{}, {}: {}", row[1], row[2], row[5])).collect()
        };
        let (enough, few) = bench.rows();
        let expected = [
            "two cores, fairway: 1 (the base)",
            "two cores, floor: 0.80 [0.80, 0.80]",
            "two cores, nginx: no pair in this state",
            "two cores, fairway: 1 (the base)",
            "two cores, nginx: 1.30 [1.30, 1.30]",
        ];
        assert_eq!(told(enough), expected);
        assert_eq!(told(few), ["one core, nginx: no block of Fairway in this state"]);
        let absent =
            "\nNot measured:\n\n* floor (speaks no TLS): full TLS 1.3 handshake (RSA-2048) and one request\n";
        assert_eq!(bench.absences(), absent);
        let never =
            "The CPUs were never on one core during: full TLS 1.3 handshake (RSA-2048) and one request.";
        assert_eq!(bench.missing_states(), [never]);
    }

    #[test]
    fn a_goal_is_met_missed_or_open() {
        let ratio = |median, low, high| Ratio { median, low, high, pairs: 15 };
        assert_eq!(verdict(ratio(1.3, 1.2, 1.4), 1.12), "met");
        let few = Ratio { pairs: 14, ..ratio(1.3, 1.2, 1.4) };
        assert_eq!(verdict(few, 1.12), "met, with too few pairs");
        assert_eq!(verdict(ratio(1.0, 0.9, 1.3), 1.12), "**missed**");
        assert!(verdict(ratio(1.2, 1.0, 1.4), 1.12).starts_with("open"));
    }
}
