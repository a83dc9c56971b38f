//! A complete run: finds the proxies, takes them through the scenarios, gathers the report. Proxies that cannot be found or
//! started are named in the report, and the others are measured.

use std::collections::BTreeMap;

use fairway_lab_measure::Executable;
use fairway_lab_measure::results::ENOUGH_PAIRS;
use fairway_lab_traffic::backend::Spoken;
use tempfile::TempDir;

use crate::backend::Upstream;
use crate::measure::{self, Block, Effort};
use crate::peers::{self, Binaries, Need, PeerRelease};
use crate::pinning::Placement;
use crate::report::{Findings, Origin, Report, handshakes, lacks_pairs, summarise};
use crate::running_proxy::RunningProxy;
use crate::scenario::{Downstream, Edits, ForwardedUnit, Load, Scenario, Tls};
use crate::site::{Certificate, Site};

pub(crate) struct Campaign {
    placement: Placement,
    found: Vec<(PeerRelease, Executable)>,
    backend: Upstream,
    certificate: Certificate,
    directory: TempDir,
    report: Report,
}

impl Campaign {
    /// Finds the proxies that `wanted` names (all when it is empty) and starts the backend.
    pub(crate) fn prepare(
        wanted: &[String],
        binaries: &Binaries,
        effort: Effort,
        placement: Placement,
    ) -> anyhow::Result<Self> {
        let origin = Origin::current(Some(placement));
        placement.as_generator()?;
        let mut campaign = Self {
            placement,
            found: Vec::new(),
            backend: Upstream::start()?,
            certificate: Certificate::generate()?,
            directory: tempfile::Builder::new().prefix("fairway-bench-").tempdir()?,
            report: Report {
                origin,
                effort,
                versions: BTreeMap::new(),
                absent: BTreeMap::new(),
                configurations: BTreeMap::new(),
                results: Vec::new(),
            },
        };
        campaign.find(wanted, binaries)?;
        Ok(campaign)
    }

    fn find(&mut self, requested: &[String], binaries: &Binaries) -> anyhow::Result<()> {
        let all = peers::ALL.map(|peer| peer.name.to_owned());
        let names = if requested.is_empty() { &all[..] } else { requested };
        let mut selected: Vec<PeerRelease> =
            names.iter().map(|name| peers::named(name)).collect::<anyhow::Result<_>>()?;
        // Sorted in the order of the report, without duplicates.
        selected.sort_by_key(|selection| {
            peers::with_variants().position(|peer| peer.name == selection.peer.name)
        });
        selected.dedup_by(|one, other| one.name == other.name);
        for one in selected {
            let found = (one.peer.find)(binaries, &one.release)
                .and_then(|binary| Ok(((one.peer.version)(&binary)?, binary)));
            match found {
                Ok((version, binary)) => {
                    self.report.versions.insert(one.name.clone(), version);
                    self.found.push((one, binary));
                }
                Err(why) => self.leave_out(&one, &why),
            }
        }
        anyhow::ensure!(!self.found.is_empty(), "there is nothing to measure: {:?}", self.report.absent);
        Ok(())
    }

    fn leave_out(&mut self, peer: &PeerRelease, why: &anyhow::Error) {
        eprintln!("{}: not measured: {why:#}", peer.name);
        self.report.absent.insert(peer.name.clone(), format!("{why:#}"));
    }

    pub(crate) fn run(mut self, scenarios: &[Scenario]) -> anyhow::Result<Report> {
        for scenario in scenarios {
            eprintln!("{}", scenario.name);
            let findings = match scenario.load {
                Load::Idle | Load::Waiting => self.memory(scenario)?,
                Load::KeepAlive | Load::Once | Load::Resumed => self.cpu(scenario)?,
            };
            self.report.results.extend(findings);
        }
        Ok(self.report)
    }

    /// Starts all proxies at once, so that blocks can alternate; the ones not under load sleep.
    fn cpu(&mut self, scenario: &Scenario) -> anyhow::Result<Option<Findings>> {
        let (part, mut missing) = self.taking_part(scenario);
        let mut running = Vec::new();
        for (peer, binary) in &part {
            let started = self.start(&peer.name, peer, binary, scenario)?;
            record_start(started, &peer.name, &mut running, &mut missing);
        }
        if let (Some((other, difference)), Some((peer, binary))) = (baseline_scenario(scenario), part.first())
        {
            let name = format!("{} {difference}", peer.name);
            let started = self.start(&name, peer, binary, &other)?;
            record_start(started, &name, &mut running, &mut missing);
        }
        let Some((base, _)) = running.first() else { return Ok(None) };
        let base = base.clone();
        let effort = self.report.effort;
        // A run with fewer rounds is meant to be short, and gives no intervals.
        let are_few = |blocks: &[Block]| effort.blocks >= ENOUGH_PAIRS as usize && lacks_pairs(blocks, &base);
        let blocks = measure::blocks(scenario, &mut running, effort, are_few)?;
        let summary = summarise(&blocks, &base);
        let handshakes = handshakes(&blocks);
        let (scenario, memory) = (*scenario, Vec::new());
        Ok(Some(Findings { scenario, base, summary, memory, handshakes, blocks, missing }))
    }

