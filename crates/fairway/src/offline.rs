//! Manifests read once and made into a snapshot: for `check` and `explain`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fairway_control::{Engine, FlagSettings, Outcome, clock, directory};
use fairway_translate::{Diagnostic, Options};

/// What a directory means.
pub(crate) struct Offline {
    /// What was made of its objects.
    pub(crate) outcome: Outcome,
    /// Everything there is to say, in the order of files and lines.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Its manifest files.
    pub(crate) files: usize,
    /// Its objects that are read.
    pub(crate) objects: usize,
}

/// Reads a directory or a file.
///
/// # Errors
/// It cannot be read, or holds no manifest.
pub(crate) fn read(path: &Path, options: Options) -> Result<Offline> {
    let contents = directory::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if contents.files == 0 {
        bail!("{} holds no manifest (*.yaml, *.yml, *.json)", path.display());
    }
    let objects = contents.changes.len();
    let mut engine = Engine::new(options, FlagSettings::default());
    engine.update(contents.changes, clock::unix_seconds());
    let outcome = engine.current().cloned().context("the first update always has an outcome")?;
    let translated = outcome.diagnostics().iter().chain(outcome.problems.iter()).cloned();
    let mut diagnostics: Vec<_> = contents.diagnostics.into_iter().chain(translated).collect();
    diagnostics.sort_by(|a, b| place(a).cmp(&place(b)));
    Ok(Offline { outcome, diagnostics, files: contents.files, objects })
}

fn place(diagnostic: &Diagnostic) -> (&str, u32, &str) {
    let source = diagnostic.origin.source.as_ref();
    source.map_or(("", 0, diagnostic.code), |source| (&source.file, source.line, diagnostic.code))
}
