//! Explains which rule serves a request and why. Uses the slow, obvious rules of [`crate::oracle`], so that it can
//! differ from a lookup only if one of them is wrong; a property test compares them.

use std::sync::Arc;

use fairway_model::{Match, PathForm};

use crate::host::CompiledHost;
use crate::matched::Matched;
pub use crate::oracle::Criterion;
use crate::oracle::{self, Mismatch, PlacedMatch};
use crate::request::{Fields, Request};
use crate::rule::CompiledRule;
use crate::sharing::{self, TableDecision, TableMatch, TableSide};

/// How the winner was found.
#[derive(Clone, Debug)]
pub struct Explanation<'s> {
    /// The hosts that cover the name, most specific first.
    pub hosts: Vec<HostStep<'s>>,
    /// What serves the request.
    pub outcome: Matched<'s>,
}

/// A host that was considered.
#[derive(Clone, Debug)]
pub struct HostStep<'s> {
    /// The host.
    pub host: &'s CompiledHost,
    /// The outcome for the host.
    pub verdict: HostVerdict,
    /// Its matches in the order considered; empty for a less specific host.
    pub matches: Vec<MatchStep<'s>>,
}

/// The outcome for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    /// One of its rules serves the request.
    Serves,
    /// None of its rules matches; the next host is tried.
    FallsThrough,
    /// None of its rules matches, and less specific hosts are not tried.
    Stops,
    /// A more specific host decided.
    LessSpecific,
    /// One of its rules matches, but the listener's other table has one that takes precedence; the deciding criterion.
    Outranked(Criterion),
}

/// A match that was considered.
#[derive(Clone, Debug)]
pub struct MatchStep<'s> {
    /// Its rule.
    pub rule: &'s CompiledRule,
    /// The match.
    pub source: &'s Match,
    /// The outcome for the match.
    pub verdict: MatchVerdict,
}

/// The outcome for a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchVerdict {
    /// It serves the request.
    Wins,
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
    /// It cannot be compiled and never matches; why.
    Invalid(String),
    /// It matches, but another one takes precedence; the deciding criterion.
    Outranked(Criterion),
}

impl<'s> Explanation<'s> {
    fn found<F: Fields>(&self, request: &Request<'_, F>) -> TableMatch<'s> {
        TableMatch::new(self.outcome, self.hosts.iter().map(|step| step.host), request)
    }

    /// Merges the explanations of a listener's two tables: this one for routes, and `other` for the companion table.
    /// One of their winners serves.
    pub(crate) fn beside<F: Fields>(mut self, mut other: Self, request: &Request<'_, F>) -> Self {
        let TableDecision { side, decided_by: by } =
            sharing::decided(self.found(request), other.found(request), request);
        let loser = if side == TableSide::Routes { &mut other } else { &mut self };
        if let Some(by) = by {
            loser.lose(by);
        }
        let outcome = if side == TableSide::Routes { self.outcome } else { other.outcome };
        self.hosts.append(&mut other.hosts);
        Self { hosts: self.hosts, outcome }
    }

    fn lose(&mut self, criterion: Criterion) {
        for step in self.hosts.iter_mut().filter(|step| step.verdict == HostVerdict::Serves) {
            step.verdict = HostVerdict::Outranked(criterion);
            let winner = step.matches.iter_mut().find(|it| it.verdict == MatchVerdict::Wins);
            winner.into_iter().for_each(|it| it.verdict = MatchVerdict::Outranked(criterion));
        }
    }
}

/// Evaluates the hosts in `covering`, most specific first.
pub(crate) fn explained<'s, F: Fields>(
    covering: &[&'s CompiledHost],
    request: &Request<'_, F>,
) -> Explanation<'s> {
    let mut hosts = Vec::new();
    let mut outcome = None;
    for host in covering.iter().copied() {
        if outcome.is_some() {
            hosts.push(HostStep { host, verdict: HostVerdict::LessSpecific, matches: Vec::new() });
            continue;
        }
        let (matches, winner) = judged(host, request);
        let verdict = match winner {
            Some((rule, prefix)) => {
                outcome = Some(Matched::Rule { host, rule, prefix });
                HostVerdict::Serves
            }
            None if host.model().falls_through && !host.is_too_long(host.path(request)) => {
                HostVerdict::FallsThrough
            }
            None => {
                outcome = Some(Matched::NoRule(covering[0]));
                HostVerdict::Stops
            }
        };
        hosts.push(HostStep { host, verdict, matches });
    }
    let unserved = || covering.first().map_or(Matched::NoHost, |host| Matched::NoRule(host));
    Explanation { hosts, outcome: outcome.unwrap_or_else(unserved) }
}

type Winner<'s> = Option<(&'s CompiledRule, usize)>;

fn judged<'s, F: Fields>(
    host: &'s CompiledHost,
    request: &Request<'_, F>,
) -> (Vec<MatchStep<'s>>, Winner<'s>) {
    let model = host.model();
    let path = match model.path_form {
        PathForm::Normalised => request.normalised,
        PathForm::Decoded => request.decoded,
    };
    let mut winner: Option<(PlacedMatch<'s>, usize)> = None;
    let mut steps = Vec::new();
    let is_too_long = oracle::is_too_long(model, path);
    for place in oracle::ranked(model) {
        let judged = if is_too_long { Err(Mismatch::Path) } else { place.judged(path, request) };
        let verdict = match (judged, &winner) {
            (Ok(_), Some((first, _))) => MatchVerdict::Outranked(first.decided_over(&place, model.order)),
            (Ok(prefix), None) => {
                winner = Some((place, prefix));
                MatchVerdict::Wins
            }
            (Err(unmet), _) => unmet.into(),
        };
        steps.push(MatchStep { rule: &host.rules()[place.rule], source: place.source, verdict });
    }
    (steps, winner.map(|(place, prefix)| (&host.rules()[place.rule], prefix)))
}

impl From<Mismatch> for MatchVerdict {
    fn from(unmet: Mismatch) -> Self {
        match unmet {
            Mismatch::Path => Self::Path,
            Mismatch::Method => Self::Method,
            Mismatch::Header(name) => Self::Header(name),
            Mismatch::Query(name) => Self::Query(name),
            Mismatch::Cookie(name) => Self::Cookie(name),
            Mismatch::Invalid(why) => Self::Invalid(why),
        }
    }
}
