//! The arguments of `fairway-lab report` and their dispatch.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use fairway_lab_measure::results::Results;

use super::readme::{Readme, figures};
use super::{REPORT, write_to};

/// Arguments of `fairway-lab report`.
#[derive(clap::Args)]
pub struct ReportArguments {
    /// Folders of runs, each with its results.json, or published files. Runs of a scenario with the same parameters,
    /// machine and versions are merged into one set of tables; others are listed separately, with the reason.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The report; report.html in the first folder if not given.
    #[arg(short, long, value_name = "FILE", conflicts_with = "readme")]
    output: Option<PathBuf>,
    /// Write no report; put the main figures into this file, between <!-- lab:begin --> and <!-- lab:end -->.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
    /// Target of the link in that file; report.html in the first folder by default.
    #[arg(long, value_name = "LINK", requires = "readme")]
    link: Option<String>,
    /// Change nothing; exit with 1 if the file does not match the results.
    #[arg(long, requires = "readme")]
    check: bool,
}

impl ReportArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let results = read(&self.runs)?;
        match &self.readme {
            Some(readme) => self.tend(readme, &results),
            None => {
                let output = self.output.unwrap_or_else(|| self.runs[0].join(REPORT));
                write_to(&results, &output)?;
                say(&format!("{}\n", output.display()))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    fn tend(&self, path: &Path, results: &[Results]) -> anyhow::Result<ExitCode> {
        let readme = Readme::read(path, "lab")?;
        let link = self.link.clone().map_or_else(|| relative_link(&self.runs[0].join(REPORT), path), Ok)?;
        let figures = figures(results, &link)?;
        if !self.check {
            readme.rewrite(&figures)?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some((found, expected)) = readme.difference(&figures) else { return Ok(ExitCode::SUCCESS) };
        say(&format!(
            "{} does not say what the results say:\n  it has   {found}\n  not      {expected}\nrun the same command without --check\n",
            path.display()
        ))?;
        Ok(ExitCode::FAILURE)
    }
}

fn read(folders: &[PathBuf]) -> anyhow::Result<Vec<Results>> {
    let mut run_ids = BTreeSet::new();
    let mut all = Vec::with_capacity(folders.len());
    for folder in folders {
        let real = folder
            .canonicalize()
            .with_context(|| format!("read {}: there is no such folder", folder.display()))?;
        anyhow::ensure!(run_ids.insert(real), "{} is given twice; give each run once", folder.display());
        all.push(read_run(folder)?);
    }
    Ok(all)
}

/// A run in its folder, or a published file.
fn read_run(folder: &Path) -> anyhow::Result<Results> {
    if folder.is_dir() {
        return fairway_lab_measure::results::read(folder);
    }
    let plain = if folder.extension().is_some_and(|name| name == "gz") {
        folder.with_extension("")
    } else {
        folder.to_owned()
    };
    let text = fairway_lab_measure::results::read_kept(&plain)?;
    serde_json::from_slice(&text).with_context(|| format!("read {}", folder.display()))
}

/// The relative path of a file from the folder of another.
fn relative_link(target: &Path, from: &Path) -> anyhow::Result<String> {
    let text = || format!("find the way from {} to {}; say it with --link", from.display(), target.display());
    let absolute = |path: &Path| -> anyhow::Result<PathBuf> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(folder.canonicalize().with_context(text)?.join(path.file_name().with_context(text)?))
    };
    let (target, from) = (absolute(target)?, absolute(from)?);
    let root = from.parent().with_context(text)?;
    let within = target.strip_prefix(root).with_context(text)?;
    Ok(within.to_str().with_context(text)?.to_owned())
}

fn say(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("write to standard output")
}
