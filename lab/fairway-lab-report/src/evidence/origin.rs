//! Which revision each suite was measured at, how many commits to the data plane followed, and which suites are excused from
//! naming a clean revision. Never a figure of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

/// Where results are published.
pub(super) const RESULTS: &str = "docs/results";

/// Suites that do not name a clean revision, and why. A rerun takes a suite off this list: the check refuses one that is
/// listed here without need.
const EXCUSED: [(&str, &str); 1] = [("cluster-long", "the tests did not record a revision when it was made")];

/// Revisions that are not part of the history because their commits came into it put together: each with the last commit of
/// the history that came before it, from which later commits are counted. A rerun takes its revision off this list.
const COMBINED: [(&str, &str); 1] = [("8b883653d1da", BEFORE_COMBINED)];
const BEFORE_COMBINED: &str = "7a67a0452621";

/// Results that are older than this many commits to the data plane are outdated.
const MAX_COMMITS_SINCE: u64 = 20;

/// The crates that serve a request, with the names that they had before they were merged: history is counted by its paths.
const DATA_PLANE: [&str; 12] = [
    "crates/fairway-proxy",
    "crates/fairway-net",
    "crates/fairway-runtime",
    "crates/fairway-connection",
    "crates/fairway-sides",
    "crates/fairway-http",
    "crates/fairway-http1",
    "crates/fairway-http2",
    "crates/fairway-grpc",
    "crates/fairway-message",
    "crates/fairway-routing",
    "crates/fairway-model",
];

/// Where a suite is from.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Origin {
    suite: String,
    file: String,
    date: Option<String>,
    revision: Option<String>,
    /// Commits to the data plane since.
    since: Option<u64>,
    /// Whether those are too many.
    outdated: bool,
    /// The revision in the history that replaces the measured one, if they differ.
    before: Option<&'static str>,
    /// Why it need not be.
    excuse: Option<&'static str>,
}

impl Origin {
    pub(super) fn new(suite: &str, file: &str, date: Option<String>, revision: Option<String>) -> Self {
        let excuse = EXCUSED.iter().find(|(excused, _)| *excused == suite).map(|(_, why)| *why);
        let combined = COMBINED.iter().find(|(one, _)| revision.as_deref() == Some(*one));
        let before = combined.map(|(_, before)| *before);
        let (suite, file) = (suite.to_owned(), file.to_owned());
        Self { suite, file, date, revision, since: None, outdated: false, before, excuse }
    }

    fn clean(&self) -> Option<&str> {
        let is_hash = |text: &&str| text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.revision.as_deref().filter(is_hash)
    }

    /// The revision in the history that replaces the measured one.
    fn commit(&self) -> Option<&str> {
        self.before.or_else(|| self.clean())
    }

    /// With the commits that followed.
    pub(super) fn counted(mut self, repository: &Repository) -> Self {
        self.since = match &repository.end {
            Some(end) if repository.has_history => {
                self.commit().and_then(|commit| data_plane_commits(&repository.root, commit, end))
            }
            _ => repository.recorded.get(&self.file).copied(),
        };
        self.outdated = self.since.is_some_and(|since| since > MAX_COMMITS_SINCE);
        self
    }

    /// Describes how outdated a result is, or that the history lacks its revision. Never a failure, since most
    /// changes outdate some results.
    pub(super) fn outdated(&self) -> Option<String> {
        let (file, revision) = (&self.file, self.clean()?);
        match self.since {
            Some(since) if since > MAX_COMMITS_SINCE => {
                Some(format!("{RESULTS}/{file} was measured {since} commits to the data plane ago"))
            }
            Some(_) => None,
            None => Some(format!(
                "{RESULTS}/{file} was measured at {revision}, which is not part of this history"
            )),
        }
    }
}

/// A note for the report of a run whose revision had changes or is outdated.
pub(in super::super) fn notice(revision: Option<String>) -> Option<String> {
    let origin = Origin::new("run", "", None, revision).counted(&Repository::now(Path::new(".")));
    let revision = origin.revision.as_ref()?;
    if origin.clean().is_none() {
        return Some(format!("It was measured at a revision that is not clean: {revision}."));
    }
    let since = origin.since.filter(|_| origin.outdated)?;
    Some(format!("It is outdated: {since} commits to the data plane followed {revision}."))
}

