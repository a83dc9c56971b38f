//! The second part of a run: scenarios with contenders, one after the other, and the results, which are written after each
//! so that nothing is lost. Runs inside of the testbed, or anywhere for scenarios without a cluster.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::catalogue::{Parameters, Scenario};
use super::disk_reserve::DiskReserve;
use super::handover::Handover;
use super::progress::Progress;
use super::receipts::Receipts;
use super::running_peer::{Contender, Ids, RunContext, RunningPeer, Sizes};
use super::site::{self, Backends, Certificate};
use super::{capacity, comparison, dynamic, propagation, timeline};
use crate::cluster::Cluster;
use crate::peers::{self, Peer};
use fairway_lab_results::{Absent, Completeness, PeerKind, PeerRecord, Results, Run, SCHEMA};

/// Measures what was handed over.
pub(super) fn run(handover: &Path, scenarios: &[Scenario], faultless: &[String]) -> anyhow::Result<ExitCode> {
    let handover = Handover::read(handover)?;
    if scenarios.iter().any(Scenario::needs_cluster) {
        be_early();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let cluster = match scenarios.iter().any(Scenario::needs_cluster) {
            true => Some(Arc::new(Cluster::connect().await?)),
            false => None,
        };
        let contenders: Vec<_> =
            handover.peers.iter().map(|known| peers::named(&known.name)).collect::<Result<_, _>>()?;
        let contenders = contenders.iter().map(AsRef::as_ref).collect();
        let mut session = Session::begin(&handover, cluster, contenders).await?;
        let code = session.all(scenarios).await?;
        let failed = session.failed(faultless);
        for text in &failed {
            session.progress.say(text);
        }
        Ok(if failed.is_empty() { code } else { ExitCode::from(1) })
    })
}

/// Pods come and go on the same CPUs: the generator goes first, so that it is in time and does not take their time for a
/// proxy's. Where that is not allowed its lateness says so.
fn be_early() {
    if let Err(error) = rustix::process::setpriority_process(None, -10) {
        tracing::debug!(%error, "the generator runs at the usual priority");
    }
}

/// A run that is going on.
pub(super) struct Session<'a> {
    handover: &'a Handover,
    cluster: Option<Arc<Cluster>>,
    contenders: Vec<Contender<'a>>,
    certificate: Certificate,
    receipts: Receipts,
    progress: Progress,
    results: Results,
    /// Until the results are written for the last time.
    reserve: Option<DiskReserve>,
}

impl<'a> Session<'a> {
    pub(super) async fn begin(
        handover: &'a Handover,
        cluster: Option<Arc<Cluster>>,
        peers: Vec<&'a dyn Peer>,
    ) -> anyhow::Result<Self> {
        let reserve = Some(DiskReserve::keep(&handover.folder)?);
        let mut environment = fairway_lab_measure::environment();
        environment.place.clone_from(&handover.place);
        if let Some(cluster) = &cluster {
            environment.kubernetes = Some(cluster.version().await?);
        }
        let contenders = handover.settings.iter().flat_map(|settings| {
            peers.iter().map(|peer| Contender { peer: *peer, settings: *settings }).collect::<Vec<_>>()
        });
        let mut known = handover.peers.clone();
        known.push(direct());
        let receipts = Receipts::begin(handover, cluster.as_deref()).await?;
        Ok(Self {
            handover,
            cluster,
            receipts,
            contenders: contenders.collect(),
            certificate: Certificate::make()?,
            progress: Progress::begin(),
            results: Results {
                schema: SCHEMA,
                completeness: Completeness::Partial { reason: "the run has not ended".to_owned() },
                begun: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                seconds: 0.0,
                command: handover.command.clone(),
                environment,
                peers: known,
                absent: handover.absent.clone(),
                runs: Vec::new(),
                limitations: LIMITATIONS.map(str::to_owned).to_vec(),
            },
            reserve,
        })
    }

