//! The order in which the locations of a host are tried (nginx `location`; ingress-nginx `updateServerLocations`), and
//! which of their regular expressions cannot be used.

use std::sync::Arc;

use fairway_model::{Match, PathMatch};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_pattern::budget::Budget;

use crate::ingress::layout::{Layout, Matching};
use crate::ingress::location::{Location, PathKind, Place};
use crate::ingress::pattern::{self, Patterns, Verdict};

/// A location as the routing table sees it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Which location.
    pub(crate) location: usize,
    pub(crate) condition: Match,
    /// The path with the slash, where the location only adds it.
    pub(crate) adds_slash: Option<Arc<str>>,
    /// The regular expression that cannot be used, where it is one.
    pub(crate) unusable: bool,
}

/// The locations as the routing table sees them, in the order in which it tries them.
pub(crate) fn entries(layout: &Layout) -> (Vec<Entry>, Vec<Diagnostic>) {
    match layout.matching {
        Matching::Text => (text_entries(layout), Vec::new()),
        Matching::Patterns => pattern_entries(layout),
    }
}

fn text_entries(layout: &Layout) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (at, location) in layout.locations.iter().enumerate() {
        let path = location.path.clone();
        if let Some(without) = path.strip_suffix('/').filter(|without| !without.is_empty())
            && !layout.has(PathKind::Exact, without)
            && !layout.has(PathKind::Prefix, without)
        {
            let condition = on_path(PathMatch::Exact(without.into()));
            entries.push(Entry { location: at, condition, adds_slash: Some(path.clone()), unusable: false });
        }
        let condition = on_path(match location.kind {
            PathKind::Exact => PathMatch::Exact(path),
            PathKind::Prefix => PathMatch::Prefix(path),
        });
        entries.push(Entry { location: at, condition, adds_slash: None, unusable: false });
    }
    entries
}

/// The longest text first, then reverse lexical (`controller.go`: two stable sorts).
fn pattern_entries(layout: &Layout) -> (Vec<Entry>, Vec<Diagnostic>) {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut budget = Budget::default();
    for (at, location) in layout.locations.iter().enumerate() {
        let path = location.path.to_string();
        let splits = location.kind == PathKind::Prefix && path != "/" && !location.asks_for_patterns();
        if !splits {
            candidates.push(Candidate::new(at, location, path, &mut budget));
            continue;
        }
        // As without regular expressions it is two nginx locations: `/path/` and, if free, `= /path`. Both stand where
        // the path of the object does, which is split after the sort (`updateServerLocations`).
        let taken = layout.has(PathKind::Exact, &path);
        let slashed = if path.ends_with('/') { path.clone() } else { format!("{path}/") };
        let with_path = slashed != path && !taken;
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

/// The text that the matches of an unusable pattern begin with.
fn unread_start(path: &str) -> String {
    fairway_pattern::literal_start(&pattern::of_path(path))
}

/// A pattern that waits for its place in the order.
struct Candidate {
    at: usize,
    path: String,
    /// Why it cannot be used: a code, and what follows "the regular expression" in a sentence.
    flaw: Option<(&'static str, Arc<str>)>,
    /// The text that decides about its place.
    rank: String,
    tie_break: TieBreak,
}

/// Who comes first at equal texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TieBreak {
    Usable,
    Unusable,
    /// The 404 of the host.
    Nowhere,
}

impl Candidate {
    /// Takes what the pattern costs from the host's budget; locations come in the order of age.
    fn new(at: usize, location: &Location, path: String, budget: &mut Budget) -> Self {
        let owner = location.owner.as_ref();
        let judged =
            owner.map_or_else(|| Patterns::default().judged(&path), |owner| owner.patterns.judged(&path));
        let namespace = owner.map(|owner| owner.key.namespace.clone()).unwrap_or_default();
        let flaw = match judged {
            Verdict::Refused(why) => Some(("invalid-regex", why)),
            Verdict::TooMuch(why) => Some(("regex-cost", why)),
            Verdict::Usable { start, steps } => budget
                .admit(&namespace, &start, steps)
                .err()
                .map(|exceeded| ("regex-cost", exceeded.to_string().into())),
        };
        // An unusable one that protects stands where its text would: no request passes it that the pattern would have
        // stopped. Any other unusable pattern only has the paths that are left, so that it takes none from those that work.
        let steps_back = flaw.is_some() && !location.is_protected();
        let rank = if steps_back { unread_start(&path) } else { location.path.to_string() };
        let tie_break = match (location.place, steps_back) {
            (Place::Nowhere, _) => TieBreak::Nowhere,
            (_, true) => TieBreak::Unusable,
            (_, false) => TieBreak::Usable,
        };
        Self { at, path, flaw, rank, tie_break }
    }

    /// The entry, and what is wrong with its pattern.
    fn into_entry(self, locations: &[Location]) -> (Entry, Option<Diagnostic>) {
        let Self { at, path, flaw, .. } = self;
        let unusable = flaw.is_some();
        let mut found = None;
        let pattern = match flaw {
            None => pattern::of_path(&path).into_owned(),
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
        (Entry { location: at, condition, adds_slash: None, unusable }, found)
    }
}

fn on_path(path: PathMatch) -> Match {
    Match { path, ..Match::default() }
}
