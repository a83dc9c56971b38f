//! Manifests or the objects of a cluster, read once and made into a snapshot: for `check` and `explain`.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fairway_compare::Annotated;
use fairway_control::{Engine, Outcome, clock, cluster, directory};
use fairway_migrate::Ingresses;
use fairway_translate::{Change, Diagnostic, Options};

use crate::args::ClusterArgs;

/// What a directory or a cluster means.
pub(crate) struct Offline {
    /// What was made of its objects.
    pub(crate) outcome: Outcome,
    /// Everything there is to say, in the order of files and lines.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Its manifest files; `None` for a cluster.
    pub(crate) files: Option<usize>,
    /// Its objects that are read.
    pub(crate) objects: usize,
    /// Its Ingresses, and where each was read.
    pub(crate) ingresses: Ingresses,
    /// Its Ingresses as they are written.
    pub(crate) annotated: Annotated,
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
    let files = Some(contents.files);
    Ok(Offline { files, ..judge(options, contents.changes, contents.diagnostics)? })
}

/// Reads manifests from the standard input.
///
/// # Errors
/// It cannot be read, is no text, or holds no manifest.
pub(crate) fn read_standard_input(options: Options) -> Result<Offline> {
    let text = io::read_to_string(io::stdin()).context("cannot read the standard input")?;
    let contents = directory::read_text("standard input", &text);
    if contents.changes.is_empty() && contents.diagnostics.is_empty() {
        bail!("the standard input holds no manifest");
    }
    Ok(Offline { files: Some(1), ..judge(options, contents.changes, contents.diagnostics)? })
}

/// Reads a cluster with the caller's credentials.
///
/// # Errors
/// There is no way to it, or it shows no Ingress.
pub(crate) fn read_cluster(cluster: &ClusterArgs, options: Options) -> Result<Offline> {
    let selection = cluster.selection(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (changes, diagnostics) = runtime.block_on(async {
        let client = cluster::connect(&cluster.credentials()).await?;
        cluster::read_once(&client, &selection).await
    })?;
    judge(selection.options, changes, diagnostics)
}

fn judge(options: Options, changes: Vec<Change>, found: Vec<Diagnostic>) -> Result<Offline> {
    let objects = changes.len();
    let ingresses = Ingresses::among(&changes);
    let annotated = Annotated::among(&changes);
    let mut engine = Engine::new(options);
    engine.update(changes, clock::unix_seconds());
    let outcome = engine.current().cloned().context("the first update always has an outcome")?;
    let translated = outcome.diagnostics().iter().chain(outcome.problems.iter()).cloned();
    let mut diagnostics: Vec<_> = found.into_iter().chain(translated).collect();
    diagnostics.sort_by(|a, b| place(a).cmp(&place(b)));
    Ok(Offline { outcome, diagnostics, files: None, objects, ingresses, annotated })
}

fn place(diagnostic: &Diagnostic) -> (&str, u32, &str) {
    let source = diagnostic.origin.source.as_ref();
    source.map_or(("", 0, diagnostic.code), |source| (&source.file, source.line, diagnostic.code))
}
