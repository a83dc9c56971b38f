//! `fairway-lab publish`: writes the figures into the documents of the repository, or checks that they are there.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::super::readme::{Agreement, Readme, figures};
use super::bench::{self, Bench};
use super::{LIMITS, PAGE, README, RUNS, Region, cluster, floods, git, highlights, origin, stray};

/// Arguments of `fairway-lab publish`.
#[derive(clap::Args)]
pub struct PublishArguments {
    /// The root of Fairway's repository.
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Change nothing; exit with 1 if a document does not match the results, has a figure that is not generated, or if
    /// results do not name the revision that was measured.
    #[arg(long)]
    check: bool,
}

impl PublishArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Results or documents that cannot be read or written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let origins = origin::origins(&self.root)?;
        let mut wrong = origin::complaints(&self.root, &origins);
        let counted_to = if self.check { self.counted_to(&mut wrong)? } else { git::head(&self.root) };
        for region in regions(&self.root, &origins, counted_to.as_deref())? {
            let document = Readme::with_region(&self.root.join(region.file), region.name)?;
            if !self.check {
                document.rewrite(&region.text)?;
            } else if let Agreement::Differs { found, expected } = document.compare(&region.text) {
                let Region { file, name, .. } = region;
                wrong.push(format!(
                    "{file}, {name}: it has {found}\n  the results have {expected}; run make lab-report"
                ));
            }
        }
        for file in [README, PAGE] {
            let text =
                std::fs::read_to_string(self.root.join(file)).with_context(|| format!("read {file}"))?;
            let strays = stray::strays(&text).into_iter();
            wrong.extend(strays.map(|line| format!("{file}: a figure that is not generated: {line}")));
        }
        let mut out = std::io::stdout();
        for text in &wrong {
            writeln!(out, "{text}").context("write to standard output")?;
        }
        Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The revision up to which the page counts commits, if this history can tell.
    fn counted_to(&self, wrong: &mut Vec<String>) -> anyhow::Result<Option<String>> {
        if !git::has_history(&self.root) {
            return Ok(None);
        }
        let text = std::fs::read_to_string(self.root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
        let Some(revision) =
            origin::counted_to(&text).filter(|revision| git::is_ancestor(&self.root, revision))
        else {
            wrong.push(format!(
                "{PAGE} does not count commits up to a revision of this history; run make lab-report"
            ));
            return Ok(None);
        };
        Ok(Some(revision.to_owned()))
    }
}

fn regions(root: &Path, origins: &[origin::Origin], counted_to: Option<&str>) -> anyhow::Result<Vec<Region>> {
    let runs =
        RUNS.iter().map(|run| fairway_lab_results::read(&root.join(run))).collect::<Result<Vec<_>, _>>()?;
    let bench = Bench::read(root)?;
    let highlights = highlights::page(root, &bench, &runs, origin::excused(origins))?;
    let mut regions = vec![
        Region { file: README, name: "figures", text: highlights },
        Region { file: PAGE, name: "lab", text: figures(&runs, "results/report.html") },
        Region { file: PAGE, name: "bench", text: bench.page() },
        Region { file: PAGE, name: "proofs", text: bench::proofs(root)? },
        Region { file: PAGE, name: "cluster", text: cluster::page(root)? },
        Region { file: LIMITS, name: "floods", text: floods::page(root)? },
    ];
    // Without history nothing can be counted, and the table stays as it is.
    regions.extend(counted_to.map(|end| Region {
        file: PAGE,
        name: "origins",
        text: origin::page(root, origins, end),
    }));
    Ok(regions)
}
