//! Between the control side and the data plane, which start at different times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fairway_cluster::status::Bindings;
use fairway_control::admin::Readiness;
use fairway_control::generations::Generations;
use fairway_control::state::Keeper;
use fairway_control::{Freshness, Propagation, Publication};
use fairway_model::Config;
use fairway_proxy::{
    BindError, CertificateProblem, FleetLimits, Logouts, Opening, Proxy, ProxyHandle, ProxyOptions,
    PublishProblem, Publisher, SessionTickets, StartError, Unbound,
};

use super::bound::BoundAddresses;
use super::reporting::Reporting;
use super::telemetry::Telemetry;

/// How often an address that cannot be bound is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(1);

/// Between the pipeline, which may publish before the data plane stands, and the data plane, which starts with the
/// latest snapshot.
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
    /// Follows the collector of the configuration.
    telemetry: Option<Arc<Telemetry>>,
}

#[derive(Default)]
struct GateState {
    latest: Option<Publication>,
    serving: Option<Serving>,
    keeper: Option<Keeper>,
    reporting: Option<Reporting>,
}

/// The running data plane.
struct Serving {
    publisher: Publisher,
    handle: ProxyHandle,
    /// To the thread that waits for adoptions.
    published: Sender<Publication>,
}

impl Gate {
    /// Nothing is published yet; clients will resume their sessions by `tickets`.
    pub(super) fn new(tickets: SessionTickets, telemetry: Arc<Telemetry>) -> Self {
        let fleet = FleetLimits::new(tickets.clone());
        Self { tickets, fleet, telemetry: Some(telemetry), ..Self::default() }
    }

    /// What clients resume their sessions by.
    pub(super) fn tickets(&self) -> SessionTickets {
        self.tickets.clone()
    }

    /// Sessions that providers have ended.
    pub(super) fn logouts(&self) -> Logouts {
        self.logouts.clone()
    }

    /// The limits that replicas share.
    pub(super) fn fleet(&self) -> FleetLimits {
        self.fleet.clone()
    }

    /// Keeps what is published on disk too.
    pub(super) fn keep(&self, keeper: Keeper) {
        self.lock().keeper = Some(keeper);
    }

    /// Tells the cluster when the process leaves.
    pub(super) fn tell(&self, reporting: Option<Reporting>) {
        self.lock().reporting = reporting;
    }

