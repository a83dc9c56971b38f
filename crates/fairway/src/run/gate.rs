//! Connects the pipeline to the data plane, which starts later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fairway_cluster::status::Bindings;
use fairway_control::admin::Readiness;
use fairway_control::generations::Generations;
use fairway_control::state::StateWriter;
use fairway_control::{Freshness, Propagation, Publication};
use fairway_model::Config;
use fairway_proxy::{
    BindError, CertificateProblem, FleetLimits, Logouts, Proxy, ProxyHandle, ProxyOptions, PublishProblem,
    Publisher, SessionTickets, StartError, StartupSockets, Unbound,
};

use super::bound_addresses::BoundAddresses;
use super::reporting::Reporting;
use super::telemetry::Telemetry;

/// Interval of the attempts to bind an address that could not be bound.
const REBIND_INTERVAL: Duration = Duration::from_secs(1);

/// Passes publications of the pipeline to the data plane. The pipeline may publish before the data plane runs, which then starts
/// with the latest snapshot.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    draining: AtomicBool,
    propagation: Arc<Propagation>,
    generations: Arc<Generations>,
    bound: Arc<BoundAddresses>,
    tickets: SessionTickets,
    logouts: Logouts,
    fleet: FleetLimits,
    /// Gets the collector of each published configuration.
    telemetry: Option<Arc<Telemetry>>,
}

#[derive(Default)]
struct GateState {
    latest: Option<Publication>,
    serving: Option<RunningProxy>,
    keeper: Option<StateWriter>,
    reporting: Option<Reporting>,
}

/// The running data plane.
struct RunningProxy {
    publisher: Publisher,
    handle: ProxyHandle,
    /// The channel to the thread that waits for adoptions.
    published: Sender<Publication>,
}

impl Gate {
    /// A gate without a publication. `tickets` are the keys for resuming TLS sessions.
    pub(super) fn new(tickets: SessionTickets, telemetry: Arc<Telemetry>) -> Self {
        let fleet = FleetLimits::new(tickets.clone());
        Self { tickets, fleet, telemetry: Some(telemetry), ..Self::default() }
    }

    /// The keys for resuming TLS sessions.
    pub(super) fn tickets(&self) -> SessionTickets {
        self.tickets.clone()
    }

    /// Sessions that their login providers have ended.
    pub(super) fn logouts(&self) -> Logouts {
        self.logouts.clone()
    }

    /// The limits that the replicas share.
    pub(super) fn fleet(&self) -> FleetLimits {
        self.fleet.clone()
    }

    /// Sets the keeper that saves published configurations on disk.
    pub(super) fn set_keeper(&self, keeper: StateWriter) {
        self.lock().keeper = Some(keeper);
    }

    /// Sets the reporting to stop when the process leaves.
    pub(super) fn set_reporting(&self, reporting: Option<Reporting>) {
        self.lock().reporting = reporting;
    }

