//! The slow, obvious matcher: scans every host and every match of a configuration and picks by the documented order. It
//! defines what a lookup must answer; tests hold the two together, and `explain` takes its reasons from here. Never on
//! the path of a request.

use std::cmp::Reverse;
use std::sync::Arc;

use fairway_model::{
    Action, Config, FieldMatch, Guard, HostKey, HostPattern, Match, PathForm, PathMatch, PathRewrite,
    Redirect, RedirectTarget, RequestEdit, Route, RouteFilters, Rule, RuleOrder, Step, TextMatch,
    VirtualHost, WildcardSpan,
};
use fairway_pattern::{Anchor, LONGEST_TEXT, Pattern};

use crate::query;
use crate::request::{Fields, Request};

/// What serves a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Rule number `rule` of the host, over all its routes.
    Rule {
        /// The host.
        host: HostKey,
        /// The number of the rule.
        rule: usize,
        /// As in [`crate::Matched::Rule`].
        prefix: usize,
    },
    /// The host is known, but no rule matches.
    NoRule(HostKey),
    /// No host covers the name.
    NoHost,
}

/// A match where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'m> {
    /// Its route.
    pub route: &'m Arc<Route>,
    /// The number of its rule in the host, over all routes.
    pub rule: usize,
    /// The match.
    pub of: &'m Match,
}

/// Why a match does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The path is another.
    Path,
    /// The method is another.
    Method,
    /// This header is absent or another.
    Header(Arc<str>),
    /// This query parameter is absent or another.
    Query(Arc<str>),
    /// This cookie is absent or another.
    Cookie(Arc<str>),
    /// A regular expression of it cannot be compiled.
    Invalid(String),
}

/// What decides between two matches that both apply, in this order (Gateway API HTTPRoute precedence).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The more specific hostname of a route is first.
    Hostname,
    /// An exact path is before a regular expression, and a regular expression before a prefix, or where it says so after
    /// all prefixes but `/`.
    PathKind,
    /// The longer path is first.
    PathLength,
    /// The higher rank is first.
    Rank,
    /// One that asks for a method is first.
    Method,
    /// More headers are first.
    Headers,
    /// More query parameters are first.
    Query,
    /// More cookies are first.
    Cookies,
    /// The older route is first.
    Age,
    /// `namespace/name` in alphabetical order.
    Name,
    /// A rule of a route comes before one of an Ingress that is as specific, and before the 404 of an Ingress's host.
    Api,
    /// The path is too long for the regular expressions of the other table, one of which may be for it: nobody serves it.
    Unread,
    /// As listed.
    Listed,
}

/// Looks `request` up in `table` of `config`.
pub fn find<F: Fields>(config: &Config, table: &str, request: &Request<'_, F>) -> Answer {
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
            return Answer::Rule { host: host.key.clone(), rule: place.rule, prefix };
        }
        if !host.falls_through {
            break;
        }
    }
    hosts.first().map_or(Answer::NoHost, |host| Answer::NoRule(host.key.clone()))
}

/// Whether the host has regular expressions whose cost the length of the path decides, and the path is longer than it was
/// counted for: then no rule serves it.
#[must_use]
pub(crate) fn is_too_long(host: &VirtualHost, path: &[u8]) -> bool {
    let rules = || host.routes.iter().flat_map(|route| &route.rules);
    let mut paths = rules().flat_map(|rule| &rule.matches).map(|of| &of.path);
    let reads_on = |path: &PathMatch| match path {
        PathMatch::Regex { pattern, ignore_case } => {
            Pattern::shared(pattern, Anchor::Start, *ignore_case).is_ok_and(|pattern| !pattern.is_literal())
        }
        PathMatch::Exact(_) | PathMatch::Prefix(_) => false,
    };
    path.len() > LONGEST_TEXT && (paths.any(reads_on) || rules().any(has_regex_rewrite))
}

/// Whether the rule, or one of its shares, makes a path by a regular expression.
fn has_regex_rewrite(rule: &Rule) -> bool {
    let is_regex = |path: &PathRewrite| matches!(path, PathRewrite::Regex { .. });
    let redirects = |to: &Redirect| matches!(&to.target, RedirectTarget::Parts { path: Some(path), .. } if is_regex(path));
    let of_rule = rule.phases.steps().any(|step| match step {
        Step::Guard(Guard::Redirect(to)) => redirects(to),
        Step::Request(RequestEdit::ForwardedPrefix(path)) | Step::Path(path) => is_regex(path),
        _ => false,
    });
    let Action::Forward(shares) = &rule.action else { return of_rule };
    let of_share = |filters: &RouteFilters| {
        filters.redirect.as_ref().is_some_and(redirects) || filters.path.as_ref().is_some_and(is_regex)
    };
    of_rule || shares.iter().filter_map(|share| share.filters.as_deref()).any(of_share)
}

