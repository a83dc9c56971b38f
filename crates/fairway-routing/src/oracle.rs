//! The slow, obvious matcher: scans every host and every match of a configuration and applies the documented order. It
//! defines the correct result of a lookup; tests compare the two, and `explain` gets its reasons here. Never on the
//! request path.

use std::cmp::Reverse;
use std::sync::Arc;

use fairway_model::{
    Action, Config, Guard, HostKey, HostPattern, Match, NamedValueMatch, PathForm, PathMatch, PathRewrite,
    Redirect, RedirectTarget, RequestEdit, Route, RouteFilters, Rule, RuleOrder, RuleStep, TextMatch,
    VirtualHost, WildcardSpan,
};
use fairway_pattern::{Anchor, LONGEST_TEXT, Pattern};

use crate::query;
use crate::request::{Fields, Request};

/// What serves a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OracleMatch {
    /// Rule number `rule` of the host, over all its routes.
    Rule {
        /// The host.
        host: HostKey,
        /// The index of the rule.
        rule: usize,
        /// As in [`crate::Matched::Rule`].
        prefix: usize,
    },
    /// The host is known, but no rule matches.
    NoRule(HostKey),
    /// No host covers the name.
    NoHost,
}

/// A match and its position.
#[derive(Clone, Copy, Debug)]
pub struct PlacedMatch<'m> {
    /// Its route.
    pub route: &'m Arc<Route>,
    /// The index of its rule in the host, over all routes.
    pub rule: usize,
    /// The match.
    pub source: &'m Match,
}

/// Why a match does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The path differs.
    Path,
    /// The method differs.
    Method,
    /// This header is absent or differs.
    Header(Arc<str>),
    /// This query parameter is absent or differs.
    Query(Arc<str>),
    /// This cookie is absent or differs.
    Cookie(Arc<str>),
    /// One of its regular expressions cannot be compiled.
    Invalid(String),
}

/// The criteria between two matches that both apply, in this order (Gateway API HTTPRoute precedence).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// A route's more specific hostname comes first.
    Hostname,
    /// An exact path comes before a regular expression, and a regular expression before a prefix, or if it says so
    /// after all prefixes but `/`.
    PathKind,
    /// The longer path comes first.
    PathLength,
    /// The higher rank comes first.
    Rank,
    /// A match with a method comes first.
    Method,
    /// More headers come first.
    Headers,
    /// More query parameters come first.
    Query,
    /// More cookies come first.
    Cookies,
    /// The older route comes first.
    Age,
    /// `namespace/name` in alphabetical order.
    Name,
    /// A route's rule comes before an equally specific one of an Ingress, and before the 404 of an Ingress's host.
    Api,
    /// The path is too long for the regular expressions of the other table, one of which may match it: no rule serves
    /// it.
    Unread,
    /// As listed.
    Listed,
}

/// Looks up `request` in `table` of `config`.
pub fn find<F: Fields>(config: &Config, table: &str, request: &Request<'_, F>) -> OracleMatch {
    let covers = |host: &&Arc<VirtualHost>| &*host.key.table == table && host.key.host.covers(request.host);
    let mut hosts: Vec<&Arc<VirtualHost>> = config.hosts.values().filter(covers).collect();
    hosts.sort_by_key(|host| specificity(&host.key.host));
    for host in &hosts {
        let path = match host.path_form {
            PathForm::Normalised => request.normalised,
            PathForm::Decoded => request.decoded,
        };
        if is_too_long(host, path) {
            break;
        }
        let winner =
            ranked(host).into_iter().find_map(|place| Some((place, place.judged(path, request).ok()?)));
        if let Some((place, prefix)) = winner {
            return OracleMatch::Rule { host: host.key.clone(), rule: place.rule, prefix };
        }
        if !host.falls_through {
            break;
        }
    }
    hosts.first().map_or(OracleMatch::NoHost, |host| OracleMatch::NoRule(host.key.clone()))
}

/// Whether the host has regular expressions whose cost depends on the length of the path, and the path is longer than
/// their cost was bounded for: then no rule serves it.
#[must_use]
pub(crate) fn is_too_long(host: &VirtualHost, path: &[u8]) -> bool {
    let rules = || host.routes.iter().flat_map(|route| &route.rules);
    let mut paths = rules().flat_map(|rule| &rule.matches).map(|route_match| &route_match.path);
    let reads_on = |path: &PathMatch| match path {
        PathMatch::Regex { pattern, ignore_case } => {
            Pattern::shared(pattern, Anchor::Start, *ignore_case).is_ok_and(|pattern| !pattern.is_literal())
        }
        PathMatch::Exact(_) | PathMatch::Prefix(_) => false,
    };
    path.len() > LONGEST_TEXT && (paths.any(reads_on) || rules().any(has_regex_rewrite))
}