    pub(super) fn publish(&self, publication: Publication) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.adopt(&publication.outcome.snapshot.config().settings);
        }
        let mut state = self.lock();
        self.generations.note_publication(&publication);
        if let Some(serving) = &state.serving {
            let problems = serving.publisher.publish(publication.outcome.snapshot.clone());
            problems.iter().for_each(warn_of);
            self.bound.note(&publication.outcome.translation.config, &serving.publisher, &problems);
            // The thread ends with the process.
            _ = serving.published.send(publication.clone());
        }
        if let (Some(keeper), Freshness::Current) = (&state.keeper, publication.freshness) {
            keeper.keep(publication.outcome.translation.config.clone());
        }
        state.latest = Some(publication);
    }

    /// Starts the data plane with the latest snapshot; no publication can fall in between.
    pub(super) fn open(&self, mut options: ProxyOptions, opening: Opening) -> Result<Proxy> {
        let mut state = self.lock();
        let first = state.latest.clone().context("the first configuration is there")?.outcome.snapshot;
        // The settings ConfigMap goes before the flag; later changes wait for the next start and say so.
        if let Some(workers) = first.config().settings.workers {
            options.workers = usize::try_from(workers)?.max(1);
        }
        let proxy = Proxy::start_with(options, first.clone(), opening).map_err(|error| match error {
            StartError::Bind(error) => anyhow!("--{} {}: {}", error.listener, error.address, error.error),
            error => error.into(),
        })?;
        self.bound.note(first.config(), &proxy.publisher(), &[]);
        let adoption = Adoption {
            publisher: proxy.publisher(),
            propagation: self.propagation.clone(),
            generations: self.generations.clone(),
            bound: self.bound.clone(),
            config: first.config().clone(),
        };
        let published = adoption.watch(first.version())?;
        state.serving = Some(Serving { publisher: proxy.publisher(), handle: proxy.handle(), published });
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
        Readiness::judge(published, adopted)
    }

    /// The version of the oldest snapshot that a worker serves by; 0 before every worker has one.
    pub(super) fn adopted(&self) -> u64 {
        self.lock().serving.as_ref().map_or(0, |serving| serving.publisher.adopted_version())
    }

    /// Which addresses of Gateways are bound.
    pub(super) fn bindings(&self) -> Bindings {
        self.bound.bindings()
    }

    /// The configurations of the last day.
    pub(super) fn generations(&self) -> Arc<Generations> {
        self.generations.clone()
    }

    /// Where listeners of the latest snapshot are not served, and why.
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

    /// Whether the process was told to stop.
    pub(super) fn is_leaving(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Not ready from now on. The cluster is told on a thread of its own: it may be slow.
    pub(super) fn leave(&self) {
        self.draining.store(true, Ordering::Release);
        let reporting = self.lock().reporting.take();
        if let Some(reporting) = reporting
            && let Err(error) =
                thread::Builder::new().name("fairway-leave".into()).spawn(move || reporting.stop())
        {
            tracing::warn!(%error, "the cluster is not told that this replica leaves");
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        // Every change under the lock is one assignment: a panic elsewhere leaves a good value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn_of(problem: &PublishProblem) {
    match problem {
        PublishProblem::Certificate(CertificateProblem { certificate, error }) => {
            tracing::warn!(%certificate, %error, "a certificate cannot be used");
        }
        PublishProblem::Trust(error) => tracing::warn!("{error}"),
        PublishProblem::Listener(BindError { listener, address, is_for_http3: true, error }) => {
            tracing::warn!(
                %listener, %address, %error,
                "cannot listen over UDP: there is no HTTP/3 at this address until the port is free, which is tried every \
                 second; HTTP/1.1 and HTTP/2 are served there"
            );
        }
        PublishProblem::Listener(BindError { listener, address, error, .. }) => {
            tracing::warn!(
                %listener, %address, %error,
                "cannot listen: nothing is served at this address until it is free, which is tried every second; all \
                 others are served"
            );
        }
    }
}

/// Measures how long each publication takes to the last worker, and tries to bind again what could not be bound.
struct Adoption {
    publisher: Publisher,
    propagation: Arc<Propagation>,
    generations: Arc<Generations>,
    bound: Arc<BoundAddresses>,
    /// The one that was published last.
    config: Config,
}

impl Adoption {
    /// Starts the thread; the data plane began with version `first`.
    fn watch(mut self, first: u64) -> Result<Sender<Publication>> {
        let (sender, receiver): (_, Receiver<Publication>) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let watch = move || {
            runtime.block_on(self.publisher.adopted(first));
            self.generations.note_adoption(first);
            while let Some(publication) = self.next(&receiver) {
                let Publication { outcome, heard, written, freshness } = publication;
                self.config = outcome.translation.config;
                runtime.block_on(self.publisher.adopted(outcome.snapshot.version()));
                self.generations.note_adoption(outcome.snapshot.version());
                if freshness == Freshness::Current {
                    // A clock that was set back shows no time at all.
                    let written = written.map(|written| written.elapsed().unwrap_or_default());
                    self.propagation.observe(heard.elapsed(), written);
                }
            }
        };
        thread::Builder::new().name("fairway-adoption".into()).spawn(watch)?;
        Ok(sender)
    }

    /// The next publication; `None` at the process's end.
    fn next(&self, receiver: &Receiver<Publication>) -> Option<Publication> {
        while !self.publisher.is_bound() {
            match receiver.recv_timeout(BIND_AGAIN) {
                Ok(publication) => return Some(publication),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let problems = self.publisher.bind_again();
                    problems.iter().for_each(warn_of);
                    self.bound.note(&self.config, &self.publisher, &problems);
                }
            }
            if self.publisher.is_bound() {
                tracing::info!("every listener is bound now");
            }
        }
        receiver.recv().ok()
    }
}
