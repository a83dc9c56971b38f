//! A match with its rule, ready to be tested, and the order in which candidates for one path are tried.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use fairway_model::{Match, PathMatch, Route, VirtualHost};
use fairway_pattern::{Anchor, Pattern};

use crate::conditions::Conditions;
use crate::request::{Fields, Request};

/// A match of the model on its way into a table.
#[derive(Clone, Copy)]
pub(crate) struct Proposal<'m> {
    /// Its route.
    pub(crate) route: &'m Arc<Route>,
    /// The number of its rule in the host, over all routes.
    pub(crate) rule: u32,
    /// The match.
    pub(crate) of: &'m Match,
}

/// What is left of a match once its path is known to fit.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The number of the rule in the host.
    pub(crate) rule: u32,
    conditions: Option<Box<Conditions>>,
}

/// A candidate that tests the path by itself.
#[derive(Clone, Debug)]
pub(crate) struct PathCandidate {
    pub(crate) path: PathTest,
    pub(crate) candidate: Candidate,
}

/// A condition on the path, one at a time.
#[derive(Clone, Debug)]
pub(crate) enum PathTest {
    Exact(Arc<str>),
    Prefix(Arc<str>),
    Regex(Arc<Pattern>),
    /// One that comes after all prefixes but `/`, and is asked with [`PathTest::fits_late`] only.
    Late(Arc<Pattern>),
}

/// Every match of `host` in listed order.
pub(crate) fn proposals(host: &VirtualHost) -> impl Iterator<Item = Proposal<'_>> {
    let rules = host.routes.iter().flat_map(|route| route.rules.iter().map(move |rule| (route, rule)));
    rules.zip(0..).flat_map(|((route, rule), number)| {
        rule.matches.iter().map(move |of| Proposal { route, rule: number, of })
    })
}

impl Proposal<'_> {
    /// Among matches on the same path: the higher hostname rank of the route, the higher rank, then Gateway API HTTPRoute precedence: method, number of header
    /// matches, number of query matches, oldest route, `namespace/name`. HTTPRoute has no cookies; they count behind
    /// the query. Equal matches stay as listed.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        let asks = |of: &Match| {
            let counts = [of.headers.len(), of.query.len(), of.cookies.len()];
            (Reverse(of.rank), Reverse(of.method.is_some()), Reverse(counts))
        };
        let hostname = |it: &Self| Reverse(it.route.hostname_rank);
        let by_hostname = hostname(self).cmp(&hostname(other));
        by_hostname.then_with(|| asks(self.of).cmp(&asks(other.of))).then_with(|| {
            if Arc::ptr_eq(self.route, other.route) {
                return Ordering::Equal;
            }
            let age = |route: &Route| route.created.unwrap_or(i64::MAX);
            age(self.route).cmp(&age(other.route)).then_with(|| name(self.route).cmp(name(other.route)))
        })
    }

    /// Whether its path is all that it asks for.
    pub(crate) fn asks_only_for_a_path(&self) -> bool {
        Conditions::are_none(self.of)
    }

    /// The candidate, or what is wrong with its conditions.
    pub(crate) fn candidate(&self) -> Result<Candidate, String> {
        Ok(Candidate { rule: self.rule, conditions: Conditions::compiled(self.of)?.map(Box::new) })
    }

    /// The candidate with its path, or what is wrong with either.
    pub(crate) fn path_candidate(&self) -> Result<PathCandidate, String> {
        Ok(PathCandidate { path: PathTest::compiled(&self.of.path)?, candidate: self.candidate()? })
    }
}

/// The bytes of `namespace/name`, by which the specification orders.
fn name(route: &Route) -> impl Iterator<Item = u8> {
    route.origin.namespace.bytes().chain([b'/']).chain(route.origin.name.bytes())
}

impl Candidate {
    /// Whether it asks nothing but a path.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.conditions.is_none()
    }

    /// Whether everything but the path fits.
    #[inline]
    pub(crate) fn fits<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        self.conditions.as_ref().is_none_or(|conditions| conditions.hold(request))
    }
}

impl PathTest {
    /// Ready to be tested.
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

    /// The same after prefixes, where it is a regular expression.
    pub(crate) fn after_prefixes(self) -> Self {
        match self {
            Self::Regex(pattern) => Self::Late(pattern),
            other => other,
        }
    }

    /// Whether the length of the path decides what the test costs.
    pub(crate) fn reads_on(&self) -> bool {
        matches!(self, Self::Regex(pattern) | Self::Late(pattern) if !pattern.is_literal())
    }

    /// Whether it is one that comes after prefixes.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Late(_))
    }

    /// Whether it is one that comes after prefixes and fits.
    pub(crate) fn fits_late(&self, path: &[u8]) -> bool {
        matches!(self, Self::Late(pattern) if pattern.is_match(path))
    }

    /// How many bytes of `path` are covered, as [`crate::Matched::Rule`] counts them.
    pub(crate) fn covered(&self, path: &[u8]) -> Option<usize> {
        match self {
            Self::Exact(exact) => (exact.as_bytes() == path).then_some(path.len()),
            Self::Prefix(prefix) => covered_by_prefix(prefix.as_bytes(), path),
            Self::Regex(pattern) => pattern.is_match(path).then_some(0),
            Self::Late(_) => None,
        }
    }
}

/// By path elements; a trailing slash is part of the prefix, and `/` covers everything.
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
