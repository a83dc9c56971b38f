//! Changes in, snapshot out: objects -> translation -> snapshot, each step at a cost proportional to the change. No thread;
//! the time of day is passed in, and the monotonic clock only measures how long each step takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway_ingress::{Translation, Translator};
use fairway_model::Config;
use fairway_objects::diagnostic::{Diagnostic, Diagnostics, Severity};
use fairway_objects::options::Options;
use fairway_objects::resources::{Change, Resources};
use fairway_routing::{Compiled, Problem, Snapshot, compile};

use crate::changed::ChangedObjects;
use crate::digest::{Digest, RunningDigest};

/// The current objects and what was made from them. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Engine {
    resources: Resources,
    translator: Translator,
    digests: RunningDigest,
    current: Option<EngineOutput>,
}

/// The result of an update. Clones are cheap.
#[derive(Clone, Debug)]
pub struct EngineOutput {
    /// The translation.
    pub translation: Translation,
    /// The snapshot of its configuration.
    pub snapshot: Arc<Snapshot>,
    /// The digest of its configuration, equal on every replica that serves the same.
    pub digest: Digest,
    /// The objects that changed since the previous result.
    pub changed: ChangedObjects,
    /// Parts of the configuration that could not be compiled.
    pub problems: Arc<[Diagnostic]>,
    /// How long the steps took.
    pub durations: Durations,
    /// The objects.
    pub resources: Resources,
}

/// How long the steps from objects to snapshot took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Objects to configuration.
    pub translate: Duration,
    /// Configuration to snapshot.
    pub compile: Duration,
}

/// Whether an update changed the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// There is a new snapshot.
    NewSnapshot,
    /// The configuration is unchanged; diagnostics may differ.
    Unchanged,
}

impl Engine {
    /// Without objects.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            resources: Resources::default(),
            translator: Translator::new(options),
            digests: RunningDigest::default(),
            current: None,
        }
    }

    /// Applies changes; `now` is in seconds since 1970. The first call always creates a snapshot.
    pub fn update(&mut self, changes: Vec<Change>, now: i64) -> Effect {
        let started = Instant::now();
        let changed = self.resources.apply_all(changes);
        let translation = self.translator.update(&self.resources, &changed, now);
        let translated = Instant::now();
        if let Some(current) = &mut self.current
            && is_same_config(&current.translation.config, &translation.config)
        {
            current.translation = translation;
            current.resources = self.resources.clone();
            return Effect::Unchanged;
        }
        let nothing = Config::default();
        let before = self.current.as_ref().map_or(&nothing, |current| &current.translation.config);
        let digest = self.digests.update(before, &translation.config);
        let previous = self.current.as_ref().map(|current| &*current.snapshot);
        let Compiled { snapshot, problems } = compile(&translation.config, previous);
        let durations = Durations { translate: translated - started, compile: translated.elapsed() };
        let problems = problems.into_iter().map(diagnostic).collect();
        let (resources, changed) = (self.resources.clone(), ChangedObjects::from_changed(&changed));
        self.current =
            Some(EngineOutput { translation, snapshot, digest, changed, problems, durations, resources });
        Effect::NewSnapshot
    }

    /// Starts with the configuration of an earlier process, until the first update; no effect after that.
    pub fn restore(&mut self, mut config: Config) {
        if self.current.is_some() {
            return;
        }
        self.translator.adapt(&mut config);
        let digest = self.digests.update(&Config::default(), &config);
        let Compiled { snapshot, problems } = compile(&config, None);
        let problems = problems.into_iter().map(diagnostic).collect();
        let translation = Translation { config, ..Translation::default() };
        let (durations, resources) = (Durations::default(), Resources::default());
        let changed = ChangedObjects::default();
        self.current =
            Some(EngineOutput { translation, snapshot, digest, changed, problems, durations, resources });
    }

    /// The current result; `None` before the first update.
    #[must_use]
    pub fn current(&self) -> Option<&EngineOutput> {
        self.current.as_ref()
    }
}

impl EngineOutput {
    /// The diagnostics of the translation; `problems` has those of the compilation.
    #[must_use]
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.translation.diagnostics
    }
}

/// Whether two configurations are equal; visits only entries they do not share.
fn is_same_config(a: &Config, b: &Config) -> bool {
    a.hosts.diff(&b.hosts).next().is_none()
        && a.backends.diff(&b.backends).next().is_none()
        && a.certificates.diff(&b.certificates).next().is_none()
        && a.listeners.diff(&b.listeners).next().is_none()
        && a.streams.diff(&b.streams).next().is_none()
        && a.default_certificate == b.default_certificate
        && a.settings == b.settings
}

fn diagnostic(Problem { origin, text }: Problem) -> Diagnostic {
    let (problem, consequence) = text.split_once("; ").unwrap_or((&text, "only this is affected"));
    Diagnostic {
        severity: Severity::Error,
        origin,
        code: "not-compiled",
        problem: problem.to_owned(),
        consequence: consequence.to_owned(),
    }
}