    /// Measures one fresh proxy after another.
    fn memory(&mut self, scenario: &Scenario) -> anyhow::Result<Option<Findings>> {
        let (part, mut missing) = self.taking_part(scenario);
        let mut memory = Vec::new();
        for (peer, binary) in &part {
            match self.start(&peer.name, peer, binary, scenario)? {
                Ok(proxy) if scenario.load == Load::Waiting => {
                    memory.push(measure::waiting(scenario, &peer.name, &proxy, &self.backend)?);
                }
                Ok(proxy) => memory.push(measure::idle(scenario, &peer.name, &proxy)?),
                Err(why) => _ = missing.insert(peer.name.clone(), why),
            }
        }
        let base = memory.first().map(|row| row.peer.clone()).unwrap_or_default();
        let (scenario, summary, blocks) = (*scenario, Vec::new(), Vec::new());
        let handshakes = BTreeMap::new();
        Ok(Some(Findings { scenario, base, summary, memory, handshakes, blocks, missing }))
    }

    /// The proxies that can be measured, and why the others cannot.
    fn taking_part(&self, scenario: &Scenario) -> (Vec<(PeerRelease, Executable)>, BTreeMap<String, String>) {
        let mut missing = self.report.absent.clone();
        let mut part = Vec::new();
        for (one, binary) in &self.found {
            match one.peer.lacks(&required_programs(scenario)) {
                Some(why) => _ = missing.insert(one.name.clone(), why.to_owned()),
                None => part.push((one.clone(), binary.clone())),
            }
        }
        (part, missing)
    }

    /// The inner error is the reason for not starting; an outer error ends the run.
    fn start(
        &mut self,
        name: &str,
        peer: &PeerRelease,
        binary: &Executable,
        scenario: &Scenario,
    ) -> anyhow::Result<Result<RunningProxy, String>> {
        let workers = self.placement.workers;
        let mut site = Site::prepare(self.directory.path(), name, &self.backend, scenario, workers)?;
        let command = match (peer.peer.prepare)(binary, &mut site, &self.certificate) {
            Ok(command) => command,
            Err(why) => {
                eprintln!("  {name}: not measured: {why:#}");
                return Ok(Err(format!("{why:#}")));
            }
        };
        let key = if is_usual(scenario) { name.to_owned() } else { format!("{name}, {}", scenario.name) };
        self.report.configurations.insert(key, site.written.iter().cloned().collect());
        match RunningProxy::start(command, site, self.placement) {
            Ok(running) => Ok(Ok(running)),
            Err(why) => {
                crate::interrupt::check()?;
                eprintln!("  {name}: not measured: {why:#}");
                Ok(Err(format!("{why:#}")))
            }
        }
    }
}

/// The features a scenario needs that not every peer has.
fn required_programs(scenario: &Scenario) -> Vec<Need> {
    match scenario.forwarded {
        ForwardedUnit::Requests => {}
        ForwardedUnit::Connections => return vec![Need::Connections],
        ForwardedUnit::Datagrams => return vec![Need::Datagrams],
    }
    let needs = [
        (scenario.tls.is_some(), Need::Tls),
        (!scenario.is_recommended(), Need::Defaults),
        (scenario.is_http2(), Need::Http2),
        (scenario.is_http3(), Need::Http3),
        (scenario.is_edited(), Need::Edits),
        (scenario.asks_for_token(), Need::Tokens),
    ];
    needs.into_iter().filter(|(is_so, _)| *is_so).map(|(_, need)| need).collect()
}

/// The scenario against which the cost of a protocol or of edits is shown: the same proxy without them.
fn baseline_scenario(scenario: &Scenario) -> Option<(Scenario, &'static str)> {
    if scenario.upstream == Spoken::H2c {
        return Some((Scenario { upstream: Spoken::Http1, ..*scenario }, "to HTTP/1"));
    }
    if let Downstream::Http3 { streams } = scenario.downstream {
        return Some((Scenario { downstream: Downstream::Http2 { streams }, ..*scenario }, "over HTTP/2"));
    }
    let plain = Scenario { edits: Edits::Nothing, ..*scenario };
    match scenario.edits {
        Edits::Nothing => None,
        Edits::Usual => Some((plain, "without edits")),
        Edits::Token => Some((plain, "without a token")),
    }
}

/// Whether the scenario has the configuration that most scenarios have.
fn is_usual(scenario: &Scenario) -> bool {
    scenario.downstream == Downstream::Http1
        && !scenario.is_stream()
        && scenario.edits == Edits::Nothing
        && scenario.tls != Some(Tls::V12)
        && scenario.is_recommended()
}

fn record_start(
    started: Result<RunningProxy, String>,
    name: &str,
    running: &mut Vec<(String, RunningProxy)>,
    missing: &mut BTreeMap<String, String>,
) {
    match started {
        Ok(proxy) => running.push((name.to_owned(), proxy)),
        Err(why) => _ = missing.insert(name.to_owned(), why),
    }
}
