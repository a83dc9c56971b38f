//! Why a request is served by what serves it. Judges by the slow, obvious rules of [`crate::oracle`], so that it can
//! disagree with a lookup only where one of them is wrong; a property test holds them together.

use std::sync::Arc;

use fairway_model::{Match, PathForm};

use crate::host::CompiledHost;
use crate::matched::Matched;
pub use crate::oracle::Criterion;
use crate::oracle::{self, Place, Unmet};
use crate::request::{Fields, Request};
use crate::rule::CompiledRule;
use crate::sharing::{self, Decision, Found, Side};

/// How the winner was found.
#[derive(Clone, Debug)]
pub struct Explanation<'s> {
    /// The hosts that cover the name, the most specific first.
    pub hosts: Vec<HostStep<'s>>,
    /// What serves the request.
    pub outcome: Matched<'s>,
}

/// A host that was considered.
#[derive(Clone, Debug)]
pub struct HostStep<'s> {
    /// The host.
    pub host: &'s CompiledHost,
    /// What became of it.
    pub verdict: HostVerdict,
    /// Its matches in the order in which they are considered; empty for a less specific host.
    pub matches: Vec<MatchStep<'s>>,
}

/// What became of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    /// One of its rules serves the request.
    Serves,
    /// None of its rules matches; the next host is tried.
    FallsThrough,
    /// None of its rules matches; less specific hosts are not tried.
    Stops,
    /// A more specific host decided.
    LessSpecific,
    /// One of its rules matches, but the other table of the listener has one that comes before it; what decided between them.
    Outranked(Criterion),
}

/// A match that was considered.
#[derive(Clone, Debug)]
pub struct MatchStep<'s> {
    /// The rule that it belongs to.
    pub rule: &'s CompiledRule,
    /// The match.
    pub of: &'s Match,
    /// What became of it.
    pub verdict: MatchVerdict,
}

/// What became of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchVerdict {
    /// It decides.
    Wins,
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
    /// It cannot be compiled and never applies; why.
    Invalid(String),
    /// It applies, but one with more precedence does too; what decided between them.
    Outranked(Criterion),
}

impl<'s> Explanation<'s> {
    fn found<F: Fields>(&self, request: &Request<'_, F>) -> Found<'s> {
        Found::new(self.outcome, self.hosts.iter().map(|step| step.host), request)
    }

    /// This one of the routes and `other` of the table beside them as one: of their winners one serves.
    pub(crate) fn beside<F: Fields>(mut self, mut other: Self, request: &Request<'_, F>) -> Self {
        let Decision { side, by } = sharing::decided(self.found(request), other.found(request), request);
        let loser = if side == Side::Routes { &mut other } else { &mut self };
        if let Some(by) = by {
            loser.lose(by);
        }
        let outcome = if side == Side::Routes { self.outcome } else { other.outcome };
        self.hosts.append(&mut other.hosts);
        Self { hosts: self.hosts, outcome }
    }

    fn lose(&mut self, by: Criterion) {
        for step in self.hosts.iter_mut().filter(|step| step.verdict == HostVerdict::Serves) {
            step.verdict = HostVerdict::Outranked(by);
            let winner = step.matches.iter_mut().find(|it| it.verdict == MatchVerdict::Wins);
            winner.into_iter().for_each(|it| it.verdict = MatchVerdict::Outranked(by));
        }
    }
}

/// Judges the hosts in `covering`, the most specific first.
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
    let mut winner: Option<(Place<'s>, usize)> = None;
    let mut steps = Vec::new();
    let is_too_long = oracle::is_too_long(model, path);
    for place in oracle::ranked(model) {
        let judged = if is_too_long { Err(Unmet::Path) } else { place.judged(path, request) };
        let verdict = match (judged, &winner) {
            (Ok(_), Some((first, _))) => MatchVerdict::Outranked(first.decided_over(&place, model.order)),
            (Ok(prefix), None) => {
                winner = Some((place, prefix));
                MatchVerdict::Wins
            }
            (Err(unmet), _) => unmet.into(),
        };
        steps.push(MatchStep { rule: &host.rules()[place.rule], of: place.of, verdict });
    }
    (steps, winner.map(|(place, prefix)| (&host.rules()[place.rule], prefix)))
}

impl From<Unmet> for MatchVerdict {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Path => Self::Path,
            Unmet::Method => Self::Method,
            Unmet::Header(name) => Self::Header(name),
            Unmet::Query(name) => Self::Query(name),
            Unmet::Cookie(name) => Self::Cookie(name),
            Unmet::Invalid(why) => Self::Invalid(why),
        }
    }
}
