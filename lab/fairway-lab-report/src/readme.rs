//! The figures of README: the region between two markers is made from results, never by hand, and can be checked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fairway_lab_measure::results::{Completeness, Results};

use super::gather::{Scenario, gather};
use super::glance::{Kind, Row, glance};
use super::number::TOO_FEW;
use super::palette::Palette;
use super::pool::{ENOUGH_ROUNDS, distinct};

/// The region that `fairway-lab report --readme` writes.
const REGION: &str = "lab";

/// What became of a README.
#[derive(Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It says what the results say.
    Agrees,
    /// It does not: the first line that differs, as it is and as it should be.
    Differs {
        /// As it is in the file.
        found: String,
        /// As the results have it.
        expected: String,
    },
}

/// A README with a place for figures.
pub(crate) struct Readme {
    path: PathBuf,
    before: String,
    region: String,
    after: String,
}

impl Readme {
    /// Reads it.
    ///
    /// # Errors
    /// It cannot be read, or has not exactly one pair of markers in their order.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        Self::with_region(path, REGION)
    }

    /// Reads a document for the figures between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
    ///
    /// # Errors
    /// As [`Readme::read`].
    pub(crate) fn with_region(path: &Path, name: &str) -> anyhow::Result<Self> {
        let (first, last) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let once = |marker: &str| {
            let mut places = text.match_indices(marker);
            let place = places.next().map(|(at, _)| at).with_context(|| {
                format!(
                    "{} has no line {marker}; put {first} and {last} where the figures belong",
                    path.display()
                )
            })?;
            anyhow::ensure!(places.next().is_none(), "{} has {marker} twice; leave one", path.display());
            Ok(place)
        };
        let begin = once(&first)? + first.len();
        let end = once(&last)?;
        anyhow::ensure!(begin <= end, "{} has {last} before {first}; exchange them", path.display());
        Ok(Self {
            path: path.to_owned(),
            before: text[..begin].to_owned(),
            region: text[begin..end].to_owned(),
            after: text[end..].to_owned(),
        })
    }

    /// Puts the figures in.
    ///
    /// # Errors
    /// The file cannot be written; it is then as it was.
    pub(crate) fn rewrite(&self, figures: &str) -> anyhow::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let failed = || format!("write {}: it stays as it was", self.path.display());
        let mut beside =
            tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(failed)?;
        let mode = fs::metadata(&self.path).with_context(failed)?.permissions();
        for part in [&self.before, figures, &self.after] {
            beside.write_all(part.as_bytes()).with_context(failed)?;
        }
        beside.as_file().set_permissions(mode).with_context(failed)?;
        beside.persist(&self.path).with_context(failed)?;
        Ok(())
    }

    /// Whether the figures are in already.
    #[must_use]
    pub(crate) fn compare(&self, figures: &str) -> Agreement {
        if self.region == figures {
            return Agreement::Agrees;
        }
        let (mut found, mut expected) = (self.region.lines(), figures.lines());
        loop {
            match (found.next(), expected.next()) {
                (Some(one), Some(other)) if one == other => {}
                (None, None) => {
                    let text = "the same lines with other line ends".to_owned();
                    return Agreement::Differs { found: text.clone(), expected: text };
                }
                (found, expected) => {
                    let text = |line: Option<&str>| line.unwrap_or("no such line").to_owned();
                    return Agreement::Differs { found: text(found), expected: text(expected) };
                }
            }
        }
    }
}

/// What stands between the markers: one table of all scenarios that were measured on one machine, whichever run they are of.
#[must_use]
pub fn figures(all: &[Results], link: &str) -> String {
    let palette = Palette::of(all);
    let scenarios = gather(all);
    let machine = |run: &Scenario| all.get(*run.sources.first()?).map(|results| &results.environment);
    let named = |run: &Scenario| machine(run).map(|one| (one.cpu.clone(), one.cpus, one.kernel.clone()));
    let mut text = String::from("\n");
    for at in distinct(scenarios.iter().map(named)) {
        let own: Vec<&Scenario> = scenarios.iter().filter(|run| named(run) == at).collect();
        let sources = distinct(own.iter().flat_map(|run| run.sources.iter().copied()));
        let sources: Vec<&Results> = sources.into_iter().map(|source| &all[source]).collect();
        text += &ground(&sources, &own, link);
        text += &table(&own, &palette);
        text += &reasons(&own);
    }
    text
}

