//! The report: one HTML file generated from the `results.json` of one or more runs. It loads nothing from elsewhere,
//! enforced by a strict content security policy.
//!
//! Rounds of a scenario, and runs of several files with the same parameters, machine and versions, are one ([`merge`]);
//! what differs has a section of its own that says why. Within a scenario the blocks of a peer in a case are one ([`pool`]).
//!
//! ```text
//! results ─► gather ─► pool ─► view: figures of pools, findings, glance ──────────────────────┐
//!                           └► figure (plots, moments, effects) ─► drawing ─┴► page.html (template) ─► report.html
//! ```
//!
//! The figures of README.md and docs/performance.md are made by [`evidence`].

pub mod command;
mod downsample;
mod drawing;
mod effects;
pub mod evidence;
mod figure;
mod glance;
mod latency_over_time;
mod merge;
mod number;
mod page;
mod palette;
mod plots;
mod poisson;
mod pool;
mod readme;
mod scale;
mod view;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fairway_lab_measure::results::Results;

pub use page::page;
pub use palette::KNOWN;

/// The name of the file in a run's folder.
pub(crate) const REPORT: &str = "report.html";

/// Writes the report of runs into a folder, as [`REPORT`], and returns its path.
///
/// # Errors
/// The folder cannot be written, e.g. because the disk is full; a report that was there stays as it was.
pub fn write(results: &[Results], folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(REPORT);
    write_to(results, &path)?;
    Ok(path)
}

/// Writes the report of runs to a file.
///
/// # Errors
/// As [`write()`].
pub(crate) fn write_to(results: &[Results], path: &Path) -> anyhow::Result<()> {
    // A file that only its writer may read is no report.
    readme::replace(path, &page(results)?, Permissions::from_mode(0o644)).with_context(|| {
        format!(
            "write {}: it cannot be written; a report that was there stays as it was, results.json is not touched",
            path.display()
        )
    })
}
