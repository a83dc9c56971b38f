//! The thread between sources and workers: receives changes, runs the [`Engine`], publishes its snapshots.
//!
//! The first change of a burst is applied at once; the following ones wait briefly so that they are applied together.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use fairway_model::Config;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::options::Options;
use fairway_objects::resources::Change;
use fairway_routing::Snapshot;
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use crate::clock;
use crate::dry_run::Trial;
use crate::engine::{Effect, Engine, EngineOutput};
use crate::input::{ChangeBatch, Inlet, PipelineInput, pipe};
use crate::journal::DiagnosticsLog;
use crate::resolve::Resolver;
use crate::retired::Retired;

/// How long changes are batched after a publication.
const BATCH_WINDOW: Duration = Duration::from_millis(2);
/// How often replaced snapshots are freed.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// How often everything is reevaluated because time has passed: certificates expire.
const REEVALUATION_INTERVAL: Duration = Duration::from_secs(60);

/// Receives every snapshot to serve; must not block.
pub type PublishSnapshot = Box<dyn FnMut(Publication) + Send>;

/// A snapshot to serve.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The engine's output.
    pub outcome: EngineOutput,
    /// When the source received the first change in it.
    pub received_at: Instant,
    /// When the first change was written to the cluster, if the object says so.
    pub written: Option<SystemTime>,
    /// Where it came from.
    pub freshness: Freshness,
}

/// The running pipeline.
#[derive(Debug)]
pub struct Pipeline {
    inlet: Inlet,
    shared: Arc<PipelineShared>,
}

/// The current state of the pipeline.
#[derive(Clone, Debug)]
pub struct View {
    /// The engine's output.
    pub outcome: EngineOutput,
    /// The diagnostics of the source.
    pub source: Arc<[Diagnostic]>,
    /// When the current snapshot was published.
    pub published: SystemTime,
    /// From the source's event to the publication.
    pub delay: Duration,
    /// Where the configuration came from.
    pub freshness: Freshness,
    /// Snapshots kept for workers that have not adopted a newer one, including the current one.
    pub retained: usize,
}

/// Where the current configuration came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// From the source, as last sent.
    Current,
    /// From an earlier process: the source has not sent anything yet.
    Stale,
}

#[derive(Debug, Default)]
struct PipelineShared {
    view: Mutex<Option<View>>,
    first: Condvar,
    /// Counts the updates.
    updates: watch::Sender<u64>,
}

impl Pipeline {
    /// Starts the thread. Nothing is published before the first batch.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(options: Options, publish: PublishSnapshot) -> io::Result<Self> {
        let (inlet, outlet) = pipe();
        let shared = Arc::<PipelineShared>::default();
        let worker = PipelineThread {
            engine: Engine::new(options),
            publish,
            shared: shared.clone(),
            source: Arc::default(),
            journal: DiagnosticsLog::default(),
            retired: Retired::default(),
            swept: Instant::now(),
            resolver: ResolverState::NotStarted(inlet.clone()),
            freshness: Freshness::Current,
        };
        thread::Builder::new().name("fairway-control".into()).spawn(move || worker.run(&outlet.0))?;
        Ok(Self { inlet, shared })
    }

    /// The input side.
    #[must_use]
    pub fn inlet(&self) -> Inlet {
        self.inlet.clone()
    }

    /// The current state; `None` before the first batch was applied.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.shared.lock().clone()
    }

    /// A handle to [`Pipeline::view`] for other threads.
    #[must_use]
    pub fn viewer(&self) -> Viewer {
        Viewer(self.shared.clone())
    }

    /// Waits until the first batch is applied.
    #[must_use]
    pub fn wait_for_first(&self, timeout: Duration) -> Option<View> {
        let waiting = |view: &mut Option<View>| view.is_none();
        let waited = self.shared.first.wait_timeout_while(self.shared.lock(), timeout, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Ends the thread after the inputs that are already queued.
    pub fn stop(&self) {
        _ = self.inlet.0.send(PipelineInput::Stop);
    }
}

/// Reads the state of the pipeline.
#[derive(Clone, Debug)]
pub struct Viewer(Arc<PipelineShared>);

impl Viewer {
    /// See [`Pipeline::view`].
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.0.lock().clone()
    }

    /// Changes with every update.
    #[must_use]
    pub fn updates(&self) -> watch::Receiver<u64> {
        self.0.updates.subscribe()
    }
}

