//! The rules that may serve a request of which neither headers nor query are known, in the order in which they are considered.

use fairway_model::{Listener, Match};

use super::arrival::Side;
use super::known::{KnownRequest, NoFields, Prepared};
use super::verdict::Unknown;
use crate::candidate::PathTest;
use crate::explain::{HostVerdict, MatchVerdict};
use crate::host::CompiledHost;
use crate::matched::Matched;
use crate::rule::CompiledRule;

/// What serves a request, if nothing before it does.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'s> {
    /// What it asks for of what is not known; `None` where it serves the request for certain.
    pub(super) when: Option<&'s Match>,
    /// The rule; `None` is 404.
    pub(super) to: Option<Found<'s>>,
}

/// A rule that serves a request.
#[derive(Clone, Copy)]
pub(super) struct Found<'s> {
    pub(super) host: &'s CompiledHost,
    pub(super) rule: &'s CompiledRule,
    /// As in [`Matched::Rule`].
    pub(super) prefix: usize,
}

impl Candidate<'_> {
    const NONE: Self = Candidate { when: None, to: None };

    /// What decides whether it serves the request.
    pub(super) fn depends_on(&self) -> Option<Unknown> {
        let of = self.when?;
        Some(match () {
            () if !of.headers.is_empty() => Unknown::Headers,
            () if !of.query.is_empty() => Unknown::Query,
            () => Unknown::Cookies,
        })
    }

    /// Whether it asks for the same of what is not known.
    fn asks_for(&self, other: &Match) -> bool {
        self.when.is_some_and(|of| {
            of.headers == other.headers && of.query == other.query && of.cookies == other.cookies
        })
    }
}

/// Those of a route table. Only the last one serves a request for certain.
pub(super) fn candidates<'s>(
    side: &Side<'s>,
    listener: &Listener,
    request: &Prepared<'_>,
) -> Vec<Candidate<'s>> {
    let snapshot = side.snapshot;
    let Some(table) = snapshot.table_of(listener) else { return vec![Candidate::NONE] };
    let KnownRequest { host, has_query, .. } = *request.known;
    let fields = NoFields::default();
    let asked = request.request(&fields);
    let matched = snapshot.lookup(table, &asked);
    let asks_for_query =
        has_query && snapshot.covering(table, host).into_iter().any(|host| side.asks_for_query(host));
    if !fields.were_asked_for() && !asks_for_query {
        let to = match matched {
            Matched::Rule { host, rule, prefix } => Some(Found { host, rule, prefix }),
            Matched::NoRule(_) | Matched::NoHost => None,
        };
        return vec![Candidate { when: None, to }];
    }
    let mut found = Vec::new();
    let mut hosts = snapshot.explain(table, &asked).hosts;
    // Of two tables, what the losing one may have comes before what is certain.
    hosts.sort_by_key(|step| step.verdict == HostVerdict::Serves);
    for step in hosts {
        for considered in step.matches {
            let is_certain = match considered.verdict {
                MatchVerdict::Wins => true,
                MatchVerdict::Header(_) | MatchVerdict::Query(_) | MatchVerdict::Cookie(_) => false,
                _ => continue,
            };
            if !has_query && !considered.of.query.is_empty() {
                continue;
            }
            let path = step.host.path(&asked);
            let covered = PathTest::compiled(&considered.of.path).ok().and_then(|test| test.covered(path));
            let prefix = covered.unwrap_or_default();
            let to = Some(Found { host: step.host, rule: considered.rule, prefix });
            found.push(Candidate { when: (!is_certain).then_some(considered.of), to });
            if is_certain {
                return found;
            }
        }
    }
    found.push(Candidate::NONE);
    found
}

/// The numbers of those that served the request, as far as is known: by the rule that is remembered, and where several come from the
/// same field, as those of a canary do, by the endpoint.
pub(super) fn that_served(
    side: &Side<'_>,
    candidates: &[Candidate<'_>],
    request: &KnownRequest<'_>,
) -> Vec<usize> {
    let all = || (0..candidates.len()).collect::<Vec<_>>();
    let that = |is: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<usize> {
        candidates.iter().enumerate().filter(|(_, it)| is(it)).map(|(number, _)| number).collect()
    };
    if candidates.len() == 1 {
        return all();
    }
    let by_rule = match &request.rule {
        Some(rule) => that(&|it| it.to.is_some_and(|to| rule.is_from(&to.rule.rule().origin))),
        None => that(&|it| it.to.is_none()),
    };
    if by_rule.is_empty() {
        // The configuration was another one then.
        return all();
    }
    let Some(endpoint) = request.endpoint.filter(|_| by_rule.len() > 1) else { return by_rule };
    let has_endpoint = |number: &&usize| {
        let to = candidates[**number].to;
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

/// Those that may serve the request after the change, where before it number `served` of `before` did: that one's conditions hold, and
/// those of the ones in front of it do not.
pub(super) fn possible<'c, 's>(
    before: &[Candidate<'s>],
    served: usize,
    after: &'c [Candidate<'s>],
) -> Vec<&'c Candidate<'s>> {
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
