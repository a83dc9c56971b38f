//! Decides between the two tables of a listener: that of Gateway API routes, and that of Ingresses. Each finds its rule
//! independently; the more specific one serves, and on a tie that of the route.

use fairway_model::{Guard, Match, PathMatch, RuleOrder};

use crate::host::CompiledHost;
use crate::matched::Matched;
use crate::oracle::{Criterion, PlacedMatch};
use crate::request::{Fields, Request};
use crate::rule::CompiledRule;

/// The table that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableSide {
    /// The table of routes.
    Routes,
    /// The companion table of Ingresses.
    Other,
}

/// Which table serves a request, and why if both have a rule for it.
pub(crate) struct TableDecision {
    pub(crate) side: TableSide,
    pub(crate) decided_by: Option<Criterion>,
}

/// How specific the path of a match is: whether it is exact, and otherwise the length of its text.
type Precision = (bool, usize);

/// The result of a table.
#[derive(Clone, Copy)]
pub(crate) struct TableMatch<'s> {
    pub(crate) matched: Matched<'s>,
    /// Whether it found nothing although it may have a rule: the path is too long for regular expressions of one of its
    /// hosts.
    is_unread: bool,
}

impl<'s> TableMatch<'s> {
    /// The result of a table whose `hosts` cover the name.
    pub(crate) fn new<F: Fields>(
        matched: Matched<'s>,
        mut hosts: impl Iterator<Item = &'s CompiledHost>,
        request: &Request<'_, F>,
    ) -> Self {
        let has_rule = matches!(matched, Matched::Rule { .. });
        let is_unread = !has_rule && hosts.any(|host| host.is_too_long(host.path(request)));
        Self { matched, is_unread }
    }
}

/// Decides between the results of the two tables.
pub(crate) fn decided<F: Fields>(
    routes: TableMatch<'_>,
    other: TableMatch<'_>,
    request: &Request<'_, F>,
) -> TableDecision {
    // The rule that could not be evaluated may protect what the other table would serve.
    let unread = |side| TableDecision { side, decided_by: Some(Criterion::Unread) };
    if routes.is_unread {
        return unread(TableSide::Routes);
    }
    if other.is_unread {
        return unread(TableSide::Other);
    }
    let both = match (routes.matched, other.matched) {
        (
            Matched::Rule { host, rule, prefix },
            Matched::Rule { host: other_host, rule: other_rule, prefix: other_prefix },
        ) => ((host, rule, prefix), (other_host, other_rule, other_prefix)),
        (Matched::Rule { .. }, _) | (Matched::NoRule(_), Matched::NoHost) => {
            return TableDecision { side: TableSide::Routes, decided_by: None };
        }
        _ => return TableDecision { side: TableSide::Other, decided_by: None },
    };
    let ((host, rule, prefix), (other_host, other_rule, other_prefix)) = both;
    let decision = |side, criterion| TableDecision { side, decided_by: Some(criterion) };
    if is_fallback(other_rule) {
        return decision(TableSide::Routes, Criterion::Api);
    }
    let side = |is_other: bool| if is_other { TableSide::Other } else { TableSide::Routes };
    let (own, others) = (host.key().host.specificity(), other_host.key().host.specificity());
    if own != others {
        return decision(side(others > own), Criterion::Hostname);
    }
    let own_precision = precision(host, rule, prefix, request);
    let others = precision(other_host, other_rule, other_prefix, request);
    let criterion = match own_precision {
        _ if own_precision == others => return decision(TableSide::Routes, Criterion::Api),
        (is_exact, _) if is_exact != others.0 => Criterion::PathKind,
        _ => Criterion::PathLength,
    };
    decision(side(others > own_precision), criterion)
}

/// Whether a rule only covers paths that no Ingress path covers: a host's 404, its default backend or the health page.
fn is_fallback(rule: &CompiledRule) -> bool {
    let rule = rule.rule();
    let redirects = || rule.phases.guards.iter().any(|guard| matches!(guard, Guard::Redirect(_)));
    match &*rule.origin.field {
        "" => !redirects(),
        field => field == "spec.defaultBackend" || *rule.origin.kind == *"Default",
    }
}

/// The precision of the winning match, which covers `covered` bytes of the path.
fn precision<F: Fields>(
    host: &CompiledHost,
    rule: &CompiledRule,
    covered: usize,
    request: &Request<'_, F>,
) -> Precision {
    let path = host.path(request);
    if covered > 0 && covered < path.len() {
        return (false, covered);
    }
    // If it covers the whole path it may be exact or a prefix, and if it covers nothing, a regular expression or `/`.
    let matches = &rule.rule().matches;
    let fits = |applies: &&Match| {
        let placed = PlacedMatch { route: rule.route(), rule: 0, source: applies };
        matches.len() == 1 || placed.judged(path, request).is_ok_and(|own| own == covered)
    };
    let mut fitting = matches.iter().filter(fits).map(|route_match| precision_of(&route_match.path));
    let first = match host.model().order {
        RuleOrder::Listed => fitting.next(),
        RuleOrder::Precedence => fitting.max(),
    };
    first.unwrap_or((false, covered))
}

/// A trailing slash does not count: in a route, `/a` and `/a/` are the same prefix.
fn precision_of(path: &PathMatch) -> Precision {
    match path {
        PathMatch::Exact(_) => (true, 0),
        PathMatch::Prefix(text) | PathMatch::Regex { pattern: text, .. } => {
            (false, text.strip_suffix('/').unwrap_or(text).len())
        }
    }
}
