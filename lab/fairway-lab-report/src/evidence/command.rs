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
    /// Also print which results are outdated: measured more than 20 commits to the data plane ago, or at a revision that the
    /// history does not have. This does not change the exit status.
    #[arg(long)]
    outdated: bool,
}

impl PublishArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Results or documents that cannot be read or written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout();
        if self.outdated {
            for text in origin::outdated(&self.root, &origin::origins(&self.root)?) {
                writeln!(out, "outdated: {text}").context("write to standard output")?;
            }
        }
        let wrong = self.publish()?;
        for text in &wrong {
            writeln!(out, "{text}").context("write to standard output")?;
        }
        Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Writes or checks the documents, and says what is wrong with them or with the origin of the results.
    fn publish(&self) -> anyhow::Result<Vec<String>> {
        let origins = origin::origins(&self.root)?;
        let mut wrong = origin::complaints(&origins);
        let counted_to = if self.check { self.counted_to()? } else { git::head(&self.root) };
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
        Ok(wrong)
    }

    /// The revision up to which the page says that it counted commits, if this history has it.
    fn counted_to(&self) -> anyhow::Result<Option<String>> {
        if !git::has_history(&self.root) {
            return Ok(None);
        }
        let text = std::fs::read_to_string(self.root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
        let revision = origin::counted_to(&text).filter(|revision| git::is_ancestor(&self.root, revision));
        Ok(revision.map(str::to_owned))
    }
}

fn regions(root: &Path, origins: &[origin::Origin], counted_to: Option<&str>) -> anyhow::Result<Vec<Region>> {
    let runs = RUNS
        .iter()
        .map(|run| fairway_lab_measure::results::read(&root.join(run)))
        .collect::<Result<Vec<_>, _>>()?;
    let bench = Bench::read(root)?;
    let (unclean, all) = origin::excused(origins);
    let highlights = highlights::page(root, &bench, &runs, unclean, all)?;
    let mut regions = vec![
        Region { file: README, name: "figures", text: highlights },
        Region { file: PAGE, name: "shortfalls", text: highlights::shortfalls(root, &bench, &runs)? },
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The gate runs this one; the other tests of publishing belong to the laboratory.
    #[test]
    #[allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
    fn the_documents_of_this_repository_say_what_its_results_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let wrong = PublishArguments { root, check: true, outdated: false }.publish().unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
