//! `fairway-lab condense`: makes of results what a repository keeps, a file for each suite. What is left out of a run of the
//! laboratory is decided in [`fairway_lab_measure::results::condense_results`] and here; the pages are the same without it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use fairway_lab_measure::results::{self, Results};
use serde_json::{Value, json};

/// Tells readers what the published form of a run omits.
const LEFT_OUT: &str = "Latencies in pieces of time are kept for the first round of each case with events, which is the one that is \
     drawn.";

/// Arguments of `fairway-lab condense`.
#[derive(clap::Args)]
pub struct CondenseArguments {
    /// Folders of runs, each with its results.json, and files of JSON of the benchmark or of the tests in a cluster.
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Where the condensed files go, under the names of the folders and files.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

impl CondenseArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// Results that cannot be read, or a folder that cannot be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        fs::create_dir_all(&self.out).with_context(|| format!("make {}", self.out.display()))?;
        for one in &self.results {
            let path = if one.is_dir() { run(one, &self.out)? } else { suite(one, &self.out)? };
            let bytes = fs::metadata(&path).with_context(|| format!("read {}", path.display()))?.len();
            writeln!(std::io::stdout(), "{}: {} KB", path.display(), bytes.div_ceil(1_000))
                .context("write to standard output")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A run of the laboratory, compressed.
fn run(folder: &Path, out: &Path) -> anyhow::Result<PathBuf> {
    let absolute = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
    let name = absolute.file_name().with_context(|| format!("{} has no name", folder.display()))?;
    let path = out.join(name).with_added_extension("json.gz");
    let written = results::write_kept(out, without_what_is_not_drawn(results::read(folder)?))?;
    fs::rename(&written, &path).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Only the first round of a peer in a case is drawn over time, and only where something happened.
pub(crate) fn without_what_is_not_drawn(mut results: Results) -> Results {
    let mut all_drawn = BTreeSet::new();
    for run in &mut results.runs {
        let cases: BTreeSet<&String> = run.events.iter().map(|event| &event.case).collect();
        let mut drawn = BTreeSet::new();
        for measure in &mut run.measures {
            let peer = measure.beside.as_ref().unwrap_or(&measure.peer);
            let whose = (run.scenario.clone(), peer.clone(), measure.settings, measure.case.clone());
            let is_first = !all_drawn.contains(&whose);
            if !is_first || !cases.contains(&measure.case) {
                measure.load.over_time.series.clear();
            }
            if is_first {
                drawn.insert(whose);
            }
        }
        all_drawn.append(&mut drawn);
    }
    if !results.limitations.iter().any(|sentence| sentence == LEFT_OUT) {
        results.limitations.push(LEFT_OUT.to_owned());
    }
    results
}

/// Results of the benchmark or of the tests in a cluster, without the single blocks behind ratios and intervals, the
/// configurations of peers, and ratios of throughput.
fn suite(file: &Path, out: &Path) -> anyhow::Result<PathBuf> {
    let text = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let mut all: Value = serde_json::from_slice(&text).with_context(|| format!("read {}", file.display()))?;
    without(&mut all, "configurations");
    for findings in list(&mut all, "results") {
        without(findings, "blocks");
        // Which the loop, being closed, decides as much as the proxy.
        list(findings, "summary").for_each(|row| without(row, "rate_to_base"));
    }
    let origin = &mut all["origin"];
    let is_clean =
        origin["revision"].as_str().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    origin["clean"] = json!(is_clean);
    if let Some(seconds) = origin["unix_seconds"].as_u64() {
        origin["date"] = json!(day(seconds));
    }
    let path = out.join(file.file_name().with_context(|| format!("{} has no name", file.display()))?);
    fs::write(&path, format!("{all}\n")).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// The entries of a list.
fn list<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn without(value: &mut Value, name: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(name);
    }
}

/// The day of a Unix time, as 2026-11-21.
fn day(seconds: u64) -> String {
    // Days from 0000-03-01, in eras of 400 years: Howard Hinnant's `civil_from_days`.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + era * 400 + next)
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_match_the_calendar() {
        for (seconds, expected) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_234_090, "2026-11-21")]
        {
            assert_eq!(day(seconds), expected);
        }
    }
}
