//! The figures of README: the region between two markers is made from results, never by hand, and can be checked.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use fairway_lab_results::{Completeness, Results};

use super::glance::{Kind, Row, glance};
use super::palette::Palette;

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
pub struct Readme {
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
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::with_region(path, REGION)
    }

    /// Reads a document for the figures between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
    ///
    /// # Errors
    /// As [`Readme::read`].
    pub fn with_region(path: &Path, name: &str) -> anyhow::Result<Self> {
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
    pub fn rewrite(&self, figures: &str) -> anyhow::Result<()> {
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
    pub fn compare(&self, figures: &str) -> Agreement {
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

/// What stands between the markers. Of a scenario that several runs have, the first of them is shown.
#[must_use]
pub fn figures(all: &[Results], link: &str) -> String {
    let palette = Palette::of(all);
    let mut text = String::from("\n");
    let mut shown = Vec::new();
    for results in all {
        let mut own = results.clone();
        own.runs.retain(|run| !shown.contains(&run.scenario));
        shown.extend(own.runs.iter().map(|run| run.scenario.clone()));
        if own.runs.is_empty() {
            continue;
        }
        text += &ground(&own, link);
        text += &table(&own, &palette);
    }
    text
}

/// When and where a run was, and how its figures are to be read.
fn ground(results: &Results, link: &str) -> String {
    let environment = &results.environment;
    let mut text = format!(
        "\nMeasured {} on {}, {} CPUs, kernel {} ([the report]({}), with everything that was measured and how).",
        plain(results.begun.split('T').next().unwrap_or_default()),
        plain(&environment.cpu),
        environment.cpus,
        plain(&environment.kernel),
        link.replace(' ', "%20").replace(')', "%29")
    );
    if let Completeness::Partial { reason } = &results.completeness {
        text += &format!(" **The run is partial: {}.**", plain(reason));
    }
    if results.runs.iter().any(|run| !run.ratios.is_empty()) {
        text += "\nRatios are the peer's figure divided by Fairway's, from paired blocks, with 95% intervals; where an interval\n\
                 includes 1 there is no difference to speak of. A/A is Fairway against itself: the noise of the machine.";
    }
    text + "\n\n"
}

fn table(results: &Results, palette: &Palette) -> String {
    let glance = glance(results, palette);
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
