//! Changes in, snapshot out: objects -> translation -> snapshot, each step at the cost of what changed. No thread, no
//! clock: the time is passed in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway_ingress::{Translation, Translator};
use fairway_model::Config;
use fairway_objects::diagnostic::{Diagnostic, Diagnostics, Severity};
use fairway_objects::options::Options;
use fairway_objects::resources::{Change, Resources};
use fairway_routing::{Compiled, Problem, Snapshot, compile};

use crate::changed::ChangedObjects;
use crate::digest::{Digest, Running};

/// The objects as they are and what was made of them. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Engine {
    resources: Resources,
    translator: Translator,
    digests: Running,
    current: Option<Outcome>,
}

/// What was made of the objects. A clone costs nothing.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The translation.
    pub translation: Translation,
    /// The snapshot of its configuration.
    pub snapshot: Arc<Snapshot>,
    /// The name of its configuration by its content: the same on every replica that serves the same.
    pub digest: Digest,
    /// The objects that it differs in from the one before.
    pub changed: ChangedObjects,
    /// What of the configuration could not be compiled.
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

/// Whether an update led to another configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// There is a new snapshot.
    NewSnapshot,
    /// The configuration is as it was; diagnostics may differ.
    Unchanged,
}

impl Engine {
    /// Without objects.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            resources: Resources::default(),
            translator: Translator::new(options),
            digests: Running::default(),
            current: None,
        }
    }

    /// Takes changes; `now` is in seconds since 1970. The first call always leads to a snapshot.
    pub fn update(&mut self, changes: Vec<Change>, now: i64) -> Effect {
        let started = Instant::now();
        let changed = self.resources.apply_all(changes);
        let translation = self.translator.update(&self.resources, &changed, now);
        let translated = Instant::now();
        if let Some(current) = &mut self.current
            && same(&current.translation.config, &translation.config)
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
        let (resources, changed) = (self.resources.clone(), ChangedObjects::of(&changed));
        self.current =
            Some(Outcome { translation, snapshot, digest, changed, problems, durations, resources });
        Effect::NewSnapshot
    }

    /// Begins with a configuration that an earlier process served, until the first update; without effect after that.
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
            Some(Outcome { translation, snapshot, digest, changed, problems, durations, resources });
    }

    /// What was made of the objects; `None` before the first update.
    #[must_use]
    pub fn current(&self) -> Option<&Outcome> {
        self.current.as_ref()
    }
}

impl Outcome {
    /// What was found by translating and compiling.
    #[must_use]
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.translation.diagnostics
    }
}

/// Whether nothing differs, found by visiting only what the two do not share.
fn same(a: &Config, b: &Config) -> bool {
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