/// Every match of `host`, the one with the most precedence first.
#[must_use]
pub fn ranked(host: &VirtualHost) -> Vec<Place<'_>> {
    let rules = host.routes.iter().flat_map(|route| route.rules.iter().map(move |rule| (route, rule)));
    let mut places: Vec<_> = rules
        .enumerate()
        .flat_map(|(number, (route, rule))| {
            rule.matches.iter().map(move |of| Place { route, rule: number, of })
        })
        .collect();
    if host.order == RuleOrder::Precedence {
        // Stable: equal ones stay as listed.
        places.sort_by_cached_key(|place| (Reverse(place.route.hostname_rank), place.rank()));
    }
    places
}

impl Place<'_> {
    /// Whether the match applies, and how many bytes of `path` it covers.
    ///
    /// # Errors
    /// The first reason why it does not.
    pub fn judged<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Result<usize, Unmet> {
        self.validated()?;
        let covered = covered(&self.of.path, path).ok_or(Unmet::Path)?;
        if self.of.method.as_ref().is_some_and(|method| method.as_bytes() != request.method) {
            return Err(Unmet::Method);
        }
        for field in &self.of.headers {
            let value = request.fields.first(&field.name);
            if !value.is_some_and(|value| text_matches(&field.value, value)) {
                return Err(Unmet::Header(field.name.clone()));
            }
        }
        for field in &self.of.query {
            let value = parameter(request.query, &field.name);
            if !value.is_some_and(|value| text_matches(&field.value, &value)) {
                return Err(Unmet::Query(field.name.clone()));
            }
        }
        for field in &self.of.cookies {
            let value = request.fields.cookie(&field.name);
            if !value.is_some_and(|value| text_matches(&field.value, value)) {
                return Err(Unmet::Cookie(field.name.clone()));
            }
        }
        Ok(covered)
    }

    /// What decided that `self` comes before `other`.
    #[must_use]
    pub(crate) fn decided_over(&self, other: &Self, order: RuleOrder) -> Criterion {
        let (first, second) = (self.rank(), other.rank());
        // `/` is behind all else, but still a prefix.
        let kind = |rank: &Rank| if rank.0 == ROOT { PREFIX } else { rank.0 };
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

    fn rank(&self) -> Rank {
        let (kind, length) = match &self.of.path {
            PathMatch::Exact(path) => (EXACT, path.len()),
            // What covers everything is shorter than all else, also than `*`.
            PathMatch::Prefix(path) if matches!(&**path, "" | "/") => (ROOT, 0),
            PathMatch::Prefix(path) => (PREFIX, path.len()),
            PathMatch::Regex { pattern, .. } if self.of.after_prefixes => (LATE_REGEX, pattern.len()),
            PathMatch::Regex { pattern, .. } => (REGEX, pattern.len()),
        };
        // All exact paths that match are one path, whatever their number of bytes.
        (
            kind,
            Reverse(if kind == EXACT { 0 } else { length }),
            Reverse(self.of.rank),
            Reverse(self.of.method.is_some()),
            (Reverse(self.of.headers.len()), Reverse(self.of.query.len()), Reverse(self.of.cookies.len())),
            self.route.created.unwrap_or(i64::MAX),
            format!("{}/{}", self.route.origin.namespace, self.route.origin.name),
        )
    }

    fn validated(&self) -> Result<(), Unmet> {
        let path = match &self.of.path {
            PathMatch::Regex { pattern, ignore_case } => Some((pattern, Anchor::Start, *ignore_case)),
            _ => None,
        };
        let fields =
            self.of.headers.iter().chain(&self.of.query).chain(&self.of.cookies).filter_map(|field| {
                match field {
                    FieldMatch { value: TextMatch::Regex(pattern), .. } => {
                        Some((pattern, Anchor::Both, false))
                    }
                    _ => None,
                }
            });
        path.into_iter().chain(fields).try_for_each(|(pattern, anchor, ignore_case)| {
            Pattern::shared(pattern, anchor, ignore_case)
                .map(drop)
                .map_err(|why| Unmet::Invalid(format!("{pattern:?} {why}")))
        })
    }
}

/// The kinds of paths, in the order in which they are tried.
const EXACT: u8 = 0;
const REGEX: u8 = 1;
const PREFIX: u8 = 2;
const LATE_REGEX: u8 = 3;
const ROOT: u8 = 4;

/// Headers, query parameters, cookies.
type Counts = (Reverse<usize>, Reverse<usize>, Reverse<usize>);
type Rank = (u8, Reverse<usize>, Reverse<u8>, Reverse<bool>, Counts, i64, String);

/// Exact names, then the longest suffix, then every name; one label before many.
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

/// The first parameter of that name, decoded.
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
