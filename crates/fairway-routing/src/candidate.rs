//! A match with its rule, ready to be tested, and the order in which candidates for one path are tried.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use fairway_model::{Match, PathMatch, Route, VirtualHost};
use fairway_pattern::{Anchor, Pattern};

use crate::conditions::Conditions;
use crate::request::{Fields, Request};

/// A match of the model and its position.
#[derive(Clone, Copy)]
pub(crate) struct RankedMatch<'m> {
    /// Its route.
    pub(crate) route: &'m Arc<Route>,
    /// The index of its rule in the host, over all routes.
    pub(crate) rule: u32,
    /// The match.
    pub(crate) source: &'m Match,
}

/// A match whose path has been tested.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The index of the rule in the host.
    pub(crate) rule: u32,
    conditions: Option<Box<Conditions>>,
}

/// A match whose path must be tested, too.
#[derive(Clone, Debug)]
pub(crate) struct PathCandidate {
    pub(crate) path: PathTest,
    pub(crate) candidate: Candidate,
}

/// A compiled path match.
#[derive(Clone, Debug)]
pub(crate) enum PathTest {
    Exact(Arc<str>),
    Prefix(Arc<str>),
    Regex(Arc<Pattern>),
    /// A pattern that comes after all prefixes but `/`; only [`PathTest::matches_after_prefixes`] tests it.
    Late(Arc<Pattern>),
}

/// Every match of `host` as listed.
pub(crate) fn proposals(host: &VirtualHost) -> impl Iterator<Item = RankedMatch<'_>> {
    let rules = host.routes.iter().flat_map(|route| route.rules.iter().map(move |rule| (route, rule)));
    rules.zip(0..).flat_map(|((route, rule), number)| {
        rule.matches.iter().map(move |route_match| RankedMatch { route, rule: number, source: route_match })
    })
}

impl RankedMatch<'_> {
    /// The order of matches on the same path: the higher hostname rank of the route, the higher rank, then Gateway API
    /// HTTPRoute precedence: method, number of header matches, number of query matches, oldest route, `namespace/name`.
    /// HTTPRoute has no cookies; they count after the query. Equal matches stay as listed.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        let asks = |compared: &Match| {
            let counts = [compared.headers.len(), compared.query.len(), compared.cookies.len()];
            (Reverse(compared.rank), Reverse(compared.method.is_some()), Reverse(counts))
        };
        let hostname = |it: &Self| Reverse(it.route.hostname_rank);
        let by_hostname = hostname(self).cmp(&hostname(other));
        by_hostname.then_with(|| asks(self.source).cmp(&asks(other.source))).then_with(|| {
            if Arc::ptr_eq(self.route, other.route) {
                return Ordering::Equal;
            }
            let age = |route: &Route| route.created.unwrap_or(i64::MAX);
            age(self.route).cmp(&age(other.route)).then_with(|| name(self.route).cmp(name(other.route)))
        })
    }

    /// Whether it has no conditions but its path.
    pub(crate) fn asks_only_for_a_path(&self) -> bool {
        Conditions::are_none(self.source)
    }

    /// The candidate, or why its conditions are invalid.
    pub(crate) fn candidate(&self) -> Result<Candidate, String> {
        Ok(Candidate { rule: self.rule, conditions: Conditions::compiled(self.source)?.map(Box::new) })
    }

    /// The candidate with its path, or why either is invalid.
    pub(crate) fn path_candidate(&self) -> Result<PathCandidate, String> {
        Ok(PathCandidate { path: PathTest::compiled(&self.source.path)?, candidate: self.candidate()? })
    }
}

/// The bytes of `namespace/name`, which the specification orders by.
fn name(route: &Route) -> impl Iterator<Item = u8> {
    route.origin.namespace.bytes().chain([b'/']).chain(route.origin.name.bytes())
}

impl Candidate {
    /// Whether it has no conditions but its path.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.conditions.is_none()
    }

    /// Whether all conditions but the path hold.
    #[inline]
    pub(crate) fn fits<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        self.conditions.as_ref().is_none_or(|conditions| conditions.hold(request))
    }
}

impl PathTest {
    /// Compiles a path match.
    pub(crate) fn compiled(path: &PathMatch) -> Result<Self, String> {
        Ok(match path {
            PathMatch::Exact(path) => Self::Exact(path.clone()),
            PathMatch::Prefix(path) => Self::Prefix(path.clone()),
            PathMatch::Regex { pattern, ignore_case } => Self::Regex(
                Pattern::shared(pattern, Anchor::Start, *ignore_case)
                    .map_err(|why| format!("the regular expression of path {pattern:?} {why}"))?,
            ),
        })
    }

    /// Moves a regular expression after the prefixes.
    pub(crate) fn after_prefixes(self) -> Self {
        match self {
            Self::Regex(pattern) => Self::Late(pattern),
            other => other,
        }
    }

    /// Whether the cost of the test depends on the length of the path.
    pub(crate) fn reads_on(&self) -> bool {
        matches!(self, Self::Regex(pattern) | Self::Late(pattern) if !pattern.is_literal())
    }

    /// Whether it comes after the prefixes.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Late(_))
    }

    /// Whether it comes after the prefixes and matches.
    pub(crate) fn matches_after_prefixes(&self, path: &[u8]) -> bool {
        matches!(self, Self::Late(pattern) if pattern.is_match(path))
    }

    /// How many bytes of `path` it covers, as [`crate::Matched::Rule`] counts them.
    pub(crate) fn covered(&self, path: &[u8]) -> Option<usize> {
        match self {
            Self::Exact(exact) => (exact.as_bytes() == path).then_some(path.len()),
            Self::Prefix(prefix) => covered_by_prefix(prefix.as_bytes(), path),
            Self::Regex(pattern) => pattern.is_match(path).then_some(0),
            Self::Late(_) => None,
        }
    }
}

/// Compares path elements; a trailing slash is part of the prefix, and `/` covers everything.
#[inline]
pub(crate) fn covered_by_prefix(prefix: &[u8], path: &[u8]) -> Option<usize> {
    if matches!(prefix, b"" | b"/") {
        return Some(0);
    }
    let rest = path.strip_prefix(prefix)?;
    match prefix.strip_suffix(b"/") {
        Some(bare) => Some(bare.len()),
        None => (rest.is_empty() || rest[0] == b'/').then_some(prefix.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_whole_elements() {
        for (prefix, path, covered) in [
            ("/a", "/a", Some(2)),
            ("/a", "/a/", Some(2)),
            ("/a", "/a/b", Some(2)),
            ("/a", "/ab", None),
            ("/a/", "/a", None),
            ("/a/", "/a/", Some(2)),
            ("/a/", "/a/b", Some(2)),
            ("/", "/x", Some(0)),
            ("/", "*", Some(0)),
        ] {
            assert_eq!(covered_by_prefix(prefix.as_bytes(), path.as_bytes()), covered, "{prefix} {path}");
        }
    }
}
