//! The second part of a run: scenarios with contenders, one after the other, and the results, which are written after each
//! so that nothing is lost. Runs inside of the testbed.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use fairway_lab_measure::results::{
    Absent, Completeness, Environment, HISTOGRAMS, PeerKind, PeerRecord, Question, Results, Run, SCHEMA,
};
use tokio::signal::unix::{SignalKind, signal};

use super::catalogue::{Parameters, Scenario};
use super::disk_reserve::{DiskReserve, is_full};
use super::handover::Handover;
use super::progress::Progress;
use super::receipts::Receipts;
use super::rounds::{self, ScenarioRound};
use super::running_peer::{Contender, Histograms, Ids, RunContext, RunningPeer, Sizes};
use super::site::{self, Backends, Certificate};
use super::steps::Steps;
use super::{comparison, dynamic, gateway, propagation, timeline};
use crate::cluster::Cluster;
use crate::peers::{self, Peer, RouteApi};

/// Runs the measurements.
pub(super) fn run(handover: &Path, scenarios: &[Scenario], faultless: &[String]) -> anyhow::Result<ExitCode> {
    let handover = Handover::read(handover)?;
    let chunks = rounds::scenario_rounds(scenarios, handover.rounds);
    be_early();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let cluster = Arc::new(Cluster::connect().await?);
        let contenders: Vec<_> =
            handover.peers.iter().map(|known| peers::find_peer(&known.name)).collect::<Result<_, _>>()?;
        let contenders = contenders.iter().map(AsRef::as_ref).collect();
        let mut session = Session::start(&handover, cluster, contenders).await?;
        let code = session.run_all_rounds(&chunks).await?;
        let failed = failed_peers(&session.results, faultless);
        for text in &failed {
            session.progress.say(text);
        }
        Ok(if failed.is_empty() { code } else { ExitCode::from(1) })
    })
}

/// Pods start and stop on the same CPUs. The generator gets priority, so that it is on time and its delays are not counted
/// for a proxy. Without permission its lateness is reported.
fn be_early() {
    if let Err(error) = rustix::process::setpriority_process(None, -10) {
        tracing::debug!(%error, "the generator runs at the usual priority");
    }
}

/// A run that is going on.
pub(super) struct Session<'a> {
    handover: &'a Handover,
    cluster: Arc<Cluster>,
    contenders: Vec<Contender<'a>>,
    certificate: Certificate,
    receipts: Receipts,
    progress: Progress,
    results: Results,
    /// Reserved until the results are written for the last time.
    reserve: Option<DiskReserve>,
}

impl<'a> Session<'a> {
    pub(super) async fn start(
        handover: &'a Handover,
        cluster: Arc<Cluster>,
        peers: Vec<&'a dyn Peer>,
    ) -> anyhow::Result<Self> {
        let reserve = Some(DiskReserve::keep(&handover.folder)?);
        let mut environment = fairway_lab_measure::environment();
        environment.place.clone_from(&handover.place);
        environment.kubernetes = Some(cluster.version().await?);
        let contenders = handover.settings.iter().flat_map(|settings| {
            peers.iter().map(|peer| Contender { peer: *peer, settings: *settings }).collect::<Vec<_>>()
        });
        let receipts = Receipts::start(handover, &cluster).await?;
        forget_histograms(&handover.folder)?;
        let results = afresh(handover, environment);
        Ok(Self {
            handover,
            cluster,
            receipts,
            contenders: contenders.collect(),
            certificate: Certificate::make()?,
            progress: Progress::start(),
            results,
            reserve,
        })
    }

