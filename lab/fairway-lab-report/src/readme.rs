//! The figures of the README: generates and checks the region between two markers.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fairway_lab_measure::results::Results;
use minijinja::value::Serde;
use minijinja::{Value, context};

use super::glance::glance;
use super::merge::{Scenario, distinct, gather};
use super::number;
use super::palette::Palette;
use super::pool::ENOUGH_ROUNDS;

/// A document with a place for figures.
pub(crate) struct Readme {
    path: PathBuf,
    before: String,
    region: String,
    after: String,
}

impl Readme {
    /// Updates the figures of a document between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
    ///
    /// # Errors
    /// It cannot be read, or has not exactly one pair of markers in their order.
    pub(crate) fn read(path: &Path, name: &str) -> anyhow::Result<Self> {
        let (first, last) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let path_text = path.display();
        let once = |marker: &str| {
            let at = text.find(marker).with_context(|| {
                format!("{path_text} has no line {marker}; put {first} and {last} where the figures belong")
            })?;
            anyhow::ensure!(text.rfind(marker) == Some(at), "{path_text} has {marker} twice; leave one");
            Ok(at)
        };
        let (begin, end) = (once(&first)? + first.len(), once(&last)?);
        anyhow::ensure!(begin <= end, "{path_text} has {last} before {first}; exchange them");
        let part = |part: &str| part.to_owned();
        let (before, region, after) = (part(&text[..begin]), part(&text[begin..end]), part(&text[end..]));
        Ok(Self { path: path.to_owned(), before, region, after })
    }

    /// Puts the figures in.
    ///
    /// # Errors
    /// The file cannot be written; it is then as it was.
    pub(crate) fn rewrite(&self, figures: &str) -> anyhow::Result<()> {
        let mode =
            fs::metadata(&self.path).with_context(|| format!("read {}", self.path.display()))?.permissions();
        let text = [&self.before, figures, &self.after].concat();
        replace(&self.path, &text, mode)
            .with_context(|| format!("write {}: it stays as it was", self.path.display()))
    }

    /// The first line that differs from the figures, as it is and as it should be; nothing if they are in already.
    #[must_use]
    pub(crate) fn difference(&self, figures: &str) -> Option<(String, String)> {
        if self.region == figures {
            return None;
        }
        let line = |text: &str, at: usize| text.lines().nth(at).unwrap_or("no such line").to_owned();
        let both = self.region.lines().zip(figures.lines());
        let same = both.take_while(|(found, expected)| found == expected).count();
        Some((line(&self.region, same), line(figures, same)))
    }
}

/// Writes through a temporary file and a rename, so that a full disk leaves the previous file intact.
pub(crate) fn replace(path: &Path, text: &str, mode: fs::Permissions) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    beside.write_all(text.as_bytes())?;
    beside.as_file().set_permissions(mode)?;
    beside.persist(path)?;
    Ok(())
}

/// The text between the markers: one table of all scenarios measured on one machine, from any run.
///
/// # Errors
/// The template, which is part of this program, cannot be rendered.
pub(crate) fn figures(all: &[Results], link: &str) -> anyhow::Result<String> {
    let palette = Palette::for_runs(all);
    let scenarios = gather(all);
    let machine = |run: &Scenario| {
        let at = all.get(*run.sources.first()?).map(|results| &results.environment)?;
        Some((at.cpu.clone(), at.cpus, at.kernel.clone()))
    };
    let part = |named| {
        let own_scenarios: Vec<&Scenario> = scenarios.iter().filter(|run| machine(run) == named).collect();
        let sources = distinct(own_scenarios.iter().flat_map(|run| &run.sources));
        let sources: Vec<Value> = sources.into_iter().map(|at| run_facts(&all[*at])).collect();
        let absent =
            own_scenarios.iter().flat_map(|run| run.absent.iter().map(|absent| (&run.scenario, absent)));
        context! {
            sources,
            rounds => own_scenarios.iter().map(|run| run.rounds()).max(),
            absent => Serde(distinct(absent)),
            glance => Serde(glance(&own_scenarios, &palette)),
        }
    };
    let parts: Vec<Value> = distinct(scenarios.iter().map(machine)).into_iter().map(part).collect();
    let mut environment = number::environment();
    environment.add_filter("plain", |text: &str| plain(text));
    let neutral = palette.clone();
    environment.add_filter("neutral", move |peer: &str| neutral.is_neutral(peer));
    environment.add_template("lab.md", include_str!("lab.md.jinja"))?;
    let link = link.replace(' ', "%20").replace(')', "%29");
    Ok(environment
        .get_template("lab.md")?
        .render(context! { parts, link, enough_rounds => ENOUGH_ROUNDS })?)
}

/// When and where a run was.
fn run_facts(results: &Results) -> Value {
    let day = results.begun.split('T').next().unwrap_or_default();
    context! {
        day,
        begun => &results.begun,
        at => Serde(&results.environment),
        completeness => Serde(&results.completeness),
    }
}

/// Escapes Markdown and HTML.
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
