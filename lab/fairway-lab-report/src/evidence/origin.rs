//! Which revision each results file was measured at, and which files are excused from naming a clean one. Never a figure
//! of a run.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::cluster::LONG;
use super::{RUNS, git, json, table};

/// Results that do not name a clean revision, and why. A rerun takes a file off this list: the check refuses a file that is
/// listed here without need.
const EXCUSED: [(&str, &str); 1] = [(LONG, TESTS)];
const TESTS: &str = "the tests did not record a revision when it was made";

/// Revisions that are not part of the history because their commits came into it put together: each with the last commit of
/// the history that came before it, from which later commits are counted. A rerun takes its revision off this list.
const COMBINED: [(&str, &str); 5] = [
    ("aa290a27c994", BEFORE_COMBINED),
    ("e9837842191f", BEFORE_COMBINED),
    ("8b883653d1da", BEFORE_COMBINED),
    ("75b727de3adf", BEFORE_COMBINED),
    ("7e1040d1a594", BEFORE_COMBINED),
];
const BEFORE_COMBINED: &str = "7a67a0452621";

/// Results that are older than this many commits to the data plane are reported as outdated.
const MAX_COMMITS_SINCE: u64 = 20;

/// A results file.
pub(super) struct Origin {
    /// The file, or the folder of a run of the laboratory.
    place: String,
    /// The day, if the file says it.
    day: Option<String>,
    revision: Option<String>,
}

impl Origin {
    fn clean(&self) -> Option<&str> {
        let is_hash = |text: &&str| text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.revision.as_deref().filter(is_hash)
    }

    /// What stands for the revision in the history.
    fn commit(&self) -> Option<&str> {
        let revision = self.clean()?;
        Some(COMBINED.iter().find(|(one, _)| *one == revision).map_or(revision, |(_, before)| before))
    }

    /// The last column of the table.
    fn state(&self) -> String {
        if let Some(why) = self.excuse() {
            return format!("**not clean**: {why}");
        }
        match self.commit() {
            Some(commit) if self.clean() != Some(commit) => {
                format!("clean; part of the commit after {commit}, from which later ones are counted")
            }
            _ => "clean".to_owned(),
        }
    }

    fn excuse(&self) -> Option<&'static str> {
        EXCUSED.iter().find(|(place, _)| *place == self.place).map(|(_, why)| *why)
    }
}

/// All results files of the repository.
pub(super) fn origins(root: &Path) -> anyhow::Result<Vec<Origin>> {
    let mut all = Vec::new();
    for run in RUNS {
        let results = fairway_lab_measure::results::read(&root.join(run))?;
        let day = results.begun.split('T').next().map(str::to_owned);
        let revision = results.environment.facts.get("revision").cloned();
        all.push(Origin { place: run.to_owned(), day, revision });
    }
    for folder in ["bench/results", "e2e/results"] {
        let entries = std::fs::read_dir(root.join(folder)).with_context(|| format!("read {folder}"))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        // Where both are there, the one that is not compressed counts, as for whoever reads it.
        names.dedup_by(|later, earlier| plain(later) == earlier);
        for name in names.iter().filter(|name| plain(name).ends_with(".json")) {
            let place = format!("{folder}/{name}");
            let file: Value = json(root, plain(&place))?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let revision = text(&file["origin"]["revision"]).or_else(|| text(&file["revision"]));
            let day = file["origin"]["unix_seconds"].as_u64().map(day);
            all.push(Origin { place, day, revision });
        }
    }
    // A table as the tests print it, which cannot name one.
    all.push(Origin { place: LONG.to_owned(), day: None, revision: None });
    Ok(all)
}

/// The name of a file before it was compressed.
fn plain(name: &str) -> &str {
    name.trim_end_matches(".gz")
}

