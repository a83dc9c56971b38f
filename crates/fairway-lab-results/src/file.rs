//! Reading and writing `results.json`. A file is written beside its place and renamed, so that a full disk leaves the one
//! before.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use flate2::read::GzDecoder;

use crate::results::{Results, SCHEMA};

/// The name of the file in a run's folder.
pub const RESULTS: &str = "results.json";
/// The same file compressed with gzip, as published runs are kept.
pub const COMPRESSED: &str = "results.json.gz";
/// The archive of raw histograms next to it. It is not published.
pub const HISTOGRAMS: &str = "histograms.tar";

/// Writes the results of a run into its folder.
///
/// # Errors
/// The folder cannot be written, e.g. because the disk is full.
pub fn write(folder: &Path, results: &Results) -> anyhow::Result<()> {
    let place = folder.join(RESULTS);
    let text = serde_json::to_vec(results).context("turn the results into JSON")?;
    let mut beside = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("write {}: the folder cannot be written", place.display()))?;
    beside.write_all(&text).with_context(|| format!("write {}", place.display()))?;
    // Results are for everybody; a temporary file is for its owner alone.
    let readable = Permissions::from_mode(0o644);
    beside.as_file().set_permissions(readable).with_context(|| format!("write {}", place.display()))?;
    beside.persist(&place).with_context(|| format!("write {}", place.display()))?;
    Ok(())
}

/// Reads the results of a run from its folder: `results.json`, or `results.json.gz` if there is no such file.
///
/// # Errors
/// No file, no JSON, or a schema that this program does not know.
pub fn read(folder: &Path) -> anyhow::Result<Results> {
    let compressed = folder.join(COMPRESSED);
    let is_compressed = !folder.join(RESULTS).exists() && compressed.exists();
    let place = if is_compressed { compressed } else { folder.join(RESULTS) };
    let mut text = fs::read(&place)
        .with_context(|| format!("read {}: is this the folder of a run?", place.display()))?;
    if is_compressed {
        let mut plain = Vec::new();
        GzDecoder::new(text.as_slice())
            .read_to_end(&mut plain)
            .with_context(|| format!("decompress {}", place.display()))?;
        text = plain;
    }
    let results: Results =
        serde_json::from_slice(&text).with_context(|| format!("read {}", place.display()))?;
    anyhow::ensure!(
        results.schema == SCHEMA,
        "{} has schema {}; this program reads schema {SCHEMA}",
        place.display(),
        results.schema
    );
    Ok(results)
}
