//! The rules that may serve a request whose headers and query are unknown, in the order they are considered.

use fairway_model::{Listener, Match};

use super::configuration::ComparedConfig;
use super::recorded_request::{KnownRequest, NoHeaders, RequestPaths};
use super::verdict::Unknown;
use crate::candidate::PathTest;
use crate::explain::{HostVerdict, MatchVerdict};
use crate::host::CompiledHost;
use crate::matched::Matched;
use crate::rule::CompiledRule;

/// What serves a request, if no earlier candidate does.
#[derive(Clone, Copy)]
pub(super) struct PossibleRule<'s> {
    /// Its conditions on unknown parts of the request; `None` if it certainly applies.
    pub(super) when: Option<&'s Match>,
    /// The rule; `None` is a 404.
    pub(super) serving_rule: Option<ServingRule<'s>>,
}

/// A rule that serves a request.
#[derive(Clone, Copy)]
pub(super) struct ServingRule<'s> {
    pub(super) host: &'s CompiledHost,
    pub(super) rule: &'s CompiledRule,
    /// As in [`Matched::Rule`].
    pub(super) prefix: usize,
}

impl PossibleRule<'_> {
    const NONE: Self = PossibleRule { when: None, serving_rule: None };

    /// What decides whether it serves the request.
    pub(super) fn depends_on(&self) -> Option<Unknown> {
        let conditions = self.when?;
        Some(match () {
            () if !conditions.headers.is_empty() => Unknown::Headers,
            () if !conditions.query.is_empty() => Unknown::Query,
            () => Unknown::Cookies,
        })
    }

    /// Whether its conditions on unknown parts are the same.
    fn asks_for(&self, other: &Match) -> bool {
        self.when.is_some_and(|conditions| {
            conditions.headers == other.headers
                && conditions.query == other.query
                && conditions.cookies == other.cookies
        })
    }
}

/// The candidates of a route table. Only the last one certainly serves a request.
pub(super) fn candidates<'s>(
    side: &ComparedConfig<'s>,
    listener: &Listener,
    request: &RequestPaths<'_>,
) -> Vec<PossibleRule<'s>> {
    let snapshot = side.snapshot;
    let Some(table) = snapshot.table_of(listener) else { return vec![PossibleRule::NONE] };
    let KnownRequest { host, has_query, .. } = *request.known_request;
    let fields = NoHeaders::default();
    let request_fields = request.request(&fields);
    let matched = snapshot.lookup(table, &request_fields);
    let asks_for_query =
        has_query && snapshot.covering(table, host).into_iter().any(|host| side.asks_for_query(host));
    if !fields.were_read() && !asks_for_query {
        let serving_rule = match matched {
            Matched::Rule { host, rule, prefix } => Some(ServingRule { host, rule, prefix }),
            Matched::NoRule(_) | Matched::NoHost => None,
        };
        return vec![PossibleRule { when: None, serving_rule }];
    }
    let mut found = Vec::new();
    let mut hosts = snapshot.explain(table, &request_fields).hosts;
    // Of two tables, possible matches of the losing one come before what is certain.
    hosts.sort_by_key(|step| step.verdict == HostVerdict::Serves);
    for step in hosts {
        for considered in step.matches {
            let is_certain = match considered.verdict {
                MatchVerdict::Wins => true,
                MatchVerdict::Header(_) | MatchVerdict::Query(_) | MatchVerdict::Cookie(_) => false,
                _ => continue,
            };
            if !has_query && !considered.source.query.is_empty() {
                continue;
            }
            let path = step.host.path(&request_fields);
            let covered =
                PathTest::compiled(&considered.source.path).ok().and_then(|test| test.covered(path));
            let prefix = covered.unwrap_or_default();
            let to = Some(ServingRule { host: step.host, rule: considered.rule, prefix });
            found.push(PossibleRule { when: (!is_certain).then_some(considered.source), serving_rule: to });
            if is_certain {
                return found;
            }
        }
    }
    found.push(PossibleRule::NONE);
    found
}

/// The indices of the candidates that may have served the request: by the recorded rule, and by the endpoint if several
/// come from the same field, as with a canary.
pub(super) fn that_served(
    side: &ComparedConfig<'_>,
    candidates: &[PossibleRule<'_>],
    request: &KnownRequest<'_>,
) -> Vec<usize> {
    let all = || (0..candidates.len()).collect::<Vec<_>>();
    let that = |is: &dyn Fn(&PossibleRule<'_>) -> bool| -> Vec<usize> {
        candidates.iter().enumerate().filter(|(_, it)| is(it)).map(|(number, _)| number).collect()
    };
    if candidates.len() == 1 {
        return all();
    }
    let by_rule = match &request.rule {
        Some(rule) => that(&|it| it.serving_rule.is_some_and(|to| rule.is_from(&to.rule.rule().origin))),
        None => that(&|it| it.serving_rule.is_none()),
    };
    if by_rule.is_empty() {
        // The configuration was different then.
        return all();
    }
    let Some(endpoint) = request.endpoint.filter(|_| by_rule.len() > 1) else { return by_rule };
    let has_endpoint = |number: &&usize| {
        let to = candidates[**number].serving_rule;
        to.is_some_and(|to| {
            let mut backends = to.rule.slots().filter_map(|slot| side.snapshot.backend(slot));
            backends.any(|backend| backend.endpoints.iter().any(|it| it.address == endpoint))
        })
    };
    match by_rule.iter().filter(has_endpoint).copied().collect::<Vec<_>>() {
        narrowed if narrowed.len() == 1 => narrowed,
        _ => by_rule,
    }
}

/// The candidates that may serve the request after the change, if candidate `served` of `before` did: its conditions
/// hold, and those of the candidates before it do not.
pub(super) fn possible<'c, 's>(
    before: &[PossibleRule<'s>],
    served: usize,
    after: &'c [PossibleRule<'s>],
) -> Vec<&'c PossibleRule<'s>> {
    let mut possible = Vec::new();
    for candidate in after {
        let Some(when) = candidate.when else {
            possible.push(candidate);
            break;
        };
        if before[..served].iter().any(|it| it.asks_for(when)) {
            continue;
        }
        possible.push(candidate);
        if before[served].asks_for(when) {
            break;
        }
    }
    possible
}