/// Whether the rule, or one of its shares, rewrites the path by a regular expression.
fn has_regex_rewrite(rule: &Rule) -> bool {
    let is_regex = |path: &PathRewrite| matches!(path, PathRewrite::Regex { .. });
    let redirects = |to: &Redirect| matches!(&to.target, RedirectTarget::Parts { path: Some(path), .. } if is_regex(path));
    let of_rule = rule.phases.steps().any(|step| match step {
        RuleStep::Guard(Guard::Redirect(to)) => redirects(to),
        RuleStep::Request(RequestEdit::ForwardedPrefix(path)) | RuleStep::Path(path) => is_regex(path),
        _ => false,
    });
    let Action::Forward(shares) = &rule.action else { return of_rule };
    let of_share = |filters: &RouteFilters| {
        filters.redirect.as_ref().is_some_and(redirects) || filters.path.as_ref().is_some_and(is_regex)
    };
    of_rule || shares.iter().filter_map(|share| share.filters.as_deref()).any(of_share)
}

/// Every match of `host`, highest precedence first.
#[must_use]
pub fn ranked(host: &VirtualHost) -> Vec<PlacedMatch<'_>> {
    let rules = host.routes.iter().flat_map(|route| route.rules.iter().map(move |rule| (route, rule)));
    let mut entries: Vec<_> = rules
        .enumerate()
        .flat_map(|(number, (route, rule))| {
            rule.matches.iter().map(move |route_match| PlacedMatch {
                route,
                rule: number,
                source: route_match,
            })
        })
        .collect();
    if host.order == RuleOrder::Precedence {
        // Stable: equal matches stay as listed.
        entries.sort_by_cached_key(|place| (Reverse(place.route.hostname_rank), place.rank()));
    }
    entries
}

impl PlacedMatch<'_> {
    /// How many bytes of `path` the match covers, if it applies.
    ///
    /// # Errors
    /// The first reason why it does not.
    pub fn judged<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Result<usize, Mismatch> {
        self.validated()?;
        let covered = covered(&self.source.path, path).ok_or(Mismatch::Path)?;
        if self.source.method.as_ref().is_some_and(|method| method.as_bytes() != request.method) {
            return Err(Mismatch::Method);
        }
        for field in &self.source.headers {
            let value = request.fields.first(&field.name);
            if !value.is_some_and(|value| text_matches(&field.value, value)) {
                return Err(Mismatch::Header(field.name.clone()));
            }
        }
        for field in &self.source.query {
            let value = parameter(request.query, &field.name);
            if !value.is_some_and(|value| text_matches(&field.value, &value)) {
                return Err(Mismatch::Query(field.name.clone()));
            }
        }
        for field in &self.source.cookies {
            let value = request.fields.cookie(&field.name);
            if !value.is_some_and(|value| text_matches(&field.value, value)) {
                return Err(Mismatch::Cookie(field.name.clone()));
            }
        }
        Ok(covered)
    }

    /// Why `self` comes before `other`.
    #[must_use]
    pub(crate) fn decided_over(&self, other: &Self, order: RuleOrder) -> Criterion {
        let (first, second) = (self.rank(), other.rank());
        // `/` comes last, but is still a prefix.
        let kind = |rank: &Precedence| if rank.0 == ROOT { PREFIX } else { rank.0 };
        let differs = [
            (Criterion::Hostname, self.route.hostname_rank != other.route.hostname_rank),
            (Criterion::PathKind, kind(&first) != kind(&second)),
            (Criterion::PathLength, first.1 != second.1),
            (Criterion::Rank, first.2 != second.2),
            (Criterion::Method, first.3 != second.3),
            (Criterion::Headers, first.4.0 != second.4.0),
            (Criterion::Query, first.4.1 != second.4.1),
            (Criterion::Cookies, first.4.2 != second.4.2),
            (Criterion::Age, first.5 != second.5),
            (Criterion::Name, first.6 != second.6),
        ];
        let decides = differs.into_iter().find(|(_, differs)| *differs && order == RuleOrder::Precedence);
        decides.map_or(Criterion::Listed, |(criterion, _)| criterion)
    }

    fn rank(&self) -> Precedence {
        let (kind, length) = match &self.source.path {
            PathMatch::Exact(path) => (EXACT, path.len()),
            // What covers everything counts as shorter than all else, including `*`.
            PathMatch::Prefix(path) if matches!(&**path, "" | "/") => (ROOT, 0),
            PathMatch::Prefix(path) => (PREFIX, path.len()),
            PathMatch::Regex { pattern, .. } if self.source.after_prefixes => (LATE_REGEX, pattern.len()),
            PathMatch::Regex { pattern, .. } => (REGEX, pattern.len()),
        };
        // All exact paths that match are the same path, whatever their number of bytes.
        (
            kind,
            Reverse(if kind == EXACT { 0 } else { length }),
            Reverse(self.source.rank),
            Reverse(self.source.method.is_some()),
            (
                Reverse(self.source.headers.len()),
                Reverse(self.source.query.len()),
                Reverse(self.source.cookies.len()),
            ),
            self.route.created.unwrap_or(i64::MAX),
            format!("{}/{}", self.route.origin.namespace, self.route.origin.name),
        )
    }

    fn validated(&self) -> Result<(), Mismatch> {
        let path = match &self.source.path {
            PathMatch::Regex { pattern, ignore_case } => Some((pattern, Anchor::Start, *ignore_case)),
            _ => None,
        };
        let fields =
            self.source.headers.iter().chain(&self.source.query).chain(&self.source.cookies).filter_map(
                |field| match field {
                    NamedValueMatch { value: TextMatch::Regex(pattern), .. } => {
                        Some((pattern, Anchor::Both, false))
                    }
                    _ => None,
                },
            );
        path.into_iter().chain(fields).try_for_each(|(pattern, anchor, ignore_case)| {
            Pattern::shared(pattern, anchor, ignore_case)
                .map(drop)
                .map_err(|why| Mismatch::Invalid(format!("{pattern:?} {why}")))
        })
    }
}

