//! Two tables at one listener: that of the routes of Gateways, and that of Ingresses beside it. Each finds its rule as if it were alone;
//! of the two, the more specific one serves, and at a tie that of the route. Owns this comparison, and no lookup.

use fairway_model::{Guard, Match, PathMatch, RuleOrder};

use crate::host::CompiledHost;
use crate::matched::Matched;
use crate::oracle::{Criterion, Place};
use crate::request::{Fields, Request};
use crate::rule::CompiledRule;

/// Which table serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// That of the routes.
    Routes,
    /// The one beside it.
    Other,
}

/// Which table serves a request, and what decided where both have a rule for it.
pub(crate) struct Decision {
    pub(crate) side: Side,
    pub(crate) by: Option<Criterion>,
}

/// How specific the path of a match is: whether it is exact, and otherwise how long its text is.
type Precision = (bool, usize);

/// What a table found.
#[derive(Clone, Copy)]
pub(crate) struct Found<'s> {
    pub(crate) matched: Matched<'s>,
    /// Whether it found nothing although it may have a rule: one of its hosts has regular expressions that read no path so long.
    is_unread: bool,
}

impl<'s> Found<'s> {
    /// What a table found whose hosts cover the name.
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

/// Decides between what the two tables found.
pub(crate) fn decided<F: Fields>(routes: Found<'_>, other: Found<'_>, request: &Request<'_, F>) -> Decision {
    // The rule that nobody can read may be a protection of what the other table would serve.
    let unread = |side| Decision { side, by: Some(Criterion::Unread) };
    if routes.is_unread {
        return unread(Side::Routes);
    }
    if other.is_unread {
        return unread(Side::Other);
    }
    let both = match (routes.matched, other.matched) {
        (
            Matched::Rule { host, rule, prefix },
            Matched::Rule { host: other_host, rule: other_rule, prefix: other_prefix },
        ) => ((host, rule, prefix), (other_host, other_rule, other_prefix)),
        (Matched::Rule { .. }, _) | (Matched::NoRule(_), Matched::NoHost) => {
            return Decision { side: Side::Routes, by: None };
        }
        _ => return Decision { side: Side::Other, by: None },
    };
    let ((host, rule, prefix), (other_host, other_rule, other_prefix)) = both;
    let by = |side, criterion| Decision { side, by: Some(criterion) };
    if is_fallback(other_rule) {
        return by(Side::Routes, Criterion::Api);
    }
    let side = |is_other: bool| if is_other { Side::Other } else { Side::Routes };
    let (own, others) = (host.key().host.specificity(), other_host.key().host.specificity());
    if own != others {
        return by(side(others > own), Criterion::Hostname);
    }
    let own = precision(host, rule, prefix, request);
    let others = precision(other_host, other_rule, other_prefix, request);
    let criterion = match own {
        _ if own == others => return by(Side::Routes, Criterion::Api),
        (is_exact, _) if is_exact != others.0 => Criterion::PathKind,
        _ => Criterion::PathLength,
    };
    by(side(others > own), criterion)
}

/// Whether a rule is there for paths that no path of an Ingress covers: the 404 of a host, its default backend or the page of health.
fn is_fallback(rule: &CompiledRule) -> bool {
    let rule = rule.rule();
    let redirects = || rule.phases.guards.iter().any(|guard| matches!(guard, Guard::Redirect(_)));
    match &*rule.origin.field {
        "" => !redirects(),
        field => field == "spec.defaultBackend" || *rule.origin.kind == *"Default",
    }
}

/// The precision of the match by which a rule won, which covers so many bytes of the path.
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
    // What covers the whole path may be exact or a prefix, and what covers nothing a regular expression or `/`.
    let matches = &rule.rule().matches;
    let fits = |of: &&Match| {
        let place = Place { route: rule.route(), rule: 0, of };
        matches.len() == 1 || place.judged(path, request).is_ok_and(|own| own == covered)
    };
    let mut fitting = matches.iter().filter(fits).map(|of| precision_of(&of.path));
    let first = match host.model().order {
        RuleOrder::Listed => fitting.next(),
        RuleOrder::Precedence => fitting.max(),
    };
    first.unwrap_or((false, covered))
}

/// A trailing slash does not count: in a route, `/a` and `/a/` are one prefix.
fn precision_of(path: &PathMatch) -> Precision {
    match path {
        PathMatch::Exact(_) => (true, 0),
        PathMatch::Prefix(text) | PathMatch::Regex { pattern: text, .. } => {
            (false, text.strip_suffix('/').unwrap_or(text).len())
        }
    }
}
