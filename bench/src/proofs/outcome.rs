//! The results of a proof: a table on stdout, everything in a JSON file, and whether a promise was broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Serialize;

use super::arguments::Paths;
use crate::report::{self, Origin};

/// A proof's findings and their origin.
#[derive(Serialize)]
pub(crate) struct ProofReport<F> {
    origin: Origin,
    version: String,
    findings: F,
    /// The promises that are broken.
    broken_promises: Vec<String>,
}

impl<F: Serialize> ProofReport<F> {
    /// Findings of `binary` with the current time, machine and revision.
    pub(crate) fn new(binary: &Path, findings: F, broken_promises: Vec<String>) -> anyhow::Result<Self> {
        // Nothing is pinned: the kernel places the proxy, its backends and the clients.
        let origin = Origin::current(None);
        Ok(Self { origin, version: version(binary)?, findings, broken_promises })
    }

    /// Prints `rows`, writes the JSON, and fails when a promise was broken.
    pub(crate) fn conclude(&self, rows: &[(String, String)], file: &Path) -> anyhow::Result<()> {
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in rows {
            println!("{name:width$}  {value}");
        }
        report::write(self, file)?;
        anyhow::ensure!(
            self.broken_promises.is_empty(),
            "not as promised: {}",
            self.broken_promises.join(", ")
        );
        Ok(())
    }
}

impl Paths {
    /// The binary as other folders can name it; an error when it is not there, or when the results cannot be written.
    pub(crate) fn binary(&self) -> anyhow::Result<PathBuf> {
        self.out.as_deref().map_or(Ok(()), report::is_writable)?;
        fs::canonicalize(&self.fairway).with_context(|| {
            format!("--fairway {}: build it with cargo build --release", self.fairway.display())
        })
    }

    /// The path of the results of `command`.
    pub(crate) fn file(&self, command: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| format!("target/bench/{command}.json").into())
    }
}

fn version(binary: &Path) -> anyhow::Result<String> {
    let output = Command::new(binary).arg("version").output().context("asking the binary for its version")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned).context("the binary tells no version")
}
