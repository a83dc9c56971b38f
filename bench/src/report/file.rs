//! The file of a run's results.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Checks before measuring that results can be written there.
pub(crate) fn is_writable(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| tempfile::NamedTempFile::new_in(folder))
        .with_context(|| format!("results cannot be written to {}", path.display()))?;
    Ok(())
}

/// Writes the results as JSON.
pub(crate) fn write(results: &impl Serialize, path: &Path) -> anyhow::Result<()> {
    fs::write(path, serde_json::to_string_pretty(results)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("\neverything is in {}", path.display());
    Ok(())
}