/// For tests of readers.
#[doc(hidden)]
impl Viewer {
    /// A viewer without a pipeline and without a view.
    #[must_use]
    pub fn blank() -> Self {
        Self(Arc::default())
    }

    /// Sets the view to `outcome`.
    pub fn set_outcome(&self, outcome: EngineOutput) {
        self.set_outcome_and_source(outcome, Arc::default());
    }

    /// The same with diagnostics of the source.
    pub fn set_outcome_and_source(&self, outcome: EngineOutput, source: Arc<[Diagnostic]>) {
        let (published, delay) = (SystemTime::now(), Duration::ZERO);
        let freshness = Freshness::Current;
        *self.0.lock() = Some(View { outcome, source, published, delay, freshness, retained: 1 });
        self.0.updates.send_modify(|count| *count += 1);
    }
}

impl View {
    /// All diagnostics: of files, of objects and of compilation.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.source.iter().chain(self.outcome.diagnostics().iter()).chain(self.outcome.problems.iter())
    }
}

impl PipelineShared {
    fn lock(&self) -> MutexGuard<'_, Option<View>> {
        // Only complete values are stored, so a panic elsewhere leaves a valid one.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PipelineThread {
    engine: Engine,
    publish: PublishSnapshot,
    shared: Arc<PipelineShared>,
    source: Arc<[Diagnostic]>,
    journal: DiagnosticsLog,
    retired: Retired<Snapshot>,
    swept: Instant,
    resolver: ResolverState,
    freshness: Freshness,
}

/// The resolver starts with the first external name.
enum ResolverState {
    NotStarted(Inlet),
    Running(Resolver),
}

/// The inputs since the last update.
#[derive(Default)]
struct PendingInputs {
    changes: Vec<Change>,
    source: Option<Vec<Diagnostic>>,
    received_at: Option<Instant>,
    written: Option<SystemTime>,
    restore: Option<Box<Config>>,
    lend: Vec<oneshot::Sender<Option<Trial>>>,
    stop: bool,
}