    /// Runs all scenarios and writes the report; after a signal, the report is partial.
    pub(super) async fn run_all_rounds(&mut self, chunks: &[ScenarioRound<'_>]) -> anyhow::Result<ExitCode> {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let ended = {
            let work = self.run_pieces(chunks);
            tokio::select! {
                outcome = work => outcome.map(|()| None),
                _ = interrupt.recv() => Ok(Some("interrupted")),
                _ = terminate.recv() => Ok(Some("terminated")),
            }
        };
        let (completeness, code) = match &ended {
            Ok(None) => (Completeness::Complete, ExitCode::SUCCESS),
            Ok(Some(how)) => {
                (Completeness::Partial { reason: format!("{how} {}", self.location()) }, ExitCode::from(1))
            }
            Err(error) => (
                Completeness::Partial { reason: format!("{error:#} ({})", self.location()) },
                ExitCode::from(1),
            ),
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

    /// The position at the end.
    fn location(&self) -> String {
        let run = self.results.runs.last().filter(|run| !run.is_finished());
        let scenario = run.map_or_else(
            || "before the first scenario".to_owned(),
            |run| rounds::round_title(&run.scenario, run.round),
        );
        format!("at {:.0} s, in {scenario}", self.progress.seconds())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        self.results.seconds = self.handover.preparation.seconds + self.progress.seconds();
        fairway_lab_measure::results::write(&self.handover.folder, &self.results)
    }

    async fn run_pieces(&mut self, chunks: &[ScenarioRound<'_>]) -> anyhow::Result<()> {
        let backends = Backends { image: &self.handover.image, collector: self.receipts.address() };
        self.cluster.apply(&site::objects(backends, &self.certificate)).await?;
        let outline = outline(self.handover, chunks);
        let mut steps = Steps::new(self.progress, self.handover.preparation.steps, outline);
        for piece in chunks {
            steps.begin();
            let before = self.progress.seconds();
            self.results.runs.push(blank(piece));
            self.run_round(piece).await?;
            if let Some(run) = self.results.runs.last_mut() {
                run.seconds = self.progress.seconds() - before;
            }
            self.write()?;
        }
        Ok(())
    }

    async fn run_round(&mut self, chunk: &ScenarioRound<'_>) -> anyhow::Result<()> {
        let scenario = chunk.scenario;
        let run = self.results.runs.last_mut().context("a scenario has its place in the results")?;
        let context = RunContext {
            cluster: self.cluster.clone(),
            artifacts: &self.handover.artifacts,
            progress: self.progress,
            histograms: Histograms { folder: &self.handover.folder, round: chunk.round },
            ids: Ids { receipts: &self.receipts, posts: scenario.posts },
            api: scenario.api(),
        };
        for contender in rounds::in_alternating_order(&self.contenders, chunk.round) {
            let name = contender.peer.name();
            let absent = |reason: String| Absent {
                peer: name.to_owned(),
                scenario: Some(scenario.name().to_owned()),
                round: chunk.round,
                reason,
            };
            if let (RouteApi::Gateway, Err(reason)) = (context.api, contender.peer.gateway_api()) {
                self.progress.say(&format!("{name} takes no part in {}: {reason}", chunk.title()));
                self.results.absent.push(absent(reason.to_owned()));
                continue;
            }
            self.progress.say(&format!("{}: {name}", chunk.title()));
            if let Err(error) = with(&context, contender, &scenario.parameters, run).await {
                // The disk is full for the next scenario as well.
                if is_full(&error) {
                    return Err(error);
                }
                // A failing peer is reported and does not end the run.
                self.progress.say(&format!("{name} failed in {}: {error:#}", chunk.title()));
                self.results.absent.push(absent(format!("{error:#}")));
            }
        }
        Ok(())
    }
}

/// Failures of peers that should have no errors, one sentence each.
pub(super) fn failed_peers(results: &Results, peers: &[String]) -> Vec<String> {
    let measured = |name: &String| {
        results.runs.iter().any(|run| run.measures.iter().any(|measure| measure.peer == *name))
    };
    let unmeasured =
        peers.iter().filter(|name| !measured(name)).map(|name| format!("{name} was not measured"));
    let measures = results.runs.iter().flat_map(|run| &run.measures);
    let wrong = measures.filter(|measure| peers.contains(&measure.peer) && !measure.load.errors.is_empty());
    let cost_of = |measure: &fairway_lab_measure::results::Measure| {
        let errors: Vec<_> =
            measure.load.errors.iter().map(|(class, count)| format!("{count} {}", class.name())).collect();
        format!("{} {} {}: {}", measure.peer, measure.case, measure.phase, errors.join(", "))
    };
    unmeasured.chain(wrong.map(cost_of)).collect()
}

/// The measuring steps and the removal of the testbed.
fn outline(handover: &Handover, chunks: &[ScenarioRound<'_>]) -> Vec<String> {
    let mut all: Vec<_> = chunks.iter().map(ScenarioRound::title).collect();
    if handover.is_in_testbed() {
        all.push(TAKE_DOWN.to_owned());
    }
    all
}

/// The last step of a run in a testbed.
pub(super) const TAKE_DOWN: &str = "take the testbed down";

/// Raw histograms of an earlier run that is replaced would be among those of this one.
fn forget_histograms(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(HISTOGRAMS);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn afresh(handover: &Handover, environment: Environment) -> Results {
    let mut peers = handover.peers.clone();
    peers.push(direct());
    Results {
        schema: SCHEMA,
        completeness: not_ended(),
        begun: now(),
        seconds: 0.0,
        command: handover.command.clone(),
        environment,
        peers,
        absent: handover.absent.clone(),
        runs: Vec::new(),
        limitations: limitations(handover.rounds),
    }
}

fn not_ended() -> Completeness {
    Completeness::Partial { reason: "the run has not ended".to_owned() }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

async fn with(
    context: &RunContext<'_>,
    contender: &Contender<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    let mut running = RunningPeer::open(context, contender, sizes(parameters)).await?;
    let outcome = match parameters {
        Parameters::Dynamic(parameters) => dynamic::run(&mut running, parameters, run).await,
        Parameters::Comparison(parameters) => comparison::run(&mut running, parameters, run).await,
        Parameters::Timeline(parameters) => timeline::run(&mut running, parameters, run).await,
        Parameters::Propagation(parameters) => propagation::run(&mut running, parameters, run).await,
        Parameters::Gateway(parameters) => gateway::run(&mut running, parameters, run).await,
    };
    run.supplement.notes.append(&mut running.notes.take());
    let closed = running.close().await;
    outcome.and(closed)
}

fn sizes(parameters: &Parameters) -> Sizes {
    match parameters {
        Parameters::Dynamic(parameters) => parameters.sizes(),
        Parameters::Comparison(parameters) => parameters.sizes(),
        Parameters::Timeline(parameters) => parameters.sizes(),
        Parameters::Propagation(parameters) => parameters.sizes(),
        Parameters::Gateway(parameters) => parameters.sizes(),
    }
}

fn blank(chunk: &ScenarioRound<'_>) -> Run {
    let scenario = chunk.scenario;
    let heading = &scenario.definition.heading;
    Run {
        scenario: heading.scenario.clone(),
        round: chunk.round,
        question: Question {
            purpose: heading.purpose.clone(),
            study: Some(heading.study.clone()).filter(|study| !study.is_empty()),
        },
        parameters: scenario.definition.parameters.clone(),
        shortened: scenario.definition.shortened.clone(),
        ..Run::default()
    }
}

/// The direct stream, without a proxy.
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

/// Limitations that a reader must know.
fn limitations(rounds: u32) -> Vec<String> {
    let order = if rounds > 1 {
        format!(
            "Peers ran one after the other, in {rounds} rounds: forwards in odd rounds and \
             backwards in even ones."
        )
    } else {
        "Peers ran one after the other, once each.".to_owned()
    };
    let mut all = vec![MACHINE.to_owned(), order];
    all.extend(LIMITATIONS.map(str::to_owned));
    all
}

const MACHINE: &str = "Generator, proxy, backends and the whole of Kubernetes share one machine: absolute latencies and rates are those of a \
     busy small machine; compare peers with one another and with the stream straight to a pod.";

const LIMITATIONS: [&str; 4] = [
    "nginx, HAProxy, Envoy and Caddy run under the laboratory's own adapter, which applies changes as controllers of that \
     proxy do (reload, runtime API, dynamic discovery, admin API); they are not those controllers.",
    "Backends end at once on SIGTERM, without preStop: the hardest case, and that of most programs that nobody changed.",
    "CPU of a peer in Kubernetes is that of its proxy pods, with the adapter where there is one; Contour's controller and \
     the API server are not counted.",
    "The published figures beside ours were made on other machines in other years.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_about_repetition_depends_on_the_rounds() {
        assert!(limitations(1)[1].contains("once each"));
        assert!(limitations(4)[1].contains("in 4 rounds: forwards in odd rounds and backwards in even ones"));
        assert_eq!(limitations(1).len(), limitations(4).len());
    }
}