/// When and where runs were, and how their figures are to be read.
fn ground(results: &[&Results], scenarios: &[&Scenario], link: &str) -> String {
    let Some(environment) = results.first().map(|results| &results.environment) else {
        return String::new();
    };
    let days = distinct(results.iter().map(|one| plain(one.begun.split('T').next().unwrap_or_default())));
    let mut text = format!(
        "\nMeasured {} on {}, {} CPUs, kernel {} ([the report]({}), with everything that was measured and how).",
        days.join(" and "),
        plain(&environment.cpu),
        environment.cpus,
        plain(&environment.kernel),
        link.replace(' ', "%20").replace(')', "%29")
    );
    for one in results {
        if let Completeness::Partial { reason } = &one.completeness {
            text += &format!(" **The run of {} is partial: {}.**", plain(&one.begun), plain(reason));
        }
    }
    if scenarios.iter().any(|run| !run.ratios.is_empty()) {
        text += "\nRatios are the peer's figure divided by Fairway's, from paired blocks, with 95% intervals; where an interval\n\
                 includes 1 there is no difference to speak of. A/A is Fairway against itself: the noise of the machine.";
    }
    text += &format!(
        "\nFailed requests have the exact interval of a Poisson count. {TOO_FEW:?} stands for a percentile with fewer than ten\n\
         values above it."
    );
    text += match scenarios.iter().map(|run| run.rounds()).max() {
        Some(rounds) if rounds >= ENOUGH_ROUNDS => {
            "\nOf several rounds counts are sums and percentiles medians; in brackets stand the lowest and the highest round."
        }
        Some(1) => "\nEach scenario ran for one round, so that percentiles have no range.",
        _ => {
            "\nOf several rounds counts are sums and percentiles medians; there are too few rounds for a range."
        }
    };
    text + "\n\n"
}

/// Why peers are missing in scenarios.
fn reasons(scenarios: &[&Scenario]) -> String {
    let all =
        scenarios.iter().flat_map(|run| run.absent.iter().map(|absent| (run.scenario.as_str(), absent)));
    let told = all.map(|(scenario, absent)| {
        format!("* {} is absent in {}: {}.\n", plain(&absent.peer), plain(scenario), plain(&absent.reason))
    });
    let told = distinct(told);
    if told.is_empty() { String::new() } else { format!("\n{}", told.concat()) }
}

fn table(scenarios: &[&Scenario], palette: &Palette) -> String {
    let glance = glance(scenarios, palette);
    let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.fold(format!("| {}", plain(first)), |line, cell| format!("{line} | {}", plain(cell))) + " |\n"
    };
    // What a peer does beside a stream straight to the pods is in its own cells.
    let columns: Vec<usize> =
        (0..glance.peers.len()).filter(|at| !palette.is_neutral(&glance.peers[*at])).collect();
    let of = |cells: &[String]| columns.iter().map(|at| cells[*at].clone()).collect::<Vec<_>>();
    let mut text = line("", &mut of(&glance.peers).iter().map(String::as_str));
    text += &line("---", &mut columns.iter().map(|_| "---:"));
    // Answers a second are there as they are, so that their ratios may stay in the report.
    let kept =
        |row: &&Row| !matches!(row.kind, Kind::Busy | Kind::Cost) && !row.figure.starts_with("requests/s");
    for row in glance.rows.iter().filter(kept) {
        let name = format!("{}, {}", row.figure, row.place);
        text += &line(&name, &mut of(&row.cells).iter().map(String::as_str));
    }
    text
}

/// A text in which nothing is Markdown or HTML.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '|' | '*' | '`' | '[' | ']' | '\\' => plain.extend(['\\', letter]),
            letter if letter.is_control() => plain.push(' '),
            letter => plain.push(letter),
        }
    }
    plain
}
