//! The thread between the sources and the workers: takes changes, keeps the [`Engine`], publishes its snapshots.
//!
//! The first change of a burst is applied at once; its followers wait a moment so that they are applied together.

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
use crate::engine::{Effect, Engine, Outcome};
use crate::inlet::{Batch, Inlet, Input, pipe};
use crate::journal::Journal;
use crate::resolve::Resolver;
use crate::retired::Retired;
use crate::trial::Trial;

/// After a publication, further changes are gathered for so long.
const GATHER: Duration = Duration::from_millis(2);
/// How often replaced snapshots are looked at.
const SWEEP: Duration = Duration::from_millis(500);
/// How often everything is judged again because time has passed: certificates expire.
const AGE: Duration = Duration::from_secs(60);

/// Receives every snapshot to be served; must not block.
pub type Publish = Box<dyn FnMut(Publication) + Send>;

/// A snapshot to be served, and since when it is due.
#[derive(Clone, Debug)]
pub struct Publication {
    /// What was made of the objects.
    pub outcome: Outcome,
    /// When the source heard of the first change in it.
    pub heard: Instant,
    /// When the first of its changes was written to the cluster, where its object says so.
    pub written: Option<SystemTime>,
    /// Where it is from.
    pub freshness: Freshness,
}

/// The running pipeline.
#[derive(Debug)]
pub struct Pipeline {
    inlet: Inlet,
    shared: Arc<Shared>,
}

/// What the pipeline has done so far.
#[derive(Clone, Debug)]
pub struct View {
    /// What was made of the objects.
    pub outcome: Outcome,
    /// What the source has to say.
    pub source: Arc<[Diagnostic]>,
    /// When the current snapshot was published.
    pub published: SystemTime,
    /// From the source's event to the publication.
    pub delay: Duration,
    /// Where the configuration is from.
    pub freshness: Freshness,
    /// Snapshots that are kept for workers which have not adopted a newer one yet, the current one included.
    pub kept: usize,
}

/// Where the current configuration is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// From the source, as it was sent last.
    Current,
    /// From an earlier process: the source has sent nothing yet.
    Stale,
}

#[derive(Debug, Default)]
struct Shared {
    view: Mutex<Option<View>>,
    first: Condvar,
    /// Counts the updates.
    updates: watch::Sender<u64>,
}