    /// All scenarios, then the report; a signal ends them early and leaves a partial one.
    pub(super) async fn all(&mut self, scenarios: &[Scenario]) -> anyhow::Result<ExitCode> {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let ended = {
            let work = self.scenarios(scenarios);
            tokio::select! {
                outcome = work => outcome.map(|()| None),
                _ = interrupt.recv() => Ok(Some("interrupted")),
                _ = terminate.recv() => Ok(Some("terminated")),
            }
        };
        let (completeness, code) = match &ended {
            Ok(None) => (Completeness::Complete, ExitCode::SUCCESS),
            Ok(Some(how)) => {
                (Completeness::Partial { reason: format!("{how} {}", self.place()) }, ExitCode::from(1))
            }
            Err(error) => {
                (Completeness::Partial { reason: format!("{error:#} ({})", self.place()) }, ExitCode::from(1))
            }
        };
        self.results.completeness = completeness;
        self.reserve = None;
        self.write()?;
        let page = fairway_lab_report::write(std::slice::from_ref(&self.results), &self.handover.folder)?;
        if let Completeness::Partial { reason } = &self.results.completeness {
            self.progress.say(&format!("the run is partial: {reason}"));
        }
        self.progress.say(&format!("the report is {}", page.display()));
        Ok(code)
    }

    /// What failed of peers that should have no errors, one sentence each.
    fn failed(&self, peers: &[String]) -> Vec<String> {
        let measured = |name: &String| {
            self.results.runs.iter().any(|run| run.measures.iter().any(|one| one.peer == *name))
        };
        let unmeasured =
            peers.iter().filter(|name| !measured(name)).map(|name| format!("{name} was not measured"));
        let measures = self.results.runs.iter().flat_map(|run| &run.measures);
        let wrong = measures.filter(|one| peers.contains(&one.peer) && !one.load.errors.is_empty());
        let said = |one: &fairway_lab_results::Measure| {
            let errors: Vec<_> =
                one.load.errors.iter().map(|(class, count)| format!("{count} {}", class.name())).collect();
            format!("{} {} {}: {}", one.peer, one.case, one.phase, errors.join(", "))
        };
        unmeasured.chain(wrong.map(said)).collect()
    }

    /// Where it was when it ended.
    fn place(&self) -> String {
        let run = self.results.runs.last();
        let scenario = run.map_or("before the first scenario", |run| &run.scenario);
        format!("at {:.0} s, in {scenario}", self.progress.seconds())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        self.results.seconds = self.handover.prepared_s + self.progress.seconds();
        fairway_lab_results::write(&self.handover.folder, &self.results)
    }

    async fn scenarios(&mut self, scenarios: &[Scenario]) -> anyhow::Result<()> {
        if let Some(cluster) = &self.cluster {
            let backends = Backends { image: &self.handover.image, collector: self.receipts.address() };
            cluster.apply(&site::objects(backends, &self.certificate)).await?;
        }
        for scenario in scenarios {
            let before = self.progress.seconds();
            self.results.runs.push(blank(scenario));
            self.scenario(scenario).await?;
            if let Some(run) = self.results.runs.last_mut() {
                run.seconds = self.progress.seconds() - before;
            }
            self.write()?;
        }
        Ok(())
    }