/// What is wrong with the origins themselves: revisions that are not clean, and excuses without need.
pub(super) fn complaints(origins: &[Origin]) -> Vec<String> {
    let mut wrong = Vec::new();
    for origin in origins {
        let place = &origin.place;
        match (origin.commit(), origin.excuse()) {
            (None, None) => wrong.push(format!(
                "{place} names no clean revision ({}): measure again from a checkout without changes",
                origin.revision.as_deref().unwrap_or("none")
            )),
            (Some(_), Some(_)) => wrong.push(format!("{place} is clean: take it off the list of excuses")),
            _ => {}
        }
    }
    for (place, _) in EXCUSED.iter().filter(|(place, _)| origins.iter().all(|one| one.place != *place)) {
        wrong.push(format!("{place} is excused and does not exist: take it off the list of excuses"));
    }
    wrong
}

/// What the history says of results: those whose revision it does not have, and those that are outdated. Nothing where there is no
/// history. This never refuses a change: most changes make some results older.
pub(super) fn outdated(root: &Path, origins: &[Origin]) -> Vec<String> {
    if !git::has_history(root) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (place, revision) in origins.iter().filter_map(|origin| Some((&origin.place, origin.commit()?))) {
        match git::data_plane_commits(root, revision, "HEAD") {
            Some(since) if since > MAX_COMMITS_SINCE => {
                found.push(format!("{place} was measured {since} commits to the data plane ago"));
            }
            Some(_) => {}
            None => {
                found.push(format!("{place} was measured at {revision}, which is not part of this history"));
            }
        }
    }
    found
}

/// How many files are excused, of how many.
pub(super) fn excused(origins: &[Origin]) -> (usize, usize) {
    (origins.iter().filter(|origin| origin.clean().is_none()).count(), origins.len())
}

/// The table of origins; later commits are counted up to `end`.
pub(super) fn page(root: &Path, origins: &[Origin], end: &str) -> String {
    let rows: Vec<_> = origins
        .iter()
        .map(|origin| {
            let revision = origin.revision.as_deref().unwrap_or("not recorded");
            let base = origin.commit().or_else(|| revision.split(' ').next()).unwrap_or_default();
            let since = git::data_plane_commits(root, base, end);
            vec![
                format!("[{0}](../{0})", origin.place),
                origin.day.clone().unwrap_or_else(|| "not recorded".to_owned()),
                revision.to_owned(),
                since.map_or_else(|| "unknown".to_owned(), |count| count.to_string()),
                origin.state(),
            ]
        })
        .collect();
    let (excused, all) = excused(origins);
    format!(
        "\nCommits to the data plane are counted up to {end}.\n**{excused} of these {all} files do not name a clean \
         revision; they are to be measured again.**\n\n{}",
        table(&["results", "measured", "revision", "commits to the data plane since", "state"], &rows)
    )
}

/// The revision up to which the table in a document counts.
pub(super) fn counted_to(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("counted up to ")?;
    rest.split(|letter: char| !letter.is_ascii_hexdigit()).next()
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
    use super::*;

    fn origin(place: &str, revision: Option<&str>) -> Origin {
        Origin { place: place.to_owned(), day: None, revision: revision.map(str::to_owned) }
    }

    #[test]
    fn a_revision_is_clean_and_known_or_the_file_is_refused() {
        for (revision, fine) in [
            (Some("bb398aa0c1d2"), true),
            (Some("bb398aa"), true),
            (Some("bb398aa with changes"), false),
            (Some("unknown"), false),
            (None, false),
        ] {
            let said = complaints(&[origin("bench/results/new.json", revision)]);
            assert_eq!(!said.iter().any(|text| text.contains("new.json")), fine, "{revision:?}: {said:?}");
        }
    }

    #[test]
    fn an_excuse_without_need_is_refused() {
        let said = complaints(&[origin(LONG, Some("bb398aa"))]);
        assert!(said[0].contains("take it off the list"), "{said:?}");
        let said = complaints(&[]);
        assert!(said[0].contains("long.txt is excused and does not exist"), "{said:?}");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_234_090, "2026-11-21")]
        {
            assert_eq!(day(seconds), expected);
        }
    }
}