impl PendingInputs {
    fn add(&mut self, input: PipelineInput) {
        match input {
            PipelineInput::Batch(ChangeBatch { changes, diagnostics, received_at: heard, written }) => {
                self.changes.extend(changes);
                self.source = Some(diagnostics);
                self.received_at.get_or_insert(heard);
                self.written = match (self.written, written) {
                    (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
                    (ours, theirs) => ours.or(theirs),
                };
            }
            PipelineInput::Change(change) => {
                self.changes.push(change);
                self.received_at.get_or_insert_with(Instant::now);
            }
            PipelineInput::Restore(config) => self.restore = Some(config),
            PipelineInput::Lend(reply) => self.lend.push(reply),
            PipelineInput::Stop => self.stop = true,
        }
    }
}

impl PipelineThread {
    fn run(mut self, inputs: &Receiver<PipelineInput>) {
        let mut gathered = PendingInputs::default();
        let (mut gather_until, mut judged) = (Instant::now(), Instant::now());
        while !gathered.stop {
            match inputs.recv_timeout(SWEEP_INTERVAL) {
                Ok(input) => gathered.add(input),
                Err(RecvTimeoutError::Timeout) => {
                    self.sweep();
                    // A restored configuration is not reevaluated: its objects were not read.
                    if judged.elapsed() < REEVALUATION_INTERVAL || !self.has_objects() {
                        continue;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(input) = inputs.recv_timeout(gather_until.saturating_duration_since(Instant::now()))
            {
                gathered.add(input);
            }
            let stop = gathered.stop;
            self.apply(std::mem::take(&mut gathered));
            gathered.stop = stop;
            judged = Instant::now();
            // Continuous changes must not delay freeing replaced snapshots.
            if self.swept.elapsed() >= SWEEP_INTERVAL {
                self.sweep();
            }
            gather_until = judged + BATCH_WINDOW;
        }
    }

    fn has_objects(&self) -> bool {
        self.engine.current().is_some() && self.freshness == Freshness::Current
    }

    fn apply(&mut self, mut gathered: PendingInputs) {
        if let Some(config) = gathered.restore.take() {
            self.restore(*config);
        }
        let lend = std::mem::take(&mut gathered.lend);
        // Before the source has sent anything, there is nothing to translate.
        if gathered.source.is_some() || self.has_objects() {
            self.update(gathered);
        }
        for reply in lend {
            // The requester may be gone.
            _ = reply.send(self.has_objects().then(|| Trial::new(&self.engine)));
        }
    }

    fn restore(&mut self, config: Config) {
        if self.engine.current().is_some() {
            return;
        }
        self.engine.restore(config);
        self.freshness = Freshness::Stale;
        if let Some(outcome) = self.engine.current().cloned() {
            self.publish(&outcome, Instant::now(), None);
            self.update_view(outcome, Effect::NewSnapshot, Duration::ZERO);
        }
    }

    fn publish(&mut self, outcome: &EngineOutput, reported_at: Instant, written: Option<SystemTime>) {
        let freshness = self.freshness;
        (self.publish)(Publication {
            outcome: outcome.clone(),
            received_at: reported_at,
            written,
            freshness,
        });
        self.retired.retire(outcome.snapshot.clone());
    }

    fn update(&mut self, gathered: PendingInputs) {
        self.freshness = Freshness::Current;
        let received_at = gathered.received_at.unwrap_or_else(Instant::now);
        if let Some(source) = gathered.source {
            self.source = source.into();
        }
        let before = self.engine.current().map(|outcome| outcome.snapshot.clone());
        let effect = self.engine.update(gathered.changes, clock::unix_seconds());
        let Some(outcome) = self.engine.current().cloned() else {
            return;
        };
        self.resolve(&outcome);
        if effect == Effect::NewSnapshot {
            self.publish(&outcome, received_at, gathered.written);
        }
        drop(before);
        self.journal.log_changes(&self.source, &outcome);
        self.update_view(outcome, effect, received_at.elapsed());
    }

    /// Frees replaced snapshots that no worker holds any more.
    fn sweep(&mut self) {
        self.retired.sweep();
        self.swept = Instant::now();
        if let Some(view) = &mut *self.shared.lock() {
            view.retained = self.retired.len();
        }
    }

    fn update_view(&self, outcome: EngineOutput, effect: Effect, delay: Duration) {
        let mut shared = self.shared.lock();
        let (published, delay) = match (&*shared, effect) {
            (Some(view), Effect::Unchanged) => (view.published, view.delay),
            _ => (SystemTime::now(), delay),
        };
        let version = outcome.snapshot.version();
        *shared = Some(View {
            outcome,
            source: self.source.clone(),
            published,
            delay,
            freshness: self.freshness,
            retained: self.retired.len(),
        });
        drop(shared);
        self.shared.first.notify_all();
        self.shared.updates.send_modify(|count| *count += 1);
        tracing::debug!(version, ?effect, ?delay, "configuration updated");
    }

    fn resolve(&mut self, outcome: &EngineOutput) {
        let names: Vec<_> = outcome.translation.external_names.iter().cloned().collect();
        if let ResolverState::NotStarted(inlet) = &self.resolver {
            if names.is_empty() {
                return;
            }
            match Resolver::start(inlet.clone()) {
                Ok(resolver) => self.resolver = ResolverState::Running(resolver),
                Err(error) => tracing::error!(%error, "external names cannot be resolved"),
            }
        }
        if let ResolverState::Running(resolver) = &self.resolver {
            resolver.set_names(names);
        }
    }
}