impl Pipeline {
    /// Starts the thread. Nothing is published before the first batch came.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(options: Options, publish: Publish) -> io::Result<Self> {
        let (inlet, outlet) = pipe();
        let shared = Arc::<Shared>::default();
        let worker = Worker {
            engine: Engine::new(options),
            publish,
            shared: shared.clone(),
            source: Arc::default(),
            journal: Journal::default(),
            retired: Retired::default(),
            swept: Instant::now(),
            resolver: Resolution::Unneeded(inlet.clone()),
            freshness: Freshness::Current,
        };
        thread::Builder::new().name("fairway-control".into()).spawn(move || worker.run(&outlet.0))?;
        Ok(Self { inlet, shared })
    }

    /// The way in.
    #[must_use]
    pub fn inlet(&self) -> Inlet {
        self.inlet.clone()
    }

    /// What was done so far; `None` before the first batch is through.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.shared.lock().clone()
    }

    /// Another way to ask [`Pipeline::view`], for other threads.
    #[must_use]
    pub fn viewer(&self) -> Viewer {
        Viewer(self.shared.clone())
    }

    /// Waits until the first batch is through.
    #[must_use]
    pub fn wait_for_first(&self, timeout: Duration) -> Option<View> {
        let waiting = |view: &mut Option<View>| view.is_none();
        let waited = self.shared.first.wait_timeout_while(self.shared.lock(), timeout, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Ends the thread after what was sent before.
    pub fn stop(&self) {
        _ = self.inlet.0.send(Input::Stop);
    }
}

/// Shows what the pipeline has done.
#[derive(Clone, Debug)]
pub struct Viewer(Arc<Shared>);

impl Viewer {
    /// See [`Pipeline::view`].
    #[must_use]
    pub fn view(&self) -> Option<View> {
        self.0.lock().clone()
    }

    /// Changes with every update, so that nobody needs to ask again and again.
    #[must_use]
    pub fn updates(&self) -> watch::Receiver<u64> {
        self.0.updates.subscribe()
    }
}

/// For the tests of those who look.
#[doc(hidden)]
impl Viewer {
    /// One that shows nothing yet, without a pipeline.
    #[must_use]
    pub fn blank() -> Self {
        Self(Arc::default())
    }

    /// Shows `outcome` from now on.
    pub fn show(&self, outcome: Outcome) {
        self.show_of(outcome, Arc::default());
    }

    /// The same of a source that has something to say.
    pub fn show_of(&self, outcome: Outcome, source: Arc<[Diagnostic]>) {
        let (published, delay) = (SystemTime::now(), Duration::ZERO);
        let freshness = Freshness::Current;
        *self.0.lock() = Some(View { outcome, source, published, delay, freshness, kept: 1 });
        self.0.updates.send_modify(|count| *count += 1);
    }
}

impl View {
    /// Everything there is to say: about files, objects and what could not be compiled.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.source.iter().chain(self.outcome.diagnostics().iter()).chain(self.outcome.problems.iter())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<View>> {
        // Only whole values are ever put in, so that a panic elsewhere leaves a good one.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    engine: Engine,
    publish: Publish,
    shared: Arc<Shared>,
    source: Arc<[Diagnostic]>,
    journal: Journal,
    retired: Retired<Snapshot>,
    swept: Instant,
    resolver: Resolution,
    freshness: Freshness,
}

/// The resolver is started by the first external name.
enum Resolution {
    Unneeded(Inlet),
    Running(Resolver),
}

/// What came since the last update.
#[derive(Default)]
struct Gathered {
    changes: Vec<Change>,
    source: Option<Vec<Diagnostic>>,
    heard: Option<Instant>,
    written: Option<SystemTime>,
    restore: Option<Box<Config>>,
    lend: Vec<oneshot::Sender<Option<Trial>>>,
    stop: bool,
}

impl Gathered {
    fn take(&mut self, input: Input) {
        match input {
            Input::Batch(Batch { changes, diagnostics, heard, written }) => {
                self.changes.extend(changes);
                self.source = Some(diagnostics);
                self.heard.get_or_insert(heard);
                self.written = match (self.written, written) {
                    (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
                    (ours, theirs) => ours.or(theirs),
                };
            }
            Input::Change(change) => {
                self.changes.push(change);
                self.heard.get_or_insert_with(Instant::now);
            }
            Input::Restore(config) => self.restore = Some(config),
            Input::Lend(reply) => self.lend.push(reply),
            Input::Stop => self.stop = true,
        }
    }
}

impl Worker {
    fn run(mut self, inputs: &Receiver<Input>) {
        let mut gathered = Gathered::default();
        let (mut gather_until, mut judged) = (Instant::now(), Instant::now());
        while !gathered.stop {
            match inputs.recv_timeout(SWEEP) {
                Ok(input) => gathered.take(input),
                Err(RecvTimeoutError::Timeout) => {
                    self.sweep();
                    // What an earlier process served is not judged by objects that were not read.
                    if judged.elapsed() < AGE || !self.has_objects() {
                        continue;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(input) = inputs.recv_timeout(gather_until.saturating_duration_since(Instant::now()))
            {
                gathered.take(input);
            }
            let stop = gathered.stop;
            self.take(std::mem::take(&mut gathered));
            gathered.stop = stop;
            judged = Instant::now();
            // Changes that never rest must not keep what they replace.
            if self.swept.elapsed() >= SWEEP {
                self.sweep();
            }
            gather_until = judged + GATHER;
        }
    }

    fn has_objects(&self) -> bool {
        self.engine.current().is_some() && self.freshness == Freshness::Current
    }

    fn take(&mut self, mut gathered: Gathered) {
        if let Some(config) = gathered.restore.take() {
            self.restore(*config);
        }
        let lend = std::mem::take(&mut gathered.lend);
        // Before the source has sent something, there is nothing to make a configuration of.
        if gathered.source.is_some() || self.has_objects() {
            self.update(gathered);
        }
        for reply in lend {
            // Who no longer waits needs no copy.
            _ = reply.send(self.has_objects().then(|| Trial::of(&self.engine)));
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
            self.show(outcome, Effect::NewSnapshot, Duration::ZERO);
        }
    }

    fn publish(&mut self, outcome: &Outcome, heard: Instant, written: Option<SystemTime>) {
        let freshness = self.freshness;
        (self.publish)(Publication { outcome: outcome.clone(), heard, written, freshness });
        self.retired.retire(outcome.snapshot.clone());
    }

    fn update(&mut self, gathered: Gathered) {
        self.freshness = Freshness::Current;
        let heard = gathered.heard.unwrap_or_else(Instant::now);
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
            self.publish(&outcome, heard, gathered.written);
        }
        drop(before);
        self.journal.note(&self.source, &outcome);
        self.show(outcome, effect, heard.elapsed());
    }

    /// Frees replaced snapshots that no worker holds any more.
    fn sweep(&mut self) {
        self.retired.sweep();
        self.swept = Instant::now();
        if let Some(view) = &mut *self.shared.lock() {
            view.kept = self.retired.len();
        }
    }

    fn show(&self, outcome: Outcome, effect: Effect, delay: Duration) {
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
            kept: self.retired.len(),
        });
        drop(shared);
        self.shared.first.notify_all();
        self.shared.updates.send_modify(|count| *count += 1);
        tracing::debug!(version, ?effect, ?delay, "configuration updated");
    }

    fn resolve(&mut self, outcome: &Outcome) {
        let names: Vec<_> = outcome.translation.external_names.iter().cloned().collect();
        if let Resolution::Unneeded(inlet) = &self.resolver {
            if names.is_empty() {
                return;
            }
            match Resolver::start(inlet.clone()) {
                Ok(resolver) => self.resolver = Resolution::Running(resolver),
                Err(error) => tracing::error!(%error, "external names cannot be resolved"),
            }
        }
        if let Resolution::Running(resolver) = &self.resolver {
            resolver.want(names);
        }
    }
}
