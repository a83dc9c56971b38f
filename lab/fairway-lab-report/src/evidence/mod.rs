//! `fairway-lab publish`: the figures of README.md, docs/performance.md and docs/limits.md, made from the results in
//! docs/results, never by hand. A check refuses documents that say something else and results of which nobody knows what was
//! measured.
//!
//! ```text
//! docs/results/*.json ─► suites: what was measured ─► goals: what was promised, and whether it is so ─┐
//!                    └─► origin: at which revision, clean or excused, outdated or not ────────────────┴─► documents.md.jinja ─► regions of the documents
//!                    └─► picture: docs/overview.svg, which the README shows
//! ```

pub mod condense;
mod goals;
mod origin;
mod peers;
mod picture;
mod stray;
mod suites;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use minijinja::context;
use minijinja::value::Serde;

use self::origin::{Origin, Repository};
use self::picture::PICTURE;
use self::suites::{BENCHES, Suites, environment};
use super::readme::{Readme, figures};

pub(super) use origin::notice;

/// The page of all figures.
const PAGE: &str = "docs/performance.md";
/// The page with some of them.
const README: &str = "README.md";
/// The parts of documents that are generated: between `<!-- NAME:begin -->` and `<!-- NAME:end -->`. The template has them
/// between the same marks, with the name of the file before that of the part.
const REGIONS: [(&str, &str); 8] = [
    (README, "figures"),
    (PAGE, "bench"),
    (PAGE, "goals"),
    (PAGE, "proofs"),
    (PAGE, "cluster"),
    (PAGE, "lab"),
    (PAGE, "origins"),
    ("docs/limits.md", "floods"),
];

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
    /// Runs the command.
    ///
    /// # Errors
    /// Results or documents that cannot be read or written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout();
        if self.outdated {
            let now = Repository::now(&self.root);
            for origin in Suites::read(&self.root)?.origins(&now) {
                if let Some(text) = origin.outdated() {
                    writeln!(out, "outdated: {text}").context("write to standard output")?;
                }
            }
        }
        let wrong = self.publish()?;
        for text in &wrong {
            writeln!(out, "{text}").context("write to standard output")?;
        }
        Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Writes or checks the documents. Reports errors in them and in the origin of the results.
    fn publish(&self) -> anyhow::Result<Vec<String>> {
        let suites = Suites::read(&self.root)?;
        let page = read(&self.root, PAGE)?;
        let repository = if self.check {
            Repository::of_page(&self.root, &page)
        } else {
            Repository::now_or_page(&self.root, &page)
        };
        let origins = suites.origins(&repository);
        let mut wrong = origin::complaints(&origins);
        let text = rendered(&suites, &origins, &repository)?;
        for (file, name) in REGIONS {
            let region = region(&text, &format!("{file} {name}"))?;
            let document = Readme::read(&self.root.join(file), name)?;
            if !self.check {
                document.rewrite(region)?;
            } else if let Some((found, expected)) = document.difference(region) {
                wrong.push(format!(
                    "{file}, {name}: it has {found}\n  the results have {expected}; run make lab-report"
                ));
            }
        }
        let picture = picture::picture(&suites)?;
        let path = self.root.join(PICTURE);
        if !self.check {
            std::fs::write(&path, picture).with_context(|| format!("write {}", path.display()))?;
        } else if read(&self.root, PICTURE)? != picture {
            wrong.push(format!("{PICTURE} is not the picture of the results; run make lab-report"));
        }
        for file in [README, PAGE] {
            let text = read(&self.root, file)?;
            let strays = stray::strays(&text).into_iter();
            wrong.extend(strays.map(|line| format!("{file}: a figure that is not generated: {line}")));
        }
        Ok(wrong)
    }
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"))
}

/// The text between two markers.
fn region<'a>(text: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let (_, rest) =
        text.split_once(&format!("<!-- {name}:begin -->")).context("a region is not in the template")?;
    let (region, _) =
        rest.split_once(&format!("<!-- {name}:end -->")).context("a region of the template has no end")?;
    Ok(region)
}

/// All generated parts, one after the other.
fn rendered(suites: &Suites, origins: &[Origin], repository: &Repository) -> anyhow::Result<String> {
    let mut environment = environment();
    environment.add_template("documents.md", include_str!("documents.md.jinja"))?;
    let context = context! {
        suites => Serde(&suites.by_name),
        bench => Serde(suites.bench()),
        benches => BENCHES,
        origins => Serde(origins),
        counted_to => repository.end(),
        goals => Serde(goals::all(suites)?),
        lab => figures(&suites.runs, "results/report.html")?,
        lost => peers::lost(&suites.runs),
        behind => peers::behind(&suites.runs),
    };
    Ok(environment.get_template("documents.md")?.render(context)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gate runs this one; the other tests of publishing belong to the laboratory.
    #[test]
    #[allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]
    fn the_documents_match_the_published_results() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let wrong = PublishArguments { root, check: true, outdated: false }.publish().unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
