//! The order in which the locations of a host are tried (nginx `location`; ingress-nginx `updateServerLocations`),
//! and which regular expressions are unusable.

use std::sync::Arc;

use fairway_model::{Match, PathMatch};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_pattern::budget::Budget;

use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, LocationSource, PathKind};
use crate::ingress::pattern::{self, PatternVerdict, Patterns};

/// A location in the routing table.
#[derive(Debug)]
pub(crate) struct LocationEntry {
    /// Index of the location.
    pub(crate) location: usize,
    pub(crate) condition: Match,
    /// The path with a slash, if the location only adds it.
    pub(crate) adds_slash: Option<Arc<str>>,
    /// Whether it is an unusable regular expression.
    pub(crate) unusable: bool,
}

/// The locations in the order in which the routing table tries them.
pub(crate) fn entries(layout: &Layout) -> (Vec<LocationEntry>, Vec<Diagnostic>) {
    match layout.matching {
        Matching::Text => (text_entries(layout), Vec::new()),
        Matching::Patterns => pattern_entries(layout),
    }
}

fn text_entries(layout: &Layout) -> Vec<LocationEntry> {
    let mut entries = Vec::new();
    for (at, location) in layout.locations.iter().enumerate() {
        let path = location.path.clone();
        if let Some(without) = path.strip_suffix('/').filter(|without| !without.is_empty())
            && !layout.has(PathKind::Exact, without)
            && !layout.has(PathKind::Prefix, without)
        {
            let condition = on_path(PathMatch::Exact(without.into()));
            entries.push(LocationEntry {
                location: at,
                condition,
                adds_slash: Some(path.clone()),
                unusable: false,
            });
        }
        let condition = on_path(match location.kind {
            PathKind::Exact => PathMatch::Exact(path),
            PathKind::Prefix => PathMatch::Prefix(path),
        });
        entries.push(LocationEntry { location: at, condition, adds_slash: None, unusable: false });
    }
    entries
}

/// The longest text first, then reverse lexical (`controller.go`: two stable sorts).
fn pattern_entries(layout: &Layout) -> (Vec<LocationEntry>, Vec<Diagnostic>) {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut budget = Budget::default();
    for (at, location) in layout.locations.iter().enumerate() {
        let path = location.path.to_string();
        let splits = location.kind == PathKind::Prefix && path != "/" && !location.asks_for_patterns();
        if !splits {
            candidates.push(Candidate::new(at, location, path, &mut budget));
            continue;
        }
        // As without regular expressions, it becomes two nginx locations: `/path/` and, if free, `= /path`. Both take
        // the position of the object's path, which is split after sorting (`updateServerLocations`).
        let is_exact_taken = layout.has(PathKind::Exact, &path);
        let slashed = if path.ends_with('/') { path.clone() } else { format!("{path}/") };
        let with_path = slashed != path && !is_exact_taken;
        candidates.push(Candidate::new(at, location, slashed, &mut budget));
        if with_path {
            candidates.push(Candidate::new(at, location, path, &mut budget));
        }
    }
    candidates.sort_by(|a, b| {
        let by_text = b.rank.len().cmp(&a.rank.len()).then_with(|| b.rank.cmp(&a.rank));
        by_text.then(a.tie_break.cmp(&b.tie_break))
    });
    let mut diagnostics = Vec::new();
    let entry = |candidate: Candidate| {
        let (entry, found) = candidate.into_entry(&layout.locations);
        diagnostics.extend(found);
        entry
    };
    let entries = candidates.into_iter().map(entry).collect();
    (entries, diagnostics)
}

/// The literal prefix of an unusable pattern's matches.
fn unread_start(path: &str) -> String {
    fairway_pattern::literal_start(&pattern::path_pattern(path))
}

/// A pattern before ordering.
struct Candidate {
    at: usize,
    path: String,
    /// Why it is unusable: a code, and the text after "the regular expression" in a message.
    flaw: Option<(&'static str, Arc<str>)>,
    /// The text by which it is ordered.
    rank: String,
    tie_break: TieBreak,
}

/// Order among equal texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TieBreak {
    Usable,
    Unusable,
    /// The 404 of the host.
    Nowhere,
}

impl Candidate {
    /// Charges the pattern to the host's budget; locations come in order of age.
    fn new(at: usize, location: &Location, path: String, budget: &mut Budget) -> Self {
        let owner = location.owner.as_ref();
        let judged =
            owner.map_or_else(|| Patterns::default().verdict(&path), |owner| owner.patterns.verdict(&path));
        let namespace = owner.map(|owner| owner.key.namespace.clone()).unwrap_or_default();
        let flaw = match judged {
            PatternVerdict::Refused(why) => Some(("invalid-regex", why)),
            PatternVerdict::TooMuch(why) => Some(("regex-cost", why)),
            PatternVerdict::Usable { start, steps } => budget
                .admit(&namespace, &start, steps)
                .err()
                .map(|exceeded| ("regex-cost", exceeded.to_string().into())),
        };
        // An unusable protective pattern keeps the position of its text, so that no request passes that it would have
        // stopped. Other unusable patterns come last, so that they take no requests from working ones.
        let steps_back = flaw.is_some() && !location.is_protected();
        let rank = if steps_back { unread_start(&path) } else { location.path.to_string() };
        let tie_break = match (location.source, steps_back) {
            (LocationSource::Nowhere, _) => TieBreak::Nowhere,
            (_, true) => TieBreak::Unusable,
            (_, false) => TieBreak::Usable,
        };
        Self { at, path, flaw, rank, tie_break }
    }

    /// The entry, and a diagnostic for an unusable pattern.
    fn into_entry(self, locations: &[Location]) -> (LocationEntry, Option<Diagnostic>) {
        let Self { at, path, flaw, .. } = self;
        let unusable = flaw.is_some();
        let mut found = None;
        let pattern = match flaw {
            None => pattern::path_pattern(&path).into_owned(),
            Some((code, why)) => {
                let start = unread_start(&path);
                let start = if start.is_empty() { "/".to_owned() } else { start };
                let location = &locations[at];
                let other = if location.is_protected() { "a longer" } else { "another" };
                let problem = format!("the regular expression \"{path}\" {why}");
                let consequence = format!(
                    "paths that begin with {start} answer 503, except those that {other} path of the host matches"
                );
                let refused = Diagnostic::new(Severity::Error, code, location.origin(".path"));
                found = Some(refused.because(problem, consequence));
                fairway_pattern::literal_pattern(&start)
            }
        };
        let condition = on_path(PathMatch::Regex { pattern: pattern.into(), ignore_case: true });
        (LocationEntry { location: at, condition, adds_slash: None, unusable }, found)
    }
}

fn on_path(path: PathMatch) -> Match {
    Match { path, ..Match::default() }
}
