//! Compares two configurations by requests that were served.

use fairway_model::{HostPattern, Origin};

use super::candidates::{PossibleRule, candidates, possible, that_served};
use super::configuration::{ComparedConfig, HttpListener};
use super::difference;
use super::recorded_request::{KnownClient, KnownRequest, RequestPaths};
use super::treatment::{Treatment, TreatmentOutcome};
use super::verdict::{Unknown, Verdict};
use crate::snapshot::Snapshot;

/// Two configurations to compare.
pub struct Comparison<'s> {
    before: ComparedConfig<'s>,
    after: ComparedConfig<'s>,
}

/// The impact of a change on one request.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRequest<'s> {
    /// The rule that serves it before the change; `None` if there is none, or it is unknown.
    pub route: Option<ServedRoute<'s>>,
    /// The impact.
    pub verdict: Verdict,
}

/// A rule, identified for users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedRoute<'s> {
    /// The object and the field.
    pub origin: &'s Origin,
    /// The host.
    pub host: &'s HostPattern,
    /// The path as written in the object.
    pub path: &'s str,
}

impl<'s> Comparison<'s> {
    /// Compares what `before` serves with what `after` would serve. Values hidden in one of them must be hidden in the
    /// other, too.
    #[must_use]
    pub fn new(before: &'s Snapshot, after: &'s Snapshot) -> Self {
        Self { before: ComparedConfig::new(before), after: ComparedConfig::new(after) }
    }

    /// The same, if the change was read without some of the objects that its rules refer to: the impact on such rules
    /// is undecided.
    #[must_use]
    pub fn of_incomplete_objects(mut self) -> Self {
        self.after.lacks_objects = true;
        self
    }

    /// The impact on a request.
    #[must_use]
    pub fn compare(&self, known: &KnownRequest<'_>) -> ComparedRequest<'s> {
        let undecided = |unknown| ComparedRequest { route: None, verdict: Verdict::Undecided(unknown) };
        let Some(request) = RequestPaths::new(known) else { return undecided(Unknown::Text) };
        let Some(place) = self.arrival(&request) else { return undecided(Unknown::Listener) };
        let before = candidates(&self.before, place.listener, &request);
        let served = that_served(&self.before, &before, known);
        let route = match served.as_slice() {
            [served] => before[*served].serving_rule.map(|to| ServedRoute {
                origin: &to.rule.rule().origin,
                host: &to.host.key().host,
                path: &to.rule.rule().labels.path,
            }),
            _ => None,
        };
        let verdict = self.verdict(place, &before, &served, &request);
        ComparedRequest { route, verdict }
    }

    /// The listener that received the request; `None` if unknown.
    fn arrival(&self, request: &RequestPaths<'_>) -> Option<&HttpListener<'s>> {
        let known = request.known_request;
        if let Some(place) = known.listener.and_then(|name| self.before.listeners.get(name)) {
            return Some(place);
        }
        let speaking = self.before.speaking(known.over_tls);
        let serves_request = |listener: &&&HttpListener<'s>| {
            let all = candidates(&self.before, listener.listener, request);
            known.rule.is_some_and(|rule| {
                all.iter().any(|it| it.serving_rule.is_some_and(|to| rule.is_from(&to.rule.rule().origin)))
            })
        };
        let serving: Vec<_> = speaking.iter().filter(serves_request).copied().collect();
        match (speaking.as_slice(), serving.as_slice()) {
            ([place], _) | (_, [place]) => Some(*place),
            _ => None,
        }
    }

    /// The impact on a request that was served by one of the candidates `served` of `before`.
    fn verdict(
        &self,
        place: &HttpListener<'s>,
        before: &[PossibleRule<'s>],
        served: &[usize],
        request: &RequestPaths<'_>,
    ) -> Verdict {
        let known = request.known_request;
        let passed_through = || Treatment::without_rule(TreatmentOutcome::PassedThrough);
        let treat_before = |candidate: &PossibleRule<'s>| match self.before.passes_through(place, request) {
            true => passed_through(),
            false => {
                Treatment::for_request(&self.before, place, request, known.client, candidate.serving_rule)
            }
        };
        let Some(now) = self.after.instead_of(place.listener, known.host) else {
            let gone = Treatment::without_rule(TreatmentOutcome::NoListener);
            return served.first().map_or(Verdict::Same, |served| {
                difference::verdict(&treat_before(&before[*served]), &gone, known)
            });
        };
        let (blocked, blocked_now) = (&place.limits.blocked, &now.limits.blocked);
        if blocked != blocked_now && (blocked_now.is_some() || !known.forwarded) {
            return Verdict::Undecided(Unknown::Headers);
        }
        let trusts_others = place.limits.forwarded != now.limits.forwarded;
        let after = candidates(&self.after, now.listener, request);
        let mut verdicts = Vec::new();
        let mut unknown = None;
        for number in served {
            let treatment = treat_before(&before[*number]);
            unknown = unknown.or(before[*number].depends_on().filter(|_| served.len() > 1));
            for candidate in possible(before, *number, &after) {
                let treated = match self.after.passes_through(now, request) {
                    true => passed_through(),
                    false => {
                        let client = client_after(known, trusts_others, &before[*number], candidate);
                        Treatment::for_request(&self.after, now, request, client, candidate.serving_rule)
                    }
                };
                unknown = unknown.or(candidate.depends_on());
                verdicts.push(difference::verdict(&treatment, &treated, known));
            }
        }
        settled(verdicts, unknown.unwrap_or(Unknown::Headers))
    }
}

/// The client after a change: another peer may be trusted then.
fn client_after(
    known: &KnownRequest<'_>,
    trusts_others: bool,
    before: &PossibleRule<'_>,
    after: &PossibleRule<'_>,
) -> KnownClient {
    let believed =
        |rule: &PossibleRule<'_>| rule.serving_rule.and_then(|to| to.rule.rule().phases.client.clone());
    match trusts_others || believed(before) != believed(after) {
        true => KnownClient::UnrecordedAddress,
        false => known.client,
    }
}

/// Combines all possible verdicts; if they contradict each other, the result depends on `unknown`.
fn settled(verdicts: Vec<Verdict>, unknown: Unknown) -> Verdict {
    let is = |kind: fn(&Verdict) -> bool| verdicts.iter().all(kind);
    let agree = is(|it| matches!(it, Verdict::Same))
        || is(|it| matches!(it, Verdict::Settings(_)))
        || is(|it| matches!(it, Verdict::Otherwise(_)));
    let undecided = verdicts.iter().find(|it| matches!(it, Verdict::Undecided(_))).cloned();
    match undecided {
        Some(undecided) => undecided,
        None if agree => verdicts.into_iter().next().unwrap_or(Verdict::Same),
        None => Verdict::Undecided(unknown),
    }
}