/// The kinds of paths, in the order they are tried.
const EXACT: u8 = 0;
const REGEX: u8 = 1;
const PREFIX: u8 = 2;
const LATE_REGEX: u8 = 3;
const ROOT: u8 = 4;

/// Headers, query parameters, cookies.
type ConditionCounts = (Reverse<usize>, Reverse<usize>, Reverse<usize>);
type Precedence = (u8, Reverse<usize>, Reverse<u8>, Reverse<bool>, ConditionCounts, i64, String);

/// Exact names first, then the longest suffix, then the catch-all; one label before many.
fn specificity(host: &HostPattern) -> (u8, Reverse<usize>, Option<WildcardSpan>) {
    match host {
        HostPattern::Exact(_) => (0, Reverse(0), None),
        HostPattern::Wildcard { suffix, span } => (1, Reverse(suffix.len()), Some(*span)),
        HostPattern::Any => (2, Reverse(0), None),
    }
}

fn covered(pattern: &PathMatch, path: &[u8]) -> Option<usize> {
    match pattern {
        PathMatch::Exact(exact) => (exact.as_bytes() == path).then_some(path.len()),
        PathMatch::Prefix(prefix) if matches!(&**prefix, "" | "/") => Some(0),
        PathMatch::Prefix(prefix) => match prefix.strip_suffix('/') {
            Some(bare) => path.starts_with(prefix.as_bytes()).then_some(bare.len()),
            None => {
                let below = path.starts_with(format!("{prefix}/").as_bytes());
                (path == prefix.as_bytes() || below).then_some(prefix.len())
            }
        },
        PathMatch::Regex { pattern, ignore_case } => {
            let pattern = Pattern::shared(pattern, Anchor::Start, *ignore_case).ok()?;
            pattern.is_match(path).then_some(0)
        }
    }
}

fn text_matches(text: &TextMatch, value: &[u8]) -> bool {
    match text {
        TextMatch::Exact(exact) => exact.as_bytes() == value,
        TextMatch::Regex(pattern) => {
            let pattern = Pattern::shared(pattern, Anchor::Both, false);
            value.len() <= LONGEST_TEXT && pattern.is_ok_and(|pattern| pattern.is_match(value))
        }
    }
}

/// The decoded value of the first parameter with this name.
fn parameter(raw: &[u8], name: &str) -> Option<Vec<u8>> {
    let pairs = raw.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let mut half = || query::decoded(halves.next().unwrap_or_default()).collect::<Vec<u8>>();
            (half(), half())
        })
        .find_map(|(found, value)| (found == name.as_bytes()).then_some(value))
}