/// Errors in the origins: revisions with changes, and unnecessary entries of `EXCUSED`.
pub(super) fn complaints(origins: &[Origin]) -> Vec<String> {
    let mut wrong = Vec::new();
    for origin in origins {
        let path = format!("{RESULTS}/{}", origin.file);
        match (origin.commit(), origin.excuse) {
            (None, None) => wrong.push(format!(
                "{path} names no clean revision ({}): measure again from a checkout without changes",
                origin.revision.as_deref().unwrap_or("none")
            )),
            (Some(_), Some(_)) => wrong.push(format!("{path} is clean: take it off the list of excuses")),
            _ => {}
        }
    }
    for (suite, _) in EXCUSED.iter().filter(|(suite, _)| origins.iter().all(|origin| origin.suite != *suite))
    {
        wrong.push(format!("{suite} is excused and does not exist: take it off the list of excuses"));
    }
    wrong
}

/// The history up to a revision. Without a history, as in an unpacked archive, the counts on the page are used.
pub(super) struct Repository {
    root: PathBuf,
    has_history: bool,
    end: Option<String>,
    /// Origins by file.
    recorded: BTreeMap<String, u64>,
}

impl Repository {
    /// Up to the checked-out revision.
    pub(super) fn now(root: &Path) -> Self {
        // A shallow clone has not enough of it.
        let is_whole =
            git(root, &["rev-parse", "--is-shallow-repository"]).is_some_and(|said| said == "false");
        let end = git(root, &["rev-parse", "--short=12", "HEAD"]).filter(|_| is_whole);
        Self { root: root.to_owned(), has_history: is_whole, end, recorded: BTreeMap::new() }
    }

    /// Up to the revision that the page names.
    pub(super) fn of_page(root: &Path, page: &str) -> Self {
        let mut found = Self::now(root);
        let (_, rest) = page.split_once("counted up to ").unwrap_or_default();
        let end = rest.split(|letter: char| !letter.is_ascii_hexdigit()).next().unwrap_or_default();
        found.has_history &= git(root, &["merge-base", "--is-ancestor", end, "HEAD"]).is_some();
        found.end = Some(end.to_owned());
        for line in page.lines().filter_map(|line| line.strip_prefix(&format!("| [{RESULTS}/"))) {
            let cells: Vec<&str> = line.split(" | ").collect();
            let file = line.split(']').next().unwrap_or_default();
            let since = cells.get(3).and_then(|cell| cell.parse().ok());
            found.recorded.extend(since.map(|since| (file.to_owned(), since)));
        }
        found
    }

    /// Up to the checked-out revision, or the counts on the page if there is no history.
    pub(super) fn now_or_page(root: &Path, page: &str) -> Self {
        let now = Self::now(root);
        if now.has_history { now } else { Self::of_page(root, page) }
    }

    /// The last commit that is counted.
    pub(super) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// How many commits after `revision` and up to `end` changed the data plane.
fn data_plane_commits(root: &Path, revision: &str, end: &str) -> Option<u64> {
    let range = format!("{revision}..{end}");
    let mut arguments = vec!["rev-list", "--count", "--no-merges", &range, "--"];
    arguments.extend(DATA_PLANE);
    git(root, &arguments)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_clean_and_known_or_the_file_is_refused() {
        for (suite, revision, expected) in [
            ("new", Some("bb398aa0c1d2"), ""),
            ("new", Some("bb398aa"), ""),
            ("new", Some("bb398aa with changes"), "new.json names no clean revision"),
            ("new", Some("unknown"), "new.json names no clean revision"),
            ("new", None, "new.json names no clean revision"),
            ("cluster-long", Some("bb398aa"), "take it off the list"),
            ("cluster-long", None, ""),
        ] {
            let origin = Origin::new(suite, &format!("{suite}.json"), None, revision.map(str::to_owned));
            let complaints = complaints(&[origin, Origin::new("cluster-long", "", None, None)]);
            assert_eq!(complaints.is_empty(), expected.is_empty(), "{revision:?}: {complaints:?}");
            assert!(complaints.iter().all(|text| text.contains(expected)), "{complaints:?}");
        }
        assert!(complaints(&[])[0].contains("cluster-long is excused and does not exist"));
    }

    #[test]
    fn without_history_the_counts_on_the_page_are_used() {
        let page = "Commits to the data plane are counted up to 373692189725.\n\n\
                    | [docs/results/cpu.json](results/cpu.json) | 2026-11-23 | b096a329b19c | 30 | clean |\n";
        let folder = std::env::temp_dir().join("no-such-repository");
        let repository = Repository::of_page(&folder, page);
        let origin_of =
            |suite: &str| Origin::new(suite, &format!("{suite}.json"), None, None).counted(&repository);
        assert_eq!(
            (origin_of("cpu").since, origin_of("cpu").outdated, origin_of("kill").since),
            (Some(30), true, None)
        );
        assert_eq!(repository.end(), Some("373692189725"));
    }
}
