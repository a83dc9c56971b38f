//! A run from beginning to end: finds the proxies, takes them through the scenarios, gathers the report. What cannot
//! be found or started is named in the report, and the others are measured.

use std::collections::BTreeMap;

use fairway_lab_measure::Executable;
use tempfile::TempDir;

use crate::backend;
use crate::backend::Upstream;
use crate::measure::{self, Effort};
use crate::peers::{self, Binaries, Wanted};
use crate::pinning::Conditions;
use crate::report::{Findings, Origin, Report, handshakes, summarise};
use crate::running::Running;
use crate::scenario::{Load, Scenario};
use crate::site::{Certificate, Site};

pub(crate) struct Campaign {
    found: Vec<(Wanted, Executable)>,
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
        conditions: Conditions,
    ) -> anyhow::Result<Self> {
        let origin = Origin::here(conditions);
        origin.pin.as_generator()?;
        let mut campaign = Self {
            found: Vec::new(),
            backend: backend::start(origin.idle)?,
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

    fn find(&mut self, wanted: &[String], binaries: &Binaries) -> anyhow::Result<()> {
        let all = peers::ALL.map(|peer| peer.name.to_owned());
        let names = if wanted.is_empty() { &all[..] } else { wanted };
        let mut wanted: Vec<Wanted> =
            names.iter().map(|name| peers::named(name)).collect::<anyhow::Result<_>>()?;
        // In the order of the report, and each once.
        wanted.sort_by_key(|one| peers::ALL.iter().position(|peer| peer.name == one.peer.name));
        wanted.dedup_by(|one, other| one.name == other.name);
        for one in wanted {
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

    fn leave_out(&mut self, peer: &Wanted, why: &anyhow::Error) {
        eprintln!("{}: not measured: {why:#}", peer.name);
        self.report.absent.insert(peer.name.clone(), format!("{why:#}"));
    }

    pub(crate) fn run(mut self, scenarios: &[Scenario]) -> anyhow::Result<Report> {
        for scenario in scenarios {
            eprintln!("{}", scenario.name);
            let findings = match scenario.load {
                Load::Idle => self.memory(scenario)?,
                Load::KeepAlive | Load::Once => self.cpu(scenario)?,
            };
            self.report.results.extend(findings);
        }
        Ok(self.report)
    }

    /// All proxies at once, so that blocks can alternate; the ones not under load sleep.
    fn cpu(&mut self, scenario: &Scenario) -> anyhow::Result<Option<Findings>> {
        let mut running = Vec::new();
        for (peer, binary) in self.taking_part(scenario) {
            if let Some(proxy) = self.start(&peer, &binary)? {
                running.push((peer.name.clone(), proxy));
            }
        }
        let Some((base, _)) = running.first() else { return Ok(None) };
        let base = base.clone();
        let blocks = measure::blocks(scenario, &mut running, self.report.effort)?;
        let summary = summarise(&blocks, &base);
        let handshakes = handshakes(&blocks);
        let (scenario, memory) = (*scenario, Vec::new());
        Ok(Some(Findings { scenario, base, summary, memory, handshakes, blocks }))
    }

    /// One fresh proxy after the other.
    fn memory(&mut self, scenario: &Scenario) -> anyhow::Result<Option<Findings>> {
        let mut memory = Vec::new();
        for (peer, binary) in self.taking_part(scenario) {
            if let Some(proxy) = self.start(&peer, &binary)? {
                memory.push(measure::idle(scenario, &peer.name, &proxy)?);
            }
        }
        let base = memory.first().map(|row| row.peer.clone()).unwrap_or_default();
        let (scenario, summary, blocks) = (*scenario, Vec::new(), Vec::new());
        let handshakes = BTreeMap::new();
        Ok(Some(Findings { scenario, base, summary, memory, handshakes, blocks }))
    }

    fn taking_part(&self, scenario: &Scenario) -> Vec<(Wanted, Executable)> {
        self.found.iter().filter(|(one, _)| one.peer.tls || !scenario.tls).cloned().collect()
    }

    /// `None` when it does not start, which the report says; an error only when the run is to end.
    fn start(&mut self, peer: &Wanted, binary: &Executable) -> anyhow::Result<Option<Running>> {
        let mut site = Site::prepare(self.directory.path(), &peer.name, self.backend.clone())?;
        let command = (peer.peer.prepare)(binary, &mut site, &self.certificate)?;
        self.report.configurations.insert(peer.name.clone(), site.written.iter().cloned().collect());
        match Running::start(command, site, self.report.origin.pin) {
            Ok(running) => Ok(Some(running)),
            Err(why) => {
                crate::interrupt::check()?;
                self.leave_out(peer, &why);
                Ok(None)
            }
        }
    }
}