    async fn scenario(&mut self, scenario: &Scenario) -> anyhow::Result<()> {
        let run = self.results.runs.last_mut().context("a scenario has its place in the results")?;
        if let Parameters::Capacity(parameters) = &scenario.parameters {
            let local = capacity::LocalRun {
                handover: self.handover,
                certificate: &self.certificate,
                progress: self.progress,
                contenders: &self.contenders,
            };
            return capacity::run(&local, parameters, run, &mut self.results.absent).await;
        }
        let cluster = self.cluster.clone().context("the scenario needs a cluster")?;
        let context = RunContext {
            cluster,
            artifacts: &self.handover.artifacts,
            progress: self.progress,
            folder: &self.handover.folder,
            ids: Ids { receipts: &self.receipts, posts: scenario.posts },
        };
        for contender in &self.contenders {
            let name = contender.peer.name();
            self.progress.say(&format!("{}: {name}", scenario.name()));
            if let Err(error) = with(&context, contender, &scenario.parameters, run).await {
                // The next one could keep nothing either.
                if is_full(&error) {
                    return Err(error);
                }
                // One peer that fails is reported and does not end the run.
                self.progress.say(&format!("{name} failed in {}: {error:#}", scenario.name()));
                self.results.absent.push(Absent {
                    peer: name.to_owned(),
                    scenario: Some(scenario.name().to_owned()),
                    reason: format!("{error:#}"),
                });
            }
        }
        Ok(())
    }
}

/// Whether the disk is full.
fn is_full(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.map(std::io::Error::kind).any(|kind| matches!(kind, StorageFull | QuotaExceeded))
}

async fn with(
    context: &RunContext<'_>,
    contender: &Contender<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    let Some(sizes) = sizes(parameters) else { return Ok(()) };
    let mut running = RunningPeer::open(context, contender, sizes).await?;
    let outcome = match parameters {
        Parameters::Capacity(_) => Ok(()),
        Parameters::Dynamic(parameters) => dynamic::run(&mut running, parameters, run).await,
        Parameters::Comparison(parameters) => comparison::run(&mut running, parameters, run).await,
        Parameters::Timeline(parameters) => timeline::run(&mut running, parameters, run).await,
        Parameters::Propagation(parameters) => propagation::run(&mut running, parameters, run).await,
    };
    run.notes.append(&mut running.notes.take());
    let closed = running.close().await;
    outcome.and(closed)
}

fn sizes(parameters: &Parameters) -> Option<Sizes> {
    match parameters {
        Parameters::Capacity(_) => None,
        Parameters::Dynamic(parameters) => Some(parameters.sizes()),
        Parameters::Comparison(parameters) => Some(parameters.sizes()),
        Parameters::Timeline(parameters) => Some(parameters.sizes()),
        Parameters::Propagation(parameters) => Some(parameters.sizes()),
    }
}

fn blank(scenario: &Scenario) -> Run {
    let heading = &scenario.definition.heading;
    Run {
        scenario: heading.scenario.clone(),
        purpose: heading.purpose.clone(),
        study: Some(heading.study.clone()).filter(|study| !study.is_empty()),
        parameters: scenario.definition.parameters.clone(),
        shortened: scenario.definition.shortened.clone(),
        ..Run::default()
    }
}

/// The stream that goes through no proxy.
fn direct() -> PeerRecord {
    PeerRecord {
        name: "direct".to_owned(),
        title: "straight to a pod".to_owned(),
        kind: PeerKind::Direct,
        stands_for: "what the machine itself does".to_owned(),
        versions: std::collections::BTreeMap::new(),
        configurations: Vec::new(),
    }
}

/// What a reader must know before believing a figure.
const LIMITATIONS: [&str; 6] = [
    "Generator, proxy, backends and the whole of Kubernetes share one machine: absolute latencies and rates are those of a \
     busy small machine; compare peers with one another and with the stream straight to a pod.",
    "In the scenarios in Kubernetes peers ran one after the other, once each; only capacity interleaves them in blocks and \
     has intervals.",
    "nginx, HAProxy, Envoy and Caddy run under the laboratory's own adapter, which applies changes as controllers of that \
     proxy do (reload, runtime API, dynamic discovery, admin API); they are not those controllers.",
    "Backends end at once on SIGTERM, without preStop: the hardest case, and that of most programs that nobody changed.",
    "CPU of a peer in Kubernetes is that of its proxy pods, with the adapter where there is one; Contour's controller and \
     the API server are not counted.",
    "The published figures beside ours were made on other machines in other years.",
];
