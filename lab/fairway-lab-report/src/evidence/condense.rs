//! `fairway-lab condense`: makes of a run's results what a repository keeps. What is left out is decided in
//! [`fairway_lab_measure::results::condensed`].

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

/// Arguments of `fairway-lab condense`.
#[derive(clap::Args)]
pub struct CondenseArguments {
    /// Folders of runs, each with its results.json.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where the folders with the condensed results go, under the names of the runs.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

impl CondenseArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// A run that cannot be read, or a folder that cannot be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        for run in &self.runs {
            let (folder, bytes) = condense(run, &self.out)?;
            writeln!(std::io::stdout(), "{}: {} KB", folder.display(), bytes.div_ceil(1_000))
                .context("write to standard output")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The folder that was written, and how large its file is.
fn condense(run: &Path, out: &Path) -> anyhow::Result<(PathBuf, u64)> {
    let results = fairway_lab_measure::results::read(run)?;
    let absolute = run.canonicalize().with_context(|| format!("find {}", run.display()))?;
    let name = absolute.file_name().with_context(|| format!("{} has no name", run.display()))?;
    let folder = out.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let place = fairway_lab_measure::results::write_kept(&folder, results)?;
    let bytes = fs::metadata(&place).with_context(|| format!("read {}", place.display()))?.len();
    Ok((folder, bytes))
}