    pub(super) fn publish(&self, publication: Publication) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.adopt(&publication.outcome.snapshot.config().settings);
        }
        let mut state = self.lock();
        self.generations.record_publication(&publication);
        if let Some(serving) = &state.serving {
            let problems = serving.publisher.publish(publication.outcome.snapshot.clone());
            problems.iter().for_each(log_problem);
            self.bound.record_publication(
                &publication.outcome.translation.config,
                &serving.publisher,
                &problems,
            );
            // The receiving thread lives as long as the process.
            _ = serving.published.send(publication.clone());
        }
        if let (Some(keeper), Freshness::Current) = (&state.keeper, publication.freshness) {
            keeper.store(publication.outcome.translation.config.clone());
        }
        state.latest = Some(publication);
    }

    /// Starts the data plane with the latest snapshot. Holds the lock, so that no publication is missed.
    pub(super) fn start_proxy(&self, mut options: ProxyOptions, opening: StartupSockets) -> Result<Proxy> {
        let mut state = self.lock();
        let first = state.latest.clone().context("there is no configuration yet")?.outcome.snapshot;
        // The settings ConfigMap takes precedence over the flag. Later changes give a diagnostic and apply at the next start.
        if let Some(workers) = first.config().settings.workers {
            options.workers = usize::try_from(workers)?.max(1);
        }
        let proxy = Proxy::start_with(options, first.clone(), opening).map_err(|error| match error {
            StartError::Bind(error) => anyhow!("--{} {}: {}", error.listener, error.address, error.error),
            error => error.into(),
        })?;
        self.bound.record_publication(first.config(), &proxy.publisher(), &[]);
        let adoption = AdoptionWatcher {
            publisher: proxy.publisher(),
            propagation: self.propagation.clone(),
            generations: self.generations.clone(),
            bound: self.bound.clone(),
            config: first.config().clone(),
        };
        let published = adoption.watch(first.version())?;
        state.serving =
            Some(RunningProxy { publisher: proxy.publisher(), handle: proxy.handle(), published });
        Ok(proxy)
    }

    pub(super) fn readiness(&self) -> Readiness {
        if self.is_leaving() {
            return Readiness::Draining { pod_is_deleted: false };
        }
        let adopted = self.adopted();
        let state = self.lock();
        if state.serving.as_ref().is_some_and(|serving| serving.handle.sheds_without_load()) {
            return Readiness::OutOfMemory;
        }
        let published = state.latest.as_ref().map(|it| (it.outcome.snapshot.version(), it.freshness));
        Readiness::from_versions(published, adopted)
    }

    /// The oldest version that a worker still serves; 0 until every worker has a snapshot.
    pub(super) fn adopted(&self) -> u64 {
        self.lock().serving.as_ref().map_or(0, |serving| serving.publisher.adopted_version())
    }

    /// The bound addresses of Gateways.
    pub(super) fn bindings(&self) -> Bindings {
        self.bound.bindings()
    }

    /// The configurations of the last day.
    pub(super) fn generations(&self) -> Arc<Generations> {
        self.generations.clone()
    }

    /// Addresses of the latest snapshot's listeners that are not bound, and why.
    pub(super) fn unbound(&self) -> Vec<Unbound> {
        let publisher = self.lock().serving.as_ref().map(|serving| serving.publisher.clone());
        publisher.map(|publisher| publisher.unbound()).unwrap_or_default()
    }

    pub(super) fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    pub(super) fn handle(&self) -> Option<ProxyHandle> {
        self.lock().serving.as_ref().map(|serving| serving.handle.clone())
    }

    /// Whether the process has been asked to stop.
    pub(super) fn is_leaving(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Makes the process not ready. A separate thread stops the reporting, because the cluster may be slow.
    pub(super) fn start_leaving(&self) {
        self.draining.store(true, Ordering::Release);
        let reporting = self.lock().reporting.take();
        if let Some(reporting) = reporting
            && let Err(error) =
                thread::Builder::new().name("fairway-leave".into()).spawn(move || reporting.stop())
        {
            tracing::warn!(%error, "cannot report to the cluster that this replica leaves");
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        // Every change under the lock is a single assignment, so a panic elsewhere leaves a consistent value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_problem(problem: &PublishProblem) {
    match problem {
        PublishProblem::Certificate(CertificateProblem { certificate, error }) => {
            tracing::warn!(%certificate, %error, "a certificate cannot be used");
        }
        PublishProblem::Trust(error) => tracing::warn!("{error}"),
        PublishProblem::Listener(BindError { listener, address, is_for_http3: true, error }) => {
            tracing::warn!(
                %listener, %address, %error,
                "cannot bind the UDP port: HTTP/3 is not available at this address, HTTP/1.1 and HTTP/2 are; retrying every \
                 second"
            );
        }
        PublishProblem::Listener(BindError { listener, address, error, .. }) => {
            tracing::warn!(
                %listener, %address, %error,
                "cannot bind: this address is not served, all others are; retrying every second"
            );
        }
    }
}

/// Measures how long each publication takes to reach the last worker, and retries addresses that could not be bound.
struct AdoptionWatcher {
    publisher: Publisher,
    propagation: Arc<Propagation>,
    generations: Arc<Generations>,
    bound: Arc<BoundAddresses>,
    /// The configuration that was published last.
    config: Config,
}

impl AdoptionWatcher {
    /// Starts the thread. `first` is the version that the data plane started with.
    fn watch(mut self, first: u64) -> Result<Sender<Publication>> {
        let (sender, receiver): (_, Receiver<Publication>) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let watch = move || {
            runtime.block_on(self.publisher.wait_until_adopted(first));
            self.generations.record_adoption(first);
            while let Some(publication) = self.next_publication(&receiver) {
                let Publication { outcome, received_at: heard, written, freshness } = publication;
                self.config = outcome.translation.config;
                runtime.block_on(self.publisher.wait_until_adopted(outcome.snapshot.version()));
                self.generations.record_adoption(outcome.snapshot.version());
                if freshness == Freshness::Current {
                    // If the clock was set back, the elapsed time counts as zero.
                    let written = written.map(|written| written.elapsed().unwrap_or_default());
                    self.propagation.observe(heard.elapsed(), written);
                }
            }
        };
        thread::Builder::new().name("fairway-adoption".into()).spawn(watch)?;
        Ok(sender)
    }

    /// Waits for the next publication, retrying binds meanwhile. `None` once the process ends.
    fn next_publication(&self, receiver: &Receiver<Publication>) -> Option<Publication> {
        while !self.publisher.is_bound() {
            match receiver.recv_timeout(REBIND_INTERVAL) {
                Ok(publication) => return Some(publication),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let problems = self.publisher.retry_binds();
                    problems.iter().for_each(log_problem);
                    self.bound.record_publication(&self.config, &self.publisher, &problems);
                }
            }
            if self.publisher.is_bound() {
                tracing::info!("all listeners are bound");
            }
        }
        receiver.recv().ok()
    }
}
